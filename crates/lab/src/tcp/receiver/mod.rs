//! The receiving half of a connection: it puts data in order, and decides when to acknowledge.
//!
//! If the application reads at once, the window is always all it may be: Linux's grows from
//! 64 kB; here only the acknowledgements follow that growth. Not modelled: PAWS (sequence numbers
//! here do not wrap).

mod echo;
mod growth;
mod merge;
mod reading;
mod sacks;

use tidegate_limiter::{Nanos, prefetch_between};
use tidegate_trace::wire::Timestamps;

use super::{Sacks, Segment, TcpConfig};
use crate::MILLISECOND;
use echo::MarkEcho;
use growth::Growth;
use merge::Merge;
use reading::Reading;
use sacks::SackList;

#[cfg(test)]
mod tests;

/// Acknowledgements sent at once at the beginning, and after signs of trouble (Linux
/// `TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;
/// Acknowledgements sent at once after a mark.
const AFTER_MARK: u32 = 2;
/// The assumed length of a full segment until one is seen (Linux `TCP_MSS_DEFAULT`).
const SMALL_MSS: u32 = 536;
/// Duplicate acknowledgements that are sent at once for a hole, before further ones are joined
/// (Linux `TCP_FASTRETRANS_THRESH`); the most that are joined (`tcp_comp_sack_nr`); how long they
/// wait at most (`tcp_comp_sack_delay_ns`).
const DUPLICATES_AT_ONCE: u32 = 3;
const MOST_COMPRESSED: u32 = 44;
const COMPRESSED_FOR: Nanos = MILLISECOND;
/// With this many ranges to report, acknowledgements are not joined if one of the ranges would be
/// lost (`TCP_SACK_BLOCKS_EXPECTED`).
const RANGES_HELD: usize = 2;
/// A segment that only asks for an answer gets one at most this often (Linux
/// `tcp_invalid_ratelimit`).
const ANSWER_INTERVAL: Nanos = 500 * MILLISECOND;

/// The receiving half.
///
/// Its fields are in the order in which memory is needed, in lines of 64 bytes: those that losses need, those that
/// every segment needs, and those that segments with data need.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Receiver {
    /// Its last field begins the next line.
    list: SackList,
    /// Next byte expected, and the byte that was last acknowledged.
    next: u64,
    acked: u64,
    /// When a delayed acknowledgement is due.
    due: Option<Nanos>,
    compressed_due: Option<Nanos>,
    /// Ranges of an acknowledgement that is sent before the present state.
    overdue: Option<Box<Sacks>>,

    /// When data last arrived.
    last_data: Option<Nanos>,
    delayed_ack: Nanos,
    /// A duplicate to be reported, RFC 2883.
    duplicate: Option<(u64, u64)>,
    /// The timestamp to echo, RFC 7323 §4.3.
    echo: u32,
    /// Acknowledgements that must be sent at once.
    quick: u32,
    sack: bool,
    timestamps: bool,
    compression: bool,
    /// The application answers what it receives: its data can carry acknowledgements.
    interactive: bool,
    ack_now: bool,

    marks: MarkEcho,
    reading: Reading,
    /// Sequence number of the FIN, once seen.
    fin: Option<u64>,
    compressed: u32,

    /// Duplicate acknowledgements for the hole at `next`, and those that were joined.
    duplicates: u32,
    duplicates_at: u64,
    /// Data behind a hole: ranges in order that do not touch.
    early: Vec<(u64, u64)>,
    growth: Growth,
    /// Length of a full segment.
    full: u32,
    mss: u32,
    window: u32,
    /// Most receivers of the lab merge nothing.
    merge: Option<Box<Merge>>,
    last_answer: Option<Nanos>,
}

