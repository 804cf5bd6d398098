//! A row for each segment and endpoint that sent data in it.

use std::sync::{Arc, LazyLock};

use tidegate_table::convert::{bits, millis, rounded, seconds};
use tidegate_table::{Column, Row, Time, columns};

use super::judged::Judged;
use crate::annotate::{Layer, Tally, TransferSummary};
use crate::detect::pd::{Answer, Run};
use crate::detect::{Cause, Judgement, Switch};
use crate::read::Nanos;

/// What one endpoint sent in one segment, measured and judged.
#[derive(Debug, Clone)]
pub struct SegmentRow {
    /// The capture's name as it was given.
    pub file: Arc<str>,
    /// When the capture's first packet was captured.
    pub capture_start: Nanos,
    /// What was sent.
    pub transfer: TransferSummary,
    /// The detector's name.
    pub detector: &'static str,
    /// Its judgement.
    pub judgement: Judgement,
}

impl SegmentRow {
    fn first_run(&self) -> Option<&Run> {
        Some(&self.judgement.details::<Answer>()?.all)
    }

    fn second_run(&self) -> Option<&Run> {
        Some(&self.judgement.details::<Answer>()?.cut)
    }

    /// A run's result in words. Without losses there are not too few: there is nothing to judge.
    fn result(&self, run: &Run) -> &'static str {
        match self.transfer.metrics.lost_packets {
            0 => "no losses",
            _ => run.code.reason(),
        }
    }

    fn policed_rate(&self, layer: Layer) -> Option<u64> {
        let rate = self.judgement.policed_rate(&self.transfer.tally, layer);
        rate.map(bits)
    }

    /// Bytes that wait in the queue of a burst-tolerant shaper that was fitted to losses.
    fn shaping_queue(&self) -> Option<f64> {
        let limiter = self.losses()?.limiter?;
        limiter
            .burst
            .filter(|_| self.judgement.cause == Cause::ShaperBurst)?;
        Some(limiter.filled * limiter.bucket.depth)
    }

    fn switch(&self) -> Option<Switch> {
        self.burst()?.switch
    }

    fn goodput(&self, layer: Layer) -> Option<u64> {
        let rate = self.transfer.metrics.goodput_bps()?;
        Some(bits(self.transfer.tally.convert(
            rate,
            Layer::Payload,
            layer,
        )))
    }
}

impl Judged for SegmentRow {
    fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    fn tally(&self) -> &Tally {
        &self.transfer.tally
    }
}

impl Row for SegmentRow {
    const TITLE: &'static str = "a segment and an endpoint that sent data in it";

    fn columns() -> &'static [Column<Self>] {
        static ALL: LazyLock<Vec<Column<SegmentRow>>> = LazyLock::new(|| {
            let verdict = SegmentRow::VERDICT;
            [
                COLUMNS,
                verdict,
                PLACE,
                SegmentRow::SHARES,
                KNOWN,
                SegmentRow::EVIDENCE,
                SegmentRow::ALLOWANCE,
                SHAPER,
                SegmentRow::BURST,
                SWITCH,
                SegmentRow::KIND,
            ]
            .concat()
        });
        &ALL
    }
}

