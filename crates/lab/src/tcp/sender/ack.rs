//! The content of an acknowledgement: RFC 9293 §3.10.7.4, RFC 2018 and 2883, as Linux `tcp_ack`,
//! `tcp_sacktag_write_queue` and `tcp_clean_rtx_queue`.

use std::ops::Range;

use tidegate_limiter::Nanos;

use super::super::cc::{AckSample, LossState};
use super::super::{Sacks, Segment, clock, since_echo};
use super::prr::Progress;
use super::rate::RateSample;
use super::{MAX_REORDERING, REORDERING, Resend, Sender, Timer};

/// An acknowledgement as it is taken in (the `FLAG_…` of tcp_input.c).
#[derive(Debug, Clone, Default)]
pub(super) struct Ack {
    /// `una` before it.
    pub(super) prior_una: u64,
    pub(super) una_advanced: bool,
    /// Segments acknowledged cumulatively.
    pub(super) acked: u32,
    /// Segments newly acknowledged selectively.
    pub(super) sacked: bool,
    /// A segment that was sent before `high`, and only once, was delivered.
    pub(super) original: bool,
    /// A segment that was retransmitted was acknowledged cumulatively.
    pub(super) again: bool,
    /// It echoes a mark.
    pub(super) ece: bool,
    /// Of accurate ECN: the packets that it reports as marked.
    marked: Option<u32>,
    /// It reports a duplicate; a duplicate of the tail loss probe.
    pub(super) duplicate: bool,
    pub(super) probe_duplicate: bool,
    /// It changes the window, or carries data. So it is no duplicate acknowledgement, RFC 5681 §2.
    updates: bool,
    /// The first segment in flight was acknowledged selectively before.
    pub(super) reneging: bool,
    /// A retransmission was found lost.
    pub(super) lost_again: bool,
    pub(super) restart_timer: bool,
    /// Lowest byte that was delivered late and was sent only once.
    reordered: u64,
    /// When the first and the last of the selectively acknowledged were sent.
    first_sacked: Option<Nanos>,
    last_sacked: Option<Nanos>,
    /// Segments delivered selectively, and as duplicates.
    delivered: u32,
    rate: RateSample,
    rtt: Option<Nanos>,
    /// It acknowledges a lone short segment, and may have been delayed.
    maybe_delayed: bool,
    prior_in_flight: u32,
}

