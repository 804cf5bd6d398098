//! A data path in memory, for tests and for trying a program that uses a gate. It limits nothing. It holds
//! what a gate puts into it, and outlives the gate as the kernel's data path does.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tidegate_limiter::{Nanos, NetworkNode};

use crate::flow::Flow;
use crate::line::{Line, Lines};
use crate::path::{DataPath, Others, PathError, Remembered};
use crate::room::Room;
use crate::table::{
    Attachment, Counters, Direction, LimiterState, Match, NodeState, PerDirection, Plan,
    QueueState, Seat, Settings,
};

/// The content of a data path in memory.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Settings for all packets.
    pub settings: Option<Settings>,
    /// Plans by number.
    pub plans: BTreeMap<u32, Plan>,
    /// Nodes of the network by number.
    pub nodes: BTreeMap<u32, (NetworkNode, NodeState)>,
    /// The limiters that packets are assigned to.
    pub directory: HashMap<(Direction, Match), Seat>,
    /// Limiters by number. They keep their counters until they are reset.
    pub limiters: BTreeMap<u32, LimiterState>,
    /// Limiters have numbers below this.
    pub room: u32,
    /// Interfaces that the gate is attached to.
    pub attachments: Vec<Attachment>,
    /// Interfaces that do not exist.
    pub gone: BTreeSet<String>,
    /// What lines feel.
    pub lines: Option<Lines>,
    /// Watched flows, by the numbers of subscribers.
    pub flows: HashMap<u32, Vec<Flow>>,
    /// What limiters know, for the other gate of a pair: the versions of their plans, the times of their latest packets, and
    /// memory without a meaning.
    pub memory: BTreeMap<u32, (u32, Nanos, Vec<u8>)>,
    /// The present time of its clock.
    pub now: Nanos,
    /// A short name of each change that was made.
    pub log: Vec<String>,
    /// Whether it is incomplete, as if its creator had been killed.
    pub torn: bool,
    /// Whether a part of it cannot be removed.
    pub stuck: bool,
    /// Number of further changes that succeed. Later ones fail.
    pub left: Option<usize>,
    /// Whether the change after these panics instead of failing, as if the process had been killed.
    pub deadly: bool,
}

impl Contents {
    /// Checks that an interface exists.
    fn check(&self, interface: &String) -> Result<(), PathError> {
        match self.gone.contains(interface) {
            true => Err(PathError::from(format!("no interface {interface}"))),
            false => Ok(()),
        }
    }
}

type Shared = Arc<Mutex<Contents>>;

static ALL: LazyLock<Mutex<HashMap<PathBuf, Shared>>> = LazyLock::new(Mutex::default);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A data path in memory.
#[derive(Debug)]
pub struct Memory {
    pins: PathBuf,
    shared: Shared,
}

impl Memory {
    /// Gives tests access to the content of the data path at `pins`; `None` if there is none.
    pub fn at<T>(pins: &Path, access: impl FnOnce(&mut Contents) -> T) -> Option<T> {
        let shared = locked(&ALL).get(pins).cloned();
        shared.map(|shared| access(&mut locked(&shared)))
    }

    /// Makes one change, unless it is to fail.
    fn act<T>(
        &self,
        name: impl Into<String>,
        act: impl FnOnce(&mut Contents) -> Result<T, PathError>,
    ) -> Result<T, PathError> {
        let mut contents = locked(&self.shared);
        let contents = &mut *contents;
        if let Some(left) = &mut contents.left {
            if *left == 0 && contents.deadly {
                std::panic::resume_unwind(Box::new("killed"));
            }
            if *left == 0 {
                return Err(PathError::from("this change was set up to fail".to_owned()));
            }
            *left -= 1;
        }
        contents.log.push(name.into());
        act(contents)
    }
}

impl DataPath for Memory {
    fn create(pins: &Path, settings: &Settings) -> Result<Self, PathError> {
        let mut all = locked(&ALL);
        if all.contains_key(pins) {
            return Err(PathError::from("a data path is there already".to_owned()));
        }
        let shared = Shared::default();
        locked(&shared).settings = Some(*settings);
        all.insert(pins.to_owned(), shared.clone());
        Ok(Self {
            pins: pins.to_owned(),
            shared,
        })
    }

