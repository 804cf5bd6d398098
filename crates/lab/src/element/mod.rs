//! The elements that packets pass: one file for each, and one match to choose among them.

pub mod cake;
pub mod codel;
pub mod custom;
pub mod delay;
pub mod droptail;
pub mod dualpi2;
pub mod fq_codel;
pub mod limiter;
pub mod link;
pub mod loss;
pub mod pie;
pub mod red;
pub mod reorder;
pub mod tap;

use std::sync::Arc;

use tidegate_limiter::{FlowKey, Nanos};

use crate::RunError;
use crate::outcome::Sample;
use crate::packet::wire::Wire;
use crate::packet::{ETHERNET_HEADER, PacketId, Packets};
use crate::plan::{ElementKind, Plan};
use crate::random::{Owner, Random};

/// A running element.
#[derive(Debug)]
pub enum Element {
    /// Delays packets.
    Delay(delay::Delay),
    /// Has a rate and a queue.
    Link(Box<link::Link>),
    /// Loses packets.
    Loss(Box<loss::Loss>),
    /// Changes their order.
    Reorder(Box<reorder::Reorder>),
    /// Limits a rate.
    Limiter(Box<limiter::Limiter>),
    /// Limits a rate with the code of another program.
    Custom(custom::Custom),
    /// Shows packets. The engine, which moves the packets, asks for this.
    Tap(Box<tap::Tap>),
}

impl Element {
    /// The element of this index in the plan, and of this number among those that are no taps.
    ///
    /// # Errors
    /// If flows do not fit a limiter's policy.
    pub fn new(
        plan: &Plan,
        (index, number): (usize, usize),
        wires: &Arc<[Wire]>,
    ) -> Result<Self, RunError> {
        // A run is the same with and without a capture.
        let random = Random::new(plan.seed, Owner::Element(number));
        let element = &plan.elements[index];
        Ok(match &element.kind {
            ElementKind::Delay { delay, jitter } => {
                Self::Delay(delay::Delay::varying(*delay, *jitter, random))
            }
            ElementKind::Link { rate, queue } => {
                Self::Link(Box::new(link::Link::new(*rate, queue, wires, random)))
            }
            ElementKind::Varying { capacity, queue } => Self::Link(Box::new(link::Link::varying(
                capacity, queue, wires, random,
            ))),
            ElementKind::Loss { probability, burst } => {
                Self::Loss(Box::new(loss::Loss::new(*probability, *burst, random)))
            }
            ElementKind::Reorder { probability, by } => {
                Self::Reorder(Box::new(reorder::Reorder::new(*probability, *by, random)))
            }
            ElementKind::Limiter { .. } => {
                Self::Limiter(Box::new(limiter::Limiter::new(plan, index, wires)?))
            }
            ElementKind::Custom { limiter, overhead } => {
                Self::Custom(custom::Custom::new(limiter, *overhead))
            }
            ElementKind::Tap { snaplen } => {
                Self::Tap(Box::new(tap::Tap::new(*snaplen, Arc::clone(wires))))
            }
        })
    }

    /// The bytes that it adds to the length of an IP packet when it counts.
    pub fn overhead(&self) -> u32 {
        match self {
            Self::Link(_) => ETHERNET_HEADER,
            Self::Limiter(limiter) => limiter.overhead(),
            Self::Custom(limiter) => limiter.overhead(),
            _ => 0,
        }
    }

    /// A packet comes. It is returned if it passes at once; otherwise it is held, or marked as
    /// dropped.
    #[inline]
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) -> Option<PacketId> {
        match self {
            Self::Delay(delay) => delay.offer(now, id),
            Self::Link(link) => link.offer(now, id, packets),
            Self::Limiter(limiter) => return limiter.offer(now, id, packets),
            Self::Custom(limiter) => return limiter.offer(now, id, packets),
            Self::Loss(loss) => {
                if !loss.loses() {
                    return Some(id);
                }
                packets.drop(id);
            }
            Self::Reorder(reorder) => return reorder.offer(now, id),
            Self::Tap(_) => return Some(id),
        }
        None
    }

    /// The same for a packet with these headers, as they are on the way to the client. They count, and not those of the flow
    /// in the plan.
    #[inline]
    pub fn offer_as(
        &mut self,
        now: Nanos,
        id: PacketId,
        key: &FlowKey,
        packets: &mut Packets,
    ) -> Option<PacketId> {
        match self {
            Self::Link(link) => {
                link.offer_as(now, id, key, packets);
                None
            }
            Self::Limiter(limiter) => limiter.offer_as(now, id, key, packets),
            element => element.offer(now, id, packets),
        }
    }

    /// A packet that the element held and that leaves now.
    #[inline]
    pub fn poll(&mut self, now: Nanos, packets: &mut Packets) -> Option<PacketId> {
        match self {
            Self::Delay(delay) => delay.poll(now),
            Self::Link(link) => link.poll(now, packets),
            Self::Limiter(limiter) => limiter.poll(now),
            Self::Reorder(reorder) => reorder.poll(now),
            Self::Loss(_) | Self::Custom(_) | Self::Tap(_) => None,
        }
    }

    /// When the next held packet may leave.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        match self {
            Self::Delay(delay) => delay.next_timeout(),
            Self::Link(link) => link.next_timeout(),
            Self::Limiter(limiter) => limiter.poll_timeout(),
            Self::Reorder(reorder) => reorder.next_timeout(),
            Self::Loss(_) | Self::Custom(_) | Self::Tap(_) => None,
        }
    }

    /// Asks for the memory of a delay's packets.
    #[inline]
    pub fn prefetch(&self) {
        if let Self::Delay(delay) = self {
            delay.prefetch();
        }
    }

    /// The held packet that leaves next, if that is known.
    #[inline]
    pub fn next(&self) -> Option<PacketId> {
        match self {
            Self::Delay(delay) => delay.next(),
            Self::Link(link) => link.sending(),
            _ => None,
        }
    }

    /// The held packet that leaves after that one, if that is known.
    #[inline]
    pub fn after_next(&self) -> Option<PacketId> {
        match self {
            Self::Delay(delay) => delay.after_next(),
            Self::Link(link) => link.waiting(),
            _ => None,
        }
    }

    /// How full it is, if it has queues or buckets.
    pub fn sample(&mut self, now: Nanos) -> Option<Sample> {
        match self {
            Self::Link(link) => Some(Sample {
                at: now,
                queues: vec![link.bytes()],
                magic: Vec::new(),
            }),
            Self::Limiter(limiter) => Some(limiter.sample(now)),
            _ => None,
        }
    }
}
