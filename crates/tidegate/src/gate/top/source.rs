//! Where `top` reads a gate: in this process, or at the daemon, if the limits are in the daemon's process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_gate::Direction;
use tidegate_gate::control::{Control, ControlError};
use tidegate_gate::reading::{
    InterfaceStatus, Limit, NodeStatus, Overview, Reading, Roster, Subscriber,
};
use tidegate_gate::table::{Attachment, Counters, NodeState, PerDirection, QueueState};
use tidegate_limiter::Share;

use super::model::{Feels, Load};
use crate::gate::remote;
use crate::gate::view::felt::LineJson;
use crate::gate::view::{
    Attached, BoostJson, Counted, Limited, NodeJson, NodeLoad, Status, SubscriberJson,
};

/// A gate that can be read.
pub trait Source {
    /// The gate without its subscribers.
    ///
    /// # Errors
    /// If it is gone or cannot be read.
    fn whole(&mut self) -> Result<Overview, ControlError>;
    /// All counters, and whether flows are watched.
    ///
    /// # Errors
    /// As of [`whole`](Self::whole).
    fn counters(&mut self) -> Result<(Reading, bool), ControlError>;
    /// The queues of the subscriber at a place of a reading, and what it feels. What cannot be read counts as empty.
    fn load(&mut self, reading: &Reading, place: usize) -> Load;
}

impl<C: Control + ?Sized> Source for C {
    fn whole(&mut self) -> Result<Overview, ControlError> {
        self.overview()
    }

    fn counters(&mut self) -> Result<(Reading, bool), ControlError> {
        let reading = self.read()?;
        let watches = reading.felt.is_some();
        Ok((reading, watches))
    }

    fn load(&mut self, reading: &Reading, place: usize) -> Load {
        let mut load = Load::default();
        for (direction, limit) in reading.roster.subscribers[place].limits.iter() {
            let Ok(state) = self.limiter(limit.limiter) else {
                continue;
            };
            if direction == Direction::Down {
                load.saved = BoostJson::new(limit.boost, &state).map(|boost| boost.saved_bytes);
            }
            for &QueueState { length, magic, .. } in &state.queues {
                load.add(length, magic);
            }
        }
        load.feels = reading.felt.as_ref().and_then(|felt| {
            let line = felt.lines[place]?;
            Some(Feels {
                trip_ns: (line.access.lately > 0).then_some(line.access.p95),
                score: felt.requirement.score(&line),
            })
        });
        load
    }
}

/// The daemon of the gate with this state.
pub struct Asked<'a>(pub &'a Path);

impl Source for Asked<'_> {
    fn whole(&mut self) -> Result<Overview, ControlError> {
        overview(remote::daemon(self.0)?.get("/v1/status")?)
    }

    fn counters(&mut self) -> Result<(Reading, bool), ControlError> {
        let began = Instant::now();
        let (status, subscribers) = remote::everything(self.0)?;
        let age = Duration::try_from_secs_f64(status.age_s).unwrap_or_default();
        let counters = subscribers.iter().map(|one| PerDirection {
            down: counters(one.down.as_ref()),
            up: counters(one.up.as_ref()),
        });
        let counters = counters.collect();
        let unlimited = status.unlimited.iter();
        let roster = Roster {
            subscribers: subscribers.into_iter().map(subscriber).collect(),
        };
        let reading = Reading {
            at: began.checked_sub(age).unwrap_or(began),
            took: began.elapsed(),
            roster: Arc::new(roster),
            counters,
            // Nothing here depends on the reasons.
            unlimited: unlimited.map(|one| ("", one.packets)).collect(),
            felt: None,
        };
        Ok((reading, status.line.is_some()))
    }

    fn load(&mut self, reading: &Reading, place: usize) -> Load {
        let name = &reading.roster.subscribers[place].name;
        let path = format!("/v1/subscribers/{}", remote::encoded(name));
        let found: Result<SubscriberJson, _> =
            remote::daemon(self.0).and_then(|daemon| daemon.get(&path));
        let Ok(found) = found else {
            return Load::default();
        };
        let mut load = Load {
            saved: (found.down.as_ref()).and_then(|limited| Some(limited.boost?.saved_bytes)),
            feels: found.line.as_ref().map(feels),
            ..Load::default()
        };
        let both = [&found.down, &found.up].into_iter().flatten();
        for queue in both.flat_map(|limited| limited.queues.iter().flatten()) {
            load.add(queue.length, queue.magic);
        }
        load
    }
}

fn feels(line: &LineJson) -> Feels {
    let trip = line.access.p95_ms.filter(|_| line.access.lately > 0);
    Feels {
        trip_ns: trip.map(|ms| (ms * 1e6) as u64),
        score: line.score,
    }
}

fn counters(limited: Option<&Limited>) -> Counters {
    let counted = limited.map_or_else(Counted::default, |limited| limited.counted);
    Counters {
        passed_packets: counted.passed_packets,
        passed_bytes: counted.passed_bytes,
        excess_packets: counted.excess_packets,
        excess_bytes: counted.excess_bytes,
        marked_packets: counted.marked_packets,
    }
}

/// What is shown of a subscriber. Lists do not say what a boost saves.
fn subscriber(one: SubscriberJson) -> Subscriber {
    let limit = |limited: Option<&Limited>| Limit {
        limiter: 0,
        rate: limited.and_then(|limited| limited.rate),
        boost: 0,
    };
    Subscriber {
        limits: PerDirection {
            down: limit(one.down.as_ref()),
            up: limit(one.up.as_ref()),
        },
        name: one.name.into(),
        plan: one.plan.map(Arc::from),
        parent: None,
        set: one.set,
        suspended: one.suspended,
        turn: None,
        quota: None,
        keys: None,
        moved: one.moved,
        matches: Vec::new(),
        users: Vec::new(),
        from: Default::default(),
    }
}

fn overview(status: Status) -> Result<Overview, ControlError> {
    let word = |text: String| Value::String(text);
    let place = |one: Attached| {
        Some(InterfaceStatus {
            attachment: Attachment {
                interface: one.interface,
                hook: serde_json::from_value(word(one.hook)).ok()?,
                direction: serde_json::from_value(word(one.direction)).ok()?,
            },
            attached: one.attached,
            renamed: one.renamed,
            link: one.link,
        })
    };
    let places: Option<Vec<_>> = status.attachments.into_iter().map(place).collect();
    Ok(Overview {
        file: status.file,
        attachments: places.ok_or_else(remote::garbled)?,
        nodes: status.nodes.into_iter().map(node).collect(),
        plans: status.plans,
        shadow: status.shadow,
        events: None,
        identity: 0,
        unsettled: status.unsettled,
        outdated: Vec::new(),
    })
}

fn node(one: NodeJson) -> NodeStatus {
    let state = |load: NodeLoad| NodeState {
        passed_bytes: load.passed_bytes,
        rate: load.rate,
        share: Share::from_ratio(load.share),
    };
    NodeStatus {
        name: one.name,
        parent: one.parent,
        capacity: PerDirection {
            down: one.down.capacity,
            up: one.up.capacity,
        },
        state: PerDirection {
            down: state(one.down),
            up: state(one.up),
        },
    }
}
