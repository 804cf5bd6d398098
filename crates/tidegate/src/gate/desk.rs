//! The gate for many who ask at once: one at a time, and not more often than once a second.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_gate::gate::Missing;
use tidegate_gate::table::{Counters, LimiterState};

use super::control::{self, Change, Control, Failure, Overview, Reloaded};
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
        control::subscriber(&mut *self.lock().control, name)
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
        control::subscriber(&mut *inner.control, name)
    }

    /// Takes packets again from interfaces that came back; where they are not still, and why.
    pub fn heal(&self) -> Vec<Missing> {
        self.lock().control.heal()
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
}
