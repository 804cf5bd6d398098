use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Wheel, WheelSettings};

fn wheel(timers: u32, granularity: u64, now: u64) -> Wheel {
    let settings = WheelSettings {
        timers,
        granularity,
    };
    Wheel::new(settings, now)
}

#[test]
fn timers_are_due_at_the_first_tick_not_before_their_time() {
    let mut wheel = wheel(4, 1000, 500);
    wheel.schedule(0, 1001);
    wheel.schedule(1, 1000);
    wheel.schedule(2, 3_600_000_000_000);
    wheel.schedule(3, 3_600_000_000_000);
    wheel.cancel(3);
    assert_eq!(wheel.pop(999), None);
    assert_eq!(wheel.next(), Some(1000));
    assert_eq!(wheel.pop(1999), Some(1));
    assert_eq!(wheel.pop(1999), None);
    assert_eq!(wheel.pop(2000), Some(0));
    assert_eq!(wheel.pop(3_599_999_999_999), None, "an hour at once");
    wheel.schedule(0, 7);
    assert_eq!(wheel.pop(3_600_000_000_000), Some(0), "past, so at once");
    assert_eq!(wheel.pop(3_600_000_000_000), Some(2));
    assert_eq!(wheel.next(), None);
    assert_eq!(wheel.pop(u64::MAX), None);
}

#[test]
fn the_last_tick_of_all_is_reached() {
    let mut wheel = wheel(3, 1, 0);
    wheel.schedule(0, u64::MAX);
    wheel.schedule(1, u64::MAX - 1);
    wheel.schedule(2, 1 << 63);
    for (id, at) in [(2, 1 << 63), (1, u64::MAX - 1), (0, u64::MAX)] {
        assert_eq!(wheel.pop(at - 1), None);
        assert_eq!(wheel.pop(at), Some(id));
    }
    wheel.schedule(0, 5);
    assert_eq!(wheel.pop(u64::MAX), Some(0));
}

#[derive(Debug, Clone)]
enum Step {
    Schedule(u32, u64),
    Cancel(u32),
    /// Take what is due after so long.
    Advance(u64),
    /// Take one.
    Pop,
    /// Go to where the wheel says that something may be due.
    Next,
}

/// Near and far: all magnitudes are as likely.
fn span() -> impl Strategy<Value = u64> {
    (0u32..45, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..20, span()).prop_map(|(id, after)| Step::Schedule(id, after)),
        1 => (0u32..20).prop_map(Step::Cancel),
        2 => span().prop_map(Step::Advance),
        1 => Just(Step::Pop),
        1 => Just(Step::Next),
    ]
}

proptest! {
    #[test]
    fn answers_as_a_sorted_map_does(
        granularity in prop_oneof![Just(1u64), 1u64..100_000],
        start in span(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut wheel = wheel(20, granularity, start);
        // By tick, and the order of scheduling.
        let mut model: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        let (mut now, mut seen) = (start, start / granularity);
        let pop = |model: &mut BTreeMap<(u64, usize), u32>, now: u64, seen: &mut u64| {
            let first = model.first_entry().filter(|entry| entry.key().0 <= now / granularity);
            match first {
                Some(entry) => {
                    *seen = entry.key().0;
                    Some(entry.remove())
                }
                None => {
                    *seen = now / granularity;
                    None
                }
            }
        };
        for (order, step) in steps.into_iter().enumerate() {
            match step {
                Step::Schedule(id, after) => {
                    wheel.schedule(id, now + after);
                    model.retain(|_, other| *other != id);
                    model.insert(((now + after).div_ceil(granularity).max(seen), order), id);
                }
                Step::Cancel(id) => {
                    wheel.cancel(id);
                    model.retain(|_, other| *other != id);
                }
                Step::Pop => prop_assert_eq!(wheel.pop(now), pop(&mut model, now, &mut seen)),
                Step::Advance(by) => {
                    now += by;
                    loop {
                        let expected = pop(&mut model, now, &mut seen);
                        prop_assert_eq!(wheel.pop(now), expected);
                        if expected.is_none() {
                            break;
                        }
                    }
                }
                Step::Next => {
                    let first = model.first_key_value().map(|(key, _)| key.0 * granularity);
                    let next = wheel.next();
                    prop_assert_eq!(next.is_some(), first.is_some());
                    prop_assert!(next <= first);
                    // It leads there in as many steps as there are levels.
                    if let Some(first) = first.filter(|&first| first > now) {
                        let mut steps = 0;
                        while let Some(next) = wheel.next().filter(|&next| next < first) {
                            prop_assert_eq!(wheel.pop(next.max(now)), None);
                            steps += 1;
                            prop_assert!(steps <= 11);
                        }
                        now = first - 1;
                        prop_assert_eq!(wheel.pop(now), None);
                        seen = now / granularity;
                    }
                }
            }
        }
    }
}
