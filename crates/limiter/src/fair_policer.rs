//! FairPolicer: a token bucket that flows share alike, in both forms that were published.

use std::collections::VecDeque;

use crate::error::{check_rate, check_size};
use crate::{
    ConfigError, Decision, Field, Meter, Nanos, PacketMeta, PolicerConfig, Rate, TokenBucket,
};

mod counters;
#[cfg(test)]
mod tests;
mod water_filling;

pub use water_filling::{WaterFillingConfig, WaterFillingPolicer};

use counters::{Counters, FlowTable, Sketch};

/// Bytes that a flow is given back at a turn, as in the authors' kernel module.
const QUANTUM: u64 = 100;

/// What a [`FairPolicer`] enforces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FairPolicerConfig {
    pub(crate) rate: Rate,
    pub(crate) burst: u64,
    pub(crate) flows: u16,
    /// The seed of the sketch; without one, each flow has an exact counter.
    pub(crate) sketch: Option<u64>,
}

impl FairPolicerConfig {
    /// Flows that are distinguished at a time, unless [`with_flows`](Self::with_flows) says otherwise.
    pub const FLOWS: u16 = 4096;

    /// With an exact counter for each of [`FLOWS`](Self::FLOWS) flows, and a bucket of `burst` bytes.
    ///
    /// # Errors
    /// If the rate is not one of [`Rate::LIMITABLE`], or the bucket has no bytes or more than 2^60.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, ConfigError> {
        check_rate(Field::Rate, rate)?;
        check_size(Field::Burst, burst)?;
        Ok(Self {
            rate,
            burst,
            flows: Self::FLOWS,
            sketch: None,
        })
    }

    /// With another number of flows that are active at a time; packets of further flows are dropped.
    #[must_use]
    pub fn with_flows(self, flows: u16) -> Self {
        Self { flows, ..self }
    }

    /// With a Count-Min sketch of 4 × 1024 counters in place of exact ones, whose hashes depend on
    /// the seed. Flows that share all their counters with others are taken for them: what such a
    /// flow occupies while it is not active may never be given back, which is so in the authors'
    /// module as well.
    #[must_use]
    pub fn with_sketch(self, seed: u64) -> Self {
        let sketch = Some(seed);
        Self { sketch, ..self }
    }

    /// Whether it counts by a sketch.
    pub fn is_sketched(&self) -> bool {
        self.sketch.is_some()
    }

    /// The rate at which tokens arrive.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The bucket's size in bytes.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Twice as many slots as flows, of 16 bytes.
    pub(crate) fn memory(&self) -> usize {
        usize::from(self.flows) * 2 * 16
    }
}

/// FairPolicer as its authors published it (sch_ftbf.c of ants-xjtu/FairPolicer): a token bucket
/// in which a flow that passes a packet occupies as many bytes, and may not occupy more than there
/// are tokens left. Flows that occupy any take turns at being given back a quantum, at the rate of
/// the bucket. Over every interval no more passes than the rate times its length, and the burst.
///
/// The flow is [`PacketMeta::flow`]. No more flows than configured are active at a time:
/// meanwhile packets of others are dropped, until one has been given back all it occupied. (The
/// module's bound is 2000; beyond, it would never give back what further flows occupy.)
///
/// Quanta are given back at packets, for all the time since the last one: after a long pause, up
/// to the burst divided by the quantum, and once for each active flow.
#[derive(Debug, Clone)]
pub struct FairPolicer {
    bucket: TokenBucket,
    /// Tokens that flows get back since the last quantum, and the rest below a quantum.
    given: Meter,
    below_quantum: u64,
    /// The flows that hold tokens, in their turn.
    active: VecDeque<u32>,
    most_active: usize,
    occupied: Counters,
}

impl FairPolicer {
    /// A full bucket, which no flow occupies.
    pub fn new(config: &FairPolicerConfig, now: Nanos) -> Self {
        let counters = match config.sketch {
            None => Counters::Exact(FlowTable::new(config.flows)),
            Some(seed) => Counters::Sketch(Sketch::new(seed)),
        };
        Self::counting(config, counters, now)
    }

    fn counting(config: &FairPolicerConfig, occupied: Counters, now: Nanos) -> Self {
        let FairPolicerConfig { rate, burst, .. } = *config;
        Self {
            bucket: TokenBucket::new(&PolicerConfig { rate, burst }, now),
            given: Meter::new(rate, now),
            below_quantum: 0,
            active: VecDeque::with_capacity(config.flows.into()),
            most_active: config.flows.into(),
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
        let mut turns = bytes / QUANTUM;
        if let Counters::Exact(_) = self.occupied {
            turns -= self.whole_rounds(turns);
        }
        for _ in 0..turns {
            if !self.give_quantum() {
                break;
            }
        }
        if self.active.is_empty() {
            self.below_quantum = 0;
            self.given.forget();
        }
    }

    /// Gives a quantum back to the flow whose turn it is. Returns whether there is one.
    #[inline]
    fn give_quantum(&mut self) -> bool {
        let Some(flow) = self.active.pop_front() else {
            return false;
        };
        let occupied = self.occupied.of(flow);
        self.occupied.subtract(flow, occupied.min(QUANTUM));
        if occupied > QUANTUM {
            self.active.push_back(flow);
        }
        true
    }

    /// Makes whole rounds of turns at once, as long as no flow has its last turn in them: after a rest there may be millions of turns,
    /// but only a few rounds for each flow. Returns the number of turns. The rest are fewer than rounds that this could make.
    fn whole_rounds(&mut self, turns: u64) -> u64 {
        let mut made = 0;
        loop {
            let flows = self.active.len() as u64;
            if flows == 0 || (turns - made) / flows < 8 {
                return made;
            }
            let least = self.active.iter().map(|&flow| self.occupied.of(flow));
            let ends = least.min().unwrap_or(0).saturating_sub(1) / QUANTUM;
            // One more round is made below.
            let rounds = ends.min((turns - made) / flows - 1);
            for at in 0..self.active.len() {
                self.occupied.subtract(self.active[at], rounds * QUANTUM);
            }
            made += rounds * flows;
            // The next round ends the least flow.
            for _ in 0..flows {
                self.give_quantum();
            }
            made += flows;
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

    /// Tokens that are missing from the bucket at a time, before a packet that may come then.
    pub(crate) fn missing(&self, now: Nanos) -> u64 {
        self.bucket.clone().missing(now)
    }

    /// Another rate and bucket from now on, with the tokens that there are, as far as the bucket has room for them, and for the
    /// same number of flows.
    pub fn adopt(&mut self, now: Nanos, config: &FairPolicerConfig) {
        self.set_rate(now, config.rate);
        self.bucket.set_burst(config.burst);
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.give_back(now);
        self.given.set_rate(rate);
        self.bucket.set_rate(now, rate);
    }
}
