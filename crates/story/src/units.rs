//! Numbers as people read them.

use tidegate_limiter::Rate;

/// A rate in bits per second, with three digits and a unit.
pub fn rate(bps: f64) -> String {
    Rate::from_bits_per_second(bps.round().max(0.0) as u64).to_string()
}

/// A time in nanoseconds, with three digits and a unit.
pub fn time(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match seconds {
        0.0 => "0s".to_owned(),
        s if s < 0.000_000_999_5 => format!("{nanos}ns"),
        s if s < 0.000_999_5 => format!("{:.0}µs", s * 1e6),
        s if s < 0.009_995 => format!("{:.2}ms", s * 1e3),
        s if s < 0.099_95 => format!("{:.1}ms", s * 1e3),
        s if s < 0.999_5 => format!("{:.0}ms", s * 1e3),
        s if s < 9.995 => format!("{s:.2}s"),
        s if s < 99.95 => format!("{s:.1}s"),
        s if s < 9_999.5 => format!("{s:.0}s"),
        s => format!("{:.1}h", s / 3600.0),
    }
}

/// Bytes in decimal multiples.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, &["B", "kB", "MB", "GB", "TB"])
}

/// A count, in full as long as that is short.
pub fn count(number: u64) -> String {
    if number < 1_000_000 {
        return number.to_string();
    }
    scaled(number as f64, &["", "k", "M", "G", "T"]).replace(' ', "")
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match value {
        v if unit == 0 => format!("{v:.0} {}", units[0]),
        v if v < 9.995 => format!("{v:.2} {}", units[unit]),
        v if v < 99.95 => format!("{v:.1} {}", units[unit]),
        v => format!("{v:.0} {}", units[unit]),
    }
}

/// `1 flow`, `2 flows`.
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(time(0), "0s");
        assert_eq!(time(400), "400ns");
        assert_eq!(time(999), "999ns");
        assert_eq!(time(1_000), "1µs");
        assert_eq!(time(999_600), "1.00ms");
        assert_eq!(time(101_234_000), "101ms");
        assert_eq!(time(37_240_000_000), "37.2s");
        assert_eq!(time(20_000_000_000_000), "5.6h");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(2_000_000), "2.00 MB");
        assert_eq!(count(999_999), "999999");
        assert_eq!(count(12_345_678), "12.3M");
        assert_eq!(percent(0.1234), "12.3%");
        assert_eq!(rate(1_425_600.4), "1.43 Mbit/s");
        assert_eq!(plural(1, "flow", "flows"), "1 flow");
    }
}
