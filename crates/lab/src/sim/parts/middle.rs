//! The part with the elements of the plan, which all flows share.

use tidegate_limiter::Nanos;

use super::transit::{Batch, Entry};
use crate::outcome::{ElementOutcome, drop_step};
use crate::packet::{PacketId, Packets};
use crate::plan::Plan;
use crate::sim::flow::ACTORS;
use crate::sim::stages::{Harm, Routes, Stage, Stages};
use crate::sim::timers::{Key, Ties, Timers};

/// The number of a batch is in the upper bits of a place among all batches.
const BATCH: u32 = 26;
/// Most parts with flows.
pub const MOST_PARTS: usize = 1 << (u32::BITS - BATCH);
/// How many packets ahead memory is asked for.
const AHEAD: usize = 6;

/// Packets with payload of a flow that were dropped, and marked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Harmed {
    pub dropped: u64,
    pub marked: u64,
}

impl Harmed {
    #[inline]
    fn add(&mut self, harm: Harm) {
        match harm {
            Harm::Dropped => self.dropped += 1,
            Harm::Marked => self.marked += 1,
        }
    }
}

/// The elements at work.
#[derive(Debug)]
pub struct Middle<'a> {
    plan: &'a Plan,
    /// The present action.
    now: Key,
    /// Of the elements, then the one that takes samples.
    timers: Timers,
    packets: Packets,
    stages: Vec<Stage>,
    routes: Routes,
    drop_step: Nanos,
    harm: Vec<Harmed>,
    /// Flows in each part.
    share: usize,
    /// The packets that arrive in a window, from all parts.
    incoming: Vec<Entry>,
}

impl<'a> Middle<'a> {
    /// The elements of a plan at time 0, and this many flows in each other part.
    pub fn new(plan: &'a Plan, stages: Stages, share: usize) -> Self {
        let Stages {
            mut stages, routes, ..
        } = stages;
        stages.truncate(plan.elements.len());
        let mut timers = Timers::new(stages.len() + 1, Ties::Timed);
        if plan.sample.is_some() {
            timers.at_latest(stages.len(), 0, 0);
        }
        Self {
            plan,
            now: Key {
                at: 0,
                set: 0,
                actor: 0,
            },
            timers,
            packets: Packets::default(),
            stages,
            routes,
            drop_step: drop_step(plan.duration),
            harm: vec![Harmed::default(); plan.flows.len()],
            share,
            incoming: Vec::new(),
        }
    }

    /// Simulates until this time, with the packets that come by then from each part. Writes those that reach their clients.
    pub fn run(&mut self, until: Nanos, from: &[Batch], to: &mut [Batch]) {
        let mut incoming = std::mem::take(&mut self.incoming);
        incoming.clear();
        for (number, batch) in from.iter().enumerate() {
            let number = (number as u32) << BATCH;
            let entries = batch.entries().iter();
            incoming.extend(entries.map(|entry| entry.placed(number | entry.place)));
        }
        // Each batch is in order already, which this sort makes use of.
        incoming.sort();
        let find = |entry: &Entry| {
            let batch = &from[(entry.place >> BATCH) as usize];
            batch.packet(entry.place & ((1 << BATCH) - 1))
        };
        let mut next = 0;
        loop {
            let due = self.timers.peek();
            let due = self.global(due);
            let arrival = incoming.get(next).map_or(Key::NEVER, Entry::key);
            let key = arrival.min(due);
            if key.at >= until {
                break;
            }
            self.now = key;
            if key == arrival {
                incoming
                    .get(next + AHEAD)
                    .inspect(|entry| find(entry).prefetch());
                let id = self.packets.reserve();
                let packet = self.packets.get_mut(id);
                *packet = find(&incoming[next]).clone();
                // Behind the delay.
                packet.place += 1;
                next += 1;
                self.follow(id, to);
            } else if let Some((_, actor)) = self.timers.next() {
                self.act(actor, to);
            }
        }
        self.incoming = incoming;
    }

    /// An action as the whole simulation numbers the actors.
    #[inline]
    fn global(&self, key: Key) -> Key {
        let (elements, flows) = (self.stages.len(), self.plan.flows.len());
        if (key.actor as usize) != elements {
            return key;
        }
        Key {
            actor: (elements + (2 + ACTORS) * flows) as u32,
            ..key
        }
    }

    fn act(&mut self, actor: usize, to: &mut [Batch]) {
        if actor == self.stages.len() {
            self.sample();
            return;
        }
        let now = self.now.at;
        while let Some(id) = self.stages[actor].element.poll(now, &mut self.packets) {
            self.count_harm(actor);
            self.follow(id, to);
        }
        self.count_harm(actor);
        self.set_stage(actor);
        let element = &self.stages[actor].element;
        for id in [element.next(), element.after_next()].into_iter().flatten() {
            self.packets.get(id).prefetch();
        }
        if let Some(id) = element.after_next() {
            self.packets.behind(id).inspect(|packet| packet.prefetch());
        }
    }

    /// Takes a packet along its path until it is held, dropped, or at the end.
    fn follow(&mut self, id: PacketId, to: &mut [Batch]) {
        loop {
            let packet = self.packets.get_mut(id);
            let Some(index) = self.routes.stage(packet) else {
                let batch = &mut to[packet.flow as usize / self.share];
                *batch.spare() = packet.clone();
                batch.commit(self.now);
                self.packets.free(id);
                return;
            };
            packet.place += 1;
            let (now, flows) = (self.now.at, &mut self.harm);
            let harm = |flow: usize, harm| flows[flow].add(harm);
            if !self.stages[index].offer(now, id, &mut self.packets, self.drop_step, harm) {
                self.set_stage(index);
                return;
            }
        }
    }

    #[inline]
    fn count_harm(&mut self, stage: usize) {
        let (now, flows) = (self.now.at, &mut self.harm);
        let harm = |flow: usize, harm| flows[flow].add(harm);
        self.stages[stage].count_harm(now, &mut self.packets, self.drop_step, harm);
    }

    #[inline]
    fn set_stage(&mut self, stage: usize) {
        let now = self.now.at;
        if let Some(at) = self.stages[stage].element.next_timeout() {
            self.timers.at_latest(stage, at.max(now), now);
        }
    }

    fn sample(&mut self) {
        let now = self.now.at;
        for stage in &mut self.stages {
            stage.sample(now);
        }
        if let Some(sample) = self.plan.sample {
            let actor = self.stages.len();
            self.timers
                .at_latest(actor, now.saturating_add(sample), now);
        }
    }

    /// Packets that the elements hold.
    pub fn held(&self) -> usize {
        self.packets.held()
    }

    /// The outcome of the elements, and what they did to each flow.
    pub fn finish(self) -> (Vec<ElementOutcome>, Vec<Harmed>) {
        let stages = self.stages.into_iter().zip(&self.plan.elements);
        let outcomes = stages.map(|(stage, plan)| stage.outcome(plan));
        (outcomes.collect(), self.harm)
    }
}
