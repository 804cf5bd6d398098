//! Capacities that subscribers share: an access point, the site that it hangs on, the backhaul of the site.
//!
//! No packet waits for a node of the network, and no lock is taken for each packet there. A node counts the bytes that
//! pass, and publishes one number: the share of their rate that all limiters below may use, see [`Share`]. From time
//! to time it compares the count with its capacity, and moves the share towards what would just fill it. The rule is
//! that of core-stateless fair queueing for the fair share of a link (Stoica, Shenker and Zhang, SIGCOMM 1998, §3),
//! with a debt beside it: what passed beyond the capacity is taken off what may pass later, so that errors do not add
//! up. Where no limiter uses all of its share, a smaller one would change nothing at first. So limiters tell which part of
//! their rate they use, and the share of an overloaded node falls to the largest part at once.
//!
//! A limiter uses the least share of the nodes above it. So every subscriber of a full node has the same part of its
//! rate, unless it wants less or another node allows it less: the rates are those of weighted max-min fairness, with
//! the rate of the plan as the weight.

use std::fmt;

use crate::error::check_rate;
use crate::{ConfigError, Field, Nanos, Rate};

#[cfg(test)]
mod tests;

/// A part of a rate, in steps of 2^-20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

const BITS: u32 = 20;

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self(1 << BITS);

    /// A number of steps of 2^-20. More than all count as all.
    pub const fn from_parts(parts: u32) -> Self {
        match parts < Self::WHOLE.0 {
            true => Self(parts),
            false => Self::WHOLE,
        }
    }

    /// The share that is nearest to this part of all, 0 to 1.
    pub fn from_ratio(ratio: f64) -> Self {
        Self::from_parts((ratio * f64::from(Self::WHOLE.0)).round() as u32)
    }

    /// The steps of a part of a number, which is 2^43 at most; all of them if it exceeds the number.
    pub(crate) fn part(part: u64, number: u64) -> u32 {
        let steps = (part.min(MOST_LOAD) << BITS) / number.max(1);
        steps.min(Self::WHOLE.0.into()) as u32
    }

    /// This share of a number, rounded down.
    pub const fn of(self, number: u64) -> u64 {
        let (share, below) = (self.0 as u64, (1 << BITS) - 1);
        (number >> BITS) * share + (((number & below) * share) >> BITS)
    }

    /// This share of a rate, at least 1 bit/s.
    pub const fn rate(self, rate: Rate) -> Rate {
        let bits = self.of(rate.bits_per_second());
        Rate::from_bits_per_second(if bits == 0 { 1 } else { bits })
    }

    /// The share as a number from 0 to 1.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.ratio() * 100.0)
    }
}

/// A node of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkNode {
    /// What all subscribers below may send together.
    pub capacity: Rate,
    /// The index of the node above it.
    pub above: Option<usize>,
}

/// Why nodes make no hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HierarchyError {
    /// A capacity that is not one of [`Rate::LIMITABLE`].
    #[error(transparent)]
    Capacity(#[from] ConfigError),
    /// The node above is not there, or the way up does not end within [`Hierarchy::LEVELS`].
    #[error("node {0} has no way up of at most {most} nodes", most = Hierarchy::LEVELS)]
    Above(usize),
}

/// The nodes of a network in one direction.
///
/// ```
/// use tidegate_limiter::{Hierarchy, NetworkNode, Share};
/// let site = NetworkNode { capacity: "100mbit".parse()?, above: None };
/// let access_point = NetworkNode { capacity: "30mbit".parse()?, above: Some(0) };
/// let mut network = Hierarchy::new(&[site, access_point])?;
/// assert_eq!(network.share(1, 0), Share::WHOLE);
/// // In 100 ms, twice as much passes as the access point can carry.
/// network.count(1, 750_000);
/// assert!(network.share(1, 100_000_000) < Share::WHOLE);
/// assert_eq!(network.share(0, 100_000_000), Share::WHOLE);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Hierarchy {
    nodes: Vec<State>,
}

/// What a node knows.
#[derive(Debug, Clone)]
struct State {
    capacity: u64,
    above: Option<usize>,
    share: Share,
    /// When the count is compared with the capacity next, and when it was last.
    due: Nanos,
    at: Nanos,
    /// Bytes that passed so far, and until the last look.
    passed: u64,
    before: u64,
    /// Bytes that passed beyond the capacity and were not made up for.
    debt: u64,
    /// Looks in a row that found more than the capacity, and the most of its rate that any limiter used meanwhile, in
    /// steps of a share.
    over: u32,
    most: u32,
}

