//! A part with some of the flows: servers, clients, applications, and the packets on their way from clients to servers.

use std::ops::Range;
use std::sync::Arc;

use tidegate_limiter::{Nanos, prefetch_between};

use super::transit::{Batch, Transit, Way};
use crate::outcome::FlowOutcome;
use crate::packet::Packet;
use crate::packet::wire::Wire;
use crate::plan::Plan;
use crate::sim::endpoint::Side;
use crate::sim::engine::MOST_PACKETS;
use crate::sim::flow::{ACTORS, Flow};
use crate::sim::stages::Stages;
use crate::sim::timers::{Key, Ties, Timers};

/// How many packets ahead memory is asked for: of the packet, and of its flow, its end, and what that sent.
const PACKET: usize = 8;
const FLOW: usize = 16;
const END: usize = 10;
const SENT: usize = 5;

/// A flow, and the ways of its packets: to the elements, and from the client to the server.
#[derive(Debug)]
#[repr(C, align(64))]
struct Member {
    ways: [Way; 2],
    flow: Flow,
}

/// Some flows at work.
#[derive(Debug)]
pub struct Ends<'a> {
    plan: &'a Plan,
    now: Nanos,
    /// The flows: their numbers in the plan begin here.
    first: usize,
    members: Vec<Member>,
    timers: Timers,
    /// What the numbers of this part's timers are behind those of the whole simulation.
    offset: u32,
    /// Packets on their way to the elements, and to the servers.
    transit: [Transit; 2],
    wires: Arc<[Wire]>,
    total: u64,
    /// More packets than are allowed were sent in a window. Nothing is simulated from then on.
    flooded: bool,
}

impl<'a> Ends<'a> {
    /// These flows of a plan at time 0, with windows of two to the power of `shift` nanoseconds.
    pub fn new(plan: &'a Plan, stages: &Stages, flows: Range<usize>, shift: u32) -> Self {
        let first = flows.start;
        let mut timers = Timers::new(flows.len() * ACTORS, Ties::Timed);
        let mut members = Vec::new();
        for index in flows {
            let flow = &plan.flows[index];
            let half = flow.delay / 2;
            let delays = stages.routes.delays(index);
            members.push(Member {
                ways: [
                    Way::new(half, delays),
                    Way::new(flow.delay - half, delays + 1),
                ],
                flow: Flow::new(plan, index, &stages.routes),
            });
            timers.at_latest((index - first) * ACTORS + 2, flow.start, 0);
        }
        let delays = plan.elements.len() + 2 * plan.flows.len();
        Self {
            plan,
            now: 0,
            first,
            members,
            timers,
            offset: (delays + ACTORS * first) as u32,
            // A packet reaches the elements in the second window after that in which it is sent.
            transit: [Transit::new(shift, 2), Transit::new(shift, 0)],
            wires: Arc::clone(&stages.wires),
            total: 0,
            flooded: false,
        }
    }

    /// Simulates until this time, the end of a window, with the packets that reach clients in it. Returns the packets that
    /// reach the elements in the second window after it.
    pub fn run(&mut self, until: Nanos, arrivals: &Batch, spare: Batch) -> Batch {
        if self.flooded {
            return spare;
        }
        let home = self.transit[1].take();
        let (mut arrived, mut returned, before) = (0, 0, self.total);
        loop {
            let (arrival, back) = (arrivals.key(arrived), home.key(returned));
            let due = self.timers.peek();
            let due = Key {
                actor: due.actor.saturating_add(self.offset),
                ..due
            };
            let key = arrival.min(back).min(due);
            // All packets that were sent in a window are under way at its end.
            self.flooded = self.total - before > MOST_PACKETS as u64;
            if key.at >= until || self.flooded {
                break;
            }
            self.now = key.at;
            if key == arrival {
                self.fetch_ahead(arrivals, arrived, Side::Client);
                arrivals.get(arrived).inspect(|packet| self.arrive(packet));
                arrived += 1;
            } else if key == back {
                self.fetch_ahead(&home, returned, Side::Server);
                home.get(returned).inspect(|packet| self.arrive(packet));
                returned += 1;
            } else if let Some((_, actor)) = self.timers.next() {
                self.fetch_timers();
                self.act(actor);
            }
        }
        self.transit[1].reuse(home);
        self.transit[0].reuse(spare);
        self.transit[0].take()
    }

    fn act(&mut self, actor: usize) {
        let index = actor / ACTORS;
        match actor % ACTORS {
            0 => self.on_timeout(index, Side::Server),
            1 => self.on_timeout(index, Side::Client),
            _ => self.on_application(index),
        }
    }

