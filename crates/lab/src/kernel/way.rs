//! The elements between two ends, and the bytes that pass them, apart from the clock: packets go in
//! with the time at which they came, and come out when it is time. The elements are those of the
//! virtual lab.
//!
//! Elements work by the times at which packets should have come and gone, not by when the machine
//! came round to it, so lateness is not added up and rates are exact.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_limiter::Nanos;

use super::tap::Passing;
use crate::RunError;
use crate::element::Element;
use crate::outcome::ElementOutcome;
use crate::plan::Plan;
use crate::sim::engine::paths;
use crate::sim::packet::{Packet, PacketId, Packets};
use crate::sim::record::ElementRecord;
use crate::sim::timers::Timers;
use crate::sim::wire::Wire;

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

/// A packet that leaves.
#[derive(Debug)]
pub(super) struct Leaving {
    /// When it should.
    pub(super) due: Nanos,
    pub(super) packet: Packet,
    /// What it is made of, as elements marked it.
    pub(super) bytes: Vec<u8>,
}

/// The elements of a plan at work.
#[derive(Debug)]
pub(super) struct Way {
    /// The plan's elements, then two delays for each flow that has one of its own.
    stages: Vec<Stage>,
    /// Of each flow, forward and back.
    paths: Vec<[Box<[u32]>; 2]>,
    /// Where in a packet's bytes its IPv4 header is.
    header: fn(&[u8]) -> Option<usize>,
    timers: Timers,
    packets: Packets,
    /// What the packets of these numbers are made of.
    bytes: Vec<Vec<u8>>,
    leaving: VecDeque<(Nanos, PacketId)>,
    /// Packets that are under way.
    held: u64,
    /// Packets with payload that elements dropped, of each flow, forward and back.
    pub(super) dropped: Vec<[u64; 2]>,
}

impl Way {
    /// Of a plan that was checked, with where its taps send what passes them, in their order.
    pub(super) fn new(
        plan: &Plan,
        wires: &Arc<[Wire]>,
        taps: Vec<Sender<Passing>>,
        header: fn(&[u8]) -> Option<usize>,
    ) -> Result<Self, RunError> {
        let stage = |work| Stage {
            work,
            record: ElementRecord::default(),
        };
        let (mut stages, mut taps) = (Vec::new(), taps.into_iter());
        for (place, element) in plan.numbered() {
            let tap = element.kind.is_tap().then(|| taps.next());
            stages.push(stage(match tap.flatten() {
                Some(tap) => Work::Tap(tap),
                None => Work::Element(Element::new(plan, place, wires)?),
            }));
        }
        let delay = |delay| stage(Work::Element(delay));
        let flows = plan.flows.iter();
        let paths: Vec<_> = flows
            .map(|flow| paths(plan, flow, &mut stages, delay))
            .collect();
        Ok(Self {
            timers: Timers::new(stages.len()),
            stages,
            dropped: vec![[0; 2]; paths.len()],
            paths,
            header,
            packets: Packets::default(),
            bytes: Vec::new(),
            leaving: VecDeque::new(),
            held: 0,
        })
    }

    /// A packet came from one of the ends. One of no flow leaves at once.
    pub(super) fn enter(&mut self, at: Nanos, packet: Packet, bytes: &[u8]) {
        // What was to happen before happens before.
        self.advance(at);
        let id = self.packets.insert(packet);
        if self.bytes.len() <= id.index() {
            self.bytes.resize(id.index() + 1, Vec::new());
        }
        self.bytes[id.index()].extend_from_slice(bytes);
        self.held += 1;
        self.follow(at, id);
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

    /// The next packet that leaves until now.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<Leaving> {
        self.advance(now);
        let (due, id) = self.leaving.pop_front()?;
        let packet = self.packets.get(id).clone();
        let mut bytes = std::mem::take(&mut self.bytes[id.index()]);
        mark(&mut bytes, packet.dscp, self.header);
        self.packets.free(id);
        self.held -= 1;
        Some(Leaving { due, packet, bytes })
    }

    /// What the elements of the plan counted so far.
    pub(super) fn counts(&self, plan: &Plan) -> Vec<ElementOutcome> {
        let counts = self.stages.iter().zip(&plan.elements);
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
            let paths = self.paths.get(packet.flow as usize);
            let path = paths.map(|paths| &paths[usize::from(!packet.forward)]);
            let Some(&stage) = path.and_then(|path| path.get(usize::from(packet.hop))) else {
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
                    mark(&mut bytes, dscp, self.header);
                    // Gone only if writing failed, which is told in the end.
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
            let dropped = &mut self.dropped[packet.flow as usize][usize::from(!packet.forward)];
            *dropped += u64::from(packet.segment.payload > 0);
            self.packets.free(id);
            self.bytes[id.index()].clear();
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

/// Gives an IPv4 packet this code point.
fn mark(bytes: &mut [u8], dscp: u8, header: fn(&[u8]) -> Option<usize>) {
    let Some(bytes) = header(bytes).and_then(|at| bytes.get_mut(at..)) else {
        return;
    };
    if bytes.len() < 20 || bytes[0] >> 4 != 4 {
        return;
    }
    let field = (dscp << 2) | (bytes[1] & 3);
    if bytes[1] == field {
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
