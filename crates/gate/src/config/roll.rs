//! All subscribers of all files. Each name and each match may be there once, and each plan must
//! exist.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_limiter::Scheme;
use tidegate_notation::{Mistake, Place, instead};

use super::Subscriber;
use super::node::Tree;
use super::problem::Sink;
use crate::binding::{self, Binding};
use crate::limits::{Limits, MAX_LENGTHS, PlanTemplate};
use crate::room::{Full, Room};
use crate::subscriber::Declaration;
use crate::table::{Attachment, Direction, Match, PerDirection, PlanError};

/// In place of addresses: the subscriber gets them live.
pub(super) const LIVE: &str = "live";

/// A subscriber as it was read.
pub(super) struct Draft<'a> {
    pub name: &'a str,
    pub plan: Option<&'a str>,
    /// The node of the network above it.
    pub parent: Option<&'a str>,
    /// In bit/s.
    pub rates: PerDirection<Option<u64>>,
    pub matches: Vec<(Match, Place)>,
    /// Whether something of it could not be read, which was reported.
    pub unread: bool,
    /// Whether it gets addresses live.
    pub live: bool,
    /// What access servers call it.
    pub users: Vec<(String, Place)>,
    /// Whether all its packets are dropped.
    pub suspended: bool,
    pub place: Place,
    /// The place where the plan is named.
    pub plan_place: Place,
    /// The place where the node is named.
    pub parent_place: Place,
    /// The places of the rates.
    pub rate_places: PerDirection<Place>,
    pub from: Binding,
    /// The place where the interface is named.
    pub port_place: Place,
}

/// A plan, a direction, the subscriber's rate if it has one, and the node above it.
type Terms = (Option<usize>, Direction, Option<u64>, Option<usize>);

/// The subscribers that were read so far.
pub(super) struct Roll<'a> {
    plans: &'a [(String, PlanTemplate)],
    attachments: &'a [Attachment],
    nodes: &'a Tree<'a>,
    sink: &'a Sink,
    numbers: HashMap<&'a str, usize>,
    names: HashMap<Arc<str>, u32>,
    owners: HashMap<Match, u32>,
    users: HashMap<String, u32>,
    places: Vec<Place>,
    /// One for each plan, direction and rate.
    limits: HashMap<Terms, Result<Arc<Limits>, String>>,
    /// Of subscribers that may send and receive nothing.
    suspended: PerDirection<Arc<Limits>>,
    room: Room,
    pub subscribers: Vec<Subscriber>,
}

impl<'a> Roll<'a> {
    pub fn new(
        plans: &'a [(String, PlanTemplate)],
        attachments: &'a [Attachment],
        nodes: &'a Tree<'a>,
        sink: &'a Sink,
    ) -> Self {
        let numbers = plans.iter().enumerate();
        Self {
            plans,
            attachments,
            nodes,
            sink,
            numbers: numbers.map(|(i, (name, _))| (name.as_str(), i)).collect(),
            names: HashMap::new(),
            owners: HashMap::new(),
            users: HashMap::new(),
            places: Vec::new(),
            limits: HashMap::new(),
            suspended: PerDirection::new(|direction| Arc::new(Limits::suspended(direction))),
            room: Room::default(),
            subscribers: Vec::new(),
        }
    }

    /// The nodes of the network.
    pub fn nodes(&self) -> &'a Tree<'a> {
        self.nodes
    }

    /// The number of a plan. Reports it if there is no such plan.
    pub fn plan(&self, name: &str, place: Place) -> Option<usize> {
        let number = self.numbers.get(name).copied();
        if number.is_none() {
            self.sink.add_with(|| {
                let known = self.plans.iter().map(|(name, _)| name.as_str());
                let meant = match self.plans.is_empty() {
                    true => ": the file has none".to_owned(),
                    false => instead(name, known),
                };
                let message = format!("there is no plan `{name}`{meant}");
                (Mistake::new(place, message), None)
            });
        }
        number
    }

