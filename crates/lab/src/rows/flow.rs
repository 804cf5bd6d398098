//! A row for each flow of a simulation.

use tidegate_table::convert::{bits, millis, rounded, seconds};
use tidegate_table::{Column, Row};

use super::{Flow, Simulation};
use crate::Nanos;
use crate::experiment::Finished;
use crate::outcome::{AdaptiveOutcome, Distribution, FlowOutcome, StreamOutcome, Throttled};
use crate::plan::{FlowPlan, StreamPlan, Traffic};
use crate::playback::Viewing;
use crate::summary;

/// The results of a flow.
#[derive(Debug, Clone)]
pub struct LabFlowRow {
    flow: Flow,
    plan: FlowPlan,
    outcome: FlowOutcome,
}

impl LabFlowRow {
    /// The flows of a simulation.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let flows = finished
            .group
            .plan
            .flows
            .iter()
            .zip(&finished.outcome.flows);
        let row = |(index, (plan, outcome)): (usize, (&FlowPlan, &FlowOutcome))| Self {
            flow: Flow::new(of, finished, index),
            plan: plan.clone(),
            outcome: FlowOutcome {
                // Windows and states have separate rows.
                windows: Vec::new(),
                states: Vec::new(),
                ..outcome.clone()
            },
        };
        flows.enumerate().map(row).collect()
    }

    fn lasted(&self) -> Nanos {
        self.outcome.end.saturating_sub(self.outcome.start)
    }
}

impl Row for LabFlowRow {
    const TITLE: &'static str = "a flow of a simulation";

    fn columns() -> &'static [Column<Self>] {
        FLOW
    }
}

const FLOW: &[Column<LabFlowRow>] = flow_columns! { LabFlowRow;
    traffic: Text [""] "What it sends: bulk, on-off, video, stream, adaptive, web or udp." = |r| traffic(&r.plan.traffic);
    cc: Text [""] "Its congestion control, as the key `cc` of scenarios; missing for udp." = |r| congestion_control(&r.plan);
    delay_ms: Real ["ms"] "Its round-trip delay without the elements." = |r| millis(r.plan.delay);
    start_s: Real ["s"] "When it began to send." = |r| seconds(r.outcome.start);
    end_s: Real ["s"] "When its last byte was received, or the simulation ended." = |r| seconds(r.outcome.end);
    sent_packets: Integer ["packets"] "Packets with payload that the server sent, retransmissions included." = |r| r.outcome.sent_packets;
    sent_bytes: Integer ["B"] "Their bytes at the IP layer." = |r| r.outcome.sent_bytes;
    retransmitted_packets: Integer ["packets"] "Of these packets, the retransmissions." = |r| r.outcome.retransmitted;
    dropped_packets: Integer ["packets"] "Of these packets, those dropped on the path." = |r| r.outcome.dropped;
    drop_rate: Real [""] "Dropped over sent, 0 to 1." = |r| (r.outcome.sent_packets > 0).then(|| rounded(r.outcome.dropped as f64 / r.outcome.sent_packets as f64, 6));
    timeouts: Integer [""] "Retransmission timeouts." = |r| r.outcome.timeouts;
    delivered_bytes: Integer ["B"] "Payload that the client's application received, in order." = |r| r.outcome.delivered;
    goodput_bps: Integer ["bit/s"] "Delivered, from the flow's start to its end." = |r| (r.lasted() > 0).then(|| bits(summary::Throughput { bytes: r.outcome.delivered, time: r.lasted() }.bits_per_second()));
    rtt_samples: Integer [""] "Round-trip times that the server measured." = |r| r.outcome.rtt.count;
    rtt_min_ms: Real ["ms"] "The smallest." = |r| rtt(r, |rtt| rtt.min);
    rtt_mean_ms: Real ["ms"] "Their mean." = |r| rtt(r, |rtt| rtt.mean);
    rtt_p50_ms: Real ["ms"] "Their median." = |r| rtt(r, |rtt| rtt.p50);
    rtt_p95_ms: Real ["ms"] "95th percentile." = |r| rtt(r, |rtt| rtt.p95);
    rtt_p99_ms: Real ["ms"] "99th percentile." = |r| rtt(r, |rtt| rtt.p99);
    rtt_max_ms: Real ["ms"] "The largest." = |r| rtt(r, |rtt| rtt.max);
    transfers: Integer [""] "Transfers that were completed." = |r| r.outcome.completions.len() as u64;
    pace: Text [""] "Of a stream, how the server keeps the throttled rate: trickle, application-64k, application-16k, application (by blocks of another size), max-pacing-rate or none." = |r| stream(r).map(|(plan, _)| plan.pace.way.name());
    encoding_bps: Integer ["bit/s"] "Of a stream, the encoding rate." = |r| stream(r).map(|(plan, _)| plan.rate.bits_per_second());
    join_s: Real ["s"] "Of a stream or an adaptive video, from the request to the first picture; missing if it never came." = |r| viewing(r).and_then(|viewing| viewing.join).map(seconds);
    rebufferings: Integer [""] "Of a stream or an adaptive video, rebuffering events." = |r| viewing(r).map(|viewing| viewing.rebufferings);
    rebuffering_hz: Real ["1/s"] "Rebuffering events over the time from the request to the end of the video, or of the simulation." = |r| viewing(r).map(|viewing| rounded(viewing.frequency(), 6));
    stalled_s: Real ["s"] "Time spent in rebuffering events." = |r| viewing(r).map(|viewing| seconds(viewing.stalled));
    throttled_s: Real ["s"] "Of a stream, how long the throttling phase lasted: from the last packet of the start-up phase to the last acknowledgement." = |r| throttled(r).map(|phase| seconds(phase.end.saturating_sub(phase.start)));
    throttled_bps: Integer ["bit/s"] "Payload delivered in it: the streaming rate." = |r| throttled(r).filter(|phase| phase.end > phase.start).map(|phase| bits(summary::Throughput { bytes: phase.delivered, time: phase.end - phase.start }.bits_per_second()));
    throttled_sent_packets: Integer ["packets"] "Packets with payload sent in it." = |r| throttled(r).map(|phase| phase.sent);
    throttled_retransmitted_packets: Integer ["packets"] "Of these, the retransmissions." = |r| throttled(r).map(|phase| phase.retransmitted);
    throttled_retransmission_rate: Real [""] "Retransmitted over sent in it, 0 to 1." = |r| throttled(r).and_then(|phase| phase.retransmission_rate()).map(|rate| rounded(rate, 6));
    srtt_end_ms: Real ["ms"] "Of a stream, the server's smoothed round trip when everything was acknowledged, or when the simulation ended." = |r| stream(r).and_then(|(_, stream)| stream.srtt).map(millis);
    marked_packets: Integer ["packets"] "Of the packets with payload that the server sent, those that got the ECN field *congestion experienced* on the path." = |r| r.outcome.marked;
    rebuffering_ratio: Real [""] "Of a stream or an adaptive video, time spent in rebuffering events over time spent playing; missing if nothing was played." = |r| viewing(r).filter(|viewing| viewing.played > 0).map(|viewing| rounded(viewing.stalled as f64 / viewing.played as f64, 6));
    quality_bps: Integer ["bit/s"] "Of an adaptive video, the mean encoding rate of the segments that arrived." = |r| r.outcome.adaptive.as_ref().and_then(AdaptiveOutcome::mean_quality).map(bits);
    quality_switches: Integer [""] "How often a segment had another quality than the one before it." = |r| r.outcome.adaptive.as_ref().map(AdaptiveOutcome::switches);
    page_load_p50_s: Real ["s"] "Of web pages, the median page load time: from the visit's start to the last byte of its last object." = |r| page_load(r, 50.0);
    page_load_p95_s: Real ["s"] "95th percentile of it." = |r| page_load(r, 95.0);
};

