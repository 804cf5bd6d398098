//! Access to bytes that may not have been captured.

use super::packet::Skip;

/// The first `N` bytes at `i`, or [`Skip::Cut`].
#[inline(always)]
pub(super) fn header<const N: usize>(data: &[u8], i: usize) -> Result<&[u8; N], Skip> {
    data.get(i..)
        .and_then(|rest| rest.first_chunk::<N>())
        .ok_or(Skip::Cut)
}

/// A copy of them.
#[inline(always)]
pub(super) fn bytes<const N: usize>(data: &[u8], i: usize) -> Result<[u8; N], Skip> {
    header(data, i).copied()
}
