//! Rows of simulations: points of a sweep, flows, windows, elements, samples, transfers.

use std::sync::Arc;

use tidegate_lab::Nanos;
use tidegate_lab::experiment::Finished;
use tidegate_lab::outcome::{Completion, ElementOutcome, FlowOutcome, StreamOutcome, Throttled};
use tidegate_lab::plan::{FlowPlan, Pace, StreamPlan, Traffic};
use tidegate_lab::playback::Viewing;
use tidegate_lab::summary::{self, Summary};
use tidegate_lab::tcp::Algorithm;

use crate::column::{Column, bits, columns, millis, rounded, seconds};

/// Which simulation a row is of.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The point of the sweep.
    pub point: u64,
    /// What is varied, and its values there.
    pub parameters: Arc<str>,
    /// The seed.
    pub seed: u64,
}

impl Simulation {
    /// That which was run; `parameters` are those of its point.
    pub fn new(finished: &Finished, parameters: &[(String, String)]) -> Self {
        Self {
            point: finished.point as u64,
            parameters: label(parameters),
            seed: finished.seed,
        }
    }
}

/// Parameters as one text.
pub(crate) fn label(parameters: &[(String, String)]) -> Arc<str> {
    let parts: Vec<String> = parameters
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    parts.join(", ").into()
}

/// Which flow a row is of.
#[derive(Debug, Clone)]
struct Flow {
    of: Simulation,
    aggregate: String,
    name: String,
    number: u64,
}

impl Flow {
    fn new(of: &Simulation, finished: &Finished, index: usize) -> Self {
        let flow = &finished.group.plan.flows[index];
        Self {
            of: of.clone(),
            aggregate: finished.group.plan.aggregates[flow.aggregate].clone(),
            name: flow.name.clone(),
            number: u64::from(finished.group.numbers[index]),
        }
    }
}

/// What a point of a sweep comes to.
#[derive(Debug, Clone)]
pub struct LabPointRow {
    /// Its number.
    pub point: u64,
    /// What is varied, and its values there.
    pub parameters: Vec<(String, String)>,
    /// What it comes to.
    pub summary: Summary,
}

impl crate::Row for LabPointRow {
    const TITLE: &'static str = "a point of a sweep, over all its seeds";

    fn columns() -> &'static [Column<Self>] {
        POINT
    }
}

const POINT: &[Column<LabPointRow>] = columns! { LabPointRow;
    point: Integer [""] "The point's number, from 0; the last key of the sweep runs fastest." = |r| r.point;
    parameters: Text [""] "What is varied, and its values at the point: `gate.rate=5mbit, gate.kind=policer`." = |r| label(&r.parameters).to_string();
    simulations: Integer [""] "Simulations that were run to their end: seeds times groups of aggregates that share nothing." = |r| r.summary.simulations;
    aggregates: Integer [""] "Aggregates, counted anew for each seed." = |r| r.summary.aggregates;
    flows: Integer [""] "Flows, counted anew for each seed." = |r| r.summary.flows;
    throughput_bps: Integer ["bit/s"] "Mean throughput of an aggregate at the IP layer, from its first flow's start to its last one's end." = |r| r.summary.throughput.map(bits);
    normalised_mean: Real [""] "Mean over aggregates and windows of throughput over the rate of the aggregate's slowest limiter; missing without one." = |r| r.summary.normalised_mean.map(|share| rounded(share, 6));
    normalised_p99: Real [""] "99th percentile of it." = |r| r.summary.normalised_p99.map(|share| rounded(share, 6));
    drop_rate: Real [""] "Data packets dropped on the way over data packets sent, 0 to 1." = |r| r.summary.drop_rate.map(|share| rounded(share, 6));
    jain_median: Real [""] "Median over aggregates and windows of Jain's fairness index among flows with something to send." = |r| r.summary.jain.map(|index| rounded(index, 6));
    rtt_p50_ms: Real ["ms"] "Median over flows of their median round-trip time." = |r| r.summary.rtt_p50.map(millis);
    rtt_p95_ms: Real ["ms"] "Median over flows of their 95th percentile." = |r| r.summary.rtt_p95.map(millis);
    transfers: Integer [""] "Transfers that were completed." = |r| r.summary.completions;
    transfer_p50_s: Real ["s"] "Median time of a transfer." = |r| r.summary.completion_p50.map(seconds);
    transfer_p95_s: Real ["s"] "95th percentile of it." = |r| r.summary.completion_p95.map(seconds);
    packets: Integer ["packets"] "Packets sent by all endpoints, acknowledgements included." = |r| r.summary.packets;
};

