//! The whole: from two captures to what is between them.

use super::clock::Clocks;
use super::gather::{Counts, Gathered};
use super::joined::join;
use super::way::Way;

/// What two captures of the same traffic show together.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// What was counted in each capture.
    pub counts: [Counts; 2],
    /// Streams of each capture that the other does not hold.
    pub unshared: [usize; 2],
    /// Of these, streams that the other seems to hold, but with other data: as if their sequence numbers were rewritten.
    pub unlike: usize,
    /// How B's clock goes by A's; `None` where the captures share no packet.
    pub clocks: Option<Clocks>,
    /// From A to B, and from B to A.
    pub ways: [Way; 2],
}

impl Diagnosis {
    /// Compares two captures.
    pub fn new(a: Gathered, b: Gathered) -> Self {
        let counts = [a.counts(), b.counts()];
        let joined = join(a, b);
        let shared = joined.shared.len();
        Self {
            counts,
            unshared: [&joined.a, &joined.b].map(|wire| wire.streams.len() - shared),
            unlike: joined.unlike,
            clocks: joined.clocks,
            ways: [true, false].map(|to_b| Way::new(&joined, to_b)),
        }
    }

    /// The way with the most losses; of ways without, the one with the most payload.
    pub fn main_way(&self) -> &Way {
        let weight = |way: &Way| {
            let lost = way.sum(|stream| stream.lost);
            (lost, way.sum(|stream| stream.payload_bytes))
        };
        let [to_b, to_a] = &self.ways;
        if weight(to_a) > weight(to_b) {
            to_a
        } else {
            to_b
        }
    }
}
