//! Reordering: some packets are held back, later ones overtake them.

use tidegate_limiter::Nanos;

use super::delay::Delay;
use crate::packet::PacketId;
use crate::random::Random;

#[cfg(test)]
mod tests;

/// A second, longer way that packets take at random.
#[derive(Debug)]
pub struct Reorder {
    probability: f64,
    random: Random,
    detour: Delay,
}

impl Reorder {
    /// A detour that takes this much longer, taken with this probability.
    pub fn new(probability: f64, by: Nanos, random: Random) -> Self {
        Self {
            probability,
            random,
            detour: Delay::constant(by),
        }
    }

    /// Returns the packet unless it is held.
    pub fn offer(&mut self, now: Nanos, id: PacketId) -> Option<PacketId> {
        if !self.random.chance(self.probability) {
            return Some(id);
        }
        self.detour.offer(now, id);
        None
    }

    /// A packet that has been held long enough.
    pub fn poll(&mut self, now: Nanos) -> Option<PacketId> {
        self.detour.poll(now)
    }

    /// When the next packet will have been held long enough.
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.detour.next_timeout()
    }
}
