//! FairPolicer as the authors of BC-PQP compare with it.

use crate::error::{check_rate, check_size};
use crate::{ConfigError, Decision, Field, Meter, Nanos, PacketMeta, PolicyTree, Rate};

#[cfg(test)]
mod tests;

/// What a [`WaterFillingPolicer`] enforces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaterFillingConfig {
    rate: Rate,
    burst: u64,
    weights: Box<[u32]>,
}

impl WaterFillingConfig {
    /// A queue for each of the weights (1 for all: fair shares), of `burst` bytes in all.
    ///
    /// # Errors
    /// If the rate is not one of [`Rate::LIMITABLE`], the size is 0 or above 2^60 bytes, or the
    /// weights are none of [`PolicyTree::weighted`]: there are none, too many, or one is out of range.
    pub fn new(rate: Rate, burst: u64, weights: &[u32]) -> Result<Self, ConfigError> {
        check_rate(Field::Rate, rate)?;
        check_size(Field::Burst, burst)?;
        let part = |&weight: &u32| (weight, PolicyTree::queue());
        PolicyTree::weighted(weights.iter().map(part).collect()).map_err(ConfigError::Weights)?;
        Ok(Self {
            rate,
            burst,
            weights: weights.into(),
        })
    }

    /// The rate at which tokens arrive.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The size of all queues together in bytes.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// The weight of each queue.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }
}

/// FairPolicer in the form that [BCPQP §6.1, §6.3] measures: at every packet new tokens are poured
/// over the queues that hold any bytes, in proportion to their weights, until tokens or bytes run
/// out; then the packet passes if its queue with it is no larger than what all queues leave of
/// the size. That bound knows no weights, which is why weighted sharing fails [BCPQP §6.3.2].
///
/// The queue is [`PacketMeta::queue`]. Tokens that find all queues empty are kept up to the size,
/// so that over an interval at most the rate times its length and twice the size may pass. What
/// is left of a division by the weights is kept for the next packet.
#[derive(Debug, Clone)]
pub struct WaterFillingPolicer {
    meter: Meter,
    tokens: u64,
    size: u64,
    queues: Box<[Queue]>,
    /// Bytes of all queues.
    held: u64,
    /// The queues that hold any, and the sum of their weights.
    active: Vec<u16>,
    weight: u64,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    bytes: u64,
    weight: u64,
}

impl WaterFillingPolicer {
    /// Empty queues, and tokens for all of their size.
    pub fn new(config: &WaterFillingConfig, now: Nanos) -> Self {
        let queue = |&weight: &u32| Queue {
            bytes: 0,
            weight: weight.into(),
        };
        Self {
            meter: Meter::new(config.rate, now),
            tokens: config.burst,
            size: config.burst,
            queues: config.weights.iter().map(queue).collect(),
            held: 0,
            active: Vec::with_capacity(config.weights.len()),
            weight: 0,
        }
    }

    /// Passes the packet or drops it.
    ///
    /// # Panics
    /// If there is no such queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        self.pour(now);
        let queue = &mut self.queues[usize::from(packet.queue)];
        let bytes = u64::from(packet.bytes);
        if queue.bytes.saturating_add(bytes) > self.size - self.held {
            return Decision::Drop;
        }
        if queue.bytes == 0 && bytes > 0 {
            self.active.push(packet.queue);
            self.weight += queue.weight;
        }
        queue.bytes += bytes;
        self.held += bytes;
        Decision::Pass
    }

    #[inline]
    fn pour(&mut self, now: Nanos) {
        self.tokens = self.tokens.saturating_add(self.meter.advance(now));
        if self.tokens >= self.size {
            self.tokens = self.size;
            self.meter.forget();
        }
        // Each round empties a queue, or is the last.
        while self.weight > 0 && self.tokens >= self.weight {
            let share = self.tokens / self.weight;
            let (queues, tokens) = (&mut self.queues, &mut self.tokens);
            let (held, weight) = (&mut self.held, &mut self.weight);
            self.active.retain(|&number| {
                let queue = &mut queues[usize::from(number)];
                let taken = queue.bytes.min(share * queue.weight);
                queue.bytes -= taken;
                *tokens -= taken;
                *held -= taken;
                if queue.bytes == 0 {
                    *weight -= queue.weight;
                }
                queue.bytes > 0
            });
        }
    }

    /// Bytes that a queue holds, as of the last packet.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn held(&self, queue: u16) -> u64 {
        self.queues[usize::from(queue)].bytes
    }

    /// Bytes that each queue holds at a time, before a packet that may come then. Tokens are poured
    /// over a copy, since to pour them more often would share them otherwise.
    pub fn occupancy(&self, now: Nanos) -> Vec<u64> {
        let mut then = self.clone();
        then.pour(now);
        then.queues.iter().map(|queue| queue.bytes).collect()
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.pour(now);
        self.meter.set_rate(rate);
    }
}
