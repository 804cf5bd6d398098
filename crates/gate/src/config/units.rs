//! Quantities as people write them: `100ms`, `32kB`, `10mbit`. The lab's scenario files write them in
//! the same way; the reader of times is repeated from there, since a gate does not need a lab.

use tidegate_limiter::{Bytes, Rate};

/// Reads a time such as `250us`, `100ms` or `1.5s`, in nanoseconds.
pub(super) fn time(text: &str) -> Result<u64, String> {
    let scale = |unit: &str| {
        Some(match unit {
            "ns" => 1u64,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            _ => return None,
        })
    };
    scaled(text.trim(), scale).ok_or_else(|| {
        format!(
            "'{text}' is no time: write a number and ns, us, ms, s or min, such as 100ms or 1.5s"
        )
    })
}

/// Reads a size such as `1500B`, `32kB`, `64KiB` or `2MB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let bytes: Result<Bytes, _> = text.parse();
    bytes.map(Bytes::get).map_err(|error| error.to_string())
}

/// Reads a rate such as `10mbit`, in bit/s.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    let rate: Result<Rate, _> = text.parse();
    rate.map(Rate::bits_per_second)
        .map_err(|error| error.to_string())
}

/// Reads megabits per second without a unit, `2.5`, in bit/s.
pub(super) fn megabits(text: &str) -> Result<u64, String> {
    let number = text.trim();
    let one = |unit: &str| (unit == "m").then_some(1_000_000);
    scaled(&format!("{number}m"), one)
        .ok_or_else(|| format!("'{text}' is no rate in Mbit/s: write a number such as 100 or 2.5"))
}

/// A decimal number times the scale of its unit, exactly; what is below 1 is cut off.
fn scaled(text: &str, scale: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let scale = u128::from(scale(unit.trim())?);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + fraction.len();
    if digits == 0 || digits > 18 || fraction.contains('.') {
        return None;
    }
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    u64::try_from(mantissa * scale / 10u128.pow(fraction.len() as u32)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        assert_eq!(time("250us"), Ok(250_000));
        assert_eq!(time("1.5 s"), Ok(1_500_000_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(rate("1.5mbit"), Ok(1_500_000));
        assert_eq!(megabits("2.5"), Ok(2_500_000));
        assert_eq!(megabits(" 1000 "), Ok(1_000_000_000));
    }

    #[test]
    fn what_is_none_is_told() {
        for text in [
            "",
            "100",
            "ms",
            ".s",
            "1.2.3s",
            "1e9s",
            "-1s",
            "9999999999999999999s",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["", "x", "-1", "1e3", "1 2", "NaN"] {
            assert!(megabits(text).is_err(), "{text}");
        }
        assert!(rate("10").is_err() && bytes("32kb").is_err());
    }
}
