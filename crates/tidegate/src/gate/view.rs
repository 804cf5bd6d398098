//! The objects of the HTTP API and of `--json`.

use serde::{Deserialize, Serialize};
use tidegate_gate::change::Report;
use tidegate_gate::reading::{self, Overview, Reading};
use tidegate_gate::table::{
    Attachment, Counters, Direction, LimiterState, Match, PerDirection, QueueState,
};
use utoipa::ToSchema;

/// The gate as a whole.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Status {
    /// Version of tidegate.
    pub version: String,
    /// The configuration file.
    pub file: String,
    /// The interfaces that the gate attaches to.
    pub attachments: Vec<Attached>,
    /// Number of plans.
    pub plans: u64,
    /// Number of subscribers.
    pub subscribers: u64,
    /// Number of subscribers that were set live and differ from the configuration.
    pub set: u64,
    /// Whether a change could neither be completed nor undone. The next change tries it again.
    pub unsettled: bool,
    /// Packets to all subscribers.
    pub down: Counted,
    /// Packets from all subscribers.
    pub up: Counted,
    /// Packets that no limiter saw, by reason.
    pub unlimited: Vec<Unlimited>,
}

/// An interface that the gate attaches to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Attached {
    /// The interface's name.
    pub interface: String,
    /// `tc-ingress`, `tc-egress`, `xdp-native` or `xdp-generic`.
    pub hook: String,
    /// Direction of the packets there: `down` is to subscribers, `up` is from them.
    pub direction: String,
    /// Whether the gate is attached now: the interface may have disappeared.
    pub attached: bool,
}

/// Packets that no limiter saw.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Unlimited {
    /// The reason.
    pub reason: &'static str,
    /// Number of packets.
    pub packets: u64,
}

/// Packets and bytes, with the bytes that are charged.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct Counted {
    /// Packets that passed, counted as on the wire.
    pub passed_packets: u64,
    /// Their bytes.
    pub passed_bytes: u64,
    /// Packets that exceeded the limit, dropped or marked.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
}

/// A subscriber.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Subscriber)]
pub struct SubscriberJson {
    /// Name in the configuration.
    pub name: String,
    /// Name of the plan, `-` if there is none.
    pub plan: String,
    /// Whether it was set live and differs from the configuration.
    pub set: bool,
    /// How its packets are recognised: addresses, VLAN tags and PPPoE sessions.
    pub matches: Vec<String>,
    /// Packets to the subscriber; null if they have no limiter.
    pub down: Option<Limited>,
    /// Packets from the subscriber; null if they have no limiter.
    pub up: Option<Limited>,
}

/// One direction of a subscriber.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Limited {
    /// Rate limit in bits per second; null if packets are counted and not limited.
    pub rate: Option<u64>,
    /// Counters since the subscriber was added.
    #[serde(flatten)]
    pub counted: Counted,
    /// The queues, only in answers about one subscriber.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Queue>>,
}

/// A phantom queue.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Queue {
    /// Bytes in it.
    pub length: u64,
    /// Magic bytes among these.
    pub magic: u64,
    /// Bytes that passed through it.
    pub passed_bytes: u64,
    /// Bytes that exceeded the limit.
    pub excess_bytes: u64,
}

/// Some of the subscribers, sorted by name.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Page {
    /// Number of subscribers that match, on all pages.
    pub matched: u64,
    /// The subscribers of this page.
    pub subscribers: Vec<SubscriberJson>,
    /// The parameter `after` of the next page; null if this is the last page.
    pub next: Option<String>,
}

/// A change of a subscriber. Values that are not given stay as they are.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Return to the configuration before anything else is changed.
    #[serde(default)]
    pub reset: bool,
    /// Name of the new plan.
    #[serde(default)]
    #[schema(example = "gold")]
    pub plan: Option<String>,
    /// New rate to the subscriber: a number and a unit of bit, kbit, mbit, gbit or tbit.
    #[serde(default)]
    #[schema(example = "50mbit")]
    pub down: Option<String>,
    /// New rate from the subscriber.
    #[serde(default)]
    #[schema(example = "10mbit")]
    pub up: Option<String>,
}

/// The changes that a reload made.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// Number of subscribers that were added.
    pub added: u64,
    /// Number of subscribers that were removed.
    pub removed: u64,
    /// Number of subscribers with other limits than before.
    pub limited: u64,
    /// Number of subscribers with other addresses or tags than before.
    pub moved: u64,
    /// Number of subscribers that did not change.
    pub unchanged: u64,
    /// Subscribers whose live changes no longer apply, since the file changed the subscriber.
    pub reset: Vec<String>,
    /// Interfaces that the gate was attached to.
    pub attached: Vec<Attached>,
    /// Interfaces that the gate was detached from.
    pub detached: Vec<Attached>,
    /// Interfaces that the gate should be attached to and is not: they do not exist or refuse.
    pub missing: Vec<String>,
    /// Whether the settings `accounting` or `unknown` changed.
    pub settings: bool,
}

/// The answer to a request that failed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// What went wrong, where, and what to do.
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

impl SubscriberJson {
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
            matches: subscriber.matches.iter().map(Match::to_string).collect(),
            down: limited(Direction::Down),
            up: limited(Direction::Up),
        }
    }
}

impl Attached {
    /// An interface, and whether the gate is attached to it.
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

/// A subscriber without its queues: the one at this index in a reading.
pub fn subscriber(reading: &Reading, index: usize) -> SubscriberJson {
    SubscriberJson::new(&reading.roster.subscribers[index], reading.counters[index])
}

/// A subscriber with its queues, from the state of its limiters.
pub fn detail(
    subscriber: &reading::Subscriber,
    states: &PerDirection<LimiterState>,
) -> SubscriberJson {
    let counters = PerDirection::new(|direction| states[direction].counters);
    let queues = |state: &LimiterState| Some(state.queues.iter().map(Queue::from).collect());
    let mut subscriber = SubscriberJson::new(subscriber, counters);
    if let Some(down) = &mut subscriber.down {
        down.queues = queues(&states.down);
    }
    if let Some(up) = &mut subscriber.up {
        up.queues = queues(&states.up);
    }
    subscriber
}
