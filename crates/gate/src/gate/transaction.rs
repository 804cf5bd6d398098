//! Changes of a gate's state: each is written down, made, and undone if it fails.

use std::sync::Arc;

use super::apply::{apply, make_room};
use super::store::{Entry, Undo};
use super::{Gate, GateError, Setting};
use crate::change::{self, Change, ChangeError};
use crate::limits::Limits;
use crate::path::DataPath;
use crate::state::{GateState, Member};
use crate::table::{Direction, PerDirection};

impl<D: DataPath> Gate<D> {
    /// Lines of the journal before the state is written whole again.
    pub(super) const MOST_ENTRIES: usize = 1000;

    /// Changes what is set for one subscriber.
    pub(super) fn change_one(
        &mut self,
        name: &str,
        setting: Option<&Setting>,
    ) -> Result<(), GateError> {
        self.settle()?;
        if self.entries >= Self::MOST_ENTRIES {
            let mut whole = self.state.clone();
            whole.serial += 1;
            self.transact(whole)?;
        }
        let old = self.member(name)?.clone();
        let mut member = old.clone();
        member.setting = setting.cloned();
        let wanted = self
            .state
            .set_limits(&member.declared, setting.unwrap_or(&Setting::default()))
            .map_err(GateError::Setting)?;
        let mut brought = Vec::new();
        let acquired = PerDirection::new(|direction| self.state.plans.acquire(&wanted[direction]));
        let Some((down, up)) = acquired.down.zip(acquired.up) else {
            for number in acquired.values().into_iter().flatten() {
                self.state.plans.release(number);
            }
            self.state.plans.settle();
            return Err(ChangeError::Plans.into());
        };
        for (direction, number) in [(Direction::Down, down), (Direction::Up, up)] {
            let (lane, limits) = (&mut member.lanes[direction], &wanted[direction]);
            if number != lane.plan {
                lane.version = lane.version.wrapping_add(1);
                lane.plan = number;
                brought.push((number, Arc::clone(limits)));
            }
        }
        let made = self.put_one(name, &member, &brought);
        // Either the old plans or the new ones are no longer used.
        let over = if made.is_ok() { &old } else { &member };
        for lane in over.lanes.values() {
            self.state.plans.release(lane.plan);
        }
        self.state.plans.settle();
        made
    }

    /// Writes a line of the journal and makes its change. Undoes it if it fails.
    fn put_one(
        &mut self,
        name: &str,
        member: &Member,
        brought: &[(u32, Arc<Limits>)],
    ) -> Result<(), GateError> {
        let plans = brought.iter();
        self.store.append(&Entry {
            serial: self.state.serial,
            name: name.to_owned(),
            member: member.clone(),
            plans: plans
                .map(|(number, limits)| (*number, limits.as_ref().clone()))
                .collect(),
        })?;
        self.entries += 1;
        let mut changes: Vec<Change> = brought
            .iter()
            .map(|(number, limits)| Change::Plan(*number, limits.clone()))
            .collect();
        changes.extend(Direction::BOTH.map(|direction| {
            let seat = member.seat(direction);
            let seats = member.declared.matches.iter().map(|what| (*what, seat));
            Change::Seat(direction, seats.collect())
        }));
        let made = make_room(&mut self.path, &self.state, &self.state, &changes)
            .and_then(|()| apply(&mut self.path, &self.state, &changes));
        let Err(first) = made else {
            self.state.members.insert(name.to_owned(), member.clone());
            return Ok(());
        };
        let old = self.state.clone();
        let mut next = old.clone();
        next.members.insert(name.to_owned(), member.clone());
        Err(self.turn_back(&old, next, first))
    }

    /// Makes a change of the whole state, or undoes it.
    pub(super) fn transact(&mut self, next: GateState) -> Result<(), GateError> {
        self.store.begin(&next)?;
        let old = self.state.clone();
        let made = self.make(&old, &next, true);
        let Err(first) = made.and_then(|()| self.store.commit()) else {
            self.state = next;
            self.entries = 0;
            return Ok(());
        };
        Err(self.turn_back(&old, next, first))
    }

    /// Undoes a change that failed. Returns the error to report. If undoing fails as well, the next
    /// change tries it again, or the process that takes the gate over.
    pub(super) fn turn_back(
        &mut self,
        old: &GateState,
        from: GateState,
        first: GateError,
    ) -> GateError {
        // The data path is somewhere between the two states: undo as if all steps had been made.
        let to = change::back(old, &from);
        let undo = Undo { from, to };
        self.entries = 0;
        self.state = undo.to.clone();
        let undone = self.undo(&undo);
        let Err(second) = undone else {
            return first;
        };
        self.pending = Some(Box::new(undo));
        GateError::Half {
            first: Box::new(first),
            second: Box::new(second),
        }
    }

    /// Undoes a change of which any part may have been made.
    fn undo(&mut self, undo: &Undo) -> Result<(), GateError> {
        self.store.begin_undo(undo)?;
        self.make(&undo.from, &undo.to, false)?;
        self.heal();
        self.store.commit_undo(undo)
    }

    /// Undoes a change that could not be undone before.
    pub(super) fn settle(&mut self) -> Result<(), GateError> {
        let Some(undo) = self.pending.take() else {
            return Ok(());
        };
        let undone = self.undo(&undo);
        if undone.is_err() {
            self.pending = Some(undo);
        }
        undone
    }

    /// Makes the changes from one state to another. If the other state is `fresh`, it was never in
    /// force, and an interface of it that refuses is an error. Interfaces that both states have are left
    /// to [`heal`](Self::heal), which reports those that refuse.
    pub(super) fn make(
        &mut self,
        from: &GateState,
        to: &GateState,
        fresh: bool,
    ) -> Result<(), GateError> {
        let attached = self.path.attachments();
        let changes = change::changes(from, to, &attached, fresh);
        let changes: Vec<Change> = changes
            .into_iter()
            .filter(|change| match change {
                Change::Attach(attachment) => fresh && !from.attachments.contains(attachment),
                _ => true,
            })
            .collect();
        make_room(&mut self.path, from, to, &changes)?;
        apply(&mut self.path, to, &changes)
    }
}
