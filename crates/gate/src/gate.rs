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
mod store;
#[cfg(test)]
mod tests;
mod view;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use crate::change::Report;
pub use crate::state::Setting;
pub use error::GateError;
pub use view::{View, pins};

use crate::change::{self, Change, ChangeError};
use crate::config::{Config, ConfigErrors};
use crate::path::DataPath;
use crate::reading::{Overview, Subscriber};
use crate::state::{Member, State};
use crate::table::Direction;
use apply::{apply, make_room};
use error::path_error;
use store::{Entry, Store, Undo};

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
    /// Lines of the journal before the state is written whole again.
    const MOST_ENTRIES: usize = 1000;

    /// Reads and checks a file.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn check(file: &Path) -> Result<Config, ConfigErrors> {
        Config::read(file)
    }

    /// Whether a gate is there.
    pub fn is_up(pins: &Path) -> bool {
        D::exists(pins)
    }

    /// Starts a gate.
    ///
    /// # Errors
    /// If one is up, or the data path would not have it; nothing is left behind then.
    pub fn up(config: &Config) -> Result<(Self, Report), GateError> {
        let mut store = Store::open(&config.state)?;
        if D::exists(&config.pins) {
            return Err(GateError::AlreadyUp {
                pins: config.pins.clone(),
            });
        }
        // What cannot be read is nobody's.
        let loaded = store.load().unwrap_or_default();
        if let Some(other) = Self::other(&loaded, &config.pins) {
            return Err(GateError::Elsewhere {
                folder: config.state.clone(),
                other: other.to_owned(),
                pins: config.pins.clone(),
            });
        }
        // What a gate left that is gone, with the machine's last start perhaps.
        let empty = State::empty(config.pins.clone(), secret()?);
        let (next, mut report) = change::next(&empty, config)?;
        for attachment in &next.attachments {
            D::check(attachment).map_err(|source| path_error(&config.pins, source))?;
        }
        store.clear()?;
        drop(store);
        let mut store = Store::open(&config.state)?;
        store.begin(&next)?;
        let settings = next.settings();
        let made = D::create(&config.pins, &settings)
            .map_err(|source| path_error(&config.pins, source))
            .and_then(|mut path| {
                let changes = change::changes(&empty, &next, &[], true);
                match apply(&mut path, &next, &changes) {
                    Ok(()) => Ok(path),
                    Err(error) => Err(taken_off(path, &config.pins, error)),
                }
            })
            .and_then(|path| match store.commit() {
                Ok(()) => Ok(path),
                Err(error) => Err(taken_off(path, &config.pins, error)),
            });
        match made {
            Ok(path) => {
                report.attached.clone_from(&next.attachments);
                let gate = Self {
                    path,
                    state: next,
                    store,
                    entries: 0,
                    pending: None,
                };
                Ok((gate, report))
            }
            Err(error) => {
                store.clear()?;
                Err(error)
            }
        }
    }

    /// Takes over a gate that is up: after another process that is gone, however it went.
    ///
    /// # Errors
    /// If there is none, another process has it, or what it holds is not known.
    pub fn take_over(pins: &Path, state: &Path) -> Result<Self, GateError> {
        let lost = || GateError::Lost {
            pins: pins.to_owned(),
            folder: state.to_owned(),
        };
        if !D::exists(pins) {
            return Err(GateError::NotUp {
                pins: pins.to_owned(),
            });
        }
        let folder = state;
        let mut store = Store::open(folder)?;
        let loaded = store.load()?;
        store.trim(loaded.length)?;
        let known = loaded.known().ok_or_else(lost)?;
        if known.pins != pins {
            return Err(GateError::Elsewhere {
                folder: folder.to_owned(),
                other: known.pins.clone(),
                pins: pins.to_owned(),
            });
        }
        // With another secret: one that was killed while it went up may not have written its settings.
        let empty = State::empty(pins.to_owned(), known.hash.map(|half| !half));
        let path = match D::open(pins) {
            Ok(path) => path,
            // It was killed while it went up, before a packet was limited.
            Err(_) if loaded.current.is_none() && loaded.undo.is_none() => {
                return Err(Self::given_up(pins, &mut store));
            }
            Err(source) => return Err(path_error(pins, source)),
        };
        let was_up = loaded.current.is_some();
        let current = loaded.current.unwrap_or_else(|| empty.clone());
        let written = loaded.written.unwrap_or(empty);
        let mut gate = Self {
            path,
            state: current,
            store,
            entries: loaded.entries,
            pending: None,
        };
        let old = gate.state.clone();
        if let Some(undo) = loaded.undo {
            gate.state = undo.to.clone();
            gate.entries = 0;
            gate.pending = Some(Box::new(undo));
            // If it cannot be undone now, whoever changes something next tries again, and is told.
            let _ = gate.settle();
        } else if let Some(next) = loaded.next {
            // The journal was done before this was begun.
            let made = gate.make(&old, &next, true);
            match made.and_then(|()| gate.store.commit()) {
                Ok(()) => {
                    gate.state = next;
                    gate.entries = 0;
                }
                Err(_) if !was_up => return Err(Self::given_up(pins, &mut gate.store)),
                // As if it had failed before the kill.
                Err(first) => drop(gate.turn_back(&old, next, first)),
            }
        } else if gate.make(&written, &old, false).is_err() {
            // The journal's last line may not have been done.
            let (from, to) = (written, old);
            gate.pending = Some(Box::new(Undo { from, to }));
        }
        // Interfaces may have come back.
        gate.heal();
        Ok(gate)
    }

    /// Removes what was killed while it went up and cannot be made whole; what to tell.
    fn given_up(pins: &Path, store: &mut Store) -> GateError {
        let cleared = D::clear(pins).map_err(|source| path_error(pins, source));
        let cleared = cleared.and_then(|()| store.clear());
        cleared.err().unwrap_or(GateError::NotUp {
            pins: pins.to_owned(),
        })
    }

    /// Starts a gate, or takes over the one that is up and brings it in line with the configuration.
    /// Returns whether it was up.
    ///
    /// # Errors
    /// As of [`Gate::up`], [`Gate::take_over`] and [`Gate::reload`].
    pub fn start(config: &Config) -> Result<(Self, Report, bool), GateError> {
        match Self::take_over(&config.pins, &config.state) {
            Ok(mut gate) => {
                let report = gate.reload(config)?;
                return Ok((gate, report, true));
            }
            Err(GateError::NotUp { .. }) => {}
            Err(error) => return Err(error),
        }
        let (gate, report) = Self::up(config)?;
        Ok((gate, report, false))
    }

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

    /// Takes the gate off. Nothing is left behind, and nothing is limited any more.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn down(mut self) -> Result<(), GateError> {
        let pins = self.state.pins.clone();
        let removed = self.path.remove();
        // What could not be removed is no gate any more: its state must not be taken for one's.
        let forgotten = self.store.clear();
        removed.map_err(|source| path_error(&pins, source))?;
        forgotten
    }

    /// Where the gate is up whose state this is, if that is not here.
    fn other<'a>(loaded: &'a store::Loaded, pins: &Path) -> Option<&'a Path> {
        let known = loaded.known().map(|known| known.pins.as_path());
        known.filter(|&known| known != pins && D::exists(known))
    }

    /// Takes off whatever is there, also if its state is lost or it is not whole. Returns whether
    /// anything was there.
    ///
    /// # Errors
    /// If another process has it; what could not be removed.
    pub fn down_at(pins: &Path, state: &Path) -> Result<bool, GateError> {
        let mut store = Store::open(state)?;
        let there = D::exists(pins);
        // What cannot be read is nobody's.
        let loaded = store.load().unwrap_or_default();
        // Also what was killed before it was there.
        let cleared = D::clear(pins).map_err(|source| path_error(pins, source));
        if Self::other(&loaded, pins).is_some() {
            return cleared.map(|()| there);
        }
        // What could not be removed is no gate any more: its state must not be taken for one's.
        let forgotten = store.clear();
        cleared.and(forgotten).map(|()| there)
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

    /// Changes what is set for one subscriber.
    fn change_one(&mut self, name: &str, setting: Option<&Setting>) -> Result<(), GateError> {
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
            .set_limits(
                member.plan.as_deref(),
                member.rates,
                setting.unwrap_or(&Setting::default()),
            )
            .map_err(GateError::Setting)?;
        let mut brought = Vec::new();
        let [down, up] = [0, 1].map(|index| self.state.plans.acquire(&wanted[index]));
        let Some(numbers) = down.zip(up) else {
            for number in [down, up].into_iter().flatten() {
                self.state.plans.release(number);
            }
            self.state.plans.settle();
            return Err(ChangeError::Plans.into());
        };
        let lanes = member.lanes.iter_mut().zip([numbers.0, numbers.1]);
        for ((lane, number), limits) in lanes.zip(&wanted) {
            if number != lane.plan {
                lane.version = lane.version.wrapping_add(1);
                lane.plan = number;
                brought.push((number, Arc::clone(limits)));
            }
        }
        let made = self.put_one(name, &member, &brought);
        // Of old and new plans, one is no longer used.
        let over = if made.is_ok() { &old } else { &member };
        for lane in over.lanes {
            self.state.plans.release(lane.plan);
        }
        self.state.plans.settle();
        made
    }

    /// Writes a line and does it; undoes it if it fails.
    fn put_one(
        &mut self,
        name: &str,
        member: &Member,
        brought: &[(u32, Arc<crate::limits::Limits>)],
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
            let seats = member.matches.iter().map(|what| (*what, seat));
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

    /// Makes a change of the whole, or undoes it.
    fn transact(&mut self, next: State) -> Result<(), GateError> {
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

    /// Undoes a change that failed on its way to a state; returns what to tell. If that fails as
    /// well, it is left for the next change, or for whoever takes over.
    fn turn_back(&mut self, old: &State, from: State, first: GateError) -> GateError {
        // What is there now is somewhere between the two: as if all of it had been made.
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

    /// Undoes a change of which any part may have been made; the state is where it leads.
    fn undo(&mut self, undo: &Undo) -> Result<(), GateError> {
        self.store.begin_undo(undo)?;
        self.make(&undo.from, &undo.to, false)?;
        self.heal();
        self.store.commit_undo(undo)
    }

    /// Makes what could neither be made nor undone before.
    fn settle(&mut self) -> Result<(), GateError> {
        let Some(undo) = self.pending.take() else {
            return Ok(());
        };
        let undone = self.undo(&undo);
        if undone.is_err() {
            self.pending = Some(undo);
        }
        undone
    }

    /// Does what leads from one state to another; `fresh`: one that never was, with places that may
    /// refuse. Places that were there before are left to [`heal`](Self::heal): one that refuses is
    /// told, and no reason to stop.
    fn make(&mut self, from: &State, to: &State, fresh: bool) -> Result<(), GateError> {
        let attached = self.path.attachments();
        let changes = change::changes(from, to, &attached, fresh);
        let changes: Vec<Change> = changes
            .into_iter()
            .filter(|change| match change {
                Change::Attach(own) => fresh && !from.attachments.contains(own),
                _ => true,
            })
            .collect();
        make_room(&mut self.path, from, to, &changes)?;
        apply(&mut self.path, to, &changes)
    }
}

/// Removes a data path that did not come to be whole; the error to tell.
fn taken_off<D: DataPath>(path: D, pins: &Path, first: GateError) -> GateError {
    match path.remove() {
        Ok(()) => first,
        Err(source) => GateError::Half {
            first: Box::new(first),
            second: Box::new(path_error(pins, source)),
        },
    }
}

/// A secret that users do not know.
fn secret() -> Result<[u64; 2], GateError> {
    let mut bytes = [0u8; 16];
    let path = Path::new("/dev/urandom");
    let read =
        std::fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(|source| GateError::State {
        path: path.to_owned(),
        source,
    })?;
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    Ok([half(0), half(8)])
}
