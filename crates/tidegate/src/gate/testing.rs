//! A gate in memory, for tests of the code that uses one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use tidegate_gate::Setting;
use tidegate_gate::binding::Binding;
use tidegate_gate::calendar::{Moment, Turn, Why};
use tidegate_gate::change::Report;
use tidegate_gate::control::{Adjustment, Control, ControlError};
use tidegate_gate::flow::{Flow, Way};
use tidegate_gate::line::{Line, Segments, TripSummary};
use tidegate_gate::live::MatchChange;
use tidegate_gate::quality::Requirement;
use tidegate_gate::reading::{
    Felt, InterfaceStatus, Limit, NodeStatus, Overview, Reading, Roster, Subscriber,
};
use tidegate_gate::table::{
    Attachment, Counters, Direction, Hook, LimiterState, Match, PerDirection, QueueState,
};
use tidegate_gate::usage::SharedUsage;
use tokio::sync::watch;

use super::api::listen::Socket;
use super::api::serve;

/// Subscribers `s000000` and so on, on two plans, with 50 Mbit/s down and 10 up.
pub fn roster(subscribers: u32) -> Roster {
    let plans: [Arc<str>; 2] = ["gold".into(), "basic".into()];
    let limit = |limiter, rate| Limit {
        limiter,
        rate: Some(rate),
        boost: 0,
    };
    Roster {
        subscribers: (0..subscribers)
            .map(|i| Subscriber {
                name: format!("s{i:06}").into(),
                plan: Some(Arc::clone(&plans[i as usize % 2])),
                parent: None,
                set: false,
                suspended: false,
                moved: false,
                turn: None,
                quota: None,
                keys: None,
                limits: PerDirection {
                    down: limit(2 * i, 50_000_000),
                    up: limit(2 * i + 1, 10_000_000),
                },
                matches: vec![Match::Vlan((i % 4000) as u16 + 1)],
                users: Vec::new(),
                from: Binding::default(),
            })
            .collect(),
    }
}

/// Each subscriber got this number of bytes down in packets of 1000 bytes, and a tenth more exceeded the
/// limit. Of 50 packets, one was marked.
pub fn reading(roster: &Arc<Roster>, bytes: u64) -> Reading {
    Reading {
        at: Instant::now(),
        took: Duration::from_millis(1),
        counters: vec![
            PerDirection {
                down: counters(bytes),
                up: Counters::default(),
            };
            roster.subscribers.len()
        ],
        roster: Arc::clone(roster),
        unlimited: vec![("no_subscriber", 7), ("malformed", 0)],
        felt: Some(Felt {
            lines: vec![Some(line()); roster.subscribers.len()],
            all: line(),
            requirement: Requirement::default(),
        }),
    }
}

/// Round trips of 20 and 60 ms to the subscriber, 8 and 350 to the network; 30 of 1000 segments were sent again.
pub fn line() -> Line {
    let trips = |p50: u64, p95: u64| TripSummary {
        measured: 500,
        lately: 100,
        p50: p50 * 1_000_000,
        p95: p95 * 1_000_000,
    };
    let segments = PerDirection {
        down: Segments {
            all: 1000,
            again: 30,
        },
        up: Segments::default(),
    };
    Line {
        access: trips(20, 60),
        core: trips(8, 350),
        segments,
        lately: segments,
    }
}

/// A flow of TCP from port 443 of 203.0.113.`remote`, which got this number of bytes.
pub fn flow(remote: u8, bytes: u64) -> Flow {
    Flow {
        local: [192, 0, 2, 7].into(),
        remote: [203, 0, 113, remote].into(),
        ports: (50_000, 443),
        protocol: 6,
        age: 5_000_000_000,
        idle: 1_000_000,
        ways: PerDirection {
            down: Way {
                passed_packets: bytes / 1000,
                passed_bytes: bytes,
                excess_packets: bytes / 10_000,
                excess_bytes: bytes / 10,
                marked_packets: 0,
                segments: Segments::default(),
                trip: 21_000_000,
                queue: 3,
            },
            up: Way::default(),
        },
    }
}

pub fn counters(bytes: u64) -> Counters {
    Counters {
        passed_packets: bytes / 1000,
        passed_bytes: bytes,
        excess_packets: bytes / 10_000,
        excess_bytes: bytes / 10,
        marked_packets: bytes / 50_000,
    }
}

/// A gate that answers without a data path.
pub struct Fake {
    pub roster: Arc<Roster>,
    /// Bytes that were counted for the subscriber at this index of the roster.
    pub bytes: fn(usize) -> u64,
    /// Nodes of its network.
    pub nodes: Vec<NodeStatus>,
    /// Whether it only counts.
    pub shadow: bool,
    /// The result of reloads.
    pub reload: Result<Report, &'static str>,
}

impl Fake {
    pub fn new(subscribers: u32) -> Self {
        Self {
            roster: Arc::new(roster(subscribers)),
            bytes: |index| 1_000_000 * (index as u64 + 1),
            shadow: false,
            nodes: Vec::new(),
            reload: Ok(Report {
                unchanged: subscribers as usize,
                ..Report::default()
            }),
        }
    }

