//! Treats and counts packets of the kernel's TCP between the two ends.

use tidegate_lab::RunError;
use tidegate_lab::outcome::{AggregateOutcome, Outcome};
use tidegate_lab::path::{Captured, Entering, Leaving, Path};
use tidegate_lab::plan::Plan;
use tidegate_lab::record::{FlowEnds, FlowRecord, Windows};
use tidegate_limiter::Nanos;
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire;

use super::host;
use super::transfer::Received;
use super::watch::Watch;
use crate::forward::Between;

#[cfg(test)]
mod tests;

struct Flow {
    watch: Watch,
    record: FlowRecord,
}

/// Everything between the ends.
pub(super) struct Emulator<'a> {
    plan: &'a Plan,
    path: Path,
    flows: Vec<Flow>,
    aggregates: Vec<Windows>,
    total: u64,
}

impl<'a> Emulator<'a> {
    /// The emulator of a plan.
    pub(super) fn new(plan: &'a Plan) -> Result<Self, RunError> {
        let flows = plan.flows.iter().map(|_| Flow {
            watch: Watch::default(),
            record: FlowRecord::new(plan),
        });
        let windows = Windows::new(plan);
        Ok(Self {
            plan,
            path: Path::new(plan, |_| Some(0))?,
            flows: flows.collect(),
            aggregates: vec![windows; plan.aggregates.len()],
            total: 0,
        })
    }

    /// The result, with the counts of the applications.
    pub(super) fn finish(mut self, received: &[Received], timeouts: u64) -> Outcome {
        let alone = received.len() == 1;
        for (flow, [forward, _]) in self.flows.iter_mut().zip(self.path.take_dropped()) {
            flow.record.dropped = forward;
        }
        let flows = (self.flows.into_iter().zip(&self.plan.flows).zip(received)).map(
            |((flow, plan), received)| {
                let ends = FlowEnds {
                    end: Some(received.end),
                    delivered: received.bytes,
                    timeouts: if alone { timeouts } else { 0 },
                };
                let mut outcome = flow.record.outcome(plan, ends);
                outcome.completions.extend(received.completion);
                let open = received.completion.is_none() && plan.start < self.plan.duration;
                outcome.open = open.then_some(plan.start);
                outcome
            },
        );
        let aggregates =
            (self.aggregates.into_iter().zip(&self.plan.aggregates)).map(|(windows, name)| {
                AggregateOutcome {
                    name: name.clone(),
                    windows: windows.into_bytes(),
                }
            });
        Outcome {
            packets: self.total,
            window: self.plan.window,
            flows: flows.collect(),
            aggregates: aggregates.collect(),
            elements: self.path.counts(self.plan),
        }
    }
}

impl Between for Emulator<'_> {
    /// A packet that is not TCP of one of the flows is dropped without being counted.
    fn arrive(&mut self, at: Nanos, forward: bool, bytes: &[u8]) {
        let Some((index, tcp)) = decode(at, forward, bytes) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(index) else {
            return;
        };
        self.total += 1;
        if forward {
            let again = flow.watch.sent(&tcp);
            flow.record.retransmitted += u64::from(again);
            flow.record.sent_packets += u64::from(tcp.payload > 0);
            if tcp.payload > 0 {
                flow.record.sent_bytes += bytes.len() as u64;
            }
        }
        let entering = Entering {
            flow: index,
            forward,
            length: bytes.len() as u32,
            payload: tcp.payload,
            // The hash of its first connection in the virtual lab, so both lead to the same queue.
            hash: self.path.hash(index),
            dscp: bytes[1] >> 2,
            key: None,
        };
        self.path.enter(at, entering, bytes);
    }

    fn next(&self) -> Option<Nanos> {
        self.path.next()
    }

    fn leave(&mut self, now: Nanos) -> Option<Leaving> {
        let leaving = self.path.leave(now)?;
        if leaving.forward {
            let (due, length) = (leaving.due, leaving.length);
            self.flows[leaving.flow].record.windows.add(due, length);
            self.aggregates[self.plan.flows[leaving.flow].aggregate].add(due, length);
        }
        Some(leaving)
    }

    fn take_captured(&mut self) -> Option<Captured> {
        self.path.take_captured()
    }

    fn hand_over(&mut self, at: Nanos, leaving: &Leaving) {
        let flow = &mut self.flows[leaving.flow];
        if !leaving.forward
            && let Some((_, tcp)) = decode(at, leaving.forward, &leaving.bytes)
            && let Some(rtt) = flow.watch.acknowledged(at, &tcp)
        {
            flow.record.rtt.record(rtt);
        }
    }
}

/// The flow that a packet belongs to, and its TCP header.
fn decode(at: Nanos, forward: bool, bytes: &[u8]) -> Option<(usize, wire::Packet)> {
    let frame = Frame {
        outbound: None,
        at,
        link: LinkType::RAW,
        data: bytes,
        wire_len: bytes.len() as u32,
    };
    let packet = wire::decode(&frame).ok()?;
    let server = if forward { packet.src } else { packet.dst };
    Some((host::flow(server.port())?, packet))
}
