//! A gate for many callers: one at a time, and all counters are read at most once a second.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Adjustment, Control, ControlError, Inspected, PairControl, inspect};
use crate::calendar::{Moment, Turn};
use crate::change::Report;
use crate::flow::Flow;
use crate::gate::{Link, Missing};
use crate::live::MatchChange;
use crate::pair::SharedChange;
use crate::reading::{Overview, Reading, Totals};
use crate::table::{Counters, LimiterState, Match, PerDirection};
use crate::usage::SharedUsage;

/// How old a reading of all counters may be. A reading costs tens of milliseconds with 100,000
/// subscribers, and frequent requests must not keep a core busy.
const FRESH: Duration = Duration::from_secs(1);

/// A gate that an API and metrics share. Calls block: on the kernel, and on each other.
pub struct SharedGate {
    inner: Mutex<Inner>,
}

struct Inner {
    control: Box<dyn Control>,
    reading: Option<Arc<Reading>>,
    totals: Totals,
    reloads: Reloads,
}

/// Reloads since the process began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reloads {
    /// Number of reloads that were applied.
    pub done: u64,
    /// Number of reloads that failed.
    pub failed: u64,
}

/// All that metrics need.
#[derive(Debug)]
pub struct Everything {
    /// The gate without its subscribers.
    pub overview: Overview,
    /// All counters, at most a second old.
    pub reading: Arc<Reading>,
    /// Sums over all subscribers that ever existed. They never fall.
    pub totals: PerDirection<Counters>,
    /// Reloads since the process began.
    pub reloads: Reloads,
}

impl std::fmt::Debug for SharedGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedGate").finish_non_exhaustive()
    }
}

