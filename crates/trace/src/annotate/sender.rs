//! One direction of a flow: the data that one endpoint sends, followed packet by packet.

mod spurious;

use std::mem::take;

use super::board::Board;
use super::brief::Brief;
use super::congestion::Congestion;
use super::early::Early;
use super::edges::Edges;
use super::holes::{ACKED_AHEAD, Filled, Holes, Lost, Missing, Place};
use super::log::{Log, Number};
use super::sent::{Marks, Sent};
use crate::read::Nanos;
use crate::wire::{Packet, SackBlock};

/// An acknowledgement so far beyond all data seen is damage, not data that the capture missed.
const MAX_UNSEEN: u64 = 1 << 30;

/// A pause is the application's if it takes more round trips than this.
const PAUSE_ROUNDS: u64 = 4;

/// What a packet's payload turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// None.
    None,
    /// Bytes not sent before (some of them at least).
    New,
    /// Bytes sent before, or missed by the capture when they were.
    Old,
    /// A keepalive or a zero-window probe: no data, and no loss if it repeats.
    Probe,
}

/// What an acknowledgement moved, in stream positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// The cumulative acknowledgement before.
    pub from: u64,
    /// And now.
    pub to: u64,
    /// Bytes acknowledged that the capture never saw sent.
    pub unseen: u64,
}

/// What an acknowledgement covered before it was captured.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    from: u64,
    to: u64,
    at: Nanos,
}

/// What is known of a data packet's place on the path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// How long before it the timestamp that it echoes passed the capture.
    pub echo: Brief,
    /// The least round-trip time from end to end, and the latest.
    pub round_trip: Option<Nanos>,
    pub latest_round_trip: Option<Nanos>,
}

/// Follows what one endpoint sends.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// Everything below was sent; 0 while no sequence number is known.
    max: u64,
    /// Everything below was acknowledged.
    una: u64,
    /// Bytes acknowledged in any way since the flow began.
    delivered: u64,
    /// The receiver's window in bytes, where its scale is known.
    window: Option<u64>,
    /// The payload of a full packet.
    full: u64,
    pub log: Log,
    board: Board,
    /// Nothing from here on was sent more than once.
    repeated_to: u64,
    /// Since when the receiver's window has been full, and for how long it was in all.
    window_full_since: Option<Nanos>,
    pub window_limited: Nanos,
    /// Since when nothing is in flight and the window leaves no room, and for how long before more data
    /// came.
    shut_since: Option<Nanos>,
    shut: Nanos,
    /// Since when nothing is in flight, and for how long in all while data followed.
    idle_since: Option<Nanos>,
    pub idle: Nanos,
    /// Whether the stream's end was seen.
    pub fin: bool,
    pub holes: Holes,
    /// Packets that were lost before they came to the capture.
    pub missing: Vec<Missing>,
    ahead: Ahead,
    early: Early,
    congestion: Congestion,
    /// Where the capture is not at the sender: what the sender knew to be acknowledged when it sent the
    /// last packet.
    pub known: Option<u64>,
    /// And up to where the receiver's window let it send.
    pub edges: Edges,
    /// Where the capture is not at the sender: the least round-trip time between both.
    pub away: Nanos,
}

impl Sender {
    /// The sequence number as a position in the stream.
    ///
    /// 32 bits name the position nearest to the last one sent: half the number space either way
    /// (RFC 9293 §3.4). The stream starts at 2^32 or above, so that nothing underflows.
    #[inline]
    pub fn position(&self, seq: u32) -> u64 {
        if self.max == 0 {
            return 1 << 32 | u64::from(seq);
        }
        let step = seq.wrapping_sub(self.max as u32) as i32;
        self.max.wrapping_add_signed(i64::from(step)).max(1)
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    pub fn una(&self) -> u64 {
        self.una
    }

    /// Bytes acknowledged by an acknowledgement of this position, and selectively before beyond it.
    #[inline]
    pub fn acked_by(&self, to: u64) -> u64 {
        to.saturating_add(self.board.sacked_from(to))
    }

    /// What is kept, in packets. The history of stretches outlives the packets, and hostile
    /// selective acknowledgements can leave more ranges than there are packets.
    pub fn kept(&self) -> usize {
        self.log.len().max(self.board.parts()) + self.holes.len() + self.missing.len()
    }

    /// Whether all that was sent is acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.una >= self.max
    }

