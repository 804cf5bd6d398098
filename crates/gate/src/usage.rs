//! How many bytes subscribers used in their months. The counts outlive the gate, whose counters begin again when the
//! machine restarts.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::calendar::{Moment, Period};
use crate::pair::SharedVolume;
use crate::reading::{Reading, Subscriber};
use crate::table::{Direction, PerDirection};

#[cfg(test)]
mod tests;

/// The volume of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The month.
    pub period: Period,
    /// Bytes that passed in it.
    pub bytes: PerDirection<u64>,
    /// The gate's counters up to which bytes are counted.
    counters: PerDirection<u64>,
    /// When it began at 0 by request, see [`SharedVolume::reset`].
    #[serde(default, skip_serializing_if = "is_default")]
    reset: u64,
    /// The month that it is by a clock that has not reached `period`, if it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    behind: Option<Period>,
}

impl Volume {
    /// Whether its month is over when the clock says that it is `now`, a month that begins on the same day. A clock
    /// that went back ends no month: machines without a clock of their own start with an old date, until the network
    /// tells them the time. If the clock was ahead before and is right now, months go on by the right one, so one is
    /// over when the clock runs on into the next.
    fn is_over(&self, now: Period) -> bool {
        let ran_on = || self.behind.is_some_and(|behind| now == behind.next());
        now > self.period || now < self.period && ran_on()
    }
}

/// Whether a file can leave a value out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The volumes, which one counts while another decides by them.
#[derive(Debug, Clone, Default)]
pub struct SharedUsage(Arc<Mutex<Usage>>);

impl SharedUsage {
    /// The volumes, for as long as this is kept.
    pub fn lock(&self) -> MutexGuard<'_, Usage> {
        // Volumes are changed one by one, so a thread that panicked left none half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Usage> for SharedUsage {
    fn from(usage: Usage) -> Self {
        Self(Arc::new(Mutex::new(usage)))
    }
}

/// What the other gate of a pair counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Elsewhere {
    period: Period,
    bytes: PerDirection<u64>,
    reset: u64,
    /// What it had counted of this month and does not know any more, since its file was lost or is an older one.
    #[serde(default, skip_serializing_if = "is_default")]
    lost: PerDirection<u64>,
}

impl Elsewhere {
    /// What passed it in all.
    fn sum(&self) -> PerDirection<u64> {
        PerDirection::new(|way| self.bytes[way].saturating_add(self.lost[way]))
    }

    fn new(there: &SharedVolume) -> Self {
        Self {
            period: there.period,
            bytes: there.bytes,
            reset: there.reset,
            lost: PerDirection::default(),
        }
    }

    /// What is known of it after it said this.
    fn after(self, there: &SharedVolume) -> Self {
        let mut next = Self::new(there);
        if there.period != self.period || there.reset > self.reset {
            return next;
        }
        // A machine that was replaced does not know yet that the month began at 0 by request.
        if there.reset < self.reset {
            return self;
        }
        // What it counts of a month only grows. A reboot takes it back to the file of a minute ago, a new machine to 0.
        next.lost = PerDirection::new(|way| {
            let missing = self.bytes[way].saturating_sub(there.bytes[way]);
            self.lost[way].saturating_add(missing)
        });
        next
    }
}

/// The volumes of all subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The gate that the counters are of. None has been read yet if there is none.
    gate: Option<u64>,
    subscribers: BTreeMap<String, Volume>,
    /// What passed the other gate of a pair.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    elsewhere: BTreeMap<String, Elsewhere>,
}

