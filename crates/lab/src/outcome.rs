//! The results of a simulation.

use tidegate_limiter::Nanos;

use crate::playback::Viewing;
use crate::tcp::Snapshot;

/// The results of one simulation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Packets sent by all endpoints, acknowledgements included.
    pub packets: u64,
    /// Width of the throughput windows.
    pub window: Nanos,
    /// In the order of the plan.
    pub flows: Vec<FlowOutcome>,
    /// In the order of the plan.
    pub aggregates: Vec<AggregateOutcome>,
    /// In the order of the plan.
    pub elements: Vec<ElementOutcome>,
}

/// The results of a flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowOutcome {
    /// Its name in the plan.
    pub name: String,
    /// Index of its aggregate.
    pub aggregate: usize,
    /// When it began to send.
    pub start: Nanos,
    /// When its last byte was received, or the simulation ended.
    pub end: Nanos,
    /// Packets with payload sent by the server, retransmissions included.
    pub sent_packets: u64,
    /// Their bytes at the IP layer.
    pub sent_bytes: u64,
    /// The packets among `sent_packets` that are retransmissions.
    pub retransmitted: u64,
    /// The packets among `sent_packets` that were dropped on the way: ground truth.
    pub dropped: u64,
    /// The packets among `sent_packets` that got the ECN field *congestion experienced* on the way.
    pub marked: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Payload bytes that the client's application received, in order: goodput.
    pub delivered: u64,
    /// Round-trip times as the server measured them.
    pub rtt: Distribution,
    /// Transfers that were completed.
    pub completions: Vec<Completion>,
    /// When the transfer began that was incomplete at the end, if there is one.
    pub open: Option<Nanos>,
    /// Bytes at the IP layer that reached the client, by window from time 0.
    pub windows: Vec<u64>,
    /// The states of its servers' connections over time, if the plan wants them.
    pub states: Vec<State>,
    /// For a video that was streamed: what its viewer saw, and its throttling phase.
    pub stream: Option<StreamOutcome>,
    /// For a video whose quality was adapted: what its viewer saw, and the qualities.
    pub adaptive: Option<AdaptiveOutcome>,
}

/// The state of a server's connection at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// When.
    pub at: Nanos,
    /// The number of the connection in its flow, from 0.
    pub connection: u32,
    /// The state of the server.
    pub snapshot: Snapshot,
}

/// The results of a video that was streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOutcome {
    /// What the viewer saw until the end of the video or the simulation.
    pub viewing: Viewing,
    /// The throttling phase, if it was reached.
    pub throttled: Option<Throttled>,
    /// The server's smoothed round trip when everything was acknowledged, or when the simulation
    /// ended.
    pub srtt: Option<Nanos>,
}

/// The results of a video whose quality was adapted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveOutcome {
    /// What the viewer saw until the end of the video or the simulation.
    pub viewing: Viewing,
    /// The encoding rate of each segment that arrived, in bit/s: those of the flow's completions.
    pub qualities: Vec<u64>,
}

impl AdaptiveOutcome {
    /// The mean encoding rate of the segments in bit/s; `None` without any.
    pub fn mean_quality(&self) -> Option<f64> {
        let sum: u64 = self.qualities.iter().sum();
        (!self.qualities.is_empty()).then(|| sum as f64 / self.qualities.len() as f64)
    }

    /// How often a segment had another quality than the one before it.
    pub fn switches(&self) -> u64 {
        let pairs = self.qualities.windows(2);
        pairs.filter(|pair| pair[0] != pair[1]).count() as u64
    }
}

/// The throttling phase of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// When all of the start-up phase was sent.
    pub start: Nanos,
    /// When everything was acknowledged, or when the simulation ended.
    pub end: Nanos,
    /// Packets with payload that the server sent in it.
    pub sent: u64,
    /// The packets among these that are retransmissions.
    pub retransmitted: u64,
    /// Bytes after the start-up phase that were acknowledged.
    pub delivered: u64,
}

impl Throttled {
    /// Retransmitted packets over packets sent, 0 to 1; `None` if none was sent.
    pub fn retransmission_rate(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.retransmitted as f64 / self.sent as f64)
    }
}

/// A transfer: a chunk, a download, an on period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// From the request or the first write.
    pub start: Nanos,
    /// To the last byte at the client.
    pub end: Nanos,
    /// Its payload.
    pub bytes: u64,
}

/// Percentiles of times; all 0 without any.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Smallest.
    pub min: Nanos,
    /// Mean.
    pub mean: Nanos,
    /// 10th percentile.
    pub p10: Nanos,
    /// Median.
    pub p50: Nanos,
    /// 90th percentile.
    pub p90: Nanos,
    /// 95th percentile.
    pub p95: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// Largest.
    pub max: Nanos,
}

/// The results of an aggregate.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AggregateOutcome {
    /// Its name in the plan.
    pub name: String,
    /// Bytes at the IP layer that reached the clients, by window from time 0.
    pub windows: Vec<u64>,
}

/// Steps of equal length in which the dropped packets of a simulation are counted.
pub const DROP_STEPS: u64 = 400;

/// The length of these steps.
pub fn drop_step(duration: Nanos) -> Nanos {
    duration.div_ceil(DROP_STEPS).max(1)
}

/// The results of an element.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElementOutcome {
    /// Its name in the plan.
    pub name: String,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes as the element counts them.
    pub bytes: u64,
    /// Packets it dropped.
    pub dropped: u64,
    /// Bytes of these.
    pub dropped_bytes: u64,
    /// Packets it dropped in each [step](drop_step) of the simulation, up to the last step with a drop.
    pub drops: Vec<u64>,
    /// Packets it re-marked.
    pub marked: u64,
    /// Its occupancy over time, if the plan wants samples and it has any.
    pub samples: Vec<Sample>,
}

/// The occupancy of an element at a time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// When.
    pub at: Nanos,
    /// Bytes in each of its queues, or tokens missing from its bucket. For phantom queues these are
    /// phantom bytes, including magic bytes.
    pub queues: Vec<u64>,
    /// The magic bytes among these; empty without burst control.
    pub magic: Vec<u64>,
}
