//! What happens to packets between the two ends, apart from the clock: packets go in with the time
//! at which they came, and come out when it is time.
//!
//! Elements work by the times at which packets should have come and gone, not by when the machine
//! came round to it, so lateness is not added up and rates are exact.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::mpsc::Sender;

use tidegate_limiter::{Meter, Nanos, Rate};
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire;

use super::path::Passing;
use super::watch::Watch;
use super::{distribution, host};
use crate::outcome::{ElementOutcome, FlowOutcome, Outcome};
use crate::plan::{ElementKind, LimiterKind, Plan, QueueKind};

#[cfg(test)]
mod tests;

/// Bytes of an Ethernet header: links charge packets at layer 2 without check sequence.
const ETHERNET: u32 = 14;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toward {
    Client,
    Server,
}

/// A packet on its way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) toward: Toward,
    flow: usize,
    /// Where in its route it is.
    step: usize,
    payload: bool,
}

/// A packet, and when it goes on. Ordered by time, and by arrival where that is equal.
#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    due: Nanos,
    order: u64,
    packet: Packet,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A part of a route.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The flow's own delay.
    Delay(Nanos),
    /// An element of the plan.
    Element(usize),
}

struct Route {
    forward: Vec<Step>,
    back: Vec<Step>,
}

/// What an element does with a packet.
enum Work {
    Delay(Nanos),
    Policer {
        meter: Meter,
        tokens: u64,
        burst: u64,
        overhead: u32,
    },
    Link(Link),
    Tap(Option<Sender<Passing>>),
}

/// A FIFO queue and what it is sent out by.
struct Link {
    rate: Rate,
    /// When the last of its packets will have left.
    free: Nanos,
    /// Of packets not yet begun: when they begin, and their bytes.
    queue: VecDeque<(Nanos, u64)>,
    queued: u64,
    max_bytes: u64,
    max_packets: usize,
}

impl Link {
    /// When the packet has left, or `None` if there is no space for it.
    fn pass(&mut self, now: Nanos, bytes: u64) -> Option<Nanos> {
        while let Some(&(_, first)) = self.queue.front().filter(|(begin, _)| *begin <= now) {
            self.queue.pop_front();
            self.queued -= first;
        }
        let begin = self.free.max(now);
        if begin > now {
            if self.queue.len() >= self.max_packets || self.queued + bytes > self.max_bytes {
                return None;
            }
            self.queue.push_back((begin, bytes));
            self.queued += bytes;
        }
        self.free = begin + Meter::new(self.rate, begin).until(bytes);
        Some(self.free)
    }
}

impl Work {
    fn new(kind: &ElementKind) -> Self {
        match *kind {
            ElementKind::Delay { delay, .. } => Self::Delay(delay),
            ElementKind::Link {
                rate,
                queue: QueueKind::DropTail { bytes, packets },
            } => Self::Link(Link {
                rate,
                free: 0,
                queue: VecDeque::new(),
                queued: 0,
                max_bytes: bytes.unwrap_or(u64::MAX),
                max_packets: packets.map_or(usize::MAX, |packets| packets as usize),
            }),
            ElementKind::Limiter {
                kind: LimiterKind::Policer { rate, burst },
                overhead,
            } => Self::Policer {
                meter: Meter::new(rate, 0),
                tokens: burst,
                burst,
                overhead,
            },
            _ => Self::Tap(None),
        }
    }

    /// When a packet goes on, or `None` if it does not.
    fn pass(&mut self, now: Nanos, packet: &Packet) -> Option<Nanos> {
        match self {
            Self::Delay(delay) => Some(now + *delay),
            Self::Policer {
                meter,
                tokens,
                burst,
                overhead,
            } => {
                let bytes = packet.bytes.len() as u64 + u64::from(*overhead);
                *tokens = (*tokens + meter.advance(now)).min(*burst);
                *tokens = tokens.checked_sub(bytes)?;
                Some(now)
            }
            Self::Link(link) => link.pass(now, packet.bytes.len() as u64 + u64::from(ETHERNET)),
            Self::Tap(to) => {
                if let Some(to) = to {
                    // Gone only if writing failed, which is told when the run is over.
                    let _ = to.send((now, packet.bytes.clone()));
                }
                Some(now)
            }
        }
    }

    /// Bytes of a packet as it counts them.
    fn bytes(&self, packet: &Packet) -> u64 {
        let overhead = match self {
            Self::Link(_) => ETHERNET,
            Self::Policer { overhead, .. } => *overhead,
            Self::Delay(_) | Self::Tap(_) => 0,
        };
        packet.bytes.len() as u64 + u64::from(overhead)
    }
}

/// All that is between the ends.
pub(super) struct Emulator {
    routes: Vec<Route>,
    elements: Vec<(Work, ElementOutcome)>,
    flows: Vec<(Watch, FlowOutcome)>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    order: u64,
    window: Nanos,
    packets: u64,
}

