//! PIE, RFC 8033: a controller of the queueing delay. In the RFC's names.

use tidegate_limiter::{Nanos, Rate};

use crate::packet::{Fifo, Packet, PacketId, Packets};
use crate::random::Random;

#[cfg(test)]
mod tests;

/// Time for which a burst passes after silence, RFC 8033 §4.4.
const MAX_BURST: Nanos = 150_000_000;
/// RFC 8033 §4.1.
const MEAN_PKTSIZE: u64 = 1024;
/// Weights of the delay's distance from the target and of its change, in 1/s, RFC 8033 §4.2.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Above this probability packets are dropped whether their senders know ECN or not, RFC 8033 §5.1.
const MARK_ECNTH: f64 = 0.1;

/// A queue that drops at random, with a probability that a controller sets.
#[derive(Debug, Clone)]
pub struct Pie {
    target: Nanos,
    update: Nanos,
    most_packets: u64,
    /// Whether packets of senders that know ECN are marked instead of dropped, RFC 8033 §5.1.
    ecn: bool,
    rate: Rate,
    next_update: Nanos,
    drop_prob: f64,
    /// Sum of probabilities since the last drop, RFC 8033 §5.4.
    accu_prob: f64,
    qdelay_old: Nanos,
    burst_allowance: Nanos,
    random: Random,
    queue: Fifo,
}

impl Pie {
    /// An empty queue in front of a link of this rate.
    pub fn new(
        target: Nanos,
        update: Nanos,
        packets: u64,
        ecn: bool,
        rate: Rate,
        random: Random,
    ) -> Self {
        Self {
            target,
            update,
            most_packets: packets,
            ecn,
            rate,
            next_update: update,
            drop_prob: 0.0,
            accu_prob: 0.0,
            qdelay_old: 0,
            burst_allowance: MAX_BURST,
            random,
            queue: Fifo::default(),
        }
    }

    /// Takes a packet in, or drops it.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        self.catch_up(now);
        if self.queue.packets() >= self.most_packets {
            packets.drop(id);
            return;
        }
        if self.burst_allowance == 0 && self.drop_early() {
            let may_mark = self.ecn && self.drop_prob <= MARK_ECNTH;
            if !(may_mark && packets.mark_if_capable(id)) {
                packets.drop(id);
                return;
            }
        }
        let bytes = packets.get(id).frame_length();
        self.queue.push(now, id, bytes, packets);
    }

    /// The next packet to be sent.
    pub fn take(&mut self, now: Nanos, packets: &Packets) -> Option<PacketId> {
        self.catch_up(now);
        self.queue.pop(packets, Packet::frame_length)
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Little's law with the departure rate known, RFC 8033 §4.3.
    fn current_qdelay(&self) -> Nanos {
        let bits = u128::from(self.queue.bytes()) * 8 * 1_000_000_000;
        Nanos::try_from(bits / u128::from(self.rate.bits_per_second().max(1))).unwrap_or(Nanos::MAX)
    }

    /// RFC 8033 §4.1 with the derandomisation of §5.4.
    fn drop_early(&mut self) -> bool {
        if (self.qdelay_old < self.target / 2 && self.drop_prob < 0.2)
            || self.queue.bytes() <= 2 * MEAN_PKTSIZE
        {
            return false;
        }
        if self.drop_prob == 0.0 {
            self.accu_prob = 0.0;
        }
        self.accu_prob += self.drop_prob;
        if self.accu_prob < 0.85 {
            return false;
        }
        if self.accu_prob >= 8.5 || self.random.chance(self.drop_prob) {
            self.accu_prob = 0.0;
            return true;
        }
        false
    }

    /// Makes the updates that were due. The queue did not change since, so the result is the same
    /// as with a timer. When updates change nothing any more, the others are skipped.
    fn catch_up(&mut self, now: Nanos) {
        while now >= self.next_update {
            let settled = self.drop_prob == 0.0
                && self.queue.packets() == 0
                && self.qdelay_old == 0
                && self.burst_allowance == MAX_BURST;
            if settled {
                let missed = (now - self.next_update) / self.update + 1;
                self.next_update += missed * self.update;
                return;
            }
            self.next_update += self.update;
            self.calculate_drop_prob();
        }
    }

    /// RFC 8033 §4.2, §4.4 and the bound of §5.5.
    fn calculate_drop_prob(&mut self) {
        let seconds = |time: Nanos| time as f64 / 1e9;
        let qdelay = self.current_qdelay();
        let mut p = ALPHA * (seconds(qdelay) - seconds(self.target))
            + BETA * (seconds(qdelay) - seconds(self.qdelay_old));
        // The smaller the probability, the smaller the steps: stable from light to heavy load.
        p /= match self.drop_prob {
            prob if prob < 0.000_001 => 2048.0,
            prob if prob < 0.000_01 => 512.0,
            prob if prob < 0.000_1 => 128.0,
            prob if prob < 0.001 => 32.0,
            prob if prob < 0.01 => 8.0,
            prob if prob < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.drop_prob >= 0.1 && p > 0.02 {
            p = 0.02;
        }
        self.drop_prob += p;
        if qdelay == 0 && self.qdelay_old == 0 {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.burst_allowance = self.burst_allowance.saturating_sub(self.update);
        if self.drop_prob == 0.0 && qdelay < self.target / 2 && self.qdelay_old < self.target / 2 {
            self.burst_allowance = MAX_BURST;
        }
        self.qdelay_old = qdelay;
    }
}