impl Sender {
    /// Takes in the acknowledgement that every segment carries.
    pub(in crate::tcp) fn take_ack(&mut self, now: Nanos, segment: &Segment) {
        self.end_burst(now);
        if segment.ack > self.next {
            return;
        }
        self.echo = segment
            .timestamps
            .map(|times| times.echo)
            .filter(|&echo| echo != 0);
        let mut ack = Ack {
            prior_una: self.una,
            una_advanced: segment.ack > self.una,
            prior_in_flight: self.board.in_flight(),
            reordered: self.next,
            ece: self.ecn && segment.ece,
            ..Ack::default()
        };
        if let Some(ace) = self.ace.filter(|_| segment.ack >= self.una && !segment.syn) {
            // RFC 9768 §A.2.1, without its guess for acknowledgements of more than 8 packets, as Prague in Linux.
            let more = segment.ace().wrapping_sub(ace) & 7;
            self.ace = Some(segment.ace());
            (ack.marked, ack.ece) = (Some(more as u32), more > 0);
        }
        self.resend = Resend::Nothing;
        let (delivered, lost) = (self.rate.delivered, self.rate.lost);
        if segment.ack < self.una {
            // Linux takes only its ranges (`old_ack` in `tcp_ack`): its echo of a mark was there before.
            ack.ece = false;
            if self.sack && !segment.sacks.is_empty() {
                self.take_sacks(now, segment.ack, &segment.sacks, &mut ack);
                if self.quic.is_some() {
                    self.judge_quic(now, &ack);
                } else {
                    self.judge(now, 0, &mut ack);
                }
            }
            return;
        }
        let prior_highest = self.highest_sacked_end();
        if ack.una_advanced {
            self.timeouts = 0;
        }
        self.take_window(now, segment, &mut ack);
        self.una = segment.ack;
        self.fill_buffer();
        if self.sack && !segment.sacks.is_empty() {
            self.take_sacks(now, segment.ack, &segment.sacks, &mut ack);
        }
        if self.board.front().is_none() {
            if ack.duplicate && self.quic.is_none() {
                self.judge(now, 0, &mut ack);
            }
            // Not with any answer to a probe: only when the window is open (`tcp_ack_probe`).
            let closed = self
                .next_length()
                .is_some_and(|(payload, _)| self.next + u64::from(payload) > self.window_end());
            if !closed {
                self.window_probes = 0;
            }
            if matches!(self.timer, Some((Timer::ClosedWindow, _))) {
                // The next attempt to send checks the window again.
                self.timer = None;
            }
            self.end_probe(now, segment.ack, &ack);
            return;
        }
        self.clean(now, prior_highest, &mut ack);
        if self.quic.is_some() {
            self.judge_quic(now, &ack);
            self.control_since(now, (delivered, lost), ack);
            return;
        }
        self.rack
            .adapt(ack.rate.prior_delivered(), self.rate.delivered);
        self.end_probe(now, segment.ack, &ack);
        let plain = !ack.updates && ack.acked == 0;
        let dubious = plain || ack.sacked || ack.duplicate || ack.ece;
        if dubious || self.state != LossState::Open {
            let duplicates = u32::from(plain && !ack.duplicate);
            self.judge(now, duplicates, &mut ack);
        }
        if ack.restart_timer {
            self.restart_timer(now);
        }
        self.control_since(now, (delivered, lost), ack);
    }

    /// Moves the window for what was delivered and lost since these counts.
    fn control_since(&mut self, now: Nanos, (delivered, lost): (u64, u64), ack: Ack) {
        let delivered = (self.rate.delivered - delivered) as u32;
        let lost = (self.rate.lost - lost) as u32;
        self.control(now, delivered, lost, ack);
    }

    /// The peer's window, RFC 9293 §3.10.7.4 (`tcp_ack_update_window`).
    fn take_window(&mut self, now: Nanos, segment: &Segment, ack: &mut Ack) {
        ack.updates = segment.payload > 0 || segment.fin;
        let newer = segment.seq == self.window_seq
            && (segment.window > self.peer_window || segment.window == 0);
        if ack.una_advanced || segment.seq > self.window_seq || newer {
            ack.updates = true;
            self.window_seq = segment.seq;
            if self.peer_window != segment.window {
                self.peer_window = segment.window;
                self.max_window = self.max_window.max(segment.window);
                if self.written > self.next {
                    self.restart_after_idle(now);
                }
            }
        }
    }

    /// The byte after the highest selectively acknowledged one, or else the first byte not
    /// acknowledged.
    pub(super) fn highest_sacked_end(&self) -> u64 {
        self.board
            .highest_sacked_end()
            .unwrap_or(self.una)
            .max(self.una)
    }

    fn take_sacks(&mut self, now: Nanos, acked: u64, sacks: &Sacks, ack: &mut Ack) {
        let duplicate = self.take_duplicate(acked, sacks, ack);
        // In order: a lower range marked after a higher one would look like reordering.
        let mut ordered = [(0, 0, false); 4];
        for (index, range) in sacks.ranges().enumerate() {
            ordered[index] = (range.start, range.end, duplicate && index == 0);
        }
        let ordered = &mut ordered[..sacks.len()];
        ordered.sort_unstable();
        for &mut (start, end, duplicate) in ordered {
            if self.is_valid(start, end, duplicate) && end > ack.prior_una {
                self.take_sack(now, start, end, duplicate, ack);
            }
        }
        self.known_sacks = *sacks;
        if self.state != LossState::Loss || self.undo_from.is_some() {
            self.note_reordering(ack.reordered);
        }
        self.rate.delivered += u64::from(ack.delivered);
    }

