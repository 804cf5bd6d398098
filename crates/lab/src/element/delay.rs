//! A delay, constant or with jitter.

use std::collections::VecDeque;

use tidegate_limiter::{Nanos, prefetch_all};

use crate::packet::PacketId;
use crate::random::Random;

#[cfg(test)]
mod tests;

/// As many packets as fit beside the delay itself. With these, a flow's delay takes a line of the processor's cache.
const FEW: usize = 3;

/// A way that takes time and keeps the order of packets. Each flow may have two, which mostly hold few packets.
#[derive(Debug)]
pub struct Delay {
    delay: Nanos,
    under_way: UnderWay,
    /// Few delays have it.
    jitter: Option<Box<Jitter>>,
}

/// The packets under way, and when they arrive.
#[derive(Debug)]
enum UnderWay {
    Few {
        count: u8,
        dues: [Nanos; FEW],
        ids: [PacketId; FEW],
    },
    /// Until there are none.
    Many(VecDeque<(Nanos, PacketId)>),
}

impl UnderWay {
    const NONE: Self = Self::Few {
        count: 0,
        dues: [0; FEW],
        ids: [PacketId::NONE; FEW],
    };

    #[inline]
    fn push(&mut self, due: Nanos, id: PacketId) {
        match self {
            Self::Few { count, dues, ids } if usize::from(*count) < FEW => {
                let place = usize::from(*count);
                (dues[place], ids[place]) = (due, id);
                *count += 1;
            }
            Self::Few { dues, ids, .. } => {
                let few = dues.iter().copied().zip(ids.iter().copied());
                *self = Self::Many(few.chain([(due, id)]).collect());
            }
            Self::Many(many) => many.push_back((due, id)),
        }
    }

    /// The packet in this place.
    #[inline]
    fn get(&self, place: usize) -> Option<(Nanos, PacketId)> {
        match self {
            Self::Few { count, dues, ids } => {
                (place < usize::from(*count)).then(|| (dues[place], ids[place]))
            }
            Self::Many(many) => many.get(place).copied(),
        }
    }

    /// Takes the first packet out.
    #[inline]
    fn pop(&mut self) {
        match self {
            Self::Few { count, dues, ids } => {
                *count = count.saturating_sub(1);
                dues.copy_within(1.., 0);
                ids.copy_within(1.., 0);
            }
            Self::Many(many) => {
                many.pop_front();
                if many.is_empty() {
                    *self = Self::NONE;
                }
            }
        }
    }
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
            under_way: UnderWay::NONE,
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
        self.under_way.push(due, id);
    }

    /// A packet that has arrived by now.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Option<PacketId> {
        let (due, id) = self.under_way.get(0)?;
        (due <= now).then(|| {
            self.under_way.pop();
            id
        })
    }

    /// The next one.
    #[inline]
    pub fn next(&self) -> Option<PacketId> {
        self.under_way.get(0).map(|(_, id)| id)
    }

    /// The one behind it.
    #[inline]
    pub fn after_next(&self) -> Option<PacketId> {
        self.under_way.get(1).map(|(_, id)| id)
    }

    /// Asks for the memory of the next one's entry, and of the place for another, if they are elsewhere.
    #[inline]
    pub fn prefetch(&self) {
        if let UnderWay::Many(many) = &self.under_way {
            let ends = [many.front(), many.back()];
            ends.into_iter().flatten().for_each(prefetch_all);
        }
    }

    /// When the next one arrives.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.under_way.get(0).map(|(due, _)| due)
    }
}
