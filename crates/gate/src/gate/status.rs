//! What runs, for people and programs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::matches;
use crate::path::{DataPath, PathError};
use crate::state::{DIRECTIONS, Member, Setting, State};
use crate::table::{Accounting, Attachment, Counters, Direction, QueueState, Unknown};

/// A place where packets are taken, or should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Which.
    #[serde(flatten)]
    pub attachment: Attachment,
    /// Whether packets are taken there now: the interface may be gone.
    pub attached: bool,
}

/// A plan of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStatus {
    /// Its name.
    pub name: String,
    /// Limits to subscribers without rates of their own.
    pub down: Limits,
    /// Limits from them.
    pub up: Limits,
    /// Number of subscribers that have it, in the file or set so.
    pub subscribers: usize,
}

/// A subscriber's limiter in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStatus {
    /// bit/s; none if it is not limited.
    pub rate: Option<u64>,
    /// The number of its limiter.
    pub limiter: u32,
    /// Counts the plans that it has had.
    pub version: u32,
    /// What it counted since the subscriber came.
    pub counters: Counters,
    /// Its queues, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueState>,
}

/// A subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberStatus {
    /// Its name.
    pub name: String,
    /// The plan it runs under.
    pub plan: Option<String>,
    /// What tells its packets: `192.0.2.0/24`, `vlan 100`, `qinq 100.200`, `pppoe 17`.
    pub matches: Vec<String>,
    /// What was set live; it lasts until it is reset, or the subscriber changes in the file.
    pub setting: Option<Setting>,
    /// To the subscriber.
    pub down: LaneStatus,
    /// From the subscriber.
    pub up: LaneStatus,
}

impl SubscriberStatus {
    /// One direction.
    pub fn lane(&self, direction: Direction) -> &LaneStatus {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}

/// A counter of packets that were no subscriber's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// What they were.
    pub name: String,
    /// How many.
    pub packets: u64,
}

/// All that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The file it came from.
    pub config: PathBuf,
    /// Where the data path is kept.
    pub pins: PathBuf,
    /// Counts the configurations it has had.
    pub serial: u64,
    /// A change could not be made whole, nor undone: it is tried again with the next one.
    pub unsettled: bool,
    /// What is charged.
    pub accounting: Accounting,
    /// What becomes of packets of nobody.
    pub unknown: Unknown,
    /// Where packets are taken.
    pub interfaces: Vec<InterfaceStatus>,
    /// Plans of the file.
    pub plans: Vec<PlanStatus>,
    /// Subscribers, by name.
    pub subscribers: Vec<SubscriberStatus>,
    /// Packets of nobody, and those that were not understood.
    pub others: Vec<Other>,
}

/// What runs, from its state and its data path; with the queues of all subscribers if asked.
pub(super) fn status<D: DataPath>(
    state: &State,
    path: &D,
    unsettled: bool,
    queues: bool,
) -> Result<Status, PathError> {
    let attached = path.attachments();
    let counters = path.counters(0..state.limiters())?;
    let interfaces = state.attachments.iter().map(|attachment| InterfaceStatus {
        attached: attached.contains(attachment),
        attachment: attachment.clone(),
    });
    let mut uses = std::collections::HashMap::new();
    for member in state.members.values() {
        if let Some(plan) = plan(member) {
            *uses.entry(plan).or_insert(0usize) += 1;
        }
    }
    let plans = state.templates.iter().map(|(name, template)| PlanStatus {
        down: template.down.limits(Direction::Down, None),
        up: template.up.limits(Direction::Up, None),
        subscribers: uses.get(name.as_str()).copied().unwrap_or(0),
        name: name.clone(),
    });
    let mut subscribers = Vec::with_capacity(state.members.len());
    for (name, member) in &state.members {
        let counted = |limiter: u32| counters.get(limiter as usize).copied();
        subscribers.push(subscriber(state, path, name, member, queues, &counted)?);
    }
    let others = path.unknown()?.into_iter().map(|(name, packets)| Other {
        name: name.to_owned(),
        packets,
    });
    Ok(Status {
        config: state.config.clone(),
        pins: state.pins.clone(),
        serial: state.serial,
        unsettled,
        accounting: state.accounting,
        unknown: state.unknown,
        interfaces: interfaces.collect(),
        plans: plans.collect(),
        subscribers,
        others: others.collect(),
    })
}

/// The plan that a subscriber runs under.
fn plan(member: &Member) -> Option<&str> {
    let set = member
        .setting
        .as_ref()
        .and_then(|setting| setting.plan.as_deref());
    set.or(member.plan.as_deref())
}

/// A subscriber. Counters come from `counted`, or from the limiter itself with its queues.
pub(super) fn subscriber<D: DataPath>(
    state: &State,
    path: &D,
    name: &str,
    member: &Member,
    queues: bool,
    counted: &dyn Fn(u32) -> Option<Counters>,
) -> Result<SubscriberStatus, PathError> {
    let mut lanes = Vec::with_capacity(2);
    for direction in DIRECTIONS {
        let limiter = member.limiter(direction);
        let lane = member.lanes[direction as usize];
        let rate = state.plans.get(lane.plan).map(|limits| limits.rate);
        let (counters, queues) = match (counted(limiter), queues) {
            (Some(counters), false) => (counters, Vec::new()),
            _ => {
                let own = path.read(limiter)?;
                (own.counters, own.queues)
            }
        };
        lanes.push(LaneStatus {
            rate: rate.filter(|&rate| rate > 0),
            limiter,
            version: lane.version,
            counters,
            queues,
        });
    }
    let (up, down) = (lanes.pop(), lanes.pop());
    let lane = |lane: Option<LaneStatus>| {
        lane.ok_or_else(|| PathError::from("no such limiter".to_owned()))
    };
    Ok(SubscriberStatus {
        name: name.to_owned(),
        plan: plan(member).map(str::to_owned),
        matches: member.matches.iter().map(matches::text).collect(),
        setting: member.setting.clone(),
        down: lane(down)?,
        up: lane(up)?,
    })
}
