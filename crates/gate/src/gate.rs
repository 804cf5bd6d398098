//! The running gate: a data path, its state, and how both are changed.
//!
//! # What is written when
//! The data path outlives the process. So each change is written to the state folder before the data
//! path is changed:
//! - A change of the whole (`up`, `reload`) writes `next.json`, then changes the data path, then renames
//!   `next.json` to `state.json`. A process that finds a `next.json` makes that change again, from
//!   `state.json` on. All steps can be done twice.
//! - A change of one subscriber (`set`, `reset`) writes a line of the journal, then changes the data
//!   path. A process that finds a journal makes the changes of its lines again. An incomplete line
//!   was not begun.
//! - A change that fails is undone. `undo.json` has the state that it led to and the state before it,
//!   with newer versions. Then the data path is changed, `state.json` is written, and the other
//!   files are removed. A process that finds an `undo.json` does that again, even if there are
//!   other files.
//!
//! A lock file keeps other processes from changing the same gate.

mod apply;
mod error;
mod lifecycle;
mod pair;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod turns;
mod view;

pub use crate::change::Report;
pub use crate::state::Setting;
pub use error::GateError;
pub use view::{View, pins};

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use tidegate_limiter::Nanos;

use crate::calendar::Turn;
use crate::change;
use crate::config::Config;
use crate::live::MatchChange;
use crate::look::Look;
use crate::path::{DataPath, Renewal};
use crate::reading::{Overview, Subscriber};
use crate::state::{GateState, Member};
use error::path_error;
use store::{Store, Undo};

/// Where a gate is kept.
#[derive(Debug, Clone, Copy)]
pub struct Folders<'a> {
    /// The folder of its data path, in a BPF file system.
    pub pins: &'a Path,
    /// The folder of its state, journal and lock.
    pub state: &'a Path,
}

impl<'a> From<&'a Config> for Folders<'a> {
    fn from(config: &'a Config) -> Self {
        Self {
            pins: &config.pins,
            state: &config.state,
        }
    }
}

/// A gate that is up. Dropping it leaves it up: the limits stay in force.
#[derive(Debug)]
pub struct Gate<D: DataPath> {
    path: D,
    state: GateState,
    store: Store,
    /// Number of lines of the journal.
    entries: usize,
    /// A change that could neither be made nor undone.
    pending: Option<Box<Undo>>,
    /// Limiters that went on where those of the other gate of a pair were, and the time of the latest packet there.
    taken: HashMap<u32, Nanos>,
    /// The time and the volumes as of the last look; none before the first one.
    look: Option<Look>,
    /// What came of the programs of another version when this process took the gate over, until it is reported.
    renewal: Renewal,
    /// What was last told of subscribers whose plan another change has turned since.
    untold: BTreeMap<String, Option<Turn>>,
}

/// An interface that the gate should be attached to and is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The interface's name.
    pub interface: String,
    /// Why the data path refuses.
    pub why: String,
}

/// Whether the device of an interface has a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The interface's name.
    pub interface: String,
    /// Whether it has one.
    pub up: bool,
}

impl<D: DataPath> Gate<D> {
    /// Applies a configuration. Unchanged parts of the gate are not touched.
    ///
    /// # Errors
    /// If the data path refuses. Everything is as before then, unless the error says otherwise.
    pub fn reload(&mut self, config: &Config) -> Result<Report, GateError> {
        self.settle()?;
        if config.pins != self.state.pins {
            return Err(GateError::Fixed { key: "pins" });
        }
        if config.state != self.store.folder() {
            return Err(GateError::Fixed { key: "state" });
        }
        let (mut next, mut report) = change::next_by(&self.state, config, self.look.as_ref())?;
        Self::place(&mut next);
        Self::has_schemes(config)?;
        let attached = self.path.attachments();
        for attachment in &next.attachments {
            if !self.state.attachments.contains(attachment) {
                D::check(attachment).map_err(|source| path_error::<D>(&self.state.pins, source))?;
            }
        }
        let gone = attached
            .iter()
            .filter(|old| !next.attachments.contains(old));
        report.detached = gone.cloned().collect();
        self.note_turns(&next);
        self.transact(next)?;
        let renewal = std::mem::take(&mut self.renewal);
        (report.replaced, report.kept) = (renewal.replaced, renewal.kept);
        let missing = self.heal().into_iter();
        report.missing = missing.map(|place| place.interface).collect();
        report.attached = self.path.attachments();
        report.attached.retain(|place| !attached.contains(place));
        Ok(report)
    }

