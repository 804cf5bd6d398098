//! A delay, constant or with jitter.

use std::collections::VecDeque;

use tidegate_limiter::Nanos;

use crate::packet::PacketId;
use crate::random::Random;

#[cfg(test)]
mod tests;

/// A way that takes time and keeps the order of packets.
#[derive(Debug)]
pub struct Delay {
    delay: Nanos,
    /// Standard deviation of a normal distribution, of which only the positive values are used.
    jitter: f64,
    random: Random,
    under_way: VecDeque<(Nanos, PacketId)>,
    /// When the last packet arrives.
    last: Nanos,
}

impl Delay {
    /// A way that takes this long.
    pub fn new(delay: Nanos, jitter: Nanos, random: Random) -> Self {
        Self {
            delay,
            jitter: jitter as f64,
            random,
            under_way: VecDeque::new(),
            last: 0,
        }
    }

    /// Takes a packet in.
    #[inline]
    pub fn offer(&mut self, now: Nanos, id: PacketId) {
        let mut due = now.saturating_add(self.delay);
        if self.jitter > 0.0 {
            due = due.saturating_add((self.random.normal().abs() * self.jitter) as Nanos);
            // It waits for the one before it.
            due = due.max(self.last);
            self.last = due;
        }
        self.under_way.push_back((due, id));
    }

    /// A packet that has arrived by now.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Option<PacketId> {
        let &(due, id) = self.under_way.front()?;
        (due <= now).then(|| {
            self.under_way.pop_front();
            id
        })
    }

    /// The next one.
    #[inline]
    pub fn next(&self) -> Option<PacketId> {
        self.under_way.front().map(|&(_, id)| id)
    }

    /// When the next one arrives.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.under_way.front().map(|&(due, _)| due)
    }
}
