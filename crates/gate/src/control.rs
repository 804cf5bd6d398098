//! The interface of a gate for commands, the API, metrics and `top`, in any process.

mod local;
mod shared;

use std::path::Path;
use std::sync::Arc;

use crate::binding::BindingChange;
use crate::calendar::{Moment, Turn};
use crate::change::Report;
use crate::flow::Flow;
use crate::gate::{Link, Missing, Setting};
use crate::line::Line;
use crate::live::MatchChange;
use crate::pair::{Imported, SharedChange};
use crate::reading::{Overview, Reading, Roster, Subscriber};
use crate::table::{LimiterState, Match, PerDirection};
use crate::usage::SharedUsage;

pub use local::{LocalGate, pins};
pub use shared::{Everything, Reloads, SharedGate};

/// Why a gate did not do what it was asked. The text says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No gate is up.
    #[error("{0}")]
    Down(String),
    /// There is no such subscriber.
    #[error("{0}")]
    Unknown(String),
    /// The request is wrong: there is no such plan, or the file has errors.
    #[error("{0}")]
    Invalid(String),
    /// The kernel or the file system refused.
    #[error("{0}")]
    Rights(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl ControlError {
    /// There is no subscriber of this name; one of these may be meant.
    pub fn nobody<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let meant = tidegate_notation::instead(name, known);
        Self::Unknown(format!("there is no subscriber `{name}`{meant}"))
    }
}

/// What to change of one subscriber, live.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// Return to the configuration's plan and rates before anything else.
    pub reset: bool,
    /// Take back rates that were set before anything else, and keys of the plan that do not fit the new plan, as a new plan by
    /// RADIUS does. No other change of the subscriber ends.
    pub reset_rates: bool,
    /// What to set; `None` leaves as it is.
    pub setting: Setting,
    /// What to change of where its packets come from.
    pub from: BindingChange,
    /// What to change of its addresses and tags. They stay when the rest is reset.
    pub moves: Vec<MatchChange>,
}

/// A running gate.
pub trait Control: Send {
    /// The gate without its subscribers.
    ///
    /// # Errors
    /// If the gate cannot be read.
    fn overview(&mut self) -> Result<Overview, ControlError>;

    /// All subscribers. The allocation stays the same as long as nothing changes.
    ///
    /// # Errors
    /// If the gate cannot be read.
    fn roster(&mut self) -> Result<Arc<Roster>, ControlError>;

    /// One subscriber.
    ///
    /// # Errors
    /// If there is no such subscriber, or the gate cannot be read.
    fn subscriber(&mut self, name: &str) -> Result<Subscriber, ControlError> {
        let roster = self.roster()?;
        let known = roster.subscribers.iter().map(|one| &*one.name);
        let index = (roster.find(name)).ok_or_else(|| ControlError::nobody(name, known))?;
        Ok(roster.subscribers[index].clone())
    }

    /// The counters of all subscribers.
    ///
    /// # Errors
    /// If the gate cannot be read.
    fn read(&mut self) -> Result<Reading, ControlError>;

    /// The counters and queues of one limiter, by its number.
    ///
    /// # Errors
    /// If the gate cannot be read.
    fn limiter(&mut self, number: u32) -> Result<LimiterState, ControlError>;

    /// What the line of a subscriber feels, and its score; `None` if it is not known.
    ///
    /// # Errors
    /// If the gate cannot be read.
    fn line(
        &mut self,
        _subscriber: &Subscriber,
    ) -> Result<Option<(Line, Option<f64>)>, ControlError> {
        Ok(None)
    }

    /// The watched flows of a subscriber.
    ///
    /// # Errors
    /// If there is no such subscriber, nothing is watched, or the gate cannot be read.
    fn flows(&mut self, name: &str) -> Result<Vec<Flow>, ControlError>;

    /// The name of the subscriber that has exactly this address, prefix or tag.
    ///
    /// # Errors
    /// If nobody has it, or the gate cannot be read.
    fn holder(&mut self, what: &Match) -> Result<String, ControlError> {
        let roster = self.roster()?;
        let mut all = roster.subscribers.iter();
        all.find(|one| one.matches.contains(what))
            .map(|one| one.name.to_string())
            .ok_or_else(|| ControlError::Unknown(format!("no subscriber has {what}")))
    }

