//! Bounds on memory, and where segments end.

use crate::read::Nanos;

/// How much the flow table keeps and for how long, and where a segment ends.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A flow without packets for this long is over, in nanoseconds of capture time.
    pub idle_timeout: Nanos,
    /// A closed flow is kept this long for late packets, in nanoseconds of capture time.
    pub linger: Nanos,
    /// The most flows that are active at once. Beyond it, the flows that were quiet the longest end.
    pub max_flows: usize,
    /// The most packets kept in all flows together. Beyond it, the flows that were quiet the longest
    /// end. A packet takes about 100 bytes; the rest of a flow counts as the number of packets that
    /// would take as much memory.
    pub max_packets: usize,
    /// A segment with more packets of one sender is cut and continued in another.
    pub max_segment_packets: u64,
    /// Whether a request that is retransmitted after its response began stays in the same segment.
    /// The default is that it begins another, as in the published detector.
    pub join_repeated_requests: bool,
    /// The bitrate of the video that the wait time assumes, in bit/s.
    pub playback_bits_per_second: u64,
}

impl Default for Settings {
    /// 5 minutes idle, 10 s of linger, 500 000 flows, 16 million packets (about 1.6 GB), 4 million
    /// packets a segment, and video in HD at 2.5 Mbit/s [Flach16 §4.3].
    fn default() -> Self {
        Self {
            idle_timeout: 300_000_000_000,
            linger: 10_000_000_000,
            max_flows: 500_000,
            max_packets: 16_000_000,
            max_segment_packets: 4_000_000,
            join_repeated_requests: false,
            playback_bits_per_second: 2_500_000,
        }
    }
}
