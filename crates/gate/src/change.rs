//! The smallest set of changes that leads from one state to another. This module only computes it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_limiter::NetworkNode;

use crate::binding::is_access;
use crate::calendar::Turn;
use crate::config::{Config, Problem, Subscriber};
use crate::limits::Limits;
use crate::live;
use crate::look::Look;
use crate::room::Room;
use crate::state::{GateState, Lane, Member, Plans, Setting};
use crate::table::{Attachment, Direction, Match, PerDirection, Seat};

#[cfg(test)]
mod tests;

/// A change of a data path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Detach from an interface.
    Detach(Attachment),
    /// Write the settings of the state.
    Settings,
    /// Make room for limiters with numbers below this.
    Reserve(u32),
    /// Store a node of the network, under its number in a direction.
    Node {
        /// The number.
        number: u32,
        /// Capacity, and the number of the node above.
        node: NetworkNode,
        /// Whether it is another node than before.
        fresh: bool,
    },
    /// Store a plan at a number that no limiter runs under.
    Plan(u32, Arc<Limits>),
    /// Reset a limiter whose number belonged to another subscriber.
    Forget(u32),
    /// Assign packets to limiters.
    Seat(Vec<(Match, PerDirection<Seat>)>),
    /// Remove assignments of packets.
    Unseat(Vec<Match>),
    /// Make ready what attaching to an interface needs.
    Ready(Attachment),
    /// Attach to an interface.
    Attach(Attachment),
}

/// What a start or a reload changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Subscribers that were added.
    pub added: Vec<String>,
    /// Subscribers that were removed.
    pub removed: Vec<String>,
    /// Subscribers with other limits than before.
    pub limited: Vec<String>,
    /// Subscribers with other addresses or tags than before.
    pub moved: Vec<String>,
    /// Number of subscribers that did not change.
    pub unchanged: usize,
    /// Subscribers whose live changes no longer apply, since the file changed them.
    pub reset: Vec<String>,
    /// Interfaces that the gate was attached to.
    pub attached: Vec<Attachment>,
    /// Interfaces that the gate was detached from.
    pub detached: Vec<Attachment>,
    /// Interfaces that the gate should be attached to and is not: they do not exist or refuse.
    pub missing: Vec<String>,
    /// The keys and tables of settings for all packets that changed, such as `accounting` or `unknown`.
    pub settings: Vec<String>,
    /// The keys and tables that changed, but that only the start of the daemon reads, such as `[radius]`.
    #[serde(default)]
    pub restart: Vec<String>,
    /// Programs of another version of tidegate that those of this one replaced.
    #[serde(default)]
    pub replaced: Vec<String>,
    /// Programs of another version that stay in force, each with the reason.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Whether nodes of the network changed.
    #[serde(default)]
    pub nodes: bool,
    /// Number of lines of imported files that were skipped.
    #[serde(default)]
    pub skipped_lines: usize,
    /// Their mistakes, with places: the first 100.
    #[serde(default)]
    pub skipped: Vec<String>,
}

/// Why a configuration does not fit into a data path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// More different limits than [`Plans::MOST`].
    #[error("subscribers have more than {max} different limits: let more subscribers share plans and rates", max = Plans::MOST)]
    Plans,
}

/// The state that a configuration asks for, from the present one. Subscribers of both keep their numbers and
/// versions. A live change stays if the file says the same of the subscriber as before.
///
/// # Errors
/// If there are too many different limits.
pub fn next(old: &GateState, config: &Config) -> Result<(GateState, Report), ChangeError> {
    next_by(old, config, None)
}

/// The same, with the plans in force for now that the last look says.
pub(crate) fn next_by(
    old: &GateState,
    config: &Config,
    look: Option<&Look>,
) -> Result<(GateState, Report), ChangeError> {
    let mut new = old.clone();
    let problems = config.skipped.problems.iter();
    let mut report = Report {
        skipped_lines: config.skipped.lines,
        skipped: problems.map(Problem::in_short).collect(),
        ..Report::default()
    };
    new.serial += 1;
    new.config.clone_from(&config.file);
    new.accounting = config.accounting;
    new.unknown = config.unknown;
    new.other_frames = config.other_frames;
    new.link_frames = config.link_frames;
    new.sources = config.sources;
    new.beside = config.beside;
    new.shadow = config.shadow;
    new.watch = config.watch;
    new.events.clone_from(&config.events);
    new.attachments.clone_from(&config.attachments);
    new.templates = config.plans.clone().into();
    new.nodes = old.nodes.next(&config.nodes);
    report.nodes = old.nodes != new.nodes;
    report.settings = settings_that_differ(old, &new);

    let mut known = Known::new();
    let mut former = std::mem::take(&mut new.members);
    for subscriber in &config.subscribers {
        let name = subscriber.name.to_string();
        let member = match former.remove(&name) {
            Some(member) => {
                let kept = (member, subscriber);
                keep((&mut new, &mut known), &mut report, &name, kept, look)?
            }
            None => {
                report.added.push(name.clone());
                enter((&mut new, &mut known), &name, subscriber, look)?
            }
        };
        new.members.insert(name, member);
    }
    report
        .moved
        .extend(live::keep(&old.members, &mut new.members));
    report.moved.sort();
    report.moved.dedup();
    let mut freed = Vec::with_capacity(former.len());
    for (name, member) in former {
        for lane in member.lanes.values() {
            new.plans.release(lane.base);
            new.plans.release(lane.plan);
        }
        // Subscribers of this change do not get these numbers: a packet may be on its way to the limiter.
        freed.push(member.number);
        report.removed.push(name);
    }
    new.free.extend(freed);
    new.plans.settle();
    Ok((new, report))
}