    /// Bytes sent and neither acknowledged nor selectively acknowledged.
    #[inline]
    fn flying(&self) -> u64 {
        if let Some(known) = self.known {
            return self.max.saturating_sub(known);
        }
        (self.max - self.una.min(self.max)).saturating_sub(self.board.sacked_bytes())
    }

    /// Takes the first sequence number that is seen as the position of the stream.
    pub fn begin(&mut self, position: u64) {
        if self.max == 0 {
            self.max = position;
            self.una = position;
        }
    }

    /// What a packet's payload is; `position` is that of its first byte.
    #[inline]
    pub fn classify(&self, position: u64, payload: u32) -> Payload {
        let end = position + u64::from(payload);
        if payload == 0 {
            Payload::None
        } else if payload == 1 && (self.window == Some(0) || (end == self.una && self.is_quiet())) {
            // A byte into a closed window, or the byte before the next (RFC 9293 §3.8.6.1,
            // RFC 1122 §4.2.3.6).
            Payload::Probe
        } else if end > self.max {
            Payload::New
        } else {
            Payload::Old
        }
    }

    /// A data packet was sent, in wire packets of at most `mss` bytes. Returns how many bytes more
    /// the capture has missed: those between what was sent before and this packet, or fewer than
    /// none where it fills a gap.
    #[inline]
    pub fn send(&mut self, packet: &Packet, position: u64, mss: u32, seen: Seen) -> i64 {
        let now = packet.at;
        self.early.bound(seen.round_trip);
        self.holes.expire(now);
        self.account_window(now);
        self.open(now);
        self.window_limited = self.window_limited.saturating_add(take(&mut self.shut));
        if let Some(since) = self.idle_since.take() {
            // The acknowledgement and the data were on their way meanwhile. Behind a queue that takes
            // longer than the least: a pause tells of the application where it is much longer.
            let pause = now.saturating_sub(since);
            if pause > PAUSE_ROUNDS * self.away {
                self.idle = self.idle.saturating_add(pause - self.away);
            }
        }
        let mut unseen = position.saturating_sub(self.max) as i64;
        let tsval = packet.options.timestamps.map_or(0, |times| times.value);
        if unseen > 0
            && let Some(before) = self.log.last()
        {
            let (from, number) = (before.at, self.log.next());
            let hole = (self.max, position);
            self.holes.open(hole, from, now, number, tsval);
        }
        let mut seen = seen;
        let mut seq = position;
        let end = position + u64::from(packet.payload);
        while seq < end {
            let len = (end - seq).min(u64::from(mss)) as u32;
            if self.send_one(now, seq, len, tsval, mss, seen) {
                unseen -= i64::from(len);
            }
            seen.echo = Brief::NONE;
            seq += u64::from(len);
        }
        unseen
    }

    /// Whether it fills a gap that the capture left.
    #[inline]
    fn send_one(
        &mut self,
        at: Nanos,
        seq: u64,
        len: u32,
        tsval: u32,
        mss: u32,
        seen: Seen,
    ) -> bool {
        let end = seq + u64::from(len);
        let fresh = end > self.max;
        let before = self.max;
        self.max = self.max.max(end);
        let flying = self.flying();
        self.full = u64::from(mss);
        let mut marks = Marks::default();
        if self.fills_window(at, flying, before, seen.echo) {
            marks.set(Marks::WINDOW_FULL);
        }
        let number = self.log.push(Sent {
            at,
            acked_at: 0,
            seq,
            delivered: self.delivered,
            len,
            in_flight: u32::try_from(flying).unwrap_or(u32::MAX),
            tsval,
            repeats: 0,
            repeated: 0,
            marks,
            echo: seen.echo,
        });
        if fresh {
            self.board.first(seq.max(before), end, number);
            false
        } else {
            self.send_again(seq, end, number, seen)
        }
    }

    /// Whether the receiver's window left no room for a full packet when this many bytes were in flight.
    fn fills_window(&mut self, at: Nanos, flying: u64, before: u64, echo: Brief) -> bool {
        if self.known.is_none() {
            let full = (self.window).is_some_and(|window| flying + self.full > window);
            self.window_full_since = self.window_full_since.or(full.then_some(at));
            return full;
        }
        self.window_full_since = None;
        if echo.get().is_some() {
            let limited = self.edges.echoed(at, before, self.max, self.full);
            self.window_limited = self.window_limited.saturating_add(limited);
        }
        self.edges.leaves_no_room
    }