    /// RFC 2883 §4: the first range is a duplicate if it lies below the acknowledgement or within
    /// the second range (`tcp_check_dsack`). More duplicates than retransmissions were not caused
    /// by this sender.
    fn take_duplicate(&mut self, acked: u64, sacks: &Sacks, ack: &mut Ack) -> bool {
        let mut ranges = sacks.ranges();
        let Some(Range { start, end }) = ranges.next() else {
            return false;
        };
        let within = ranges
            .next()
            .is_some_and(|second| start >= second.start && end <= second.end);
        if !(start < acked || within) || start >= end || end > self.next {
            return false;
        }
        let length = end - start;
        if length > u64::from(self.max_window) {
            return false;
        }
        let segments = length.div_ceil(u64::from(self.mss));
        let of_probe = segments == 1 && self.probe_high == Some(end);
        self.duplicates = self.duplicates.saturating_add(segments);
        if self.duplicates > self.total_again {
            return false;
        }
        // The window of RACK grows only for duplicates that reordering may have caused.
        if self.reordering_seen > 0 && !of_probe {
            self.rack.duplicate_seen = true;
        }
        ack.duplicate = true;
        ack.probe_duplicate |= of_probe;
        let segments = segments as u32;
        ack.delivered += segments;
        if let (Some(from), Some(left)) = (self.undo_from, &mut self.undo_retransmissions)
            && end <= ack.prior_una
            && end > from
        {
            *left = left.saturating_sub(segments);
        }
        true
    }

    /// Whether a range contains segments in flight, or a duplicate since the reduction began
    /// (`tcp_is_sackblock_valid`).
    fn is_valid(&self, start: u64, end: u64, duplicate: bool) -> bool {
        if end > self.next || start >= end {
            return false;
        }
        if start > self.una {
            return true;
        }
        duplicate && end <= self.una && self.undo_from.is_some_and(|from| end > from)
    }

    /// Marks the segments of a range (`tcp_sacktag_one`).
    fn take_sack(&mut self, now: Nanos, start: u64, end: u64, duplicate: bool, ack: &mut Ack) {
        let mut number = self.board.number_at(start);
        while let Some(sent) = self.board.get(number) {
            if sent.seq >= end {
                break;
            }
            // The part that the acknowledgement before covered is skipped at once, so that a window
            // full of selective acknowledgements costs no more than one.
            if sent.sacked && !duplicate {
                let mut known = self.known_sacks.ranges();
                let known = known.find(|range| range.start <= sent.seq && sent.end() < range.end);
                let behind = known.map(|range| self.board.number_at(range.end));
                number = behind.unwrap_or(0).max(number + 1);
                continue;
            }
            if sent.seq >= start && sent.end() <= end && sent.end() > self.una {
                self.take_sacked(now, number, duplicate, ack);
            }
            number += 1;
        }
    }

    fn take_sacked(&mut self, now: Nanos, number: u64, duplicate: bool, ack: &mut Ack) {
        let highest = self.highest_sacked_end();
        let Some(sent) = self.board.get(number) else {
            return;
        };
        let (seq, end, sent_at) = (sent.seq, sent.end(), sent.sent_at);
        if duplicate && sent.ever_again {
            if let (Some(from), Some(left)) = (self.undo_from, &mut self.undo_retransmissions)
                && end > from
            {
                *left = left.saturating_sub(1);
            }
            if sent.sacked {
                ack.reordered = ack.reordered.min(seq);
            }
        }
        if !sent.sacked {
            self.rack.on_delivered(now, sent, self.rtt.smallest());
            if let Some(quic) = &mut self.quic {
                quic.on_delivered(now, sent, self.rtt.smallest());
            }
            if !sent.again && !sent.ever_again {
                // Filled by the first transmission, after others had overtaken it.
                if seq < highest {
                    ack.reordered = ack.reordered.min(seq);
                }
                ack.original |= end <= self.high;
                ack.first_sacked.get_or_insert(sent_at);
                ack.last_sacked = Some(sent_at);
            }
            ack.sacked = true;
            ack.delivered += 1;
            self.board.mark_sacked(number);
            if let Some(snapshot) = self.board.take_snapshot(number) {
                self.rate.on_delivered(sent_at, snapshot, &mut ack.rate);
            }
        }
        if duplicate {
            self.board.forget_retransmission(number);
        }
    }

