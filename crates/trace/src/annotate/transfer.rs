//! What one endpoint sent in one segment: the unit that is measured and judged.

use super::handshake::Handshake;
use super::metrics::Metrics;
use super::path::{Path, Vantage};
use super::sent::Sent;
use crate::read::Nanos;
use crate::wire::Endpoint;

/// What is known of a TCP connection as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowInfo {
    /// Its number in the capture, from 0, in the order of first packets.
    pub number: u64,
    /// Which endpoint opened it: the sender of the SYN, or the endpoint that most likely did where
    /// none was captured.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// When its first packet was captured.
    pub started_at: Nanos,
    /// Whether the capture holds the client's SYN.
    pub syn_seen: bool,
    /// Its first packets.
    pub handshake: Handshake,
    /// Whether a SYN of either side tells the client from the server. Otherwise that is a guess.
    pub roles_known: bool,
}

/// Which transfer of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId {
    /// The flow's number in the capture.
    pub flow: u64,
    /// The segment's number in the flow.
    pub segment: u32,
    /// Whether the client sent it.
    pub from_client: bool,
}

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
    /// Which endpoint sent.
    pub sender: Endpoint,
    /// Which endpoint received.
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
    /// When the sender sent its first packet in the segment, which may be a bare acknowledgement.
    pub started_at: Nanos,
    /// The largest payload of a wire packet, in bytes.
    pub mss: u32,
    /// How far the capture is from both ends.
    pub path: Path,
    /// What was counted on the way.
    pub tally: &'a Tally,
}

impl Transfer<'_> {
    /// Which transfer of the capture it is.
    pub fn id(&self) -> TransferId {
        TransferId {
            flow: self.flow.number,
            segment: self.segment,
            from_client: self.sender == self.flow.client,
        }
    }

    /// The sequence number of a packet relative to the transfer's start.
    pub fn relative(&self, sent: &Sent) -> i64 {
        sent.seq.wrapping_sub(self.origin) as i64
    }
}

/// A transfer without its packets: what can be kept of it at little cost.
#[derive(Debug, Clone, Copy)]
pub struct TransferSummary {
    /// Which transfer of the capture it is.
    pub id: TransferId,
    /// The flow it belongs to.
    pub flow: FlowInfo,
    /// Which endpoint sent.
    pub sender: Endpoint,
    /// Which endpoint received.
    pub receiver: Endpoint,
    /// Whether the segment was cut off from the one before because it grew too long.
    pub continues: bool,
    /// Bytes of the segments before that were in flight when it began.
    pub under_way: u32,
    /// The largest payload of a wire packet, in bytes.
    pub mss: u32,
    /// How far the capture is from both ends.
    pub path: Path,
    /// What was counted on the way.
    pub tally: Tally,
    /// Its measures.
    pub metrics: Metrics,
}

impl TransferSummary {
    /// The summary of a transfer with these measures.
    pub fn new(transfer: &Transfer<'_>, metrics: &Metrics) -> Self {
        Self {
            id: transfer.id(),
            flow: *transfer.flow,
            sender: transfer.sender,
            receiver: transfer.receiver,
            continues: transfer.continues,
            under_way: transfer
                .sent
                .first()
                .map_or(0, |first| first.in_flight.saturating_sub(first.len)),
            mss: transfer.mss,
            path: transfer.path,
            tally: *transfer.tally,
            metrics: *metrics,
        }
    }

    /// Whether the capture was taken behind the losses: at the receiver, or where most of what was lost did not come to it.
    /// When a lost packet would have come is a guess there.
    pub fn is_behind_losses(&self) -> bool {
        self.path.vantage() == Vantage::Receiver
            || 2 * self.tally.lost_before > self.metrics.lost_packets
    }
}

/// Which bytes of a packet a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// TCP payload.
    Payload,
    /// IP packets: payload with IP and TCP headers.
    Ip,
    /// Frames on the link: IP packets with framing and frame check sequence.
    Link,
}

impl Layer {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Ip => "ip",
            Self::Link => "link",
        }
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
    /// Packets more than a megabyte ahead of their stream that no other packet confirms: damaged or forged ones. They are left out.
    pub strays: u64,
    /// Keepalives and zero-window probes.
    pub probes: u64,
    /// Bytes that were acknowledged or followed by later ones, but that the capture missed.
    pub unseen_bytes: u64,
    /// Data packets that the network lost before they came to the capture, as their retransmissions show.
    pub lost_before: u64,
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

/// A capture that missed more than this share of a transfer's bytes does not show well what dropped others.
const HOLED: f64 = 0.02;

impl Tally {
    /// Whether the capture missed so much that what it says of losses is uncertain.
    pub fn is_holed(&self) -> bool {
        self.unseen_bytes as f64 > HOLED * self.payload_bytes as f64
    }

    /// Bytes that the capture missed although they were sent. 0 if it missed more than it holds: then its hole
    /// may be anything.
    pub fn missed(&self) -> u64 {
        match self.unseen_bytes <= self.payload_bytes {
            true => self.unseen_bytes,
            false => 0,
        }
    }

    /// Adds the packets that were lost before they came to the capture, like the `captured` ones.
    pub(crate) fn add_missing(&mut self, bytes: u64, packets: u64, captured: u64) {
        let headers = (self.ip_bytes - self.payload_bytes) / captured.max(1) * packets;
        let around = (self.link_bytes - self.payload_bytes) / captured.max(1) * packets;
        self.payload_bytes += bytes;
        self.ip_bytes += bytes + headers;
        self.link_bytes += bytes + around;
        self.lost_before += packets;
    }

    /// A rate at one layer as the rate of the same packets at another.
    pub fn convert(&self, rate: f64, from: Layer, to: Layer) -> f64 {
        let share = |layer| match layer {
            Layer::Payload => 1.0,
            Layer::Ip => self.share(self.ip_bytes),
            Layer::Link => self.share(self.link_bytes),
        };
        rate / share(from) * share(to)
    }

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
