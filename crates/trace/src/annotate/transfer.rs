//! What one endpoint sent in one segment: the unit that is measured and judged.

use super::Sent;
use crate::flow::FlowInfo;
use crate::read::Nanos;
use crate::wire::Endpoint;

/// The data that one endpoint sent in one segment (a request and its response [Flach16 §4]),
/// packet by packet.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// The flow it belongs to.
    pub flow: &'a FlowInfo,
    /// The segment's number in the flow, from 0.
    pub segment: u32,
    /// Whether the segment was cut off from the one before because it grew too long, not because
    /// a new request came.
    pub continues: bool,
    /// Who sent.
    pub sender: Endpoint,
    /// Who received.
    pub receiver: Endpoint,
    /// The data packets, in the order in which they were sent.
    pub sent: &'a [Sent],
    /// How many data packets this sender had sent in the flow before.
    pub first_number: u64,
    /// The stream position that relative sequence number 0 stands for: the first byte of the
    /// transfer has the relative number 1.
    pub origin: u64,
    /// When the segment began: the first packet of the request.
    pub begun_at: Nanos,
    /// When the sender sent its first packet in the segment, be it a bare acknowledgement.
    pub started_at: Nanos,
    /// The largest payload of a wire packet, in bytes.
    pub mss: u32,
    /// What was counted on the way.
    pub tally: &'a Tally,
}

impl Transfer<'_> {
    /// The sequence number of a packet relative to the transfer's start.
    pub fn relative(&self, sent: &Sent) -> i64 {
        sent.seq.wrapping_sub(self.origin) as i64
    }
}

/// Counts of one endpoint's packets in one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// All packets that the capture shows, bare acknowledgements among them.
    pub packets: u64,
    /// Bytes of payload, IP packets and frames of all wire packets with data.
    pub payload_bytes: u64,
    /// As above, with IP and TCP headers.
    pub ip_bytes: u64,
    /// As above, with link-layer framing (see [`Packet::framing`](crate::wire::Packet)).
    pub link_bytes: u64,
    /// Packets that the capture holds twice.
    pub duplicates: u64,
    /// Keepalives and zero-window probes.
    pub probes: u64,
    /// Bytes that were acknowledged or followed by later ones, but that the capture missed.
    pub unseen_bytes: u64,
    /// Time in which nothing was in flight, before more data came.
    pub idle: Nanos,
    /// Time in which the receiver's window held the sender back.
    pub window_limited: Nanos,
    /// Whether the receiver's window is known: its scale was seen.
    pub window_known: bool,
    /// From the request until playback at the configured rate could begin without running dry
    /// later: the paper's wait time [Flach16 §4.3].
    pub wait: Option<Nanos>,
}

impl Tally {
    /// A rate of payload as the rate of the IP packets that carry it.
    pub fn at_ip(&self, payload_rate: f64) -> f64 {
        payload_rate * self.share(self.ip_bytes)
    }

    /// A rate of payload as the rate of the frames that carry it.
    pub fn at_link(&self, payload_rate: f64) -> f64 {
        payload_rate * self.share(self.link_bytes)
    }

    fn share(&self, bytes: u64) -> f64 {
        if self.payload_bytes == 0 {
            1.0
        } else {
            bytes as f64 / self.payload_bytes as f64
        }
    }
}
