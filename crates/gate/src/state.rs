//! The state of a gate, by names of subscribers. It is kept in files, so that every process can read it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_limiter::{HashKey, Rate, Scheme};
use tidegate_notation::instead;

use crate::binding::Binding;
use crate::calendar::{Terms, Turn};
use crate::config::{PlanKeys, overlay};
use crate::limits::{Limits, PlanTemplate, Template};
use crate::nodes::Nodes;
use crate::quality::Watch;
use crate::subscriber::Declaration;
use crate::table::{
    Accounting, Attachment, Direction, LinkFrames, Match, Origin, OtherFrames, PerDirection, Seat,
    Settings, Sources, Unknown,
};
use crate::templates::Templates;

/// A live change of one subscriber, which takes precedence over the file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Another plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Another rate to the subscriber.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Rate>,
    /// Another rate from the subscriber.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Rate>,
    /// Whether all packets are dropped, if it is not as in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// Another place where packets come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Binding>,
    /// Keys of the plan with other values. In a change null takes a key back.
    #[serde(default, skip_serializing_if = "PlanKeys::is_empty")]
    pub keys: PlanKeys,
}

/// The plans of a subscriber's limiter in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Number of the plan that the file gives.
    pub base: u32,
    /// Number of the plan that is in force: another one if it was set live.
    pub plan: u32,
    /// Version of its seats: it grows with each change of the plan.
    pub version: u32,
}

/// A subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number. Its limiters have twice this number, and one more.
    pub number: u32,
    /// Its entry in the file.
    #[serde(flatten)]
    pub declared: Declaration,
    /// Its limiters down and up.
    pub lanes: PerDirection<Lane>,
    /// The live change, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<Setting>,
    /// The plan in place of its plan, by the time of day or its volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// What it is recognised by, if that was changed live.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text_if")]
    pub live: Option<Vec<Match>>,
    /// When it was changed live, see [`SharedChange`](crate::pair::SharedChange); 0 if never.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stamp: u64,
}

impl Member {
    /// The number of its limiter in a direction.
    pub fn limiter(&self, direction: Direction) -> u32 {
        2 * self.number + direction as u32
    }

    /// What its packets are recognised by.
    pub fn matches(&self) -> &[Match] {
        self.live.as_deref().unwrap_or(&self.declared.matches)
    }

    /// Changes what its packets are recognised by.
    pub(crate) fn set_matches(&mut self, matches: Vec<Match>) {
        let declared: HashSet<&Match> = self.declared.matches.iter().collect();
        let same = declared == matches.iter().collect();
        self.live = (!same).then_some(matches);
    }

    /// Where its packets come from.
    pub fn from(&self) -> &Binding {
        let set = self.setting.as_ref();
        set.and_then(|setting| setting.from.as_ref())
            .unwrap_or(&self.declared.from)
    }

    /// Whether all its packets are dropped.
    pub fn is_suspended(&self) -> bool {
        let set = self.setting.as_ref();
        set.and_then(|setting| setting.suspended)
            .unwrap_or(self.declared.suspended)
    }

    /// The plan that it follows now.
    pub fn plan_in_force(&self) -> Option<&str> {
        let turn = self.turn.as_ref().map(|turn| turn.plan.as_str());
        turn.or(self.base_plan())
    }

    /// The plan that it follows unless the time of day or its volume says otherwise: the one that was set live, or
    /// else the file's.
    pub fn base_plan(&self) -> Option<&str> {
        let set = self.setting.as_ref();
        set.and_then(|setting| setting.plan.as_deref())
            .or(self.declared.plan.as_deref())
    }

    /// When another plan takes the place of its plan; none if it has no plan.
    pub(crate) fn terms<'a>(&self, state: &'a GateState) -> Option<Cow<'a, Terms>> {
        state.terms_of(&self.declared, self.setting.as_ref())
    }

    /// Keys of its plan that were set live.
    pub fn keys(&self) -> Option<&PlanKeys> {
        let keys = self.setting.as_ref().map(|setting| &setting.keys);
        keys.filter(|keys| !keys.is_empty())
    }

    /// The seats of its packets.
    pub fn seats(&self) -> PerDirection<Seat> {
        PerDirection::new(|direction| self.seat(direction))
    }

    /// The seat of its packets in a direction.
    pub fn seat(&self, direction: Direction) -> Seat {
        let lane = self.lanes[direction];
        Seat {
            limiter: self.limiter(direction),
            plan: lane.plan,
            version: lane.version,
            from: match direction {
                Direction::Down => Origin::default(),
                Direction::Up => self.from().origin(),
            },
        }
    }
}