    /// Links a retransmission with the packet that it repeats: the last that carried its first
    /// byte. Returns whether there is none, since the packet fills a gap.
    fn send_again(&mut self, seq: u64, end: u64, number: Number, seen: Seen) -> bool {
        let previous = self.board.latest(seq);
        self.board.again(seq, end, number);
        let Ahead { from, to, at } = self.ahead;
        if previous.is_none()
            && (from <= seq && end <= to)
            && let Some(sent) = self.log.get_mut(number)
            && sent.at.abs_diff(at) <= ACKED_AHEAD
        {
            sent.acked_at = sent.at.max(at);
            return true;
        }
        self.repeated_to = self.repeated_to.max(end);
        let mut marks = Marks::LATE;
        let mut fills = previous.is_none() && end > self.una;
        if let Some(previous) = previous {
            let back = number.wrapping_sub(previous);
            marks = Marks::RETRANSMISSION;
            if let Some(sent) = self.log.get_mut(previous) {
                sent.repeated = back;
                if sent.acked_at != 0 {
                    sent.marks.set(Marks::SPURIOUS_ACKED);
                }
            }
            if let Some(sent) = self.log.get_mut(number) {
                sent.repeats = back;
            }
        } else if let Some(&sent) = self.log.get(number) {
            let here = Place {
                at: sent.at,
                before: self.log.next() - 1,
            };
            let (least, latest) = (seen.round_trip, seen.latest_round_trip);
            let filled = self.holes.fill((seq, end), here, sent.tsval, least, latest);
            match filled {
                Some(Filled::Again(lost)) => {
                    self.miss(lost, &sent, here.before);
                    marks = Marks::RETRANSMISSION;
                }
                // Of something too long acknowledged to be remembered.
                None if end <= self.una => marks = Marks::RETRANSMISSION,
                Some(Filled::Late) | None => {}
            }
            fills |= filled.is_some();
        }
        let acknowledged = end <= self.una;
        if let Some(sent) = self.log.get_mut(number) {
            sent.marks.set(marks);
            if fills && acknowledged {
                sent.acked_at = sent.at;
            }
        }
        fills
    }

    /// Remembers what was lost before the retransmission of number `again` came.
    #[cold]
    fn miss(&mut self, lost: Lost, sent: &Sent, again: u64) {
        let silent = lost.silent_since.map(|at| Place {
            at,
            before: self.log.number_at(at).min(again),
        });
        for (place, repetition) in lost.places().chain(silent).zip(0..) {
            self.missing.push(Missing {
                place,
                seq: sent.seq,
                len: sent.len,
                repetition,
                again,
            });
        }
    }

    /// The kept packets before this number are a segment that is done: their fate is certain now. Takes out the missing packets whose
    /// places are there, in their order.
    pub fn take_missing(&mut self, next: u64) -> Vec<Missing> {
        self.early.mark(&mut self.log, next, self.full);
        if self.missing.is_empty() {
            return Vec::new();
        }
        let (mut found, later): (Vec<_>, _) = self
            .missing
            .drain(..)
            .partition(|missing| missing.place.before < next);
        self.missing = later;
        found.retain(|missing| missing.place.before >= self.log.first());
        found.sort_by_key(|missing| (missing.place.before, missing.place.at, missing.seq));
        found
    }

    /// The stream ends at `end`. The FIN takes one sequence number.
    pub fn finish(&mut self, end: u64) {
        if !self.fin {
            self.fin = true;
            self.max = self.max.max(end + 1);
        }
    }

