//! RED, [Floyd93], in the gentle form of its authors' later advice.

use tidegate_limiter::{Nanos, Rate};

use crate::packet::{Fifo, Packet, PacketId, Packets};
use crate::random::Random;

#[cfg(test)]
mod tests;

/// Weight of a new value in the mean queue, [Floyd93 §6].
const WEIGHT: f64 = 0.002;
/// Bytes of the packets that could have been sent in an idle time.
const MEAN_PACKET: u64 = 1000;

/// A queue that drops at random as its mean length grows.
#[derive(Debug, Clone)]
pub struct Red {
    min: f64,
    max: f64,
    probability: f64,
    limit: u64,
    /// Whether packets of senders that know ECN are marked instead of dropped early, RFC 3168 §7.
    ecn: bool,
    /// Time to send a packet of mean length: the step of the mean while idle.
    step: Nanos,
    mean: f64,
    /// Packets since the last drop. The paper begins with −1, which is `None` here.
    count: Option<u32>,
    idle_since: Option<Nanos>,
    random: Random,
    queue: Fifo,
}

impl Red {
    /// An empty queue in front of a link of this rate. Thresholds and limit are bytes.
    pub fn new(
        (min, max): (u64, u64),
        probability: f64,
        limit: u64,
        ecn: bool,
        rate: Rate,
        random: Random,
    ) -> Self {
        let step = MEAN_PACKET * 8 * 1_000_000_000 / rate.bits_per_second().max(1);
        Self {
            min: min as f64,
            max: max as f64,
            probability,
            limit,
            ecn,
            step: step.max(1),
            mean: 0.0,
            count: None,
            idle_since: Some(0),
            random,
            queue: Fifo::default(),
        }
    }

    /// Takes a packet in, or drops it.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        self.average(now);
        let bytes = packets.get(id).frame_length();
        let is_full = self.queue.bytes() + bytes > self.limit;
        if self.drops_early() || is_full {
            self.count = Some(0);
            // A queue whose mean is at twice max or above drops all, RFC 3168 §7.
            let may_mark = self.ecn && !is_full && self.mean < 2.0 * self.max;
            if !(may_mark && packets.mark_if_capable(id)) {
                packets.drop(id);
                return;
            }
        }
        self.idle_since = None;
        self.queue.push(now, id, bytes, packets);
    }

    /// Moves the mean towards the queue's length at the time of the packet that arrives.
    fn average(&mut self, now: Nanos) {
        if let Some(since) = self.idle_since.filter(|_| self.queue.packets() == 0) {
            // As if this many small packets had found the queue empty.
            self.mean *= power(1.0 - WEIGHT, now.saturating_sub(since) / self.step);
            self.idle_since = Some(now);
        } else {
            self.mean += WEIGHT * (self.queue.bytes() as f64 - self.mean);
        }
    }

    /// Decides by the mean, spacing drops evenly, [Floyd93 §7].
    fn drops_early(&mut self) -> bool {
        if self.mean < self.min {
            self.count = None;
            return false;
        }
        let base = self.base_probability();
        if base >= 1.0 {
            return true;
        }
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let spread = 1.0 - f64::from(count) * base;
        // A quotient of probability: from 1 on the packet is always dropped.
        spread <= 0.0 || self.random.chance(base / spread)
    }

    /// From 0 at min to `probability` at max and, gently, to 1 at twice max.
    fn base_probability(&self) -> f64 {
        if self.mean < self.max {
            return self.probability * (self.mean - self.min) / (self.max - self.min);
        }
        self.probability + (1.0 - self.probability) * (self.mean - self.max) / self.max
    }

    /// The next packet to be sent.
    pub fn take(&mut self, now: Nanos, packets: &Packets) -> Option<PacketId> {
        let id = self.queue.pop(packets, Packet::frame_length);
        if self.queue.packets() == 0 && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        id
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.queue.bytes()
    }
}

/// By squaring, with products only.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}