/// The keys and tables of settings for all packets that differ.
fn settings_that_differ(old: &GateState, new: &GateState) -> Vec<String> {
    let parts = [
        ("accounting", old.accounting != new.accounting),
        ("unknown", old.unknown != new.unknown),
        ("other-frames", old.other_frames != new.other_frames),
        ("link-frames", old.link_frames != new.link_frames),
        ("sources", old.sources != new.sources),
        ("other-gates", old.beside != new.beside),
        ("shadow", old.shadow != new.shadow),
        ("[watch]", old.watch != new.watch),
    ];
    let differ = parts.into_iter().filter(|(_, differs)| *differs);
    differ.map(|(name, _)| name.to_owned()).collect()
}

/// Numbers of limits by their address in memory. Many subscribers share limits, and comparing their content
/// would take longer.
type Known = HashMap<*const Limits, u32>;

/// A number for limits of the configuration, which do not move in memory.
fn acquire(plans: &mut Plans, known: &mut Known, limits: &Arc<Limits>) -> Result<u32, ChangeError> {
    if let Some(&number) = known.get(&Arc::as_ptr(limits)) {
        plans.again(number);
        return Ok(number);
    }
    let number = plans.acquire(limits).ok_or(ChangeError::Plans)?;
    known.insert(Arc::as_ptr(limits), number);
    Ok(number)
}

/// A new subscriber.
fn enter(
    (new, known): (&mut GateState, &mut Known),
    name: &str,
    subscriber: &Subscriber,
    look: Option<&Look>,
) -> Result<Member, ChangeError> {
    let declared = &subscriber.declared;
    let turn = look.and_then(|look| look.turn(new, name, declared, None));
    let turned = turn.and_then(|turn| {
        let limits = new.set_limits(declared, &Setting::default(), Some(&turn));
        Some((turn, limits.ok()?))
    });
    let number = new.free.pop().unwrap_or_else(|| {
        new.next += 1;
        new.next - 1
    });
    let mut lane = |direction| {
        let limits = &subscriber.limits[direction];
        Ok(Lane {
            base: acquire(&mut new.plans, known, limits)?,
            plan: match &turned {
                Some((_, set)) => (new.plans.acquire(&set[direction])).ok_or(ChangeError::Plans)?,
                None => acquire(&mut new.plans, known, limits)?,
            },
            version: 1,
        })
    };
    let lanes = PerDirection {
        down: lane(Direction::Down)?,
        up: lane(Direction::Up)?,
    };
    Ok(Member {
        number,
        declared: subscriber.declared.clone(),
        lanes,
        setting: None,
        turn: turned.map(|(turn, _)| turn),
        live: None,
        stamp: 0,
    })
}

/// The plan that a subscriber follows after a reload, unless the time of day or its volume says otherwise.
fn plan_after<'a>(member: &'a Member, subscriber: &'a Subscriber) -> Option<&'a str> {
    let set = member
        .setting
        .as_ref()
        .and_then(|setting| setting.plan.as_deref());
    set.or(subscriber.declared.plan.as_deref())
}

