//! Plans, policies and rules as the programs read them. Equal policies and rules are stored once: limiters
//! keep their queues when they change from one plan to another of the same policy.

use std::ops::RangeInclusive;

use tidegate_limiter::program::Kind;
use tidegate_limiter::{
    BurstControl, Hierarchy, LimiterConfig, Meter, PolicyTree, Prefix, Program, Rate, Rule,
};

use super::access::{Maps, MapsError};
use super::layout::{
    self, ANY_PROTOCOL, NONE, Record, SHARES, network_words, plan, rule, rules, shape,
};
use super::stored_once::{FIRST_RESERVED, StoredOnce};
use crate::table::{Excess, Plan};

/// In place of the number of a policy, in plans without phantom queues.
const POLICER_SHAPE: u32 = FIRST_RESERVED + 1;
const BESIDE_SHAPE: u32 = FIRST_RESERVED + 2;
const UNLIMITED_SHAPE: u32 = FIRST_RESERVED;

/// The form of burst control.
const fn control_of(control: BurstControl) -> u8 {
    match control {
        BurstControl::Bucket => layout::BUCKET as u8,
        BurstControl::Paper(_) => layout::PAPER as u8,
    }
}

/// The policies and rules that are in the kernel.
#[derive(Debug)]
pub(crate) struct Registry {
    shapes: StoredOnce,
    rules: StoredOnce,
}

impl Registry {
    pub(crate) fn read(maps: &dyn Maps) -> Result<Self, MapsError> {
        Ok(Self {
            shapes: StoredOnce::read("shapes", || shape::NUMBER, "different policies", maps)?,
            rules: StoredOnce::read(
                "rule_sets",
                || rules::NUMBER,
                "different sets of rules",
                maps,
            )?,
        })
    }

    /// Whether there is room for this number of further policies and sets of rules.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.shapes.room() >= more && self.rules.room() >= more
    }

    /// Gives up all policies and rules that none of these encoded plans needs. No packet may be under
    /// way with another plan.
    pub(crate) fn give_up(&mut self, plans: impl Iterator<Item = Vec<u8>>) {
        let numbers = |plan: Vec<u8>| (plan::SHAPE.of(&plan), plan::RULES.of(&plan));
        let (shapes, rules) = plans.map(numbers).unzip();
        self.shapes.give_up(&shapes);
        self.rules.give_up(&rules);
    }

    /// Encodes a plan for the kernel. Stores its policy and rules there if they are new.
    pub(crate) fn encode(&mut self, plan: &Plan, maps: &dyn Maps) -> Result<Vec<u8>, MapsError> {
        let (mut period, mut upper, mut lower, mut control) = (u64::MAX, u64::MAX, 0, 0u8);
        let (mut shape, mut fair) = (UNLIMITED_SHAPE, 0);
        let (mut queues, mut rules, mut room, mut boost) = (0, 0, 0, 0);
        let (scheme, size) = match plan.limiter() {
            LimiterConfig::Unlimited => (layout::UNLIMITED, 0),
            LimiterConfig::Policer(config) => {
                shape = POLICER_SHAPE;
                (layout::POLICER, config.burst())
            }
            LimiterConfig::PhantomQueues(config) => {
                let program = config.program();
                if let Some(burst) = config.burst_control() {
                    (period, control) = (burst.period(), control_of(burst));
                    upper = burst.upper_bytes(config.rate());
                    lower = burst.lower_bytes(config.rate());
                }
                (room, boost) = (config.mark_bytes(), config.boost());
                (fair, queues) = (u8::from(program.is_fair()), program.queues() as u8);
                shape = self.shape(program, maps)?;
                rules = self.rules(plan.rules(), program, maps)?;
                (layout::PHANTOM, config.queue())
            }
            LimiterConfig::FairPolicer(config) => {
                shape = BESIDE_SHAPE;
                (layout::BESIDE, config.burst())
            }
            LimiterConfig::Shaper(config) => {
                let program = config.program();
                shape = BESIDE_SHAPE;
                queues = program.queues() as u8;
                rules = self.rules(plan.rules(), program, maps)?;
                (layout::BESIDE, config.queue_bytes().unwrap_or(u64::MAX))
            }
            other => unreachable!("no plan has the limiter {}", other.scheme()),
        };
        let rate = plan.limiter().rate();
        let grain = Hierarchy::grain(rate.unwrap_or(*Rate::LIMITABLE.end()));
        let mark = match plan.excess() {
            Excess::Drop => NONE as u8,
            Excess::Mark(dscp) => dscp,
            Excess::Count => layout::COUNTED as u8,
        };
        let class = plan.unmatched();
        let record = Record::new(plan::SIZE_OF)
            .with(plan::RATE, rate.map_or(0, Rate::bits_per_second))
            .with(plan::DIRECT, rate.map_or(u64::MAX, Meter::longest_step))
            .with(plan::SIZE, size)
            .with(plan::PERIOD, period)
            .with(plan::UPPER, upper)
            .with(plan::LOWER, lower)
            .with(plan::SHAPE, shape)
            .with(plan::RULES, rules)
            .with(plan::SCHEME, scheme as u8)
            .with(plan::FAIR, fair)
            .with(plan::CONTROL, control)
            .with(plan::MARK, mark)
            .with(plan::FIRST, class.first as u8)
            .with(plan::QUEUES, class.queues as u8)
            .with(plan::HOSTS, class.hosts as u8)
            .with(plan::ALL, queues)
            .with(plan::ROOM, room)
            .with(plan::NODE, plan.node() as u16)
            .with(plan::GRAIN, grain as u8)
            .with(plan::BOOST, boost);
        Ok(record.into_bytes())
    }

    fn shape(&mut self, program: &Program, maps: &dyn Maps) -> Result<u32, MapsError> {
        self.shapes.put(write_shape(program), maps)
    }

    fn rules(
        &mut self,
        written: &[Rule],
        program: &Program,
        maps: &dyn Maps,
    ) -> Result<u32, MapsError> {
        if written.is_empty() {
            return Ok(0);
        }
        let mut record = Record::new(rules::SIZE_OF);
        record.set(rules::COUNT, written.len() as u32);
        for (index, rule) in written.iter().enumerate() {
            write_rule(&mut record, index, rule, program);
        }
        self.rules.put(record.into_bytes(), maps)
    }
}

