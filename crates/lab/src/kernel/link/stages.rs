//! What a link does to frames, apart from the clock: frames go in with the time at which they
//! came, and come out when it is time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_limiter::{FlowKey, HashKey, Nanos, Prefix, Rate};

use super::LinkPlan;
use crate::RunError;
use crate::element::Element;
use crate::kernel::emulator::mark;
use crate::kernel::tap::Passing;
use crate::outcome::ElementOutcome;
use crate::plan::{ElementKind, ElementPlan, FlowPlan, Plan, Traffic};
use crate::sim::check::check;
use crate::sim::engine::paths;
use crate::sim::packet::{Packet, PacketId, Packets};
use crate::sim::record::ElementRecord;
use crate::sim::timers::Timers;
use crate::tcp::{Segment, TcpConfig};

#[cfg(test)]
mod tests;

/// Bytes of an Ethernet header without tags.
const HEADER: usize = 14;
/// IANA's numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What a stage does with packets.
#[derive(Debug)]
enum Work {
    Element(Element),
    /// Writing is left to a thread that may wait for a disk.
    Tap(Sender<Passing>),
}

#[derive(Debug)]
struct Stage {
    work: Work,
    record: ElementRecord,
}

/// The way of packets of certain addresses, there and back.
#[derive(Debug)]
struct Route {
    far: Prefix,
    forward: Box<[u32]>,
    back: Box<[u32]>,
}

/// A frame that leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// When it should.
    pub(super) due: Nanos,
    /// From the near end to the far one.
    pub(super) forward: bool,
    pub(super) frame: Vec<u8>,
}

/// The elements of a link at work.
#[derive(Debug)]
pub(super) struct Stages {
    plan: Plan,
    stages: Vec<Stage>,
    routes: Vec<Route>,
    /// Of the flows' hash.
    secret: HashKey,
    timers: Timers,
    packets: Packets,
    /// What the packets of these numbers are made of.
    frames: Vec<Vec<u8>>,
    leaving: VecDeque<(Nanos, PacketId)>,
    /// Packets that are held.
    held: u64,
    /// Packets lost since the caller asked last, forward and back.
    pub(super) dropped: [u64; 2],
}

impl Stages {
    /// Of a plan, with where its taps send what passes them, in their order.
    pub(super) fn new(link: &LinkPlan, taps: Vec<Sender<Passing>>) -> Result<Self, RunError> {
        let plan = plan(link);
        check(&plan)?;
        let ruled = |element: &ElementPlan| matches!(&element.kind, ElementKind::Limiter { kind, .. } if matches!(kind.policy(), Some((_, Some(_)))));
        if let Some(element) = plan.elements.iter().find(|element| ruled(element)) {
            let name = &element.name;
            return Err(RunError::plan(format!(
                "{name}: rules are for the flows of a plan, which a link does not know"
            )));
        }
        let stage = |work| Stage {
            work,
            record: ElementRecord::default(),
        };
        let (mut stages, mut taps) = (Vec::new(), taps.into_iter());
        let wires: Arc<[_]> = Arc::new([]);
        for (index, element) in plan.elements.iter().enumerate() {
            let tap = matches!(element.kind, ElementKind::Tap { .. }).then(|| taps.next());
            stages.push(stage(match tap.flatten() {
                Some(tap) => Work::Tap(tap),
                None => Work::Element(Element::new(&plan, index, &wires)?),
            }));
        }
        let far = link.round_trips.iter().map(|&(far, _)| far);
        let mut routes = Vec::new();
        for (far, flow) in far.chain([Prefix::ALL]).zip(&plan.flows) {
            let [forward, back] = paths(&plan, flow, &mut stages, |delay| {
                stage(Work::Element(delay))
            });
            routes.push(Route { far, forward, back });
        }
        Ok(Self {
            timers: Timers::new(stages.len()),
            stages,
            routes,
            secret: HashKey::new(link.seed, !link.seed),
            plan,
            packets: Packets::default(),
            frames: Vec::new(),
            leaving: VecDeque::new(),
            held: 0,
            dropped: [0; 2],
        })
    }

    /// A frame came from one of the ends.
    pub(super) fn arrive(&mut self, at: Nanos, forward: bool, frame: &[u8]) {
        // What was to happen before happens before.
        self.advance(at);
        let key = key(frame);
        let route = key.and_then(|key| {
            let far = if forward { key.destination } else { key.source };
            self.routes.iter().position(|route| route.far.contains(far))
        });
        let bytes = frame.len().saturating_sub(HEADER) as u32;
        let segment = Segment::default();
        let mut packet = Packet::new(route.unwrap_or(0) as u32, forward, bytes, segment);
        if let Some(key) = key {
            packet.hash = hash(&key, forward, self.secret);
            packet.dscp = key.dscp;
        }
        let id = self.packets.insert(packet);
        if self.frames.len() <= id.index() {
            self.frames.resize(id.index() + 1, Vec::new());
        }
        self.frames[id.index()].extend_from_slice(frame);
        self.held += 1;
        if route.is_some() {
            self.follow(at, id);
        } else {
            // ARP and the like: hosts cannot do without.
            self.leaving.push_back((at, id));
        }
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Nanos> {
        let leaving = self.leaving.front().map(|&(due, _)| due);
        leaving.or(self.timers.first())
    }

    /// Whether no packet is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// The next frame that leaves until now.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<Departure> {
        self.advance(now);
        let (due, id) = self.leaving.pop_front()?;
        let packet = self.packets.get(id);
        let mut frame = std::mem::take(&mut self.frames[id.index()]);
        if let Some((at, 0x0800)) = ip(&frame)
            && frame.len() >= at + 20
        {
            mark(&mut frame[at..], packet.dscp);
        }
        let departure = Departure {
            due,
            forward: packet.forward,
            frame,
        };
        self.packets.free(id);
        self.held -= 1;
        Some(departure)
    }

