//! When segments may leave: Linux's internal pacing (`tcp_update_skb_after_send`), the size of
//! its bursts (`tcp_tso_autosize`), and a limit of the sending rate.

use tidegate_limiter::{Nanos, Rate};

use crate::SECOND;

#[cfg(test)]
mod tests;

/// Largest burst in bytes: the most that segmentation offload takes at once.
const MAX_BURST: u64 = 65_536;
/// Segments that leave before pacing begins (Linux `TCP_INIT_CWND`).
const UNPACED: u64 = 10;

/// Spreads segments over time.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    /// Bytes of payload per second, known from the first round trip on.
    rate: Option<u64>,
    /// When the next burst may leave, if segments are paced; otherwise when the last one left.
    next_burst: Nanos,
    segments: u64,
    /// Few senders have one.
    limit: Option<Box<Limit>>,
}

/// A limit of the sending rate.
#[derive(Debug, Clone)]
struct Limit {
    rate: Rate,
    /// When the next packet may leave, and the fraction of a nanosecond that is left over.
    next_packet: Nanos,
    remainder: u128,
}

impl Pacer {
    pub(super) fn new(limit: Option<Rate>) -> Self {
        Self {
            rate: None,
            next_burst: 0,
            segments: 0,
            limit: limit.map(|rate| {
                Box::new(Limit {
                    rate,
                    next_packet: 0,
                    remainder: 0,
                })
            }),
        }
    }

    /// Bytes of payload per second from now on.
    pub(super) fn set_rate(&mut self, rate: u64) {
        self.rate = Some(rate.max(1));
    }

    /// Bytes of payload per second, if it is known.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// When the next burst may leave, if segments are paced; otherwise when the last one left.
    pub(super) fn burst_at(&self) -> Nanos {
        self.next_burst
    }

    /// Whether there is a rate limit.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// When the rate limit lets the next packet leave.
    pub(super) fn packet_at(&self) -> Nanos {
        self.limit.as_ref().map_or(0, |limit| limit.next_packet)
    }

    /// Segments of a burst: those of a millisecond at the rate, and more to near receivers (half
    /// for each 512 µs of round trip). At least two, or one below 1.2 Mbit/s if the rate is BBR's
    /// (`bbr_min_tso_segs`).
    pub(super) fn burst(&self, mss: u32, smallest: Option<Nanos>, own_rate: bool) -> u32 {
        let rate = self.rate.unwrap_or(u64::MAX);
        let shift = (smallest.unwrap_or(Nanos::MAX) / 1000) >> 9;
        let near = if shift < 32 { MAX_BURST >> shift } else { 0 };
        let bytes = (rate >> 10).saturating_add(near).min(MAX_BURST);
        let least = if own_rate && rate < 150_000 { 1 } else { 2 };
        ((bytes / u64::from(mss.max(1))) as u32).max(least)
    }

    /// A burst of this many segments has left.
    pub(super) fn on_burst(&mut self, now: Nanos, paced: bool, segments: u32, payload: u64) {
        let start = self.next_burst.max(now);
        // Unused time counts, up to half, because real timers are late, and the mean rate must not
        // suffer from it.
        let credit = start - self.next_burst;
        self.next_burst = start;
        self.segments = self.segments.saturating_add(u64::from(segments));
        if let (true, true, Some(rate)) = (paced, self.segments >= UNPACED, self.rate) {
            let length = u128::from(payload) * u128::from(SECOND) / u128::from(rate);
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            self.next_burst = start.saturating_add(length - credit.min(length / 2));
        }
    }

    /// A packet of this many bytes at the IP layer has left.
    pub(super) fn on_packet(&mut self, now: Nanos, bytes: u32) {
        let Some(limit) = &mut self.limit else { return };
        let rate = u128::from(limit.rate.bits_per_second().max(1));
        if limit.next_packet < now {
            limit.next_packet = now;
            limit.remainder = 0;
        }
        let time = u128::from(bytes) * 8 * u128::from(SECOND) + limit.remainder;
        limit.remainder = time % rate;
        let time = u64::try_from(time / rate).unwrap_or(u64::MAX);
        limit.next_packet = limit.next_packet.saturating_add(time);
    }
}
