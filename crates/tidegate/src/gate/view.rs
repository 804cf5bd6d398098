//! The objects of the HTTP API and of `--json`.

pub mod felt;
pub mod pair;

use serde::{Deserialize, Serialize};
use tidegate_gate::change::Report;
use tidegate_gate::config::PlanKeys;
use tidegate_gate::control::Inspected;
use tidegate_gate::reading::{self, Overview, Reading};
use tidegate_gate::table::{
    Attachment, Counters, Direction, LimiterState, Match, NodeState, PerDirection, QueueState,
};
use utoipa::ToSchema;

use self::felt::LineJson;
use self::pair::PairJson;

/// The gate as a whole.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of tidegate.
    pub version: String,
    /// The configuration file.
    pub file: String,
    /// The interfaces that the gate attaches to.
    pub attachments: Vec<Attached>,
    /// The nodes of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeJson>,
    /// Number of plans.
    pub plans: u64,
    /// Number of subscribers.
    pub subscribers: u64,
    /// Number of subscribers that were set live and differ from the configuration.
    pub set: u64,
    /// Whether packets pass as they came, and what would be dropped or marked is only counted.
    #[serde(default)]
    pub shadow: bool,
    /// Whether a change could neither be completed nor undone. The next change tries it again.
    pub unsettled: bool,
    /// The programs that limit packets and are of another version of tidegate than this process. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outdated: Vec<String>,
    /// Seconds since the counters were read.
    pub age_s: f64,
    /// Packets to all subscribers.
    pub down: Counted,
    /// Packets from all subscribers.
    pub up: Counted,
    /// Packets that no limiter saw, by reason.
    pub unlimited: Vec<Unlimited>,
    /// The other gate of a pair, if there is one and a daemon runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairJson>,
    /// On DPDK: whether a process stands by that passes all packets, without limits, if the daemon dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_by: Option<bool>,
    /// What all lines feel together, if flows are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<LineJson>,
}

/// An interface that the gate attaches to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Attached {
    /// The interface's name.
    pub interface: String,
    /// `tc-ingress`, `tc-egress`, `xdp-native`, `xdp-generic`, `nat-ingress` or `nat-egress`; on DPDK `dpdk-ingress` or `dpdk-egress`.
    pub hook: String,
    /// Direction of the packets there: `down` is to subscribers, `up` is from them.
    pub direction: String,
    /// Whether the gate is attached now: the interface may have disappeared.
    pub attached: bool,
    /// The interface's present name, if it was renamed since the gate was attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed: Option<String>,
    /// Whether its device has a link, if DPDK has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<bool>,
}

/// A node of the network.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeJson {
    /// Name in the configuration.
    pub name: String,
    /// The node above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Packets to the subscribers below it.
    pub down: NodeLoad,
    /// Packets from them.
    pub up: NodeLoad,
}

/// The load of a node in one direction.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub struct NodeLoad {
    /// bit/s.
    pub capacity: u64,
    /// bit/s that passed lately.
    pub rate: u64,
    /// Bytes that passed.
    pub passed_bytes: u64,
    /// The part of its rate that each subscriber below may use, 0 to 1.
    pub share: f64,
    /// Whether the node is full: subscribers may use less than their rates.
    pub full: bool,
}

impl NodeLoad {
    fn new(capacity: u64, state: NodeState) -> Self {
        Self {
            capacity,
            rate: state.rate,
            passed_bytes: state.passed_bytes,
            share: state.share.ratio(),
            full: state.is_full(),
        }
    }
}

/// Packets that no limiter saw.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Unlimited {
    /// The reason.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

/// Packets and bytes, with the bytes that are charged.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// Packets that passed, counted as on the wire.
    pub passed_packets: u64,
    /// Their bytes.
    pub passed_bytes: u64,
    /// Packets that exceeded the limit: dropped, or passed with another code point.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
    /// Of the packets that passed, those of ECN senders that the gate marked as congested (RFC 3168).
    pub marked_packets: u64,
}

/// A subscriber.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Subscriber)]
pub struct SubscriberJson {
    /// Name in the configuration.
    pub name: String,
    /// Name of the plan; null if it has none.
    pub plan: Option<String>,
    /// The node of the network above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether it was set live and differs from the configuration.
    pub set: bool,
    /// Whether all its packets are dropped.
    pub suspended: bool,
    /// Whether addresses or tags were assigned or released live.
    pub moved: bool,
    /// Why `plan` is in force instead of its plan: `schedule` or `quota`; null if it is its plan.
    pub turn: Option<String>,
    /// Its plan, if it has one and another one is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_plan: Option<String>,
    /// Keys of its plan that were set live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub keys: Option<PlanKeys>,
    /// What it used in its month, if that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageJson>,
    /// The volume of its plan.
    #[serde(skip)]
    pub quota: Option<u64>,
    /// How its packets are recognised: addresses, VLAN tags and PPPoE sessions.
    pub matches: Vec<String>,
    /// What access servers call it in RADIUS, besides its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Where its packets come from: `port NAME`, `mac ADDRESS`, `vlan TAG`. Others with its addresses are dropped.
    pub from: Vec<String>,
    /// What its line feels, if flows are watched and it had TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<LineJson>,
    /// Packets to the subscriber; null if they have no limiter.
    pub down: Option<Limited>,
    /// Packets from the subscriber; null if they have no limiter.
    pub up: Option<Limited>,
}

