//! One capture, packet by packet, in memory: what is compared with the other.

use std::collections::HashMap;
use std::ops::Range;

use super::record::Record;
use crate::flow::{Counters, Recent, SegmentSize, Span};
use crate::read::Frame;
use crate::wire::{Endpoint, Flags, Packet, decode, interface};

/// Packets that are kept of a capture; what comes later is counted only. With its comparison
/// a packet takes about 140 bytes.
pub const MOST_PACKETS: usize = 4_000_000;

/// The memory of a stream, in packets.
const STREAM_WEIGHT: usize = 4;

/// What the sender of a SYN offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syn {
    pub seq: u32,
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub timestamps: bool,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub src: Endpoint,
    pub dst: Endpoint,
    /// The other direction.
    pub reverse: Option<u32>,
    pub syn: Option<Syn>,
    /// The sequence number of the first packet.
    first: u32,
    pub packets: u64,
    /// Packets that the capture holds twice.
    copies: u64,
    /// Whether its packets carry timestamps.
    pub timestamps: bool,
    /// The largest payload of a wire packet, as this capture alone tells it; 0 without data.
    pub full: u32,
    /// The largest payload seen.
    pub largest: u32,
    size: SegmentSize,
    recent: Recent,
}

/// What a capture holds.
#[derive(Debug)]
pub struct Gathered {
    pub(crate) records: Vec<Record>,
    pub(crate) streams: Vec<Stream>,
    /// The newest stream of each direction between two endpoints.
    current: HashMap<(Endpoint, Endpoint), u32>,
    /// The memory of what copies are found by, in packets.
    recent: usize,
    most: usize,
    pub(crate) counts: Counts,
    counters: Counters,
}

/// What was counted while a capture was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames in the capture.
    pub frames: u64,
    /// TCP packets among them.
    pub tcp: u64,
    /// TCP packets that were not kept, because there were too many.
    pub not_kept: u64,
    /// Packets that the capture holds twice, or in one piece and in parts.
    pub copies: u64,
    /// Super-packets: larger than any wire packet.
    pub super_packets: u64,
    /// When the first and the last TCP packet were captured.
    pub span: Option<Span>,
}

impl Default for Gathered {
    fn default() -> Self {
        Self::new(MOST_PACKETS)
    }
}

impl Gathered {
    /// An empty capture that keeps at most this many packets.
    pub fn new(most: usize) -> Self {
        Self {
            records: Vec::new(),
            streams: Vec::new(),
            current: HashMap::new(),
            recent: 0,
            most,
            counts: Counts::default(),
            counters: Counters::default(),
        }
    }

