//! A path and a greedy sender, just enough to drive an algorithm. It is for tests only, and written
//! separately from the sender of this crate, so that the two cannot share an error.
//!
//! Segments are numbered as they are sent. A lost segment counts as sent again under a new number.
//! Each segment is acknowledged separately, and three later acknowledged segments mean a loss.

use std::collections::VecDeque;

use tidegate_limiter::Nanos;

use super::{AckSample, CongestionControl, LossState, LostSegment, Start, Window, micros};
use crate::random::{Owner, Random};
use crate::tcp::Algorithm;
use crate::{MILLISECOND, SECOND};

/// Bytes of a segment.
pub(super) const MSS: u32 = 1448;

/// The bottleneck of the path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bottleneck {
    /// A link with a queue, in segments: the time for one segment, and the number that may wait.
    Link { service: Nanos, queue: u64 },
    /// A token bucket: the time in which a token comes, and the largest number of tokens.
    Policer { token: Nanos, depth: u64 },
}

#[derive(Debug)]
struct Flying {
    acked: bool,
    sent_at: Nanos,
    first_sent: Nanos,
    delivered: u64,
    delivered_at: Nanos,
    /// In flight with it, and lost before it.
    in_flight: u32,
    lost: u64,
}

/// The sender and its path.
#[derive(Debug)]
pub(super) struct Path {
    pub cc: CongestionControl,
    pub window: Window,
    pub now: Nanos,
    pub in_flight: u32,
    pub delivered: u64,
    pub lost: u64,
    pub state: LossState,
    bottleneck: Bottleneck,
    /// The share of segments that are lost at random.
    loss: f64,
    random: Random,
    rtt: Nanos,
    /// When the link is free, or when the bucket was empty.
    busy: Nanos,
    acks: VecDeque<(Nanos, u64)>,
    /// Segments from `una` on; `None` once lost.
    flight: VecDeque<Option<Flying>>,
    una: u64,
    recovery_end: u64,
    next_departure: Nanos,
    last_ack: Nanos,
    first_sent: Nanos,
    delivered_at: Nanos,
    srtt: Option<Nanos>,
    min_rtt: Nanos,
}

impl Path {
    pub(super) fn new(algorithm: Algorithm, bottleneck: Bottleneck, rtt: Nanos) -> Self {
        let mut cc = CongestionControl::new(
            algorithm,
            Start {
                mss: MSS,
                now: 0,
                seed: 1,
            },
        );
        let mut window = Window {
            cwnd: 10,
            ssthresh: u32::MAX,
            pacing_rate: None,
        };
        cc.on_established(0, Some(rtt), &mut window);
        Self {
            cc,
            window,
            now: SECOND,
            in_flight: 0,
            delivered: 0,
            lost: 0,
            state: LossState::Open,
            bottleneck,
            loss: 0.0,
            random: Random::new(1, Owner::Hash),
            rtt,
            busy: 0,
            acks: VecDeque::new(),
            flight: VecDeque::new(),
            una: 0,
            recovery_end: 0,
            next_departure: 0,
            last_ack: 0,
            first_sent: 0,
            delivered_at: 0,
            srtt: None,
            min_rtt: Nanos::MAX,
        }
    }

    /// From now on this share of the segments is lost at random.
    pub(super) fn lose(&mut self, probability: f64) {
        self.loss = probability;
    }

    /// Segments waiting at the link.
    pub(super) fn queued(&self) -> u64 {
        match self.bottleneck {
            Bottleneck::Link { service, .. } => {
                self.busy.saturating_sub(self.now).div_ceil(service)
            }
            Bottleneck::Policer { .. } => 0,
        }
    }

