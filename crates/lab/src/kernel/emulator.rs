//! What happens to packets between the two ends, apart from the clock: packets go in with the time
//! at which they came, and come out when it is time. The elements are those of the virtual lab.
//!
//! Elements work by the times at which packets should have come and gone, not by when the machine
//! came round to it, so lateness is not added up and rates are exact.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_limiter::Nanos;
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire;

use super::host;
use super::tap::Passing;
use super::transfer::Received;
use super::watch::Watch;
use crate::RunError;
use crate::element::Element;
use crate::outcome::{AggregateOutcome, Outcome};
use crate::plan::{ElementKind, Plan};
use crate::sim::engine::paths;
use crate::sim::packet::{Packet, PacketId, Packets};
use crate::sim::record::{ElementRecord, FlowRecord, Windows};
use crate::sim::timers::Timers;
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

/// What a stage does with packets.
enum Work {
    Element(Element),
    /// Writing is left to a thread that may wait for a disk.
    Tap(Sender<Passing>),
}

struct Stage {
    work: Work,
    record: ElementRecord,
}

struct Flow {
    forward: Box<[u32]>,
    back: Box<[u32]>,
    /// That of its first connection in the virtual lab, so both lead to the same queue.
    hash: u32,
    watch: Watch,
    record: FlowRecord,
}

/// All that is between the ends.
pub(super) struct Emulator<'a> {
    plan: &'a Plan,
    /// The plan's elements, then two delays for each flow that has one of its own.
    stages: Vec<Stage>,
    flows: Vec<Flow>,
    aggregates: Vec<Windows>,
    timers: Timers,
    packets: Packets,
    /// What the packets of these numbers are made of.
    bytes: Vec<Vec<u8>>,
    leaving: VecDeque<(Nanos, PacketId)>,
    total: u64,
}

impl<'a> Emulator<'a> {
    /// Of a plan that was checked, with where its taps send what passes them, in their order.
    pub(super) fn new(plan: &'a Plan, taps: Vec<Sender<Passing>>) -> Result<Self, RunError> {
        let wires: Arc<[Wire]> = (0..plan.flows.len())
            .map(|flow| Wire::new(plan, flow))
            .collect();
        let stage = |work| Stage {
            work,
            record: ElementRecord::default(),
        };
        let (mut stages, mut taps) = (Vec::new(), taps.into_iter());
        for (index, element) in plan.elements.iter().enumerate() {
            let tap = matches!(element.kind, ElementKind::Tap { .. }).then(|| taps.next());
            stages.push(stage(match tap.flatten() {
                Some(tap) => Work::Tap(tap),
                None => Work::Element(Element::new(plan, index, &wires)?),
            }));
        }
        let mut flows = Vec::new();
        for (index, flow) in plan.flows.iter().enumerate() {
            let [forward, back] =
                paths(plan, flow, &mut stages, |delay| stage(Work::Element(delay)));
            flows.push(Flow {
                forward,
                back,
                hash: wires[index].connection(0).hash,
                watch: Watch::default(),
                record: FlowRecord::new(plan.duration, plan.window),
            });
        }
        let windows = Windows::new(plan.duration, plan.window);
        Ok(Self {
            plan,
            timers: Timers::new(stages.len()),
            stages,
            flows,
            aggregates: vec![windows; plan.aggregates.len()],
            packets: Packets::default(),
            bytes: Vec::new(),
            leaving: VecDeque::new(),
            total: 0,
        })
    }

