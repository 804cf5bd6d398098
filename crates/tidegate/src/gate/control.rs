//! What commands, API, metrics and `top` ask of a gate, whoever runs it.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_gate::gate::Missing;
use tidegate_gate::table::{Attachment, LimiterState};
use tidegate_limiter::Rate;
use utoipa::ToSchema;

use super::reading::{Entry, Reading, Roster};
use super::view::Attached;

/// Why a gate did not do what it was asked. The text says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No gate is up.
    #[error("{0}")]
    Down(String),
    /// It does not know the subscriber.
    #[error("{0}")]
    Unknown(String),
    /// What was asked for is wrong: a plan that is not there, a file with errors.
    #[error("{0}")]
    Invalid(String),
    /// The kernel or the file system does not let us.
    #[error("{0}")]
    Rights(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// What to change of one subscriber, live. `None` leaves as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// As the file has it, before anything else.
    pub reset: bool,
    /// Another plan, by name.
    pub plan: Option<String>,
    /// Another rate down.
    pub down: Option<Rate>,
    /// Another rate up.
    pub up: Option<Rate>,
}

/// What a reload did.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// How many subscribers are new.
    pub added: u64,
    /// How many are no more.
    pub removed: u64,
    /// How many are limited otherwise than before.
    pub limited: u64,
    /// How many are told by other addresses or tags than before.
    pub moved: u64,
    /// How many were not touched.
    pub unchanged: u64,
    /// Subscribers that were set live, and are as the file has them now, since the file changed.
    pub reset: Vec<String>,
    /// Where packets are taken now.
    pub attached: Vec<Attached>,
    /// Where they no longer are.
    pub detached: Vec<Attached>,
    /// Where they should be, and the interface is not there or does not let us.
    pub missing: Vec<String>,
    /// Whether accounting changed, or what becomes of unknown traffic.
    pub settings: bool,
}

/// The gate as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// The configuration's file.
    pub file: String,
    /// Where packets are taken, or should be, and whether they are.
    pub attachments: Vec<(Attachment, bool)>,
    /// How many plans the file has.
    pub plans: u64,
    /// A change could be made neither whole nor undone; it is tried again with the next one.
    pub unsettled: bool,
}

/// A running gate.
pub trait Control: Send {
    /// What there is but subscribers.
    fn overview(&mut self) -> Result<Overview, Failure>;

    /// Who is limited and how: the same allocation as long as nothing changed.
    fn roster(&mut self) -> Result<Arc<Roster>, Failure>;

    /// Who one is, and how limited.
    fn entry(&mut self, name: &str) -> Result<Entry, Failure> {
        let roster = self.roster()?;
        let index = roster
            .find(name)
            .ok_or_else(|| Failure::Unknown(format!("there is no subscriber `{name}`")))?;
        Ok(roster.entries[index].clone())
    }

    /// The counters of everybody.
    fn read(&mut self) -> Result<Reading, Failure>;

    /// The queues of one limiter, by its number.
    fn limiter(&mut self, number: u32) -> Result<LimiterState, Failure>;

    /// Changes one subscriber until it is reset, or changes in the file.
    fn set(&mut self, name: &str, change: &Change) -> Result<(), Failure>;

    /// Reads the file again (or another from now on), and applies the difference.
    fn reload(&mut self, file: Option<&Path>) -> Result<Reloaded, Failure>;

    /// Takes packets again from interfaces that came back; where they are not still, and why.
    fn heal(&mut self) -> Vec<Missing>;
}

/// A subscriber, and its limiters as they are.
pub fn subscriber(
    control: &mut dyn Control,
    name: &str,
) -> Result<(Entry, [Option<LimiterState>; 2]), Failure> {
    let entry = control.entry(name)?;
    let mut states = [None, None];
    for (state, limit) in states.iter_mut().zip(&entry.limits) {
        if let Some(limit) = limit {
            *state = Some(control.limiter(limit.limiter)?);
        }
    }
    Ok((entry, states))
}