    /// Changes the limits of a subscriber until they are reset, or the file changes the subscriber.
    /// Replaces an earlier live change.
    ///
    /// # Errors
    /// If there is no such subscriber or plan, or a rate is out of range.
    pub fn set(&mut self, name: &str, setting: &Setting) -> Result<(), GateError> {
        if *setting == Setting::default() {
            let message = "nothing is set: give a plan, a rate or a key of the plan".to_owned();
            return Err(GateError::Setting(message));
        }
        self.change_one(name, Some(setting), &[], None)
    }

    /// Changes what a subscriber's packets are recognised by, and replaces its earlier live change if there is
    /// another. It loses or gives back what it shares with others.
    ///
    /// # Errors
    /// If there is no such subscriber or plan, a rate is out of range, or there is no room.
    pub fn adjust(
        &mut self,
        name: &str,
        setting: Option<&Setting>,
        moves: &[MatchChange],
    ) -> Result<(), GateError> {
        self.change_one(name, setting, moves, None)
    }

    /// Returns a subscriber to the limits of the file.
    ///
    /// # Errors
    /// If there is no such subscriber.
    pub fn reset(&mut self, name: &str) -> Result<(), GateError> {
        self.change_one(name, None, &[], None)
    }

    /// The gate without its subscribers.
    pub fn overview(&self) -> Overview {
        Overview::of(&self.state, &self.path, self.is_unsettled())
    }

    /// A subscriber, as it is limited now.
    ///
    /// # Errors
    /// If there is no such subscriber.
    pub fn subscriber(&self, name: &str) -> Result<Subscriber, GateError> {
        let member = self.member(name)?;
        Ok(Subscriber::of(&self.state, name, member))
    }

    /// The state of the gate.
    pub fn state(&self) -> &GateState {
        &self.state
    }

    /// Whether a change could neither be completed nor undone. The next change tries it again.
    pub fn is_unsettled(&self) -> bool {
        self.pending.is_some()
    }

    /// Notes where this data path takes the packets of a state that was made from a file.
    fn place(state: &mut GateState) {
        state.network = D::network();
        for attachment in &mut state.attachments {
            attachment.hook = D::hook(attachment.hook);
        }
    }

    /// The data path.
    pub fn path(&self) -> &D {
        &self.path
    }

    /// Attaches to interfaces that came back. Returns those that are still missing, and why.
    pub fn heal(&mut self) -> Vec<Missing> {
        let attached = self.path.attachments();
        let mut missing = Vec::new();
        for attachment in &self.state.attachments {
            if attached.contains(attachment) {
                continue;
            }
            if let Err(error) = self.path.attach(attachment) {
                missing.push(Missing {
                    interface: attachment.interface.clone(),
                    why: error.to_string(),
                });
            }
        }
        missing
    }

    /// Whether the devices have a link, each once; none where the kernel has the interfaces.
    pub fn links(&self) -> Vec<Link> {
        let all = self.state.attachments.iter().filter_map(|attachment| {
            let (interface, up) = (attachment.interface.clone(), self.path.link(attachment)?);
            Some(Link { interface, up })
        });
        let mut all: Vec<Link> = all.collect();
        all.sort_unstable_by(|one, other| one.interface.cmp(&other.interface));
        all.dedup_by(|one, other| one.interface == other.interface);
        all
    }

    fn member(&self, name: &str) -> Result<&Member, GateError> {
        self.state.members.get(name).ok_or_else(|| {
            let names = self.state.members.keys().map(String::as_str);
            GateError::Subscriber {
                name: name.to_owned(),
                meant: tidegate_notation::instead(name, names),
            }
        })
    }
}
