//! Proportional rate reduction, RFC 6937 and 9937 (Linux `tcp_cwnd_reduction`): how many segments
//! may be sent for delivered ones while losses are repaired.

use super::super::Recovery;

#[cfg(test)]
mod tests;

/// Counts since recovery began.
#[derive(Debug, Clone, Default)]
pub(super) struct Reduction {
    /// The window before the reduction.
    prior_cwnd: u32,
    delivered: u32,
    sent: u32,
}

/// The progress of an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Segments newly delivered.
    pub(super) delivered: u32,
    /// Segments newly marked lost.
    pub(super) lost: u32,
    /// The cumulative acknowledgement advanced.
    pub(super) una_advanced: bool,
    /// Segments in flight after it.
    pub(super) in_flight: u32,
}

impl Reduction {
    pub(super) fn begin(cwnd: u32) -> Self {
        Self {
            prior_cwnd: cwnd.max(1),
            ..Self::default()
        }
    }

    /// A segment is sent, again or for the first time.
    pub(super) fn on_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// The window after an acknowledgement; `None` if it delivered nothing.
    ///
    /// Above the threshold the window shrinks in proportion. Below it, [Flach16 §5.2.2] found that
    /// slow start loses its retransmissions again behind a policer. So one segment is sent for each
    /// delivered one (PRR-CRB), and one more (PRR-SSRB) only for acknowledgements that advance
    /// without new losses. [`Recovery::SlowStart`] always adds it.
    pub(super) fn window(
        &mut self,
        recovery: Recovery,
        ssthresh: u32,
        ack: Progress,
    ) -> Option<u32> {
        if ack.delivered == 0 || self.prior_cwnd == 0 {
            return None;
        }
        self.delivered = self.delivered.saturating_add(ack.delivered);
        let (delivered, sent) = (i64::from(self.delivered), i64::from(self.sent));
        let below = i64::from(ssthresh) - i64::from(ack.in_flight);
        let mut send = if below < 0 {
            let due = u64::from(ssthresh) * u64::from(self.delivered);
            due.div_ceil(u64::from(self.prior_cwnd)) as i64 - sent
        } else {
            let conserve = (delivered - sent).max(i64::from(ack.delivered));
            let more = match recovery {
                Recovery::Conservative => ack.una_advanced && ack.lost == 0,
                Recovery::SlowStart | Recovery::Quic => true,
            };
            below.min(conserve + i64::from(more))
        };
        // The first retransmission is sent at once.
        send = send.max(i64::from(self.sent == 0));
        let window = i64::from(ack.in_flight) + send;
        Some(u32::try_from(window.max(0)).unwrap_or(u32::MAX))
    }
}