    /// Continues until a time from the start, and calls `seen` after each acknowledgement.
    pub(super) fn run(&mut self, until: Nanos, mut seen: impl FnMut(&Self)) {
        let until = SECOND + until;
        loop {
            self.send();
            let paced = self.in_flight < self.window.cwnd;
            let departure = if paced {
                self.next_departure
            } else {
                Nanos::MAX
            };
            let ack = self.acks.front().map_or(Nanos::MAX, |ack| ack.0);
            let timeout = self.last_ack.max(self.now.min(self.first_sent)) + SECOND;
            let next = departure.min(ack).min(timeout);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now);
            if ack == next {
                let (_, number) = self.acks.pop_front().unwrap();
                self.acknowledge(number);
                seen(self);
            } else if timeout == next {
                self.time_out();
            }
        }
    }

    fn send(&mut self) {
        while self.in_flight < self.window.cwnd && self.next_departure <= self.now {
            if self.in_flight == 0 {
                self.first_sent = self.now;
                self.delivered_at = self.now;
                self.last_ack = self.now;
            }
            let number = self.una + self.flight.len() as u64;
            self.flight.push_back(Some(Flying {
                acked: false,
                sent_at: self.now,
                first_sent: self.first_sent,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                in_flight: self.in_flight + 1,
                lost: self.lost,
            }));
            self.in_flight += 1;
            let gone = self.loss > 0.0 && self.random.chance(self.loss);
            if let Some(at) = self.pass().filter(|_| !gone) {
                self.acks.push_back((at + self.rtt, number));
            }
            if let Some(rate) = self.window.pacing_rate {
                let gap = u64::from(MSS) * SECOND / rate;
                self.next_departure = self.next_departure.max(self.now) + gap;
            }
        }
    }

    /// When a segment sent now leaves the bottleneck, if it does.
    fn pass(&mut self) -> Option<Nanos> {
        match self.bottleneck {
            Bottleneck::Link { service, queue } => {
                if self.queued() > queue {
                    return None;
                }
                self.busy = self.busy.max(self.now) + service;
                Some(self.busy)
            }
            Bottleneck::Policer { token, depth } => {
                // The bucket holds the tokens since it was empty.
                let empty = self.busy.max(self.now.saturating_sub(token * depth));
                if self.now - empty < token {
                    return None;
                }
                self.busy = empty + token;
                Some(self.now)
            }
        }
    }

    fn acknowledge(&mut self, number: u64) {
        // Acknowledges a segment that a timeout marked as lost.
        let Some(place) = number.checked_sub(self.una) else {
            return;
        };
        let Some(segment) = self.flight[place as usize].as_mut() else {
            return;
        };
        let prior_in_flight = self.in_flight;
        segment.acked = true;
        self.delivered += 1;
        self.in_flight -= 1;
        let rtt = self.now - segment.sent_at;
        let send_phase = segment.sent_at - segment.first_sent;
        let interval = send_phase.max(self.now - segment.delivered_at);
        let prior_delivered = segment.delivered;
        let (tx_in_flight, lost_before) = (segment.in_flight, segment.lost);
        self.first_sent = segment.sent_at;
        self.delivered_at = self.now;
        self.last_ack = self.now;
        self.min_rtt = self.min_rtt.min(rtt);
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| srtt - srtt / 8 + rtt / 8));
        let lost = self.find_lost(place as usize);
        self.settle();
        let mut sample = AckSample {
            acked: 1,
            acked_cumulatively: 1,
            lost,
            tx_in_flight,
            lost_since: (self.lost - lost_before) as u32,
            rtt: Some(rtt),
            srtt: self.srtt,
            in_flight: self.in_flight,
            prior_in_flight,
            delivered: self.delivered,
            lost_total: self.lost,
            prior_delivered,
            delivered_over: (interval >= self.min_rtt)
                .then(|| (self.delivered - prior_delivered) as u32),
            interval,
            cwnd_limited: true,
            next_departure: self.next_departure,
            snd_nxt: self.una + self.flight.len() as u64,
            snd_una: self.una,
            ..AckSample::default()
        };
        self.cc.on_acked(self.now, &sample, &mut self.window);
        if lost > 0 && self.state == LossState::Open {
            self.window.ssthresh = self.cc.ssthresh(self.now, &self.window);
            self.set_state(LossState::Recovery);
            self.recovery_end = sample.snd_nxt;
            if !matches!(
                self.cc,
                CongestionControl::Bbr(_) | CongestionControl::Bbr3(_)
            ) {
                self.window.cwnd = self.window.ssthresh;
            }
        } else if self.state != LossState::Open && self.una >= self.recovery_end {
            self.set_state(LossState::Open);
        }
        sample.state = self.state;
        if !self.cc.control(self.now, &sample, &mut self.window)
            && self.state != LossState::Recovery
        {
            self.cc.cong_avoid(self.now, &sample, &mut self.window);
        }
    }

    fn set_state(&mut self, state: LossState) {
        self.cc.on_state(self.now, state, &mut self.window);
        self.state = state;
    }

    fn find_lost(&mut self, acked: usize) -> u32 {
        let mut lost = 0;
        for segment in self.flight.iter_mut().take(acked.saturating_sub(2)) {
            if let Some(gone) = segment.take_if(|segment| !segment.acked) {
                lost += 1;
                self.lost += 1;
                let gone = LostSegment {
                    tx_in_flight: gone.in_flight,
                    lost_since: (self.lost - gone.lost) as u32,
                    delivered: self.delivered,
                    app_limited: false,
                };
                self.cc.on_segment_lost(self.now, &gone, &self.window);
            }
        }
        self.in_flight -= lost;
        lost
    }

    /// Removes segments that were acknowledged or lost.
    fn settle(&mut self) {
        while let Some(front) = self.flight.front() {
            if front.as_ref().is_some_and(|segment| !segment.acked) {
                break;
            }
            self.flight.pop_front();
            self.una += 1;
        }
    }

    fn time_out(&mut self) {
        self.last_ack = self.now;
        self.lost += u64::from(self.in_flight);
        self.in_flight = 0;
        self.una += self.flight.len() as u64;
        self.flight.clear();
        self.cc.on_lost(self.lost);
        self.window.ssthresh = self.cc.ssthresh(self.now, &self.window);
        self.window.cwnd = 1;
        self.set_state(LossState::Loss);
        self.recovery_end = self.una;
    }

    /// The pacing rate in segments per second.
    pub(super) fn paced(&self) -> f64 {
        self.window.pacing_rate.unwrap() as f64 / f64::from(MSS)
    }

    /// Milliseconds since the start.
    pub(super) fn elapsed(&self) -> u64 {
        micros(self.now - SECOND) * 1000 / MILLISECOND
    }
}