/// Plans by number. Equal limits share one number. A number that became free is reused as late as
/// possible, since a limiter without packets still runs under its old plan.
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
    /// Numbers that the running change frees.
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

    /// The number of these limits, which gets one more use; `None` if there is no room.
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

    /// Adds a use of a number that was acquired.
    pub(crate) fn again(&mut self, number: u32) {
        *self.uses.entry(number).or_insert(0) += 1;
    }

    /// Removes a use of a number. After its last use it becomes free when the change is made.
    pub(crate) fn release(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(&number) {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.leaving.push(number);
            }
        }
    }

    /// Frees numbers that were released and not acquired again.
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

    /// Stores limits at a number from a journal.
    pub(crate) fn put(&mut self, number: u32, limits: Arc<Limits>) {
        self.next = self.next.max(number.saturating_add(1));
        self.freed.retain(|&freed| freed != number);
        self.contents.insert(number, limits);
    }

    /// Takes over numbers that the other plans gave out. They are free here.
    pub(crate) fn outlive(&mut self, other: &Self) {
        for number in self.next..other.next {
            self.freed.push_back(number);
        }
        self.next = self.next.max(other.next);
    }

    /// Counts the uses after reading. Unused numbers are free.
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

/// Whether a file can leave a value out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Everything that a data path holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateState {
    /// The format of the file.
    pub format: u32,
    /// Number of changes of the whole state.
    pub serial: u64,
    /// The configuration file.
    pub config: PathBuf,
    /// The folder of the data path.
    pub pins: PathBuf,
    /// Secret key of the flow hash.
    pub hash: [u64; 2],
    /// A number that other gates do not have, if it does not follow from the hash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub identity: Option<u64>,
    /// The network namespace of its interfaces, by the number of its inode.
    #[serde(default, skip_serializing_if = "is_default")]
    pub network: Option<u64>,
    /// How bytes are counted.
    pub accounting: Accounting,
    /// The fate of packets that match no subscriber.
    pub unknown: Unknown,
    /// The fate of frames without IP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_frames: OtherFrames,
    /// Which of them pass in any case.
    #[serde(default, skip_serializing_if = "is_default")]
    pub link_frames: LinkFrames,
    /// Source addresses that may come in from subscribers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sources: Sources,
    /// Whether to attach where another gate is attached already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub beside: bool,
    /// Whether what would be dropped is only counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shadow: bool,
    /// What is watched.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watch: Option<Watch>,
    /// The file with the events.
    #[serde(default, skip_serializing_if = "is_default")]
    pub events: Option<PathBuf>,
    /// Interfaces that the gate should be attached to.
    pub attachments: Vec<Attachment>,
    /// Plans of the file, for live changes.
    pub templates: Templates,
    /// Nodes of the network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodes: Nodes,
    /// Plans of the data path.
    pub plans: Plans,
    /// Subscribers by name.
    pub members: BTreeMap<String, Member>,
    /// Numbers of former subscribers. Their limiters are reset before they are used again.
    pub free: Vec<u32>,
    /// The first number that no subscriber has had.
    pub next: u32,
}

impl GateState {
    /// The format of state files.
    pub const FORMAT: u32 = 1;

    /// A state without subscribers.
    pub fn empty(pins: PathBuf, hash: [u64; 2]) -> Self {
        Self {
            format: Self::FORMAT,
            serial: 0,
            config: PathBuf::new(),
            pins,
            hash,
            identity: None,
            network: None,
            accounting: Accounting {
                layer: 2,
                overhead: 0,
            },
            unknown: Unknown::Pass,
            other_frames: OtherFrames::default(),
            link_frames: LinkFrames::default(),
            sources: Sources::default(),
            beside: false,
            shadow: false,
            watch: None,
            events: None,
            attachments: Vec::new(),
            templates: Templates::default(),
            nodes: Nodes::default(),
            plans: Plans::default(),
            members: BTreeMap::new(),
            free: Vec::new(),
            next: 0,
        }
    }

    /// Settings for all packets.
    pub fn settings(&self) -> Settings {
        let [low, high] = self.hash.map(u128::from);
        Settings {
            accounting: self.accounting,
            unknown: self.unknown,
            other_frames: self.other_frames,
            link_frames: self.link_frames,
            sources: self.sources,
            beside: self.beside,
            shadow: self.shadow,
            flows: self.watch.map_or(0, |watch| watch.flows),
            hash: HashKey::from_bytes((high << 64 | low).to_le_bytes()),
        }
    }

    /// Limiters have numbers below this.
    pub fn limiters(&self) -> u32 {
        2 * self.next
    }

    /// Computes the values that files leave out.
    pub(crate) fn index(&mut self) {
        let lanes = self
            .members
            .values()
            .flat_map(|member| member.lanes.values());
        self.plans
            .index(lanes.flat_map(|lane| [lane.base, lane.plan]));
    }

    /// A plan of the file.
    pub fn template(&self, name: &str) -> Option<&PlanTemplate> {
        self.templates.get(name)
    }

    /// That there is no plan of this name, and which one may be meant.
    fn no_plan(&self, name: &str) -> String {
        let meant = instead(name, self.templates.names());
        format!("there is no plan `{name}`{meant}")
    }

