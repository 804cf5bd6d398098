//! A row for each client and each direction in which data was sent.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use tidegate_table::convert::{bits, millis, rounded, seconds};
use tidegate_table::{Column, Row, Time, columns};

use super::judged::Judged;
use crate::annotate::{Metrics, Tally, Totals};
use crate::detect::{Judgement, Together};
use crate::flow::FlowSummary;
use crate::read::Nanos;

/// What went to a client, or came from it, in all its flows.
#[derive(Debug, Clone)]
pub struct ClientRow {
    /// The capture's name as it was given.
    pub file: Arc<str>,
    /// When the capture's first packet was captured.
    pub capture_start: Nanos,
    /// The client's address.
    pub client: IpAddr,
    /// Whether the client sent the data.
    pub from_client: bool,
    /// Sums over its flows.
    pub sums: ClientSums,
    /// The verdict on all of it.
    pub judgement: Judgement,
}

/// Sums over the flows of a client, in one direction.
#[derive(Debug, Clone, Default)]
pub struct ClientSums {
    /// Flows in which data was sent.
    pub flows: u64,
    /// Of these, flows whose SYN tells the client from the server.
    pub known: u64,
    /// Segments in which data was sent, and those of them with a policer.
    pub segments: u64,
    /// See [`segments`](Self::segments).
    pub policed: u64,
    /// Sums over the flows; only what is counted, and the times of the first packet and the last.
    pub metrics: Metrics,
    /// Sums over the flows; only bytes and duplicates.
    pub tally: Tally,
    /// Segments with bufferbloat.
    pub bloated: u64,
    /// The least round-trip time, and the greatest.
    pub rtt_min: Option<Nanos>,
    /// See [`rtt_min`](Self::rtt_min).
    pub rtt_max: Option<Nanos>,
    /// The verdicts on the transfers.
    pub together: Together,
}

impl ClientSums {
    /// Takes what one side sent in a flow.
    pub fn add(&mut self, flow: &FlowSummary, totals: &Totals) {
        let (sum, more) = (&mut self.metrics, &totals.metrics);
        let end = more.first_sent.saturating_add(more.duration);
        if self.flows == 0 {
            (sum.first_sent, sum.duration) = (more.first_sent, more.duration);
        } else {
            let end = end.max(sum.first_sent.saturating_add(sum.duration));
            sum.first_sent = sum.first_sent.min(more.first_sent);
            sum.duration = end - sum.first_sent;
        }
        self.flows += 1;
        self.known += u64::from(flow.info.roles_known);
        self.segments += totals.segments;
        sum.data_packets += more.data_packets;
        sum.lost_packets += more.lost_packets;
        sum.delivered_bytes += more.delivered_bytes;
        sum.missed_bytes += more.missed_bytes;
        sum.retransmitted_packets += more.retransmitted_packets;
        sum.spurious_packets += more.spurious_packets;
        sum.unique_bytes += more.unique_bytes;
        sum.max_in_flight = sum.max_in_flight.max(more.max_in_flight);
        self.bloated += totals.bloated_segments;
        self.tally.duplicates += totals.tally.duplicates;
        self.tally.unseen_bytes += totals.tally.unseen_bytes;
        self.tally.payload_bytes += totals.tally.payload_bytes;
        self.tally.ip_bytes += totals.tally.ip_bytes;
        self.tally.link_bytes += totals.tally.link_bytes;
        let rtts = [self.rtt_min, totals.rtt_min()];
        self.rtt_min = rtts.into_iter().flatten().min();
        self.rtt_max = self.rtt_max.max(totals.rtt_max());
    }
}

impl Judged for ClientRow {
    fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    fn tally(&self) -> &Tally {
        &self.sums.tally
    }
}

impl Row for ClientRow {
    const TITLE: &'static str = "a client's address and a direction in which data was sent";

    fn columns() -> &'static [Column<Self>] {
        static ALL: LazyLock<Vec<Column<ClientRow>>> = LazyLock::new(|| {
            [
                COLUMNS,
                ClientRow::VERDICT,
                ClientRow::SHARES,
                ClientRow::ALLOWANCE,
                ClientRow::BURST,
                COUNTS,
                ClientRow::EVIDENCE,
                ClientRow::KIND,
            ]
            .concat()
        });
        &ALL
    }
}