/// What a subscriber used in its month.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Usage)]
pub struct UsageJson {
    /// The first day of the month.
    #[schema(example = "2026-11-01")]
    pub month: String,
    /// Bytes that passed to it.
    pub down_bytes: u64,
    /// Bytes that passed from it.
    pub up_bytes: u64,
    /// The bytes of its quota; null if it has none.
    pub quota_bytes: Option<u64>,
}

/// One direction of a subscriber.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Limited {
    /// Rate limit in bits per second; null if packets are counted and not limited.
    pub rate: Option<u64>,
    /// Counters since the subscriber was added.
    #[serde(flatten)]
    pub counted: Counted,
    /// What is saved of its boost, if its plan has one; only in answers about one subscriber.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost: Option<BoostJson>,
    /// The queues, only in answers about one subscriber.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Queue>>,
}

/// What a subscriber left unused of its rate and may use at once.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = Boost)]
pub struct BoostJson {
    /// Bytes that are saved now, if no node above is full.
    pub saved_bytes: u64,
    /// Most bytes that may be saved: the plan's `boost`.
    pub most_bytes: u64,
}

impl BoostJson {
    /// What is saved by a limiter, if it has a boost. All of it is before the first packet.
    pub fn new(most_bytes: u64, state: &LimiterState) -> Option<Self> {
        (most_bytes > 0).then(|| Self {
            saved_bytes: state.saved.unwrap_or(most_bytes).min(most_bytes),
            most_bytes,
        })
    }
}

/// A phantom queue.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
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
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// Number of subscribers that match, on all pages.
    pub matched: u64,
    /// Seconds since the counters were read.
    pub age_s: f64,
    /// The subscribers of this page.
    pub subscribers: Vec<SubscriberJson>,
    /// The parameter `after` of the next page; null if this is the last page.
    pub next: Option<String>,
}

/// A change of a subscriber. Values that are not given stay as they are.
#[derive(Debug, Clone, Default, ToSchema)]
pub struct Patch {
    /// Return to the configuration before anything else is changed.
    #[schema(default = false)]
    pub reset: bool,
    /// Name of the new plan.
    #[schema(example = "gold")]
    pub plan: Option<String>,
    /// New rate to the subscriber: a number and a unit of bit, kbit, mbit, gbit or tbit.
    #[schema(example = "50mbit")]
    pub down: Option<String>,
    /// New rate from the subscriber.
    #[schema(example = "10mbit")]
    pub up: Option<String>,
    /// Whether all its packets are dropped from now on.
    pub suspended: Option<bool>,
    /// Keys of its plan with other values, as in `[plan.NAME]` of the file; null takes one back, and keys that are not given
    /// stay. `quota` may be `none`. They hold on top of any plan that the subscriber has, but not while another plan is in
    /// force by a schedule or a quota.
    #[schema(value_type = Object, example = json!({"quota": "500GB", "quota-plan": "slow", "policy": {"hosts": [4, 4]}}))]
    pub keys: PlanKeys,
    /// The interface where its packets come in, one of side `access`; "" for any.
    #[schema(example = "eth3")]
    pub from_port: Option<String>,
    /// The MAC address that its packets come from; "" for any.
    #[schema(example = "02:00:00:00:00:01")]
    pub from_mac: Option<String>,
    /// The VLAN tag that its packets have, or the outer and the inner one; "" for any.
    #[schema(example = "100.200")]
    pub from_vlan: Option<String>,
    /// Return to the addresses and tags of the configuration, before they are changed otherwise. `reset` leaves
    /// them as they are.
    #[schema(default = false)]
    pub reset_addresses: bool,
    /// All its addresses, prefixes or ranges, in place of those that it has. Other subscribers lose them.
    #[schema(example = json!(["192.0.2.1", "2001:db8:1::/56"]))]
    pub addresses: Option<Vec<String>>,
    /// All its VLAN tags, likewise.
    #[schema(example = json!(["7"]))]
    pub vlan: Option<Vec<String>>,
    /// All its pairs of tags, likewise.
    #[schema(example = json!(["100.200"]))]
    pub qinq: Option<Vec<String>>,
    /// All its PPPoE sessions, likewise.
    #[schema(example = json!(["17"]))]
    pub pppoe: Option<Vec<String>>,
    /// Addresses and tags that it gets, in addition to those that it has. Other subscribers lose them.
    #[schema(example = json!(["192.0.2.1", "vlan 7", "qinq 100.200", "pppoe 17"]))]
    pub assign: Option<Vec<String>>,
    /// Begin its month's volume at 0.
    #[schema(default = false)]
    pub reset_usage: bool,
    /// Addresses and tags that it loses. They go back to the subscriber that has them in the configuration.
    pub release: Option<Vec<String>>,
}