    /// Adds a subscriber, or returns false if there is a mistake in it that can be skipped.
    pub fn add(&mut self, draft: Draft<'_>) -> bool {
        let lenient = self.sink.is_lenient();
        let (mistakes, room) = (self.sink.count(), lenient.then(|| self.room.clone()));
        let number = self.subscribers.len() as u32;
        if let Err(message) = check_name(draft.name) {
            self.sink.wrong(draft.place, message);
            return false;
        }
        let name: Arc<str> = draft.name.into();
        if let Some(&other) = self.names.get(&name) {
            self.taken(draft.place, other, |_| {
                format!("there is a subscriber `{name}` already")
            });
            return false;
        }
        if let Some(&other) = self.users.get(draft.name) {
            self.taken(draft.place, other, |whose| {
                format!("`{whose}` has the user `{name}` already")
            });
            return false;
        }
        let plan = match draft.plan {
            Some(plan) => match self.plan(plan, draft.plan_place) {
                Some(plan) => Some(plan),
                // This was reported. Further errors would be about another plan.
                None => return false,
            },
            None => None,
        };
        let parent = match draft.parent {
            Some(parent) => match self.nodes.find(parent, draft.parent_place) {
                Some(parent) => Some(parent),
                None => return false,
            },
            None => None,
        };
        let alone = plan.and_then(|plan| self.alone(plan));
        if let Some(scheme) = alone.filter(|_| parent.is_some()) {
            let message = PlanError::Below(scheme).to_string();
            self.sink.wrong(draft.parent_place, message);
        }
        if plan.is_none() && draft.rates == PerDirection::default() && !draft.unread {
            let message = format!("nothing limits `{name}`: give it a plan, or rates");
            self.sink.wrong(draft.place, message);
        }
        if draft.matches.is_empty() && !draft.live && !draft.unread {
            let message = format!(
                "nothing identifies the packets of `{name}`: give it addresses, vlan, qinq or pppoe, \
                 or addresses = \"live\" if it gets them from the API or RADIUS \
                 (in an import: live = true)"
            );
            self.sink.wrong(draft.place, message);
        }
        if let Some(port) = &draft.from.port
            && !binding::is_access(self.attachments, port)
        {
            self.sink.wrong(draft.port_place, binding::no_access(port));
        }
        let mut matches = Vec::with_capacity(draft.matches.len());
        for (what, place) in draft.matches {
            match self.owners.insert(what, number) {
                None => {
                    self.room(&what, place);
                    matches.push(what);
                }
                Some(other) if other == number => {
                    let message = format!("{what} is given to `{name}` twice");
                    self.sink.wrong(place, message);
                }
                Some(other) => {
                    self.taken(place, other, |whose| {
                        format!("{what} belongs to `{whose}` already")
                    });
                    self.owners.insert(what, other);
                }
            }
        }
        let users = self.users(draft.users, number);
        let limits = PerDirection::new(|direction| {
            let rate = draft.rates[direction];
            match self.limits((plan, direction, rate, parent)) {
                Ok(limits) => limits,
                Err(message) => {
                    let place = match rate {
                        Some(_) => draft.rate_places[direction],
                        None => draft.place,
                    };
                    // A wrong plan is reported once, where it is written.
                    if rate.is_some() {
                        self.sink.wrong(place, message);
                    }
                    Arc::new(Limits::none(direction))
                }
            }
        });
        let limits = match draft.suspended {
            true => self.suspended.clone(),
            false => limits,
        };
        if let Some(room) = room
            && self.sink.count() > mistakes
        {
            self.room = room;
            for what in &matches {
                self.owners.remove(what);
            }
            for user in &users {
                self.users.remove(user);
            }
            return false;
        }
        self.names.insert(name.clone(), number);
        self.places.push(draft.place);
        self.subscribers.push(Subscriber {
            name,
            declared: Declaration {
                plan: plan.map(|plan| self.plans[plan].0.clone()),
                rates: draft.rates,
                matches,
                users,
                suspended: draft.suspended,
                parent: draft.parent.map(str::to_owned),
                from: draft.from,
            },
            limits,
        });
        true
    }

