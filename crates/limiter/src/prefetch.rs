//! Asks for memory before it is needed.
//!
//! The one unsafe call of the algorithms: a hint to the processor, which reads nothing that a
//! program could see and does not fail, for any address. To read instead costs three times as
//! much, since a processor that waits for what it reads gets stuck.
#![allow(unsafe_code)]

/// The cache line at which a value begins will be needed soon.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE, which it needs, is part of x86-64, and it does not access memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint that changes neither memory, flags nor the stack.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) value, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = value;
}
