//! The loop: the actor with the earliest deadline acts, and its packets move on until they are
//! held.

mod ahead;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_limiter::Nanos;

use super::check::{MOST_STATES, check};
use super::endpoint::{Sent, Side};
use super::flow::{ACTORS, Flow, aggregates};
use super::stages::{Routes, Stage, Stages};
use super::timers::{Ties, Timers};
use crate::element::Element;
use crate::observer::{Observer, SoFar, TappedPacket};
use crate::outcome::{Outcome, Sample, State, drop_step};
use crate::packet::wire::Wire;
use crate::packet::{PacketId, Packets};
use crate::plan::{Noting, Plan};
use crate::record::ElementRecord;
use crate::{RunError, SECOND};

/// Actions between two calls of the observer: less than a millisecond of real time.
const WATCH: u32 = 1 << 10;

/// Most packets under way at once: a gigabyte, or 480 ms of 100 Gbit/s. Tests have a smaller bound.
pub(super) const MOST_PACKETS: usize = if cfg!(test) { 1 << 17 } else { 4 << 20 };

/// Whether this many packets may be under way.
pub(super) fn check_packets(packets: usize) -> Result<(), RunError> {
    if packets <= MOST_PACKETS {
        return Ok(());
    }
    Err(RunError::plan(format!(
        "more than {MOST_PACKETS} packets are on their way at once: lower rates, delays or queues"
    )))
}

/// A simulation in progress.
#[derive(Debug)]
pub struct Engine<'a> {
    plan: &'a Plan,
    now: Nanos,
    timers: Timers,
    packets: Packets,
    /// Packets that begin their way now. This is a list rather than a call, because ends that
    /// answer each other without passing of time would cause endless recursion.
    sent: VecDeque<PacketId>,
    /// The plan's elements, then two delays for each flow.
    stages: Vec<Stage>,
    routes: Routes,
    flows: Vec<Flow>,
    /// The length of the steps in which dropped packets are counted.
    drop_step: Nanos,
    wires: Arc<[Wire]>,
    total: u64,
    /// States of connections that were noted.
    states: usize,
}

impl<'a> Engine<'a> {
    /// A simulation at time 0.
    ///
    /// # Errors
    /// If the plan cannot be run.
    pub fn new(plan: &'a Plan) -> Result<Self, RunError> {
        Self::with(plan, Ties::of(plan))
    }

    /// A simulation at time 0, with this order of what is at the same time.
    ///
    /// # Errors
    /// If the plan cannot be run.
    pub fn with(plan: &'a Plan, ties: Ties) -> Result<Self, RunError> {
        check(plan)?;
        let Stages {
            stages,
            routes,
            wires,
        } = Stages::new(plan)?;
        let flows = (0..plan.flows.len()).map(|index| Flow::new(plan, index, &routes));
        let flows: Vec<_> = flows.collect();
        let mut timers = Timers::new(stages.len() + flows.len() * ACTORS + 2, ties);
        for (index, flow) in plan.flows.iter().enumerate() {
            timers.at_latest(stages.len() + index * ACTORS + 2, flow.start, 0);
        }
        if plan.sample.is_some() {
            timers.at_latest(stages.len() + flows.len() * ACTORS, 0, 0);
        }
        if let Some(Noting::Every(_)) = plan.connections {
            timers.at_latest(stages.len() + flows.len() * ACTORS + 1, 0, 0);
        }
        Ok(Self {
            plan,
            now: 0,
            timers,
            packets: Packets::default(),
            sent: VecDeque::new(),
            stages,
            routes,
            flows,
            drop_step: drop_step(plan.duration),
            wires,
            total: 0,
            states: 0,
        })
    }

