//! What a data path holds, numbered and checked: the meeting point of configuration and kernel.
//!
//! A limiter is the state of one subscriber in one direction. It is found by what tells the
//! subscriber's packets (a [`Match`]), runs under a [`Plan`] that many may share, and keeps its state
//! as long as it keeps its number.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};
use tidegate_limiter::{HashKey, LimiterConfig, Prefix, Program, Rule};

/// Of the traffic of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the subscriber: its addresses are destinations.
    Down,
    /// From the subscriber: its addresses are sources.
    Up,
}

impl Direction {
    /// Both, in the order in which files and maps hold them.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// The direction in tables, labels, files and JSON: `down` or `up`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// A value for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PerDirection<T> {
    /// To the subscriber.
    pub down: T,
    /// From the subscriber.
    pub up: T,
}

impl<T> PerDirection<T> {
    /// The value that `make` gives for each direction.
    pub fn new(mut make: impl FnMut(Direction) -> T) -> Self {
        Self {
            down: make(Direction::Down),
            up: make(Direction::Up),
        }
    }

    /// Both values with their directions, down first.
    pub fn iter(&self) -> impl Iterator<Item = (Direction, &T)> {
        [(Direction::Down, &self.down), (Direction::Up, &self.up)].into_iter()
    }
}

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;

    fn index(&self, direction: Direction) -> &T {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}

impl<T> IndexMut<Direction> for PerDirection<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Down => &mut self.down,
            Direction::Up => &mut self.up,
        }
    }
}

/// What tells a subscriber's packets from others'. Tags count before addresses, PPPoE before QinQ
/// before VLAN, longer prefixes before shorter ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// Its addresses.
    Prefix(Prefix),
    /// One VLAN tag, and no other.
    Vlan(u16),
    /// Two VLAN tags.
    QinQ {
        /// The service provider's.
        outer: u16,
        /// The customer's.
        inner: u16,
    },
    /// A PPPoE session, on whatever VLAN.
    Pppoe(u16),
}

/// Where a subscriber's packets of one direction are led: all of its matches to the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seat {
    /// The limiter's number.
    pub limiter: u32,
    /// The number of the plan that it runs under.
    pub plan: u32,
    /// A limiter follows the newest of the seats that name it; newer ones have larger numbers, which
    /// wrap.
    pub version: u32,
}

/// What becomes of a packet beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It is dropped.
    Drop,
    /// It goes on with this code point (0 to 63).
    Mark(u8),
}

/// How the traffic of one or many subscribers is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The limiter: none, a policer or phantom queues.
    pub limiter: LimiterConfig,
    /// The first one that fits gives a packet's class.
    pub rules: Vec<Rule>,
    /// The class of packets that no rule fits; the last one if not given.
    pub default_class: Option<u16>,
    /// What becomes of packets beyond it.
    pub excess: Excess,
}

impl Plan {
    /// Number of its queues; 1 without a policy.
    pub fn queues(&self) -> usize {
        self.limiter.program().map_or(1, Program::queues)
    }
}

/// What the bytes of a packet are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// From the IP header on (3), or with the link layer's header and tags (2).
    pub layer: u8,
    /// Added for each packet on the wire: preamble, checksum, ATM … May be negative.
    pub overhead: i16,
}

/// What becomes of packets that are no subscriber's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// They pass.
    Pass,
    /// They are dropped; what is not IP (ARP, spanning tree …) passes, and so does IPv6 neighbour
    /// discovery.
    Drop,
}

/// What holds for all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What is charged.
    pub accounting: Accounting,
    /// Packets of nobody.
    pub unknown: Unknown,
    /// Secret of the flow hash.
    pub hash: HashKey,
}

/// Where packets are taken from an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// tc (tcx where the kernel has it, clsact otherwise), packets that come in.
    TcIngress,
    /// tc, packets that go out.
    TcEgress,
    /// XDP in the driver; packets that come in.
    XdpNative,
    /// XDP after the driver; packets that come in.
    XdpGeneric,
}

impl Hook {
    /// The hook in tables, labels, files and JSON, such as `tc-ingress`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcIngress => "tc-ingress",
            Self::TcEgress => "tc-egress",
            Self::XdpNative => "xdp-native",
            Self::XdpGeneric => "xdp-generic",
        }
    }
}

/// A place where packets pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attachment {
    /// The interface's name.
    pub interface: String,
    /// Where on it.
    pub hook: Hook,
    /// Whose packets pass there: with [`Direction::Down`] those to subscribers.
    pub direction: Direction,
}

/// What a limiter has counted since it came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that passed, on the wire (a super-packet is several).
    pub passed_packets: u64,
    /// Their bytes, as charged.
    pub passed_bytes: u64,
    /// Packets beyond the limit, dropped or marked.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
}

impl Counters {
    /// The sum of two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }

    /// What was counted since an earlier count. A counter that fell was reset, and all of it came
    /// since.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.zip(earlier, |now, before| {
            now.checked_sub(before).unwrap_or(now)
        })
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            passed_packets: with(self.passed_packets, other.passed_packets),
            passed_bytes: with(self.passed_bytes, other.passed_bytes),
            excess_packets: with(self.excess_packets, other.excess_packets),
            excess_bytes: with(self.excess_bytes, other.excess_bytes),
        }
    }
}

/// A phantom queue, as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueState {
    /// Bytes in it.
    pub length: u64,
    /// Of these, magic ones.
    pub magic: u64,
    /// Bytes that passed through it since the limiter came to be.
    pub passed_bytes: u64,
    /// Bytes beyond the limit.
    pub excess_bytes: u64,
}

/// A limiter, as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimiterState {
    /// What it counted.
    pub counters: Counters,
    /// Its queues, as many as its plan has.
    pub queues: Vec<QueueState>,
}
