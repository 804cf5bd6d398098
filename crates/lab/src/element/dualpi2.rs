//! DualPI2, RFC 9332 appendix A: two queues under one controller, one for senders that answer each mark a little
//! (L4S), one for the others. Names are the RFC's.

use tidegate_limiter::{Ecn, Nanos};

use crate::packet::{ETHERNET_HEADER, Fifo, Packet, PacketId, Packets};

#[cfg(test)]
mod tests;

/// Weights of the delay's distance from the target and of its change, in 1/s: those of RFC 9332 §A.1 for a target of
/// 15 ms, updates each 16 ms, and round trips up to 100 ms.
const ALPHA: f64 = 0.16;
const BETA: f64 = 3.2;
/// Coupling factor: p_CL is this times p'.
const K: f64 = 2.0;
/// The ramp of the L queue's own marks above `min_th`.
const RANGE: f64 = 400_000.0;
/// Share of the Classic queue while both have packets, in percent: weighted round robin, as Linux
/// (`DUALPI2_C_PROTECTION`).
const CLASSIC: i64 = 10;
/// Longest frame, in bytes.
const MTU: i64 = 1500 + ETHERNET_HEADER as i64;

/// Two queues, and the controller that couples them.
#[derive(Debug, Clone)]
pub struct DualPi2 {
    target: Nanos,
    update: Nanos,
    min_th: Nanos,
    most_packets: u64,
    next_update: Nanos,
    /// p': the square root of the probability of Classic drops.
    base: f64,
    /// The longer of the delays at the last update.
    prevq: Nanos,
    classic: Queue,
    low: Queue,
    /// The Classic queue's turn while this is positive.
    credit: i64,
}

/// A queue, and the likelihoods since its last mark or drop.
#[derive(Debug, Clone, Default)]
struct Queue {
    packets: Fifo,
    count: f64,
}

impl Queue {
    /// True as often as this likelihood, evenly (`recur`).
    fn recur(&mut self, likelihood: f64) -> bool {
        self.count += likelihood;
        let due = self.count > 1.0;
        if due {
            self.count -= 1.0;
        }
        due
    }

    /// How long its first packet has waited.
    fn time(&self, now: Nanos, packets: &Packets) -> Nanos {
        let first = self.packets.first();
        first.map_or(0, |id| now.saturating_sub(packets.get(id).queued))
    }
}

impl DualPi2 {
    /// Empty queues. `min_th` is the delay from which the L queue marks by itself.
    pub fn new(target: Nanos, update: Nanos, min_th: Nanos, packets: u64) -> Self {
        Self {
            target,
            update,
            min_th,
            most_packets: packets,
            next_update: update,
            base: 0.0,
            prevq: 0,
            classic: Queue::default(),
            low: Queue::default(),
            credit: MTU * (2 * CLASSIC - 100),
        }
    }

    /// Takes a packet in, or drops it if the queues are full.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        self.catch_up(now, packets);
        if self.classic.packets.packets() + self.low.packets.packets() >= self.most_packets {
            packets.drop(id);
            return;
        }
        let packet = packets.get(id);
        let bytes = packet.frame_length();
        // RFC 9331 §5.1: ECT(1), and CE, which may have been ECT(1).
        let queue = match packet.segment.ecn {
            Ecn::Ect1 | Ecn::Ce => &mut self.low,
            Ecn::NotEct | Ecn::Ect0 => &mut self.classic,
        };
        queue.packets.push(now, id, bytes, packets);
    }

    /// The next packet to be sent. Packets before it are dropped or marked as the controller says.
    pub fn take(&mut self, now: Nanos, packets: &mut Packets) -> Option<PacketId> {
        self.catch_up(now, packets);
        loop {
            // As Linux: the controller has no say over less than two full frames, which a link needs to stay busy.
            let base = if self.bytes() < 2 * MTU as u64 {
                0.0
            } else {
                self.base
            };
            let (p_c, p_cl) = (base * base, K * base);
            let (low, classic) = (self.low.packets.packets(), self.classic.packets.packets());
            if low > 0 && (classic == 0 || self.credit <= 0) {
                let p_l = self.laqm(self.low.time(now, packets), low).max(p_cl);
                let id = self.low.packets.pop(packets, Packet::frame_length)?;
                // RFC 9332 §A.2: beyond 100 % of marks, drops as in the Classic queue.
                if p_cl >= 1.0 && self.low.recur(p_c) {
                    packets.drop(id);
                    continue;
                }
                if self.low.recur(p_l.min(1.0)) {
                    packets.mark(id);
                }
                if classic > 0 {
                    self.credit += CLASSIC * packets.get(id).frame_length() as i64;
                }
                return Some(id);
            }
            let Some(id) = self.classic.packets.pop(packets, Packet::frame_length) else {
                self.credit = MTU * (2 * CLASSIC - 100);
                return None;
            };
            if self.classic.recur(p_c) {
                // Overload disables marks.
                if packets.get(id).segment.ecn == Ecn::NotEct || p_cl >= 1.0 {
                    packets.drop(id);
                    continue;
                }
                packets.mark(id);
            }
            if low > 0 {
                self.credit -= (100 - CLASSIC) * packets.get(id).frame_length() as i64;
            }
            return Some(id);
        }
    }

    /// The L queue's own likelihood of marks: a ramp, if more than one packet waits.
    fn laqm(&self, delay: Nanos, waiting: u64) -> f64 {
        if waiting <= 1 || delay <= self.min_th {
            return 0.0;
        }
        ((delay - self.min_th) as f64 / RANGE).min(1.0)
    }

    /// Bytes waiting, in both queues.
    pub fn bytes(&self) -> u64 {
        self.classic.packets.bytes() + self.low.packets.bytes()
    }

    /// Makes the updates that were due. The queues did not change since, so the result is the same as with a timer.
    fn catch_up(&mut self, now: Nanos, packets: &Packets) {
        while now >= self.next_update {
            if self.base == 0.0 && self.prevq == 0 && self.bytes() == 0 {
                let missed = (now - self.next_update) / self.update + 1;
                self.next_update += missed * self.update;
                return;
            }
            let at = self.next_update;
            self.next_update += self.update;
            let time = |queue: &Queue| queue.time(at, packets);
            // Of the queue that delays longer, as Linux, so that an overload of the L queue counts too.
            let curq = time(&self.classic).max(time(&self.low));
            let seconds = |time: Nanos| time as f64 / 1e9;
            self.base += ALPHA * (seconds(curq) - seconds(self.target))
                + BETA * (seconds(curq) - seconds(self.prevq));
            self.base = self.base.clamp(0.0, 1.0);
            self.prevq = curq;
        }
    }
}