/// What became of a flow.
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
                // Rows of their own.
                windows: Vec::new(),
                ..outcome.clone()
            },
        };
        flows.enumerate().map(row).collect()
    }

    fn lasted(&self) -> Nanos {
        self.outcome.end.saturating_sub(self.outcome.start)
    }
}

impl crate::Row for LabFlowRow {
    const TITLE: &'static str = "a flow of a simulation";

    fn columns() -> &'static [Column<Self>] {
        FLOW
    }
}

const FLOW: &[Column<LabFlowRow>] = columns! { LabFlowRow;
    point: Integer [""] "The point of the sweep." = |r| r.flow.of.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.flow.of.parameters.to_string();
    seed: Integer [""] "The seed." = |r| r.flow.of.seed;
    aggregate: Text [""] "The aggregate." = |r| r.flow.aggregate.clone();
    flow: Text [""] "The flow's name in the scenario." = |r| r.flow.name.clone();
    number: Integer [""] "Its number among the flows of the name in the aggregate, from 0." = |r| r.flow.number;
    traffic: Text [""] "What it sends: bulk, on-off, video, stream or udp." = |r| traffic(&r.plan.traffic);
    cc: Text [""] "Its congestion control: reno, cubic, bbr or vegas; missing for udp." = |r| congestion_control(&r.plan);
    delay_ms: Real ["ms"] "Its own round-trip delay." = |r| millis(r.plan.delay);
    start_s: Real ["s"] "When it began to send." = |r| seconds(r.outcome.start);
    end_s: Real ["s"] "When its last byte was received, or the simulation ended." = |r| seconds(r.outcome.end);
    sent_packets: Integer ["packets"] "Packets with payload that the server sent, retransmissions among them." = |r| r.outcome.sent_packets;
    sent_bytes: Integer ["B"] "Their bytes at the IP layer." = |r| r.outcome.sent_bytes;
    retransmitted_packets: Integer ["packets"] "Of these packets, those sent again." = |r| r.outcome.retransmitted;
    dropped_packets: Integer ["packets"] "Of these packets, those dropped on the way." = |r| r.outcome.dropped;
    drop_rate: Real [""] "Dropped over sent, 0 to 1." = |r| (r.outcome.sent_packets > 0).then(|| rounded(r.outcome.dropped as f64 / r.outcome.sent_packets as f64, 6));
    timeouts: Integer [""] "Retransmission timeouts." = |r| r.outcome.timeouts;
    delivered_bytes: Integer ["B"] "Payload that the client's application received, in order." = |r| r.outcome.delivered;
    goodput_bps: Integer ["bit/s"] "Delivered, from the flow's start to its end." = |r| (r.lasted() > 0).then(|| bits(summary::bits_per_second(r.outcome.delivered, r.lasted())));
    rtt_samples: Integer [""] "Round-trip times that the server measured." = |r| r.outcome.rtt.count;
    rtt_min_ms: Real ["ms"] "Least of them." = |r| rtt(r, |rtt| rtt.min);
    rtt_mean_ms: Real ["ms"] "Their mean." = |r| rtt(r, |rtt| rtt.mean);
    rtt_p50_ms: Real ["ms"] "Their median." = |r| rtt(r, |rtt| rtt.p50);
    rtt_p95_ms: Real ["ms"] "95th percentile." = |r| rtt(r, |rtt| rtt.p95);
    rtt_p99_ms: Real ["ms"] "99th percentile." = |r| rtt(r, |rtt| rtt.p99);
    rtt_max_ms: Real ["ms"] "Greatest of them." = |r| rtt(r, |rtt| rtt.max);
    transfers: Integer [""] "Transfers that were completed." = |r| r.outcome.completions.len() as u64;
    pace: Text [""] "Of a stream, how the server keeps the throttled rate: none, blocks, max-rate or trickle." = |r| stream(r).map(|(plan, _)| pace(plan));
    encoding_bps: Integer ["bit/s"] "Of a stream, the encoding rate." = |r| stream(r).map(|(plan, _)| plan.rate.bits_per_second());
    join_s: Real ["s"] "Of a stream, from the request to the first picture; missing if it never came." = |r| viewing(r).and_then(|viewing| viewing.join).map(seconds);
    rebufferings: Integer [""] "Of a stream, rebuffering events." = |r| viewing(r).map(|viewing| viewing.rebufferings);
    rebuffering_hz: Real ["1/s"] "Rebuffering events over the time from the request to the end of the video, or of the simulation." = |r| viewing(r).map(|viewing| rounded(viewing.frequency(), 6));
    stalled_s: Real ["s"] "Time spent in rebuffering events." = |r| viewing(r).map(|viewing| seconds(viewing.stalled));
    throttled_s: Real ["s"] "Of a stream, how long the throttling phase lasted: from the last packet of the start-up phase to the last acknowledgement." = |r| throttled(r).map(|phase| seconds(phase.end.saturating_sub(phase.start)));
    throttled_bps: Integer ["bit/s"] "Payload delivered in it: the streaming rate." = |r| throttled(r).filter(|phase| phase.end > phase.start).map(|phase| bits(summary::bits_per_second(phase.delivered, phase.end - phase.start)));
    throttled_sent_packets: Integer ["packets"] "Packets with payload sent in it." = |r| throttled(r).map(|phase| phase.sent);
    throttled_retransmitted_packets: Integer ["packets"] "Of these, those sent again." = |r| throttled(r).map(|phase| phase.retransmitted);
    throttled_retransmission_rate: Real [""] "Sent again over sent in it, 0 to 1." = |r| throttled(r).and_then(|phase| phase.retransmission_rate()).map(|rate| rounded(rate, 6));
    srtt_end_ms: Real ["ms"] "Of a stream, the server's smoothed round trip when all was acknowledged, or the simulation ended." = |r| stream(r).and_then(|(_, stream)| stream.srtt).map(millis);
};