const COLUMNS: &[Column<SegmentRow>] = columns! { SegmentRow;
    file: Text [""] "The capture, as it was named on the command line; `-` is standard input." = |r| r.file.to_string();
    flow: Integer [""] "The connection's number in the capture, from 0, in the order of first packets." = |r| r.transfer.id.flow;
    segment: Integer32 [""] "The segment's number in the flow, from 0: a request and its response." = |r| u64::from(r.transfer.id.segment);
    sender: Text [""] "Address of the endpoint whose data the row is about." = |r| r.transfer.sender.ip().to_string();
    sender_port: Integer16 [""] "Its TCP port." = |r| r.transfer.sender.port();
    receiver: Text [""] "Address of the other endpoint." = |r| r.transfer.receiver.ip().to_string();
    receiver_port: Integer16 [""] "Its TCP port." = |r| r.transfer.receiver.port();
    start_s: Time ["s"] "When the first data packet was sent, in seconds since 1970-01-01 UTC; in Parquet a timestamp." = |r| Time(r.transfer.metrics.first_sent);
    duration_s: Real ["s"] "From the first data packet to the last acknowledgement of one (or the last data packet)." = |r| seconds(r.transfer.metrics.duration);
    data_packets: Integer ["packets"] "Packets on the wire with data, retransmissions among them; super-packets count as what they were split into." = |r| r.transfer.metrics.data_packets;
    lost_packets: Integer ["packets"] "Of these, the lost: they were retransmitted, and the retransmission was not spurious. What was lost before it came to the capture counts where its retransmission was captured." = |r| r.transfer.metrics.lost_packets;
    loss_rate: Real [""] "Lost over data packets, 0 to 1." = |r| rounded(r.transfer.metrics.loss_rate(), 6);
    goodput_bps: Integer ["bit/s"] "Payload delivered, with what the capture missed, over the duration." = |r| r.transfer.metrics.goodput_bps().map(bits);
    rtt_min_ms: Real ["ms"] "Least round-trip time; only packets whose acknowledgement is unambiguous count." = |r| r.transfer.metrics.rtt.map(|rtt| millis(rtt.min));
    rtt_median_ms: Real ["ms"] "Median round-trip time." = |r| r.transfer.metrics.rtt.map(|rtt| millis(rtt.median));
    policed: Truth [""] "Whether the detector finds a policer; with `pd`, in its first run." = |r| r.first_run().map_or(r.judgement.is_policed(), Run::is_policed);
    code: Integer16 [""] "Result code of the first run of `pd`: 0 policed, else what rules a policer out (see docs/explanation/detectors.md)." = |r| r.first_run().map(|run| u64::from(run.code.number()));
    rate_bps: Integer ["bit/s"] "The policer's rate as payload, if policed. The policer is set to a higher rate, since it also counts headers." = |r| r.first_run().map_or_else(|| r.policed_rate(Layer::Payload), |run| run.rate_bps.map(bits));
    burst_bytes: Integer ["B"] "Payload sent before the first loss, if policed." = |r| r.first_run().and_then(|run| run.burst_bytes);
    policed_cut2: Truth [""] "As `policed`, for the second run of `pd`: without the first and last two losses." = |r| r.second_run().map(Run::is_policed);
    code_cut2: Integer16 [""] "As `code`, for the second run." = |r| r.second_run().map(|run| u64::from(run.code.number()));
    rate_bps_cut2: Integer ["bit/s"] "As `rate_bps`, for the second run." = |r| r.second_run().and_then(|run| run.rate_bps).map(bits);
    burst_bytes_cut2: Integer ["B"] "As `burst_bytes`, for the second run." = |r| r.second_run().and_then(|run| run.burst_bytes);
    detector: Text [""] "The detector that judged." = |r| r.detector;
    reason: Text [""] "The verdict in a few words; with `pd`, the first run's result code." = |r| r.first_run().map_or(r.judgement.reason.clone(), |run| r.result(run).into());
    reason_cut2: Text [""] "The second run's result code in words." = |r| r.second_run().map(|run| r.result(run));
    policed_any: Truth [""] "Whether the detector finds a policer, with `pd` in either run. This is the verdict that counts." = |r| r.judgement.is_policed();
    policer_rate_bps: Integer ["bit/s"] "The policer's rate as payload, with `pd` that of the run that decided." = |r| r.policed_rate(Layer::Payload);
    policer_rate_ip_bps: Integer ["bit/s"] "The same as IP packets: with IP and TCP headers." = |r| r.policed_rate(Layer::Ip);
    policer_rate_link_bps: Integer ["bit/s"] "The same as frames on the link: with framing and frame check sequence, Ethernet's where the capture has no link layer." = |r| r.policed_rate(Layer::Link);
    goodput_ip_bps: Integer ["bit/s"] "Goodput with IP and TCP headers." = |r| r.goodput(Layer::Ip);
    goodput_link_bps: Integer ["bit/s"] "Goodput with headers and framing." = |r| r.goodput(Layer::Link);
    start_offset_s: Real ["s"] "When the first data packet was sent, since the capture's first packet." = |r| seconds(r.transfer.metrics.first_sent.saturating_sub(r.capture_start));
    from_client: Truth [""] "Whether the sender opened the connection." = |r| r.transfer.id.from_client;
    syn_seen: Truth [""] "Whether the capture holds the connection's SYN." = |r| r.transfer.flow.syn_seen;
    continues: Truth [""] "Whether the segment was cut off from the one before because it had grown too long." = |r| r.transfer.continues;
    packets: Integer ["packets"] "Packets that the sender sent in the segment as the capture shows them, bare acknowledgements among them." = |r| r.transfer.tally.packets;
    retransmitted_packets: Integer ["packets"] "Data packets that repeat bytes sent before." = |r| r.transfer.metrics.retransmitted_packets;
    spurious_packets: Integer ["packets"] "Data packets that were retransmitted although they had arrived." = |r| r.transfer.metrics.spurious_packets;
    duplicate_packets: Integer ["packets"] "Packets that the capture holds twice, left out of everything else." = |r| r.transfer.tally.duplicates;
    probe_packets: Integer ["packets"] "Keepalives and zero-window probes, left out of data packets." = |r| r.transfer.tally.probes;
    payload_bytes: Integer ["B"] "Payload sent, retransmissions included." = |r| r.transfer.tally.payload_bytes;
    unique_bytes: Integer ["B"] "Payload sent for the first time." = |r| r.transfer.metrics.unique_bytes;
    delivered_bytes: Integer ["B"] "Of this, what was acknowledged (all of it, where the capture shows no acknowledgements)." = |r| r.transfer.metrics.delivered_bytes;
    unseen_bytes: Integer ["B"] "Payload that was acknowledged or followed by later bytes, but that the capture missed." = |r| r.transfer.tally.unseen_bytes;
    mss_bytes: Integer32 ["B"] "Largest payload of a packet on the wire: what the SYNs' options allow; where they were not captured, the largest seen, at least 536." = |r| u64::from(r.transfer.mss);
    rtt_samples: Integer [""] "Unambiguous round-trip times." = |r| r.transfer.metrics.rtt.map_or(0, |rtt| rtt.samples as u64);
    rtt_p10_ms: Real ["ms"] "10th percentile of round-trip times." = |r| r.transfer.metrics.rtt.map(|rtt| millis(rtt.p10));
    rtt_p90_ms: Real ["ms"] "90th percentile." = |r| r.transfer.metrics.rtt.map(|rtt| millis(rtt.p90));
    rtt_p95_ms: Real ["ms"] "95th percentile." = |r| r.transfer.metrics.rtt.map(|rtt| millis(rtt.p95));
    rtt_p99_ms: Real ["ms"] "99th percentile." = |r| r.transfer.metrics.rtt.map(|rtt| millis(rtt.p99));
    rtt_max_ms: Real ["ms"] "Greatest round-trip time." = |r| r.transfer.metrics.rtt.map(|rtt| millis(rtt.max));
    bytes_before_loss: Integer ["B"] "Payload sent before the first lost packet." = |r| r.transfer.metrics.bytes_before_loss;
    capacity_bps: Integer ["bit/s"] "The bottleneck's capacity as payload, from the spacing of acknowledgements: 75th percentile over trains of 8 full packets that a bottleneck spread out or held up; missing where fewer than 3 trains prove one or they disagree, and in captures at the receiver." = |r| r.transfer.metrics.capacity.map(|capacity| bits(capacity.bps));
    capacity_trains: Integer [""] "How many trains that rests on." = |r| r.transfer.metrics.capacity.map_or(0, |capacity| capacity.trains as u64);
    wait_ms: Real ["ms"] "Wait time: from the request until playback at --playback-rate could begin without running dry later." = |r| r.transfer.tally.wait.map(millis);
    bufferbloat: Truth [""] "Whether packets wait long in a queue: the round-trip time's 90th percentile is at least twice rtt_base_ms and 20 ms above it, and the round-trip time correlates (0.5) with the bytes in flight, or its 10th percentile is as high." = |r| r.transfer.metrics.bufferbloat;
    rtt_flight_correlation: Real [""] "Correlation of round-trip time and bytes in flight, -1 to 1." = |r| r.transfer.metrics.growth.map(|growth| rounded(growth.correlation, 4));
    rtt_growth_ns_per_byte: Real ["ns/B"] "Slope of round-trip time over bytes in flight." = |r| r.transfer.metrics.growth.map(|growth| rounded(growth.ns_per_byte, 3));
    max_flight_bytes: Integer ["B"] "Most bytes in flight." = |r| u64::from(r.transfer.metrics.max_in_flight);
    window_limited_s: Real ["s"] "Time in which the receiver's window left no room for a full packet; missing where its scale is not known." = |r| r.transfer.tally.window_known.then(|| seconds(r.transfer.tally.window_limited));
    idle_s: Real ["s"] "Time with nothing in flight before more data came: the application had nothing to send." = |r| seconds(r.transfer.tally.idle);
    pattern: Text [""] "How TCP and the losses interact: congestion-avoidance, staircase, doubling-window or none." = |r| r.transfer.metrics.pattern.name();
    loss_episodes: Integer32 [""] "Runs of losses at least a median round-trip time apart." = |r| u64::from(r.transfer.metrics.evidence.loss_episodes);
    losses_per_episode: Real ["packets"] "Lost packets in the median episode." = |r| r.transfer.metrics.evidence.losses_per_episode;
    stalls: Integer32 [""] "Times without progress for 200 ms and two round-trip times while packets were lost." = |r| u64::from(r.transfer.metrics.evidence.stalls);
    stalled_share: Real [""] "Share of the duration spent so, 0 to 1." = |r| rounded(r.transfer.metrics.evidence.stalled, 4);
    overshoot: Real [""] "Sending rate in the round trip before an episode over the goodput, in the median episode." = |r| rounded(r.transfer.metrics.evidence.overshoot, 3);
    flight_packets_p90: Real ["packets"] "90th percentile of the full packets in flight, where packets were lost." = |r| rounded(r.transfer.metrics.evidence.flight_packets, 2);
};

