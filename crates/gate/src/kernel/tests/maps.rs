//! Tests that maps have the sizes that user space expects.

use super::*;

#[test]
fn maps_have_the_room_that_configurations_are_checked_for() {
    let Some(mut gate) = gate("maps_have_the_room_that_configurations_are_checked_for") else {
        return;
    };
    for (map, entries) in [
        ("seats4", layout::PREFIXES),
        ("seats6", layout::PREFIXES),
        ("seats_link", layout::LINKS),
        ("bindings", layout::PAGES * PAGE / 2),
        ("ports", layout::PORTS),
        ("plans", layout::PLANS),
        ("shapes", layout::PLACES),
        ("rule_sets", layout::PLACES),
        ("pages", layout::PAGES),
        ("strangers", layout::REASONS),
    ] {
        let found = gate.kernel().map(map).max_entries() as usize;
        assert_eq!(found, entries, "{map}");
    }
    let page = gate.kernel().pages[0].max_entries() as usize;
    assert_eq!(page, layout::PAGE);
}
