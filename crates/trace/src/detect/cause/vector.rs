//! Sixteen values side by side, in the widest vector registers that the processor has.
//!
//! A program is compiled for every processor of its kind, and on x86-64 that means vectors of four values. Here
//! loops over lanes are compiled for eight and sixteen too, and the processor decides when they run. WebAssembly
//! has vectors of four. In a lane the same operations follow each other in each of them, and so all come to the same result.

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Values that are computed side by side.
pub(super) const LANES: usize = 16;
/// A value for each of them.
pub(super) type Lanes = [f32; LANES];

/// Values side by side, which are numbers.
pub(super) trait Vector: Copy {
    /// Which of the values something is true of.
    type Mask: Copy;

    fn new(values: &Lanes) -> Self;
    fn all(value: f32) -> Self;
    fn values(self) -> Lanes;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn most(self, other: Self) -> Self;
    /// These values, or others where a mask is true.
    fn or_where(self, mask: Self::Mask, others: Self) -> Self;
    fn is_below(self, other: Self) -> Self::Mask;
    /// Whether no value is below this.
    fn is_never_below(self, other: f32) -> bool;
    fn and(mask: Self::Mask, other: Self::Mask) -> Self::Mask;
    fn or(mask: Self::Mask, other: Self::Mask) -> Self::Mask;
    /// Adds 1 where the mask is true.
    fn count(mask: Self::Mask, counts: &mut [u32; LANES]);
    /// The entries of a table at these places, or at its nearer end.
    fn look_up<const N: usize>(self, table: &[f32; N]) -> Self;
    fn add_to(self, sums: &mut [f64; LANES]);
}

/// A loop over vectors.
pub(super) trait Loop {
    /// What it comes to.
    type Result;

    /// Runs it. To be `#[inline(always)]` with all that it calls: only then is it compiled for each width.
    fn run<V: Vector>(self) -> Self::Result;
}

/// Runs a loop.
pub(super) fn run<L: Loop>(over: L) -> L::Result {
    #[cfg(target_arch = "x86_64")]
    return x86::run(over);
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return over.run::<wasm::Fours>();
    #[cfg(not(any(
        target_arch = "x86_64",
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    over.run::<Plain>()
}

/// For every processor.
#[cfg_attr(
    target_feature = "simd128",
    allow(dead_code, reason = "only processors without vectors need it")
)]
#[derive(Debug, Clone, Copy)]
struct Plain(Lanes);

impl Plain {
    #[inline(always)]
    fn with(self, other: Self, each: impl Fn(f32, f32) -> f32) -> Self {
        let mut values = self.0;
        for (value, other) in values.iter_mut().zip(other.0) {
            *value = each(*value, other);
        }
        Self(values)
    }
}

impl Vector for Plain {
    type Mask = [bool; LANES];

    #[inline(always)]
    fn new(values: &Lanes) -> Self {
        Self(*values)
    }

    #[inline(always)]
    fn all(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    fn values(self) -> Lanes {
        self.0
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }

    // One vector instruction, which `f32::min` is not: that treats values that are not numbers.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        self.with(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn most(self, other: Self) -> Self {
        self.with(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn or_where(self, mask: Self::Mask, others: Self) -> Self {
        let mut values = self.0;
        for i in 0..LANES {
            values[i] = if mask[i] { others.0[i] } else { values[i] };
        }
        Self(values)
    }

    #[inline(always)]
    fn is_below(self, other: Self) -> Self::Mask {
        let mut mask = [false; LANES];
        for (mask, (value, other)) in mask.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            *mask = value < other;
        }
        mask
    }

    #[inline(always)]
    fn is_never_below(self, other: f32) -> bool {
        let mut quarters = [f32::MAX; 4];
        for quarter in self.0.chunks_exact(4) {
            for i in 0..4 {
                let less = quarter[i] < quarters[i];
                quarters[i] = if less { quarter[i] } else { quarters[i] };
            }
        }
        quarters.into_iter().all(|least| least >= other)
    }

    #[inline(always)]
    fn and(mask: Self::Mask, other: Self::Mask) -> Self::Mask {
        let mut both = mask;
        for i in 0..LANES {
            both[i] &= other[i];
        }
        both
    }

    #[inline(always)]
    fn or(mask: Self::Mask, other: Self::Mask) -> Self::Mask {
        let mut either = mask;
        for i in 0..LANES {
            either[i] |= other[i];
        }
        either
    }

    #[inline(always)]
    fn count(mask: Self::Mask, counts: &mut [u32; LANES]) {
        for i in 0..LANES {
            counts[i] += u32::from(mask[i]);
        }
    }

    #[inline(always)]
    fn look_up<const N: usize>(self, table: &[f32; N]) -> Self {
        let mut found = self.0;
        for i in 0..LANES {
            found[i] = table[(self.0[i] as usize).min(N - 1)];
        }
        Self(found)
    }

    #[inline(always)]
    fn add_to(self, sums: &mut [f64; LANES]) {
        for (sum, value) in sums.iter_mut().zip(self.0) {
            *sum += f64::from(value);
        }
    }
}

#[cfg(test)]
mod tests;