/// The subscriber that gets an address.
#[derive(Debug, Clone, ToSchema)]
pub struct Lease {
    /// Its name.
    #[schema(example = "alice")]
    pub subscriber: String,
    /// Whether it loses what it had of the same kind.
    #[schema(default = false)]
    pub only: bool,
}

/// The subscriber that lost an address.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Released {
    /// Its name.
    pub subscriber: String,
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
    /// Whether settings for all packets changed, such as `accounting` or `unknown`.
    pub settings: bool,
    /// The keys and tables of the file that set them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_settings: Vec<String>,
    /// Keys and tables of the file that changed, and that take effect when the daemon restarts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
    /// Programs of another version of tidegate that those of this one replaced. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
    /// Programs of another version that stay in force, each with the reason. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Whether nodes of the network changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nodes: bool,
    /// Number of lines of imported files that were skipped because of mistakes. Their subscribers are not limited.
    pub skipped_lines: u64,
    /// These mistakes, with file, line and column: the first 100.
    pub skipped: Vec<String>,
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
            marked_packets: counters.marked_packets,
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
            settings: !report.settings.is_empty(),
            changed_settings: report.settings.clone(),
            restart: report.restart.clone(),
            replaced: report.replaced.clone(),
            kept: report.kept.clone(),
            nodes: report.nodes,
            skipped_lines: report.skipped_lines as u64,
            skipped: report.skipped.clone(),
        }
    }
}

impl SubscriberJson {
    fn new(subscriber: &reading::Subscriber, counters: PerDirection<Counters>) -> Self {
        let limited = |direction| {
            Some(Limited {
                rate: subscriber.limits[direction].rate,
                counted: counters[direction].into(),
                boost: None,
                queues: None,
            })
        };
        Self {
            name: subscriber.name.to_string(),
            plan: subscriber.plan.as_deref().map(str::to_owned),
            parent: subscriber.parent.as_deref().map(str::to_owned),
            set: subscriber.set,
            suspended: subscriber.suspended,
            moved: subscriber.moved,
            turn: subscriber
                .turn
                .as_ref()
                .map(|(why, _)| why.name().to_owned()),
            base_plan: (subscriber.turn.as_ref())
                .and_then(|(_, base)| base.as_deref().map(str::to_owned)),
            keys: subscriber.keys.clone(),
            usage: None,
            quota: subscriber.quota.as_ref().map(|quota| quota.bytes),
            matches: subscriber.matches.iter().map(Match::to_string).collect(),
            users: subscriber.users.clone(),
            from: subscriber.from.texts(),
            line: None,
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
            renamed: None,
            link: None,
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
            .map(|one| Attached {
                renamed: one.renamed.clone(),
                link: one.link,
                ..Attached::new(&one.attachment, one.attached)
            })
            .collect(),
        nodes: (overview.nodes.iter())
            .map(|node| NodeJson {
                name: node.name.clone(),
                parent: node.parent.clone(),
                down: NodeLoad::new(node.capacity.down, node.state.down),
                up: NodeLoad::new(node.capacity.up, node.state.up),
            })
            .collect(),
        plans: overview.plans,
        subscribers: reading.roster.subscribers.len() as u64,
        set: reading.roster.set(),
        shadow: overview.shadow,
        unsettled: overview.unsettled,
        outdated: overview.outdated.iter().map(|&name| name.into()).collect(),
        age_s: reading.at.elapsed().as_secs_f64(),
        down: down.into(),
        up: up.into(),
        unlimited: reading
            .unlimited
            .iter()
            .map(|&(reason, packets)| Unlimited {
                reason: reason.to_owned(),
                packets,
            })
            .collect(),
        pair: None,
        stands_by: None,
        line: reading
            .felt
            .as_ref()
            .map(|felt| LineJson::new(&felt.all, felt.requirement.score(&felt.all))),
    }
}

/// A subscriber without its queues: the one at this index in a reading.
pub fn subscriber(reading: &Reading, index: usize) -> SubscriberJson {
    let line = reading.felt.as_ref().and_then(|felt| {
        let line = felt.lines[index]?;
        Some(LineJson::new(&line, felt.requirement.score(&line)))
    });
    SubscriberJson {
        line,
        ..SubscriberJson::new(&reading.roster.subscribers[index], reading.counters[index])
    }
}

/// A subscriber with its queues, from the state of its limiters.
pub fn detail(inspected: &Inspected) -> SubscriberJson {
    let Inspected {
        subscriber,
        states,
        line,
    } = inspected;
    let counters = PerDirection::new(|direction| states[direction].counters);
    let queues = |state: &LimiterState| Some(state.queues.iter().map(Queue::from).collect());
    let mut subscriber = SubscriberJson::new(subscriber, counters);
    subscriber.line = line.map(|(line, score)| LineJson::new(&line, score));
    for (direction, limited) in [
        (Direction::Down, &mut subscriber.down),
        (Direction::Up, &mut subscriber.up),
    ] {
        if let Some(limited) = limited {
            let state = &states[direction];
            limited.boost = BoostJson::new(inspected.subscriber.limits[direction].boost, state);
            limited.queues = queues(state);
        }
    }
    subscriber
}