    /// Segments were overtaken by later ones from here on (`tcp_check_sack_reordering`).
    pub(super) fn note_reordering(&mut self, from: u64) {
        let highest = self.highest_sacked_end();
        if from >= highest {
            return;
        }
        let segments = (highest - from).div_ceil(u64::from(self.mss));
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        self.reordering = self.reordering.max(segments.min(MAX_REORDERING));
        self.reordering_seen = self.reordering_seen.saturating_add(1);
    }

    /// Removes segments that are acknowledged cumulatively (`tcp_clean_rtx_queue`).
    fn clean(&mut self, now: Nanos, prior_highest: u64, ack: &mut Ack) {
        let had_sacked = self.board.sacked_out;
        let mut reordered = self.next;
        let (mut first, mut last) = (None, None);
        while let Some(mut sent) = self.board.pop_acked(self.una, self.sack) {
            ack.acked += 1;
            if sent.ever_again {
                ack.again = true;
            } else if !sent.sacked {
                first.get_or_insert(sent.sent_at);
                last = Some(sent.sent_at);
                reordered = reordered.min(sent.seq);
                ack.original |= sent.end() <= self.high;
            }
            if !sent.sacked && self.sack {
                self.rate.delivered += 1;
                // Not of a retransmission whose original arrived after all.
                let needless = sent.ever_again
                    && self
                        .echo
                        .is_some_and(|echo| is_before(echo, clock(sent.sent_at)));
                if !needless {
                    self.rack.on_delivered(now, &sent, self.rtt.smallest());
                    if let Some(quic) = &mut self.quic {
                        quic.on_delivered(now, &sent, self.rtt.smallest());
                    }
                }
            }
            if let Some(snapshot) = sent.snapshot.take() {
                self.rate
                    .on_delivered(sent.sent_at, snapshot, &mut ack.rate);
            }
        }
        ack.reneging = self.sack && self.board.front().is_some_and(|first| first.sacked);
        // Karn: no sample if a part was retransmitted, RFC 6298 §3. The timestamp gives one then,
        // RFC 7323 §4.
        let since = |at: Option<Nanos>| at.map(|at| now.saturating_sub(at));
        let (mut rtt, mut latest) = if ack.again {
            (None, None)
        } else {
            (since(first), since(last))
        };
        let sacked_rtt = since(ack.first_sacked);
        latest = since(ack.last_sacked).or(latest);
        rtt = rtt.or(sacked_rtt);
        if let (None, Some(echo), true) = (rtt, self.echo, ack.acked > 0)
            && let Some(time) = since_echo(now, echo)
        {
            (rtt, latest) = (Some(time), Some(time));
        }
        ack.rtt = latest;
        ack.maybe_delayed = ack.acked == 1
            && !ack.again
            && !ack.sacked
            && !ack.duplicate
            && had_sacked == 0
            && self.una - ack.prior_una < u64::from(self.mss)
            && ack.rate.prior_delivered() + 1 == self.rate.delivered;
        if let Some(rtt) = rtt {
            if let Some(latest) = latest {
                self.rtt.sample_smallest(now, latest);
                self.latest_rtt = Some(latest);
            }
            self.rtt.sample(rtt, self.una, self.next);
            self.window_probes = 0;
        }
        if ack.acked > 0 {
            ack.restart_timer = true;
            if !self.sack {
                self.remove_duplicates(ack.acked);
                // Without SACK, the acknowledgement may be for the retransmission.
                ack.original &= !ack.again;
            } else if reordered < prior_highest {
                self.note_reordering(reordered);
            }
        } else if let (Some(front), Some(rtt)) = (self.board.front(), sacked_rtt) {
            // Not if the sample comes from segments that were sent before the first one was sent
            // again. That would delay its timeout again and again.
            ack.restart_timer = rtt > now.saturating_sub(front.sent_at);
        }
        if ack.acked > 0 || ack.sacked {
            let newly = ack
                .acked
                .saturating_sub(had_sacked.saturating_sub(self.board.sacked_out));
            let sample = self.sample(newly + ack.delivered, 0, ack);
            self.cc.on_acked(now, &sample, &mut self.window);
        }
    }

