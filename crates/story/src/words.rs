//! Numbers as they stand in sentences: with a space before the unit.

use crate::units;

/// A time in nanoseconds.
pub fn time(nanos: u64) -> String {
    spaced(&units::time(nanos))
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 0.05 {
        "less than 0.1 %".to_owned()
    } else if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn spaced(number: &str) -> String {
    let digits = number.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (value, unit) = number.split_at(digits.unwrap_or(number.len()));
    format!("{value} {unit}")
}

/// A text in lines of at most `most` characters.
pub fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in text.split_whitespace() {
        let length = current.chars().count();
        if length > 0 && length + 1 + word.chars().count() > most {
            lines.push(std::mem::take(&mut current));
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_apart() {
        assert_eq!(time(4_150_000_000), "4.15 s");
        assert_eq!(time(40_100_000), "40.1 ms");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_1), "less than 0.1 %");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.98), "98 %");
    }
}
