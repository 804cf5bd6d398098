//! Quantities in files, as numbers: `100ms`, `32kB`, `10mbit`, `83 packets`. Errors are texts for people.

use tidegate_limiter::{Bytes, Nanos, Rate};

/// Reads a time such as `250us`, `100ms`, `1.5s` or `2min`.
///
/// # Errors
/// Why it is not one.
pub fn time(text: &str) -> Result<Nanos, String> {
    tidegate_limiter::parse_time(text).map_err(|error| error.to_string())
}

/// Reads a size such as `1500B`, `32kB`, `64KiB` or `2MB`, in bytes.
///
/// # Errors
/// Why it is not one.
pub fn bytes(text: &str) -> Result<u64, String> {
    let bytes = text.parse().map(Bytes::get);
    bytes.map_err(|error| error.to_string())
}

/// Reads a rate such as `10mbit`, in bit/s.
///
/// # Errors
/// Why it is not one.
pub fn rate(text: &str) -> Result<u64, String> {
    let rate = text.parse().map(Rate::bits_per_second);
    rate.map_err(|error| error.to_string())
}

/// Reads megabits per second without a unit, `2.5`, in bit/s.
///
/// # Errors
/// Why it is not one.
pub fn megabits(text: &str) -> Result<u64, String> {
    rate(&format!("{}mbit", text.trim()))
        .map_err(|_| format!("'{text}' is not a rate in Mbit/s: write a number such as 100 or 2.5"))
}

/// Reads a number of packets such as `83 packets`; `None` if it is not meant to be one.
pub fn packets(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = ["packets", "packet", "p"]
        .iter()
        .find_map(|unit| text.strip_suffix(unit))?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        assert_eq!(time("1.5 s"), Ok(1_500_000_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(rate("1.5mbit"), Ok(1_500_000));
        assert_eq!(megabits("2.5"), Ok(2_500_000));
        assert_eq!(megabits(" 1000 "), Ok(1_000_000_000));
        assert_eq!(packets("83 packets"), Some(83));
        assert_eq!(packets("83p"), Some(83));
    }

    #[test]
    fn what_is_no_quantity_is_rejected() {
        for text in ["", "x", "-1", "1e3", "1 2", "1mbit", "NaN"] {
            assert!(megabits(text).is_err(), "{text}");
        }
        assert!(rate("10").is_err() && bytes("32kb").is_err() && time("1").is_err());
        assert_eq!(packets("many packets"), None);
    }
}
