//! Random values of a plan, drawn from a seed. Each value has a separate stream, which depends on its
//! purpose. So a flow that is added to a file does not change the others.

/// Mixes numbers and names into one number, by the finalizer of SplitMix64 after each byte or
/// number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw(u64);

impl Draw {
    /// The first number.
    pub fn new(seed: u64) -> Self {
        Self(0).number(seed)
    }

    /// A draw for something with this number.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        let mut z = (self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(z ^ (z >> 31))
    }

    /// A draw for something with this name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        let bytes = name.bytes().map(u64::from);
        bytes.fold(self.number(name.len() as u64), Self::number)
    }

    /// 64 random bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Uniform in [0, 1).
    pub fn uniform(self) -> f64 {
        // 53 bits fill the mantissa; both conversion and product are exact.
        (self.0 >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform between the two, both included.
    pub fn between(self, low: u64, high: u64) -> u64 {
        let span = u128::from(high - low) + 1;
        low + ((u128::from(self.0) * span) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_apart_and_within_bounds() {
        let draw = |i| Draw::new(1).name("web").name("rtt").number(i);
        let values: Vec<u64> = (0..10_000).map(|i| draw(i).between(10, 19)).collect();
        for value in 10..20 {
            let count = values.iter().filter(|&&other| other == value).count();
            assert!((900..1100).contains(&count), "{value} came {count} times");
        }
        assert_ne!(
            Draw::new(1).name("ab").bits(),
            Draw::new(1).name("ba").bits()
        );
        assert_ne!(Draw::new(1).bits(), Draw::new(2).bits());
        assert_eq!(draw(0).between(7, 7), 7);
        let _ = draw(0).between(0, u64::MAX);
    }
}
