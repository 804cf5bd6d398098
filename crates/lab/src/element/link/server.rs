//! When a link has sent a packet.

use tidegate_limiter::{Nanos, Rate};

use crate::capacity::{Capacity, Steps, TRACED, Trace};
use crate::packet::ETHERNET_HEADER;

/// Bit-nanoseconds of a byte.
const BYTE: u128 = 8_000_000_000;
/// Bytes of frames that may leave at a time of a trace.
const OPPORTUNITY: u64 = (TRACED + ETHERNET_HEADER) as u64;

/// A capacity, and the part of it that is used.
#[derive(Debug)]
pub(super) enum Server {
    Constant {
        rate: u128,
        /// By how much the last time was rounded up, in bit-nanoseconds: the next packet gets this time.
        ahead: u128,
    },
    Steps {
        steps: Steps,
        ahead: u128,
    },
    /// As Mahimahi's `LinkQueue`: a packet may take several times of the trace, several small ones share one, and
    /// times at which nothing waits are lost.
    Trace {
        trace: Trace,
        /// Number of the next time.
        next: u64,
        /// Bytes left of the last one.
        left: u64,
    },
}

impl Server {
    pub(super) fn constant(rate: Rate) -> Self {
        Self::Constant {
            rate: rate.bits_per_second().into(),
            ahead: 0,
        }
    }

    /// When a frame has been sent that is begun now. `busy`: the one before has just been sent.
    pub(super) fn sent(&mut self, now: Nanos, busy: bool, bytes: u64) -> Nanos {
        match self {
            Self::Constant { rate, ahead } => {
                // Idle until now: nothing to carry over.
                if !busy {
                    *ahead = 0;
                }
                let work = u128::from(bytes) * BYTE;
                let time = work.saturating_sub(*ahead).div_ceil(*rate);
                *ahead = *ahead + time * *rate - work;
                now.saturating_add(Nanos::try_from(time).unwrap_or(Nanos::MAX))
            }
            Self::Steps { steps, ahead } => {
                let carried = if busy { *ahead } else { 0 };
                let work = (u128::from(bytes) * BYTE).saturating_sub(carried);
                let (done, more) = steps.sent(now, work);
                *ahead = more;
                done
            }
            Self::Trace { trace, next, left } => {
                if !busy {
                    (*next, *left) = (trace.first_after(now), 0);
                }
                if bytes <= *left {
                    *left -= bytes;
                    return now;
                }
                let times = (bytes - *left).div_ceil(OPPORTUNITY);
                *left = *left + times * OPPORTUNITY - bytes;
                *next = next.saturating_add(times);
                trace.opportunity(*next - 1)
            }
        }
    }
}

impl From<&Capacity> for Server {
    fn from(capacity: &Capacity) -> Self {
        match capacity {
            Capacity::Steps(steps) => Self::Steps {
                steps: steps.clone(),
                ahead: 0,
            },
            Capacity::Trace(trace) => Self::Trace {
                trace: trace.clone(),
                next: 0,
                left: 0,
            },
        }
    }
}
