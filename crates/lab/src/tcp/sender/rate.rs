//! Delivery-rate samples, draft-cheng-iccrg-delivery-rate-estimation as in Linux tcp_rate.c: how
//! many segments were delivered between the sending of a segment and its acknowledgement.

use tidegate_limiter::Nanos;

use super::super::cc::LostSegment;

#[cfg(test)]
mod tests;

/// Counters of the connection.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    /// Segments delivered, cumulatively or selectively acknowledged. As in Linux the handshake
    /// counts as one, so that 0 means no sample.
    pub(super) delivered: u64,
    /// When the latest of them were delivered.
    pub(super) delivered_at: Nanos,
    /// When the latest delivered segment was sent: where the next send phase begins.
    pub(super) first_sent_at: Nanos,
    /// Segments marked lost.
    pub(super) lost: u64,
    /// Until this many are delivered, samples are from a time without enough data to send.
    pub(super) app_limited_until: Option<u64>,
}

/// The counters as a segment was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    /// In flight with the segment (`tx.in_flight` of Google's kernels).
    in_flight: u32,
    /// The lower half of the count of segments marked lost.
    lost: u32,
    app_limited: bool,
}

/// The sample of one acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RateSample {
    /// From the delivered segment that was sent last.
    latest: Option<Snapshot>,
    send_phase: Nanos,
    /// Segments, and the time in which they were delivered, if both are known.
    pub(super) over: Option<(u32, Nanos)>,
}

impl RateSample {
    /// `delivered` when the latest of the segments was sent; 0 without a segment.
    pub(super) fn prior_delivered(&self) -> u64 {
        self.latest.map_or(0, |latest| latest.delivered)
    }

    /// In flight when the latest of the segments had been sent; 0 without a segment.
    pub(super) fn in_flight(&self) -> u32 {
        self.latest.map_or(0, |latest| latest.in_flight)
    }

    /// Of this many segments marked lost, those since then.
    pub(super) fn lost_since(&self, lost: u64) -> u32 {
        self.latest
            .map_or(0, |latest| (lost as u32).wrapping_sub(latest.lost))
    }

    /// Whether the application had too little to send.
    pub(super) fn app_limited(&self) -> bool {
        self.latest.is_some_and(|latest| latest.app_limited)
    }
}

impl Delivery {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            delivered: 1,
            delivered_at: now,
            first_sent_at: now,
            lost: 0,
            app_limited_until: None,
        }
    }

    /// A segment is sent (`tcp_rate_skb_sent`), and `in_flight` are on their way with it. After silence both phases begin
    /// here.
    pub(super) fn on_sent(&mut self, now: Nanos, nothing_out: bool, in_flight: u32) -> Snapshot {
        if nothing_out {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight,
            lost: self.lost as u32,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// A segment sent then was marked lost, and counted.
    pub(super) fn lost(&self, at: &Snapshot) -> LostSegment {
        LostSegment {
            tx_in_flight: at.in_flight,
            lost_since: (self.lost as u32).wrapping_sub(at.lost),
            delivered: self.delivered,
            app_limited: at.app_limited,
        }
    }

    /// A segment sent then is delivered (`tcp_rate_skb_delivered`).
    pub(super) fn on_delivered(&mut self, sent_at: Nanos, at: Snapshot, sample: &mut RateSample) {
        if sample
            .latest
            .is_none_or(|latest| at.delivered > latest.delivered)
        {
            sample.latest = Some(at);
            self.first_sent_at = sent_at;
            sample.send_phase = sent_at.saturating_sub(at.first_sent_at);
        }
    }

    /// Completes the sample of an acknowledgement (`tcp_rate_gen`). It is void without timing, or
    /// if its time is below the smallest round trip, which only an unnecessary retransmission
    /// causes.
    pub(super) fn complete(
        &mut self,
        now: Nanos,
        newly: u32,
        smallest: Option<Nanos>,
        reneged: bool,
        sample: &mut RateSample,
    ) {
        if self
            .app_limited_until
            .is_some_and(|until| self.delivered > until)
        {
            self.app_limited_until = None;
        }
        if newly > 0 {
            self.delivered_at = now;
        }
        let Some(latest) = sample.latest.filter(|_| !reneged) else {
            return;
        };
        let ack_phase = now.saturating_sub(latest.delivered_at);
        let interval = ack_phase.max(sample.send_phase);
        if interval > 0 && smallest.is_none_or(|smallest| interval >= smallest) {
            let delivered = self.delivered.saturating_sub(latest.delivered);
            sample.over = Some((u32::try_from(delivered).unwrap_or(u32::MAX), interval));
        }
    }
}
