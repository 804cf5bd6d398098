//! What happens to packets of the kernel's TCP between the two ends, and what is counted of them.

use tidegate_lab::RunError;
use tidegate_lab::outcome::{AggregateOutcome, Outcome};
use tidegate_lab::path::{Captured, Entering, Path};
use tidegate_lab::plan::Plan;
use tidegate_lab::record::{FlowRecord, Windows};
use tidegate_limiter::Nanos;
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire;

use super::host;
use super::transfer::Received;
use super::watch::Watch;

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
    watch: Watch,
    record: FlowRecord,
}

/// All that is between the ends.
pub(super) struct Emulator<'a> {
    plan: &'a Plan,
    path: Path,
    flows: Vec<Flow>,
    aggregates: Vec<Windows>,
    total: u64,
}

impl<'a> Emulator<'a> {
    /// Between the ends of a plan.
    pub(super) fn new(plan: &'a Plan) -> Result<Self, RunError> {
        let flows = plan.flows.iter().map(|_| Flow {
            watch: Watch::default(),
            record: FlowRecord::new(plan.duration, plan.window),
        });
        let windows = Windows::new(plan.duration, plan.window);
        Ok(Self {
            plan,
            path: Path::new(plan, |_| Some(0))?,
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
        let entering = Entering {
            flow: index,
            forward,
            length: bytes.len() as u32,
            payload: tcp.payload,
            // That of its first connection in the virtual lab, so both lead to the same queue.
            hash: self.path.hash(index),
            dscp: bytes[1] >> 2,
        };
        self.path.enter(at, entering, bytes);
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.path.next()
    }

    /// The next packet that leaves until now.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<Departure> {
        let leaving = self.path.leave(now)?;
        let (flow, due) = (leaving.flow, leaving.due);
        if leaving.forward {
            self.flows[flow].record.windows.add(due, leaving.length);
            self.aggregates[self.plan.flows[flow].aggregate].add(due, leaving.length);
        }
        let toward = if leaving.forward {
            Toward::Client
        } else {
            Toward::Server
        };
        Some(Departure {
            due,
            toward,
            bytes: leaving.bytes,
            flow,
        })
    }

    /// The next packet that passed a tap.
    pub(super) fn take_captured(&mut self) -> Option<Captured> {
        self.path.take_captured()
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
        for (flow, [forward, _]) in self.flows.iter_mut().zip(self.path.take_dropped()) {
            flow.record.dropped = forward;
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
            elements: self.path.counts(self.plan),
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
