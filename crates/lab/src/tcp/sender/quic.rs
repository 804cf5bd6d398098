//! QUIC's loss detection and its answer to congestion, RFC 9002, in place of Linux's: packet and time thresholds, probe
//! timeouts, persistent congestion, and a window that is reduced at once.
//!
//! Orders of sending stand for packet numbers: each transmission has another. What QUIC's acknowledgements have and TCP's
//! do not is missing: the receiver's delay, which is taken as 0 in samples, and more than four ranges.

use tidegate_limiter::Nanos;

use super::super::cc::LossState;
use super::ack::Ack;
use super::rtt::{INITIAL_RTO, MAX_RTO};
use super::scoreboard::Sent;
use super::timeout::Timer;
use super::{Forced, Outgoing, Resend, Sender};
use crate::MILLISECOND;

/// `kPacketThreshold`, §6.1.1.
const PACKETS: u64 = 3;
/// `kGranularity`, §6.1.2.
const GRANULARITY: Nanos = MILLISECOND;
/// `kPersistentCongestionThreshold`, §7.6.1.
const PERSISTENT: u64 = 3;
/// `kMinimumWindow` in segments, §7.2.
const LEAST_WINDOW: u32 = 2;
/// Packets of a probe timeout, §6.2.4.
const PROBES: u32 = 2;
/// Largest exponent of the backoff.
const MOST_BACKOFF: u32 = 10;

/// The state of §A.3 and §B.2.
#[derive(Debug, Clone)]
pub(super) struct Quic {
    max_ack_delay: Nanos,
    latest: Nanos,
    smoothed: Option<Nanos>,
    variation: Nanos,
    /// The latest transmission that was acknowledged, before this acknowledgement and with it.
    prior_largest: u64,
    largest: u64,
    /// The first transmission above `prior_largest` that this one acknowledges.
    first_new: Option<u64>,
    /// The round trip of `largest`, if this acknowledgement is the first of it.
    measured: Option<Nanos>,
    /// Probe timeouts in a row, and packets of the present one that are not sent yet.
    timeouts: u32,
    probes: u32,
    /// The last transmission before the probes, and whether one of them delivered what was sent before it.
    probed: u64,
    proved: bool,
    /// The last transmission before the last reduction of the window (`congestion_recovery_start_time`); 0 if there is none.
    /// It stays after the recovery, because losses of earlier transmissions may show later.
    reduced: u64,
    /// The first byte of the segment that tells the receiver of the last reduction, if it understands RFC 3168.
    telling: Option<u64>,
}

impl Quic {
    pub(super) fn new(max_ack_delay: Nanos) -> Self {
        Self {
            max_ack_delay,
            latest: 0,
            smoothed: None,
            variation: 0,
            prior_largest: 0,
            largest: 0,
            first_new: None,
            measured: None,
            timeouts: 0,
            probes: 0,
            probed: 0,
            proved: false,
            reduced: 0,
            telling: None,
        }
    }

    /// §5.3.
    pub(super) fn sample(&mut self, rtt: Nanos) {
        self.latest = rtt;
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(rtt), rtt / 2),
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(rtt)) / 4;
                self.smoothed = Some((7 * smoothed + rtt) / 8);
            }
        }
    }

    /// A segment is delivered. If that is too soon for its last transmission, an earlier one was; QUIC would know which.
    pub(super) fn on_delivered(&mut self, now: Nanos, sent: &Sent, smallest: Option<Nanos>) {
        let rtt = now.saturating_sub(sent.sent_at);
        if sent.ever_again && smallest.is_some_and(|smallest| rtt < smallest) {
            return;
        }
        if sent.order > self.prior_largest {
            let first = self.first_new.unwrap_or(sent.order);
            self.first_new = Some(first.min(sent.order));
        }
        if sent.order > self.largest {
            self.largest = sent.order;
            self.measured = Some(rtt);
        }
        // A probe repeated it, and the first transmission is lost.
        self.proved |= sent.again && !sent.lost;
    }

    /// The probe timeout without its backoff, §6.2.1. Before a sample it is that of the handshake.
    fn period(&self) -> Nanos {
        self.smoothed.map_or(INITIAL_RTO, |smoothed| {
            smoothed + (4 * self.variation).max(GRANULARITY) + self.max_ack_delay
        })
    }

    /// The time threshold, §6.1.2.
    fn patience(&self) -> Nanos {
        let rtt = self.smoothed.unwrap_or(INITIAL_RTO).max(self.latest);
        (rtt + rtt / 8).max(GRANULARITY)
    }
}

