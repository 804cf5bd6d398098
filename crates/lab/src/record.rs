//! The counts of a running simulation.

mod histogram;

use tidegate_limiter::{Nanos, prefetch_all};

use crate::outcome::{Completion, ElementOutcome, FlowOutcome, Sample, State};
use crate::plan::{FlowPlan, Plan};

pub use histogram::Histogram;

/// Bytes by window. All windows are allocated at the start, so that a plan that does not fit fails
/// at once.
#[derive(Debug, Clone)]
pub struct Windows {
    width: Nanos,
    bytes: Box<[u64]>,
}

impl Windows {
    /// The windows of a plan, over its whole duration.
    pub fn new(plan: &Plan) -> Self {
        Self {
            width: plan.window,
            bytes: vec![0; plan.duration.div_ceil(plan.window) as usize].into(),
        }
    }

    /// Counts bytes.
    #[inline]
    pub fn add(&mut self, now: Nanos, bytes: u32) {
        if let Some(window) = self.bytes.get_mut((now / self.width) as usize) {
            *window += u64::from(bytes);
        }
    }

    /// Asks for the memory of the present window.
    #[inline]
    pub fn prefetch(&self, now: Nanos) {
        let window = self.bytes.get((now / self.width) as usize);
        window.inspect(|window| prefetch_all(*window));
    }

    /// The counts of the windows that have begun.
    pub fn until(&self, now: Nanos) -> &[u64] {
        let begun = (now / self.width) as usize + 1;
        &self.bytes[..begun.min(self.bytes.len())]
    }

    /// The counts.
    pub fn into_bytes(self) -> Vec<u64> {
        self.bytes.into()
    }
}

/// The counts of a flow's ends when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnds {
    /// When the flow ended, if this is not the arrival of its last new byte.
    pub end: Option<Nanos>,
    /// Bytes of payload that the client's application got.
    pub delivered: u64,
    /// Retransmission timeouts of the server.
    pub timeouts: u64,
}

/// The counts of a flow, those of every packet first.
#[derive(Debug)]
#[repr(C)]
pub struct FlowRecord {
    /// Bytes at the IP layer that reached the client.
    pub windows: Windows,
    /// Packets with payload that arrived.
    pub arrived: u64,
    /// When data last came that the client did not have yet.
    pub last: Nanos,
    /// Packets with payload sent by the server.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Round trips as the server measured them.
    pub rtt: Histogram,
    /// Dropped packets among those sent.
    pub dropped: u64,
    /// Marked packets among them, as having experienced congestion.
    pub marked: u64,
    /// Transfers completed.
    pub completions: Vec<Completion>,
    /// States of its connections.
    pub states: Vec<State>,
}

impl FlowRecord {
    /// The record of a flow at the start.
    pub fn new(plan: &Plan) -> Self {
        Self {
            windows: Windows::new(plan),
            sent_packets: 0,
            sent_bytes: 0,
            retransmitted: 0,
            dropped: 0,
            marked: 0,
            arrived: 0,
            rtt: Histogram::default(),
            completions: Vec::new(),
            last: 0,
            states: Vec::new(),
        }
    }

    /// The outcome of the flow, with the counts of its ends.
    pub fn outcome(mut self, plan: &FlowPlan, ends: FlowEnds) -> FlowOutcome {
        FlowOutcome {
            name: plan.name.clone(),
            aggregate: plan.aggregate,
            start: plan.start,
            end: ends.end.unwrap_or(self.last),
            sent_packets: self.sent_packets,
            sent_bytes: self.sent_bytes,
            retransmitted: self.retransmitted,
            dropped: self.dropped,
            marked: self.marked,
            timeouts: ends.timeouts,
            delivered: ends.delivered,
            rtt: self.rtt.distribution(),
            completions: self.completions,
            open: None,
            windows: self.windows.into_bytes(),
            states: self.states,
            stream: None,
            adaptive: None,
        }
    }
}

/// The counts of an element.
#[derive(Clone, Debug, Default)]
pub struct ElementRecord {
    /// Packets that came.
    pub packets: u64,
    /// Their bytes at the IP layer.
    pub bytes: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Their bytes at the IP layer.
    pub dropped_bytes: u64,
    /// These packets by when they were dropped; see [`ElementOutcome::drops`].
    pub drops: Vec<u64>,
    /// Packets that it re-marked.
    pub marked: u64,
    /// Samples of how full it was.
    pub samples: Vec<Sample>,
}

impl ElementRecord {
    /// Counts a dropped packet of this many bytes, in a step of the simulation.
    pub fn drop_packet(&mut self, step: usize, bytes: u32) {
        self.dropped += 1;
        self.dropped_bytes += u64::from(bytes);
        // Most elements never drop, so steps are kept from the first drop on.
        if self.drops.len() <= step {
            self.drops.resize(step + 1, 0);
        }
        self.drops[step] += 1;
    }

    /// The outcome of an element that adds `overhead` bytes to each packet when it counts.
    pub fn outcome(self, name: &str, overhead: u32) -> ElementOutcome {
        let overhead = u64::from(overhead);
        ElementOutcome {
            name: name.to_owned(),
            packets: self.packets,
            bytes: self.bytes + self.packets * overhead,
            dropped: self.dropped,
            dropped_bytes: self.dropped_bytes + self.dropped * overhead,
            drops: self.drops,
            marked: self.marked,
            samples: self.samples,
        }
    }
}