    /// A packet came from one of the ends. What is not TCP of one of the flows is let fall.
    pub(super) fn arrive(&mut self, at: Nanos, toward: Toward, bytes: &[u8]) {
        // What was to happen before happens before.
        self.advance(at);
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
        let id = self.packets.insert(packet);
        if self.bytes.len() <= id.index() {
            self.bytes.resize(id.index() + 1, Vec::new());
        }
        self.bytes[id.index()] = bytes.to_vec();
        self.follow(at, id);
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Nanos> {
        let leaving = self.leaving.front().map(|&(due, _)| due);
        leaving.or(self.timers.first())
    }

    /// The next packet that leaves until now.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<Departure> {
        self.advance(now);
        let (due, id) = self.leaving.pop_front()?;
        let packet = self.packets.get(id);
        let mut bytes = std::mem::take(&mut self.bytes[id.index()]);
        mark(&mut bytes, packet.dscp);
        let departure = Departure {
            due,
            toward: if packet.forward {
                Toward::Client
            } else {
                Toward::Server
            },
            bytes,
            flow: packet.flow as usize,
        };
        self.packets.free(id);
        Some(departure)
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

    /// Lets all happen that happens until now.
    fn advance(&mut self, now: Nanos) {
        while self.timers.first().is_some_and(|at| at <= now)
            && let Some((at, stage)) = self.timers.next()
        {
            while let Some(id) = match &mut self.stages[stage].work {
                Work::Element(element) => element.poll(at, &mut self.packets),
                Work::Tap(_) => None,
            } {
                self.count_drops(stage);
                self.follow(at, id);
            }
            self.count_drops(stage);
            self.set_stage(at, stage);
        }
    }

    /// Takes a packet along its path until it is held, dropped, or there.
    fn follow(&mut self, now: Nanos, id: PacketId) {
        loop {
            let packet = self.packets.get_mut(id);
            let flow = &mut self.flows[packet.flow as usize];
            let path = if packet.forward {
                &flow.forward
            } else {
                &flow.back
            };
            let Some(&stage) = path.get(usize::from(packet.hop)) else {
                if packet.forward {
                    let aggregate = self.plan.flows[packet.flow as usize].aggregate;
                    flow.record.windows.add(now, packet.bytes);
                    self.aggregates[aggregate].add(now, packet.bytes);
                }
                self.leaving.push_back((now, id));
                return;
            };
            packet.hop += 1;
            let (bytes, dscp) = (packet.bytes, packet.dscp);
            let stage = stage as usize;
            let Stage { work, record } = &mut self.stages[stage];
            record.packets += 1;
            record.bytes += u64::from(bytes);
            match work {
                Work::Element(element) => {
                    let passed = element.offer(now, id, &mut self.packets);
                    self.count_drops(stage);
                    if passed.is_none() {
                        self.set_stage(now, stage);
                        return;
                    }
                }
                Work::Tap(to) => {
                    let mut bytes = self.bytes[id.index()].clone();
                    mark(&mut bytes, dscp);
                    // Gone only if writing failed, which is told when the run is over.
                    let _ = to.send((now, bytes));
                }
            }
            let marked = self.packets.get(id).dscp != dscp;
            self.stages[stage].record.marked += u64::from(marked);
        }
    }

    /// Counts and forgets what a stage has just dropped.
    fn count_drops(&mut self, stage: usize) {
        while let Some(id) = self.packets.next_dropped() {
            let packet = self.packets.get(id);
            let record = &mut self.stages[stage].record;
            record.dropped += 1;
            record.dropped_bytes += u64::from(packet.bytes);
            let data = u64::from(packet.is_data());
            self.flows[packet.flow as usize].record.dropped += data;
            self.packets.free(id);
        }
    }

    fn set_stage(&mut self, now: Nanos, stage: usize) {
        if let Work::Element(element) = &self.stages[stage].work
            && let Some(at) = element.next_timeout()
        {
            self.timers.at_latest(stage, at.max(now));
        }
    }

    /// What came of it, with what the applications know.
    pub(super) fn finish(self, received: &[Received], timeouts: u64) -> Outcome {
        let alone = received.len() == 1;
        let flows = (self.flows.into_iter().zip(&self.plan.flows).zip(received)).map(
            |((flow, plan), received)| {
                let timeouts = if alone { timeouts } else { 0 };
                let end = Some(received.end);
                let mut outcome = flow.record.outcome(plan, end, received.bytes, timeouts);
                outcome.completions.extend(received.completion);
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
        let elements = self.stages.into_iter().zip(&self.plan.elements);
        let elements = elements.map(|(stage, plan)| {
            let overhead = match &stage.work {
                Work::Element(element) => element.overhead(),
                Work::Tap(_) => 0,
            };
            stage.record.outcome(&plan.name, overhead)
        });
        Outcome {
            packets: self.total,
            window: self.plan.window,
            flows: flows.collect(),
            aggregates: aggregates.collect(),
            elements: elements.collect(),
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

/// Gives an IPv4 packet this code point.
pub(super) fn mark(bytes: &mut [u8], dscp: u8) {
    let field = (dscp << 2) | (bytes[1] & 3);
    if bytes[0] >> 4 != 4 || bytes[1] == field {
        return;
    }
    // RFC 1624 §3: HC' = ~(~HC + ~m + m'), where only the lower byte of the word differs.
    let check = !u16::from_be_bytes([bytes[10], bytes[11]]);
    let sum = u32::from(check) + u32::from(!u16::from(bytes[1])) + u32::from(field);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes[1] = field;
}