    fn open(pins: &Path) -> Result<Self, PathError> {
        let shared = locked(&ALL).get(pins).cloned();
        let shared = shared.ok_or_else(|| PathError::from("there is no data path".to_owned()))?;
        if locked(&shared).torn {
            return Err(PathError::from("the data path is incomplete".to_owned()));
        }
        Ok(Self {
            pins: pins.to_owned(),
            shared,
        })
    }

    fn exists(pins: &Path) -> bool {
        locked(&ALL).contains_key(pins)
    }

    fn clear(pins: &Path) -> Result<(), PathError> {
        let shared = locked(&ALL).remove(pins);
        match shared.is_some_and(|shared| locked(&shared).stuck) {
            true => Err(PathError::from("a part of it is stuck".to_owned())),
            false => Ok(()),
        }
    }

    fn check(attachment: &Attachment) -> Result<(), PathError> {
        match attachment.interface.starts_with("gone") {
            true => Err(PathError::from(format!(
                "no interface {}",
                attachment.interface
            ))),
            false => Ok(()),
        }
    }

    fn set_settings(&mut self, settings: &Settings) -> Result<(), PathError> {
        self.act("settings", |memory| {
            memory.settings = Some(*settings);
            Ok(())
        })
    }

    /// Forgets all plans that may be forgotten.
    fn make_room(&mut self, plans: usize, kept: &dyn Fn(u32) -> bool) -> Result<(), PathError> {
        self.act(format!("room for {plans} plans"), |memory| {
            let led: HashSet<u32> = memory.directory.values().map(|seat| seat.plan).collect();
            memory
                .plans
                .retain(|number, _| kept(*number) || led.contains(number));
            Ok(())
        })
    }

    fn put_plan(&mut self, number: u32, plan: &Plan) -> Result<(), PathError> {
        self.act(format!("plan {number}"), |memory| {
            memory.plans.insert(number, plan.clone());
            Ok(())
        })
    }

    fn put_node(&mut self, number: u32, node: &NetworkNode, fresh: bool) -> Result<(), PathError> {
        self.act(format!("node {number}"), |memory| {
            let known = memory.nodes.get(&number).filter(|_| !fresh);
            let state = known.map_or_else(NodeState::default, |(_, state)| *state);
            memory.nodes.insert(number, (*node, state));
            Ok(())
        })
    }

    fn node(&self, number: u32) -> Result<NodeState, PathError> {
        let memory = locked(&self.shared);
        let node = memory.nodes.get(&number);
        Ok(node.map_or_else(NodeState::default, |(_, state)| *state))
    }

    fn fits(&self, more: &[Match]) -> Result<(), PathError> {
        let memory = locked(&self.shared);
        let there: HashSet<&Match> = memory.directory.keys().map(|(_, what)| what).collect();
        let mut room = Room::default();
        match there
            .into_iter()
            .chain(more)
            .all(|what| room.add(what).is_none())
        {
            true => Ok(()),
            false => Err(PathError::from("there is no room for them".to_owned())),
        }
    }

