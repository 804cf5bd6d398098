//! What the last look at the time and at the volumes found.

use crate::calendar::{Moment, Turn};
use crate::state::{GateState, Setting};
use crate::subscriber::Declaration;
use crate::usage::SharedUsage;

/// The last look at the time and at the volumes. Changes until the next one are decided by it, so that no subscriber is under a plan for some
/// seconds that its volume or the time of day forbids.
#[derive(Debug)]
pub(crate) struct Look {
    at: Moment,
    usage: SharedUsage,
}

impl Look {
    pub fn new(at: Moment, usage: SharedUsage) -> Self {
        Self { at, usage }
    }

    /// The plan in place of a subscriber's, if it has this entry in the file and this live change.
    pub fn turn(
        &self,
        state: &GateState,
        name: &str,
        declared: &Declaration,
        setting: Option<&Setting>,
    ) -> Option<Turn> {
        let terms = state.terms_of(declared, setting)?;
        if terms.is_empty() {
            return None;
        }
        let volume = self.usage.lock().of(name);
        let bytes = volume.map_or_else(Default::default, |volume| volume.bytes);
        terms.turn(&self.at, bytes)
    }
}
