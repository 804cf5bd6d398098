//! The cube root of an integer.

#[cfg(test)]
mod tests;

/// The largest integer whose cube is at most this. Linux `cubic_root` comes within 0.16 % of it by a
/// table; it is needed once an epoch, so here it is exact, bit by bit.
pub(super) fn cube_root(value: u64) -> u64 {
    // The root of a number of 64 bits has 22 bits, and its cube may have 66.
    (0..22).rev().fold(0, |root: u64, bit| {
        let candidate = root | 1 << bit;
        if u128::from(candidate).pow(3) <= u128::from(value) {
            candidate
        } else {
            root
        }
    })
}