fn stream(row: &LabFlowRow) -> Option<(&StreamPlan, &StreamOutcome)> {
    match &row.plan.traffic {
        Traffic::Stream(plan) => Some((plan, row.outcome.stream.as_ref()?)),
        _ => None,
    }
}

fn viewing(row: &LabFlowRow) -> Option<&Viewing> {
    stream(row).map(|(_, stream)| &stream.viewing)
}

fn throttled(row: &LabFlowRow) -> Option<&Throttled> {
    stream(row).and_then(|(_, stream)| stream.throttled.as_ref())
}

fn pace(plan: &StreamPlan) -> &'static str {
    match plan.pace {
        Pace::None => "none",
        Pace::Blocks { .. } => "blocks",
        Pace::MaxRate => "max-rate",
        Pace::Trickle { .. } => "trickle",
    }
}

fn rtt(row: &LabFlowRow, pick: fn(&tidegate_lab::outcome::Distribution) -> Nanos) -> Option<f64> {
    let rtt = &row.outcome.rtt;
    (rtt.count > 0).then(|| millis(pick(rtt)))
}

fn traffic(traffic: &Traffic) -> &'static str {
    match traffic {
        Traffic::Bulk { .. } => "bulk",
        Traffic::OnOff { .. } => "on-off",
        Traffic::Video { .. } => "video",
        Traffic::Stream(_) => "stream",
        Traffic::Datagrams { .. } => "udp",
    }
}

fn congestion_control(plan: &FlowPlan) -> Option<&'static str> {
    if matches!(plan.traffic, Traffic::Datagrams { .. }) {
        return None;
    }
    Some(match plan.tcp.algorithm {
        Algorithm::Reno => "reno",
        Algorithm::Cubic => "cubic",
        Algorithm::Bbr => "bbr",
        Algorithm::Vegas => "vegas",
    })
}

/// A window of an aggregate, or of one of its flows.
#[derive(Debug, Clone)]
pub struct LabWindowRow {
    of: Simulation,
    aggregate: String,
    /// Name and number; none: all flows together.
    flow: Option<(String, u64)>,
    start: Nanos,
    width: Nanos,
    bytes: u64,
    normalised: Option<f64>,
    jain: Option<f64>,
}

