//! Four registers of four values in WebAssembly.

use std::arch::wasm32::*;

use super::{LANES, Lanes, Vector};

/// Four registers of four. WebAssembly has none that are wider.
#[derive(Clone, Copy)]
pub(super) struct Fours([v128; 4]);

impl Fours {
    #[inline(always)]
    fn with(self, other: Self, each: impl Fn(v128, v128) -> v128) -> Self {
        Self(std::array::from_fn(|i| each(self.0[i], other.0[i])))
    }
}

#[inline(always)]
fn four(values: &[f32]) -> v128 {
    f32x4(values[0], values[1], values[2], values[3])
}

#[inline(always)]
fn lanes(four: v128) -> [f32; 4] {
    [
        f32x4_extract_lane::<0>(four),
        f32x4_extract_lane::<1>(four),
        f32x4_extract_lane::<2>(four),
        f32x4_extract_lane::<3>(four),
    ]
}

impl Vector for Fours {
    type Mask = [v128; 4];

    #[inline(always)]
    fn new(values: &Lanes) -> Self {
        Self(std::array::from_fn(|i| four(&values[4 * i..4 * i + 4])))
    }

    #[inline(always)]
    fn all(value: f32) -> Self {
        Self([f32x4_splat(value); 4])
    }

    #[inline(always)]
    fn values(self) -> Lanes {
        let mut values = [0.0; LANES];
        for (values, four) in values.chunks_exact_mut(4).zip(self.0) {
            values.copy_from_slice(&lanes(four));
        }
        values
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| f32x4_add(a, b))
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.with(other, |a, b| f32x4_sub(a, b))
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.with(other, |a, b| f32x4_mul(a, b))
    }

    // The first value where it is the less, else the second, as x86-64 has it: `f32x4_min` treats values that are not numbers.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        other.with(self, |a, b| f32x4_pmin(a, b))
    }

    #[inline(always)]
    fn most(self, other: Self) -> Self {
        other.with(self, |a, b| f32x4_pmax(a, b))
    }

    #[inline(always)]
    fn or_where(self, mask: [v128; 4], others: Self) -> Self {
        Self(std::array::from_fn(|i| {
            v128_bitselect(others.0[i], self.0[i], mask[i])
        }))
    }

    #[inline(always)]
    fn is_below(self, other: Self) -> [v128; 4] {
        self.with(other, |a, b| f32x4_lt(a, b)).0
    }

    #[inline(always)]
    fn is_never_below(self, other: f32) -> bool {
        let [a, b, c, d] = self.is_below(Self::all(other));
        !v128_any_true(v128_or(v128_or(a, b), v128_or(c, d)))
    }

    #[inline(always)]
    fn and(mask: [v128; 4], other: [v128; 4]) -> [v128; 4] {
        Self(mask).with(Self(other), |a, b| v128_and(a, b)).0
    }

    #[inline(always)]
    fn or(mask: [v128; 4], other: [v128; 4]) -> [v128; 4] {
        Self(mask).with(Self(other), |a, b| v128_or(a, b)).0
    }

    #[inline(always)]
    fn count(mask: [v128; 4], counts: &mut [u32; LANES]) {
        for (counts, mask) in counts.chunks_exact_mut(4).zip(mask) {
            let before = u32x4(counts[0], counts[1], counts[2], counts[3]);
            // What is true is -1.
            let after = u32x4_sub(before, mask);
            counts[0] = u32x4_extract_lane::<0>(after);
            counts[1] = u32x4_extract_lane::<1>(after);
            counts[2] = u32x4_extract_lane::<2>(after);
            counts[3] = u32x4_extract_lane::<3>(after);
        }
    }

    #[inline(always)]
    fn look_up<const N: usize>(self, table: &[f32; N]) -> Self {
        Self(self.0.map(|places| {
            // Values below 0 and those that are not numbers become 0.
            let places = u32x4_trunc_sat_f32x4(places);
            let at = |place: u32| table[(place as usize).min(N - 1)];
            f32x4(
                at(u32x4_extract_lane::<0>(places)),
                at(u32x4_extract_lane::<1>(places)),
                at(u32x4_extract_lane::<2>(places)),
                at(u32x4_extract_lane::<3>(places)),
            )
        }))
    }

    #[inline(always)]
    fn add_to(self, sums: &mut [f64; LANES]) {
        for (sums, value) in sums.iter_mut().zip(self.values()) {
            *sums += f64::from(value);
        }
    }
}
