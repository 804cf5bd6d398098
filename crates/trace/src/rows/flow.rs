//! A row for each flow and endpoint that sent data in it.

use std::sync::{Arc, LazyLock};

use tidegate_table::convert::{bits, millis, rounded, seconds};
use tidegate_table::{Column, Row, Time, columns};

use super::judged::Judged;
use crate::annotate::{FlowInfo, Tally, Totals};
use crate::detect::Judgement;
use crate::flow::Ended;
use crate::read::Nanos;
use crate::wire::Endpoint;

/// What one endpoint sent in a whole flow.
#[derive(Debug, Clone)]
pub struct FlowRow {
    /// The capture's name as it was given.
    pub file: Arc<str>,
    /// When the capture's first packet was captured.
    pub capture_start: Nanos,
    /// Its endpoints and its beginning.
    pub info: FlowInfo,
    /// Why the flow ended.
    pub ended: Ended,
    /// Which endpoint sent.
    pub sender: Endpoint,
    /// Which endpoint received.
    pub receiver: Endpoint,
    /// Sums over the segments.
    pub totals: Totals,
    /// How many of the sender's segments are policed.
    pub policed_segments: u64,
    /// The verdict on all of the sender's segments.
    pub judgement: Judgement,
}

impl Judged for FlowRow {
    fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    fn tally(&self) -> &Tally {
        &self.totals.tally
    }
}

impl Row for FlowRow {
    const TITLE: &'static str = "a flow and an endpoint that sent data in it";

    fn columns() -> &'static [Column<Self>] {
        static ALL: LazyLock<Vec<Column<FlowRow>>> = LazyLock::new(|| {
            let verdict = FlowRow::VERDICT;
            [
                COLUMNS,
                verdict,
                FlowRow::SHARES,
                KNOWN,
                FlowRow::ALLOWANCE,
                FlowRow::BURST,
                RATIO,
                MORE,
                FlowRow::EVIDENCE,
                FlowRow::KIND,
            ]
            .concat()
        });
        &ALL
    }
}

fn percentile(row: &FlowRow, percent: u64) -> Option<f64> {
    row.totals.rtt_percentile(percent).map(millis)
}

