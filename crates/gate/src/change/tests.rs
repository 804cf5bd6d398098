use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;
use crate::testing::config as config_of;

/// The content of a data path.
#[derive(Debug, Default, Clone, PartialEq)]
struct Model {
    directory: HashMap<(Direction, Match), Seat>,
    plans: BTreeMap<u32, Arc<Limits>>,
    attachments: BTreeSet<String>,
    room: u32,
    /// Limiters that have counted packets.
    used: BTreeSet<u32>,
}

impl Model {
    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Detach(attachment) => {
                    assert!(self.attachments.remove(&attachment.interface))
                }
                Change::Settings | Change::Node { .. } | Change::Ready(_) => {}
                Change::Reserve(room) => self.room = self.room.max(*room),
                Change::Plan(number, limits) => {
                    let runs = self.directory.values().any(|seat| seat.plan == *number);
                    let same = self.plans.get(number) == Some(limits);
                    assert!(!runs || same, "plan {number} is in use");
                    self.plans.insert(*number, limits.clone());
                }
                Change::Forget(limiter) => {
                    let seated = self.directory.values().any(|seat| seat.limiter == *limiter);
                    assert!(!seated, "limiter {limiter} is in use");
                    assert!(*limiter < self.room, "there is no limiter {limiter}");
                    self.used.remove(limiter);
                }
                Change::Seat(seats) => {
                    for (what, both) in seats {
                        for (direction, seat) in both.iter() {
                            let plans = &self.plans;
                            assert!(seat.limiter < self.room && plans.contains_key(&seat.plan));
                            self.directory.insert((direction, *what), *seat);
                            self.used.insert(seat.limiter);
                        }
                    }
                }
                Change::Unseat(matches) => {
                    for (direction, what) in Direction::BOTH
                        .into_iter()
                        .flat_map(|direction| matches.iter().map(move |what| (direction, *what)))
                    {
                        self.directory.remove(&(direction, what));
                    }
                }
                Change::Attach(attachment) => {
                    assert!(self.attachments.insert(attachment.interface.clone()))
                }
            }
        }
    }

    /// Whether it agrees with the state.
    fn holds(&self, state: &GateState) {
        let mut directory = HashMap::new();
        for member in state.members.values() {
            for direction in Direction::BOTH {
                for what in &member.declared.matches {
                    directory.insert((direction, *what), member.seat(direction));
                }
            }
        }
        assert_eq!(self.directory, directory);
        for (number, limits) in state.plans.contents() {
            assert_eq!(self.plans.get(number), Some(limits));
        }
        let wanted = state
            .attachments
            .iter()
            .map(|attachment| attachment.interface.clone());
        assert_eq!(self.attachments, wanted.collect());
    }
}

const NAMES: [&str; 6] = ["ann", "bob", "cem", "dot", "eve", "fay"];

/// Rates of the plans; the plan of each name, and its rate if it has a separate one; the owner of each address; interfaces.
type Draw = (Vec<u8>, Vec<(u8, Option<u8>)>, Vec<u8>, u8);

fn draws() -> impl Strategy<Value = Draw> {
    (
        prop::collection::vec(1u8..4, 2),
        prop::collection::vec((0u8..2, prop::option::of(1u8..4)), NAMES.len()),
        prop::collection::vec(0u8..8, 10),
        0u8..4,
    )
}

