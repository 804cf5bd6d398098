//! What happens to packets of the kernel's TCP between the two ends, and what is counted of them.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_limiter::Nanos;
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire;

use super::host;
use super::tap::Passing;
use super::transfer::Received;
use super::watch::Watch;
use super::way::{Leaving, Way};
use crate::RunError;
use crate::outcome::{AggregateOutcome, Outcome};
use crate::plan::Plan;
use crate::sim::packet::Packet;
use crate::sim::record::{FlowRecord, Windows};
use crate::sim::wire::Wire;
use crate::tcp::Segment;

#[cfg(test)]
mod tests;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toward {
    Client,
    Server,
}

/// A packet that leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// When it should.
    pub(super) due: Nanos,
    pub(super) toward: Toward,
    pub(super) bytes: Vec<u8>,
    flow: usize,
}

struct Flow {
    /// That of its first connection in the virtual lab, so both lead to the same queue.
    hash: u32,
    watch: Watch,
    record: FlowRecord,
}

/// All that is between the ends.
pub(super) struct Emulator<'a> {
    plan: &'a Plan,
    way: Way,
    flows: Vec<Flow>,
    aggregates: Vec<Windows>,
    total: u64,
}

impl<'a> Emulator<'a> {
    /// Of a plan that was checked, with where its taps send what passes them, in their order.
    pub(super) fn new(plan: &'a Plan, taps: Vec<Sender<Passing>>) -> Result<Self, RunError> {
        let wires: Arc<[Wire]> = (0..plan.flows.len())
            .map(|flow| Wire::new(plan, flow))
            .collect();
        let way = Way::new(plan, &wires, taps, |_| Some(0))?;
        let flows = wires.iter().map(|wire| Flow {
            hash: wire.connection(0).hash,
            watch: Watch::default(),
            record: FlowRecord::new(plan.duration, plan.window),
        });
        let windows = Windows::new(plan.duration, plan.window);
        Ok(Self {
            plan,
            way,
            flows: flows.collect(),
            aggregates: vec![windows; plan.aggregates.len()],
            total: 0,
        })
    }

    /// A packet came from one of the ends. What is not TCP of one of the flows is let fall.
    pub(super) fn arrive(&mut self, at: Nanos, toward: Toward, bytes: &[u8]) {
        let Some((index, tcp)) = decode(at, toward, bytes) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(index) else {
            return;
        };
        self.total += 1;
        let forward = toward == Toward::Client;
        if forward {
            let again = flow.watch.sent(&tcp);
            flow.record.retransmitted += u64::from(again);
            flow.record.sent_packets += u64::from(tcp.payload > 0);
            if tcp.payload > 0 {
                flow.record.sent_bytes += bytes.len() as u64;
            }
        }
        let segment = Segment {
            payload: tcp.payload,
            ..Segment::default()
        };
        let mut packet = Packet::new(index as u32, forward, bytes.len() as u32, segment);
        (packet.hash, packet.dscp) = (flow.hash, bytes[1] >> 2);
        self.way.enter(at, packet, bytes);
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.way.next()
    }

    /// The next packet that leaves until now.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<Departure> {
        let Leaving { due, packet, bytes } = self.way.leave(now)?;
        let flow = packet.flow as usize;
        if packet.forward {
            self.flows[flow].record.windows.add(due, packet.bytes);
            self.aggregates[self.plan.flows[flow].aggregate].add(due, packet.bytes);
        }
        let toward = if packet.forward {
            Toward::Client
        } else {
            Toward::Server
        };
        Some(Departure {
            due,
            toward,
            bytes,
            flow,
        })
    }

    /// A departure has been handed to its end, at this time.
    pub(super) fn arrived(&mut self, at: Nanos, departure: &Departure) {
        let flow = &mut self.flows[departure.flow];
        if departure.toward == Toward::Server
            && let Some((_, tcp)) = decode(at, departure.toward, &departure.bytes)
            && let Some(rtt) = flow.watch.acknowledged(at, &tcp)
        {
            flow.record.rtt.record(rtt);
        }
    }

    /// What came of it, with what the applications know.
    pub(super) fn finish(mut self, received: &[Received], timeouts: u64) -> Outcome {
        let alone = received.len() == 1;
        for (flow, [forward, _]) in self.flows.iter_mut().zip(&self.way.dropped) {
            flow.record.dropped = *forward;
        }
        let flows = (self.flows.into_iter().zip(&self.plan.flows).zip(received)).map(
            |((flow, plan), received)| {
                let timeouts = if alone { timeouts } else { 0 };
                let end = Some(received.end);
                let mut outcome = flow.record.outcome(plan, end, received.bytes, timeouts);
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
            elements: self.way.counts(self.plan),
        }
    }
}

/// The flow that a packet belongs to, and its TCP header.
fn decode(at: Nanos, toward: Toward, bytes: &[u8]) -> Option<(usize, wire::Packet)> {
    let frame = Frame {
        at,
        link: LinkType::RAW,
        data: bytes,
        wire_len: bytes.len() as u32,
    };
    let packet = wire::decode(&frame).ok()?;
    let port = match toward {
        Toward::Client => packet.src.port(),
        Toward::Server => packet.dst.port(),
    };
    Some((host::flow(port)?, packet))
}