    /// The other endpoint acknowledged. Returns what moved; `None` if nothing that makes sense.
    #[inline]
    pub fn acknowledge(&mut self, packet: &Packet) -> Option<Progress> {
        let now = packet.at;
        let to = self.position(packet.ack);
        if self.max == 0 {
            self.begin(to);
        }
        if to > self.max + MAX_UNSEEN {
            return None;
        }
        let unseen = to.saturating_sub(self.max);
        if unseen > 0 {
            self.ahead = Ahead {
                from: self.max,
                to,
                at: now,
            };
            self.max = to;
        }
        self.holes.expire(now);
        self.account_window(now);
        let sacks = packet.options.sacks.blocks();
        let from = self.una;
        let mut mark = self.congestion.echo(packet, to > from || !sacks.is_empty());
        if !sacks.is_empty() {
            self.selective(now, to, sacks, &mut mark);
        }
        if to > from {
            if self.holes.len() > 0 {
                self.holes.acknowledge(0..to, now);
            }
            let selectively = self.board.sacked_bytes();
            self.una = to;
            let echo = packet
                .options
                .timestamps
                .map(|times| times.echo)
                .filter(|&echo| echo != 0);
            let repeated = from < self.repeated_to;
            let echoed = echo
                .filter(|_| repeated)
                .and_then(|echo| self.judge_by_timestamp(now, from, to, echo));
            let Self { board, log, .. } = self;
            // The latest retransmission so far that it acknowledges: what had been sent before
            // that, and comes behind it, waited for it to fill the hole.
            let mut filled: Option<Number> = None;
            board.acknowledge(to, |number| {
                let waited = filled.is_some_and(|filled| filled.wrapping_sub(number) < 1 << 31);
                log.settle(number, now, take(&mut mark), !waited, echoed);
                if repeated && !waited && log.get(number).is_some_and(Sent::is_retransmission) {
                    filled = Some(number);
                }
            });
            // Bytes that a selective acknowledgement had counted are not counted twice.
            let counted = selectively - self.board.sacked_bytes();
            self.delivered += (to - from).saturating_sub(counted);
            if self.is_quiet() {
                self.idle_since = Some(now);
                // Away from the sender, more is on its way.
                if self.known.is_none() {
                    self.window_full_since = None;
                }
            }
        }
        Some(Progress { from, to, unseen })
    }

    /// Selective acknowledgements, duplicate ones among them. The first packet that is settled gets this mark.
    fn selective(&mut self, now: Nanos, ack: u64, sacks: &[SackBlock], mark: &mut u16) {
        let block = |SackBlock { start, end }: SackBlock| {
            let length = end.wrapping_sub(start);
            let start = self.position(start);
            (start, start + u64::from(length))
        };
        let blocks: [(u64, u64); 4] =
            std::array::from_fn(|i| sacks.get(i).map_or((0, 0), |&raw| block(raw)));
        let blocks = &blocks[..sacks.len()];
        for (i, &(start, end)) in blocks.iter().enumerate() {
            if end <= start || end - start > MAX_UNSEEN {
                continue;
            }
            // RFC 2883 §4: the first block repeats what the acknowledgement or the second covers.
            let within_second = i == 0
                && blocks
                    .get(1)
                    .is_some_and(|&(outer, outer_end)| start >= outer && end <= outer_end);
            if end <= ack || within_second {
                self.duplicate(start, end, end <= ack && start < ack);
                continue;
            }
            let (start, end) = (start.max(self.una), end.min(self.max));
            if start >= end {
                continue;
            }
            if self.holes.len() > 0 {
                self.holes.acknowledge(start..end, now);
            }
            let before = self.board.sacked_bytes();
            let Self { board, log, .. } = self;
            board.sack(start, end, |number| {
                log.settle(number, now, Marks::SACKED | take(mark), true, None)
            });
            self.delivered += self.board.sacked_bytes() - before;
        }
    }

    /// The receiver's window, in bytes; `None` where its scale is not known.
    #[inline]
    pub fn set_window(&mut self, window: Option<u64>, now: Nanos) {
        if self.window_full_since.is_some()
            && self.known.is_none()
            && window.is_none_or(|window| self.flying() + self.full <= window)
        {
            self.account_window(now);
            self.window_full_since = None;
        }
        self.window = window;
        if self.is_quiet() && window.is_some_and(|window| window < self.full) {
            self.shut_since.get_or_insert(now);
        } else {
            self.open(now);
        }
    }

    /// The window leaves room: until now the receiver held the sender back, not the application.
    #[inline]
    fn open(&mut self, now: Nanos) {
        if let Some(since) = self.shut_since.take() {
            self.shut = self.shut.saturating_add(now.saturating_sub(since));
            if let Some(idle) = &mut self.idle_since {
                *idle = now;
            }
        }
    }

    /// Adds the time that the window was full, up to now.
    #[inline]
    fn account_window(&mut self, now: Nanos) {
        if let Some(since) = &mut self.window_full_since {
            let full = now.saturating_sub(*since);
            self.window_limited = self.window_limited.saturating_add(full);
            *since = now;
        }
    }

    /// It has had nothing to send in this segment yet: that is not idleness.
    pub fn forget_idle(&mut self) {
        self.edges.begin();
        self.idle_since = None;
        self.shut_since = None;
        self.shut = 0;
    }
}