impl LabWindowRow {
    /// The windows of a simulation: of its aggregates, then of its flows.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let (group, outcome) = (&finished.group, &finished.outcome);
        let row =
            |aggregate: usize, flow: Option<(String, u64)>, (index, &bytes): (usize, &u64)| Self {
                of: of.clone(),
                aggregate: group.plan.aggregates[aggregate].clone(),
                flow,
                start: index as u64 * outcome.window,
                width: summary::width(&group.plan, index),
                bytes,
                normalised: None,
                jain: None,
            };
        let mut rows = Vec::new();
        for (index, aggregate) in outcome.aggregates.iter().enumerate() {
            let mut fairness = summary::fairness(&group.plan, outcome, index)
                .into_iter()
                .peekable();
            let limit = group.limits[index].map(|rate| rate.bits_per_second() as f64);
            for window in aggregate.windows.iter().enumerate() {
                let mut row = row(index, None, window);
                row.normalised =
                    limit.map(|limit| summary::bits_per_second(row.bytes, row.width) / limit);
                row.jain = fairness
                    .next_if(|(at, _)| *at == window.0)
                    .map(|(_, jain)| jain);
                rows.push(row);
            }
        }
        for (index, flow) in outcome.flows.iter().enumerate() {
            let name = (flow.name.clone(), u64::from(group.numbers[index]));
            let windows = flow.windows.iter().enumerate();
            rows.extend(windows.map(|window| row(flow.aggregate, Some(name.clone()), window)));
        }
        rows
    }
}

impl crate::Row for LabWindowRow {
    const TITLE: &'static str = "a window of time of an aggregate, or of a flow";

    fn columns() -> &'static [Column<Self>] {
        WINDOW
    }
}

const WINDOW: &[Column<LabWindowRow>] = columns! { LabWindowRow;
    point: Integer [""] "The point of the sweep." = |r| r.of.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.of.parameters.to_string();
    seed: Integer [""] "The seed." = |r| r.of.seed;
    aggregate: Text [""] "The aggregate." = |r| r.aggregate.clone();
    flow: Text [""] "The flow's name; missing: all flows of the aggregate." = |r| r.flow.as_ref().map(|flow| flow.0.clone());
    number: Integer [""] "The flow's number among those of its name in the aggregate, from 0." = |r| r.flow.as_ref().map(|flow| flow.1);
    start_s: Real ["s"] "When the window begins." = |r| seconds(r.start);
    bytes: Integer ["B"] "Bytes at the IP layer that reached the clients." = |r| r.bytes;
    throughput_bps: Integer ["bit/s"] "The same as a rate; the last window ends with the simulation." = |r| bits(summary::bits_per_second(r.bytes, r.width));
    normalised: Real [""] "Of an aggregate: throughput over the rate of its slowest limiter." = |r| r.normalised.map(|share| rounded(share, 6));
    jain: Real [""] "Of an aggregate: Jain's fairness index among flows with something to send, if there are two." = |r| r.jain.map(|index| rounded(index, 6));
};

/// What an element did.
#[derive(Debug, Clone)]
pub struct LabElementRow {
    element: Element,
    outcome: ElementOutcome,
}

/// Which element a row is of.
#[derive(Debug, Clone)]
struct Element {
    of: Simulation,
    name: String,
    aggregate: Option<String>,
}

impl Element {
    fn new(of: &Simulation, finished: &Finished, index: usize) -> Self {
        let instance = &finished.group.elements[index];
        let name = |aggregate| finished.group.plan.aggregates.get(aggregate).cloned();
        Self {
            of: of.clone(),
            name: instance.name.clone(),
            aggregate: instance.aggregate.and_then(name),
        }
    }
}

impl LabElementRow {
    /// The elements of a simulation.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let row = |(index, outcome): (usize, &ElementOutcome)| Self {
            element: Element::new(of, finished, index),
            outcome: ElementOutcome {
                // Rows of their own.
                samples: Vec::new(),
                ..outcome.clone()
            },
        };
        finished
            .outcome
            .elements
            .iter()
            .enumerate()
            .map(row)
            .collect()
    }
}

impl crate::Row for LabElementRow {
    const TITLE: &'static str = "an element of a simulation";

    fn columns() -> &'static [Column<Self>] {
        ELEMENT
    }
}

