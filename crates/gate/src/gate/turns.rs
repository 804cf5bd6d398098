//! Other plans for a time: by the time of day, and by volumes.

use std::collections::BTreeMap;

use super::{Gate, GateError};
use crate::calendar::{Moment, Turn};
use crate::change;
use crate::path::DataPath;
use crate::state::{GateState, Member};
use crate::table::PerDirection;
use crate::usage::Usage;

/// What the last look at the time and at the volumes found. Changes until the next one are decided by it, so that no subscriber is
/// under a plan for some seconds that its volume or the time of day forbids.
#[derive(Debug)]
pub(super) struct Look {
    at: Moment,
    /// Bytes of the month, by subscribers' numbers.
    volumes: Vec<PerDirection<u64>>,
    /// Plans that changes put in force or took back since, which nobody was told of yet.
    untold: BTreeMap<String, Option<Turn>>,
}

impl Look {
    fn new(state: &GateState, at: &Moment, usage: &Usage) -> Self {
        let mut volumes = Vec::new();
        if !usage.is_new() {
            volumes.resize(state.next as usize, PerDirection::default());
            for (name, member) in &state.members {
                if let Some(volume) = usage.of(name) {
                    volumes[member.number as usize] = volume.bytes;
                }
            }
        }
        Self {
            at: *at,
            volumes,
            untold: BTreeMap::new(),
        }
    }

    /// The plan in place of a subscriber's.
    fn turn(&self, state: &GateState, member: &Member) -> Option<Turn> {
        let plan = member.plan(state)?;
        let volume = self.volumes.get(member.number as usize);
        plan.terms
            .turn(&self.at, volume.copied().unwrap_or_default())
    }

    /// What must change for this state to be as the time and the volumes say.
    fn turns(&self, state: &GateState) -> Vec<(String, Option<Turn>)> {
        let wanted = |(name, member): (&String, &Member)| {
            let turn = self.turn(state, member);
            (turn != member.turn).then(|| (name.clone(), turn))
        };
        state.members.iter().filter_map(wanted).collect()
    }
}

impl<D: DataPath> Gate<D> {
    /// Puts other plans in force where the time of day or a volume says so, and takes them back where not any longer.
    /// Returns the subscribers whose plan changed, also those where another change did it since the last time.
    ///
    /// # Errors
    /// If the data path refuses.
    pub fn turn(
        &mut self,
        at: &Moment,
        usage: &Usage,
    ) -> Result<Vec<(String, Option<Turn>)>, GateError> {
        self.settle()?;
        let look = Look::new(&self.state, at, usage);
        let mut turns = look.turns(&self.state);
        if !turns.is_empty() {
            let next = change::turned(&self.state, &turns)?;
            // Some plans cannot be had, also not at the next look. Nothing is written for them alone.
            turns.retain(|(name, turn)| {
                let member = next.members.get(name);
                member.is_some_and(|member| member.turn == *turn)
            });
            if !turns.is_empty() {
                self.transact(next)?;
            }
        }
        let mut told = match &mut self.look {
            Some(last) => std::mem::take(&mut last.untold),
            None => BTreeMap::new(),
        };
        told.extend(turns);
        self.look = Some(look);
        Ok(told.into_iter().collect())
    }

    /// The plan in place of a subscriber's, if it is changed to this now.
    pub(super) fn turn_of(&self, old: &Member, member: &Member) -> Option<Turn> {
        match &self.look {
            Some(look) => look.turn(&self.state, member),
            // Nobody looks, or the first look is still to come.
            None => {
                let terms = |member: &Member| Some(member.plan(&self.state)?.terms.clone());
                let same = terms(old) == terms(member);
                member.turn.clone().filter(|_| same)
            }
        }
    }

    /// Makes a change of the whole state, with the plans that the time and the volumes say.
    pub(super) fn transact_as_looked(&mut self, mut next: GateState) -> Result<(), GateError> {
        let Some(look) = &self.look else {
            return self.transact(next);
        };
        let turns = look.turns(&next);
        if !turns.is_empty() {
            next = change::turned(&next, &turns)?;
        }
        let members = next.members.iter();
        let turned = members.filter_map(|(name, member)| {
            let old = self
                .state
                .members
                .get(name)
                .and_then(|old| old.turn.as_ref());
            (old != member.turn.as_ref()).then(|| (name.clone(), member.turn.clone()))
        });
        let turned: Vec<_> = turned.collect();
        self.transact(next)?;
        self.tell(turned);
        // Others may get the numbers of subscribers that are gone.
        for &number in &self.state.free {
            if let Some(look) = &mut self.look
                && let Some(volume) = look.volumes.get_mut(number as usize)
            {
                *volume = PerDirection::default();
            }
        }
        Ok(())
    }

    /// Remembers for the next look which plans a change put in force or took back.
    pub(super) fn tell(&mut self, turned: impl IntoIterator<Item = (String, Option<Turn>)>) {
        if let Some(look) = &mut self.look {
            look.untold.extend(turned);
        }
    }
}