impl Emulator {
    /// Of a plan that was checked.
    pub(super) fn new(plan: &Plan) -> Self {
        let route = |steps: &[usize]| steps.iter().copied().map(Step::Element).collect::<Vec<_>>();
        let routes = plan.flows.iter().map(|flow| {
            let mut forward = vec![Step::Delay(flow.delay / 2)];
            forward.extend(route(&flow.forward));
            let mut back = route(&flow.back);
            back.push(Step::Delay(flow.delay - flow.delay / 2));
            Route { forward, back }
        });
        let elements = plan.elements.iter().map(|element| {
            let outcome = ElementOutcome {
                name: element.name.clone(),
                ..ElementOutcome::default()
            };
            (Work::new(&element.kind), outcome)
        });
        let windows = plan.duration.div_ceil(plan.window) as usize;
        let flows = plan.flows.iter().map(|flow| {
            let outcome = FlowOutcome {
                name: flow.name.clone(),
                aggregate: flow.aggregate,
                start: flow.start,
                windows: vec![0; windows],
                ..FlowOutcome::default()
            };
            (Watch::default(), outcome)
        });
        Self {
            routes: routes.collect(),
            elements: elements.collect(),
            flows: flows.collect(),
            waiting: BinaryHeap::new(),
            order: 0,
            window: plan.window,
            packets: 0,
        }
    }

    /// Lets a tap send what passes it.
    pub(super) fn connect(&mut self, element: usize, to: Sender<Passing>) {
        self.elements[element].0 = Work::Tap(Some(to));
    }

    /// A packet came from one of the ends. What is not TCP of one of the flows is let fall.
    pub(super) fn arrive(&mut self, at: Nanos, toward: Toward, bytes: &[u8]) {
        let Some((flow, tcp)) = decode(at, toward, bytes) else {
            return;
        };
        let Some((watch, outcome)) = self.flows.get_mut(flow) else {
            return;
        };
        self.packets += 1;
        if toward == Toward::Client {
            watch.sent(&tcp);
            if tcp.payload > 0 {
                outcome.sent_packets += 1;
                outcome.sent_bytes += bytes.len() as u64;
            }
        }
        let packet = Packet {
            bytes: bytes.to_vec(),
            toward,
            flow,
            step: 0,
            payload: tcp.payload > 0,
        };
        self.wait(at, packet);
    }

    fn wait(&mut self, due: Nanos, packet: Packet) {
        let order = self.order;
        self.order += 1;
        self.waiting.push(Reverse(Waiting { due, order, packet }));
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.waiting.peek().map(|Reverse(first)| first.due)
    }

    /// The next packet that leaves until now, with the time at which it should have.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<(Nanos, Packet)> {
        while self.next().is_some_and(|due| due <= now) {
            let Some(Reverse(Waiting { due, packet, .. })) = self.waiting.pop() else {
                break;
            };
            let left = self.go_on(due, packet);
            if left.is_some() {
                return left;
            }
        }
        None
    }

    /// Takes a packet through what does not hold it up.
    fn go_on(&mut self, now: Nanos, mut packet: Packet) -> Option<(Nanos, Packet)> {
        let route = &self.routes[packet.flow];
        let steps = match packet.toward {
            Toward::Client => &route.forward,
            Toward::Server => &route.back,
        };
        while let Some(&step) = steps.get(packet.step) {
            packet.step += 1;
            let on = match step {
                Step::Delay(delay) => now + delay,
                Step::Element(element) => {
                    let (work, outcome) = &mut self.elements[element];
                    let bytes = work.bytes(&packet);
                    outcome.packets += 1;
                    outcome.bytes += bytes;
                    let Some(on) = work.pass(now, &packet) else {
                        outcome.dropped += 1;
                        outcome.dropped_bytes += bytes;
                        let payload = packet.toward == Toward::Client && packet.payload;
                        self.flows[packet.flow].1.dropped += u64::from(payload);
                        return None;
                    };
                    on
                }
            };
            if on > now {
                self.wait(on, packet);
                return None;
            }
        }
        if packet.toward == Toward::Client {
            let windows = &mut self.flows[packet.flow].1.windows;
            if let Some(window) = windows.get_mut((now / self.window) as usize) {
                *window += packet.bytes.len() as u64;
            }
        }
        Some((now, packet))
    }

    /// A packet has been handed to the server, at this time.
    pub(super) fn arrived(&mut self, at: Nanos, packet: &Packet) {
        if let Some((flow, tcp)) = decode(at, packet.toward, &packet.bytes) {
            self.flows[flow].0.acknowledged(at, &tcp);
        }
    }

    /// What was counted; of flows, all but what their applications know.
    pub(super) fn outcome(self, window: Nanos) -> Outcome {
        let flows = self.flows.into_iter().map(|(mut watch, mut outcome)| {
            outcome.retransmitted = watch.retransmitted;
            outcome.rtt = distribution(&mut watch.rtts);
            outcome
        });
        Outcome {
            packets: self.packets,
            window,
            flows: flows.collect(),
            aggregates: Vec::new(),
            elements: self
                .elements
                .into_iter()
                .map(|(_, outcome)| outcome)
                .collect(),
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
