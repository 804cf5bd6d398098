//! The limiters of `tidegate_limiter`, at a place in the network.

use tidegate_limiter::{
    Class, ColourMode, Decision, Marking, Nanos, PacketMeta, Program, SingleRateMarker,
    TokenBucket, TwoRateMarker,
};

use crate::outcome::Sample;
use crate::plan::{LimiterKind, Plan};
use crate::sim::RunError;
use crate::sim::packet::{Packet, PacketId, Packets};

#[cfg(test)]
mod tests;

/// A limiter, and to which of its queues packets go.
#[derive(Debug)]
pub struct Limiter {
    kind: Kind,
    overhead: u32,
    /// Of each flow of the plan: the queues that its hash chooses from.
    classes: Box<[Class]>,
}

#[derive(Debug)]
enum Kind {
    Policer(TokenBucket),
    SingleRate(SingleRateMarker, u64),
    TwoRate(TwoRateMarker, u64),
}

impl Limiter {
    /// The limiter of this index in the plan.
    ///
    /// # Errors
    /// If its settings contradict each other, or a flow that passes it belongs to a class or queue
    /// that its policy does not have.
    pub fn new(
        plan: &Plan,
        index: usize,
        kind: &LimiterKind,
        overhead: u32,
    ) -> Result<Self, RunError> {
        let name = &plan.elements[index].name;
        let fails = |what: String| RunError::plan(format!("limiter '{name}': {what}"));
        let whole = Class {
            first: 0,
            queues: 1,
        };
        let mut classes = vec![whole; plan.flows.len()];
        let kind = match kind {
            LimiterKind::Policer { rate, burst } => {
                Kind::Policer(TokenBucket::new(*rate, *burst, 0))
            }
            LimiterKind::SrTcm {
                rate,
                committed,
                excess,
                yellow,
                red,
            } => {
                let marking = marking(*yellow, *red);
                let marker = SingleRateMarker::new(
                    *rate,
                    *committed,
                    *excess,
                    ColourMode::Blind,
                    marking,
                    0,
                );
                let both = committed.saturating_add(*excess);
                Kind::SingleRate(marker.map_err(|error| fails(error.to_string()))?, both)
            }
            LimiterKind::TrTcm {
                rate,
                committed,
                peak,
                peak_burst,
                yellow,
                red,
            } => {
                let marking = marking(*yellow, *red);
                let marker = TwoRateMarker::new(
                    (*peak, *peak_burst),
                    (*rate, *committed),
                    ColourMode::Blind,
                    marking,
                    0,
                );
                let both = committed.saturating_add(*peak_burst);
                Kind::TwoRate(marker.map_err(|error| fails(error.to_string()))?, both)
            }
            LimiterKind::FairPolicer { .. }
            | LimiterKind::Phantom { .. }
            | LimiterKind::Shaper { .. } => return Err(fails("not there yet".into())),
        };
        Ok(Self {
            kind,
            overhead,
            classes: classes.into(),
        })
    }

    /// What it adds to the length of an IP packet.
    pub fn overhead(&self) -> u32 {
        self.overhead
    }

    /// A packet comes; it is given back if it goes on at once.
    #[inline]
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) -> Option<PacketId> {
        let meta = self.meta(packets.get(id));
        let decision = match &mut self.kind {
            Kind::Policer(bucket) => bucket.offer(now, &meta),
            Kind::SingleRate(marker, _) => marker.offer(now, &meta),
            Kind::TwoRate(marker, _) => marker.offer(now, &meta),
        };
        match decision {
            Decision::Pass => Some(id),
            Decision::Mark(dscp) => {
                packets.get_mut(id).dscp = dscp;
                Some(id)
            }
            Decision::Drop => {
                packets.drop(id);
                None
            }
        }
    }

    #[inline]
    fn meta(&self, packet: &Packet) -> PacketMeta {
        let class = self.classes[packet.flow as usize];
        // As the classifier does: the hash as a fraction of the class's queues.
        let share = (u64::from(packet.hash) * u64::from(class.queues)) >> 32;
        PacketMeta {
            bytes: packet.bytes + self.overhead,
            queue: class.first + share as u16,
            dscp: packet.dscp,
            flow: packet.hash,
        }
    }

    /// A packet that it held and that leaves now.
    #[inline]
    pub fn poll(&mut self, _now: Nanos) -> Option<PacketId> {
        None
    }

    /// When the next one may leave.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        None
    }

    /// Tokens missing from buckets, or bytes in queues.
    pub fn sample(&mut self, now: Nanos) -> Sample {
        // A packet of no bytes takes nothing and brings buckets up to date.
        let nothing = PacketMeta::default();
        let queues = match &mut self.kind {
            Kind::Policer(bucket) => {
                bucket.offer(now, &nothing);
                vec![bucket.burst() - bucket.tokens()]
            }
            Kind::SingleRate(marker, both) => {
                marker.offer(now, &nothing);
                vec![missing(*both, marker.tokens())]
            }
            Kind::TwoRate(marker, both) => {
                marker.offer(now, &nothing);
                vec![missing(*both, marker.tokens())]
            }
        };
        Sample {
            at: now,
            queues,
            magic: Vec::new(),
        }
    }
}

/// Tokens missing from two buckets that hold so many together.
fn missing(both: u64, tokens: (u64, u64)) -> u64 {
    both - tokens.0.saturating_add(tokens.1)
}

/// Re-marks, or drops where there is no code point; what is green passes as it is.
fn marking(yellow: Option<u8>, red: Option<u8>) -> Marking {
    let decision = |dscp: Option<u8>| dscp.map_or(Decision::Drop, Decision::Mark);
    Marking {
        green: Decision::Pass,
        yellow: decision(yellow),
        red: decision(red),
    }
}
