use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::change::next;
use crate::gate::{Gate, GateError, Setting};
use crate::memory::Memory;
use crate::state::GateState;
use crate::table::Direction;
use crate::testing::Site;

type Own = Gate<Memory>;

/// alice has 192.0.2.1 and 2001:db8::/56, bob has vlan 7, cem gets all live.
const FILE: &str = concat!(
    include_str!("../../tests/gate.toml"),
    "[[subscriber]]\nname = \"cem\"\nplan = \"gold\"\naddresses = \"live\"\n"
);

fn what(text: &str) -> Match {
    text.parse().expect("a match")
}

fn assign(text: &str) -> [MatchChange; 1] {
    [MatchChange::Assign(what(text))]
}

fn release(text: &str) -> [MatchChange; 1] {
    [MatchChange::Release(what(text))]
}

fn of(state: &GateState, name: &str) -> String {
    let texts = state.members[name].matches().iter().map(Match::to_string);
    texts.collect::<Vec<_>>().join(", ")
}

/// What all three have. Checks that the data path has the same.
fn all(site: &Site, gate: &Own) -> [String; 3] {
    let state = gate.state();
    Memory::at(site.pins(), |memory| {
        let mut directory = HashMap::new();
        for member in state.members.values() {
            for direction in Direction::BOTH {
                let seat = member.seat(direction);
                directory.extend(
                    member
                        .matches()
                        .iter()
                        .map(|what| ((direction, *what), seat)),
                );
            }
        }
        assert_eq!(memory.directory, directory);
    })
    .expect("a data path");
    ["alice", "bob", "cem"].map(|name| of(state, name))
}

fn up(site: &Site) -> Own {
    Own::up(&site.config(FILE)).expect("up").0
}

#[test]
fn an_address_goes_from_one_to_the_other_and_back() {
    let site = Site::new();
    let mut gate = up(&site);
    let declared = ["192.0.2.1/32, 2001:db8::/56", "vlan 7", ""];
    assert_eq!(all(&site, &gate), declared);
    gate.adjust("cem", None, &assign("192.0.2.9"))
        .expect("assigned");
    gate.adjust("cem", None, &assign("192.0.2.1"))
        .expect("assigned");
    let moved = ["2001:db8::/56", "vlan 7", "192.0.2.9/32, 192.0.2.1/32"];
    assert_eq!(all(&site, &gate), moved);
    // The next process knows it too, and a reload keeps it.
    drop(gate);
    let mut gate = Own::take_over(site.folders()).expect("ours");
    assert_eq!(all(&site, &gate), moved);
    let report = gate.reload(&site.config(FILE)).expect("reloaded");
    assert_eq!((report.unchanged, report.moved.len()), (3, 0));
    assert_eq!(all(&site, &gate)[2].len(), moved[2].len());

    // Another subscriber takes it, and releases it: the file gives it to alice.
    gate.adjust("bob", None, &assign("192.0.2.1"))
        .expect("assigned");
    let taken = ["2001:db8::/56", "vlan 7, 192.0.2.1/32", "192.0.2.9/32"];
    assert_eq!(all(&site, &gate), taken);
    gate.adjust("bob", None, &release("192.0.2.1"))
        .expect("released");
    gate.adjust("cem", None, &release("192.0.2.9"))
        .expect("released");
    let [alice, bob, cem] = all(&site, &gate);
    assert_eq!(alice.len(), declared[0].len());
    assert_eq!((&*bob, &*cem), ("vlan 7", ""));
    assert!(
        gate.state()
            .members
            .values()
            .all(|member| member.live.is_none())
    );

    // A kind as a whole, and back to the file.
    let only = MatchChange::only("addresses", &["192.0.2.8-192.0.2.9".into()]).expect("valid");
    gate.adjust("alice", None, &[only]).expect("changed");
    assert_eq!(all(&site, &gate)[0], "192.0.2.8/31");
    let setting = Setting {
        suspended: Some(true),
        ..Setting::default()
    };
    gate.adjust("alice", Some(&setting), &[])
        .expect("suspended");
    assert_eq!(
        all(&site, &gate)[0],
        "192.0.2.8/31",
        "limits and addresses are apart"
    );
    let alice = gate.subscriber("alice").expect("there");
    assert!(alice.suspended && alice.moved && alice.limits.down.rate == Some(0));
    gate.adjust("alice", None, &[MatchChange::AsDeclared])
        .expect("changed");
    assert_eq!(all(&site, &gate), declared);
    assert!(!gate.subscriber("alice").expect("there").suspended);
    gate.down().expect("down");
}

