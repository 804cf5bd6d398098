//! FairPolicer: a token bucket that flows share alike, in both forms that were published.

use std::collections::VecDeque;

use crate::{Decision, Meter, Nanos, PacketMeta, Rate, TokenBucket};

mod counters;
#[cfg(test)]
mod tests;
mod water_filling;

pub use water_filling::WaterFillingPolicer;

use counters::{Counters, FlowTable, Sketch};

/// Bytes that a flow is given back at a turn, as in the authors' kernel module.
const QUANTUM: u64 = 100;

/// FairPolicer as its authors published it (sch_ftbf.c of ants-xjtu/FairPolicer): a token bucket
/// in which a flow that passes a packet occupies as many bytes, and may not occupy more than there
/// are tokens left. Flows that occupy any take turns at being given back a quantum, at the rate of
/// the bucket. Over every interval no more passes than the rate times its length, and the burst.
///
/// The flow is [`PacketMeta::flow`]. No more flows than given at first are active at a time:
/// meanwhile packets of others are dropped, until one has been given back all it occupied. (The
/// module's bound is 2000; beyond, it would never give back what further flows occupy.)
///
/// Quanta are given back at packets, for all the time since the last one: after a long pause, up
/// to the burst divided by the quantum, and once for each active flow.
#[derive(Debug, Clone)]
pub struct FairPolicer {
    bucket: TokenBucket,
    /// What there is to be given back since the last quantum, and below it.
    given: Meter,
    below_quantum: u64,
    /// The flows that occupy any, by turns.
    active: VecDeque<u32>,
    most_active: usize,
    occupied: Counters,
}

impl FairPolicer {
    /// With a counter for each active flow, of which there are at most so many; `burst` in bytes.
    pub fn exact(rate: Rate, burst: u64, flows: u16, now: Nanos) -> Self {
        Self::new(
            rate,
            burst,
            flows,
            now,
            Counters::Exact(FlowTable::new(flows)),
        )
    }

    /// With a Count-Min sketch of 4 × 1024 counters, whose hashes depend on the seed. Flows that
    /// share all their counters with others are taken for them: what such a flow occupies while it
    /// is not active may never be given back, which is so in the authors' module as well.
    pub fn sketched(rate: Rate, burst: u64, flows: u16, seed: u64, now: Nanos) -> Self {
        Self::new(rate, burst, flows, now, Counters::Sketch(Sketch::new(seed)))
    }

    fn new(rate: Rate, burst: u64, flows: u16, now: Nanos, occupied: Counters) -> Self {
        Self {
            bucket: TokenBucket::new(rate, burst, now),
            given: Meter::new(rate, now),
            below_quantum: 0,
            active: VecDeque::with_capacity(flows.into()),
            most_active: flows.into(),
            occupied,
        }
    }

    /// Passes the packet or drops it.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        self.give_back(now);
        // The authors keep the time of the last packet that passed, and count tokens from there;
        // without a remainder lost, counting at every packet comes to the same.
        self.bucket.refill(now);
        let occupied = self.occupied.of(packet.flow);
        if occupied > self.bucket.tokens()
            || (occupied == 0 && self.active.len() == self.most_active)
            || !self.bucket.take(packet.bytes)
        {
            return Decision::Drop;
        }
        if occupied == 0 {
            self.active.push_back(packet.flow);
        }
        self.occupied.add(packet.flow, packet.bytes.into());
        Decision::Pass
    }

    /// As many quanta as the time since the last one comes to, each to the flow whose turn it is.
    #[inline]
    fn give_back(&mut self, now: Nanos) {
        let bytes = self.given.advance(now).saturating_add(self.below_quantum);
        self.below_quantum = bytes % QUANTUM;
        for _ in 0..bytes / QUANTUM {
            let Some(flow) = self.active.pop_front() else {
                break;
            };
            let occupied = self.occupied.of(flow);
            self.occupied.subtract(flow, occupied.min(QUANTUM));
            if occupied > QUANTUM {
                self.active.push_back(flow);
            }
        }
        if self.active.is_empty() {
            self.below_quantum = 0;
            self.given.forget();
        }
    }

    /// Flows that occupy any of the bucket, as of the last packet.
    pub fn active(&self) -> usize {
        self.active.len()
    }

    /// Bytes that could pass at once, if of a flow that is not active, as of the last packet.
    pub fn tokens(&self) -> u64 {
        self.bucket.tokens()
    }

    /// The same at a time, before a packet that may come then.
    pub fn tokens_at(&self, now: Nanos) -> u64 {
        let mut bucket = self.bucket.clone();
        bucket.refill(now);
        bucket.tokens()
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.give_back(now);
        self.given.set_rate(rate);
        self.bucket.set_rate(now, rate);
    }
}