    /// What the elements of the plan counted so far, those forward first.
    pub(super) fn counts(&self) -> Vec<ElementOutcome> {
        let counts = self.stages.iter().zip(&self.plan.elements);
        let counts = counts.map(|(stage, plan)| {
            let overhead = match &stage.work {
                Work::Element(element) => element.overhead(),
                Work::Tap(_) => 0,
            };
            stage.record.clone().outcome(&plan.name, overhead)
        });
        counts.collect()
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
            let route = &self.routes[packet.flow as usize];
            let path = if packet.forward {
                &route.forward
            } else {
                &route.back
            };
            let Some(&stage) = path.get(usize::from(packet.hop)) else {
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
                    // Gone only if writing failed, which is told when the link ends.
                    let _ = to.send((now, self.frames[id.index()].clone()));
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
            self.dropped[usize::from(!packet.forward)] += 1;
            self.packets.free(id);
            self.frames[id.index()].clear();
            self.held -= 1;
        }
    }

    fn set_stage(&mut self, now: Nanos, stage: usize) {
        if let Work::Element(element) = &self.stages[stage].work
            && let Some(at) = element.next_timeout()
        {
            self.timers.at_latest(stage, at.max(now));
        }
    }
}

/// A plan of the lab with a flow for each round trip, and one for all others.
fn plan(link: &LinkPlan) -> Plan {
    let kinds = link.forward.iter().chain(&link.back);
    let elements = kinds.enumerate().map(|(i, kind)| ElementPlan {
        name: format!("element {i}"),
        kind: kind.clone(),
    });
    let all = link.forward.len() + link.back.len();
    let delays = link.round_trips.iter().map(|&(_, delay)| delay).chain([0]);
    let flows = delays.enumerate().map(|(i, delay)| FlowPlan {
        name: format!("route {i}"),
        aggregate: 0,
        forward: (0..link.forward.len()).collect(),
        back: (link.forward.len()..all).collect(),
        delay,
        class: None,
        queue: None,
        dscp: 0,
        address: None,
        port: 443,
        start: 0,
        // Whatever: nothing of it is sent.
        traffic: Traffic::Datagrams {
            rate: Rate::from_bits_per_second(1),
            bytes: 28,
            stop: None,
        },
        tcp: TcpConfig::default(),
    });
    Plan {
        seed: link.seed,
        duration: 1,
        window: 1,
        sample: None,
        aggregates: vec!["link".into()],
        elements: elements.collect(),
        flows: flows.collect(),
    }
}

/// Where the IP header of a frame is, behind whatever tags, and of which version.
fn ip(frame: &[u8]) -> Option<(usize, u16)> {
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = HEADER;
    // IEEE 802.1Q and 802.1ad.
    while matches!(kind(at - 2)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    Some((at, kind(at - 2)?))
}

/// What elements need to know of an IP packet.
fn key(frame: &[u8]) -> Option<FlowKey> {
    let (at, kind) = ip(frame)?;
    let ip = frame.get(at..)?;
    let (source, destination, protocol, next, class) = match kind {
        0x0800 if ip.len() >= 20 => {
            let address = |at: usize| {
                let mut address = [0; 16];
                address[10..12].fill(0xff);
                address[12..].copy_from_slice(&ip[at..at + 4]);
                address
            };
            // Fragments have no ports, so that those of a datagram stay together (RFC 791 §3.1).
            let whole = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0;
            let next = whole.then(|| usize::from(ip[0] & 15) * 4);
            (address(12), address(16), ip[9], next, ip[1])
        }
        0x86dd if ip.len() >= 40 => {
            let address = |at: usize| {
                let mut address = [0; 16];
                address.copy_from_slice(&ip[at..at + 16]);
                address
            };
            let class = ip[0] << 4 | ip[1] >> 4;
            (address(8), address(24), ip[6], Some(40), class)
        }
        _ => return None,
    };
    let ports = next.filter(|_| matches!(protocol, TCP | UDP));
    let ports = ports.and_then(|next| ip.get(next..next + 4));
    Some(FlowKey {
        source,
        destination,
        ports: ports.map(|ports| {
            let word = |at| u16::from_be_bytes([ports[at], ports[at + 1]]);
            (word(0), word(2))
        }),
        protocol,
        dscp: class >> 2,
    })
}

/// The same for both directions of a flow.
fn hash(key: &FlowKey, forward: bool, secret: HashKey) -> u32 {
    if forward {
        return key.hash(secret);
    }
    let turned = FlowKey {
        source: key.destination,
        destination: key.source,
        ports: key.ports.map(|(source, destination)| (destination, source)),
        ..*key
    };
    turned.hash(secret)
}