const COLUMNS: &[Column<FlowRow>] = columns! { FlowRow;
    file: Text [""] "The capture, as it was named on the command line; `-` is standard input." = |r| r.file.to_string();
    flow: Integer [""] "The connection's number in the capture, from 0, in the order of first packets." = |r| r.info.number;
    sender: Text [""] "Address of the endpoint whose data the row is about." = |r| r.sender.ip().to_string();
    sender_port: Integer16 [""] "Its TCP port." = |r| r.sender.port();
    receiver: Text [""] "Address of the other endpoint." = |r| r.receiver.ip().to_string();
    receiver_port: Integer16 [""] "Its TCP port." = |r| r.receiver.port();
    start_s: Time ["s"] "When the first data packet was sent, in seconds since 1970-01-01 UTC; in Parquet a timestamp." = |r| Time(r.totals.metrics.first_sent);
    duration_s: Real ["s"] "From the first data packet to the last acknowledgement of one (or the last data packet), pauses between segments included." = |r| seconds(r.totals.metrics.duration);
    segments: Integer [""] "Segments in which the endpoint sent data." = |r| r.totals.segments;
    policed_segments: Integer [""] "Of these, those with a policer, by either run of the detector." = |r| r.policed_segments;
    data_packets: Integer ["packets"] "Packets on the wire with data, retransmissions among them." = |r| r.totals.metrics.data_packets;
    lost_packets: Integer ["packets"] "Of these, the lost." = |r| r.totals.metrics.lost_packets;
    loss_rate: Real [""] "Lost over data packets, 0 to 1." = |r| rounded(r.totals.metrics.loss_rate(), 6);
    goodput_bps: Integer ["bit/s"] "Payload delivered, with what the capture missed, over the duration." = |r| r.totals.metrics.goodput_bps().map(bits);
    goodput_ip_bps: Integer ["bit/s"] "Goodput with IP and TCP headers." = |r| r.totals.metrics.goodput_bps().map(|rate| bits(r.totals.tally.at_ip(rate)));
    goodput_link_bps: Integer ["bit/s"] "Goodput with headers and framing." = |r| r.totals.metrics.goodput_bps().map(|rate| bits(r.totals.tally.at_link(rate)));
    rtt_min_ms: Real ["ms"] "Least round-trip time." = |r| r.totals.rtt_min().map(millis);
    rtt_p1_ms: Real ["ms"] "1st percentile of unambiguous round-trip times, within 3.2 %, as are the others." = |r| percentile(r, 1);
    rtt_median_ms: Real ["ms"] "Median round-trip time." = |r| percentile(r, 50);
    rtt_p90_ms: Real ["ms"] "90th percentile." = |r| percentile(r, 90);
    rtt_max_ms: Real ["ms"] "Greatest round-trip time." = |r| r.totals.rtt_max().map(millis);
    rtt_p99_ms: Real ["ms"] "99th percentile." = |r| percentile(r, 99);
    from_client: Truth [""] "Whether the sender opened the connection." = |r| r.sender == r.info.client;
    syn_seen: Truth [""] "Whether the capture holds the connection's SYN." = |r| r.info.syn_seen;
    ended: Text [""] "Why the flow ended: closed, idle, reused (its ports), capture-end or evicted (too many flows at once)." = |r| ended(r.ended);
    packets: Integer ["packets"] "Packets that the sender sent as the capture shows them." = |r| r.totals.tally.packets;
    retransmitted_packets: Integer ["packets"] "Data packets that repeat bytes sent before." = |r| r.totals.metrics.retransmitted_packets;
    spurious_packets: Integer ["packets"] "Data packets that were retransmitted although they had arrived." = |r| r.totals.metrics.spurious_packets;
    duplicate_packets: Integer ["packets"] "Packets that the capture holds twice." = |r| r.totals.tally.duplicates;
    probe_packets: Integer ["packets"] "Keepalives and zero-window probes." = |r| r.totals.tally.probes;
    payload_bytes: Integer ["B"] "Payload sent, retransmissions included." = |r| r.totals.tally.payload_bytes;
    unique_bytes: Integer ["B"] "Payload sent for the first time." = |r| r.totals.metrics.unique_bytes;
    delivered_bytes: Integer ["B"] "Of this, what was acknowledged." = |r| r.totals.metrics.delivered_bytes;
    unseen_bytes: Integer ["B"] "Payload that the capture missed." = |r| r.totals.tally.unseen_bytes;
    bytes_before_loss: Integer ["B"] "Payload sent before the first lost packet." = |r| r.totals.metrics.bytes_before_loss;
    mss_bytes: Integer32 ["B"] "Largest payload of a packet on the wire: what the SYNs' options allow, or the largest seen." = |r| u64::from(r.totals.mss);
    capacity_bps: Integer ["bit/s"] "The bottleneck's capacity as payload, in the segment where the most trains prove one." = |r| r.totals.metrics.capacity.map(|capacity| bits(capacity.bps));
    capacity_trains: Integer [""] "How many trains that rests on." = |r| r.totals.metrics.capacity.map_or(0, |capacity| capacity.trains as u64);
    wait_ms: Real ["ms"] "The longest wait time of a segment." = |r| r.totals.tally.wait.map(millis);
    bufferbloat_segments: Integer [""] "Segments with bufferbloat." = |r| r.totals.bloated_segments;
    pattern: Text [""] "How TCP and the losses interact in the segment with the most losses." = |r| r.totals.metrics.pattern.name();
    loss_episodes: Integer32 [""] "Loss episodes in that segment." = |r| u64::from(r.totals.metrics.evidence.loss_episodes);
    stalls: Integer32 [""] "Stalls in that segment." = |r| u64::from(r.totals.metrics.evidence.stalls);
    stalled_share: Real [""] "Share of its duration spent so, 0 to 1." = |r| rounded(r.totals.metrics.evidence.stalled, 4);
    overshoot: Real [""] "Sending rate before its losses over its goodput, in the median episode." = |r| rounded(r.totals.metrics.evidence.overshoot, 3);
    max_flight_bytes: Integer ["B"] "Most bytes in flight." = |r| u64::from(r.totals.metrics.max_in_flight);
    window_limited_s: Real ["s"] "Time in which the receiver's window left no room for a full packet; missing where its scale is not known." = |r| r.totals.tally.window_known.then(|| seconds(r.totals.tally.window_limited));
    idle_s: Real ["s"] "Time with nothing in flight inside segments." = |r| seconds(r.totals.tally.idle);
    vantage: Text [""] "Where the capture was taken, as the sender's data see it: sender, between, receiver or unknown." = |r| r.totals.path.vantage().name();
    vantage_by: Text [""] "What shows this: handshake, timestamps, recovery (how long after holes their retransmissions came) or direction (which packets left the capturing host; where the round trip is below 0.1 ms)." = |r| r.totals.path.sign.map(|sign| sign.name());
    sender_part: Real [""] "Part of the least round-trip time that lies between the capture and the sender: 0 at the sender, 1 at the receiver." = |r| r.totals.path.sender_part().map(|part| rounded(part, 3));
    rtt_to_sender_ms: Real ["ms"] "Least round-trip time between the capture and the sender." = |r| r.totals.path.to_sender.map(millis);
    rtt_to_receiver_ms: Real ["ms"] "Least round-trip time between the capture and the receiver." = |r| r.totals.path.to_receiver.map(millis);
    rtt_base_ms: Real ["ms"] "Least round-trip time between these two hosts so far." = |r| r.totals.metrics.base_rtt.map(millis);
    handshake_rtt_ms: Real ["ms"] "Round-trip time of the handshake; missing where a SYN was retransmitted or not captured." = |r| r.info.handshake.rtt().map(millis);
    syn_retransmissions: Integer32 ["packets"] "How often a SYN or the answer to it was sent again." = |r| r.info.syn_seen.then(|| u64::from(r.info.handshake.retransmissions));
};

