//! The gate for many who ask at once: one at a time, and not more often than once a second.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_gate::table::{Counters, LimiterState};

use super::control::{Change, Control, Failure, Overview, Reloaded};
use super::reading::{Entry, Reading, Totals};

/// How old a reading of all counters may be: it costs tens of milliseconds with 100,000 subscribers,
/// and whoever scrapes must not be able to keep a core busy.
const FRESH: Duration = Duration::from_secs(1);

/// What is behind the API and the metrics. Calls block: on the kernel, and on each other.
pub struct Desk {
    inner: Mutex<Inner>,
}

struct Inner {
    control: Box<dyn Control>,
    reading: Option<Arc<Reading>>,
    totals: Totals,
    reloads: Reloads,
}

/// Reloads since the daemon began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reloads {
    /// Which applied.
    pub done: u64,
    /// Which failed.
    pub failed: u64,
}

/// What metrics are made of.
pub struct Everything {
    pub overview: Overview,
    pub reading: Arc<Reading>,
    pub totals: [Counters; 2],
    pub reloads: Reloads,
}

impl Desk {
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
        // Whoever panicked has left nothing half done: what it holds is read anew.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it, at most [`FRESH`] old.
    pub fn everything(&self) -> Result<Everything, Failure> {
        let mut inner = self.lock();
        let reading = inner.reading()?;
        Ok(Everything {
            overview: inner.control.overview()?,
            reading,
            totals: inner.totals.get(),
            reloads: inner.reloads,
        })
    }

    /// All counters, at most [`FRESH`] old.
    pub fn reading(&self) -> Result<Arc<Reading>, Failure> {
        self.lock().reading()
    }

    /// A subscriber, as it is now.
    pub fn subscriber(&self, name: &str) -> Result<(Entry, [Option<LimiterState>; 2]), Failure> {
        self.lock().subscriber(name)
    }

    /// Limiters by number, as they are now, until `until`: the rest is left out.
    pub fn limiters(
        &self,
        numbers: impl Iterator<Item = u32>,
        until: Instant,
    ) -> Result<Vec<LimiterState>, Failure> {
        let mut inner = self.lock();
        numbers
            .take_while(|_| Instant::now() < until)
            .map(|number| inner.control.limiter(number))
            .collect()
    }

    /// Changes a subscriber, and tells what it is then.
    pub fn set(
        &self,
        name: &str,
        change: &Change,
    ) -> Result<(Entry, [Option<LimiterState>; 2]), Failure> {
        let mut inner = self.lock();
        inner.control.set(name, change)?;
        inner.reading = None;
        inner.subscriber(name)
    }

    /// A subscriber is as the file has it, which is told.
    pub fn reset(&self, name: &str) -> Result<(Entry, [Option<LimiterState>; 2]), Failure> {
        let mut inner = self.lock();
        inner.control.reset(name)?;
        inner.reading = None;
        inner.subscriber(name)
    }

    /// Applies what has changed in the file.
    pub fn reload(&self, file: Option<&Path>) -> Result<Reloaded, Failure> {
        let mut inner = self.lock();
        inner.reading = None;
        let result = inner.control.reload(file);
        match &result {
            Ok(_) => inner.reloads.done += 1,
            Err(_) => inner.reloads.failed += 1,
        }
        result
    }
}

impl Inner {
    fn reading(&mut self) -> Result<Arc<Reading>, Failure> {
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

    fn subscriber(&mut self, name: &str) -> Result<(Entry, [Option<LimiterState>; 2]), Failure> {
        let roster = self.control.roster()?;
        let index = roster
            .find(name)
            .ok_or_else(|| Failure::Unknown(format!("there is no subscriber '{name}'")))?;
        let entry = roster.entries[index].clone();
        let mut states = [None, None];
        for (state, limit) in states.iter_mut().zip(&entry.limits) {
            if let Some(limit) = limit {
                *state = Some(self.control.limiter(limit.limiter)?);
            }
        }
        Ok((entry, states))
    }
}