    /// Simulates until the end of the plan.
    ///
    /// # Errors
    /// If the observer ends it, or packets pile up without end.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let mut actions = 0;
        while let Some((at, actor)) = self.timers.next() {
            if at >= self.plan.duration {
                break;
            }
            self.now = at;
            self.fetch_ahead();
            self.act(actor, observer);
            while let Some(id) = self.sent.pop_front() {
                self.follow(id, observer);
            }
            actions += 1;
            if actions >= WATCH {
                actions = 0;
                if !observer.progress(self.now) {
                    return Err(RunError::Interrupted);
                }
                observer.counted(self);
                check_packets(self.packets.most())?;
                if self.states > MOST_STATES {
                    return Err(RunError::plan(format!(
                        "connections changed more than {MOST_STATES} times until {} s: note them at intervals, \
                         such as connections = \"10ms\"",
                        self.now / SECOND
                    )));
                }
            }
        }
        Ok(())
    }

    /// Wakes an actor.
    fn act(&mut self, actor: usize, observer: &mut dyn Observer) {
        if actor < self.stages.len() {
            while let Some(id) = self.stages[actor].element.poll(self.now, &mut self.packets) {
                self.count_harm(actor);
                self.follow(id, observer);
            }
            self.count_harm(actor);
            self.set_stage(actor);
            self.fetch_behind(actor);
            return;
        }
        let index = actor - self.stages.len();
        if index == self.flows.len() * ACTORS {
            self.sample();
            return;
        }
        if index > self.flows.len() * ACTORS {
            self.note_all();
            return;
        }
        let flow = index / ACTORS;
        match index % ACTORS {
            0 => self.on_timeout(flow, Side::Server),
            1 => self.on_timeout(flow, Side::Client),
            _ => self.on_application(flow),
        }
    }

    /// Takes a packet along its path until it is held, dropped, or at the end.
    fn follow(&mut self, id: PacketId, observer: &mut dyn Observer) {
        loop {
            let packet = self.packets.get_mut(id);
            let Some(index) = self.routes.stage(packet) else {
                self.arrive(id);
                return;
            };
            packet.place += 1;
            let stage = &mut self.stages[index];
            if let Element::Tap(tap) = &mut stage.element {
                let (frame, length) = tap.frame(packet);
                observer.packet(&TappedPacket {
                    element: index,
                    at: self.now,
                    frame,
                    length,
                });
                stage.count(packet.bytes);
                continue;
            }
            let flows = &mut self.flows;
            let harm = |flow: usize, harm| flows[flow].harm(harm);
            if !stage.offer(self.now, id, &mut self.packets, self.drop_step, harm) {
                self.set_stage(index);
                return;
            }
        }
    }

    #[inline]
    fn count_harm(&mut self, stage: usize) {
        let flows = &mut self.flows;
        let harm = |flow: usize, harm| flows[flow].harm(harm);
        self.stages[stage].count_harm(self.now, &mut self.packets, self.drop_step, harm);
    }

    #[inline]
    fn set_stage(&mut self, stage: usize) {
        if let Some(at) = self.stages[stage].element.next_timeout() {
            self.timers.at_latest(stage, at.max(self.now), self.now);
        }
    }

    /// A packet has reached the end of its path.
    fn arrive(&mut self, id: PacketId) {
        let packet = self.packets.get(id);
        let index = packet.flow as usize;
        let (held, side) = self.flows[index].arrive(self.now, packet);
        self.packets.free(id);
        if held {
            self.transmit(index, side);
            self.set_application(index);
        }
    }

    /// A timer of an end of a connection.
    fn on_timeout(&mut self, flow: usize, side: Side) {
        let Flow { ends, record, .. } = &mut self.flows[flow];
        match ends.on_timeout(self.now, side, record) {
            Some(came) => {
                self.transmit(flow, side);
                if came {
                    self.set_application(flow);
                }
            }
            // An unnecessary wake-up does not send: segments that wait for an acknowledgement wait
            // on.
            None => self.set_end(flow, side),
        }
    }

    /// The application's time has come.
    fn on_application(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.ends.on_application(self.now, &mut flow.record);
        self.transmit(index, Side::Client);
        self.transmit(index, Side::Server);
        self.set_application(index);
    }

    fn set_application(&mut self, flow: usize) {
        if let Some(at) = self.flows[flow].ends.next_application() {
            let actor = self.stages.len() + flow * ACTORS + 2;
            self.timers.at_latest(actor, at.max(self.now), self.now);
        }
    }

    /// Sends everything that an end can send.
    fn transmit(&mut self, flow: usize, side: Side) {
        loop {
            let id = self.packets.reserve();
            let segment = &mut self.packets.get_mut(id).segment;
            let ends = &mut self.flows[flow].ends;
            let Some(sent) = ends.poll_transmit(self.now, side, segment) else {
                self.packets.free(id);
                break;
            };
            self.send(flow, side, sent, id);
        }
        if side == Side::Server && self.plan.connections == Some(Noting::Changes) {
            self.note(flow);
        }
        self.set_end(flow, side);
    }

    /// Notes the state of a flow's connection, if it has changed.
    fn note(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        let Some(state) = flow.ends.state(self.now) else {
            return;
        };
        let states = &mut flow.record.states;
        let same =
            |last: &State| (last.connection, last.snapshot) == (state.connection, state.snapshot);
        if !states.last().is_some_and(same) {
            states.push(state);
            self.states += 1;
        }
    }

    /// Notes the states of all connections.
    fn note_all(&mut self) {
        for flow in &mut self.flows {
            flow.ends.states(self.now, &mut flow.record.states);
        }
        if let Some(Noting::Every(time)) = self.plan.connections {
            let actor = self.stages.len() + self.flows.len() * ACTORS + 1;
            self.timers
                .at_latest(actor, self.now.saturating_add(time), self.now);
        }
    }

    /// Sets the timer of an end.
    fn set_end(&mut self, flow: usize, side: Side) {
        if let Some(at) = self.flows[flow].ends.next_timeout(side) {
            let actor = self.stages.len() + flow * ACTORS + side as usize;
            self.timers.at_latest(actor, at.max(self.now), self.now);
        }
    }

    fn send(&mut self, index: usize, side: Side, sent: Sent, id: PacketId) {
        let packet = self.packets.get_mut(id);
        self.flows[index].begin(packet, (index, side), sent, &self.wires);
        self.total += 1;
        self.sent.push_back(id);
    }

    fn sample(&mut self) {
        for stage in &mut self.stages {
            stage.sample(self.now);
        }
        if let Some(sample) = self.plan.sample {
            let actor = self.stages.len() + self.flows.len() * ACTORS;
            self.timers
                .at_latest(actor, self.now.saturating_add(sample), self.now);
        }
    }

    /// For each flow, packets with payload that have neither arrived nor been lost.
    #[cfg(test)]
    pub fn ledger(&self) -> Vec<Ledger> {
        let mut ledger: Vec<_> = (self.flows.iter())
            .map(|flow| Ledger {
                sent: flow.record.sent_packets,
                arrived: flow.record.arrived,
                dropped: flow.record.dropped,
                under_way: 0,
            })
            .collect();
        for packet in self.packets.iter().filter(|packet| packet.is_data()) {
            ledger[packet.flow as usize].under_way += 1;
        }
        ledger
    }

    /// The counts of an element of the plan.
    fn record(&self, element: usize) -> Option<&ElementRecord> {
        self.stages.get(element)?.record.as_deref()
    }

    /// Returns the outcome.
    pub fn finish(self) -> Outcome {
        let mut outcome = Outcome {
            packets: self.total,
            window: self.plan.window,
            ..Outcome::default()
        };
        for (flow, plan) in self.flows.into_iter().zip(&self.plan.flows) {
            outcome.flows.push(flow.outcome(self.plan.duration, plan));
        }
        outcome.aggregates = aggregates(self.plan, &outcome.flows);
        for (stage, plan) in self.stages.into_iter().zip(&self.plan.elements) {
            outcome.elements.push(stage.outcome(plan));
        }
        outcome
    }
}

impl SoFar for Engine<'_> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn windows(&self, flow: usize) -> &[u64] {
        let flow = self.flows.get(flow);
        flow.map_or(&[], |flow| flow.record.windows.until(self.now))
    }

    fn samples(&self, element: usize) -> &[Sample] {
        self.record(element).map_or(&[], |record| &record.samples)
    }

    fn drops(&self, element: usize) -> &[u64] {
        self.record(element).map_or(&[], |record| &record.drops)
    }
}

/// The counts of a flow's packets with payload.
#[cfg(test)]
#[derive(Debug, PartialEq, Eq)]
pub struct Ledger {
    pub sent: u64,
    pub arrived: u64,
    pub dropped: u64,
    pub under_way: u64,
}
