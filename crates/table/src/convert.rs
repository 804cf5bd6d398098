//! From the units in which programs count to those that people read.

/// A rate as whole bits per second.
pub fn bits(rate: f64) -> u64 {
    rate.round().max(0.0) as u64
}

/// Nanoseconds as seconds.
pub fn seconds(nanos: u64) -> f64 {
    // Two steps keep microseconds exact in times since the epoch.
    (nanos / 1000) as f64 / 1e6 + (nanos % 1000) as f64 / 1e9
}

/// Nanoseconds as milliseconds.
pub fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Rounded to a number of decimals: further digits are noise, and make files larger.
pub fn rounded(number: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (number * scale).round() / scale
}