const COLUMNS: &[Column<ClientRow>] = columns! { ClientRow;
    file: Text [""] "The capture, as it was named on the command line; `-` is standard input." = |r| r.file.to_string();
    client: Text [""] "The client's address: that of the endpoint that opened the connections, or most likely did." = |r| r.client.to_string();
    from_client: Truth [""] "Whether the client sent the data; otherwise it received them." = |r| r.from_client;
    roles_known: Truth [""] "Whether SYN tell for all flows which side is the client. Otherwise that is a guess for some." = |r| r.sums.known == r.sums.flows;
    start_s: Time ["s"] "When the first data packet was sent, in seconds since 1970-01-01 UTC; in Parquet a timestamp." = |r| Time(r.sums.metrics.first_sent);
    start_offset_s: Real ["s"] "The same, since the capture's first packet." = |r| seconds(r.sums.metrics.first_sent.saturating_sub(r.capture_start));
    duration_s: Real ["s"] "From then to the last acknowledgement of a data packet (or the last data packet), pauses included." = |r| seconds(r.sums.metrics.duration);
    flows: Integer [""] "Flows in which data was sent." = |r| r.sums.flows;
    segments: Integer [""] "Segments in which data was sent." = |r| r.sums.segments;
    policed_segments: Integer [""] "Of these, those with a policer." = |r| r.sums.policed;
    data_packets: Integer ["packets"] "Packets on the wire with data, retransmissions among them." = |r| r.sums.metrics.data_packets;
    lost_packets: Integer ["packets"] "Of these, the lost." = |r| r.sums.metrics.lost_packets;
    loss_rate: Real [""] "Lost over data packets, 0 to 1." = |r| rounded(r.sums.metrics.loss_rate(), 6);
    payload_bytes: Integer ["B"] "Payload sent, retransmissions included." = |r| r.sums.tally.payload_bytes;
    delivered_bytes: Integer ["B"] "Payload that was acknowledged, each byte once." = |r| r.sums.metrics.delivered_bytes;
    goodput_bps: Integer ["bit/s"] "Payload delivered, with what the capture missed, over the duration." = |r| r.sums.metrics.goodput_bps().map(bits);
    goodput_link_bps: Integer ["bit/s"] "Goodput with headers and framing." = |r| r.sums.metrics.goodput_bps().map(|rate| bits(r.sums.tally.at_link(rate)));
    rtt_min_ms: Real ["ms"] "Least round-trip time." = |r| r.sums.rtt_min.map(millis);
};

const COUNTS: &[Column<ClientRow>] = columns! { ClientRow;
    retransmitted_packets: Integer ["packets"] "Data packets that repeat bytes sent before." = |r| r.sums.metrics.retransmitted_packets;
    spurious_packets: Integer ["packets"] "Data packets that were retransmitted although they had arrived." = |r| r.sums.metrics.spurious_packets;
    duplicate_packets: Integer ["packets"] "Packets that the capture holds twice." = |r| r.sums.tally.duplicates;
    unique_bytes: Integer ["B"] "Payload sent for the first time." = |r| r.sums.metrics.unique_bytes;
    unseen_bytes: Integer ["B"] "Payload that the capture missed." = |r| r.sums.tally.unseen_bytes;
    bufferbloat_segments: Integer [""] "Segments with bufferbloat." = |r| r.sums.bloated;
    max_flight_bytes: Integer ["B"] "Most bytes in flight in a flow." = |r| u64::from(r.sums.metrics.max_in_flight);
    goodput_ip_bps: Integer ["bit/s"] "Goodput with IP and TCP headers." = |r| r.sums.metrics.goodput_bps().map(|rate| bits(r.sums.tally.at_ip(rate)));
    rtt_max_ms: Real ["ms"] "Greatest round-trip time." = |r| r.sums.rtt_max.map(millis);
    reason: Text [""] "The verdict in a few words." = |r| r.judgement.reason.clone();
};
