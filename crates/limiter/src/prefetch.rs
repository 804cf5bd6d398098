//! Asks for memory before it is needed.
//!
//! The one unsafe call of the algorithms: a hint to the processor, which reads nothing that a
//! program could see and does not fail, for any address. To read instead costs three times as
//! much, since a processor that waits for what it reads gets stuck.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// All cache lines of a value will be needed soon, but not what it points to. It changes nothing that a program could see.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        fetch(start.wrapping_add(offset));
    }
}

/// The cache lines from where one value begins to where another begins, in the same structure, will be needed soon.
#[inline(always)]
pub fn prefetch_between<T, U>(from: &T, to: &U) {
    let start = std::ptr::from_ref(from).cast::<u8>();
    let length = std::ptr::from_ref(to).addr().saturating_sub(start.addr());
    for offset in (0..length).step_by(LINE) {
        fetch(start.wrapping_add(offset));
    }
}

/// The cache line at which a value begins will be needed soon.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    fetch(std::ptr::from_ref(value).cast());
}

#[inline(always)]
fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE, which it needs, is part of x86-64, and it does not access memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint that changes neither memory, flags nor the stack.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) line, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
