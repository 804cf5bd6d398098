use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn equal_times_are_served_in_the_order_in_which_they_were_set() {
    let mut timers = Timers::new(5, Ties::Counted);
    for actor in [3, 0, 4, 1, 2] {
        timers.at_latest(actor, 7, 0);
    }
    let order: Vec<_> = std::iter::from_fn(|| timers.next()).collect();
    assert_eq!(order, [3, 0, 4, 1, 2].map(|actor| (7, actor)));
}

#[test]
fn equal_times_may_be_served_by_when_they_were_set_and_by_number() {
    let mut timers = Timers::new(5, Ties::Timed);
    for (actor, now) in [(3, 1), (0, 2), (4, 1), (1, 2), (2, 0)] {
        timers.at_latest(actor, 7, now);
    }
    assert_eq!(
        timers.peek(),
        Key {
            at: 7,
            set: 0,
            actor: 2
        }
    );
    let order: Vec<_> = std::iter::from_fn(|| timers.next()).collect();
    assert_eq!(order, [2, 3, 4, 0, 1].map(|actor| (7, actor)));
}

#[test]
fn a_later_time_does_not_move_an_earlier_one() {
    let mut timers = Timers::new(2, Ties::Counted);
    timers.at_latest(0, 10, 0);
    timers.at_latest(0, 20, 0);
    timers.at_latest(1, 15, 0);
    timers.at_latest(1, 5, 0);
    assert_eq!(timers.next(), Some((5, 1)));
    assert_eq!(timers.next(), Some((10, 0)));
    assert_eq!(timers.next(), None);
}

proptest! {
    /// Times are multiples of a unit: within a slot, over several slots, or beyond all of them. They go on from the time
    /// that was reached, or are anywhere.
    #[test]
    fn it_is_a_sorted_set(
        steps in prop::collection::vec((0usize..40, 0u64..50, any::<bool>()), 1..400),
        bits in 0u32..32,
        actors in prop::sample::select(vec![FEW, FEW + 1, MANY]),
        onward in any::<bool>(),
        ties in prop::sample::select(vec![Ties::Counted, Ties::Timed]),
    ) {
        let mut timers = Timers::new(actors, ties);
        let mut model: BTreeSet<(Nanos, u64, usize)> = BTreeSet::new();
        let mut now = 0;
        for (step, (actor, at, take)) in steps.into_iter().enumerate() {
            prop_assert_eq!(timers.first(), model.first().map(|&(at, ..)| at));
            if take {
                let first = model.pop_first();
                now = first.map_or(now, |(at, ..)| at);
                prop_assert_eq!(timers.next(), first.map(|(at, _, actor)| (at, actor)));
            } else {
                let at = (at << bits) + if onward { now } else { 0 };
                timers.at_latest(actor, at, now);
                let present = model.iter().find(|entry| entry.2 == actor).copied();
                if present.is_none_or(|entry| at < entry.0) {
                    present.map(|entry| model.remove(&entry));
                    let order = match ties {
                        Ties::Counted => step as u64,
                        Ties::Timed => now,
                    };
                    model.insert((at, order, actor));
                }
            }
        }
    }
}
