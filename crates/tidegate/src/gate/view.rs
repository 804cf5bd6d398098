//! The objects of the HTTP API and of `--json`.

use serde::{Deserialize, Serialize};
use tidegate_gate::change::Report;
use tidegate_gate::matches;
use tidegate_gate::reading::{self, Overview, Reading};
use tidegate_gate::table::{
    Attachment, Counters, Direction, LimiterState, PerDirection, QueueState,
};
use utoipa::ToSchema;

/// The gate as a whole.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Status {
    /// Of tidegate.
    pub version: String,
    /// The configuration's file.
    pub file: String,
    /// Where packets pass.
    pub attachments: Vec<Attached>,
    /// How many plans there are.
    pub plans: u64,
    /// How many subscribers there are.
    pub subscribers: u64,
    /// How many of them are not as the file has them.
    pub set: u64,
    /// Whether a change could be made neither whole nor undone; it is tried again with the next one.
    pub unsettled: bool,
    /// Of all subscribers, what came down.
    pub down: Counted,
    /// What went up.
    pub up: Counted,
    /// Packets that no limiter saw, by reason.
    pub unlimited: Vec<Unlimited>,
}

/// A place where packets pass.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Attached {
    /// The interface's name.
    pub interface: String,
    /// `tc-ingress`, `tc-egress`, `xdp-native` or `xdp-generic`.
    pub hook: String,
    /// `down` or `up`: whose packets pass there.
    pub direction: String,
    /// Whether packets are taken there now: the interface may be gone.
    pub attached: bool,
}

/// Packets that no limiter saw.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Unlimited {
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub packets: u64,
}

/// Packets and bytes, as charged.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct Counted {
    /// Packets that passed, as on the wire.
    pub passed_packets: u64,
    /// Their bytes.
    pub passed_bytes: u64,
    /// Packets beyond the limit, dropped or marked.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
}

/// A subscriber.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Subscriber {
    /// As the configuration has it.
    pub name: String,
    /// Its plan's name.
    pub plan: String,
    /// Whether it is not as the file has it, since it was set live.
    pub set: bool,
    /// What tells its packets: addresses, tags and sessions.
    pub matches: Vec<String>,
    /// What comes to it; null if that has no limiter.
    pub down: Option<Limited>,
    /// What it sends; null if that has no limiter.
    pub up: Option<Limited>,
}

/// One direction of a subscriber.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Limited {
    /// Bits per second; null if it is counted, and not limited.
    pub rate: Option<u64>,
    /// What was counted since the limiter came to be.
    #[serde(flatten)]
    pub counted: Counted,
    /// Its queues, where one subscriber was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Queue>>,
}

/// A phantom queue.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Queue {
    /// Bytes in it.
    pub length: u64,
    /// Of these, magic ones.
    pub magic: u64,
    /// Bytes that passed through it.
    pub passed_bytes: u64,
    /// Bytes beyond the limit.
    pub excess_bytes: u64,
}

/// Some of the subscribers, sorted by name.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Page {
    /// How many match, on all pages.
    pub matched: u64,
    /// They.
    pub subscribers: Vec<Subscriber>,
    /// `after` of the next page; null if this is the last one.
    pub next: Option<String>,
}

/// What to change of a subscriber. What is not given stays.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// As the configuration has it, before anything else.
    #[serde(default)]
    pub reset: bool,
    /// The plan's name.
    #[serde(default)]
    #[schema(example = "gold")]
    pub plan: Option<String>,
    /// The rate down: a number and a unit of bit, kbit, mbit, gbit or tbit.
    #[serde(default)]
    #[schema(example = "50mbit")]
    pub down: Option<String>,
    /// The rate up.
    #[serde(default)]
    #[schema(example = "10mbit")]
    pub up: Option<String>,
}

/// What a reload did.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// How many subscribers are new.
    pub added: u64,
    /// How many are no more.
    pub removed: u64,
    /// How many are limited otherwise than before.
    pub limited: u64,
    /// How many are told by other addresses or tags than before.
    pub moved: u64,
    /// How many were not touched.
    pub unchanged: u64,
    /// Subscribers that were set live, and are as the file has them now, since the file changed.
    pub reset: Vec<String>,
    /// Where packets are taken now.
    pub attached: Vec<Attached>,
    /// Where they no longer are.
    pub detached: Vec<Attached>,
    /// Where they should be, and the interface is not there or does not let us.
    pub missing: Vec<String>,
    /// Whether accounting changed, or what becomes of unknown traffic.
    pub settings: bool,
}