/// The state in which these subscribers have another plan for now, or none.
///
/// # Errors
/// If there are too many different limits. Subscribers whose other plan cannot be had stay as they are.
pub fn turned(old: &GateState, turns: &[(String, Option<Turn>)]) -> Result<GateState, ChangeError> {
    let mut new = old.clone();
    new.serial += 1;
    for (name, turn) in turns {
        let Some(mut member) = new.members.get(name).cloned() else {
            continue;
        };
        let setting = member.setting.clone().unwrap_or_default();
        let Ok(wanted) = new.set_limits(&member.declared, &setting, turn.as_ref()) else {
            continue;
        };
        member.turn.clone_from(turn);
        for direction in Direction::BOTH {
            let lane = &mut member.lanes[direction];
            let plan = new
                .plans
                .acquire(&wanted[direction])
                .ok_or(ChangeError::Plans)?;
            new.plans.release(lane.plan);
            lane.version = lane.version.wrapping_add(u32::from(plan != lane.plan));
            lane.plan = plan;
        }
        new.members.insert(name.clone(), member);
    }
    new.plans.settle();
    Ok(new)
}

/// A subscriber that was there before.
fn keep(
    (new, known): (&mut GateState, &mut Known),
    report: &mut Report,
    name: &str,
    (mut member, subscriber): (Member, &Subscriber),
    look: Option<&Look>,
) -> Result<Member, ChangeError> {
    let declared = &subscriber.declared;
    let mut set_limits = None;
    match look {
        Some(look) => member.turn = look.turn(new, name, declared, member.setting.as_ref()),
        None if member.base_plan() != plan_after(&member, subscriber) => member.turn = None,
        None => {}
    }
    // All packets would be dropped of a subscriber that is bound to an interface where none come in any more.
    if let Some(setting) = &mut member.setting
        && let Some(from) = &mut setting.from
        && (from.port.as_ref()).is_some_and(|port| !is_access(&new.attachments, port))
    {
        from.port.clone_from(&declared.from.port);
        setting.from = setting.from.take().filter(|from| *from != declared.from);
        member.setting = member
            .setting
            .filter(|setting| *setting != Setting::default());
        report.reset.push(name.to_owned());
    }
    if let Some(setting) = &member.setting {
        let before = &member.declared;
        let same = before.plan == declared.plan
            && before.rates == declared.rates
            && before.suspended == declared.suspended
            && before.from == declared.from;
        let mut set = new.set_limits(declared, setting, member.turn.as_ref());
        if set.is_err() && member.turn.is_some() {
            // The plan in force for now may be gone, which says nothing of the live change. The next look at the time
            // decides again.
            set = new.set_limits(declared, setting, None);
            if same && set.is_ok() {
                member.turn = None;
            }
        }
        match set.ok().filter(|_| same) {
            Some(set) => set_limits = Some(set),
            None => {
                member.setting = None;
                report.reset.push(name.to_owned());
                report.reset.dedup();
            }
        }
    }
    if let (None, Some(look)) = (&member.setting, look) {
        // There may have been a live change above.
        member.turn = look.turn(new, name, declared, None);
    }
    if set_limits.is_none()
        && let Some(turn) = &member.turn
    {
        // If its plan is gone, the next look at the time decides again.
        set_limits = new
            .set_limits(declared, &Setting::default(), Some(turn))
            .ok();
        member.turn = member.turn.filter(|_| set_limits.is_some());
    }
    let mut touched = false;
    for direction in Direction::BOTH {
        let former = member.lanes[direction];
        let base = acquire(&mut new.plans, known, &subscriber.limits[direction])?;
        let plan = match &set_limits {
            // These limits are dropped, and their address may be reused.
            Some(set) => new
                .plans
                .acquire(&set[direction])
                .ok_or(ChangeError::Plans)?,
            None => acquire(&mut new.plans, known, &subscriber.limits[direction])?,
        };
        new.plans.release(former.base);
        new.plans.release(former.plan);
        let changed = plan != former.plan;
        touched |= changed;
        member.lanes[direction] = Lane {
            base,
            plan,
            version: former.version.wrapping_add(u32::from(changed)),
        };
    }
    let same: HashSet<&Match> = member.declared.matches.iter().collect();
    let moved = same != declared.matches.iter().collect() || member.declared.from != declared.from;
    if touched {
        report.limited.push(name.to_owned());
    }
    if moved {
        report.moved.push(name.to_owned());
    }
    report.unchanged += usize::from(!touched && !moved);
    member.declared.clone_from(declared);
    Ok(member)
}

