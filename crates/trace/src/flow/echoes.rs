//! How soon an endpoint echoes the other's timestamps (RFC 7323 §3.2): the round-trip time between
//! the capture and that endpoint, with all that waits on the way.

use std::collections::VecDeque;

use crate::read::Nanos;

/// Timestamps that wait for their echo; a path with more in flight is sampled less often.
const MAX_WAITING: usize = 512;

/// Timestamps on their way to an endpoint.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    waiting: VecDeque<Waiting>,
    last: u32,
    /// The greatest edge of the packets to the endpoint before the first that waits.
    before: Option<u64>,
    /// The least time that one took, and the time that the latest took.
    pub least: Option<Nanos>,
    pub latest: Option<Nanos>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    value: u32,
    at: Nanos,
    told: Told,
    /// The edge that the last packet told before one with another timestamp that waits.
    last_edge: Option<u64>,
}

/// What a packet tells the other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// The stream position that it acknowledged, and what was acknowledged selectively beyond it.
    pub acked: u64,
    /// The stream position up to which its window lets the other end send, where that is known.
    pub edge: Option<u64>,
}

/// A timestamp that came back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Echo {
    /// How long after it had first passed the capture.
    pub after: Nanos,
    /// What the packet that had it told.
    pub told: Told,
    /// The greatest edge of the packets to the endpoint before that one.
    pub before: Option<u64>,
}

impl Echoes {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A packet with this timestamp goes to the endpoint. Of those with the same timestamp the first
    /// counts.
    #[inline]
    pub fn sent(&mut self, value: u32, at: Nanos, told: Told) {
        if value != self.last && self.waiting.len() < MAX_WAITING {
            self.last = value;
            if self.waiting.capacity() == 0 {
                self.waiting.reserve_exact(1);
            }
            self.waiting.push_back(Waiting {
                value,
                at,
                told,
                last_edge: told.edge,
            });
        } else {
            let later = self.waiting.back_mut();
            let edge = later.map_or(&mut self.before, |waiting| &mut waiting.last_edge);
            *edge = told.edge.max(*edge);
        }
    }

    /// The endpoint echoes this timestamp.
    #[inline]
    pub fn echoed(&mut self, value: u32, at: Nanos) -> Option<Echo> {
        while let Some(&first) = self.waiting.front() {
            let later = value.wrapping_sub(first.value) as i32;
            if later < 0 {
                return None;
            }
            self.waiting.pop_front();
            let before = std::mem::replace(&mut self.before, first.last_edge);
            if later == 0 {
                let after = at.checked_sub(first.at)?;
                self.latest = Some(after);
                self.least = Some(self.least.map_or(after, |least| least.min(after)));
                return Some(Echo {
                    after,
                    told: first.told,
                    before,
                });
            }
        }
        None
    }
}
