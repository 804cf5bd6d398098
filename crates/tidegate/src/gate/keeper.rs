//! Keeps the time in the daemon: the volumes of months, and the plans that follow from them and from the time of day.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use chrono::{Datelike, Local, Timelike};
use tidegate_gate::calendar::{Moment, Turn};
use tidegate_gate::control::{ControlError, SharedGate};
use tidegate_gate::pair::SharedVolume;
use tidegate_gate::reading::Reading;
use tidegate_gate::usage::{SharedUsage, Usage};
use tidegate_table::csv;

use super::events::Events;
use super::view::{SubscriberJson, UsageJson};

#[cfg(test)]
mod tests;

/// Time between two writes of the volumes.
const WRITE: Duration = Duration::from_secs(60);

/// The volumes of months, and where they are kept.
pub struct Keeper {
    file: Option<PathBuf>,
    usage: SharedUsage,
    /// When they were last written. Who counts or writes holds it.
    written: Mutex<Instant>,
}

/// The minute of local time.
fn now() -> Moment {
    let now = Local::now();
    Moment {
        year: now.year(),
        month: now.month(),
        day: now.day(),
        weekday: now.weekday().num_days_from_monday(),
        minute: 60 * now.hour() + now.minute(),
    }
}

impl Keeper {
    /// Reads the volumes of a file; without one, none are counted. A damaged file is moved aside: the limits must not
    /// wait for it.
    ///
    /// # Errors
    /// If the file cannot be read or moved, or its folder does not exist.
    pub fn open(file: Option<&Path>) -> anyhow::Result<Self> {
        let usage = match file {
            None => Usage::default(),
            Some(path) => match Usage::read(path) {
                Ok(usage) => {
                    let place =
                        || format!("cannot write the volumes of months to {}", path.display());
                    usage.write(path).with_context(place)?;
                    usage
                }
                Err(error) if error.kind() == std::io::ErrorKind::Other => {
                    let aside = path.with_extension("damaged");
                    std::fs::rename(path, &aside).context("cannot move a damaged file aside")?;
                    let (file, aside) = (path.display().to_string(), aside.display().to_string());
                    tracing::error!(%error, file, aside, "the volumes of months are damaged: the file was moved, and counting begins again");
                    Usage::default()
                }
                Err(error) => {
                    let place = format!("cannot read the volumes of months in {}", path.display());
                    return Err(anyhow::Error::from(error).context(place));
                }
            },
        };
        Ok(Self {
            file: file.map(Path::to_owned),
            usage: usage.into(),
            written: Mutex::new(Instant::now()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts, changes plans where that is due, and writes the volumes from time to time. Returns the subscribers
    /// whose plan changed.
    pub fn tick(&self, gate: &SharedGate) -> Vec<(String, Option<Turn>)> {
        self.tick_at(gate, &now())
    }

    fn tick_at(&self, gate: &SharedGate, at: &Moment) -> Vec<(String, Option<Turn>)> {
        let mut written = self.lock();
        let new = self.usage.lock().is_new();
        let usage = self.file.as_ref().map(|_| &self.usage);
        match gate.keep_time(at, usage) {
            Ok(turns) => {
                for (subscriber, turn) in &turns {
                    let why = turn.as_ref().map(|turn| turn.why.name());
                    let plan = turn.as_ref().map(|turn| &turn.plan);
                    tracing::info!(subscriber, plan, why, "turned");
                }
                // A plan that a volume changed must not change back after a crash, and the next process
                // must know where counting began.
                if new || !turns.is_empty() || written.elapsed() >= WRITE {
                    self.write(&mut written);
                }
                return turns;
            }
            // The gate was taken down.
            Err(ControlError::Down(_)) => {}
            Err(error) => tracing::error!(%error, "plans cannot be changed by time and volume"),
        }
        Vec::new()
    }

    /// Writes the volumes.
    pub fn end(&self) {
        self.write(&mut self.lock());
    }

    fn write(&self, written: &mut Instant) {
        let Some(file) = &self.file else { return };
        *written = Instant::now();
        // Who decides by the volumes does not wait for the disk.
        let usage = self.usage.lock().clone();
        if let Err(error) = usage.write(file) {
            let file = file.display().to_string();
            tracing::error!(%error, file, "the volumes of months cannot be written");
        }
    }

    /// Adds a subscriber's volume to what is said of it.
    pub fn fill(&self, one: &mut SubscriberJson) {
        if let Some(volume) = self.usage.lock().of(&one.name) {
            one.usage = Some(UsageJson {
                month: volume.period.to_string(),
                down_bytes: volume.bytes.down,
                up_bytes: volume.bytes.up,
                quota_bytes: one.quota,
            });
        }
    }

    /// Checks that volumes are counted.
    ///
    /// # Errors
    /// If they are not.
    pub fn check_counts(&self) -> Result<(), ControlError> {
        let text = "volumes are not counted: add [usage] with file = \"/var/lib/tidegate/usage.json\" to the gate's file, and \
                    restart the daemon";
        match self.file {
            Some(_) => Ok(()),
            None => Err(ControlError::Invalid(text.into())),
        }
    }

    /// What passed this gate, for the other one of a pair; none if volumes are not counted.
    pub fn shared(&self) -> Option<Vec<SharedVolume>> {
        self.file.as_ref().map(|_| self.usage.lock().shared())
    }

    /// Takes over what passed the other gate of a pair.
    pub fn learn(&self, volumes: Vec<SharedVolume>) {
        self.usage.lock().learn(volumes);
    }

    /// Begins a subscriber's volume at 0, and counts from now on. Writes the changes of plans meanwhile to the events.
    ///
    /// # Errors
    /// If volumes are not counted, or the subscriber has none yet.
    pub fn reset(
        &self,
        gate: &SharedGate,
        events: &Events,
        name: &str,
    ) -> Result<(), ControlError> {
        self.check_counts()?;
        // What passed before now is not counted later.
        events.turned(&self.tick(gate));
        let mut written = self.lock();
        let stamp = chrono::Utc::now().timestamp_millis() as u64;
        if !self.usage.lock().reset(name, stamp) {
            let text = format!("there is no subscriber `{name}`");
            return Err(ControlError::Unknown(text));
        }
        self.write(&mut written);
        drop(written);
        events.turned(&self.tick(gate));
        Ok(())
    }

    /// The volumes of all subscribers of a reading, as CSV.
    pub fn csv(&self, reading: &Reading) -> String {
        let usage = self.usage.lock();
        let mut text = String::from("name,plan,month,down_bytes,up_bytes,quota_bytes,turn\n");
        for one in &reading.roster.subscribers {
            let Some(volume) = usage.of(&one.name) else {
                continue;
            };
            let name = csv::field(&one.name);
            let plan = csv::field(one.plan.as_deref().unwrap_or(""));
            let quota = one
                .quota
                .as_ref()
                .map_or_else(String::new, |quota| quota.bytes.to_string());
            let turn = one.turn.as_ref().map_or("", |(why, _)| why.name());
            let (month, bytes) = (volume.period, volume.bytes);
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "{name},{plan},{month},{},{},{quota},{turn}",
                bytes.down, bytes.up
            );
        }
        text
    }
}