fn config((rates, names, owners, interfaces): &Draw) -> Config {
    let mut text = String::new();
    for number in 0..=*interfaces {
        let side = if number % 2 == 0 { "core" } else { "access" };
        text += &format!("[[interface]]\nname = \"eth{number}\"\nside = \"{side}\"\n");
    }
    for (number, rate) in rates.iter().enumerate() {
        text += &format!("[plan.p{number}]\ndown = \"{rate}mbit\"\nup = \"1mbit\"\n");
    }
    for (number, (name, (plan, rate))) in NAMES.iter().zip(names).enumerate() {
        let addresses = |(at, owner): (usize, &u8)| {
            (usize::from(*owner) == number).then(|| format!("\"10.0.0.{at}\""))
        };
        let addresses: Vec<String> = owners.iter().enumerate().filter_map(addresses).collect();
        if addresses.is_empty() {
            continue;
        }
        text += &format!("[[subscriber]]\nname = \"{name}\"\nplan = \"p{plan}\"\n");
        text += &format!("addresses = [{}]\n", addresses.join(","));
        if let Some(rate) = rate {
            text += &format!("down = \"{rate}mbit\"\n");
        }
    }
    config_of(&text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// In any order of configurations the data path holds the last one, and subscribers that stayed are not touched.
    #[test]
    fn changes_lead_from_any_state_to_any_other(all in prop::collection::vec(draws(), 1..6)) {
        let mut state = GateState::empty("/pins".into(), [1, 2]);
        let mut model = Model::default();
        for draw in &all {
            let config = config(draw);
            let (next, report) = super::next(&state, &config).expect("there is room");
            let changes = super::changes(&state, &next, &state.attachments, true);
            for (name, member) in &next.members {
                let Some(old) = state.members.get(name) else { continue };
                prop_assert_eq!(old.number, member.number);
                for (was, is) in old.lanes.values().iter().zip(&member.lanes.values()) {
                    let same = state.plans.get(was.plan) == next.plans.get(is.plan);
                    prop_assert_eq!(same, was == is || was.version == is.version);
                }
            }
            for (name, old) in &state.members {
                let gone = !next.members.contains_key(name);
                prop_assert_eq!(gone, report.removed.contains(name));
                // No other member may get its number before the next change.
                let taken = next.members.values().any(|other| other.number == old.number);
                prop_assert!(!gone || !taken);
            }
            let untouched = |change: &Change| match change {
                Change::Seat(seats) => seats.iter().all(|(_, both)| {
                    next.members.iter().all(|(name, member)| {
                        member.number != both.down.limiter / 2 || state.members.get(name) != Some(member)
                    })
                }),
                _ => true,
            };
            prop_assert!(changes.iter().all(untouched));
            model.apply(&changes);
            model.holds(&next);
            // A second time it changes nothing.
            let before = model.directory.clone();
            let again = super::changes(&state, &next, &next.attachments, false);
            for change in &again {
                if let Change::Seat(..) | Change::Unseat(..) = change {
                    model.apply(std::slice::from_ref(change));
                }
            }
            prop_assert_eq!(&before, &model.directory);
            prop_assert!(super::changes(&next, &next, &next.attachments, true).is_empty());
            // After writing and reading it is the same.
            let text = serde_json::to_string(&next).expect("writable");
            let mut read: GateState = serde_json::from_str(&text).expect("readable");
            read.index();
            prop_assert_eq!(&read, &next);
            state = next;
        }
    }

    /// There is a way back from any point between two states.
    #[test]
    fn what_fails_is_undone(one in draws(), two in draws(), done in 0usize..30) {
        let empty = GateState::empty("/pins".into(), [1, 2]);
        let (old, _) = super::next(&empty, &config(&one)).expect("room");
        let mut model = Model::default();
        model.apply(&super::changes(&empty, &old, &[], true));
        let (next, _) = super::next(&old, &config(&two)).expect("room");
        let mut changes = super::changes(&old, &next, &old.attachments, true);
        changes.truncate(done);
        model.apply(&changes);
        let back = super::back(&old, &next);
        let attached: Vec<Attachment> = old
            .attachments
            .iter()
            .chain(&next.attachments)
            .filter(|attachment| model.attachments.contains(&attachment.interface))
            .cloned()
            .collect::<HashSet<_>>()
            .into_iter()
            .collect();
        let undo = super::changes(&next, &back, &attached, false);
        model.apply(&undo);
        model.holds(&back);
        for (name, member) in &back.members {
            let was = &old.members[name];
            prop_assert_eq!(was.number, member.number);
            for (was, is) in was.lanes.values().iter().zip(&member.lanes.values()) {
                prop_assert_eq!((was.plan, was.base), (is.plan, is.base));
            }
            // A limiter that has followed the failed plan must get a newer version.
            let seen = next.members.get(name);
            for (other, is) in seen.iter().flat_map(|seen| seen.lanes.values().into_iter().zip(member.lanes.values())) {
                prop_assert!(other.version != is.version || other.plan == is.plan);
            }
        }
        // It continues from there, even if no room was made.
        let (on, _) = super::next(&back, &config(&two)).expect("room");
        model.apply(&super::changes(&back, &on, &back.attachments, true));
        model.holds(&on);
    }
}

#[test]
fn a_number_is_used_again_by_the_next_change_and_forgotten_before() {
    let draw = |names: &[u8]| (vec![1, 2], vec![(0, None); 6], names.to_vec(), 0);
    let empty = GateState::empty("/pins".into(), [1, 2]);
    let (one, _) = next(&empty, &config(&draw(&[0]))).expect("room");
    let (two, report) = next(&one, &config(&draw(&[1]))).expect("room");
    assert_eq!(
        (report.added, report.removed),
        (vec!["bob".into()], vec!["ann".into()])
    );
    assert_eq!((two.members["bob"].number, two.free.clone()), (1, vec![0]));
    let (three, _) = next(&two, &config(&draw(&[1, 2]))).expect("room");
    assert_eq!((three.members["cem"].number, three.next), (0, 2));
    let changes = changes(&two, &three, &two.attachments, true);
    let forgotten: Vec<&Change> = changes
        .iter()
        .filter(|change| matches!(change, Change::Forget(_)))
        .collect();
    assert_eq!(forgotten, [&Change::Forget(0), &Change::Forget(1)]);
}

#[test]
fn an_interface_that_is_attached_again_is_detached_when_all_else_is_ready() {
    let with = |one: &str, two: &str| {
        let text = format!(
            "[[interface]]\nname = \"eth0\"\nside = \"core\"\n{one}\n[[interface]]\nname = \"{two}\"\n\
             side = \"access\"\n[plan.p]\ndown = \"1mbit\"\n[[subscriber]]\nname = \"ann\"\nplan = \"p\"\n\
             vlan = {}\n",
            two.len()
        );
        config_of(&text)
    };
    let empty = GateState::empty("/pins".into(), [1, 2]);
    let (one, _) = next(&empty, &with("", "eth1")).expect("room");
    let (two, _) = next(&one, &with("hook = \"xdp\"", "eth22")).expect("room");
    let order: Vec<String> = changes(&one, &two, &one.attachments, true)
        .iter()
        .map(|change| match change {
            Change::Detach(attachment) => format!("detach {}", attachment.interface),
            Change::Ready(attachment) => format!("ready {}", attachment.interface),
            Change::Attach(attachment) => format!("attach {}", attachment.interface),
            _ => String::new(),
        })
        .collect();
    let (first, last) = (order.first(), order.iter().rposition(String::is_empty));
    assert_eq!(first.map(String::as_str), Some("detach eth1"), "{order:?}");
    let last = last.expect("changes between");
    let attached_again = ["ready eth0", "detach eth0", "attach eth0", "attach eth22"];
    assert_eq!(order[last + 1..], attached_again, "{order:?}");
}

#[test]
fn what_goes_makes_room_for_what_comes_where_there_is_none_for_both() {
    let with = |prefixes: Vec<String>| {
        let text = format!(
            "[[interface]]\nname = \"eth0\"\nside = \"core\"\n[plan.p]\ndown = \"1mbit\"\n\
             [[subscriber]]\nname = \"ann\"\nplan = \"p\"\naddresses = [{}]\n",
            prefixes.join(",")
        );
        config_of(&text)
    };
    let empty = GateState::empty("/pins".into(), [1, 2]);
    let lengths = |bits: std::ops::Range<u32>| -> Vec<String> {
        bits.map(|bits| format!("\"10.0.0.0/{bits}\"")).collect()
    };
    let order = |one: Vec<String>, two: Vec<String>| -> Vec<&'static str> {
        let (one, _) = next(&empty, &with(one)).expect("room");
        let (two, _) = next(&one, &with(two)).expect("room");
        let mut model = Model::default();
        model.apply(&changes(&empty, &one, &[], true));
        let changes = changes(&one, &two, &one.attachments, true);
        model.apply(&changes);
        model.holds(&two);
        let name = |change: &Change| match change {
            Change::Seat(..) => Some("seat"),
            Change::Unseat(..) => Some("unseat"),
            _ => None,
        };
        changes.iter().filter_map(name).collect()
    };
    let late = ["seat", "unseat"];
    let early = ["unseat", "seat"];
    assert_eq!(order(lengths(16..31), lengths(17..32)), late);
    assert_eq!(order(lengths(16..32), lengths(17..33)), early);
    // A prefix of all of IPv6 counts as one more prefix of IPv4.
    let all = || vec!["\"::/0\"".to_owned()];
    assert_eq!(
        order(lengths(16..32), [lengths(17..32), all()].concat()),
        early
    );
    assert_eq!(
        order(lengths(16..31), [lengths(16..30), all()].concat()),
        late
    );
}
