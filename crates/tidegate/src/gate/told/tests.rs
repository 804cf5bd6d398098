use tidegate_gate::control::{Control, inspect};

use super::*;
use crate::gate::testing::Fake;
use crate::gate::view;

fn one(change: impl FnOnce(&mut tidegate_gate::reading::Subscriber)) -> SubscriberJson {
    let mut fake = Fake::new(1);
    change(&mut std::sync::Arc::make_mut(&mut fake.roster).subscribers[0]);
    view::detail(&inspect(&mut fake as &mut dyn Control, "s000000").expect("there"))
}

#[test]
fn limits_are_told_in_a_line() {
    use tidegate_gate::calendar::Why;
    assert_eq!(
        limits(&one(|_| ())),
        "s000000: 50.0 Mbit/s down, 10.0 Mbit/s up (plan gold)"
    );
    let bare = one(|one| {
        one.plan = None;
        one.limits.up.rate = None;
    });
    assert_eq!(
        limits(&bare),
        "s000000: 50.0 Mbit/s down, no limit up (no plan)"
    );
    // The rate of a suspended subscriber is 0.
    let suspended = one(|one| {
        one.suspended = true;
        one.limits.down.rate = Some(0);
        one.limits.up.rate = Some(0);
    });
    assert_eq!(
        limits(&suspended),
        "s000000: suspended, so all its packets are dropped (plan gold)"
    );
    let much = one(|one| {
        one.turn = Some((Why::Quota, Some("basic".into())));
        one.keys = Some([("boost".to_owned(), "10MB".into())].into_iter().collect());
        one.from.port = Some("eth3".into());
    });
    assert_eq!(
        limits(&much),
        "s000000: 50.0 Mbit/s down, 10.0 Mbit/s up (plan gold instead of basic, because its quota is used up), \
         boost = \"10MB\", from port eth3"
    );
}

#[test]
fn addresses_are_told_in_a_line_of_bounded_length() {
    let none_lost = Taken::new();
    assert_eq!(addresses(&one(|_| ()), &none_lost), "s000000: vlan 1");
    let taken = Taken::from([("bob".to_owned(), vec!["vlan 1".to_owned()])]);
    let lines = "s000000: vlan 1\nvlan 1: bob no longer";
    assert_eq!(addresses(&one(|_| ()), &taken), lines);
    let none = one(|one| one.matches.clear());
    assert_eq!(
        addresses(&none, &none_lost),
        "s000000: no addresses or tags"
    );
    let many = one(|one| one.matches = (1..=10).map(Match::Vlan).collect());
    let wanted =
        "s000000: vlan 1, vlan 2, vlan 3, vlan 4, vlan 5, vlan 6, vlan 7, vlan 8 and 2 more";
    assert_eq!(addresses(&many, &none_lost), wanted);
    let what = Match::Vlan(7);
    assert_eq!(
        released(&what, "alice", Some("bob")),
        "vlan 7: bob has it again, alice no longer"
    );
    assert_eq!(
        released(&what, "alice", None),
        "vlan 7: no subscriber has it, alice no longer"
    );
}
