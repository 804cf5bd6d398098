//! A running flow: its ends, and what is counted of it.

use super::endpoint::{Endpoints, Sent, Side};
use super::stages::{Harm, Routes};
use crate::Nanos;
use crate::outcome::{AggregateOutcome, FlowOutcome};
use crate::packet::Packet;
use crate::packet::wire::Wire;
use crate::plan::{FlowPlan, Plan};
use crate::record::{FlowEnds, FlowRecord};

/// Actors of a flow: its server, its client, its application.
pub const ACTORS: usize = 3;

/// A running flow. What its packets need is in its first lines of the processor's cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flow {
    pub ends: Endpoints,
    /// Hash of the addresses and ports of the connection that sent last.
    hash: u32,
    /// Number of that connection; none has the largest.
    connection: u32,
    /// Next IPv4 identification of the server and of the client.
    idents: [u16; 2],
    /// Where the ways of its packets begin, forward and back.
    begins: [u32; 2],
    dscp: u8,
    pub record: FlowRecord,
}

impl Flow {
    /// A flow of the plan before its start.
    pub fn new(plan: &Plan, index: usize, routes: &Routes) -> Self {
        let flow = &plan.flows[index];
        Self {
            hash: 0,
            connection: u32::MAX,
            idents: [0; 2],
            begins: routes.begins(index).unwrap_or_default(),
            dscp: flow.dscp,
            ends: Endpoints::new(plan, index),
            record: FlowRecord::new(plan),
        }
    }

    /// A packet has reached an end. Returns whether the flow still has its connection, and the end.
    #[inline]
    pub fn arrive(&mut self, now: Nanos, packet: &Packet) -> (bool, Side) {
        if packet.forward {
            self.record.windows.add(now, packet.bytes);
            if packet.is_data() {
                self.record.arrived += 1;
            }
        }
        let side = if packet.forward {
            Side::Client
        } else {
            Side::Server
        };
        let held = self.ends.holds(packet.connection);
        if held {
            let to = (side, packet.connection);
            self.ends
                .on_segment(now, to, &packet.segment, &mut self.record);
        }
        (held, side)
    }

    /// Begins the way of a packet, whose segment is there already, from an end of this flow.
    #[inline]
    pub fn begin(
        &mut self,
        packet: &mut Packet,
        (index, side): (usize, Side),
        sent: Sent,
        wires: &[Wire],
    ) {
        let bytes = sent.bytes;
        if sent.connection != self.connection {
            self.connection = sent.connection;
            self.hash = wires[index].connection(sent.connection).hash;
        }
        packet.begin(index as u32, side == Side::Server, bytes);
        packet.place = self.begins[side as usize];
        packet.connection = sent.connection;
        packet.hash = self.hash;
        packet.dscp = self.dscp;
        let ident = &mut self.idents[side as usize];
        packet.ident = *ident;
        *ident = ident.wrapping_add(1);
        if packet.is_data() {
            self.record.sent_packets += 1;
            self.record.sent_bytes += u64::from(bytes);
            self.record.retransmitted += u64::from(packet.segment.again);
        }
    }

    /// An element dropped or marked one of its packets.
    #[inline]
    pub fn harm(&mut self, harm: Harm) {
        match harm {
            Harm::Dropped => self.record.dropped += 1,
            Harm::Marked => self.record.marked += 1,
        }
    }

    /// Its outcome at the end of the simulation.
    pub fn outcome(self, duration: Nanos, plan: &FlowPlan) -> FlowOutcome {
        // Without a byte there is no last one.
        let none = self.record.last == 0;
        let end = (none || !self.ends.ended()).then_some(duration);
        let ends = FlowEnds {
            end,
            delivered: self.ends.delivered(),
            timeouts: self.ends.timeouts(),
        };
        let (open, stream) = (self.ends.open(), self.ends.stream(duration));
        let adaptive = self.ends.adaptive(duration);
        FlowOutcome {
            open,
            stream,
            adaptive,
            ..self.record.outcome(plan, ends)
        }
    }
}

/// The outcomes of the aggregates of a plan, from those of its flows.
pub fn aggregates(plan: &Plan, flows: &[FlowOutcome]) -> Vec<AggregateOutcome> {
    let windows = plan.duration.div_ceil(plan.window) as usize;
    let names = plan.aggregates.iter();
    let mut outcomes: Vec<_> = names
        .map(|name| AggregateOutcome {
            name: name.clone(),
            windows: vec![0; windows],
        })
        .collect();
    for flow in flows {
        let sums = &mut outcomes[flow.aggregate].windows;
        for (sum, bytes) in sums.iter_mut().zip(&flow.windows) {
            *sum += bytes;
        }
    }
    outcomes
}
