//! What a data path holds, by name: kept in a file, so that any process knows.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_limiter::{HashKey, Scheme};

use crate::limits::{Limits, PlanTemplate, Template};
use crate::table::{Accounting, Attachment, Direction, Match, Seat, Settings, Unknown};

/// What is set live for one subscriber, over what the file says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Another plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Another rate to the subscriber, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<u64>,
    /// Another rate from the subscriber, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<u64>,
}

/// A subscriber's limiter of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The plan that the file gives.
    pub base: u32,
    /// The plan that it runs under: another one if it was set so.
    pub plan: u32,
    /// Counts the plans it has had.
    pub version: u32,
}

/// A subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number: its limiters are twice that, and one more.
    pub number: u32,
    /// The plan's name in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Its own rates in the file.
    pub rates: [Option<u64>; 2],
    /// What tells its packets.
    #[serde(with = "as_text")]
    pub matches: Vec<Match>,
    /// Down and up.
    pub lanes: [Lane; 2],
    /// What was set live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<Setting>,
}

impl Member {
    /// The number of its limiter in a direction.
    pub fn limiter(&self, direction: Direction) -> u32 {
        2 * self.number + direction as u32
    }

    /// The plan that it runs under: the one that was set live, or else the file's.
    pub fn plan_in_force(&self) -> Option<&str> {
        let set = self.setting.as_ref();
        set.and_then(|setting| setting.plan.as_deref())
            .or(self.plan.as_deref())
    }

    /// Where its packets of a direction are led.
    pub fn seat(&self, direction: Direction) -> Seat {
        let lane = self.lanes[direction as usize];
        Seat {
            limiter: self.limiter(direction),
            plan: lane.plan,
            version: lane.version,
        }
    }
}

/// Plans by number. Equal limits have one number; a number is used for other limits only when it has
/// been free for as long as any, since a limiter that sees no packets still runs under the plan it had.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Plans {
    #[serde(with = "owned")]
    contents: BTreeMap<u32, Arc<Limits>>,
    freed: VecDeque<u32>,
    next: u32,
    #[serde(skip)]
    numbers: HashMap<Arc<Limits>, u32>,
    #[serde(skip)]
    uses: HashMap<u32, u32>,
    /// Freed by the change that is being made.
    #[serde(skip)]
    leaving: Vec<u32>,
}

impl PartialEq for Plans {
    fn eq(&self, other: &Self) -> bool {
        self.contents == other.contents && self.next == other.next
    }
}

impl Eq for Plans {}

impl Plans {
    /// Numbers are below this, as data paths have room.
    pub const MOST: u32 = 1 << 17;

    /// Limits by their numbers.
    pub fn contents(&self) -> &BTreeMap<u32, Arc<Limits>> {
        &self.contents
    }

    /// The limits of a number.
    pub fn get(&self, number: u32) -> Option<&Arc<Limits>> {
        self.contents.get(&number)
    }

    /// The number of limits, with one use more; `None` if there is no room for more.
    pub(crate) fn acquire(&mut self, limits: &Arc<Limits>) -> Option<u32> {
        let number = match self.numbers.get(limits) {
            Some(&number) => number,
            None => {
                let number = if self.next < Self::MOST {
                    self.next += 1;
                    self.next - 1
                } else {
                    self.freed.pop_front()?
                };
                self.contents.insert(number, limits.clone());
                self.numbers.insert(limits.clone(), number);
                number
            }
        };
        *self.uses.entry(number).or_insert(0) += 1;
        Some(number)
    }

    /// One use more of a number that was acquired.
    pub(crate) fn again(&mut self, number: u32) {
        *self.uses.entry(number).or_insert(0) += 1;
    }

    /// One use less. The last one leaves the number free once the change is made.
    pub(crate) fn release(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(&number) {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.leaving.push(number);
            }
        }
    }

    /// Frees what was released and not taken again.
    pub(crate) fn settle(&mut self) {
        for number in std::mem::take(&mut self.leaving) {
            if self.uses.get(&number) == Some(&0) {
                self.uses.remove(&number);
                if let Some(limits) = self.contents.remove(&number) {
                    self.numbers.remove(&limits);
                    self.freed.push_back(number);
                }
            }
        }
    }

    /// Puts limits at a number, as a journal says.
    pub(crate) fn put(&mut self, number: u32, limits: Arc<Limits>) {
        self.next = self.next.max(number.saturating_add(1));
        self.freed.retain(|&freed| freed != number);
        self.contents.insert(number, limits);
    }

    /// Knows of numbers that another one gave out: they are free here.
    pub(crate) fn outlive(&mut self, other: &Self) {
        for number in self.next..other.next {
            self.freed.push_back(number);
        }
        self.next = self.next.max(other.next);
    }

    /// Counts uses after reading; what nobody uses is free.
    fn index(&mut self, used: impl Iterator<Item = u32>) {
        self.uses.clear();
        for number in used {
            *self.uses.entry(number).or_insert(0) += 1;
        }
        let uses = &self.uses;
        let idle: Vec<u32> = self
            .contents
            .keys()
            .copied()
            .filter(|number| !uses.contains_key(number))
            .collect();
        for number in idle {
            self.contents.remove(&number);
            self.freed.push_back(number);
        }
        let numbers = self.contents.iter();
        self.numbers = numbers.map(|(&n, limits)| (limits.clone(), n)).collect();
    }
}

