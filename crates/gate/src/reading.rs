//! The running limits, for people and programs: the limits of each subscriber, and the counters of all of
//! them at one time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::binding::Binding;
use crate::calendar::{Quota, Why};
use crate::config::PlanKeys;
use crate::line::Line;
use crate::path::{DataPath, Others, PathError};
use crate::quality::Requirement;
use crate::state::{GateState, Member};
use crate::table::{Attachment, Counters, Direction, Match, NodeState, PerDirection};

#[cfg(test)]
mod tests;

/// An interface where packets are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceStatus {
    /// Where, as in the configuration.
    pub attachment: Attachment,
    /// Whether they are taken now: the interface may be gone.
    pub attached: bool,
    /// The interface's present name, if it was renamed since the gate was attached.
    pub renamed: Option<String>,
    /// Whether its device has a link; `None` if the kernel has the interface, which tells it.
    pub link: Option<bool>,
}

/// A node of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The node above it.
    pub parent: Option<String>,
    /// bit/s.
    pub capacity: PerDirection<u64>,
    /// What it knows.
    pub state: PerDirection<NodeState>,
}

/// The gate without its subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// The configuration's file.
    pub file: String,
    /// The interfaces where packets are taken.
    pub attachments: Vec<InterfaceStatus>,
    /// The nodes of the network, by name.
    pub nodes: Vec<NodeStatus>,
    /// Number of plans in the file.
    pub plans: u64,
    /// Whether what would be dropped is only counted.
    pub shadow: bool,
    /// The file with the events.
    pub events: Option<PathBuf>,
    /// A number that another gate is unlikely to have.
    pub identity: u64,
    /// A change could neither be completed nor undone; the next change tries it again.
    pub unsettled: bool,
    /// The programs in force that are of another version of tidegate than this process.
    pub outdated: Vec<&'static str>,
}

impl Overview {
    /// The overview of a gate with this state and data path.
    pub(crate) fn of<D: DataPath>(state: &GateState, path: &D, unsettled: bool) -> Self {
        let attached = path.attachments();
        let attachments = state.attachments.iter();
        Self {
            file: state.config.display().to_string(),
            attachments: attachments
                .map(|attachment| InterfaceStatus {
                    attachment: attachment.clone(),
                    attached: attached.contains(attachment),
                    renamed: path.renamed(attachment),
                    link: path.link(attachment),
                })
                .collect(),
            nodes: (state.nodes.iter())
                .map(|(name, node)| NodeStatus {
                    name: name.to_owned(),
                    parent: node.parent.clone(),
                    capacity: node.capacity,
                    // A node that cannot be read shows nothing; the counters of subscribers report why.
                    state: PerDirection::new(|way| path.node(node.number(way)).unwrap_or_default()),
                })
                .collect(),
            plans: state.templates.len() as u64,
            shadow: state.shadow,
            events: state.events.clone(),
            identity: state.identity(),
            unsettled,
            outdated: path.outdated(),
        }
    }
}

/// A subscriber's limit in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The limiter's number.
    pub limiter: u32,
    /// Bits per second; `None` if packets are counted and not limited.
    pub rate: Option<u64>,
    /// Most bytes of the rate that may be saved; 0 without a boost.
    pub boost: u64,
}

/// A subscriber, as it is limited now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// The name in the configuration.
    pub name: Box<str>,
    /// The plan's name.
    pub plan: Option<Arc<str>>,
    /// The node of the network above it.
    pub parent: Option<Arc<str>>,
    /// Whether it was set live and differs from the configuration.
    pub set: bool,
    /// Whether all its packets are dropped.
    pub suspended: bool,
    /// Why another plan than its plan is in force, and the name of its plan; it may have keys of a plan that were set live,
    /// and no plan.
    pub turn: Option<(Why, Option<Arc<str>>)>,
    /// The volume of its plan.
    pub quota: Option<Quota>,
    /// Keys of its plan that were set live.
    pub keys: Option<PlanKeys>,
    /// Whether addresses or tags were assigned or released live.
    pub moved: bool,
    /// Its limits.
    pub limits: PerDirection<Limit>,
    /// How its packets are recognised.
    pub matches: Vec<Match>,
    /// What access servers call it in RADIUS, besides its name.
    pub users: Vec<String>,
    /// Where its packets come from.
    pub from: Binding,
}

impl Subscriber {
    /// The subscriber of this name in a gate's state.
    pub(crate) fn of(state: &GateState, name: &str, member: &Member) -> Self {
        Self {
            name: name.into(),
            plan: member.plan_in_force().map(Arc::from),
            parent: member.declared.parent.as_deref().map(Arc::from),
            set: member.setting.is_some(),
            suspended: member.is_suspended(),
            turn: member.turn.as_ref().map(|turn| {
                let base = member.base_plan().map(Arc::from);
                (turn.why, base)
            }),
            quota: member.terms(state).and_then(|terms| terms.quota.clone()),
            keys: member.keys().cloned(),
            moved: member.live.is_some(),
            limits: PerDirection::new(|direction| {
                let limits = state.plans.get(member.lanes[direction].plan);
                Limit {
                    limiter: member.limiter(direction),
                    rate: match member.is_suspended() {
                        true => Some(0),
                        false => limits.and_then(|limits| limits.rate()),
                    },
                    boost: match member.is_suspended() {
                        true => 0,
                        false => limits.map_or(0, |limits| limits.boost()),
                    },
                }
            }),
            matches: member.matches().to_vec(),
            users: member.declared.users.clone(),
            from: member.from().clone(),
        }
    }