impl Usage {
    /// Reads a file. Nothing is counted if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn read(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces a file, so that the old or the new one is complete at any time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let temporary = Path::new(&name);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = BufWriter::new(options.open(temporary)?);
            serde_json::to_writer(&mut file, self)?;
            file.flush()?;
            file.get_ref().sync_all()?;
            fs::rename(temporary, path)?;
            File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        write().inspect_err(|_| drop(fs::remove_file(temporary)))
    }

    /// Adds what passed since the last time. All that the counters of another gate have is new. The first gate of
    /// all was up before anything was counted.
    pub fn count(&mut self, gate: u64, reading: &Reading, at: &Moment) {
        let same = self.gate == Some(gate);
        let first = self.gate.is_none();
        self.gate = Some(gate);
        let roster = &reading.roster;
        for (subscriber, counters) in roster.subscribers.iter().zip(&reading.counters) {
            let now = PerDirection::new(|direction| counters[direction].passed_bytes);
            let period = period(subscriber, at);
            let volume = self.subscribers.entry(subscriber.name.to_string());
            let volume = volume.or_insert(Volume {
                period,
                bytes: PerDirection::default(),
                counters: if first { now } else { PerDirection::default() },
                reset: 0,
                behind: None,
            });
            let counted = Period::at(at, volume.period.day);
            let over = volume.is_over(counted);
            for direction in Direction::BOTH {
                let before = if same || first {
                    volume.counters[direction]
                } else {
                    0
                };
                // Counters that fell are those of a limiter that began again.
                let new = now[direction].checked_sub(before).unwrap_or(now[direction]);
                let bytes = &mut volume.bytes[direction];
                *bytes = match over {
                    true => new,
                    false => bytes.saturating_add(new),
                };
            }
            volume.counters = now;
            volume.behind = (!over && counted < volume.period).then_some(counted);
            // A plan whose months begin on another day gives the month another name. The bytes stay: a plan without a quota,
            // and back again, must not refill it.
            if volume.behind.is_none() {
                volume.period = period;
            }
        }
        // Subscribers that were removed may come back in the same month.
        self.subscribers.retain(|name, volume| {
            let period = volume.period;
            roster.find(name).is_some() || period >= Period::at(at, period.day)
        });
    }

    /// Whether no gate was read yet.
    pub fn is_new(&self) -> bool {
        self.gate.is_none()
    }

    /// The volume of a subscriber, with what passed the other gate of a pair; none if nothing was counted yet.
    pub fn of(&self, name: &str) -> Option<Volume> {
        let mut volume = *self.subscribers.get(name)?;
        if let Some(there) = self.elsewhere(name, &volume) {
            let sum = there.sum();
            volume.bytes = PerDirection::new(|way| volume.bytes[way].saturating_add(sum[way]));
        }
        Some(volume)
    }

    /// What passed the other gate in the month of this volume.
    fn elsewhere(&self, name: &str, volume: &Volume) -> Option<&Elsewhere> {
        let there = self.elsewhere.get(name);
        // What was counted before it began at 0, or in another month, is over.
        there.filter(|one| one.period == volume.period && one.reset >= volume.reset)
    }

    /// What passed this gate of each subscriber's month, for the other gate of a pair, and what that one does not know any
    /// more of its part.
    pub fn shared(&self) -> Vec<SharedVolume> {
        let all = self.subscribers.iter().map(|(name, volume)| {
            let lost = self.elsewhere(name, volume).map(|there| there.lost);
            let lost = lost.unwrap_or_default();
            SharedVolume {
                name: name.clone(),
                period: volume.period,
                bytes: PerDirection::new(|way| volume.bytes[way].saturating_add(lost[way])),
                reset: volume.reset,
            }
        });
        // A machine that was replaced says 0, once it has heard of a subscriber: the other one notices that.
        let is_told = |one: &SharedVolume| {
            let is_used = one.bytes != PerDirection::default();
            is_used || one.reset > 0 || self.elsewhere.contains_key(&one.name)
        };
        all.filter(is_told).collect()
    }

    /// Takes over what passed the other gate of a pair. A month that began at 0 there begins at 0 here.
    pub fn learn(&mut self, volumes: Vec<SharedVolume>) {
        for there in volumes {
            let Some(volume) = self.subscribers.get_mut(&there.name) else {
                continue;
            };
            if there.reset > volume.reset {
                (volume.reset, volume.bytes) = (there.reset, PerDirection::default());
            }
            let known = self.elsewhere.get(&there.name);
            let next = known.map_or_else(|| Elsewhere::new(&there), |known| known.after(&there));
            self.elsewhere.insert(there.name, next);
        }
        let known = &self.subscribers;
        self.elsewhere.retain(|name, _| known.contains_key(name));
    }

    /// Begins a subscriber's month at 0, as when it buys more volume. `stamp` is the time in milliseconds since 1970.
    /// Returns false if it has none yet.
    pub fn reset(&mut self, name: &str, stamp: u64) -> bool {
        let volume = self.subscribers.get_mut(name);
        volume.is_some_and(|volume| {
            volume.bytes = PerDirection::default();
            volume.reset = stamp.max(volume.reset + 1);
            true
        })
    }
}

/// The month of a subscriber.
fn period(subscriber: &Subscriber, at: &Moment) -> Period {
    Period::at(at, subscriber.quota.as_ref().map_or(1, |quota| quota.day))
}
