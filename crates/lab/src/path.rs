//! The elements of a plan without its senders, for packets from outside the lab. A packet enters with the time at
//! which it arrived, and leaves with the time at which it is due. There is no clock here: the testbed runs a path in
//! real time.
//!
//! Elements count with the times at which packets are due, not with the times at which the machine handles them. So
//! lateness does not add up, and rates are exact.

use std::collections::VecDeque;

use tidegate_limiter::{Ecn, FlowKey, Nanos};

use crate::RunError;
use crate::element::Element;
use crate::outcome::{ElementOutcome, Sample};
use crate::packet::{Packet, PacketId, Packets};
use crate::plan::Plan;
use crate::sim::stages::{Routes, Stage, Stages};
use crate::sim::timers::{Ties, Timers};
use crate::tcp::Segment;

/// A packet that enters the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entering {
    /// Index of its flow in the plan. A packet of an unknown flow leaves at once.
    pub flow: usize,
    /// Whether it goes from server to client.
    pub forward: bool,
    /// Length of the IP packet in bytes.
    pub length: u32,
    /// Bytes of payload. Only packets with payload count as dropped in [`Path::take_dropped`].
    pub payload: u32,
    /// Hash of its addresses and ports; queues and limiters distinguish flows by it.
    pub hash: u32,
    /// Its differentiated services code point.
    pub dscp: u8,
    /// Its headers as they are on the way to the client, for rules and for queues that share by host. Without them, those
    /// of the flow in the plan count.
    pub key: Option<FlowKey>,
}

/// A packet that leaves the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// When it should leave.
    pub due: Nanos,
    /// Index of its flow in the plan.
    pub flow: usize,
    /// Whether it goes from server to client.
    pub forward: bool,
    /// Length of the IP packet in bytes.
    pub length: u32,
    /// Its bytes, with the code point and ECN field that elements gave it.
    pub bytes: Vec<u8>,
}

/// A packet that passed a tap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The tap: its index among the plan's elements.
    pub element: usize,
    /// When it passed.
    pub at: Nanos,
    /// Its bytes, with the code point and ECN field that elements gave it.
    pub bytes: Vec<u8>,
}

/// The place of packets of a flow that the plan does not have: they leave at once.
const NOWHERE: u32 = u32::MAX;

/// The running elements of a plan, in both directions of all its flows.
#[derive(Debug)]
pub struct Path {
    /// The plan's elements, then two delays for each flow.
    stages: Vec<Stage>,
    /// The stages of each flow, forward and back.
    routes: Routes,
    /// The place of the IP header in a packet's bytes.
    header: fn(&[u8]) -> Option<usize>,
    timers: Timers,
    packets: Packets,
    /// The bytes of the packets with these numbers.
    bytes: Vec<Vec<u8>>,
    /// The headers of the packets with these numbers.
    keys: Vec<Option<FlowKey>>,
    leaving: VecDeque<(Nanos, PacketId)>,
    captured: VecDeque<Captured>,
    /// Packets that are under way.
    held: u64,
    /// Packets with payload that elements dropped, of each flow, forward and back.
    dropped: Vec<[u64; 2]>,
    /// Hashes of the flows' first connections.
    hashes: Vec<u32>,
}

impl Path {
    /// The elements of a plan. `header` finds the IP header in a packet's bytes, if it has one.
    /// If elements mark a packet, its code point and ECN field are written there, and the checksum of IPv4.
    ///
    /// # Errors
    /// If flows do not fit the policy of a limiter.
    ///
    /// # Panics
    /// If the plan is not one that [`check`](crate::check) accepts, now or later.
    pub fn new(plan: &Plan, header: fn(&[u8]) -> Option<usize>) -> Result<Self, RunError> {
        let Stages {
            stages,
            routes,
            wires,
        } = Stages::new(plan)?;
        Ok(Self {
            timers: Timers::new(stages.len(), Ties::Counted),
            stages,
            dropped: vec![[0; 2]; plan.flows.len()],
            routes,
            header,
            packets: Packets::default(),
            bytes: Vec::new(),
            keys: Vec::new(),
            leaving: VecDeque::new(),
            captured: VecDeque::new(),
            held: 0,
            hashes: wires.iter().map(|wire| wire.connection(0).hash).collect(),
        })
    }