    /// A number that another gate is unlikely to have. It does not tell the secret.
    pub fn identity(&self) -> u64 {
        self.identity.unwrap_or(self.hash[0] ^ self.hash[1])
    }

    /// The plan of a subscriber with a live change, unless the time of day or its volume says otherwise; none if it has
    /// none. An error if there is no such plan, or a key that was set does not fit it.
    pub(crate) fn plan_of(
        &self,
        declared: &Declaration,
        setting: &Setting,
    ) -> Result<Option<Cow<'_, PlanTemplate>>, String> {
        let name = setting.plan.as_deref().or(declared.plan.as_deref());
        let plan = match name {
            Some(name) => Some(self.template(name).ok_or_else(|| self.no_plan(name))?),
            None => None,
        };
        if setting.keys.is_empty() {
            return Ok(plan.map(Cow::Borrowed));
        }
        let names: Vec<&str> = self.templates.names().collect();
        let base = plan.cloned().unwrap_or_default();
        let plan = overlay(&base, name.unwrap_or_default(), &names, &setting.keys)?;
        Ok(Some(Cow::Owned(plan)))
    }

    /// When another plan takes the place of a subscriber's, with a live change if there is one; none if it has no plan.
    pub(crate) fn terms_of(
        &self,
        declared: &Declaration,
        setting: Option<&Setting>,
    ) -> Option<Cow<'_, Terms>> {
        let none = Setting::default();
        let setting = setting.unwrap_or(&none);
        // Every subscriber is asked at each look. Other keys change no terms, so that the plan need not be made.
        let is_term = |key: &String| key.starts_with("schedule") || key.starts_with("quota");
        if setting.keys.keys().any(is_term) {
            let plan = self.plan_of(declared, setting).ok()??;
            return Some(Cow::Owned(plan.into_owned().terms));
        }
        let name = setting.plan.as_deref().or(declared.plan.as_deref())?;
        Some(Cow::Borrowed(&self.template(name)?.terms))
    }

    /// The limits of a subscriber with a live change, or with another plan for now; an error if there is no such plan, or a rate is out
    /// of range.
    pub(crate) fn set_limits(
        &self,
        declared: &Declaration,
        setting: &Setting,
        turn: Option<&Turn>,
    ) -> Result<PerDirection<Arc<Limits>>, String> {
        let turn = turn.map(|turn| turn.plan.as_str());
        let other = turn.or(setting.plan.as_deref());
        let name = other.or(declared.plan.as_deref());
        let plan = match turn {
            Some(name) => Some(Cow::Borrowed(
                self.template(name).ok_or_else(|| self.no_plan(name))?,
            )),
            None => self.plan_of(declared, setting)?,
        };
        let default = Template::default();
        let suspended = setting.suspended.unwrap_or(declared.suspended);
        let limits = |direction, set: Option<Rate>| {
            let mut template = plan.as_ref().map_or(&default, |plan| plan.of(direction));
            let base;
            if turn.is_some() && set.is_some() && template.scheme == Scheme::Unlimited {
                // What was set live holds also while an unlimited plan is in force, as the subscriber's plan limits.
                base = self.plan_of(declared, setting)?;
                template = base.as_ref().map_or(&default, |plan| plan.of(direction));
            }
            if set.is_some() && template.scheme == Scheme::Unlimited {
                let name = name.unwrap_or_default();
                return Err(format!(
                    "plan `{name}` is unlimited, so it has no rate to change"
                ));
            }
            // The subscriber's rates belong to the plan of the file. Another plan has other rates, if it has any.
            let bare = template.rate.is_none() && template.scheme != Scheme::Unlimited;
            let own = (other.is_none() || bare) && !setting.keys.contains_key(direction.name());
            let rate = declared.rates[direction].filter(|_| own);
            let limits = template.limits(direction, set.map(Rate::bits_per_second).or(rate));
            let limits = limits.map_err(|error| error.to_string())?;
            let node = declared.parent.as_deref().map(Arc::from);
            let limits = match suspended {
                true => Ok(Limits::suspended(direction)),
                false => limits.below(node),
            };
            Ok(Arc::new(limits.map_err(|error| error.to_string())?))
        };
        Ok(PerDirection {
            down: limits(Direction::Down, setting.down)?,
            up: limits(Direction::Up, setting.up)?,
        })
    }
}

/// Writes and reads matches as text, if there are any.
mod as_text_if {
    use super::*;
    use crate::subscriber::as_text;

    pub fn serialize<S: Serializer>(
        matches: &Option<Vec<Match>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        as_text::serialize(matches.as_deref().unwrap_or_default(), to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Match>>, D::Error> {
        as_text::deserialize(from).map(Some)
    }
}

/// Writes shared limits in full.
mod owned {
    use super::*;

    pub fn serialize<S: Serializer>(
        plans: &BTreeMap<u32, Arc<Limits>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(
            plans
                .iter()
                .map(|(number, limits)| (number, limits.as_ref())),
        )
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
