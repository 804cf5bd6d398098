//! Bandwidths in BBR's unit: segments per microsecond, times 2^24.

/// One segment per microsecond.
pub(in super::super) const UNIT: u64 = 1 << 24;
/// A gain of 1.
pub(in super::super) const GAIN: u32 = 1 << 8;
/// BBR paces at this part of its estimate, so that queues shrink on average.
const MARGIN_PERCENT: u128 = 99;

/// The rate of these segments in these microseconds, which are not 0.
pub(in super::super) fn of(segments: u64, micros: u64) -> u32 {
    let bandwidth = u128::from(segments) * u128::from(UNIT) / u128::from(micros.max(1));
    u32::try_from(bandwidth).unwrap_or(u32::MAX)
}

/// Segments that pass in these microseconds, rounded down.
pub(in super::super) fn segments(bandwidth: u32, micros: u64) -> u32 {
    let segments = u128::from(bandwidth) * u128::from(micros) / u128::from(UNIT);
    u32::try_from(segments).unwrap_or(u32::MAX)
}

/// Bytes per second to pace at (Linux `bbr_rate_bytes_per_sec`, rounded in the same places).
pub(in super::super) fn bytes_per_second(bandwidth: u32, mss: u32, gain: u32) -> u64 {
    let rate = u128::from(bandwidth) * u128::from(mss) * u128::from(gain) / u128::from(GAIN);
    let rate = rate * (10_000 * MARGIN_PERCENT) / u128::from(UNIT);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
