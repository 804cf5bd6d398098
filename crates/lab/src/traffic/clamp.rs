//! Trickle's clamp of the congestion window [Trickle §2, Algorithm 1], with the same steps as
//! `crates/pace/bpf/pace.bpf.c` in the kernel.

use tidegate_limiter::Nanos;
use tidegate_limiter::pacing::{Hold, Target, Trickle};

use crate::tcp::Connection;
use crate::tcp::cc::LossState;

/// The clamp of a connection in its throttling phase.
#[derive(Debug)]
pub struct Clamp {
    rule: Trickle,
    start: Nanos,
    /// Bytes acknowledged when it began, as if nothing had been under way.
    begin: u64,
    /// The clamp that was last set, in segments.
    clamp: Option<u32>,
    /// The bytes that must be acknowledged before the next step: the kernel's callback comes once
    /// in a round trip.
    round_end: u64,
}

impl Clamp {
    /// The clamp of a connection that begins its phase now, with `begin` bytes acknowledged or under way. It is
    /// clamped at once, so that no whole window of other bytes follows these.
    pub fn new(target: Target, now: Nanos, begin: u64) -> Self {
        Self {
            rule: Trickle::new(target),
            start: now,
            begin,
            clamp: None,
            round_end: 0,
        }
    }

    /// What bounds the rate of the connection: the clamp, the clamp at its floor, or nothing while goodput
    /// is below R.
    pub fn hold(&self) -> Hold {
        self.rule.hold()
    }

    /// Must be called when the phase begins and after each acknowledgement. `sent` is the number of bytes that the
    /// connection has sent. Acts once in a round trip.
    pub fn on_ack(&mut self, now: Nanos, connection: &mut Connection, sent: u64) {
        let acked = connection.acked();
        if acked < self.round_end {
            return;
        }
        self.round_end = sent + 1;
        let snapshot = connection.snapshot();
        let Some(rtt) = snapshot.srtt.filter(|&rtt| rtt > 0) else {
            return;
        };
        let elapsed = now.saturating_sub(self.start);
        let delivered = acked.saturating_sub(self.begin);
        let segments = self
            .rule
            .segments(connection.mss(), rtt, elapsed, delivered);
        // Congestion control is active: the threshold is the window that it will reach.
        if matches!(snapshot.state, LossState::Recovery | LossState::Loss) {
            return;
        }
        let (window, threshold) = (snapshot.cwnd, snapshot.ssthresh);
        let is_used = self.clamp.is_some_and(|clamp| window >= clamp);
        let wanted = if self.hold() != Hold::Behind {
            // The threshold of slow start follows the clamp. So the clamp is set only if that does
            // no harm: it does not bind a window that losses hold below it.
            let harmless = window >= segments || threshold >= segments || is_used;
            (self.clamp != Some(segments) && harmless).then_some(segments)
        } else {
            // No clamp: it stays ahead of the window. If it were removed at once, a slow start
            // would follow.
            is_used.then(|| window.saturating_add(window / 8 + 1))
        };
        if wanted.is_some() {
            self.clamp = wanted;
            connection.clamp(wanted);
        }
    }
}