const ELEMENT: &[Column<LabElementRow>] = columns! { LabElementRow;
    point: Integer [""] "The point of the sweep." = |r| r.element.of.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.element.of.parameters.to_string();
    seed: Integer [""] "The seed." = |r| r.element.of.seed;
    element: Text [""] "The element's name in the scenario." = |r| r.element.name.clone();
    aggregate: Text [""] "Whose it is; missing if it is shared." = |r| r.element.aggregate.clone();
    packets: Integer ["packets"] "Packets that came." = |r| r.outcome.packets;
    bytes: Integer ["B"] "Their bytes, as the element counts them." = |r| r.outcome.bytes;
    dropped_packets: Integer ["packets"] "Packets that it dropped." = |r| r.outcome.dropped;
    dropped_bytes: Integer ["B"] "Bytes of these." = |r| r.outcome.dropped_bytes;
    drop_rate: Real [""] "Packets dropped over packets that came, 0 to 1." = |r| (r.outcome.packets > 0).then(|| rounded(r.outcome.dropped as f64 / r.outcome.packets as f64, 6));
    marked_packets: Integer ["packets"] "Packets that it re-marked." = |r| r.outcome.marked;
};

/// The occupancy of a queue at a time.
#[derive(Debug, Clone)]
pub struct LabSampleRow {
    element: Element,
    at: Nanos,
    queue: u64,
    bytes: u64,
    magic: Option<u64>,
}

impl LabSampleRow {
    /// The samples of a simulation.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let mut rows = Vec::new();
        for (index, outcome) in finished.outcome.elements.iter().enumerate() {
            let element = Element::new(of, finished, index);
            for sample in &outcome.samples {
                for (queue, &bytes) in sample.queues.iter().enumerate() {
                    rows.push(Self {
                        element: element.clone(),
                        at: sample.at,
                        queue: queue as u64,
                        bytes,
                        magic: sample.magic.get(queue).copied(),
                    });
                }
            }
        }
        rows
    }
}

impl crate::Row for LabSampleRow {
    const TITLE: &'static str = "the occupancy of a queue at a time";

    fn columns() -> &'static [Column<Self>] {
        SAMPLE
    }
}

const SAMPLE: &[Column<LabSampleRow>] = columns! { LabSampleRow;
    point: Integer [""] "The point of the sweep." = |r| r.element.of.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.element.of.parameters.to_string();
    seed: Integer [""] "The seed." = |r| r.element.of.seed;
    element: Text [""] "The element's name in the scenario." = |r| r.element.name.clone();
    aggregate: Text [""] "Whose it is; missing if it is shared." = |r| r.element.aggregate.clone();
    at_s: Real ["s"] "When." = |r| seconds(r.at);
    queue: Integer [""] "The queue's number in the element, from 0." = |r| r.queue;
    bytes: Integer ["B"] "Bytes in the queue, or tokens missing from the bucket; phantom bytes for phantom queues, magic ones included." = |r| r.bytes;
    magic_bytes: Integer ["B"] "Of these, magic bytes; missing without burst control." = |r| r.magic;
};

/// A transfer.
#[derive(Debug, Clone)]
pub struct LabTransferRow {
    flow: Flow,
    transfer: Completion,
}

impl LabTransferRow {
    /// The transfers of a simulation.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let mut rows = Vec::new();
        for (index, outcome) in finished.outcome.flows.iter().enumerate() {
            let flow = Flow::new(of, finished, index);
            rows.extend(outcome.completions.iter().map(|&transfer| Self {
                flow: flow.clone(),
                transfer,
            }));
        }
        rows
    }
}

impl crate::Row for LabTransferRow {
    const TITLE: &'static str = "a transfer that was completed: a download, a chunk, an on period";

    fn columns() -> &'static [Column<Self>] {
        TRANSFER
    }
}

const TRANSFER: &[Column<LabTransferRow>] = columns! { LabTransferRow;
    point: Integer [""] "The point of the sweep." = |r| r.flow.of.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.flow.of.parameters.to_string();
    seed: Integer [""] "The seed." = |r| r.flow.of.seed;
    aggregate: Text [""] "The aggregate." = |r| r.flow.aggregate.clone();
    flow: Text [""] "The flow's name in the scenario." = |r| r.flow.name.clone();
    number: Integer [""] "Its number among the flows of the name in the aggregate, from 0." = |r| r.flow.number;
    start_s: Real ["s"] "When it was asked for, or its first byte written." = |r| seconds(r.transfer.start);
    duration_s: Real ["s"] "From then to its last byte at the client." = |r| seconds(r.transfer.end.saturating_sub(r.transfer.start));
    bytes: Integer ["B"] "Its payload." = |r| r.transfer.bytes;
};