    /// The hash that the first connection of this flow has in the virtual lab. With it, packets of
    /// another sender go to the same queues.
    pub fn hash(&self, flow: usize) -> u32 {
        self.hashes[flow]
    }

    /// A packet came from one of the ends.
    pub fn enter(&mut self, at: Nanos, entering: Entering, bytes: &[u8]) {
        // First, the packets that were due before this time.
        self.advance(at);
        let segment = Segment {
            payload: entering.payload,
            ..Segment::default()
        };
        let flow = u32::try_from(entering.flow).unwrap_or(u32::MAX - 1);
        let mut packet = Packet::new(flow, entering.forward, entering.length, segment);
        (packet.hash, packet.dscp) = (entering.hash, entering.dscp);
        let header = (self.header)(bytes).and_then(|at| bytes.get(at..));
        if let Some(field) = header.and_then(class_in) {
            packet.segment.ecn = Ecn::of(field);
        }
        let begins = self.routes.begins(entering.flow);
        packet.place = begins.map_or(NOWHERE, |begins| begins[usize::from(!entering.forward)]);
        let id = self.packets.insert(packet);
        if self.bytes.len() <= id.index() {
            self.bytes.resize(id.index() + 1, Vec::new());
            self.keys.resize(id.index() + 1, None);
        }
        self.keys[id.index()] = entering.key;
        self.bytes[id.index()].extend_from_slice(bytes);
        self.held += 1;
        self.follow(at, id);
    }

    /// The time of the next action.
    pub fn next(&self) -> Option<Nanos> {
        let leaving = self.leaving.front().map(|&(due, _)| due);
        leaving.or(self.timers.first())
    }

    /// Whether no packet is under way.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// The next packet that must leave by now.
    pub fn leave(&mut self, now: Nanos) -> Option<Leaving> {
        self.advance(now);
        let (due, id) = self.leaving.pop_front()?;
        let packet = self.packets.get(id);
        let mut leaving = Leaving {
            due,
            flow: packet.flow as usize,
            forward: packet.forward,
            length: packet.bytes,
            bytes: std::mem::take(&mut self.bytes[id.index()]),
        };
        mark(&mut leaving.bytes, class(packet), self.header);
        self.packets.free(id);
        self.held -= 1;
        Some(leaving)
    }

    /// The next packet that passed a tap, in the order in which they passed.
    pub fn take_captured(&mut self) -> Option<Captured> {
        self.captured.pop_front()
    }

    /// Packets with payload that elements dropped since the last call, of each flow of the plan,
    /// forward and back.
    pub fn take_dropped(&mut self) -> impl Iterator<Item = [u64; 2]> {
        self.dropped.iter_mut().map(std::mem::take)
    }

    /// How full the plan's elements are; `None` for those without queues and buckets.
    pub fn occupancy(&mut self, plan: &Plan, now: Nanos) -> Vec<Option<Sample>> {
        self.advance(now);
        let stages = self.stages.iter_mut().take(plan.elements.len());
        stages.map(|stage| stage.element.sample(now)).collect()
    }

    /// The counts of the plan's elements so far.
    pub fn counts(&self, plan: &Plan) -> Vec<ElementOutcome> {
        let counts = self.stages.iter().zip(&plan.elements);
        let counts = counts.map(|(stage, plan)| {
            let overhead = stage.element.overhead();
            let record = stage.record.as_deref().cloned().unwrap_or_default();
            record.outcome(&plan.name, overhead)
        });
        counts.collect()
    }

    /// Advances the elements to this time.
    fn advance(&mut self, now: Nanos) {
        while self.timers.first().is_some_and(|at| at <= now)
            && let Some((at, stage)) = self.timers.next()
        {
            while let Some(id) = self.stages[stage].element.poll(at, &mut self.packets) {
                self.count_drops(stage);
                self.follow(at, id);
            }
            self.count_drops(stage);
            self.set_stage(at, stage);
        }
    }