impl Sender {
    /// After an acknowledgement: finds losses, and sets the timer (`OnAckReceived`, §A.7).
    pub(super) fn judge_quic(&mut self, now: Nanos, ack: &Ack) {
        let Some(quic) = &mut self.quic else { return };
        if ack.acked > 0 || ack.sacked {
            quic.timeouts = 0;
        }
        // §5.1: one sample, of the largest that it newly acknowledges. All packets with data elicit acknowledgements.
        if let Some(rtt) = quic.measured.take() {
            quic.sample(rtt);
        }
        let largest = quic.largest;
        // A transmission after the recovery began was acknowledged: it is over, §7.3.2.
        let probed = quic.probed;
        let (reduced, telling) = (quic.reduced, quic.telling);
        if self.in_reduction() && largest > reduced {
            self.set_state(now, LossState::Open);
        }
        // RFC 3168 §6.1.3: a mark is echoed until the receiver hears of the reduction. What is sent again does not tell it,
        // so acknowledgements of that may echo the mark that was answered.
        if ack.ece && telling.is_none_or(|seq| self.is_delivered(seq)) {
            self.on_congestion(now, largest, LossState::Cwr);
        }
        if let Some(quic) = &mut self.quic
            && std::mem::take(&mut quic.proved)
        {
            self.on_congestion(now, probed, LossState::Recovery);
        }
        self.detect_losses_quic(now);
        if let Some(quic) = &mut self.quic {
            (quic.prior_largest, quic.first_new) = (quic.largest, None);
        }
        self.resend = Resend::Lost;
        self.set_quic_timer(now);
    }

    /// `DetectAndRemoveLostPackets`, §A.10.
    fn detect_losses_quic(&mut self, now: Nanos) {
        let Some(quic) = &self.quic else { return };
        let (largest, patience) = (quic.largest, quic.patience());
        let between = quic.prior_largest..quic.first_new.unwrap_or(0);
        let (mut last_lost, mut span) = (None, None::<(Nanos, Nanos)>);
        let mut next = self.board.oldest();
        while let Some(number) = next {
            next = self.board.newer(number);
            let Some(sent) = self.board.get(number) else {
                break;
            };
            let (order, sent_at) = (sent.order, sent.sent_at);
            if order >= largest {
                break;
            }
            if largest - order >= PACKETS || sent_at + patience <= now {
                self.mark_lost(now, number);
                // A probe repeated it: both transmissions are lost.
                if self.board.get(number).is_some_and(|sent| sent.again) {
                    self.mark_lost(now, number);
                }
                last_lost = Some(order);
                // Nothing that was sent between these was acknowledged.
                if between.contains(&order) {
                    span = Some((span.map_or(sent_at, |span| span.0), sent_at));
                }
            }
        }
        let Some(last) = last_lost else { return };
        self.on_congestion(now, last, LossState::Recovery);
        self.resend = Resend::Lost;
        let most = self
            .quic
            .as_ref()
            .map_or(0, |quic| PERSISTENT * quic.period());
        let is_sampled = self
            .quic
            .as_ref()
            .is_some_and(|quic| quic.smoothed.is_some());
        if is_sampled && span.is_some_and(|(first, last)| last - first > most) {
            self.collapse(now);
        }
    }

    /// Whether the segment of this byte was sent and is acknowledged.
    fn is_delivered(&self, seq: u64) -> bool {
        let is_sacked = || {
            let sent = self.board.get(self.board.number_at(seq));
            sent.is_some_and(|sent| sent.sacked)
        };
        self.una > seq || is_sacked()
    }