const KNOWN: &[Column<FlowRow>] = columns! { FlowRow;
    roles_known: Truth [""] "Whether a SYN tells the client from the server. Otherwise that is a guess." = |r| r.info.roles_known;
};

const RATIO: &[Column<FlowRow>] = columns! { FlowRow;
    rtt_ratio: Real [""] "90th over 10th percentile of round-trip times, as in figure 14 of the paper: shapers that let bursts pass raise it." = |r| percentile(r, 90).zip(percentile(r, 10)).map(|(high, low)| rounded(high / low, 3));
};

const MORE: &[Column<FlowRow>] = columns! { FlowRow;
    start_offset_s: Real ["s"] "When the first data packet was sent, since the capture's first packet." = |r| seconds(r.totals.metrics.first_sent.saturating_sub(r.capture_start));
    rtt_p10_ms: Real ["ms"] "10th percentile of unambiguous round-trip times." = |r| percentile(r, 10);
    rtt_p95_ms: Real ["ms"] "95th percentile." = |r| percentile(r, 95);
    losses_per_episode: Real ["packets"] "Lost packets in the median episode of the segment with the most losses." = |r| rounded(r.totals.metrics.evidence.losses_per_episode, 3);
    flight_packets_p90: Real ["packets"] "90th percentile of the full packets in flight in that segment, where packets were lost." = |r| rounded(r.totals.metrics.evidence.flight_packets, 2);
    reason: Text [""] "The verdict in a few words." = |r| r.judgement.reason.clone();
};

fn ended(why: Ended) -> &'static str {
    match why {
        Ended::Closed => "closed",
        Ended::Idle => "idle",
        Ended::Reused => "reused",
        Ended::CaptureEnd => "capture-end",
        Ended::Evicted => "evicted",
    }
}
