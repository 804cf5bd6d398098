//! The running gate: a data path, what it holds, and how it is changed.
//!
//! # What is written when
//! The data path outlives the process, so what is in it is written down before it is changed:
//! - a change of the whole (`up`, `reload`): `next.json`; the data path; then `next.json` is renamed to
//!   `state.json`. Whoever finds a `next.json` does that change again from the state before it: all
//!   parts of it may be done twice.
//! - a change of one subscriber (`set`, `reset`): a line of the journal; the data path. Whoever finds a
//!   journal does its lines again. A line that is not whole was not begun.
//! - a change that fails is undone: `undo.json`, with where it led and the state before it, with newer
//!   versions; the data path; `state.json`, the state before; then the others are removed. Whoever
//!   finds an `undo.json` does that again, whatever else there is.
//!
//! A lock file keeps others from changing the same gate.

mod apply;
mod error;
mod lifecycle;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod view;

pub use crate::change::Report;
pub use crate::state::Setting;
pub use error::GateError;
pub use view::{View, pins};

use crate::change;
use crate::config::Config;
use crate::path::DataPath;
use crate::reading::{Overview, Subscriber};
use crate::state::{Member, State};
use error::path_error;
use store::{Store, Undo};

/// A gate that is up. Dropping it leaves it up: limits hold without it.
#[derive(Debug)]
pub struct Gate<D: DataPath> {
    path: D,
    state: State,
    store: Store,
    /// Lines of the journal.
    entries: usize,
    /// A change that could neither be made nor undone: from where, and to where.
    pending: Option<Box<Undo>>,
}

/// A place where packets should be taken and are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The interface's name.
    pub interface: String,
    /// What the data path says to it.
    pub why: String,
}

impl<D: DataPath> Gate<D> {
    /// Brings the gate in line with a configuration: what is the same is not touched.
    ///
    /// # Errors
    /// If the data path would not have it: all is as before then, unless the error says otherwise.
    pub fn reload(&mut self, config: &Config) -> Result<Report, GateError> {
        self.settle()?;
        if config.pins != self.state.pins {
            return Err(GateError::Fixed { key: "pins" });
        }
        if config.state != self.store.folder() {
            return Err(GateError::Fixed { key: "state" });
        }
        let (next, mut report) = change::next(&self.state, config)?;
        let attached = self.path.attachments();
        for attachment in &next.attachments {
            if !self.state.attachments.contains(attachment) {
                D::check(attachment).map_err(|source| path_error(&self.state.pins, source))?;
            }
        }
        let gone = attached
            .iter()
            .filter(|old| !next.attachments.contains(old));
        report.detached = gone.cloned().collect();
        self.transact(next)?;
        let missing = self.heal().into_iter();
        report.missing = missing.map(|place| place.interface).collect();
        report.attached = self.path.attachments();
        report.attached.retain(|place| !attached.contains(place));
        Ok(report)
    }

    /// Limits a subscriber otherwise, until it is reset or changes in the file. Replaces what was set
    /// before.
    ///
    /// # Errors
    /// If there is no such subscriber or plan, or the limits are none that a limiter takes.
    pub fn set(&mut self, name: &str, setting: &Setting) -> Result<(), GateError> {
        if *setting == Setting::default() {
            let message = "nothing is set: give a plan or a rate".to_owned();
            return Err(GateError::Setting(message));
        }
        self.change_one(name, Some(setting))
    }

    /// Limits a subscriber as the file says.
    ///
    /// # Errors
    /// If there is no such subscriber.
    pub fn reset(&mut self, name: &str) -> Result<(), GateError> {
        self.change_one(name, None)
    }

    /// The gate but for its subscribers.
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

    /// What the gate holds, by name and number.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether a change could be made neither whole nor undone; it is tried again with the next one.
    pub fn is_unsettled(&self) -> bool {
        self.pending.is_some()
    }

    /// Where it is held.
    pub fn path(&self) -> &D {
        &self.path
    }

    /// Attaches where packets should be taken and are not: an interface may have come back. Returns
    /// where they still are not, and why.
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