    /// A packet has reached the end of its path.
    #[inline]
    fn arrive(&mut self, packet: &Packet) {
        let index = packet.flow as usize - self.first;
        let (held, side) = self.members[index].flow.arrive(self.now, packet);
        if held {
            self.transmit(index, side);
            self.set_application(index);
        }
    }

    /// A timer of an end of a connection.
    fn on_timeout(&mut self, index: usize, side: Side) {
        let Flow { ends, record, .. } = &mut self.members[index].flow;
        match ends.on_timeout(self.now, side, record) {
            Some(came) => {
                self.transmit(index, side);
                if came {
                    self.set_application(index);
                }
            }
            // An unnecessary wake-up does not send: segments that wait for an acknowledgement wait on.
            None => self.set_end(index, side),
        }
    }

    /// The application's time has come.
    fn on_application(&mut self, index: usize) {
        let flow = &mut self.members[index].flow;
        flow.ends.on_application(self.now, &mut flow.record);
        self.transmit(index, Side::Client);
        self.transmit(index, Side::Server);
        self.set_application(index);
    }

    fn set_application(&mut self, index: usize) {
        if let Some(at) = self.members[index].flow.ends.next_application() {
            self.timers
                .at_latest(index * ACTORS + 2, at.max(self.now), self.now);
        }
    }

    /// Sends everything that an end can send.
    fn transmit(&mut self, index: usize, side: Side) {
        let Member { ways, flow } = &mut self.members[index];
        let way = &mut ways[side as usize];
        let batch = self.transit[side as usize].at(way.due(self.now));
        loop {
            let packet = batch.spare();
            let sent = flow.ends.poll_transmit(self.now, side, &mut packet.segment);
            let Some(sent) = sent else { break };
            flow.begin(packet, (self.first + index, side), sent, &self.wires);
            batch.commit(way.key(self.now));
            self.total += 1;
        }
        self.set_end(index, side);
    }

    /// Sets the timer of an end.
    fn set_end(&mut self, index: usize, side: Side) {
        if let Some(at) = self.members[index].flow.ends.next_timeout(side) {
            self.timers
                .at_latest(index * ACTORS + side as usize, at.max(self.now), self.now);
        }
    }

    /// Asks for the memory that the next packets of a batch need.
    #[inline]
    fn fetch_ahead(&self, batch: &Batch, number: usize, side: Side) {
        batch
            .get(number + PACKET)
            .inspect(|packet| packet.prefetch());
        if let Some(flow) = batch.flow(number + FLOW) {
            self.fetch_flow(flow - self.first, side);
        }
        if let Some(flow) = batch.flow(number + END) {
            self.fetch_end(flow - self.first, side);
        }
        if side == Side::Server
            && let Some(flow) = batch.flow(number + SENT)
        {
            self.members[flow - self.first].flow.ends.prefetch_sent();
        }
    }

    /// Asks for the memory of the next timers' flows.
    #[inline]
    fn fetch_timers(&self) {
        let part = |place: usize| {
            let actor = self.timers.ahead(place)?;
            let side = match actor % ACTORS {
                1 => Side::Client,
                _ => Side::Server,
            };
            Some((actor / ACTORS, side))
        };
        if let Some((index, side)) = part(2) {
            self.fetch_flow(index, side);
        }
        if let Some((index, side)) = part(0) {
            self.fetch_end(index, side);
        }
    }

    #[inline]
    fn fetch_flow(&self, index: usize, side: Side) {
        let member = &self.members[index];
        let record = &member.flow.record;
        match side {
            Side::Client => prefetch_between(member, &record.sent_packets),
            Side::Server => prefetch_between(member, &record.dropped),
        }
        self.timers.prefetch(index * ACTORS + side as usize);
    }

    #[inline]
    fn fetch_end(&self, index: usize, side: Side) {
        let flow = &self.members[index].flow;
        flow.ends.prefetch(side);
        if side == Side::Client {
            flow.record.windows.prefetch(self.now);
        }
    }

    /// Packets on their way from these flows, without those that the elements may have by now.
    pub fn held(&self) -> usize {
        if self.flooded {
            return MOST_PACKETS + 1;
        }
        self.transit.iter().map(Transit::held).sum()
    }

    /// Packets sent, and the outcomes of the flows.
    pub fn finish(self) -> (u64, Vec<FlowOutcome>) {
        let plans = &self.plan.flows[self.first..];
        let flows = self.members.into_iter().zip(plans);
        let outcomes = flows.map(|(member, plan)| member.flow.outcome(self.plan.duration, plan));
        (self.total, outcomes.collect())
    }
}
