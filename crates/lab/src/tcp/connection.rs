//! A connection: the handshake, and the link between its two halves.

use tidegate_limiter::{Bytes, Ecn, Nanos, prefetch_between};
use tidegate_trace::wire::Timestamps;

use super::cc::{LossState, Start, Window};
use super::config::Marks;
use super::receiver::Receiver;
use super::sender::{Counts, INITIAL_RTO, MAX_RTO, Outgoing, Outstanding, Sender};
use super::{Algorithm, Segment, TcpConfig};
use crate::MILLISECOND;

/// The value of the timestamp clock, RFC 7323 §5.4: milliseconds. It does not begin at 0, because 0
/// means that there is no echo.
pub(super) fn clock(now: Nanos) -> u32 {
    ((now / MILLISECOND) as u32).wrapping_add(1)
}

/// The time since the peer's echo of the clock was sent, if it has one.
pub(super) fn since_echo(now: Nanos, echo: u32) -> Option<Nanos> {
    let milliseconds = clock(now).wrapping_sub(echo).max(1);
    (echo != 0 && milliseconds < u32::MAX / 2).then(|| Nanos::from(milliseconds) * MILLISECOND)
}

/// The largest window of a SYN, which is not scaled: RFC 7323 §2.2.
const SYN_WINDOW: u32 = 65_535;

/// The state of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A server that has received nothing yet.
    Listening,
    /// This end's SYN must be sent, or acknowledged.
    Opening,
    /// Both SYNs are acknowledged.
    Established,
}

/// The state of a connection at some time, for observers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// The counts so far.
    pub counts: Counts,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `u32::MAX` until the first loss.
    pub ssthresh: u32,
    /// Segments deemed in the network.
    pub in_flight: u32,
    /// Rate that segments are spread at in bytes of payload per second, if they are.
    pub pacing_rate: Option<u64>,
    /// Smoothed round trip.
    pub srtt: Option<Nanos>,
    /// The smallest round trip of the last five minutes.
    pub min_rtt: Option<Nanos>,
    /// The sender's state of loss repair.
    pub state: LossState,
    /// The phase of its congestion control, if that has phases.
    pub phase: Option<&'static str>,
}

/// One end of a TCP connection. It has no clock: time is passed in and must not go back. After
/// every call with `now`, take segments from [`poll_transmit`](Self::poll_transmit) until there
/// are none, and call [`on_timeout`](Self::on_timeout) when
/// [`next_timeout`](Self::next_timeout) comes.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Connection {
    phase: Phase,
    client: bool,
    timestamps: bool,
    marks: Option<Marks>,
    window: u32,
    /// For the SYN: when it was first sent, how often it was sent again, and when it must be sent.
    syn_due: bool,
    syn_losses: u32,
    syn_timeout: Option<(Nanos, Nanos)>,
    syn_sent: Option<Nanos>,
    /// It was sent again, for its timer or because the peer's came again.
    syn_again: bool,
    /// The code of accurate ECN for the peer's SYN.
    syn_ecn: u64,
    sender: Sender,
    receiver: Receiver,
}

impl Connection {
    /// The end that opens the connection.
    pub fn client(config: &TcpConfig, now: Nanos) -> Self {
        Self::new(config, now, true)
    }

    /// The end that waits for the other.
    pub fn server(config: &TcpConfig, now: Nanos) -> Self {
        Self::new(config, now, false)
    }

    /// Begins its congestion control again, before anything is sent: the seed is for what is random
    /// in it (the phase in which BBR begins to probe). Give each connection another seed, or they
    /// probe in step.
    pub fn start(mut self, algorithm: Algorithm, start: Start) -> Self {
        self.sender.start(algorithm, start);
        self
    }

    fn new(config: &TcpConfig, now: Nanos, client: bool) -> Self {
        Self {
            phase: if client {
                Phase::Opening
            } else {
                Phase::Listening
            },
            client,
            timestamps: config.timestamps,
            marks: config.marks(),
            window: config.receive_window,
            sender: Sender::new(config, now),
            receiver: Receiver::new(config),
            syn_due: client,
            syn_sent: None,
            syn_again: false,
            syn_losses: 0,
            syn_timeout: None,
            syn_ecn: 0,
        }
    }

    /// Asks for the memory that the next segment needs, at an end that mostly sends or mostly receives data.
    #[inline]
    pub(crate) fn prefetch(&self, sends: bool) {
        prefetch_between(self, &self.sender);
        self.sender.prefetch(sends);
        self.receiver.prefetch(!sends);
    }

    /// Asks for the memory of the segments that are acknowledged next. Those of the connection itself must be there.
    #[inline]
    pub(crate) fn prefetch_sent(&self) {
        self.sender.prefetch_sent();
    }

