//! The memory that the programs share with us, as in bpf/types.h, byte by byte.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::KernelError;
use crate::table::{Counters, LimiterState, QueueState};

/// Most queues of a policy.
pub(super) const QUEUES: usize = 24;
/// Most sharing nodes of a policy.
pub(super) const SHARES: usize = 5;
pub(super) const MOST_RULES: usize = 32;
/// Most lengths of prefixes in use, of one family in one direction.
pub(super) const LENGTHS: usize = 16;
pub(super) const PLANS: u32 = 1 << 17;
/// Of policies, and of sets of rules.
pub(super) const PLACES: u32 = 1 << 10;
pub(super) const LIMITERS_PER_PAGE: usize = 1 << 10;

const HEAD: usize = 64;
const PART: usize = 64;
/// Where a sharing node has the bits of its active children.
const ACTIVE: usize = 44;
/// Size of a limiter's state.
pub(super) const LIMITER: usize = HEAD + (SHARES + QUEUES) * PART;
pub(super) const PLAN: usize = 64;
pub(super) const SHAPE: usize = 332;
pub(super) const RULE: usize = 88;
pub(super) const RULES: usize = 8 + MOST_RULES * RULE;
pub(super) const SETTINGS: usize = 88 + 16 + 2 * LENGTHS * (8 + 20);

/// Bytes to be written, field after field.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    /// Zeros up to a size.
    pub(super) fn fill(&mut self, size: usize) -> Vec<u8> {
        debug_assert!(self.0.len() <= size);
        self.0.resize(size, 0);
        std::mem::take(&mut self.0)
    }
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

pub(super) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_ne_bytes)
}

/// The plan that a limiter runs under; none before its first packet.
pub(super) fn plan_of(state: &[u8]) -> Option<u32> {
    let version = read_u32(state, 4);
    (version > 0).then(|| read_u32(state, 8))
}

/// How many queues a plan has, as it is in the kernel.
pub(super) fn queues_of(plan: &[u8]) -> usize {
    plan.get(62).copied().map_or(0, usize::from)
}

/// What a limiter counted.
pub(super) fn counters(state: &[u8]) -> Counters {
    Counters {
        passed_packets: read_u64(state, 32),
        passed_bytes: read_u64(state, 40),
        excess_packets: read_u64(state, 48),
        excess_bytes: read_u64(state, 56),
    }
}

/// A limiter with so many queues.
pub(super) fn limiter(state: &[u8], queues: usize) -> LimiterState {
    let active = (0..SHARES).map(|share| read_u32(state, HEAD + share * PART + ACTIVE));
    let active = active.fold(0, |all, share| all | share);
    let queue = |number: usize| {
        let at = HEAD + (SHARES + number) * PART;
        // What is not active may hold the length that it once had.
        let is_active = active >> (SHARES + number) & 1 == 1;
        let length = if is_active { read_u64(state, at) } else { 0 };
        QueueState {
            length,
            magic: read_u64(state, at + 16).min(length),
            passed_bytes: read_u64(state, at + 48),
            excess_bytes: read_u64(state, at + 56),
        }
    };
    LimiterState {
        counters: counters(state),
        queues: (0..queues.min(QUEUES)).map(queue).collect(),
    }
}

/// Packets that no limiter saw, for one reason: they are nobody's, or not in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// Which, as a name of letters and underscores.
    pub reason: &'static str,
    /// How many, on the wire.
    pub packets: u64,
    /// Their bytes, as charged.
    pub bytes: u64,
}

/// In the order of `enum reason`, from its second on.
const REASONS: [&str; 15] = [
    "unknown_ipv4",
    "unknown_ipv6",
    "not_ip",
    "unknown_dropped",
    "short_frame",
    "short_ip",
    "bad_version",
    "bad_header_length",
    "bad_total_length",
    "many_tags",
    "many_extensions",
    "bad_pppoe",
    "no_limiter",
    "no_plan",
    "raced",
];

pub(super) fn strangers(map: &MapHandle) -> Result<Vec<Stranger>, KernelError> {
    let mut all = Vec::with_capacity(REASONS.len());
    for (number, reason) in (1u32..).zip(REASONS) {
        let cpus = map
            .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| KernelError::map("strangers", source))?
            .unwrap_or_default();
        let sum = |at| cpus.iter().map(|cpu| read_u64(cpu, at)).sum();
        all.push(Stranger {
            reason,
            packets: sum(0),
            bytes: sum(8),
        });
    }
    Ok(all)
}