    /// What became of its frames.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes the next frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.counts.frames += 1;
        self.counters.frames += 1;
        let packet = match decode(frame) {
            Ok(packet) => packet,
            Err(skip) => return self.counters.skip(frame, skip),
        };
        self.counts.tcp += 1;
        self.counters.tcp += 1;
        self.counters.options_cut += u64::from(packet.options.cut);
        self.counters.sliced += u64::from(packet.sliced);
        let kept = self.records.len() + self.streams.len() * STREAM_WEIGHT + self.recent;
        if kept >= self.most {
            self.counts.not_kept += 1;
            return;
        }
        let at = packet.at;
        let span = self.counts.span.unwrap_or(Span {
            first: at,
            last: at,
        });
        self.counts.span = Some(Span {
            first: span.first.min(at),
            last: span.last.max(at),
        });
        let syn = packet.flags.has(Flags::SYN).then(|| Syn {
            seq: packet.seq,
            mss: packet.options.mss,
            window_scale: packet.options.window_scale,
            timestamps: packet.options.timestamps.is_some(),
        });
        let number = self.stream(&packet, syn);
        let reverse = self.streams[number as usize].reverse;
        let other = reverse.map_or_else(SegmentSize::default, |reverse| {
            self.streams[reverse as usize].size
        });
        let stream = &mut self.streams[number as usize];
        stream.packets += 1;
        stream.timestamps |= packet.options.timestamps.is_some();
        if syn.is_some() {
            stream.size.learn(&packet);
            stream.syn = syn;
        }
        if packet.payload > 0 {
            stream.full = stream.size.of(&other, &packet);
            stream.largest = stream.largest.max(packet.payload);
            self.counts.super_packets += u64::from(packet.payload > stream.full);
        }
        let before = stream.recent.kept();
        let copy = stream.recent.is_copy(&packet);
        let piece = interface(frame).is_some_and(|on| stream.recent.is_piece(&packet, on));
        // It may be less than before.
        self.recent = self.recent + stream.recent.kept() - before;
        self.counts.copies += u64::from(copy || piece);
        // The super-packet is cut into the same ones.
        if piece {
            return;
        }
        stream.copies += u64::from(copy);
        let record = Record::new(&packet, frame, number, copy);
        self.records.push(record);
    }

    /// The stream from one endpoint to another. A SYN with another number begins a new one.
    fn stream(&mut self, packet: &Packet, syn: Option<Syn>) -> u32 {
        let (src, dst) = (packet.src, packet.dst);
        let known = self.current.get(&(src, dst)).copied();
        let known = known.filter(|&number| {
            let stream = &self.streams[number as usize];
            match (stream.syn, syn) {
                (Some(before), Some(syn)) => before.seq == syn.seq,
                // The SYN may come behind the first data. Otherwise the stream is of a connection that began before the capture.
                (None, Some(syn)) => syn.seq.wrapping_add(1) == stream.first,
                (_, None) => true,
            }
        });
        if let Some(number) = known {
            return number;
        }
        let number = self.streams.len() as u32;
        // The other direction is that of the same connection, unless it has one already.
        let reverse = self.current.get(&(dst, src)).copied();
        let reverse = reverse.filter(|&number| self.streams[number as usize].reverse.is_none());
        if let Some(reverse) = reverse {
            self.streams[reverse as usize].reverse = Some(number);
        }
        self.streams.push(Stream {
            src,
            dst,
            reverse,
            syn: None,
            first: packet.seq,
            packets: 0,
            copies: 0,
            timestamps: false,
            full: 0,
            largest: 0,
            size: SegmentSize::default(),
            recent: Recent::default(),
        });
        self.current.insert((src, dst), number);
        number
    }

    /// The capture with super-packets cut into wire packets, given the payload of these in each stream.
    pub(crate) fn into_wire(self, sizes: &[u32]) -> Wire {
        let records = self.wire_packets(sizes);
        let mut bounds = vec![0; self.streams.len() + 1];
        for record in &records {
            bounds[record.stream as usize + 1] += 1;
        }
        for i in 1..bounds.len() {
            bounds[i] += bounds[i - 1];
        }
        Wire {
            records,
            bounds,
            streams: self.streams,
            counts: self.counts,
        }
    }

    /// Whether a packet is one of its own. Where every packet of a stream seems to be captured twice, the second ones mean nothing.
    fn is_kept(&self, record: &Record) -> bool {
        let stream = &self.streams[record.stream as usize];
        !(record.copy && stream.copies * 10 > stream.packets)
    }

    /// The wire packets, sorted by stream and in each as they were captured, given the payload that each stream's
    /// super-packets are cut into. At most `most` come from these beyond those that were read.
    fn wire_packets(&self, sizes: &[u32]) -> Vec<Record> {
        let mut room = self.most;
        let mut wire = Vec::with_capacity(self.records.len());
        for record in self.records.iter().filter(|record| self.is_kept(record)) {
            let stream = record.stream as usize;
            // What fits a wire packet is one, even where the other capture has smaller ones only: those
            // may be all that passed.
            let size = match self.streams[stream].full {
                full if record.payload <= full => full,
                _ => sizes[stream],
            };
            let extra = (record.payload.div_ceil(size.max(1)).max(1) - 1) as usize;
            if extra > room {
                wire.push(*record);
            } else {
                room -= extra;
                wire.extend(record.pieces(size));
            }
        }
        wire.sort_by_key(|record| record.stream);
        wire
    }
}

/// A capture as wire packets, stream by stream.
#[derive(Debug)]
pub(crate) struct Wire {
    pub records: Vec<Record>,
    /// Where each stream's records begin, and where the last one's end.
    bounds: Vec<usize>,
    pub streams: Vec<Stream>,
    pub counts: Counts,
}

impl Wire {
    /// Which records are a stream's.
    pub fn range(&self, stream: u32) -> Range<usize> {
        let stream = stream as usize;
        self.bounds[stream]..self.bounds[stream + 1]
    }

    /// A stream's records, as they were captured.
    pub fn of(&self, stream: u32) -> &[Record] {
        &self.records[self.range(stream)]
    }
}
