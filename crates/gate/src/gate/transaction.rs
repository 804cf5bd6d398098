//! Changes of a gate's state: each is written down, made, and undone if it fails.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::apply::{apply, make_room};
use super::store::{Entry, Undo};
use super::{Gate, GateError, Setting};
use crate::calendar::Turn;
use crate::change::{self, Change, ChangeError};
use crate::limits::Limits;
use crate::live::{self, MatchChange};
use crate::pair::SharedChange;
use crate::path::DataPath;
use crate::state::{GateState, Member};
use crate::table::{Direction, Match, PerDirection};

impl<D: DataPath> Gate<D> {
    /// Lines of the journal before the state is written whole again.
    pub(super) const MOST_ENTRIES: usize = 1000;

    /// Changes what is set for one subscriber, and what belongs to it: now, or as a change of the other gate of a pair did.
    pub(super) fn change_one(
        &mut self,
        name: &str,
        setting: Option<&Setting>,
        moves: &[MatchChange],
        adopted: Option<&SharedChange>,
    ) -> Result<(), GateError> {
        self.settle()?;
        if self.entries >= Self::MOST_ENTRIES {
            let mut whole = self.state.clone();
            whole.serial += 1;
            self.transact(whole)?;
        }
        let mut lists = live::moved(&self.state.members, name, moves);
        self.check_room(&lists)?;
        let old = self.member(name)?.clone();
        let stamp = adopted.map_or_else(|| self.next_stamp(), |change| change.stamp);
        let mut member = old.clone();
        member.stamp = stamp;
        member.setting = setting.cloned();
        let none = Setting::default();
        let limits = |turn: Option<&Turn>| {
            let limits = (self.state).set_limits(&old.declared, setting.unwrap_or(&none), turn);
            limits.map_err(GateError::Setting)
        };
        if member.base_plan() != old.base_plan() || member.keys() != old.keys() {
            // It must do without the plan that is in force for now.
            limits(None)?;
        }
        let mut turns = self.turns_of(name, &old, &member).into_iter();
        let had = turns.find_map(|turn| Some((limits(turn.as_ref()).ok()?, turn)));
        let (wanted, turn) = match had {
            Some(had) => had,
            None => (limits(None)?, None),
        };
        member.turn = turn;
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
        if let Some(list) = lists.remove(name) {
            member.set_matches(list);
        }
        let mut others = Vec::with_capacity(lists.len());
        for (other, list) in lists {
            let mut member = self.member(&other)?.clone();
            // Nothing goes back to a subscriber that lost it by a later change.
            if adopted.is_some_and(|change| change.is_before(&other, member.stamp)) {
                continue;
            }
            member.set_matches(list);
            // In a change of the other gate they have an entry of their own, which is still to be adopted: it may say
            // more than this one.
            if adopted.is_none() {
                member.stamp = stamp;
            }
            others.push((other, member));
        }
        let made = self.put((name, &member), others, &brought);
        if made.is_ok() && member.turn != old.turn {
            self.note_turn(name, old.turn.clone());
        }
        // Either the old plans or the new ones are no longer used.
        let over = if made.is_ok() { &old } else { &member };
        for lane in over.lanes.values() {
            self.state.plans.release(lane.plan);
        }
        self.state.plans.settle();
        made
    }

    /// Checks that there is room for what these subscribers get and nobody had. To find that out only when the change is made
    /// would mean to undo it, which writes the whole state.
    fn check_room(&self, lists: &BTreeMap<String, Vec<Match>>) -> Result<(), GateError> {
        let members = lists.keys().filter_map(|name| self.state.members.get(name));
        let before: HashSet<&Match> = members.flat_map(Member::matches).collect();
        let new = lists.values().flatten();
        let new: Vec<Match> = new.filter(|what| !before.contains(what)).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.path.fits(&new).map_err(|source| {
            let all: Vec<String> = new.iter().map(Match::to_string).collect();
            GateError::Setting(format!("{} cannot be assigned: {source}", all.join(", ")))
        })
    }

    /// A stamp for a change that is made now: later than all before, whatever the clock says.
    fn next_stamp(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_millis() as u64);
        let latest = self.state.members.values().map(|member| member.stamp).max();
        now.max(latest.unwrap_or(0).saturating_add(1))
    }

    /// Writes a line of the journal and makes its change: these subscribers are so from now on. Undoes it if
    /// it fails.
    fn put(
        &mut self,
        (name, member): (&str, &Member),
        others: Vec<(String, Member)>,
        brought: &[(u32, Arc<Limits>)],
    ) -> Result<(), GateError> {
        let plans = brought.iter();
        self.store.append(&Entry {
            serial: self.state.serial,
            name: name.to_owned(),
            member: member.clone(),
            others: others.clone(),
            plans: plans
                .map(|(number, limits)| (*number, limits.as_ref().clone()))
                .collect(),
        })?;
        self.entries += 1;
        let mut changed = others;
        changed.push((name.to_owned(), member.clone()));
        let mut changes: Vec<Change> = brought
            .iter()
            .map(|(number, limits)| Change::Plan(*number, limits.clone()))
            .collect();
        changes.extend(self.seats(&changed));
        let made = make_room(&mut self.path, &self.state, &self.state, &changes)
            .and_then(|()| apply(&mut self.path, &self.state, &changes));
        let Err(first) = made else {
            self.state.members.extend(changed);
            return Ok(());
        };
        let old = self.state.clone();
        let mut next = old.clone();
        next.members.extend(changed);
        Err(self.turn_back(&old, next, first))
    }

    /// The assignments of packets that differ for these subscribers. A match of several of them is assigned before
    /// those are removed that nobody has.
    fn seats(&self, changed: &[(String, Member)]) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut seats = Vec::new();
        for (name, member) in changed {
            let both = member.seats();
            let old = self.state.members.get(name);
            let old = old.filter(|old| old.seats() == both);
            let there: HashSet<&Match> = old.iter().flat_map(|old| old.matches()).collect();
            let new = member.matches().iter();
            let new = new.filter(|what| !there.contains(what));
            seats.extend(new.map(|what| (*what, both)));
        }
        if !seats.is_empty() {
            changes.push(Change::Seat(seats));
        }
        let kept: HashSet<&Match> = changed
            .iter()
            .flat_map(|(_, member)| member.matches())
            .collect();
        let old = changed
            .iter()
            .filter_map(|(name, _)| self.state.members.get(name));
        let left = old
            .flat_map(Member::matches)
            .filter(|what| !kept.contains(what));
        let left: Vec<Match> = left.copied().collect();
        if !left.is_empty() {
            changes.push(Change::Unseat(left));
        }
        changes
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
                Change::Ready(attachment) | Change::Attach(attachment) => {
                    fresh && !from.attachments.contains(attachment)
                }
                _ => true,
            })
            .collect();
        make_room(&mut self.path, from, to, &changes)?;
        apply(&mut self.path, to, &changes)
    }
}