    /// Reports what the subscriber of the number `other` has already; the message is of its name.
    fn taken(&self, place: Place, other: u32, message: impl FnOnce(&str) -> String) {
        self.sink.add_with(|| {
            let whose = self.subscribers.get(other as usize);
            let whose = whose.map_or("", |subscriber| &*subscriber.name);
            let mistake = Mistake::new(place, message(whose));
            (mistake, self.places.get(other as usize).copied())
        });
    }

    /// The users of the subscriber of this number. Each may mean one subscriber only.
    fn users(&mut self, drafted: Vec<(String, Place)>, number: u32) -> Vec<String> {
        let mut users = Vec::new();
        for (user, place) in drafted {
            if let Err(message) = check_user(&user) {
                self.sink.wrong(place, message);
                continue;
            }
            let owner = self.users.get(&user);
            match owner.or_else(|| self.names.get(user.as_str())) {
                Some(&other) if other != number => self.taken(place, other, |whose| {
                    match self.names.contains_key(user.as_str()) {
                        true => format!("`{user}` is the name of another subscriber"),
                        false => format!("`{whose}` has the user `{user}` already"),
                    }
                }),
                // A circuit names its user with each of its devices.
                Some(_) => {}
                None => {
                    self.users.insert(user.clone(), number);
                    users.push(user);
                }
            }
        }
        users
    }

    /// Whether the kernel has room for one more. Each packet tries all lengths of prefixes that are
    /// in use, so these are few.
    fn room(&mut self, what: &Match, place: Place) {
        let message = match self.room.add(what) {
            None => return,
            Some(Full::Count(name, most)) => {
                format!("there are too many {name} from here on: at most {most}")
            }
            Some(Full::Lengths(name)) => format!(
                "{what} has a length too many: all {name} together may have {MAX_LENGTHS} \
                 different lengths"
            ),
        };
        self.sink.wrong(place, message);
    }

    /// The scheme that cannot be below a node, of a plan or of one that takes its place at times.
    fn alone(&self, plan: usize) -> Option<Scheme> {
        let template = &self.plans[plan].1;
        let is_other = |name: &str| template.terms.plans().any(|other| other == name);
        let found = self.plans.iter().filter(|(name, _)| is_other(name));
        let mut all = std::iter::once(template).chain(found.map(|(_, other)| other));
        all.find_map(PlanTemplate::alone)
    }

    fn limits(&mut self, key: Terms) -> Result<Arc<Limits>, String> {
        let (plan, direction, rate, parent) = key;
        let (plans, nodes) = (self.plans, &self.nodes.nodes);
        let make = || {
            let template = match plan {
                Some(plan) => plans[plan].1.of(direction).clone(),
                None => crate::limits::Template::default(),
            };
            if rate.is_some() && template.scheme == Scheme::Unlimited {
                return Err(
                    "its plan is unlimited: leave out the rate, or name another plan".into(),
                );
            }
            let limits = template.limits(direction, rate);
            let limits = limits.map_err(|error| error.to_string())?;
            Ok(Arc::new(Limits {
                node: parent.map(|node| nodes[node].name.as_str().into()),
                ..limits
            }))
        };
        self.limits.entry(key).or_insert_with(make).clone()
    }
}

/// A User-Name of RADIUS, RFC 2865 §5.1.
fn check_user(user: &str) -> Result<(), &'static str> {
    if user.is_empty() || user.len() > 253 || user.chars().any(char::is_control) {
        return Err("users have 1 to 253 bytes, without control characters");
    }
    Ok(())
}

/// Names are parts of commands, metrics and addresses of the API.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| !c.is_control() && !c.is_whitespace() && !"\"\\'`".contains(c);
    if name.is_empty() || name.chars().count() > 64 || !name.chars().all(good) {
        return Err(
            "names have 1 to 64 characters, without spaces, quotes and backslashes".to_owned(),
        );
    }
    Ok(())
}