fn stream(row: &LabFlowRow) -> Option<(&StreamPlan, &StreamOutcome)> {
    match &row.plan.traffic {
        Traffic::Stream(plan) => Some((plan, row.outcome.stream.as_ref()?)),
        _ => None,
    }
}

fn viewing(row: &LabFlowRow) -> Option<&Viewing> {
    let adaptive = row.outcome.adaptive.as_ref();
    let stream = stream(row).map(|(_, stream)| &stream.viewing);
    stream.or(adaptive.map(|adaptive| &adaptive.viewing))
}

fn page_load(row: &LabFlowRow, percent: f64) -> Option<f64> {
    if !matches!(row.plan.traffic, Traffic::Web(_)) {
        return None;
    }
    let times = row.outcome.completions.iter();
    let mut times: Vec<Nanos> = times.map(|one| one.end.saturating_sub(one.start)).collect();
    times.sort_unstable();
    summary::percentile(&times, percent).map(seconds)
}

fn throttled(row: &LabFlowRow) -> Option<&Throttled> {
    stream(row).and_then(|(_, stream)| stream.throttled.as_ref())
}

fn rtt(row: &LabFlowRow, pick: fn(&Distribution) -> Nanos) -> Option<f64> {
    let rtt = &row.outcome.rtt;
    (rtt.count > 0).then(|| millis(pick(rtt)))
}

fn traffic(traffic: &Traffic) -> &'static str {
    match traffic {
        Traffic::Bulk { .. } => "bulk",
        Traffic::OnOff { .. } => "on-off",
        Traffic::Video { .. } => "video",
        Traffic::Stream(_) => "stream",
        Traffic::Adaptive(_) => "adaptive",
        Traffic::Web(_) => "web",
        Traffic::Datagrams { .. } => "udp",
    }
}

fn congestion_control(plan: &FlowPlan) -> Option<&'static str> {
    if matches!(plan.traffic, Traffic::Datagrams { .. }) {
        return None;
    }
    Some(plan.tcp.algorithm.name())
}