/// Why a request failed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// What is wrong, where, and what to do.
    pub error: String,
}

impl From<Counters> for Counted {
    fn from(counters: Counters) -> Self {
        Self {
            passed_packets: counters.passed_packets,
            passed_bytes: counters.passed_bytes,
            excess_packets: counters.excess_packets,
            excess_bytes: counters.excess_bytes,
        }
    }
}

impl From<&QueueState> for Queue {
    fn from(queue: &QueueState) -> Self {
        Self {
            length: queue.length,
            magic: queue.magic,
            passed_bytes: queue.passed_bytes,
            excess_bytes: queue.excess_bytes,
        }
    }
}

impl From<&Report> for Reloaded {
    fn from(report: &Report) -> Self {
        let count = |names: &[String]| names.len() as u64;
        let places = |attachments: &[Attachment], attached| {
            let places = attachments.iter();
            places.map(|place| Attached::new(place, attached)).collect()
        };
        Self {
            added: count(&report.added),
            removed: count(&report.removed),
            limited: count(&report.limited),
            moved: count(&report.moved),
            unchanged: report.unchanged as u64,
            reset: report.reset.clone(),
            attached: places(&report.attached, true),
            detached: places(&report.detached, false),
            missing: report.missing.clone(),
            settings: report.settings,
        }
    }
}

impl Subscriber {
    fn new(subscriber: &reading::Subscriber, counters: PerDirection<Counters>) -> Self {
        let limited = |direction| {
            Some(Limited {
                rate: subscriber.limits[direction].rate,
                counted: counters[direction].into(),
                queues: None,
            })
        };
        Self {
            name: subscriber.name.to_string(),
            plan: subscriber.plan_name().to_owned(),
            set: subscriber.set,
            matches: subscriber.matches.iter().map(matches::text).collect(),
            down: limited(Direction::Down),
            up: limited(Direction::Up),
        }
    }
}

impl Attached {
    /// A place, and whether packets are taken there now.
    pub fn new(attachment: &Attachment, attached: bool) -> Self {
        Self {
            interface: attachment.interface.clone(),
            hook: attachment.hook.name().into(),
            direction: attachment.direction.name().into(),
            attached,
        }
    }
}

/// The gate as a whole, with sums over all subscribers.
pub fn status(overview: &Overview, reading: &Reading) -> Status {
    let PerDirection { down, up } = reading.sums();
    Status {
        version: env!("CARGO_PKG_VERSION").into(),
        file: overview.file.clone(),
        attachments: overview
            .attachments
            .iter()
            .map(|(place, attached)| Attached::new(place, *attached))
            .collect(),
        plans: overview.plans,
        subscribers: reading.roster.subscribers.len() as u64,
        set: reading.roster.set(),
        unsettled: overview.unsettled,
        down: down.into(),
        up: up.into(),
        unlimited: reading
            .unlimited
            .iter()
            .map(|&(reason, packets)| Unlimited { reason, packets })
            .collect(),
    }
}

/// A subscriber without its queues: what is at this index in a reading.
pub fn subscriber(reading: &Reading, index: usize) -> Subscriber {
    Subscriber::new(&reading.roster.subscribers[index], reading.counters[index])
}

/// A subscriber with its queues, from the state of its limiters.
pub fn detail(subscriber: &reading::Subscriber, states: &PerDirection<LimiterState>) -> Subscriber {
    let counters = PerDirection::new(|direction| states[direction].counters);
    let queues = |state: &LimiterState| Some(state.queues.iter().map(Queue::from).collect());
    let mut subscriber = Subscriber::new(subscriber, counters);
    if let Some(down) = &mut subscriber.down {
        down.queues = queues(&states.down);
    }
    if let Some(up) = &mut subscriber.up {
        up.queues = queues(&states.up);
    }
    subscriber
}