impl SharedGate {
    /// Shares a gate.
    pub fn new(control: Box<dyn Control>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                control,
                reading: None,
                totals: Totals::default(),
                reloads: Reloads::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked left nothing half done: everything is read again at the next
        // request.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that metrics need, at most a second old.
    ///
    /// # Errors
    /// If the gate cannot be read.
    pub fn everything(&self) -> Result<Everything, ControlError> {
        let mut inner = self.lock();
        let reading = inner.reading()?;
        Ok(Everything {
            overview: inner.control.overview()?,
            reading,
            totals: inner.totals.get(),
            reloads: inner.reloads,
        })
    }

    /// All counters, at most a second old.
    ///
    /// # Errors
    /// If the gate cannot be read.
    pub fn reading(&self) -> Result<Arc<Reading>, ControlError> {
        self.lock().reading()
    }

    /// A subscriber, and its limiters as they are now.
    ///
    /// # Errors
    /// If there is no such subscriber, or the gate cannot be read.
    pub fn subscriber(&self, name: &str) -> Result<Inspected, ControlError> {
        inspect(&mut *self.lock().control, name)
    }

    /// The watched flows of a subscriber.
    ///
    /// # Errors
    /// As of [`Control::flows`].
    pub fn flows(&self, name: &str) -> Result<Vec<Flow>, ControlError> {
        self.lock().control.flows(name)
    }

    /// Limiters by number, as they are now. Those that are not read by `until` are left out.
    ///
    /// # Errors
    /// If the gate cannot be read.
    pub fn limiters(
        &self,
        numbers: impl Iterator<Item = u32>,
        until: Instant,
    ) -> Result<Vec<LimiterState>, ControlError> {
        let mut inner = self.lock();
        numbers
            .take_while(|_| Instant::now() < until)
            .map(|number| inner.control.limiter(number))
            .collect()
    }

    /// Changes a subscriber. Returns it as it is then.
    ///
    /// # Errors
    /// As of [`Control::set`].
    pub fn set(&self, name: &str, adjustment: &Adjustment) -> Result<Inspected, ControlError> {
        let mut inner = self.lock();
        inner.control.set(name, adjustment)?;
        inner.reading = None;
        inspect(&mut *inner.control, name)
    }

    /// The subscriber that has exactly this address, prefix or tag, and its limiters as they are now.
    ///
    /// # Errors
    /// As of [`Control::holder`].
    pub fn holder(&self, what: &Match) -> Result<Inspected, ControlError> {
        let mut inner = self.lock();
        let name = inner.control.holder(what)?;
        inspect(&mut *inner.control, &name)
    }

    /// The subscriber that access servers call by this name: its own, or one of its users; and its limiters as they are now.
    ///
    /// # Errors
    /// As of [`Control::user`].
    pub fn user(&self, user: &str) -> Result<Inspected, ControlError> {
        let mut inner = self.lock();
        let name = inner.control.user(user)?;
        inspect(&mut *inner.control, &name)
    }

    /// What a subscriber has that it does not have in the file.
    ///
    /// # Errors
    /// As of [`Control::lent`].
    pub fn lent(&self, name: &str) -> Result<Vec<Match>, ControlError> {
        self.lock().control.lent(name)
    }

    /// Takes an address or tag from the subscriber that has it. Returns the subscriber's name.
    ///
    /// # Errors
    /// If nobody has it, or as of [`Control::set`].
    pub fn release(&self, what: Match) -> Result<String, ControlError> {
        let mut inner = self.lock();
        let name = inner.control.holder(&what)?;
        let release = Adjustment {
            moves: vec![MatchChange::Release(what)],
            ..Adjustment::default()
        };
        inner.control.set(&name, &release)?;
        inner.reading = None;
        Ok(name)
    }

    /// Counts what passed since the last time, and puts other plans in force where the time of day or a volume says
    /// so. Returns the subscribers whose plan changed.
    ///
    /// # Errors
    /// If the gate cannot be read, or the data path refuses.
    pub fn keep_time(
        &self,
        at: &Moment,
        usage: Option<&SharedUsage>,
    ) -> Result<Vec<(String, Option<Turn>)>, ControlError> {
        let mut inner = self.lock();
        if let Some(usage) = usage {
            let identity = inner.control.overview()?.identity;
            let reading = inner.reading()?;
            usage.lock().count(identity, &reading, at);
        }
        let none = SharedUsage::default();
        let turns = inner.control.turn(at, usage.unwrap_or(&none))?;
        if !turns.is_empty() {
            inner.reading = None;
        }
        Ok(turns)
    }

    /// Does something with the gate as one of a pair that changes no subscriber.
    ///
    /// # Errors
    /// As of [`Control::pair`], and of what is done.
    pub fn pair<T>(
        &self,
        what: impl FnOnce(&mut dyn PairControl) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        what(self.lock().control.pair(false)?)
    }

    /// Makes a live change of the other gate of a pair, if it is later than the one here. Returns whether it is.
    ///
    /// # Errors
    /// As of [`PairControl::adopt`].
    pub fn adopt(&self, change: &SharedChange) -> Result<bool, ControlError> {
        let mut inner = self.lock();
        let adopted = inner.control.pair(false)?.adopt(change);
        // A change that failed was undone, perhaps under other numbers.
        if !matches!(adopted, Ok(false)) {
            inner.reading = None;
            inner.control.pair(true)?;
        }
        adopted
    }

    /// Attaches to interfaces that came back. Returns those that are still missing, and why.
    pub fn heal(&self) -> Vec<Missing> {
        self.lock().control.heal()
    }

    /// Whether the devices have a link; none where the kernel has the interfaces.
    pub fn links(&self) -> Vec<Link> {
        self.lock().control.links()
    }

    /// Applies what has changed in the file.
    ///
    /// # Errors
    /// As of [`Control::reload`].
    pub fn reload(&self, file: Option<&Path>, lenient: bool) -> Result<Report, ControlError> {
        let mut inner = self.lock();
        inner.reading = None;
        let result = inner.control.reload(file, lenient);
        match &result {
            Ok(_) => inner.reloads.done += 1,
            Err(_) => inner.reloads.failed += 1,
        }
        result
    }
}

impl Inner {
    fn reading(&mut self) -> Result<Arc<Reading>, ControlError> {
        if let Some(reading) = &self.reading
            && reading.at.elapsed() < FRESH
        {
            return Ok(Arc::clone(reading));
        }
        let reading = Arc::new(self.control.read()?);
        self.totals.add(&reading);
        self.reading = Some(Arc::clone(&reading));
        Ok(reading)
    }
}
