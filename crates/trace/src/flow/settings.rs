//! Bounds on what is kept, and where segments end.

use crate::read::Nanos;

/// How much is kept and for how long, and where a segment ends.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A flow without packets for so long is over, in nanoseconds of capture time.
    pub idle_timeout: Nanos,
    /// A closed flow waits so long for stragglers.
    pub linger: Nanos,
    /// More flows at once than this, and the quietest are ended.
    pub max_flows: usize,
    /// More packets kept than this in all flows together, and the quietest flows are ended. A
    /// packet takes about 100 bytes; what else is kept of a flow counts as the packets that would
    /// take as much.
    pub max_packets: usize,
    /// A segment with more packets of one sender is cut and continued in another.
    pub max_segment_packets: u64,
    /// Whether a request that is sent again, after the response to it has begun, still belongs to
    /// the same segment. The published detector begins another there, so the default is that it
    /// does not.
    pub join_repeated_requests: bool,
    /// The bitrate at which the wait time assumes video to be played.
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