    fn find(&mut self, name: &str) -> Result<&mut Subscriber, ControlError> {
        let index = self
            .roster
            .find(name)
            .ok_or_else(|| ControlError::Unknown(format!("there is no subscriber `{name}`")))?;
        Ok(&mut Arc::make_mut(&mut self.roster).subscribers[index])
    }
}

impl Control for Fake {
    fn overview(&mut self) -> Result<Overview, ControlError> {
        Ok(Overview {
            file: "/etc/tidegate/gate.toml".into(),
            attachments: vec![InterfaceStatus {
                attachment: Attachment {
                    interface: "eth0".into(),
                    hook: Hook::TcEgress,
                    direction: Direction::Down,
                },
                attached: true,
                renamed: None,
                link: None,
            }],
            nodes: self.nodes.clone(),
            plans: 2,
            shadow: self.shadow,
            events: None,
            identity: 7,
            unsettled: false,
            outdated: Vec::new(),
        })
    }

    fn roster(&mut self) -> Result<Arc<Roster>, ControlError> {
        Ok(Arc::clone(&self.roster))
    }

    fn read(&mut self) -> Result<Reading, ControlError> {
        let mut reading = reading(&self.roster, 0);
        for (index, counted) in reading.counters.iter_mut().enumerate() {
            counted.down = counters((self.bytes)(index));
        }
        Ok(reading)
    }

    fn limiter(&mut self, number: u32) -> Result<LimiterState, ControlError> {
        let queue = |length, magic| QueueState {
            length,
            magic,
            passed_bytes: u64::from(number),
            excess_bytes: 1,
        };
        Ok(LimiterState {
            counters: counters(1000),
            queues: vec![queue(3000, 1000), queue(500, 500), queue(0, 0)],
            saved: Some(2_000_000),
        })
    }

    fn line(&mut self, _: &Subscriber) -> Result<Option<(Line, Option<f64>)>, ControlError> {
        Ok(Some((line(), Requirement::default().score(&line()))))
    }

    fn flows(&mut self, name: &str) -> Result<Vec<Flow>, ControlError> {
        self.find(name)?;
        Ok(vec![flow(1, 1_000_000), flow(2, 2_000_000)])
    }

    fn set(&mut self, name: &str, adjustment: &Adjustment) -> Result<(), ControlError> {
        if let Some(plan) = &adjustment.setting.plan
            && plan != "gold"
            && plan != "basic"
        {
            return Err(ControlError::Invalid(format!("there is no plan '{plan}'")));
        }
        let change = adjustment.setting.clone();
        let entry = self.find(name)?;
        if adjustment.reset {
            entry.set = false;
            entry.plan = Some("basic".into());
            if change == Setting::default() {
                return Ok(());
            }
        }
        if let Some(plan) = change.plan {
            entry.plan = Some(plan.into());
        }
        let limits = &mut entry.limits;
        for (limit, rate) in [(&mut limits.down, change.down), (&mut limits.up, change.up)] {
            if let Some(rate) = rate {
                limit.rate = Some(rate.bits_per_second());
            }
        }
        if let Some(suspended) = change.suspended {
            entry.suspended = suspended;
        }
        if !change.keys.is_empty() {
            entry.keys = Some(change.keys);
        }
        for change in &adjustment.moves {
            match change {
                MatchChange::Assign(what) => entry.matches.push(*what),
                MatchChange::Release(what) => entry.matches.retain(|one| one != what),
                MatchChange::Only(_, all) => entry.matches.clone_from(all),
                MatchChange::AsDeclared => {}
            }
        }
        entry.set = true;
        Ok(())
    }

    fn turn(
        &mut self,
        _at: &Moment,
        usage: &SharedUsage,
    ) -> Result<Vec<(String, Option<Turn>)>, ControlError> {
        // A plan of 1.5 MB for everybody, and no way back.
        let mut turns = Vec::new();
        for one in &mut Arc::make_mut(&mut self.roster).subscribers {
            let volume = usage
                .lock()
                .of(&one.name)
                .map_or(0, |volume| volume.bytes.down);
            if volume > 1_500_000 && one.turn.is_none() {
                one.turn = Some((Why::Quota, one.plan.clone()));
                let turn = Turn {
                    plan: "slow".into(),
                    why: Why::Quota,
                };
                turns.push((one.name.to_string(), Some(turn)));
            }
        }
        Ok(turns)
    }

    fn reload(&mut self, _file: Option<&Path>, _lenient: bool) -> Result<Report, ControlError> {
        self.reload
            .clone()
            .map_err(|reason| ControlError::Invalid(reason.into()))
    }

    fn heal(&mut self) -> Vec<tidegate_gate::Missing> {
        Vec::new()
    }
}

/// A folder with the file, pins and state of a gate in memory.
pub struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    pub const FILE: &str = include_str!("../../../gate/tests/gate.toml");

    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let site = Self { folder };
        site.write(Self::FILE);
        site
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

    /// Writes the file, with the folders of this site.
    pub fn write(&self, text: &str) {
        let folders = format!("pins = {:?}\nstate = {:?}\n", self.pins(), self.state());
        std::fs::write(self.file(), folders + text).expect("written");
    }
}

/// Serves in a thread of its own until the end is sent.
pub fn serving(
    socket: Socket,
    router: Router,
    ended: watch::Receiver<bool>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(serve::serve(socket, router, ended))
            .expect("served");
    })
}
