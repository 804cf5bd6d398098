use super::*;
use proptest::prelude::*;

#[test]
fn units_as_people_write_them() {
    for (text, bits) in [
        ("10mbit", 10_000_000),
        ("1.5Mbit/s", 1_500_000),
        (" 500 kbit ", 500_000),
        ("8bit", 8),
        ("0bit", 0),
        ("2.5gbit", 2_500_000_000),
        ("0.001kbit", 1),
        ("1tbit", 1_000_000_000_000),
    ] {
        assert_eq!(
            text.parse::<Rate>().map(Rate::bits_per_second),
            Ok(bits),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_rate_says_why() {
    for text in ["", "mbit", ".mbit", "1.2.3mbit"] {
        assert!(
            matches!(text.parse::<Rate>(), Err(RateError::Number(_))),
            "{text}"
        );
    }
    for text in [
        "10",
        "10MBps",
        "10MB/s",
        "10MB",
        "10bi",
        "10Mi",
        "-1mbit x",
        "10 furlong",
    ] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
    for text in ["99999999999999999999tbit", "0.0001bit"] {
        assert!(
            matches!(text.parse::<Rate>(), Err(RateError::Range(_))),
            "{text}"
        );
    }
}

#[test]
fn printed_with_three_digits() {
    for (bits, text) in [
        (0, "0 bit/s"),
        (999, "999 bit/s"),
        (1_000, "1.00 kbit/s"),
        (1_425_000, "1.43 Mbit/s"),
        (14_250_000, "14.2 Mbit/s"),
        (999_600, "1.00 Mbit/s"),
        (u64::MAX, "18446744 Tbit/s"),
    ] {
        assert_eq!(Rate::from_bits_per_second(bits).to_string(), text);
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,24}") {
        let _ = text.parse::<Rate>();
    }

    #[test]
    fn bits_read_back(bits: u64) {
        prop_assert_eq!(format!("{bits}bit").parse::<Rate>(), Ok(Rate::from_bits_per_second(bits)));
    }
}

#[test]
fn as_plans_are_written() {
    for (text, bits) in [
        ("20M", 20_000_000),
        ("20 m", 20_000_000),
        ("20 Mbps", 20_000_000),
        ("20mbps", 20_000_000),
        ("1.5 Gbps", 1_500_000_000),
        ("512k", 512_000),
        ("512 Kb/s", 512_000),
        ("9600 bps", 9_600),
    ] {
        let rate = Rate::from_bits_per_second(bits);
        assert_eq!(text.parse(), Ok(rate), "{text}");
    }
}