fn write_rule(record: &mut Record, index: usize, rule: &Rule, program: &Program) {
    let prefix = |prefix: &Prefix| {
        let mask = Prefix::mask(prefix.bits());
        (network_words(prefix.address()), network_words(mask))
    };
    let (source, source_mask) = prefix(&rule.source);
    let (destination, destination_mask) = prefix(&rule.destination);
    let all = |ports: &RangeInclusive<u16>| *ports == (0..=u16::MAX);
    let ports = !all(&rule.source_ports) || !all(&rule.destination_ports);
    let protocol = rule.protocol.map_or(ANY_PROTOCOL as u16, u16::from);
    let class = program.classes()[usize::from(rule.class)];
    let at = rules::RULE;
    record.set(rule::SOURCE.within(at, index), source);
    record.set(rule::SOURCE_MASK.within(at, index), source_mask);
    record.set(rule::DESTINATION.within(at, index), destination);
    record.set(rule::DESTINATION_MASK.within(at, index), destination_mask);
    record.set(rule::DSCP.within(at, index), rule.dscp.bits());
    // No port fits an empty range.
    record.set(
        rule::SOURCE_LOW.within(at, index),
        *rule.source_ports.start(),
    );
    record.set(
        rule::SOURCE_HIGH.within(at, index),
        *rule.source_ports.end(),
    );
    record.set(
        rule::DESTINATION_LOW.within(at, index),
        *rule.destination_ports.start(),
    );
    record.set(
        rule::DESTINATION_HIGH.within(at, index),
        *rule.destination_ports.end(),
    );
    record.set(rule::PROTOCOL.within(at, index), protocol);
    record.set(rule::PORTS.within(at, index), u8::from(ports));
    record.set(rule::FIRST.within(at, index), class.first as u8);
    record.set(rule::QUEUES.within(at, index), class.queues as u8);
    record.set(rule::HOSTS.within(at, index), class.hosts as u8);
}

/// `struct shape`, without its number.
fn write_shape(program: &Program) -> Vec<u8> {
    debug_assert!(PolicyTree::MAX_WEIGHT <= u32::from(u16::MAX));
    let nodes = program.nodes();
    // Parts are the sharing nodes, then the queues.
    let part = |node: usize| match nodes[node].kind {
        Kind::Queue(_) => SHARES + usize::from(nodes[node].slot),
        _ => usize::from(nodes[node].slot),
    };
    let (mut priority, mut weighted, mut behind) = (0u32, 0u32, 0u32);
    let (mut before, mut weight, mut parent, mut path) =
        ([0u32; 32], [0u16; 32], [0u8; 32], [0u8; 32]);
    let (mut order, mut first, mut count, mut next) =
        ([0u8; 32], [0u8; 8], [0u8; 8], [NONE as u8; 8]);
    // Parents come before their children, so the nodes above are known.
    for (number, node) in nodes.iter().enumerate() {
        let at = part(number);
        if number > 0 {
            let above = part(usize::from(node.parent));
            parent[at] = above as u8;
            weight[at] = node.weight as u16;
            path[at] = path[above] | 1 << above;
            // Its index among all nodes except the root.
            order[number - 1] = at as u8;
            if nodes[usize::from(node.parent)].kind == Kind::Priority {
                let siblings = usize::from(nodes[usize::from(node.parent)].first)..number;
                before[at] = siblings.map(|sibling| 1 << part(sibling)).sum();
            } else {
                weighted |= 1 << at;
            }
            if before[at] != 0 || behind >> above & 1 == 1 {
                behind |= 1 << at;
            }
        }
        if at < SHARES {
            priority |= u32::from(node.kind == Kind::Priority) << at;
            first[at] = (node.first - 1) as u8;
            count[at] = node.count as u8;
            if at + 1 < program.shares() {
                next[at] = at as u8 + 1;
            }
        }
    }
    let record = Record::new(shape::SIZE_OF)
        .with(shape::PRIORITY, priority)
        .with(shape::WEIGHTED, weighted)
        .with(shape::BEHIND, behind)
        .with(shape::BEFORE, before)
        .with(shape::WEIGHT, weight)
        .with(shape::PARENT, parent)
        .with(shape::PATH, path)
        .with(shape::ORDER, order)
        .with(shape::FIRST, first)
        .with(shape::COUNT, count)
        .with(shape::NEXT, next)
        .with(shape::QUEUES, program.queues() as u32);
    record.into_bytes()
}
