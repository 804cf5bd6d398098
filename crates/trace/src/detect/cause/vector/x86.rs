//! Vectors of eight and sixteen values on x86-64.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{LANES, Lanes, Loop, Plain, Vector};

/// Runs a loop with the widest registers that there are.
pub(super) fn run<L: Loop>(over: L) -> L::Result {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has these instructions.
        return unsafe { by_sixteen(over) };
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { by_eight(over) };
    }
    over.run::<Plain>()
}

#[target_feature(enable = "avx512f")]
fn by_sixteen<L: Loop>(over: L) -> L::Result {
    over.run::<Sixteen>()
}

#[target_feature(enable = "avx2")]
fn by_eight<L: Loop>(over: L) -> L::Result {
    over.run::<Eights>()
}

/// Runs a loop with registers of eight, which the processor must have.
#[cfg(test)]
pub(super) fn eight_wide<L: Loop>(over: L) -> L::Result {
    assert!(is_x86_feature_detected!("avx2"));
    // SAFETY: the processor has these instructions.
    unsafe { by_eight(over) }
}

/// One register of sixteen. There is one only behind [`by_sixteen`].
#[derive(Clone, Copy)]
struct Sixteen(__m512);

// SAFETY, of all blocks: the processor has the instructions, since [`by_sixteen`] was called. Those that read
// and write memory do so in arrays of the right length.
impl Vector for Sixteen {
    type Mask = __mmask16;

    #[inline(always)]
    fn new(values: &Lanes) -> Self {
        Self(unsafe { _mm512_loadu_ps(values.as_ptr()) })
    }

    #[inline(always)]
    fn all(value: f32) -> Self {
        Self(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    fn values(self) -> Lanes {
        let mut values = [0.0; LANES];
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), self.0) };
        values
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn least(self, other: Self) -> Self {
        Self(unsafe { _mm512_min_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn most(self, other: Self) -> Self {
        Self(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn or_where(self, mask: __mmask16, others: Self) -> Self {
        Self(unsafe { _mm512_mask_blend_ps(mask, self.0, others.0) })
    }

    #[inline(always)]
    fn is_below(self, other: Self) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0) }
    }

    #[inline(always)]
    fn is_never_below(self, other: f32) -> bool {
        self.is_below(Self::all(other)) == 0
    }

    #[inline(always)]
    fn and(mask: __mmask16, other: __mmask16) -> __mmask16 {
        mask & other
    }

    #[inline(always)]
    fn or(mask: __mmask16, other: __mmask16) -> __mmask16 {
        mask | other
    }

    #[inline(always)]
    fn count(mask: __mmask16, counts: &mut [u32; LANES]) {
        unsafe {
            let before = _mm512_loadu_si512(counts.as_ptr().cast());
            let after = _mm512_mask_add_epi32(before, mask, before, _mm512_set1_epi32(1));
            _mm512_storeu_si512(counts.as_mut_ptr().cast(), after);
        }
    }

    #[inline(always)]
    fn look_up<const N: usize>(self, table: &[f32; N]) -> Self {
        let Self(places) = self.most(Self::all(0.0)).least(Self::all((N - 1) as f32));
        // SAFETY: the places are from 0 to N − 1. Of no number the greatest with 0 is 0.
        Self(unsafe { _mm512_i32gather_ps::<4>(_mm512_cvttps_epi32(places), table.as_ptr()) })
    }

    #[inline(always)]
    fn add_to(self, sums: &mut [f64; LANES]) {
        let (low, high) = sums.split_at_mut(LANES / 2);
        unsafe {
            let upper = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self.0));
            for (sums, values) in [
                (low, _mm512_castps512_ps256(self.0)),
                (high, _mm256_castpd_ps(upper)),
            ] {
                let before = _mm512_loadu_pd(sums.as_ptr());
                let after = _mm512_add_pd(before, _mm512_cvtps_pd(values));
                _mm512_storeu_pd(sums.as_mut_ptr(), after);
            }
        }
    }
}

/// Two registers of eight. There are some only behind [`by_eight`].
#[derive(Clone, Copy)]
struct Eights([__m256; 2]);

// SAFETY, of all blocks: the processor has the instructions, since [`by_eight`] was called. Those that read
// and write memory do so in arrays of the right length.
impl Vector for Eights {
    type Mask = [__m256; 2];

    #[inline(always)]
    fn new(values: &Lanes) -> Self {
        let (low, high) = values.split_at(LANES / 2);
        Self(unsafe {
            [
                _mm256_loadu_ps(low.as_ptr()),
                _mm256_loadu_ps(high.as_ptr()),
            ]
        })
    }