    /// The application gives these bytes more; `u64::MAX / 2` do not end.
    pub fn write(&mut self, now: Nanos, bytes: Bytes) {
        self.sender.write(now, bytes);
    }

    /// The application has no more data: a FIN follows.
    pub fn close(&mut self, _now: Nanos) {
        self.sender.close();
    }

    /// A segment arrives.
    pub fn on_segment(&mut self, now: Nanos, segment: &Segment) {
        match self.phase {
            Phase::Listening if segment.syn => {
                self.receiver.establish(segment);
                self.syn_ecn = match segment.ecn {
                    Ecn::NotEct => 0b010,
                    Ecn::Ect1 => 0b011,
                    Ecn::Ect0 => 0b100,
                    Ecn::Ce => 0b110,
                };
                // Until the answer is acknowledged, the window of the SYN counts.
                self.phase = Phase::Opening;
                self.syn_due = true;
            }
            Phase::Listening => {}
            Phase::Opening => self.on_opening(now, segment),
            Phase::Established => self.on_established(now, segment),
        }
    }

    fn on_opening(&mut self, now: Nanos, segment: &Segment) {
        let acknowledges = self.syn_sent.is_some() && segment.ack == 1;
        if self.client {
            if !(segment.syn && acknowledges) {
                return;
            }
            self.receiver.establish(segment);
            self.receiver.demand_ack();
        } else if segment.syn {
            self.syn_due = true;
            return;
        } else if !acknowledges {
            return;
        }
        self.phase = Phase::Established;
        self.syn_due = false;
        self.syn_timeout = None;
        // Karn, RFC 6298 §3: a SYN that was sent twice gives no round trip, unless the timestamp tells which of them was
        // answered, RFC 7323 §4 (`tcp_synack_rtt_meas`, `tcp_ack_update_rtt`).
        let rtt = match (self.syn_sent, segment.timestamps) {
            (sent, _) if !self.syn_again => sent.map(|at| now.saturating_sub(at)),
            (_, times) => times.and_then(|times| since_echo(now, times.echo)),
        };
        self.sender
            .establish(now, segment.window, rtt, self.syn_losses);
        if !self.client {
            self.on_established(now, segment);
        }
    }

    fn on_established(&mut self, now: Nanos, segment: &Segment) {
        // Nothing else in it counts. Linux answers only one in half a second, which would matter to attacks alone.
        if !segment.syn && !self.sender.accepts(segment.ack) {
            self.receiver.demand_ack();
            return;
        }
        if !segment.syn {
            self.sender.take_ack(now, segment);
        }
        let (rtt, rto) = (self.sender.smoothed_rtt(), self.sender.rto());
        self.receiver.take(now, segment, rtt, rto);
    }

    /// The time that [`next_timeout`](Self::next_timeout) returned has come, or has passed.
    pub fn on_timeout(&mut self, now: Nanos) {
        if let Some((at, wait)) = self.syn_timeout.filter(|&(at, _)| at <= now) {
            // RFC 6298 §5.5 for the SYN.
            let wait = wait.saturating_mul(2).min(MAX_RTO);
            self.syn_timeout = Some((at.max(now) + wait, wait));
            self.syn_losses = self.syn_losses.saturating_add(1);
            self.syn_due = true;
        }
        self.sender.on_timeout(now);
        let (rtt, rto) = (self.sender.smoothed_rtt(), self.sender.rto());
        self.receiver.on_timeout(now, rtt, rto);
    }

    /// Acts if the time has come. Returns whether data came, which a host held back for others to merge with, or nothing if it is too early.
    pub(crate) fn on_due(&mut self, now: Nanos) -> Option<bool> {
        self.next_timeout().filter(|&at| at <= now)?;
        let before = self.received();
        self.on_timeout(now);
        Some(self.received() != before)
    }