/// All that a data path holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The form of the file.
    pub format: u32,
    /// Counts the changes of the whole.
    pub serial: u64,
    /// The configuration's file.
    pub config: PathBuf,
    /// Where the data path is kept.
    pub pins: PathBuf,
    /// The flow hash's secret.
    pub hash: [u64; 2],
    /// What is charged.
    pub accounting: Accounting,
    /// Packets of nobody.
    pub unknown: Unknown,
    /// Where packets are taken, or should be.
    pub attachments: Vec<Attachment>,
    /// The file's plans: what is set live refers to them.
    pub templates: Vec<(String, PlanTemplate)>,
    /// Plans in the data path.
    pub plans: Plans,
    /// Subscribers by name.
    pub members: BTreeMap<String, Member>,
    /// Numbers that subscribers had: their limiters are forgotten before they are used again.
    pub free: Vec<u32>,
    /// The first number that nobody has had.
    pub next: u32,
}

impl State {
    /// The form of state files.
    pub const FORMAT: u32 = 1;

    /// Nothing yet.
    pub fn empty(pins: PathBuf, hash: [u64; 2]) -> Self {
        Self {
            format: Self::FORMAT,
            serial: 0,
            config: PathBuf::new(),
            pins,
            hash,
            accounting: Accounting {
                layer: 2,
                overhead: 0,
            },
            unknown: Unknown::Pass,
            attachments: Vec::new(),
            templates: Vec::new(),
            plans: Plans::default(),
            members: BTreeMap::new(),
            free: Vec::new(),
            next: 0,
        }
    }

    /// What holds for all packets.
    pub fn settings(&self) -> Settings {
        Settings {
            accounting: self.accounting,
            unknown: self.unknown,
            hash: HashKey::new(self.hash[0], self.hash[1]),
        }
    }

    /// Limiters have numbers below this.
    pub fn limiters(&self) -> u32 {
        2 * self.next
    }

    /// Works out what is not written in files.
    pub(crate) fn index(&mut self) {
        let lanes = self.members.values().flat_map(|member| member.lanes);
        self.plans
            .index(lanes.flat_map(|lane| [lane.base, lane.plan]));
    }

    /// A plan of the file.
    pub fn template(&self, name: &str) -> Option<&PlanTemplate> {
        let found = self.templates.iter().find(|(own, _)| own == name);
        found.map(|(_, template)| template)
    }

    /// What comes of a setting over what the file gives; `Err` if there is no such plan, or a limiter
    /// would not take it.
    pub(crate) fn set_limits(
        &self,
        plan: Option<&str>,
        rates: [Option<u64>; 2],
        setting: &Setting,
    ) -> Result<[Arc<Limits>; 2], String> {
        let name = setting.plan.as_deref().or(plan);
        let template = match name {
            Some(name) => Some(
                self.template(name)
                    .ok_or_else(|| format!("there is no plan `{name}`"))?,
            ),
            None => None,
        };
        let mut limits = Vec::with_capacity(2);
        for (direction, set) in Direction::BOTH.into_iter().zip([setting.down, setting.up]) {
            let default = Template::default();
            let template = template.map_or(&default, |plan| plan.of(direction));
            // Own rates belong to the plan of the file; another plan brings its own.
            let own = rates[direction as usize].filter(|_| setting.plan.is_none());
            let unlimited = template.scheme == Scheme::Unlimited;
            if set.is_some() && unlimited {
                let plan = name.unwrap_or_default();
                return Err(format!("plan `{plan}` is unlimited: it takes no rate"));
            }
            let one = template.limits(direction, set.or(own));
            limits.push(Arc::new(one.map_err(|error| error.to_string())?));
        }
        limits
            .try_into()
            .map_err(|_| "a subscriber has two directions".to_owned())
    }
}

/// Matches as text.
mod as_text {
    use super::*;

    pub fn serialize<S: Serializer>(own: &[Match], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(own.iter().map(Match::to_string))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Match>, D::Error> {
        let texts: Vec<String> = Deserialize::deserialize(from)?;
        let read = |text: &String| text.parse().map_err(serde::de::Error::custom);
        texts.iter().map(read).collect()
    }
}

/// What is shared in memory, each in full.
mod owned {
    use super::*;

    pub fn serialize<S: Serializer>(
        own: &BTreeMap<u32, Arc<Limits>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(own.iter().map(|(number, limits)| (number, limits.as_ref())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<u32, Arc<Limits>>, D::Error> {
        let read: BTreeMap<u32, Limits> = Deserialize::deserialize(from)?;
        Ok(read
            .into_iter()
            .map(|(n, limits)| (n, Arc::new(limits)))
            .collect())
    }
}