/// The time between two looks.
const LOOK: Nanos = 50_000_000;
/// The longest time that counts between two looks.
const SECOND: Nanos = 1_000_000_000;
/// The largest debt, in parts of a second: what is beyond it was lost behind the node, whose buffers are no larger.
const MOST_DEBT: u64 = 4;
/// The part of a debt that is taken off the next interval.
const REPAID: u64 = 8;
/// A share grows by this part at most from one look to the next.
const GROWTH: u32 = 8;
/// Looks in a row that find more than the capacity. After them, every limiter has told which part of its rate it uses.
const TOLD: u32 = 3;
/// Of the way to the share that would have filled the node exactly, up to this many sixteenths of the share, an eighth is
/// gone at a look.
const NEAR: u64 = 3;
const GENTLE: u64 = 8;
/// Most bytes that count between two looks.
const MOST_LOAD: u64 = 1 << 43;
/// A limiter counts at least this often in an interval, at its rate.
const COUNTS: u64 = 16;
/// Most bytes that it counts at once, as a power of two.
const MOST_GRAIN: u32 = 13;

impl Hierarchy {
    /// Most nodes between a subscriber and the network.
    pub const LEVELS: usize = 8;

    /// Nodes that have seen no packet.
    ///
    /// # Errors
    /// If a capacity is not one of [`Rate::LIMITABLE`], or a way up does not end.
    pub fn new(nodes: &[NetworkNode]) -> Result<Self, HierarchyError> {
        for (index, node) in nodes.iter().enumerate() {
            check_rate(Field::Rate, node.capacity)?;
            let mut above = Some(index);
            for _ in 0..Self::LEVELS {
                let node = |index: usize| nodes.get(index).ok_or(HierarchyError::Above(index));
                above = above.map(node).transpose()?.and_then(|node| node.above);
            }
            if above.is_some() {
                return Err(HierarchyError::Above(index));
            }
        }
        let state = |node: &NetworkNode| State {
            capacity: node.capacity.bits_per_second(),
            above: node.above,
            share: Share::WHOLE,
            due: 0,
            at: 0,
            passed: 0,
            before: 0,
            debt: 0,
            over: 0,
            most: 0,
        };
        Ok(Self {
            nodes: nodes.iter().map(state).collect(),
        })
    }

    /// The share of its rate that a limiter below this node may use now.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline]
    pub fn share(&mut self, node: usize, now: Nanos) -> Share {
        let (mut share, mut next) = (Share::WHOLE, Some(node));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            if now >= node.due {
                node.look(now);
            }
            share = share.min(node.share);
            next = node.above;
        }
        share
    }

    /// Counts bytes that passed below a node.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline]
    pub fn count(&mut self, node: usize, bytes: u64) {
        let mut next = Some(node);
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            node.passed = node.passed.wrapping_add(bytes);
            next = node.above;
        }
    }

    /// Tells the nodes above a limiter which part of its rate it used lately. One that cannot say uses all of it.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline]
    pub fn tell(&mut self, node: usize, used: Share) {
        let mut next = Some(node);
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            node.most = node.most.max(used.0);
            next = node.above;
        }
    }

    /// The grain in which a limiter of this rate counts, as a power of two. It does not count each packet, which would
    /// have all cores write to the same memory: [`counted`](Self::counted) says when, and how much.
    pub fn grain(rate: Rate) -> u32 {
        let bytes = rate.bits_per_second() / 8 / (SECOND / LOOK) / COUNTS;
        bytes.max(1).ilog2().min(MOST_GRAIN)
    }

    /// What a limiter counts at its nodes when the bytes that it let pass so far rise from one number to another. Limiters
    /// should begin with different numbers, so that they do not count at the same moments.
    pub const fn counted(before: u64, after: u64, grain: u32) -> u64 {
        (after >> grain).wrapping_sub(before >> grain) << grain
    }
}

impl State {
    /// Compares what passed with the capacity, and moves the share.
    #[cold]
    fn look(&mut self, now: Nanos) {
        let (elapsed, load) = (now - self.at, self.passed.wrapping_sub(self.before));
        let is_first = self.due == 0;
        self.at = now;
        self.due = now.saturating_add(LOOK);
        self.before = self.passed;
        if is_first {
            return;
        }
        let rate = self.capacity / 8;
        let capacity = rate * (elapsed.min(SECOND) / 1000) / 1_000_000;
        let load = load.min(MOST_LOAD);
        self.debt = (self.debt + load)
            .saturating_sub(capacity)
            .min(rate / MOST_DEBT);
        self.over = if load > capacity { self.over + 1 } else { 0 };
        if self.over >= TOLD && self.most > 0 {
            // A share that nobody uses up limits nobody.
            self.share = self.share.min(Share(self.most));
        }
        if self.over == 0 || self.over >= TOLD {
            (self.over, self.most) = (0, 0);
        }
        let target = capacity - (self.debt / REPAID).min(capacity / 4);
        let share = u64::from(self.share.0);
        let wanted = share * target / load.max(1);
        let (gap, near) = (wanted.abs_diff(share), share * NEAR / 16);
        // Limiters answer late: bursts pass first, and TCP needs round trips. If all of a small gap were closed at once,
        // the share would swing.
        let step = gap.min(near).div_ceil(GENTLE) + gap.saturating_sub(near) / 2;
        let wanted = if wanted > share {
            share + step
        } else {
            share - step
        };
        let most = (self.share.0 + self.share.0 / GROWTH + 1).min(Share::WHOLE.0);
        self.share = Share(wanted.clamp(1, most.into()) as u32);
    }
}
