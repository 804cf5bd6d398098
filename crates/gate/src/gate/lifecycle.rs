//! How a gate starts, is taken over from a process that ended, and is removed.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use super::apply::apply;
use super::error::path_error;
use super::store::{Loaded, Store, Undo};
use super::{Folders, Gate, GateError};
use crate::change::{self, Report};
use crate::config::{Config, ConfigErrors};
use crate::path::{DataPath, Renewal};
use crate::state::GateState;

impl<D: DataPath> Gate<D> {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn check(file: &Path) -> Result<Config, ConfigErrors> {
        Config::read(file)
    }

    /// Whether a gate is up.
    pub fn is_up(pins: &Path) -> bool {
        D::exists(pins)
    }

    /// Starts a gate.
    ///
    /// # Errors
    /// If a gate is up already, or the data path refuses. Nothing is left behind then.
    pub fn up(config: &Config) -> Result<(Self, Report), GateError> {
        sees::<D>(&config.pins)?;
        let mut store = Store::open(&config.state)?;
        // A state that cannot be read belongs to no gate.
        let loaded = store.load().unwrap_or_default();
        if D::exists(&config.pins) {
            let its = (loaded.known()).is_some_and(|known| known.pins == config.pins);
            return Err(GateError::AlreadyUp {
                pins: config.pins.clone(),
                state: its.then(|| config.state.clone()),
            });
        }
        if let Some(other) = Self::other(&loaded, &config.pins) {
            return Err(GateError::Elsewhere {
                folder: config.state.clone(),
                other: other.to_owned(),
                pins: config.pins.clone(),
            });
        }
        // A state may be left of a gate that is gone, for example since the machine restarted.
        let empty = GateState::empty(config.pins.clone(), secret()?);
        let (mut next, mut report) = change::next(&empty, config)?;
        Self::place(&mut next);
        // There was nothing that they could differ from.
        (report.settings, report.nodes) = (Vec::new(), false);
        Self::has_schemes(config)?;
        for attachment in &next.attachments {
            D::check(attachment).map_err(|source| path_error::<D>(&config.pins, source))?;
        }
        store.clear()?;
        drop(store);
        let mut store = Store::open(&config.state)?;
        store.begin(&next)?;
        let settings = next.settings();
        let made = D::create(&config.pins, &settings)
            .map_err(|source| path_error::<D>(&config.pins, source))
            .and_then(|mut path| {
                path.prepare(&next.attachments);
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
                    taken: HashMap::new(),
                    look: None,
                    renewal: Renewal::default(),
                    untold: BTreeMap::new(),
                };
                Ok((gate, report))
            }
            Err(error) => {
                store.clear()?;
                Err(error)
            }
        }
    }

    /// Whether the data path has what all plans need: also one that nobody has now may be in force later.
    pub(super) fn has_schemes(config: &Config) -> Result<(), GateError> {
        let lacks = config.plans.iter().find_map(|(name, plan)| {
            let scheme = plan.alone().filter(|scheme| !D::has(*scheme))?;
            Some((name.clone(), scheme))
        });
        lacks.map_or(Ok(()), |(plan, scheme)| {
            Err(GateError::Scheme { plan, scheme })
        })
    }

    /// Takes over a gate that is up, from a process that ended or was killed.
    ///
    /// # Errors
    /// If no gate is up, another process holds its lock, or its state is missing.
    pub fn take_over(Folders { pins, state }: Folders<'_>) -> Result<Self, GateError> {
        let lost = || GateError::Lost {
            pins: pins.to_owned(),
            folder: state.to_owned(),
        };
        sees::<D>(pins)?;
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
        here::<D>(known)?;
        // With another secret, so that the settings are written: a process that was killed while it
        // started the gate may not have written them.
        let empty = GateState::empty(pins.to_owned(), known.hash.map(|half| !half));
        let mut path = match D::open(pins) {
            Ok(path) => path,
            // A process was killed while it started the gate, before any packet was limited.
            Err(_) if loaded.current.is_none() && loaded.undo.is_none() => {
                return Err(Self::given_up(pins, &mut store));
            }
            Err(source) => return Err(path_error::<D>(pins, source)),
        };
        let renewal = path.renew();
        let was_up = loaded.current.is_some();
        let current = loaded.current.unwrap_or_else(|| empty.clone());
        let written = loaded.written.unwrap_or(empty);
        let mut gate = Self {
            path,
            state: current,
            store,
            entries: loaded.entries,
            pending: None,
            taken: HashMap::new(),
            look: None,
            renewal,
            untold: BTreeMap::new(),
        };
        let old = gate.state.clone();
        if let Some(undo) = loaded.undo {
            gate.state = undo.to.clone();
            gate.entries = 0;
            gate.pending = Some(Box::new(undo));
            // If it cannot be undone now, the next change tries again and returns the error.
            let _ = gate.settle();
        } else if let Some(next) = loaded.next {
            // The changes of the journal were made before this one.
            let made = gate.make(&old, &next, true);
            match made.and_then(|()| gate.store.commit()) {
                Ok(()) => {
                    gate.state = next;
                    gate.entries = 0;
                }
                Err(_) if !was_up => return Err(Self::given_up(pins, &mut gate.store)),
                // It is undone like a change that failed.
                Err(first) => drop(gate.turn_back(&old, next, first)),
            }
        } else if gate.make(&written, &old, false).is_err() {
            // The change of the journal's last line may not have been made.
            let (from, to) = (written, old);
            gate.pending = Some(Box::new(Undo { from, to }));
        }
        // Interfaces may have come back.
        gate.heal();
        Ok(gate)
    }

    /// Removes a gate whose start was interrupted and cannot be completed. Returns the error to report.
    fn given_up(pins: &Path, store: &mut Store) -> GateError {
        let cleared = D::clear(pins).map_err(|source| path_error::<D>(pins, source));
        let cleared = cleared.and_then(|()| store.clear());
        cleared.err().unwrap_or(GateError::NotUp {
            pins: pins.to_owned(),
        })
    }

    /// Starts a gate, or takes over the one that is up and changes it to what the configuration says.
    ///
    /// # Errors
    /// As of [`Gate::up`], [`Gate::take_over`] and [`Gate::reload`].
    pub fn start(config: &Config) -> Result<(Self, Report, bool), GateError> {
        match Self::take_over(config.into()) {
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

    /// Removes the gate. Nothing is left behind, and nothing is limited any longer.
    ///
    /// # Errors
    /// If something could not be removed.
    pub fn down(mut self) -> Result<(), GateError> {
        let pins = self.state.pins.clone();
        let removed = self.path.remove();
        // If a part cannot be removed, it is not a gate: no state may belong to it.
        let forgotten = self.store.clear();
        removed.map_err(|source| path_error::<D>(&pins, source))?;
        forgotten
    }

    /// Where the gate is pinned that this state belongs to, if it is up and not the one at `pins`.
    fn other<'a>(loaded: &'a Loaded, pins: &Path) -> Option<&'a Path> {
        let known = loaded.known().map(|known| known.pins.as_path());
        known.filter(|&known| known != pins && D::exists(known))
    }

    /// Removes a gate, also if its state is lost or it is incomplete. Returns whether there was one.
    ///
    /// # Errors
    /// If another process holds its lock, or something could not be removed.
    pub fn down_at(Folders { pins, state }: Folders<'_>) -> Result<bool, GateError> {
        sees::<D>(pins)?;
        let mut store = Store::open(state)?;
        let there = D::exists(pins);
        // A state that cannot be read belongs to no gate.
        let loaded = store.load().unwrap_or_default();
        // This also removes files of a process that was killed early.
        let cleared = D::clear(pins).map_err(|source| path_error::<D>(pins, source));
        if Self::other(&loaded, pins).is_some() {
            return cleared.map(|()| there);
        }
        // If a part cannot be removed, it is not a gate: no state may belong to it.
        let forgotten = store.clear();
        cleared.and(forgotten).map(|()| there)
    }
}

/// Checks that this process would see a gate there.
pub(super) fn sees<D: DataPath>(pins: &Path) -> Result<(), GateError> {
    D::sees(pins).map_err(|source| path_error::<D>(pins, source))
}

/// Checks that the interfaces of a gate are those that this process sees. Others may have the same numbers.
pub(super) fn here<D: DataPath>(state: &GateState) -> Result<(), GateError> {
    match state.network.is_none() || state.network == D::network() {
        true => Ok(()),
        false => Err(GateError::Network {
            pins: state.pins.clone(),
        }),
    }
}

/// Removes a data path whose creation failed. Returns the error to report.
fn taken_off<D: DataPath>(path: D, pins: &Path, first: GateError) -> GateError {
    match path.remove() {
        Ok(()) => first,
        Err(source) => GateError::Half {
            first: Box::new(first),
            second: Box::new(path_error::<D>(pins, source)),
        },
    }
}

/// A random secret: users who knew it could choose the queue of their flows.
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
