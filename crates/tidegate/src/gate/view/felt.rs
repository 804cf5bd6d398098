//! What a line feels, and watched flows, as objects of the HTTP API.

use serde::{Deserialize, Serialize};
use tidegate_gate::flow::{Flow, Way};
use tidegate_gate::line::{Line, Segments, TripSummary};
use utoipa::ToSchema;

/// What a subscriber's line feels, or all lines together.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Line)]
pub struct LineJson {
    /// From 0 (useless) to 100 (as good as is needed); null with fewer than 10 round trips on the subscriber's side in the last
    /// 34 to 69 s.
    pub score: Option<f64>,
    /// Round trips between the gate and the subscriber's devices.
    pub access: TripsJson,
    /// Round trips between the gate and the other side.
    pub core: TripsJson,
    /// TCP to the subscriber.
    pub down: SegmentsJson,
    /// TCP from the subscriber.
    pub up: SegmentsJson,
}

/// Round trips on one side of the gate.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = RoundTrips)]
pub struct TripsJson {
    /// The median of the last 34 to 69 s in milliseconds; null if there is none.
    pub p50_ms: Option<f64>,
    /// The 95th percentile, likewise.
    pub p95_ms: Option<f64>,
    /// Those of the last 34 to 69 s.
    pub lately: u64,
    /// Those since the subscriber was added.
    pub measured: u64,
}

/// Segments of TCP with data.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = Segments)]
pub struct SegmentsJson {
    /// Those that came since the subscriber was added.
    pub segments: u64,
    /// Those of them that were sent again.
    pub again: u64,
    /// The share that was sent again in the last 34 to 69 s; null if there was none.
    pub again_share: Option<f64>,
}

impl From<TripSummary> for TripsJson {
    fn from(trips: TripSummary) -> Self {
        let ms = |nanos: u64| (trips.lately > 0).then_some(nanos as f64 / 1e6);
        Self {
            p50_ms: ms(trips.p50),
            p95_ms: ms(trips.p95),
            lately: trips.lately,
            measured: trips.measured,
        }
    }
}

impl SegmentsJson {
    fn new(all: Segments, lately: Segments) -> Self {
        Self {
            segments: all.all,
            again: all.again,
            again_share: (lately.all > 0).then(|| lately.share()),
        }
    }
}

impl LineJson {
    pub fn new(line: &Line, score: Option<f64>) -> Self {
        Self {
            score: score.map(|score| (score * 10.0).round() / 10.0),
            access: line.access.into(),
            core: line.core.into(),
            down: SegmentsJson::new(line.segments.down, line.lately.down),
            up: SegmentsJson::new(line.segments.up, line.lately.up),
        }
    }
}

/// The watched flows of a subscriber.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Flows)]
pub struct FlowsJson {
    /// Number of watched flows that sent in the last minute.
    pub matched: u64,
    /// Those with the most bytes.
    pub flows: Vec<FlowJson>,
}

/// A flow.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Flow)]
pub struct FlowJson {
    /// `tcp`, `udp`, `icmp`, or a protocol's number.
    pub protocol: String,
    /// The subscriber's address.
    pub local: String,
    /// The subscriber's port; 0 without ports.
    pub local_port: u16,
    /// The other address.
    pub remote: String,
    /// The other port.
    pub remote_port: u16,
    /// Seconds since its first packet.
    pub age_s: f64,
    /// Seconds since its latest packet.
    pub idle_s: f64,
    /// Packets to the subscriber.
    pub down: WayJson,
    /// Packets from the subscriber.
    pub up: WayJson,
}

/// The packets of a flow in one direction, since it is watched.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = FlowWay)]
pub struct WayJson {
    /// Packets that passed.
    pub passed_packets: u64,
    /// Their bytes.
    pub passed_bytes: u64,
    /// Packets beyond the limit.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
    /// Packets that passed and were marked as congested here.
    pub marked_packets: u64,
    /// Segments of TCP that were sent again.
    pub again: u64,
    /// The latest time from a packet to its answer, in milliseconds: on the subscriber's side of packets down, on the other
    /// side of packets up. Null if none was measured.
    pub trip_ms: Option<f64>,
    /// The queue of the latest packet.
    pub queue: u16,
}

impl From<&Way> for WayJson {
    fn from(way: &Way) -> Self {
        Self {
            passed_packets: way.passed_packets,
            passed_bytes: way.passed_bytes,
            excess_packets: way.excess_packets,
            excess_bytes: way.excess_bytes,
            marked_packets: way.marked_packets,
            again: way.segments.again,
            trip_ms: (way.trip > 0).then_some(way.trip as f64 / 1e6),
            queue: way.queue,
        }
    }
}

impl From<&Flow> for FlowJson {
    fn from(flow: &Flow) -> Self {
        let protocol = match flow.protocol {
            1 => "icmp".to_owned(),
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            58 => "icmp6".to_owned(),
            132 => "sctp".to_owned(),
            other => other.to_string(),
        };
        Self {
            protocol,
            local: flow.local.to_string(),
            local_port: flow.ports.0,
            remote: flow.remote.to_string(),
            remote_port: flow.ports.1,
            age_s: flow.age as f64 / 1e9,
            idle_s: flow.idle as f64 / 1e9,
            down: (&flow.ways.down).into(),
            up: (&flow.ways.up).into(),
        }
    }
}

/// A flow without packets for this time is over, in nanoseconds.
const OVER: u64 = 60_000_000_000;

impl FlowsJson {
    /// At most this many flows: those with the most bytes.
    pub fn new(flows: &[Flow], most: usize) -> Self {
        let mut present: Vec<&Flow> = flows.iter().filter(|flow| flow.idle < OVER).collect();
        let bytes = |way: &Way| way.passed_bytes + way.excess_bytes;
        present.sort_by_key(|flow| {
            let sum = bytes(&flow.ways.down) + bytes(&flow.ways.up);
            (std::cmp::Reverse(sum), flow.local, flow.ports, flow.remote)
        });
        Self {
            matched: present.len() as u64,
            flows: present.into_iter().take(most).map(FlowJson::from).collect(),
        }
    }
}