    fn seat(&mut self, seats: &[(Match, PerDirection<Seat>)]) -> Result<(), PathError> {
        // As in the kernel, half of a batch may be done.
        for (what, both) in seats {
            for (direction, seat) in both.iter() {
                self.act(format!("seat {direction:?} {what}"), |memory| {
                    if seat.limiter >= memory.room || !memory.plans.contains_key(&seat.plan) {
                        return Err(PathError::from(format!(
                            "there is no limiter or plan for {seat:?}"
                        )));
                    }
                    let queues = memory.plans.get(&seat.plan).map_or(1, Plan::queues);
                    let limiter = memory.limiters.entry(seat.limiter).or_default();
                    limiter.queues.resize(queues, QueueState::default());
                    memory.directory.insert((direction, *what), *seat);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn unseat(&mut self, matches: &[Match]) -> Result<(), PathError> {
        for what in matches {
            for direction in Direction::BOTH {
                self.act(format!("unseat {direction:?} {what}"), |memory| {
                    memory.directory.remove(&(direction, *what));
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn reserve(&mut self, limiters: u32) -> Result<(), PathError> {
        self.act(format!("reserve {limiters}"), |memory| {
            memory.room = memory.room.max(limiters);
            Ok(())
        })
    }

    fn forget(&mut self, limiter: u32) -> Result<(), PathError> {
        self.act(format!("forget {limiter}"), |memory| {
            memory.limiters.remove(&limiter);
            Ok(())
        })
    }

    fn read(&self, limiter: u32) -> Result<LimiterState, PathError> {
        Ok(locked(&self.shared)
            .limiters
            .get(&limiter)
            .cloned()
            .unwrap_or_default())
    }

    fn counters(&self, limiters: Range<u32>) -> Result<Vec<Counters>, PathError> {
        let memory = locked(&self.shared);
        let counters = |number| memory.limiters.get(&number).map(|memory| memory.counters);
        Ok(limiters
            .map(|number| counters(number).unwrap_or_default())
            .collect())
    }

    fn export(&self, limiters: Range<u32>, since: Nanos) -> Result<Vec<Remembered>, PathError> {
        let memory = locked(&self.shared);
        let all = memory.memory.range(limiters);
        let late = all.filter(|(_, (_, at, _))| *at >= since);
        let late = late.map(|(&limiter, (version, at, state))| Remembered {
            limiter,
            version: *version,
            at: *at,
            state: state.clone(),
        });
        Ok(late.collect())
    }

    fn import(
        &mut self,
        limiter: u32,
        (_, version): (u32, u32),
        state: &[u8],
        at: Nanos,
    ) -> Result<bool, PathError> {
        let mut memory = locked(&self.shared);
        let own = memory.memory.get(&limiter);
        let is_later = own.is_none_or(|(_, own, _)| *own < at);
        if is_later {
            let new = (version, at, state.to_vec());
            memory.memory.insert(limiter, new);
        }
        Ok(is_later)
    }

    fn now(&self) -> Nanos {
        locked(&self.shared).now
    }

    fn lines(&self) -> Result<Option<Lines>, PathError> {
        Ok(locked(&self.shared).lines.clone())
    }

    fn line(&self, subscriber: u32) -> Result<Option<Line>, PathError> {
        let memory = locked(&self.shared);
        let lines = memory.lines.as_ref();
        Ok(lines.and_then(|lines| lines.by_subscriber.get(&subscriber).copied()))
    }

    fn flows(&self, subscriber: u32) -> Result<Option<Vec<Flow>>, PathError> {
        let memory = locked(&self.shared);
        let flows = memory.flows.get(&subscriber).cloned();
        Ok(memory.lines.as_ref().map(|_| flows.unwrap_or_default()))
    }

    fn unknown(&self) -> Result<Others, PathError> {
        Ok(vec![("unknown", 0), ("malformed", 0)])
    }

    fn ready(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        let interface = &attachment.interface;
        self.act(format!("ready {interface}"), |memory| {
            memory.check(interface)
        })
    }

    fn attach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        self.act(format!("attach {}", attachment.interface), |memory| {
            memory.check(&attachment.interface)?;
            if !memory.attachments.contains(attachment) {
                memory.attachments.push(attachment.clone());
            }
            Ok(())
        })
    }

    fn detach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        self.act(format!("detach {}", attachment.interface), |memory| {
            memory.attachments.retain(|other| other != attachment);
            Ok(())
        })
    }

    fn attachments(&self) -> Vec<Attachment> {
        locked(&self.shared).attachments.clone()
    }

    fn renamed(&self, _: &Attachment) -> Option<String> {
        None
    }

    fn remove(self) -> Result<(), PathError> {
        locked(&ALL).remove(&self.pins);
        Ok(())
    }
}