    /// The subscriber that access servers call by this name: its own, or one of its users.
    ///
    /// # Errors
    /// If there is none, or the gate cannot be read.
    fn user(&mut self, user: &str) -> Result<String, ControlError> {
        let found = self.roster()?.find(user).is_some();
        let unknown = || ControlError::Unknown(format!("no subscriber has the user `{user}`"));
        found.then(|| user.to_owned()).ok_or_else(unknown)
    }

    /// What a subscriber has that it does not have in the file.
    ///
    /// # Errors
    /// If there is no such subscriber, or the gate cannot be read.
    fn lent(&mut self, name: &str) -> Result<Vec<Match>, ControlError> {
        Ok(self.subscriber(name)?.matches)
    }

    /// Changes one subscriber until it is reset, or changes in the file.
    ///
    /// # Errors
    /// If there is no such subscriber or plan, a rate is out of range, or the data path refuses.
    fn set(&mut self, name: &str, adjustment: &Adjustment) -> Result<(), ControlError>;

    /// Puts other plans in force where the time of day or a volume says so, and takes them back where not any longer.
    /// Returns the subscribers whose plan changed.
    ///
    /// # Errors
    /// If the data path refuses.
    fn turn(
        &mut self,
        at: &Moment,
        usage: &SharedUsage,
    ) -> Result<Vec<(String, Option<Turn>)>, ControlError>;

    /// Reads the configuration's file again, or another one from now on, and applies the difference. Lines of
    /// imported files with mistakes are skipped if all files are to be read leniently.
    ///
    /// # Errors
    /// If the file has errors, or the data path refuses.
    fn reload(&mut self, file: Option<&Path>, lenient: bool) -> Result<Report, ControlError>;

    /// What the other gate of a pair asks for. A gate that is only watched has nothing to say. If it `changes` subscribers, they
    /// are read again.
    ///
    /// # Errors
    /// If this process may not change the gate.
    fn pair(&mut self, _changes: bool) -> Result<&mut dyn PairControl, ControlError> {
        Err(ControlError::Other(
            "this gate cannot be one of a pair".into(),
        ))
    }

    /// Attaches to interfaces that came back. Returns those that are still missing, and why.
    fn heal(&mut self) -> Vec<Missing>;

    /// Whether the devices have a link; none where the kernel has the interfaces.
    fn links(&mut self) -> Vec<Link> {
        Vec::new()
    }
}

/// A gate as one of a pair.
pub trait PairControl {
    /// Live changes later than a stamp, the oldest first.
    fn changes_since(&self, stamp: u64) -> Vec<SharedChange>;

    /// Makes a live change of the other gate, if it is later than the one here. Returns whether it is.
    ///
    /// # Errors
    /// If there is no such subscriber or plan, or no room.
    fn adopt(&mut self, change: &SharedChange) -> Result<bool, ControlError>;

    /// The secret key of the flow hash.
    fn hash(&self) -> [u64; 2];

    /// Takes over the key of the other gate.
    ///
    /// # Errors
    /// If the data path refuses.
    fn set_hash(&mut self, hash: [u64; 2]) -> Result<(), ControlError>;

    /// The limiters that had packets within this time, in nanoseconds.
    ///
    /// # Errors
    /// If the data path cannot be read.
    fn export(&self, within: u64) -> Result<Vec<u8>, ControlError>;

    /// Lets limiters go on where those of the other gate are, if these had packets later.
    ///
    /// # Errors
    /// If the bytes are no limiters of the same version, or the data path refuses.
    fn import(&mut self, bytes: &[u8]) -> Result<Imported, ControlError>;
}

/// A subscriber, as it is now.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// The subscriber.
    pub subscriber: Subscriber,
    /// Its limiters.
    pub states: PerDirection<LimiterState>,
    /// What its line feels, and its score.
    pub line: Option<(Line, Option<f64>)>,
}

/// A subscriber, and its limiters as they are now.
///
/// # Errors
/// If there is no such subscriber, or the gate cannot be read.
pub fn inspect(control: &mut dyn Control, name: &str) -> Result<Inspected, ControlError> {
    let subscriber = control.subscriber(name)?;
    let states = PerDirection {
        down: control.limiter(subscriber.limits.down.limiter)?,
        up: control.limiter(subscriber.limits.up.limiter)?,
    };
    let line = control.line(&subscriber)?;
    Ok(Inspected {
        subscriber,
        states,
        line,
    })
}