    /// Its number: half that of its limiters.
    pub(crate) fn number(&self) -> u32 {
        self.limits.down.limiter / 2
    }

    /// The plan's name, or `-` if it has no plan.
    pub fn plan_name(&self) -> &str {
        self.plan.as_deref().unwrap_or("-")
    }
}

/// All subscribers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// Sorted by name, without duplicates.
    pub subscribers: Vec<Subscriber>,
}

impl Roster {
    /// The subscribers of a gate with this state.
    pub(crate) fn of(state: &GateState) -> Self {
        // Members are sorted by name.
        let members = state.members.iter();
        Self {
            subscribers: members
                .map(|(name, member)| Subscriber::of(state, name, member))
                .collect(),
        }
    }

    /// The index of the subscriber of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.subscribers
            .binary_search_by(|subscriber| (*subscriber.name).cmp(name))
            .ok()
    }

    /// The index of the first subscriber whose name sorts behind this one.
    pub fn after(&self, name: &str) -> usize {
        self.subscribers
            .partition_point(|subscriber| &*subscriber.name <= name)
    }

    /// Number of subscribers that were set live and differ from the configuration.
    pub fn set(&self) -> u64 {
        self.subscribers.iter().filter(|one| one.set).count() as u64
    }
}

/// All counters, read at one time.
#[derive(Debug, Clone)]
pub struct Reading {
    /// When reading began.
    pub at: Instant,
    /// How long it took.
    pub took: Duration,
    /// The subscribers.
    pub roster: Arc<Roster>,
    /// The counters of each subscriber, in the order of the roster.
    pub counters: Vec<PerDirection<Counters>>,
    /// Packets that no limiter saw, by reason.
    pub unlimited: Others,
    /// What lines feel; `None` if nothing is watched.
    pub felt: Option<Felt>,
}

/// What lines feel.
#[derive(Debug, Clone)]
pub struct Felt {
    /// That of each subscriber, in the order of the roster. Those without TCP have none.
    pub lines: Vec<Option<Line>>,
    /// All of them together.
    pub all: Line,
    /// What their scores are of.
    pub requirement: Requirement,
}

impl Reading {
    /// Reads the counters of the subscribers of a gate with this state.
    pub(crate) fn take<D: DataPath>(
        roster: Arc<Roster>,
        state: &GateState,
        path: &D,
    ) -> Result<Self, PathError> {
        let began = Instant::now();
        let all = path.counters(0..state.limiters())?;
        let counted = |limit: Limit| all.get(limit.limiter as usize).copied().unwrap_or_default();
        let subscribers = roster.subscribers.iter();
        let counters = subscribers
            .map(|one| PerDirection::new(|direction| counted(one.limits[direction])))
            .collect();
        let unlimited = path.unknown()?;
        let felt = path.lines()?.zip(state.watch).map(|(found, watch)| {
            let numbers = roster.subscribers.iter().map(Subscriber::number);
            Felt {
                lines: numbers
                    .map(|number| found.by_subscriber.get(&number).copied())
                    .collect(),
                all: found.all,
                requirement: watch.requirement,
            }
        });
        Ok(Self {
            at: began,
            took: began.elapsed(),
            roster,
            counters,
            unlimited,
            felt,
        })
    }

    /// The index in an earlier reading of the subscriber that is at `index` in this one.
    pub fn index_in(&self, earlier: &Self, index: usize) -> Option<usize> {
        if Arc::ptr_eq(&self.roster, &earlier.roster) {
            return Some(index);
        }
        earlier.roster.find(&self.roster.subscribers[index].name)
    }

    /// The sums over all subscribers.
    pub fn sums(&self) -> PerDirection<Counters> {
        let sum = |direction| {
            let counters = self.counters.iter().map(|counters| counters[direction]);
            counters.fold(Counters::default(), Counters::plus)
        };
        PerDirection::new(sum)
    }
}

/// Sums over subscribers. They never fall, even when subscribers are removed: a monitoring system
/// takes a counter that falls for one that was reset, and would count all of it again.
#[derive(Debug, Default)]
pub struct Totals {
    sums: PerDirection<Counters>,
    last: Option<Arc<Reading>>,
}

impl Totals {
    /// Adds the counts since the previous reading.
    pub fn add(&mut self, reading: &Arc<Reading>) {
        for (index, counters) in reading.counters.iter().enumerate() {
            let before = self.last.as_ref().and_then(|last| {
                let index = reading.index_in(last, index)?;
                Some(last.counters[index])
            });
            let before = before.unwrap_or_default();
            for direction in Direction::BOTH {
                let counted = counters[direction].since(before[direction]);
                self.sums[direction] = self.sums[direction].plus(counted);
            }
        }
        self.last = Some(Arc::clone(reading));
    }

    /// The sums.
    pub fn get(&self) -> PerDirection<Counters> {
        self.sums
    }
}