/// The changes that lead a data path from one state to another. In this order, every packet of a
/// subscriber of both states is limited at any time. There is one exception: without room for old and
/// new matches together, the old ones are removed first, and packets of a match that is replaced pass
/// unlimited for that moment. All changes may be made twice.
///
/// `attached` are the interfaces that the data path is attached to at present. If `fresh`, limiters that
/// get another subscriber are reset.
pub fn changes(
    from: &GateState,
    to: &GateState,
    attached: &[Attachment],
    fresh: bool,
) -> Vec<Change> {
    let mut changes = Vec::new();
    // An interface that is attached in another way is without limits for as short as possible: it is detached when all else is
    // done and the other way is ready.
    let gone = attached.iter().filter(|old| !to.attachments.contains(old));
    let (moved, gone): (Vec<_>, Vec<_>) = gone.partition(|old| {
        let mut new = to.attachments.iter();
        new.any(|new| new.interface == old.interface)
    });
    changes.extend(gone.into_iter().cloned().map(Change::Detach));
    if from.settings() != to.settings() {
        changes.push(Change::Settings);
    }
    // Room is made also for numbers of an earlier change, which may have failed.
    let before = |name: &str, member: &Member| {
        let old = from.members.get(name);
        old.filter(|old| old.number == member.number)
    };
    let new = to.members.iter();
    let new = new.filter(|(name, member)| before(name, member).is_none());
    if let Some(last) = new.map(|(_, member)| member.number).max() {
        changes.push(Change::Reserve(2 * (last + 1)));
    }
    let nodes = from.nodes.changes(&to.nodes).into_iter();
    changes.extend(nodes.map(|(number, node, fresh)| Change::Node {
        number,
        node,
        fresh,
    }));
    for (&number, limits) in to.plans.contents() {
        if from.plans.get(number) != Some(limits) {
            changes.push(Change::Plan(number, limits.clone()));
        }
    }
    let mut seats = Vec::new();
    let mut left: HashSet<Match> = HashSet::new();
    for (name, member) in &to.members {
        let old = before(name, member);
        // Numbers that no subscriber has had need no reset.
        if old.is_none() && fresh && member.number < from.next {
            changes
                .extend(Direction::BOTH.map(|direction| Change::Forget(member.limiter(direction))));
        }
        let both = member.seats();
        let same = old.is_some_and(|old| old.seats() == both);
        if same && old.is_some_and(|old| old.matches() == member.matches()) {
            continue;
        }
        let there: HashSet<&Match> = match old {
            Some(old) if same => old.matches().iter().collect(),
            _ => HashSet::new(),
        };
        let new = member.matches().iter();
        let new = new.filter(|what| !there.contains(what));
        seats.extend(new.map(|what| (*what, both)));
    }
    for (name, member) in &from.members {
        let kept = to.members.get(name);
        if kept.is_some_and(|kept| kept.matches() == member.matches()) {
            continue;
        }
        let kept: HashSet<&Match> = kept.iter().flat_map(|kept| kept.matches()).collect();
        let gone = member.matches().iter();
        left.extend(gone.filter(|what| !kept.contains(what)));
    }
    if !left.is_empty() {
        // Another subscriber may have these matches now.
        for what in to.members.values().flat_map(Member::matches) {
            left.remove(what);
        }
    }
    let unseat = |changes: &mut Vec<Change>| {
        if !left.is_empty() {
            changes.push(Change::Unseat(left.iter().copied().collect()));
        }
    };
    let first = !seats.is_empty() && !left.is_empty() && !fit(to, &left);
    if first {
        unseat(&mut changes);
    }
    if !seats.is_empty() {
        changes.push(Change::Seat(seats));
    }
    if !first {
        unseat(&mut changes);
    }
    let is_moved = |new: &&Attachment| moved.iter().any(|old| old.interface == new.interface);
    let new = to.attachments.iter().filter(|new| !attached.contains(new));
    changes.extend(new.filter(is_moved).cloned().map(Change::Ready));
    for new in &to.attachments {
        let old = moved.iter().filter(|old| old.interface == new.interface);
        changes.extend(old.map(|&old| Change::Detach(old.clone())));
        if !attached.contains(new) {
            changes.push(Change::Attach(new.clone()));
        }
    }
    changes
}

/// Whether there is room for all matches of a state and for these further ones.
fn fit(state: &GateState, more: &HashSet<Match>) -> bool {
    let mut room = Room::default();
    let present = state.members.values().flat_map(Member::matches);
    present.chain(more).all(|what| room.add(what).is_none())
}

/// The state to return to after a change that failed: the old one, with versions that are newer than those
/// of the failed state.
pub fn back(old: &GateState, failed: &GateState) -> GateState {
    let mut state = old.clone();
    state.serial = failed.serial + 1;
    // Numbers are taken from the end, so the smallest come last.
    state.free.extend((old.next..failed.next).rev());
    state.next = failed.next.max(old.next);
    state.plans.outlive(&failed.plans);
    for (name, member) in &mut state.members {
        let Some(other) = failed.members.get(name) else {
            continue;
        };
        for direction in Direction::BOTH {
            let (lane, other) = (&mut member.lanes[direction], other.lanes[direction]);
            if lane.version != other.version {
                lane.version = other.version.wrapping_add(1);
            }
        }
    }
    state
}
