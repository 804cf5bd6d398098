//! A delay, constant or with jitter.

use std::collections::VecDeque;

use tidegate_limiter::{Nanos, prefetch_all};

use crate::packet::PacketId;
use crate::random::Random;

#[cfg(test)]
mod tests;

/// A way that takes time and keeps the order of packets.
#[derive(Debug)]
pub struct Delay {
    delay: Nanos,
    under_way: VecDeque<(Nanos, PacketId)>,
    /// Few delays have it, and each flow may have two delays.
    jitter: Option<Box<Jitter>>,
}

#[derive(Debug)]
struct Jitter {
    /// Standard deviation of a normal distribution, of which only the positive values are used.
    deviation: f64,
    random: Random,
    /// When the last packet arrives.
    last: Nanos,
}

impl Delay {
    /// A way that takes this long.
    pub fn constant(delay: Nanos) -> Self {
        Self {
            delay,
            under_way: VecDeque::new(),
            jitter: None,
        }
    }

    /// A way that takes at least this long.
    pub fn varying(delay: Nanos, jitter: Nanos, random: Random) -> Self {
        let jitter = (jitter > 0).then_some(Jitter {
            deviation: jitter as f64,
            random,
            last: 0,
        });
        Self {
            jitter: jitter.map(Box::new),
            ..Self::constant(delay)
        }
    }

    /// Takes a packet in.
    #[inline]
    pub fn offer(&mut self, now: Nanos, id: PacketId) {
        let mut due = now.saturating_add(self.delay);
        if let Some(jitter) = &mut self.jitter {
            let more = jitter.random.normal().abs() * jitter.deviation;
            // It waits for the one before it.
            due = due.saturating_add(more as Nanos).max(jitter.last);
            jitter.last = due;
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

    /// Asks for the memory of the next one's entry, and of the place for another.
    #[inline]
    pub fn prefetch(&self) {
        let ends = [self.under_way.front(), self.under_way.back()];
        ends.into_iter().flatten().for_each(prefetch_all);
    }

    /// When the next one arrives.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.under_way.front().map(|&(due, _)| due)
    }
}