    #[inline(always)]
    fn all(value: f32) -> Self {
        Self([unsafe { _mm256_set1_ps(value) }; 2])
    }

    #[inline(always)]
    fn values(self) -> Lanes {
        let mut values = [0.0; LANES];
        for (values, half) in values.chunks_exact_mut(LANES / 2).zip(self.0) {
            unsafe { _mm256_storeu_ps(values.as_mut_ptr(), half) };
        }
        values
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(unsafe {
            [
                _mm256_add_ps(self.0[0], other.0[0]),
                _mm256_add_ps(self.0[1], other.0[1]),
            ]
        })
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(unsafe {
            [
                _mm256_sub_ps(self.0[0], other.0[0]),
                _mm256_sub_ps(self.0[1], other.0[1]),
            ]
        })
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self(unsafe {
            [
                _mm256_mul_ps(self.0[0], other.0[0]),
                _mm256_mul_ps(self.0[1], other.0[1]),
            ]
        })
    }

    #[inline(always)]
    fn least(self, other: Self) -> Self {
        Self(unsafe {
            [
                _mm256_min_ps(self.0[0], other.0[0]),
                _mm256_min_ps(self.0[1], other.0[1]),
            ]
        })
    }

    #[inline(always)]
    fn most(self, other: Self) -> Self {
        Self(unsafe {
            [
                _mm256_max_ps(self.0[0], other.0[0]),
                _mm256_max_ps(self.0[1], other.0[1]),
            ]
        })
    }

    #[inline(always)]
    fn or_where(self, mask: [__m256; 2], others: Self) -> Self {
        Self(unsafe {
            [
                _mm256_blendv_ps(self.0[0], others.0[0], mask[0]),
                _mm256_blendv_ps(self.0[1], others.0[1], mask[1]),
            ]
        })
    }

    #[inline(always)]
    fn is_below(self, other: Self) -> [__m256; 2] {
        unsafe {
            [
                _mm256_cmp_ps::<_CMP_LT_OQ>(self.0[0], other.0[0]),
                _mm256_cmp_ps::<_CMP_LT_OQ>(self.0[1], other.0[1]),
            ]
        }
    }

    #[inline(always)]
    fn is_never_below(self, other: f32) -> bool {
        let [low, high] = self.is_below(Self::all(other));
        unsafe { _mm256_movemask_ps(_mm256_or_ps(low, high)) == 0 }
    }

    #[inline(always)]
    fn and(mask: [__m256; 2], other: [__m256; 2]) -> [__m256; 2] {
        unsafe {
            [
                _mm256_and_ps(mask[0], other[0]),
                _mm256_and_ps(mask[1], other[1]),
            ]
        }
    }

    #[inline(always)]
    fn or(mask: [__m256; 2], other: [__m256; 2]) -> [__m256; 2] {
        unsafe {
            [
                _mm256_or_ps(mask[0], other[0]),
                _mm256_or_ps(mask[1], other[1]),
            ]
        }
    }

    #[inline(always)]
    fn count(mask: [__m256; 2], counts: &mut [u32; LANES]) {
        for (counts, mask) in counts.chunks_exact_mut(LANES / 2).zip(mask) {
            unsafe {
                let before = _mm256_loadu_si256(counts.as_ptr().cast());
                // What is true is -1.
                let after = _mm256_sub_epi32(before, _mm256_castps_si256(mask));
                _mm256_storeu_si256(counts.as_mut_ptr().cast(), after);
            }
        }
    }

    #[inline(always)]
    fn look_up<const N: usize>(self, table: &[f32; N]) -> Self {
        let Self([low, high]) = self.most(Self::all(0.0)).least(Self::all((N - 1) as f32));
        // SAFETY: the places are from 0 to N − 1. Of no number the greatest with 0 is 0.
        Self(unsafe {
            [
                _mm256_i32gather_ps::<4>(table.as_ptr(), _mm256_cvttps_epi32(low)),
                _mm256_i32gather_ps::<4>(table.as_ptr(), _mm256_cvttps_epi32(high)),
            ]
        })
    }

    #[inline(always)]
    fn add_to(self, sums: &mut [f64; LANES]) {
        let values = self.values();
        for (sums, values) in sums.chunks_exact_mut(4).zip(values.chunks_exact(4)) {
            unsafe {
                let before = _mm256_loadu_pd(sums.as_ptr());
                let after = _mm256_add_pd(before, _mm256_cvtps_pd(_mm_loadu_ps(values.as_ptr())));
                _mm256_storeu_pd(sums.as_mut_ptr(), after);
            }
        }
    }
}
