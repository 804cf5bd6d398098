//! Other plans for a time: by the time of day, and by volumes.

use super::{Gate, GateError};
use crate::calendar::{Moment, Turn};
use crate::change;
use crate::look::Look;
use crate::path::DataPath;
use crate::state::{GateState, Member};
use crate::usage::SharedUsage;

impl<D: DataPath> Gate<D> {
    /// Puts other plans in force where the time of day or a volume says so, and takes them back where not any longer.
    /// Returns the subscribers whose plan changed, also those where another change did it since the last time. Changes until the next time are
    /// decided by this time and by the volumes.
    ///
    /// # Errors
    /// If the data path refuses.
    pub fn turn(
        &mut self,
        at: &Moment,
        usage: &SharedUsage,
    ) -> Result<Vec<(String, Option<Turn>)>, GateError> {
        self.settle()?;
        let look = Look::new(*at, usage.clone());
        let wanted = |(name, member): (&String, &Member)| {
            let turn = look.turn(&self.state, name, &member.declared, member.setting.as_ref());
            (turn != member.turn).then(|| (name.clone(), turn))
        };
        let turns: Vec<_> = self.state.members.iter().filter_map(wanted).collect();
        self.look = Some(look);
        if !turns.is_empty() {
            let next = change::turned(&self.state, &turns)?;
            // Some plans cannot be had, also not at the next look. Nothing is written for them alone.
            if self.note_turns(&next) {
                self.transact(next)?;
            }
        }
        let members = &self.state.members;
        let untold = std::mem::take(&mut self.untold).into_iter();
        let changed = untold.filter_map(|(name, told)| {
            let now = &members.get(&name)?.turn;
            (*now != told).then(|| (name, now.clone()))
        });
        Ok(changed.collect())
    }

    /// Compares the plans in force with those of this state, and notes each that differs. Returns whether any does.
    pub(super) fn note_turns(&mut self, next: &GateState) -> bool {
        let mut any = false;
        for (name, member) in &next.members {
            let old = self.state.members.get(name);
            let old = old.and_then(|old| old.turn.as_ref());
            if old != member.turn.as_ref() {
                any = true;
                let old = old.cloned();
                self.note_turn(name, old);
            }
        }
        any
    }

    /// Remembers that this was in force for a subscriber when its plan was last told, unless something was remembered before.
    pub(super) fn note_turn(&mut self, name: &str, old: Option<Turn>) {
        self.untold.entry(name.to_owned()).or_insert(old);
    }

    /// The plans that may be in force in place of a subscriber's when it is changed to this: the first that can be had is, or else its own.
    pub(super) fn turns_of(&self, name: &str, old: &Member, member: &Member) -> Vec<Option<Turn>> {
        let looked = self.look.as_ref();
        let looked = looked.map(|look| {
            let setting = member.setting.as_ref();
            look.turn(&self.state, name, &member.declared, setting)
        });
        // Without a look, and where the plan of the last look cannot be had, what is in force stays if the terms do.
        let kept =
            (old.terms(&self.state) == member.terms(&self.state)).then(|| member.turn.clone());
        looked.into_iter().chain(kept).collect()
    }
}
