//! A data path in memory: it limits nothing, holds all that it is told, and outlives those that use it
//! as the kernel's does. For tests, and to try what a program does with a gate.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::path::{DataPath, Others, PathError};
use crate::table::{
    Attachment, Counters, Direction, LimiterState, Match, Plan, QueueState, Seat, Settings,
};

/// What such a data path holds.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// What holds for all packets.
    pub settings: Option<Settings>,
    /// Plans by number.
    pub plans: BTreeMap<u32, Plan>,
    /// Where packets are led.
    pub directory: HashMap<(Direction, Match), Seat>,
    /// Limiters by number; those that were not forgotten keep what they counted.
    pub limiters: BTreeMap<u32, LimiterState>,
    /// Limiters have numbers below this.
    pub room: u32,
    /// Where packets are taken.
    pub attachments: Vec<Attachment>,
    /// Interfaces that are not there.
    pub gone: BTreeSet<String>,
    /// What has been done to it, in short.
    pub log: Vec<String>,
    /// It is not whole: who made it was killed.
    pub torn: bool,
    /// Parts of it cannot be removed.
    pub stuck: bool,
    /// So many more things can be done to it; none after that.
    pub left: Option<usize>,
    /// Whoever does one more dies of it, as of kill -9: nothing after it is done.
    pub deadly: bool,
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
    /// What is at a place, to be looked at and changed by tests; `None` if there is nothing.
    pub fn at<T>(pins: &Path, look: impl FnOnce(&mut Contents) -> T) -> Option<T> {
        let shared = locked(&ALL).get(pins).cloned();
        shared.map(|shared| look(&mut locked(&shared)))
    }

    /// Does one thing, unless it is to fail.
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
                return Err(PathError::from("this was to fail".to_owned()));
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
            return Err(PathError::from("there is one already".to_owned()));
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
        let shared = shared.ok_or_else(|| PathError::from("there is none".to_owned()))?;
        if locked(&shared).torn {
            return Err(PathError::from("it is not whole".to_owned()));
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
        self.act("settings", |own| {
            own.settings = Some(*settings);
            Ok(())
        })
    }

    /// Gives up all that may be.
    fn make_room(&mut self, plans: usize, kept: &dyn Fn(u32) -> bool) -> Result<(), PathError> {
        self.act(format!("room for {plans} plans"), |own| {
            let led: HashSet<u32> = own.directory.values().map(|seat| seat.plan).collect();
            own.plans
                .retain(|number, _| kept(*number) || led.contains(number));
            Ok(())
        })
    }

    fn put_plan(&mut self, number: u32, plan: &Plan) -> Result<(), PathError> {
        self.act(format!("plan {number}"), |own| {
            own.plans.insert(number, plan.clone());
            Ok(())
        })
    }

    fn seat(&mut self, direction: Direction, seats: &[(Match, Seat)]) -> Result<(), PathError> {
        // As in the kernel, half of a batch may be done.
        for (what, seat) in seats {
            self.act(format!("seat {direction:?} {what}"), |own| {
                if seat.limiter >= own.room || !own.plans.contains_key(&seat.plan) {
                    return Err(PathError::from(format!("nothing to lead to: {seat:?}")));
                }
                let queues = own.plans.get(&seat.plan).map_or(1, Plan::queues);
                let limiter = own.limiters.entry(seat.limiter).or_default();
                limiter.queues.resize(queues, QueueState::default());
                own.directory.insert((direction, *what), *seat);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn unseat(&mut self, direction: Direction, matches: &[Match]) -> Result<(), PathError> {
        for what in matches {
            self.act(format!("unseat {direction:?} {what}"), |own| {
                own.directory.remove(&(direction, *what));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn reserve(&mut self, limiters: u32) -> Result<(), PathError> {
        self.act(format!("reserve {limiters}"), |own| {
            own.room = own.room.max(limiters);
            Ok(())
        })
    }

    fn forget(&mut self, limiter: u32) -> Result<(), PathError> {
        self.act(format!("forget {limiter}"), |own| {
            own.limiters.remove(&limiter);
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
        let own = locked(&self.shared);
        let counters = |number| own.limiters.get(&number).map(|own| own.counters);
        Ok(limiters
            .map(|number| counters(number).unwrap_or_default())
            .collect())
    }

    fn unknown(&self) -> Result<Others, PathError> {
        Ok(vec![("unknown", 0), ("malformed", 0)])
    }

    fn attach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        self.act(format!("attach {}", attachment.interface), |own| {
            if own.gone.contains(&attachment.interface) {
                let interface = &attachment.interface;
                return Err(PathError::from(format!("no interface {interface}")));
            }
            if !own.attachments.contains(attachment) {
                own.attachments.push(attachment.clone());
            }
            Ok(())
        })
    }

    fn detach(&mut self, attachment: &Attachment) -> Result<(), PathError> {
        self.act(format!("detach {}", attachment.interface), |own| {
            own.attachments.retain(|other| other != attachment);
            Ok(())
        })
    }

    fn attachments(&self) -> Vec<Attachment> {
        locked(&self.shared).attachments.clone()
    }

    fn remove(self) -> Result<(), PathError> {
        locked(&ALL).remove(&self.pins);
        Ok(())
    }
}
