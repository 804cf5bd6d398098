//! Quantities as people write them: `100ms`, `32kB`, `83 packets`, `10mbit`.

use tidegate_limiter::{Bytes, Nanos, Rate};

use crate::{MILLISECOND, SECOND};

/// Reads a time such as `250us`, `100ms`, `1.5s` or `2min`.
pub(super) fn time(text: &str) -> Result<Nanos, String> {
    let scale = |unit: &str| {
        Some(match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "min" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        })
    };
    match text.trim() {
        "0" => Ok(0),
        text => scaled(text, scale).ok_or_else(|| {
            format!("'{text}' is no time: write a number and ns, us, ms, s, min or h, such as 100ms or 1.5s")
        }),
    }
}

/// Reads a size such as `1500B`, `32kB`, `64KiB` or `2MB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let bytes: Bytes = text
        .parse()
        .map_err(|error: tidegate_limiter::BytesError| error.to_string())?;
    Ok(bytes.get())
}

/// Reads a number of packets such as `83 packets`; `None` if it is not meant to be one.
pub(super) fn packets(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = ["packets", "packet", "p"]
        .iter()
        .find_map(|unit| text.strip_suffix(unit))?;
    number.trim().parse().ok()
}

/// Reads a rate such as `10mbit`.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    let rate: Rate = text
        .parse()
        .map_err(|error: tidegate_limiter::RateError| error.to_string())?;
    Ok(rate.bits_per_second())
}

/// A decimal number times the scale of its unit, exactly; what is below 1 is cut off.
fn scaled(text: &str, scale: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let scale = u128::from(scale(unit.trim())?);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.len() > 20 || fraction.contains('.') {
        return None;
    }
    let mantissa: u128 = digits.parse().ok()?;
    u64::try_from(mantissa * scale / 10u128.pow(fraction.len() as u32)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        assert_eq!(time("250us"), Ok(250_000));
        assert_eq!(time("1.5 s"), Ok(1_500_000_000));
        assert_eq!(time("0"), Ok(0));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("0.5MB"), Ok(500_000));
        assert_eq!(packets("83 packets"), Some(83));
        assert_eq!(packets("83p"), Some(83));
        assert_eq!(rate("1.5mbit"), Ok(1_500_000));
    }

    #[test]
    fn what_is_none_is_told() {
        for text in [
            "",
            "100",
            "ms",
            "1.2.3s",
            "1e9s",
            "-1s",
            "99999999999999999999h",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["32kb", "kB", "-1B", "32 bits"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(packets("many packets"), None);
        assert!(rate("10").is_err());
    }
}
