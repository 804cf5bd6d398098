//! A row for each data packet.

use std::sync::Arc;

use tidegate_table::convert::{millis, rounded, seconds};
use tidegate_table::{Column, Row, Time, columns};

use crate::annotate::{Marks, Sent, Transfer};
use crate::read::Nanos;
use crate::wire::Endpoint;

/// A data packet as it was on the wire, and what became of it.
#[derive(Debug, Clone)]
pub struct PacketRow {
    /// The capture's name as it was given.
    pub file: Arc<str>,
    /// When the capture's first packet was captured.
    pub capture_start: Nanos,
    /// The flow's number in the capture.
    pub flow: u64,
    /// The segment's number in the flow.
    pub segment: u32,
    /// Which endpoint sent.
    pub sender: Endpoint,
    /// Which endpoint received.
    pub receiver: Endpoint,
    /// Its number among the data packets of its sender in the flow.
    pub number: u64,
    /// Its first byte's place in the transfer: 1 is the first.
    pub relative: i64,
    /// The packet.
    pub sent: Sent,
}

impl PacketRow {
    /// The rows of a transfer.
    pub fn of<'a>(
        file: &'a Arc<str>,
        capture_start: Nanos,
        transfer: &'a Transfer<'_>,
    ) -> impl Iterator<Item = Self> + 'a {
        transfer.sent.iter().enumerate().map(move |(i, sent)| Self {
            file: Arc::clone(file),
            capture_start,
            flow: transfer.flow.number,
            segment: transfer.segment,
            sender: transfer.sender,
            receiver: transfer.receiver,
            number: transfer.first_number + i as u64,
            relative: transfer.relative(sent),
            sent: *sent,
        })
    }

    fn delay(&self) -> Option<Nanos> {
        (self.sent.acked_at != 0).then(|| self.sent.acked_at.saturating_sub(self.sent.at))
    }
}

/// The strongest sign that a retransmission was spurious.
fn spurious(marks: Marks) -> Option<&'static str> {
    [
        (Marks::SPURIOUS_DSACK | Marks::SPURIOUS_DSACK_OTHER, "dsack"),
        (Marks::SPURIOUS_TIMESTAMP, "timestamp"),
        (Marks::SPURIOUS_ACKED, "acked"),
        (Marks::SPURIOUS_EARLY, "early"),
    ]
    .into_iter()
    .find_map(|(mark, name)| marks.has(mark).then_some(name))
}

impl Row for PacketRow {
    const TITLE: &'static str = "a data packet as it was on the wire";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

const COLUMNS: &[Column<PacketRow>] = columns! { PacketRow;
    file: Text [""] "The capture, as it was named on the command line; `-` is standard input." = |r| r.file.to_string();
    flow: Integer [""] "The connection's number in the capture." = |r| r.flow;
    segment: Integer32 [""] "The segment's number in the flow." = |r| u64::from(r.segment);
    sender: Text [""] "Address of the sender." = |r| r.sender.ip().to_string();
    sender_port: Integer16 [""] "Its TCP port." = |r| r.sender.port();
    receiver: Text [""] "Address of the receiver." = |r| r.receiver.ip().to_string();
    receiver_port: Integer16 [""] "Its TCP port." = |r| r.receiver.port();
    packet: Integer [""] "Its number among the sender's data packets in the flow, from 0." = |r| r.number;
    time_s: Time ["s"] "When it was sent, in seconds since 1970-01-01 UTC; in Parquet a timestamp." = |r| Time(r.sent.at);
    offset_s: Real ["s"] "When it was sent, since the capture's first packet." = |r| seconds(r.sent.at.saturating_sub(r.capture_start));
    sequence: Integer ["B"] "Its first byte's place in the transfer, from 1; missing, if it repeats bytes of an earlier segment." = |r| u64::try_from(r.relative).ok();
    length: Integer32 ["B"] "Payload." = |r| u64::from(r.sent.len);
    lost: Truth [""] "Whether the network lost it: it was retransmitted, and the retransmission was not spurious." = |r| r.sent.lost();
    retransmission: Truth [""] "Whether it repeats bytes sent before." = |r| r.sent.is_retransmission();
    retransmits: Integer [""] "The number of the packet that it repeats." = |r| (r.sent.repeats != 0).then(|| r.number.saturating_sub(u64::from(r.sent.repeats)));
    retransmitted_by: Integer [""] "The number of the packet that repeats it." = |r| (r.sent.repeated != 0).then(|| r.number + u64::from(r.sent.repeated));
    retransmitted_in_vain: Text [""] "If it arrived and was retransmitted nevertheless, the sign of that: dsack, timestamp, acked (before) or early (sooner than a packet and its acknowledgement take)." = |r| spurious(r.sent.marks);
    rtt_ms: Real ["ms"] "Its round-trip time, where that is unambiguous." = |r| r.sent.rtt().map(|rtt| rounded(millis(rtt), 6));
    ack_delay_ms: Real ["ms"] "From its sending to the first acknowledgement of its bytes, whichever transmission that was for." = |r| r.delay().map(|delay| rounded(millis(delay), 6));
    sacked: Truth [""] "Whether that was a selective acknowledgement." = |r| r.sent.marks.has(Marks::SACKED);
    in_flight_bytes: Integer ["B"] "Bytes sent and neither acknowledged nor selectively so, itself included." = |r| u64::from(r.sent.in_flight);
    delivered_bytes: Integer ["B"] "Bytes of the flow acknowledged in any way when it was sent." = |r| r.sent.delivered;
    window_full: Truth [""] "Whether the receiver's window left no room for another full packet." = |r| r.sent.marks.has(Marks::WINDOW_FULL);
    fills_gap: Truth [""] "Whether it was captured after later bytes: reordered, or missed by the capture when it was first sent." = |r| r.sent.marks.has(Marks::LATE);
};
