//! The memory that the programs share with user space, by the names of bpf/types.h.

pub(crate) use super::record::{Array, Field, Record, network_words};
use crate::config::Config;
use crate::path::Remembered;
use crate::state::Plans;
use crate::table::{Counters, LimiterState, QueueState};
use crate::{limits, table};

#[cfg(test)]
mod tests;

pub(crate) use generated::*;

/// The code that `build/layout.rs` generated from bpf/types.h.
#[allow(dead_code, unused_imports)]
mod generated {
    use super::{Array, Field};
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

// The bounds that user space checks without a kernel are the sizes of the programs.
const _: () = {
    assert!(table::ROOM.queues == QUEUES && table::ROOM.shares == SHARES);
    assert!(table::MAX_RULES == RULES && limits::MAX_LENGTHS == LENGTHS);
    assert!(limits::MAX_PREFIXES == PREFIXES && limits::MAX_TAGS == LINKS);
    assert!(Plans::MOST as usize == PLANS && 2 * Config::MAX_SUBSCRIBERS <= PAGES * PAGE);
};

/// The plan of a limiter; `None` before its first packet.
pub(crate) fn plan_of(state: &[u8]) -> Option<u32> {
    (limiter::VERSION.of(state) > 0).then(|| limiter::PLAN.of(state))
}

/// What a limiter with this memory knows, for the other gate of a pair; `None` before its first packet.
pub(crate) fn remembered(limiter: u32, state: &[u8]) -> Option<Remembered> {
    plan_of(state).map(|_| Remembered {
        limiter,
        version: limiter::VERSION.of(state),
        at: latest(state),
        state: state.to_vec(),
    })
}

/// The number of queues of an encoded plan.
pub(crate) fn queues_of(plan: &[u8]) -> usize {
    plan::ALL.of(plan).into()
}

/// The counters of a limiter.
pub(crate) fn counters(state: &[u8]) -> Counters {
    Counters {
        passed_packets: limiter::PASSED_PACKETS.of(state),
        passed_bytes: limiter::PASSED_BYTES.of(state),
        excess_packets: limiter::EXCESS_PACKETS.of(state),
        excess_bytes: limiter::EXCESS_BYTES.of(state),
        marked_packets: limiter::MARKED_PACKETS.of(state),
    }
}

/// The time of a limiter's latest packet.
pub(crate) fn latest(state: &[u8]) -> u64 {
    limiter::AT.of(state)
}

/// The memory of a limiter that goes on where `other` is, a limiter of equal limits of another gate that had its latest packet
/// at this time: under a plan with this number, version and record, and with the counters of `own`. `None` if `own` had
/// a later packet, or the other one is none.
pub(crate) fn carried(
    own: &[u8],
    other: &[u8],
    (number, version): (u32, u32),
    plan: &[u8],
    at: u64,
) -> Option<Vec<u8>> {
    let is_later = plan_of(own).is_none() || latest(own) < at;
    // What a shaper holds is elsewhere.
    let is_beside = usize::from(plan::SCHEME.of(plan)) == BESIDE;
    if other.len() != limiter::SIZE_OF || plan_of(other).is_none() || !is_later || is_beside {
        return None;
    }
    let mut new = Record::from(other.to_vec());
    let shift = at.wrapping_sub(latest(other));
    let later = |time: u64| match time {
        0 | u64::MAX => time,
        time => time.wrapping_add(shift),
    };
    new.set(limiter::VERSION, version);
    new.set(limiter::PLAN, number);
    new.set(limiter::SHAPE, plan::SHAPE.of(plan));
    new.set(limiter::RATE, plan::RATE.of(plan));
    new.set(limiter::SIZE, plan::SIZE.of(plan));
    new.set(limiter::CONTROL, plan::CONTROL.of(plan).into());
    new.set(limiter::BOOST, plan::BOOST.of(plan));
    new.set(limiter::AT, at);
    new.set(limiter::DUE, later(limiter::DUE.of(other)));
    let counters = [
        limiter::PASSED_PACKETS,
        limiter::PASSED_BYTES,
        limiter::EXCESS_PACKETS,
        limiter::EXCESS_BYTES,
        limiter::MARKED_PACKETS,
    ];
    for counter in counters {
        new.set(counter, counter.of(own));
    }
    // The surplus is the difference of the two.
    let surplus = limiter::PASSED_BYTES
        .of(other)
        .wrapping_sub(limiter::BASE.of(other));
    new.set(
        limiter::BASE,
        limiter::PASSED_BYTES.of(own).wrapping_sub(surplus),
    );
    let paper = usize::from(plan::CONTROL.of(plan)) == PAPER;
    let few = queues_of(plan) <= FEW;
    for queue in 0..QUEUES {
        let at = |field: Field<u64>| field.within(limiter::QUEUES, queue);
        if few && queue >= FEW {
            // What is known of floods begins again: generations are times of the other gate's clock.
            for word in 0..queue::SIZE_OF / 8 {
                new.set(at(Field::at(8 * word)), 0);
            }
            continue;
        }
        for counter in [queue::PASSED, queue::EXCESS] {
            new.set(at(counter), at(counter).of(own));
        }
        if paper {
            new.set(at(queue::BEGAN), later(at(queue::BEGAN).of(other)));
        }
    }
    Some(new.into_bytes())
}

/// Bytes of a boost that are saved at a time, in nanoseconds of the clock of packets. Since the latest packet the rate served
/// what was in the queues, and what is left of it was saved, as `boosted` of bpf/phantom.h does at the next packet.
fn saved(state: &[u8], now: u64) -> Option<u64> {
    let boost = limiter::BOOST.of(state);
    if plan_of(state).is_none() || boost == 0 {
        return None;
    }
    let elapsed = u128::from(now.saturating_sub(latest(state)));
    let bytes = u128::from(limiter::RATE.of(state)) * elapsed / 8_000_000_000;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let waits = share::LENGTH.within(limiter::SHARES, 0).of(state);
    let saved = limiter::SAVED.of(state);
    let left = saved.saturating_sub(waits.saturating_sub(bytes));
    Some(left.saturating_add(bytes.saturating_sub(waits)).min(boost))
}

/// A limiter with this number of queues, at a time of the clock of packets.
pub(crate) fn limiter(state: &[u8], queues: usize, now: u64) -> LimiterState {
    let active = (0..SHARES).map(|number| share::ACTIVE.within(limiter::SHARES, number).of(state));
    let active = active.fold(0, |all, active| all | active);
    let queue = |number: usize| {
        let value = |field: Field<u64>| field.within(limiter::QUEUES, number).of(state);
        // A queue that is not active may hold the length that it once had.
        let is_active = active >> (SHARES + number) & 1 == 1;
        let length = if is_active { value(queue::LENGTH) } else { 0 };
        QueueState {
            length,
            magic: value(queue::MAGIC).min(length),
            passed_bytes: value(queue::PASSED),
            excess_bytes: value(queue::EXCESS),
        }
    };
    LimiterState {
        counters: counters(state),
        queues: (0..queues.min(QUEUES)).map(queue).collect(),
        saved: saved(state, now),
    }
}

/// Packets that no limiter saw, for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// The reason, in small letters and underscores.
    pub reason: &'static str,
    /// Number of packets, counted as on the wire.
    pub packets: u64,
    /// Their bytes, as they are charged.
    pub bytes: u64,
}

/// What packets that no limiter saw were counted as. `sum` gives the sums of packets and bytes by the number of
/// a reason.
pub(crate) fn strangers<E>(
    mut sum: impl FnMut(u32) -> Result<(u64, u64), E>,
) -> Result<Vec<Stranger>, E> {
    // The first name means that there is nothing to count, and the last one is their number.
    let reasons = REASON_NAMES.into_iter().enumerate().take(REASONS).skip(1);
    reasons
        .map(|(number, reason)| {
            let (packets, bytes) = sum(number as u32)?;
            Ok(Stranger {
                reason,
                packets,
                bytes,
            })
        })
        .collect()
}
