use std::sync::Arc;

use super::*;
use crate::gate::testing;

#[test]
fn names_are_found_and_paged() {
    let roster = testing::roster(3);
    assert_eq!(roster.find("s000001"), Some(1));
    assert_eq!(roster.find("s0000010"), None);
    assert_eq!(roster.after(""), 0);
    assert_eq!(roster.after("s000001"), 2);
    assert_eq!(roster.after("t"), 3);
}

#[test]
fn totals_do_not_fall_when_subscribers_go_or_begin_anew() {
    let mut totals = Totals::default();
    let (three, two) = (Arc::new(testing::roster(3)), Arc::new(testing::roster(2)));
    let reading = |roster: &Arc<Roster>, bytes: u64| Arc::new(testing::reading(roster, bytes));

    totals.add(&reading(&three, 100));
    assert_eq!(totals.get()[0].passed_bytes, 300);
    totals.add(&reading(&three, 150));
    assert_eq!(totals.get()[0].passed_bytes, 450);
    // One is gone; the others counted 10 more.
    totals.add(&reading(&two, 160));
    assert_eq!(totals.get()[0].passed_bytes, 470);
    // It comes back with a new limiter; the others' limiters began anew, too.
    totals.add(&reading(&three, 5));
    assert_eq!(totals.get()[0].passed_bytes, 485);
}
