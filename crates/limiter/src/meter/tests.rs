use proptest::prelude::*;

use super::Meter;
use crate::Rate;

const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

fn meter(bits: u64) -> Meter {
    Meter::new(Rate::from_bits_per_second(bits), 0)
}

#[test]
fn a_rate_gives_its_bytes() {
    let mut meter = meter(10_000_000);
    assert_eq!(meter.advance(1_000_000_000), 1_250_000);
    assert_eq!(meter.advance(1_000_000_799), 0);
    assert_eq!(meter.advance(1_000_000_800), 1);
    assert_eq!(meter.advance(5), 0, "time does not go back");
    assert_eq!(
        meter.advance(1_000_001_600),
        1,
        "and what was there is kept"
    );
}

#[test]
fn years_do_not_overflow() {
    let mut fast = meter(400_000_000_000);
    assert_eq!(fast.advance(10 * YEAR), 50_000_000_000 * 10 * 365 * 86_400);
    let mut slow = meter(8_000);
    assert_eq!(slow.advance(100 * YEAR), 1_000 * 100 * 365 * 86_400);
}

#[test]
fn until_is_when_the_bytes_are_there() {
    let mut meter = meter(3_000_000);
    meter.advance(1_001);
    let wait = meter.until(1500);
    assert_eq!(meter.clone().advance(1_001 + wait - 1), 1499);
    assert_eq!(meter.advance(1_001 + wait), 1500);
}

proptest! {
    #[test]
    fn many_steps_are_as_one(
        bits in 8_000u64..400_000_000_000,
        steps in prop::collection::vec(0u64..3_000_000_000, 1..50),
    ) {
        let (mut all, mut one, mut now) = (0, meter(bits), 0);
        let mut many = meter(bits);
        for step in steps {
            now += step;
            all += many.advance(now);
        }
        prop_assert_eq!(all, one.advance(now));
        prop_assert_eq!(u128::from(all), u128::from(bits) * u128::from(now) / 8_000_000_000);
    }
}