    /// The earliest time at which it must act without an arriving segment.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let syn = self.syn_timeout.map(|(at, _)| at);
        let halves = [
            syn,
            self.sender.next_timeout(),
            self.receiver.next_timeout(),
        ];
        halves.into_iter().flatten().min()
    }

    /// The next segment to be sent now, if there is one.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Segment> {
        let mut segment = Segment::default();
        self.transmit(now, &mut segment).then_some(segment)
    }

    /// As [`poll_transmit`](Self::poll_transmit), but the segment is written where it will be, for a copy of what was
    /// just written takes long. Returns whether there is one.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if self.phase != Phase::Established {
            let syn = self.transmit_syn(now);
            syn.inspect(|syn| *segment = *syn);
            return syn.is_some();
        }
        if let Some(outgoing) = self.sender.transmit(now) {
            self.complete(now, outgoing, segment);
            return true;
        }
        if !self.receiver.wants_ack() {
            return false;
        }
        segment.clear();
        segment.seq = self.sender.next_seq();
        segment.timestamps = self.timestamps(now);
        segment.ecn = self.ecn(false);
        self.receiver.fill(segment);
        true
    }

    fn complete(&mut self, now: Nanos, outgoing: Outgoing, segment: &mut Segment) {
        segment.clear();
        segment.seq = outgoing.seq;
        segment.payload = outgoing.payload;
        segment.fin = outgoing.fin;
        segment.psh = outgoing.psh;
        segment.again = outgoing.again;
        segment.timestamps = self.timestamps(now);
        segment.ecn = self.ecn(outgoing.payload > 0 && !outgoing.again);
        segment.cwr = outgoing.cwr;
        self.receiver.on_data_sent(now);
        self.receiver.fill(segment);
        self.sender.on_packet(now, segment.ip_bytes());
    }

    fn transmit_syn(&mut self, now: Nanos) -> Option<Segment> {
        if !std::mem::take(&mut self.syn_due) {
            return None;
        }
        let again = self.syn_sent.is_some();
        self.syn_sent.get_or_insert(now);
        self.syn_again = again;
        self.syn_timeout
            .get_or_insert((now + INITIAL_RTO, INITIAL_RTO));
        let mut segment = Segment {
            syn: true,
            window: self.window.min(SYN_WINDOW),
            timestamps: self.timestamps(now),
            // Both ends agree to use it, RFC 3168 §6.1.1.
            ecn: self.ecn(false),
            ece: self.marks.is_some(),
            cwr: self.marks.is_some() && self.client,
            again,
            ..Segment::default()
        };
        let accurate = self.marks.is_some_and(|marks| marks.accurate);
        if self.client {
            segment.ae = accurate;
        } else {
            self.receiver.fill(&mut segment);
            segment.ece = self.marks.is_some();
            if accurate {
                // How its SYN arrived, RFC 9768 §3.1.2 table 2.
                segment.set_ace(self.syn_ecn);
            }
            segment.window = self.window.min(SYN_WINDOW);
        }
        Some(segment)
    }

    /// The ECN field of a segment, which may have new data: only that has it as a rule, RFC 3168 §6.1.4 and §6.1.5.
    fn ecn(&self, new_data: bool) -> Ecn {
        let marks = self.marks.filter(|marks| marks.every || new_data);
        marks.map_or(Ecn::NotEct, |marks| marks.ect)
    }

    fn timestamps(&self, now: Nanos) -> Option<Timestamps> {
        self.timestamps.then(|| Timestamps {
            value: clock(now),
            echo: self.receiver.echo(),
        })
    }

    /// Bounds the congestion window to this many segments, or removes the bound, as Linux does for eBPF
    /// (`TCP_BPF_SNDCWND_CLAMP`): the threshold of slow start changes with it.
    pub fn clamp(&mut self, segments: Option<u32>) {
        self.sender.clamp(segments);
    }

    /// Spreads segments over the round trip, at no more than this many bytes of payload per second (Linux
    /// `SO_MAX_PACING_RATE`).
    pub fn pace(&mut self, most: u64) {
        self.sender.pace(most);
    }

    /// Largest payload of a segment in bytes.
    pub fn mss(&self) -> u32 {
        self.sender.mss()
    }

    /// Bytes of the application that were not sent yet.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Bytes of payload received in order, whether the application has read them or not.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Bytes of payload sent and acknowledged.
    pub fn acked(&self) -> u64 {
        self.sender.acked()
    }

    /// Whether the handshake is done.
    pub fn established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Whether this end was closed, and all its data is acknowledged.
    pub fn finished(&self) -> bool {
        self.sender.is_finished()
    }

    /// Whether all data of the other end has arrived.
    pub fn peer_finished(&self) -> bool {
        self.receiver.fin_received()
    }

    /// The latest round trip since the previous call.
    pub fn take_rtt(&mut self) -> Option<Nanos> {
        self.sender.take_rtt()
    }

    /// The state of the sending half.
    pub fn snapshot(&self) -> Snapshot {
        let &Window { cwnd, ssthresh, .. } = self.sender.window();
        Snapshot {
            counts: self.sender.counts(),
            cwnd,
            ssthresh,
            in_flight: self.sender.in_flight(),
            pacing_rate: self.sender.pacing_rate(),
            srtt: self.sender.smoothed_rtt(),
            min_rtt: self.sender.smallest_rtt(),
            state: self.sender.state(),
            phase: self.sender.phase(),
        }
    }

    /// The segments that are not acknowledged, for comparisons with Linux.
    pub fn outstanding(&self) -> Outstanding {
        self.sender.outstanding()
    }

    /// Compares the sender's counts with its marks.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.sender.check();
    }
}