    /// Takes a packet along its path until it is held, dropped, or at the end.
    fn follow(&mut self, now: Nanos, id: PacketId) {
        loop {
            let packet = self.packets.get_mut(id);
            let there = Some(&*packet).filter(|packet| packet.place != NOWHERE);
            let Some(index) = there.and_then(|packet| self.routes.stage(packet)) else {
                self.leaving.push_back((now, id));
                return;
            };
            packet.place += 1;
            let (bytes, before) = (packet.bytes, class(packet));
            let stage = &mut self.stages[index];
            if let Some(record) = &mut stage.record {
                record.packets += 1;
                record.bytes += u64::from(bytes);
            }
            if let Element::Tap(_) = stage.element {
                let mut bytes = self.bytes[id.index()].clone();
                mark(&mut bytes, before, self.header);
                self.captured.push_back(Captured {
                    element: index,
                    at: now,
                    bytes,
                });
                continue;
            }
            let passed = match (&mut stage.element, &self.keys[id.index()]) {
                (element, Some(key)) => element.offer_as(now, id, key, &mut self.packets),
                (element, None) => element.offer(now, id, &mut self.packets),
            };
            self.count_drops(index);
            if passed.is_none() {
                self.set_stage(now, index);
                return;
            }
            if class(self.packets.get(id)) != before
                && let Some(record) = &mut self.stages[index].record
            {
                record.marked += 1;
            }
        }
    }

    /// Counts the packets that a stage has just marked in its queue, and counts and forgets those that it has dropped.
    fn count_drops(&mut self, stage: usize) {
        // Delays neither mark nor drop.
        let Some(record) = &mut self.stages[stage].record else {
            return;
        };
        while self.packets.next_marked().is_some() {
            record.marked += 1;
        }
        while let Some(id) = self.packets.next_dropped() {
            let packet = self.packets.get(id);
            record.dropped += 1;
            record.dropped_bytes += u64::from(packet.bytes);
            let dropped = &mut self.dropped[packet.flow as usize][usize::from(!packet.forward)];
            *dropped += u64::from(packet.segment.payload > 0);
            self.packets.free(id);
            self.bytes[id.index()].clear();
            self.held -= 1;
        }
    }

    fn set_stage(&mut self, now: Nanos, stage: usize) {
        if let Some(at) = self.stages[stage].element.next_timeout() {
            self.timers.at_latest(stage, at.max(now), now);
        }
    }
}

/// A packet's code point and ECN field, as the byte that a header has of them.
fn class(packet: &Packet) -> u8 {
    packet.dscp << 2 | packet.segment.ecn as u8
}

/// That byte of a whole header: the second one of IPv4 (RFC 2474 §3), or the traffic class of IPv6, which lies across two
/// bytes (RFC 8200 §3).
fn class_in(header: &[u8]) -> Option<u8> {
    match header {
        [first, second, ..] if first >> 4 == 4 && header.len() >= 20 => Some(*second),
        [first, second, ..] if first >> 4 == 6 && header.len() >= 40 => {
            Some(first << 4 | second >> 4)
        }
        _ => None,
    }
}

/// Writes this byte into an IP header.
fn mark(bytes: &mut [u8], field: u8, header: fn(&[u8]) -> Option<usize>) {
    let Some(bytes) = header(bytes).and_then(|at| bytes.get_mut(at..)) else {
        return;
    };
    let Some(before) = class_in(bytes).filter(|&before| before != field) else {
        return;
    };
    if bytes[0] >> 4 == 6 {
        // No checksum covers it (RFC 8200 §8.1).
        bytes[0] = 0x60 | field >> 4;
        bytes[1] = field << 4 | bytes[1] & 0x0f;
        return;
    }
    // RFC 1624 §3: HC' = ~(~HC + ~m + m'), where only the lower byte of the word differs.
    let check = !u16::from_be_bytes([bytes[10], bytes[11]]);
    let sum = u32::from(check) + u32::from(!u16::from(before)) + u32::from(field);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes[1] = field;
}
