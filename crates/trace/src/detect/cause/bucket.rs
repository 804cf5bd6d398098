//! A token bucket replayed over packets whose fate is known.
//!
//! A policer of rate r and depth b drops a packet when its bucket holds fewer tokens than the packet
//! weighs. A drop-tail queue of rate r and size b drops at the same moments: what is free in the
//! queue is what the bucket holds. So one model serves both, and delay decides between them.

use std::sync::LazyLock;

use super::arrival::Arrival;
use super::vector::Vector;

/// A token bucket. It starts at `start` of its depth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Bytes a second that fill it.
    pub rate: f64,
    /// Bytes that it holds.
    pub depth: f64,
    /// What it holds before the first packet, from 0 to 1 of its depth.
    pub start: f64,
}

impl Bucket {
    /// The level that each packet meets, in bytes.
    ///
    /// After each packet the level is moved to what the packet's fate proves: a packet that was
    /// lost met less than its weight, a packet that passed met at least its weight. So an error of
    /// the model does not last.
    pub fn levels<'a>(
        &'a self,
        arrivals: impl Iterator<Item = &'a Arrival> + 'a,
    ) -> impl Iterator<Item = f64> + 'a {
        let mut level = self.depth * self.start;
        let mut last = None;
        arrivals.map(move |arrival| {
            let gap = arrival.at.saturating_sub(last.unwrap_or(arrival.at));
            last = Some(arrival.at.max(last.unwrap_or(0)));
            let met = (level + self.rate * gap as f64 / 1e9).min(self.depth);
            let weight = f64::from(arrival.weight);
            level = if arrival.lost {
                met.min(weight)
            } else {
                (met - weight).max(0.0)
            };
            met
        })
    }
}

/// How much a level may be off, and how often a packet's fate has nothing to do with the bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Width of the logistic curve from certain loss to certain passing, in bytes.
    pub width: f64,
}

/// A packet in 300 is lost or passes for another reason.
const OUTLIERS: f64 = 0.003;
/// Widths away from the threshold where the curve is flat to 1e-7.
const CERTAIN: f32 = 16.0;
/// Entries of the table for each width.
const PER_WIDTH: f32 = 64.0;
const ENTRIES: usize = (2.0 * CERTAIN * PER_WIDTH) as usize + 1;

/// The logarithm of the likelihood of a fate by the widths by which a level agrees with it, from
/// minus [`CERTAIN`] on.
static LOGISTIC: LazyLock<[f32; ENTRIES]> = LazyLock::new(|| {
    std::array::from_fn(|i| {
        let agreement = f64::from(i as f32 / PER_WIDTH - CERTAIN);
        (OUTLIERS + (1.0 - 2.0 * OUTLIERS) / (1.0 + (-agreement).exp())).ln() as f32
    })
});

impl Noise {
    /// The logarithm of the likelihood of a packet's fate at the level that it met.
    #[inline]
    pub fn log_likelihood(self, level: f64, arrival: &Arrival) -> f64 {
        let surplus = (level - f64::from(arrival.weight)) as f32;
        let curve = self.curve();
        f64::from(curve.at(if arrival.lost { -surplus } else { surplus }))
    }

    /// The logarithm of the likelihood of a fate by the bytes by which the level agrees with it.
    #[inline]
    pub(super) fn curve(self) -> Curve {
        Curve {
            table: &LOGISTIC,
            scale: PER_WIDTH / self.width as f32,
        }
    }
}

/// See [`Noise::curve`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    table: &'static [f32; ENTRIES],
    scale: f32,
}

impl Curve {
    #[inline(always)]
    pub fn at(self, agreement: f32) -> f32 {
        let place = agreement * self.scale + (CERTAIN * PER_WIDTH + 0.5);
        self.table[(place as usize).min(ENTRIES - 1)]
    }

    /// The same for many agreements.
    #[inline(always)]
    pub fn of<V: Vector>(self, agreements: V) -> V {
        let places = agreements.times(V::all(self.scale));
        let middle = V::all(CERTAIN * PER_WIDTH + 0.5);
        places.plus(middle).look_up(self.table)
    }

    /// Bytes of agreement from which on a fate is certain, but for outliers.
    pub fn certain(self) -> f32 {
        CERTAIN * PER_WIDTH / self.scale
    }
}
