//! Asks for the memory of the next actions, so that it is there when they come.
//!
//! With thousands of flows almost every part of a flow is far from the processor when its turn comes. So each part is
//! asked for several actions ahead, in the order in which one leads to the next, and no more than what is needed: the
//! processor can wait for about twenty lines of 64 bytes at once.

use tidegate_limiter::{Nanos, prefetch_all, prefetch_between};

use super::{ACTORS, Engine};
use crate::sim::endpoint::Side;
use crate::sim::stages::Way;

/// Flows from which on memory is asked for ahead: fewer fit into the cache. Tests have less.
const MANY: usize = if cfg!(test) { 2 } else { 300 };

/// How many actions ahead: the flow and its delays, its end, the packets.
const FLOW: usize = 12;
const END: usize = 8;
const PACKET: usize = 4;

/// A stage that acts again within this time does not come by the places above.
const SHORTLY: Nanos = 5000;

/// The part of a flow that an actor is.
enum Part {
    Delay(Way),
    End(Side),
}

impl Engine<'_> {
    /// Asks for the memory that the next actions need.
    #[inline]
    pub(super) fn fetch_ahead(&self) {
        if self.flows.len() < MANY {
            return;
        }
        if let Some((actor, flow, part)) = self.ahead(FLOW) {
            match part {
                Part::Delay(way) => {
                    prefetch_all(&self.stages[actor]);
                    self.timers.prefetch(actor);
                    if way == Way::Home {
                        self.fetch_flow(flow, Side::Server);
                    }
                }
                Part::End(side) => self.fetch_flow(flow, side),
            }
        }
        if let Some((actor, flow, part)) = self.ahead(END) {
            match part {
                Part::Delay(way) => {
                    self.stages[actor].element.prefetch();
                    if way == Way::Home {
                        self.fetch_end(flow, Side::Server);
                    }
                }
                Part::End(side) => self.fetch_end(flow, side),
            }
        }
        if let Some((actor, flow, Part::Delay(way))) = self.ahead(PACKET) {
            let element = &self.stages[actor].element;
            // An acknowledgement often sends two.
            for id in [element.next(), element.after_next()].into_iter().flatten() {
                self.packets.get(id).prefetch();
            }
            if way == Way::Home {
                self.flows[flow].ends.prefetch_sent();
            }
        }
    }

    /// A stage has acted: asks for the memory of the packets that leave it next.
    #[inline]
    pub(super) fn fetch_behind(&self, actor: usize) {
        let element = &self.stages[actor].element;
        let (next, after_next) = (element.next(), element.after_next());
        if actor >= self.plan.elements.len() {
            // With many flows it is mostly long until then.
            let due = element.next_timeout().unwrap_or(Nanos::MAX);
            if self.flows.len() < MANY || due < self.now + SHORTLY {
                for id in [next, after_next].into_iter().flatten() {
                    self.packets.get(id).prefetch();
                }
            }
            return;
        }
        if let Some(id) = after_next {
            self.packets.behind(id).inspect(|packet| packet.prefetch());
        }
        if self.flows.len() < MANY {
            return;
        }
        // It arrives when it has been sent.
        if let Some(id) = next {
            self.fetch_end(self.packets.get(id).flow as usize, Side::Client);
        }
        if let Some(id) = after_next {
            self.fetch_flow(self.packets.get(id).flow as usize, Side::Client);
        }
    }

    /// The part of a flow that acts in this place after the next one.
    #[inline]
    fn ahead(&self, place: usize) -> Option<(usize, usize, Part)> {
        let actor = self.timers.ahead(place)?;
        if actor < self.stages.len() {
            let (flow, way) = self.routes.owner(actor)?;
            return Some((actor, flow, Part::Delay(way)));
        }
        let end = actor - self.stages.len();
        let side = match end % ACTORS {
            1 => Side::Client,
            _ => Side::Server,
        };
        (end / ACTORS < self.flows.len()).then_some((actor, end / ACTORS, Part::End(side)))
    }

    /// Asks for where a flow begins, for the timer of an end, and for the delay that its packets pass.
    #[inline]
    fn fetch_flow(&self, index: usize, side: Side) {
        let flow = &self.flows[index];
        match side {
            Side::Client => prefetch_between(flow, &flow.record.sent_packets),
            Side::Server => prefetch_between(flow, &flow.record.dropped),
        }
        let delay = self.routes.delays(index) + side as usize;
        prefetch_all(&self.stages[delay]);
        self.timers.prefetch(delay);
        self.timers
            .prefetch(self.stages.len() + ACTORS * index + side as usize);
    }

    /// Asks for an end, and for what its flow's records and delay point to.
    #[inline]
    fn fetch_end(&self, index: usize, side: Side) {
        let flow = &self.flows[index];
        flow.ends.prefetch(side);
        if side == Side::Client {
            flow.record.windows.prefetch(self.now);
        }
        let delay = self.routes.delays(index) + side as usize;
        self.stages[delay].element.prefetch();
    }
}