impl Receiver {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            sack: config.sack,
            timestamps: config.timestamps,
            window: config.receive_window,
            mss: config.mss.max(1),
            delayed_ack: config.delayed_ack,
            compression: config.ack_compression,
            merge: (config.gro > 0).then(|| Box::new(Merge::new(config.gro))),
            next: 0,
            acked: 0,
            early: Vec::new(),
            list: SackList::default(),
            overdue: None,
            duplicate: None,
            fin: None,
            growth: Growth::new(config.mss, config.receive_window),
            reading: Reading::new(config),
            full: SMALL_MSS.min(config.mss.max(1)),
            quick: 0,
            last_data: None,
            interactive: false,
            ack_now: false,
            due: None,
            duplicates: 0,
            duplicates_at: 0,
            compressed: 0,
            compressed_due: None,
            last_answer: None,
            echo: 0,
            marks: MarkEcho::new(config.marks()),
        }
    }

    /// Asks for the memory that the next segment from the peer needs; it may have data.
    #[inline]
    pub(super) fn prefetch(&self, has_data: bool) {
        prefetch_between(&self.next, &self.duplicates);
        if has_data {
            prefetch_between(&self.duplicates, &self.last_answer);
        }
    }

    /// The peer's SYN arrived.
    pub(super) fn establish(&mut self, syn: &Segment) {
        self.next = syn.seq.saturating_add(1);
        self.acked = self.next;
        self.reading.establish(self.next);
        self.echo = syn.timestamps.map_or(0, |times| times.value);
    }

    /// Takes in a segment. `rtt` and `rto` are those of the sending half.
    pub(super) fn take(&mut self, now: Nanos, segment: &Segment, rtt: Option<Nanos>, rto: Nanos) {
        let Some(merge) = &mut self.merge else {
            return self.see(now, (segment, 1), rtt, rto);
        };
        for (segment, count) in merge.take(now, segment).iter().flatten() {
            self.see(now, (segment, *count), rtt, rto);
        }
    }

    /// What TCP does with a segment, which may be merged of several.
    fn see(
        &mut self,
        now: Nanos,
        (segment, count): (&Segment, u16),
        rtt: Option<Nanos>,
        rto: Nanos,
    ) {
        if let Some(Timestamps { value, .. }) = segment.timestamps
            && segment.seq <= self.acked
            && value.wrapping_sub(self.echo) < u32::MAX / 2
        {
            self.echo = value;
        }
        let (start, mut end) = (segment.seq, segment.end());
        if segment.syn {
            // The peer does not know that the connection is established.
            self.ack_now = true;
            return;
        }
        if start == end {
            // A segment without data from before the window is a probe of it, RFC 9293 §3.8.6.1. It
            // is answered seldom enough that two such connections do not keep each other busy.
            let rested = self
                .last_answer
                .is_none_or(|at| now.saturating_sub(at) >= ANSWER_INTERVAL);
            if start < self.next && rested {
                self.last_answer = Some(now);
                self.ack_now = true;
            }
            return;
        }
        self.duplicate = None;
        let edge = self.reading.edge(self.next);
        // A FIN takes no space.
        let beyond = end.saturating_sub(u64::from(segment.fin)) > edge;
        if end <= self.next {
            // RFC 2883 §4.1: all of it had arrived.
            self.report((start, end));
            self.quicken(QUICK);
        } else if start > edge || start == edge && beyond {
            self.quicken(QUICK);
            self.ack_now = true;
            return;
        } else {
            if beyond {
                end = edge;
            } else if segment.fin {
                self.fin = Some(end - 1);
            }
            self.take_mark(segment, count);
            if start <= self.next {
                if start < self.next {
                    self.report((start, self.next));
                }
                self.take_next(now, end, segment, rto);
                self.grow(segment.payload);
                self.growth.read(now, self.next, rtt);
            } else {
                self.take_early(start, end);
                if self.sack {
                    self.grow(segment.payload);
                }
            }
        }
        self.decide(now, rtt);
    }

    /// The ECN field of a packet and the sender's answer to marks, before its data is taken in.
    fn take_mark(&mut self, segment: &Segment, count: u16) {
        let delayed = self.due.is_some();
        let answer = self.marks.take((segment, count), self.next, delayed);
        if answer.quicken {
            self.quicken(AFTER_MARK);
        }
        self.ack_now |= answer.at_once;
    }

    /// Data in order (`tcp_data_queue`, `tcp_event_data_recv`).
    fn take_next(&mut self, now: Nanos, end: u64, segment: &Segment, rto: Nanos) {
        self.full = self.full.max(segment.payload.min(self.mss));
        // This ends a burst, or what the application wrote. No more may come soon. Linux
        // acknowledges it when the application has read it (`ICSK_ACK_PUSHED`), which happens at
        // once here.
        self.ack_now |= (segment.psh || segment.payload < self.full) && !self.interactive;
        let rested = self.last_data.is_none_or(|at| now.saturating_sub(at) > rto);
        if rested {
            // The sender begins slowly: it needs every acknowledgement.
            self.add_quick(QUICK);
        }
        self.last_data = Some(now);
        self.next = end;
        let filled = !self.early.is_empty();
        let mut taken = 0;
        for &(from, to) in &self.early {
            if from > self.next {
                break;
            }
            if from < end {
                self.duplicate.get_or_insert((from, to.min(end)));
            }
            self.next = self.next.max(to);
            taken += 1;
        }
        self.early.drain(..taken);
        if !self.sack {
            self.duplicate = None;
        }
        // RFC 5681 §4.2: at once when a hole is filled. Linux: when the last hole is filled.
        self.ack_now |= filled && self.early.is_empty();
        self.reading.come(now, self.next);
        self.list.remove_below(self.next);
        // A FIN is answered at once, so that transfers end when they do.
        self.ack_now |= self.fin_received();
    }

    /// Data behind a hole (`tcp_data_queue_ofo`).
    fn take_early(&mut self, start: u64, end: u64) {
        let first = self.early.partition_point(|&(_, to)| to < start);
        let behind = self.early.partition_point(|&(from, _)| from <= end);
        let (mut from, mut to) = (start, end);
        for index in first..behind {
            let (old_from, old_to) = self.early[index];
            // RFC 2883 §4: the overlapping part had arrived. If there are several, the first is
            // reported.
            let overlap = (start.max(old_from), end.min(old_to));
            if overlap.0 < overlap.1 && self.duplicate.is_none() {
                self.report(overlap);
            }
            from = from.min(old_from);
            to = to.max(old_to);
        }
        self.early.splice(first..behind, [(from, to)]);
        if self.compressed > 0 && self.list.position((from, to)) >= RANGES_HELD {
            self.overdue = Some(Box::new(self.sacks()));
            self.compressed = 0;
            self.compressed_due = None;
        }
        self.list.add((from, to));
    }

    fn report(&mut self, range: (u64, u64)) {
        if self.sack {
            self.duplicate = Some(range);
        }
    }

    /// While the window grows, each segment is acknowledged at once (`tcp_grow_window`).
    fn grow(&mut self, payload: u32) {
        if self.growth.take(payload) {
            self.quick |= 1;
        }
    }

    /// Acknowledges every segment at once for a while (`tcp_enter_quickack_mode`).
    fn quicken(&mut self, most: u32) {
        self.add_quick(most);
        self.interactive = false;
    }

    fn add_quick(&mut self, most: u32) {
        let window = self.window / (2 * self.full.max(1));
        self.quick = self
            .quick
            .max(if window == 0 { 2 } else { window.min(most) });
    }

    /// Decides when to acknowledge (`__tcp_ack_snd_check`): RFC 5681 §4.2 with quick
    /// acknowledgements at the beginning. Duplicate ones are joined after the first three.
    fn decide(&mut self, now: Nanos, rtt: Option<Nanos>) {
        if self.next - self.acked > u64::from(self.full)
            || self.quick > 0 && !self.interactive
            || self.ack_now
        {
            self.ack_now = true;
            return;
        }
        if self.early.is_empty() {
            let due = now + self.delayed_ack;
            self.due = Some(self.due.map_or(due, |at| at.min(due)));
            return;
        }
        if self.duplicates_at != self.next {
            self.duplicates_at = self.next;
            self.duplicates = 0;
        }
        let wait = COMPRESSED_FOR.min(rtt.unwrap_or(0) / 20);
        if !self.compression
            || !self.sack
            || wait == 0
            || self.compressed >= MOST_COMPRESSED
            || self.duplicates < DUPLICATES_AT_ONCE
        {
            self.duplicates += 1;
            self.ack_now = true;
            return;
        }
        self.compressed += 1;
        self.compressed_due.get_or_insert(now + wait);
    }

    /// When a delayed acknowledgement is due.
    fn ack_due(&self) -> Option<Nanos> {
        self.due.into_iter().chain(self.compressed_due).min()
    }

    /// When there is something to do.
    pub(super) fn next_timeout(&self) -> Option<Nanos> {
        let reading = self.reading.next_timeout();
        let merged = self.merge.as_ref().and_then(|merge| merge.due());
        [self.ack_due(), reading, merged]
            .into_iter()
            .flatten()
            .min()
    }

    /// A time that [`next_timeout`](Self::next_timeout) returned has come. `rtt` and `rto` are those of the sending half.
    pub(super) fn on_timeout(&mut self, now: Nanos, rtt: Option<Nanos>, rto: Nanos) {
        if let Some((segment, count)) = self.merge.as_mut().and_then(|merge| merge.on_timeout(now))
        {
            self.see(now, (&segment, count), rtt, rto);
        }
        self.ack_now |= self.ack_due().is_some_and(|due| due <= now);
        self.ack_now |= self.reading.on_timeout(now, self.next);
    }

    /// Whether an acknowledgement must be sent now.
    pub(super) fn wants_ack(&self) -> bool {
        self.ack_now || self.overdue.is_some() || self.marks.is_overdue()
    }

    /// The connection must answer, even if it received nothing new.
    pub(super) fn demand_ack(&mut self) {
        self.ack_now = true;
    }

    /// Data is sent. It answers received data if that came just now (`tcp_event_data_sent`).
    pub(super) fn on_data_sent(&mut self, now: Nanos) {
        let recent = |at: Nanos| now.saturating_sub(at) < self.delayed_ack;
        self.interactive |= self.last_data.is_some_and(recent);
    }

    /// Sets the fields that every segment carries. Data segments have no space for selective
    /// acknowledgements, so these are sent separately.
    pub(super) fn fill(&mut self, segment: &mut Segment) {
        segment.ack = self.next;
        segment.window = self.reading.announce(self.next);
        if segment.payload == 0
            && let Some(before) = self.marks.take_overdue()
        {
            (segment.ack, segment.ece) = before;
            return;
        }
        self.marks.fill(segment);
        let has_sacks = self.overdue.is_some() || self.duplicate.is_some() || !self.list.is_empty();
        if segment.payload > 0 && has_sacks {
            return;
        }
        if let Some(sacks) = self.overdue.take() {
            segment.sacks = *sacks;
            return;
        }
        if has_sacks {
            segment.sacks = self.sacks();
        }
        self.duplicate = None;
        self.acked = self.next;
        self.quick = self.quick.saturating_sub(1);
        self.ack_now = false;
        self.due = None;
        self.compressed = 0;
        self.compressed_due = None;
    }

    /// The selective acknowledgements of a segment: a duplicate first (RFC 2883), then the ranges,
    /// the latest first (RFC 2018 §4). Three fit beside timestamps.
    fn sacks(&self) -> Sacks {
        let mut sacks = Sacks::default();
        if self.sack {
            let most = if self.timestamps { 3 } else { 4 };
            let ranges = self.duplicate.iter().chain(self.list.ranges());
            for &(start, end) in ranges.take(most) {
                sacks.push(start..end);
            }
        }
        sacks
    }

    /// The timestamp to echo.
    pub(super) fn echo(&self) -> u32 {
        self.echo
    }

    /// Bytes of payload in order.
    pub(super) fn received(&self) -> u64 {
        self.next.saturating_sub(1 + u64::from(self.fin_received()))
    }

    /// Whether all data of the peer has arrived.
    pub(super) fn fin_received(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }
}