    fn sample(&self, acked: u32, lost: u32, ack: &Ack) -> AckSample {
        AckSample {
            acked,
            acked_cumulatively: ack.acked,
            marked: match ack.marked {
                Some(marked) => marked.min(acked),
                None if ack.ece => acked,
                None => 0,
            },
            lost,
            tx_in_flight: ack.rate.in_flight(),
            lost_since: ack.rate.lost_since(self.rate.lost),
            rtt: ack.rtt,
            srtt: self.rtt.smoothed(),
            in_flight: self.board.in_flight(),
            prior_in_flight: ack.prior_in_flight,
            delivered: self.rate.delivered,
            lost_total: self.rate.lost,
            prior_delivered: ack.rate.prior_delivered(),
            delivered_over: ack.rate.over.map(|(segments, _)| segments),
            interval: ack.rate.over.map_or(0, |(_, interval)| interval),
            app_limited: ack.rate.app_limited(),
            cwnd_limited: self.is_window_used(),
            state: self.state,
            maybe_delayed: ack.maybe_delayed,
            paced: self.is_paced(),
            next_departure: self.pacer.burst_at(),
            snd_nxt: self.next,
            snd_una: self.una,
        }
    }

    /// Moves the window (`tcp_cong_control`).
    fn control(&mut self, now: Nanos, delivered: u32, lost: u32, mut ack: Ack) {
        let smallest = self.rtt.smallest();
        self.rate
            .complete(now, delivered, smallest, self.reneged, &mut ack.rate);
        let sample = self.sample(delivered, lost, &ack);
        self.controlled = self.cc.control(now, &sample, &mut self.window);
        if !self.controlled {
            // With much reordering the window grows on selective acknowledgements too.
            let progress = ack.acked > 0 || ack.sacked && self.reordering > REORDERING;
            if self.in_reduction() {
                // QUIC reduces the window when recovery begins.
                if self.quic.is_none() {
                    self.reduce(delivered, lost, ack.una_advanced);
                }
            } else if progress {
                self.cc.cong_avoid(now, &sample, &mut self.window);
                self.window_moved(now);
            }
        }
        // Linux's algorithms check the bound here: not while losses are repaired, and only if the
        // window is in use.
        let moved = self.controlled || !self.in_reduction() && sample.cwnd_limited;
        if let Some(clamp) = self.clamp.filter(|_| moved) {
            self.window.cwnd = self.window.cwnd.min(clamp);
        }
        self.window.cwnd = self.window.cwnd.max(1);
        self.update_pacing();
    }

    /// PRR: the window while losses are repaired.
    pub(super) fn reduce(&mut self, delivered: u32, lost: u32, una_advanced: bool) {
        let progress = Progress {
            delivered,
            lost,
            una_advanced,
            in_flight: self.board.in_flight(),
        };
        let ssthresh = self.window.ssthresh;
        if let Some(cwnd) = self.reduction.window(self.recovery, ssthresh, progress) {
            self.window.cwnd = cwnd;
        }
    }
}

/// Whether a timestamp is before another, RFC 7323 §5.2.
pub(super) fn is_before(timestamp: u32, other: u32) -> bool {
    timestamp != other && other.wrapping_sub(timestamp) < u32::MAX / 2
}
