//! A gate in memory, for tests of what stands on one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_gate::table::{
    Attachment, Counters, Direction, Hook, LimiterState, Match, QueueState,
};

use super::control::{Change, Control, Failure, Overview, Reloaded};
use super::reading::{Entry, Limit, Reading, Roster};

/// Subscribers `s000000` and so on, on two plans, with 50 Mbit/s down and 10 up.
pub fn roster(subscribers: u32) -> Roster {
    let plans: [Arc<str>; 2] = ["gold".into(), "basic".into()];
    let limit = |limiter, rate| {
        Some(Limit {
            limiter,
            rate: Some(rate),
        })
    };
    Roster {
        entries: (0..subscribers)
            .map(|i| Entry {
                name: format!("s{i:06}").into(),
                plan: Arc::clone(&plans[i as usize % 2]),
                set: false,
                limits: [limit(2 * i, 50_000_000), limit(2 * i + 1, 10_000_000)],
                matches: vec![Match::Vlan((i % 4000) as u16 + 1)],
            })
            .collect(),
    }
}

/// Of everybody, so many bytes down in packets of 1000, and a tenth of them lost.
pub fn reading(roster: &Arc<Roster>, bytes: u64) -> Reading {
    Reading {
        at: Instant::now(),
        took: Duration::from_millis(1),
        counters: roster
            .entries
            .iter()
            .map(|_| [counters(bytes), Counters::default()])
            .collect(),
        roster: Arc::clone(roster),
        unlimited: vec![("no_subscriber", 7), ("malformed", 0)],
    }
}

pub fn counters(bytes: u64) -> Counters {
    Counters {
        passed_packets: bytes / 1000,
        passed_bytes: bytes,
        excess_packets: bytes / 10_000,
        excess_bytes: bytes / 10,
    }
}

/// Answers as a gate would.
pub struct Fake {
    pub roster: Arc<Roster>,
    /// Counted so far by the subscriber of this place in the roster.
    pub bytes: fn(usize) -> u64,
    /// What the next reload comes to.
    pub reload: Result<Reloaded, &'static str>,
}

impl Fake {
    pub fn new(subscribers: u32) -> Self {
        Self {
            roster: Arc::new(roster(subscribers)),
            bytes: |index| 1_000_000 * (index as u64 + 1),
            reload: Ok(Reloaded {
                unchanged: u64::from(subscribers),
                ..Reloaded::default()
            }),
        }
    }

    fn find(&mut self, name: &str) -> Result<&mut Entry, Failure> {
        let index = self
            .roster
            .find(name)
            .ok_or_else(|| Failure::Unknown(format!("there is no subscriber `{name}`")))?;
        Ok(&mut Arc::make_mut(&mut self.roster).entries[index])
    }
}

impl Control for Fake {
    fn overview(&mut self) -> Result<Overview, Failure> {
        Ok(Overview {
            file: "/etc/tidegate/gate.toml".into(),
            attachments: vec![(
                Attachment {
                    interface: "eth0".into(),
                    hook: Hook::TcEgress,
                    direction: Direction::Down,
                },
                true,
            )],
            plans: 2,
            unsettled: false,
        })
    }

    fn roster(&mut self) -> Result<Arc<Roster>, Failure> {
        Ok(Arc::clone(&self.roster))
    }

    fn read(&mut self) -> Result<Reading, Failure> {
        let mut reading = reading(&self.roster, 0);
        for (index, counted) in reading.counters.iter_mut().enumerate() {
            counted[0] = counters((self.bytes)(index));
        }
        Ok(reading)
    }

    fn limiter(&mut self, number: u32) -> Result<LimiterState, Failure> {
        let queue = |length, magic| QueueState {
            length,
            magic,
            passed_bytes: u64::from(number),
            excess_bytes: 1,
        };
        Ok(LimiterState {
            counters: counters(1000),
            queues: vec![queue(3000, 1000), queue(500, 500), queue(0, 0)],
        })
    }

    fn set(&mut self, name: &str, change: &Change) -> Result<(), Failure> {
        if let Some(plan) = &change.plan
            && plan != "gold"
            && plan != "basic"
        {
            return Err(Failure::Invalid(format!("there is no plan '{plan}'")));
        }
        let change = change.clone();
        let entry = self.find(name)?;
        if change.reset {
            entry.set = false;
            entry.plan = "basic".into();
            if change.plan.is_none() && change.down.is_none() && change.up.is_none() {
                return Ok(());
            }
        }
        if let Some(plan) = change.plan {
            entry.plan = plan.into();
        }
        for (limit, rate) in entry.limits.iter_mut().zip([change.down, change.up]) {
            if let (Some(limit), Some(rate)) = (limit, rate) {
                limit.rate = Some(rate.bits_per_second());
            }
        }
        entry.set = true;
        Ok(())
    }

    fn reload(&mut self, _file: Option<&Path>) -> Result<Reloaded, Failure> {
        self.reload
            .clone()
            .map_err(|reason| Failure::Invalid(reason.into()))
    }

    fn heal(&mut self) -> Vec<tidegate_gate::gate::Missing> {
        Vec::new()
    }
}

/// A folder with a configuration, of a gate in memory.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub const FILE: &str = r#"
pins = "PINS"
state = "STATE"
[[interface]]
name = "lo"
side = "core"
[plan.gold]
down = "50mbit"
up = "10mbit"
[plan.basic]
down = "10mbit"
[[subscriber]]
name = "alice"
plan = "gold"
addresses = ["192.0.2.1", "2001:db8::/56"]
[[subscriber]]
name = "bob"
plan = "basic"
vlan = 7
"#;

    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Self { folder };
        place.write(Self::FILE);
        place
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("gate.toml")
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub fn pins(&self) -> PathBuf {
        self.folder.path().join("pins")
    }

    /// Writes the configuration anew.
    pub fn write(&self, text: &str) {
        let text = text
            .replace("PINS", &self.pins().display().to_string())
            .replace("STATE", &self.state().display().to_string());
        std::fs::write(self.file(), text).expect("written");
    }
}