const PLACE: &[Column<SegmentRow>] = columns! { SegmentRow;
    vantage: Text [""] "Where the capture was taken, as the sender's data see it: sender, between, receiver or unknown. At the receiver, round-trip times and bytes in flight come from echoed timestamps (without them they are missing or what the receiver saw), and pauses shorter than 4 round trips are not idle time." = |r| r.transfer.path.vantage().name();
    vantage_by: Text [""] "What shows this: handshake, timestamps, recovery (how long after holes their retransmissions came) or direction (which packets left the capturing host; where the round trip is below 0.1 ms)." = |r| r.transfer.path.sign.map(|sign| sign.name());
    sender_part: Real [""] "Part of the least round-trip time that lies between the capture and the sender: 0 at the sender, 1 at the receiver." = |r| r.transfer.path.sender_part().map(|part| rounded(part, 3));
    rtt_to_sender_ms: Real ["ms"] "Least round-trip time between the capture and the sender, so far in the flow." = |r| r.transfer.path.to_sender.map(millis);
    rtt_to_receiver_ms: Real ["ms"] "Least round-trip time between the capture and the receiver, so far in the flow." = |r| r.transfer.path.to_receiver.map(millis);
    rtt_base_ms: Real ["ms"] "Least round-trip time between these two hosts so far, by which bufferbloat and capacity are judged." = |r| r.transfer.metrics.base_rtt.map(millis);
    handshake_rtt_ms: Real ["ms"] "Round-trip time of the handshake, from the SYN to what acknowledges the answer to it; missing where a SYN was retransmitted or not captured." = |r| r.transfer.flow.handshake.rtt().map(millis);
    syn_retransmissions: Integer32 ["packets"] "How often a SYN or the answer to it was sent again." = |r| r.transfer.flow.syn_seen.then(|| u64::from(r.transfer.flow.handshake.retransmissions));
};

const KNOWN: &[Column<SegmentRow>] = columns! { SegmentRow;
    roles_known: Truth [""] "Whether a SYN tells the client from the server. Otherwise that is a guess." = |r| r.transfer.flow.roles_known;
};

const SHAPER: &[Column<SegmentRow>] = columns! { SegmentRow;
    shaping_queue_bytes: Integer ["B"] "With a burst-tolerant shaper: bytes of frames that wait when packets are dropped." = |r| r.shaping_queue().map(bits);
};

const SWITCH: &[Column<SegmentRow>] = columns! { SegmentRow;
    switch_s: Real ["s"] "With a burst-tolerant shaper: when the first packet that waited was sent, since the first data packet." = |r| r.switch().map(|switch| seconds(switch.after));
    switch_bytes: Integer ["B"] "Bytes of frames sent before that." = |r| r.switch().map(|switch| switch.bytes);
    rtt_ratio: Real [""] "90th over 10th percentile of round-trip times, as in figure 14 of the paper: shapers that let bursts pass raise it." = |r| r.transfer.metrics.rtt.and_then(|rtt| rtt.ratio()).map(|ratio| rounded(ratio, 3));
};