    /// `OnCongestionEvent`, §7.3.2: once for what was in flight. The state tells algorithms whether it is a mark or a loss.
    fn on_congestion(&mut self, now: Nanos, order: u64, state: LossState) {
        let newest = self.board.newest_order();
        let Some(quic) = &mut self.quic else { return };
        if order <= quic.reduced {
            return;
        }
        quic.reduced = newest;
        // The next new data tells the receiver, RFC 3168 §6.1.2.
        quic.telling = self.ecn.then_some(self.next);
        self.cwr_due = self.ecn;
        match state {
            LossState::Cwr => self.counts.reduced += 1,
            _ => self.counts.recoveries += 1,
        }
        self.window.ssthresh = self.cc.ssthresh(now, &self.window).max(LEAST_WINDOW);
        self.set_state(now, state);
        // A lost packet is sent again before the window is reduced.
        self.forced = self.forced.or(Some(Forced::First));
        if !self.controlled {
            self.window.cwnd = self.window.ssthresh;
            self.window_moved(now);
        }
    }

    /// Persistent congestion, §7.6.2: slow start from the least window.
    fn collapse(&mut self, now: Nanos) {
        self.counts.timeouts += 1;
        self.cc.on_lost(self.rate.lost);
        self.set_state(now, LossState::Loss);
        self.window.cwnd = LEAST_WINDOW;
        self.window_moved(now);
        self.set_state(now, LossState::Open);
        // §B.8: what shows after it counts again.
        if let Some(quic) = &mut self.quic {
            quic.reduced = 0;
        }
    }

    /// `SetLossDetectionTimer`, §A.8. It is exact: user space has such timers.
    pub(super) fn set_quic_timer(&mut self, now: Nanos) {
        let Some(quic) = &self.quic else { return };
        if self.board.front().is_none() {
            self.timer = None;
            return;
        }
        let waiting = self
            .board
            .oldest()
            .and_then(|number| self.board.get(number));
        if let Some(sent) = waiting.filter(|sent| sent.order < quic.largest) {
            self.set_timer(Timer::Reorder, (sent.sent_at + quic.patience()).max(now));
            return;
        }
        let backoff = 1 << quic.timeouts.min(MOST_BACKOFF);
        let wait = quic.period().saturating_mul(backoff).min(MAX_RTO);
        self.set_timer(Timer::Probe, (self.last_data + wait).max(now));
    }

    /// The timer has fired (`OnLossDetectionTimeout`, §A.9).
    pub(super) fn on_quic_timer(&mut self, now: Nanos, timer: Timer) {
        self.timer = None;
        if timer == Timer::Reorder {
            self.detect_losses_quic(now);
            self.set_quic_timer(now);
        } else if let Some(quic) = &mut self.quic {
            quic.timeouts = quic.timeouts.saturating_add(1);
            quic.probes = PROBES;
            quic.probed = self.board.newest_order();
            self.forced = Some(Forced::Tail);
        }
    }

    /// A packet of a probe timeout: new data, or what was sent longest ago. Windows of congestion do not hold it back.
    pub(super) fn transmit_probe_quic(&mut self, now: Nanos) -> Option<Outgoing> {
        let quic = self.quic.as_mut()?;
        quic.probes = quic.probes.saturating_sub(1);
        if quic.probes > 0 {
            self.forced = Some(Forced::Tail);
        }
        let new = self.next_length().filter(|&(payload, fin)| {
            self.next + u64::from(payload) + u64::from(fin) <= self.window_end()
        });
        let outgoing = match new {
            Some((payload, fin)) => self.send_new(now, payload, fin),
            None => {
                let oldest = self.board.oldest().or_else(|| self.board.next_to_resend());
                let Some(number) = oldest else {
                    self.forced = None;
                    return None;
                };
                self.send_again(now, number, true)
            }
        };
        self.counts.probes += 1;
        self.set_quic_timer(now);
        Some(outgoing)
    }
}
