use proptest::prelude::*;

use super::*;

#[test]
fn sizes_as_people_write_them() {
    for (text, bytes) in [
        ("32kB", 32_000),
        ("8 kB", 8_000),
        ("1000 KB", 1_000_000),
        (" 1MB ", 1_000_000),
        ("1.5MB", 1_500_000),
        ("1500B", 1_500),
        ("1500", 1_500),
        ("0", 0),
        ("64KiB", 65_536),
        ("0.5MiB", 524_288),
        ("2GiB", 1 << 31),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(text.parse::<Bytes>().map(Bytes::get), Ok(bytes), "{text}");
    }
}

#[test]
fn what_is_no_size_says_why() {
    for text in ["", "kB", ".B", "1.2.3MB", "-5B"] {
        assert!(
            matches!(text.parse::<Bytes>(), Err(BytesError::Number(_))),
            "{text}"
        );
    }
    for text in ["32kb", "32k", "1Mbit", "1mb", "5 furlong", "1e3"] {
        assert!(
            matches!(text.parse::<Bytes>(), Err(BytesError::Unit(_))),
            "{text}"
        );
    }
    for text in ["18446744073709551616", "99999999999TB", "0.5B", "0.0001kB"] {
        assert!(
            matches!(text.parse::<Bytes>(), Err(BytesError::Range(_))),
            "{text}"
        );
    }
}

#[test]
fn times_as_people_write_them() {
    for (text, nanos) in [
        ("250us", 250_000),
        ("250 µs", 250_000),
        ("1.5 s", 1_500_000_000),
        ("1h", 3_600_000_000_000),
        (" 0 ", 0),
        ("0ms", 0),
        ("1.5ns", 1),
        ("18446744073709551615ns", u64::MAX),
    ] {
        assert_eq!(parse_time(text), Ok(nanos), "{text}");
    }
    for text in ["", "100", "00", "ms", ".s", "1.2.3s", "1e9s", "-1s", "1 m"] {
        assert!(
            matches!(parse_time(text), Err(TimeError::Text(_))),
            "{text}"
        );
    }
    for text in ["0.5ns", "99999999999999999999h", "18446744073709551616ns"] {
        assert!(
            matches!(parse_time(text), Err(TimeError::Range(_))),
            "{text}"
        );
    }
}

#[test]
fn printed_with_three_digits() {
    for (bytes, text) in [
        (0, "0 B"),
        (999, "999 B"),
        (1_500, "1.50 kB"),
        (32_000, "32.0 kB"),
        (578_704, "579 kB"),
        (999_600, "1.00 MB"),
    ] {
        assert_eq!(Bytes::new(bytes).to_string(), text);
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,24}") {
        let _ = (text.parse::<Bytes>(), parse_time(&text));
    }

    #[test]
    fn numbers_that_resemble_sizes_do_not_panic(text in "[0-9.]{0,40}[kMGT]?i?B?") {
        let _ = text.parse::<Bytes>();
    }

    #[test]
    fn bytes_read_back(bytes: u64) {
        prop_assert_eq!(format!("{bytes}B").parse(), Ok(Bytes::new(bytes)));
    }
}