#[test]
fn a_file_takes_back_what_it_gives_to_another() {
    let site = Site::new();
    let mut gate = up(&site);
    gate.adjust("cem", None, &assign("192.0.2.9"))
        .expect("assigned");
    gate.adjust("cem", None, &assign("vlan 7"))
        .expect("assigned");
    gate.adjust("alice", None, &release("192.0.2.1"))
        .expect("released");
    let moved = ["2001:db8::/56", "", "192.0.2.9/32, vlan 7"];
    assert_eq!(all(&site, &gate), moved);
    // bob gets an address in the file that cem has: the file counts. alice's stays released.
    let file = FILE.replace("vlan = 7", "vlan = 7\naddresses = \"192.0.2.9\"");
    let report = gate.reload(&site.config(&file)).expect("reloaded");
    assert_eq!(report.moved, ["bob", "cem"]);
    assert_eq!(
        all(&site, &gate),
        ["2001:db8::/56", "192.0.2.9/32", "vlan 7"]
    );
    // cem ends, and bob has its tag again.
    let file = file.replace("name = \"cem\"", "name = \"dan\"");
    gate.reload(&site.config(&file)).expect("reloaded");
    assert_eq!(of(gate.state(), "bob").len(), "192.0.2.9/32, vlan 7".len());
    assert_eq!(of(gate.state(), "dan"), "");
    gate.down().expect("down");
}

#[test]
fn a_move_that_fails_or_is_killed_at_any_step_is_undone_or_made() {
    for step in 0.. {
        let mut killed = [false; 2];
        for deadly in [false, true] {
            let site = Site::new();
            let mut gate = up(&site);
            let before = all(&site, &gate);
            gate.adjust("bob", None, &assign("192.0.2.7"))
                .expect("assigned");
            let set = |left| {
                Memory::at(site.pins(), |memory| {
                    memory.left = left;
                    memory.deadly = deadly;
                })
            };
            set(Some(step));
            let moves = [assign("192.0.2.1"), release("vlan 7")].concat();
            let made = catch_unwind(AssertUnwindSafe(|| gate.adjust("bob", None, &moves)));
            set(None);
            let done = matches!(made, Ok(Ok(())));
            assert!(done || deadly != matches!(made, Ok(Err(GateError::Half { .. }))));
            killed[usize::from(deadly)] = !done;
            drop(gate);
            let gate = Own::take_over(site.folders()).expect("ours");
            let [alice, bob, _] = all(&site, &gate);
            match deadly || done {
                true => assert_eq!(
                    (&*alice, &*bob),
                    ("2001:db8::/56", "192.0.2.7/32, 192.0.2.1/32")
                ),
                false => assert_eq!((&*alice, &*bob), (&*before[0], "vlan 7, 192.0.2.7/32")),
            }
            gate.down().expect("down");
        }
        if killed == [false; 2] {
            assert!(step > 2);
            return;
        }
    }
}

#[test]
fn whoever_is_added_does_not_lose_what_the_file_gives() {
    // A subscriber that is new in the file has an address that was assigned live.
    let site = Site::new();
    let mut gate = up(&site);
    gate.adjust("cem", None, &assign("10.0.0.1"))
        .expect("assigned");
    let file = format!(
        "{FILE}[[subscriber]]\nname = \"eva\"\nplan = \"gold\"\naddresses = \"10.0.0.1\"\n"
    );
    let (next, report) = next(gate.state(), &site.config(&file)).expect("a state");
    assert_eq!(
        (of(&next, "eva"), of(&next, "cem")),
        ("10.0.0.1/32".into(), String::new())
    );
    assert_eq!(
        (report.added, report.moved),
        (vec!["eva".to_owned()], vec!["cem".to_owned()])
    );
}
