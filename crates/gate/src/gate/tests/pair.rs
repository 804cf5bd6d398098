//! Live changes of one gate of a pair at the other one.

use super::*;
use crate::config::Config;
use crate::matches;
use crate::pair::{Imported, SharedChange};

fn up(site: &Site) -> Own {
    site.write(Site::FILE);
    Own::up(&Config::read(&site.file()).expect("a file"))
        .expect("up")
        .0
}

/// Makes all changes of one gate at the other one, from a stamp on. Returns the latest stamp, and the number that were made.
fn follow(from: &Own, to: &mut Own, since: u64) -> (u64, usize) {
    let text = serde_json::to_string(&from.changes_since(since)).expect("text");
    let changes: Vec<SharedChange> = serde_json::from_str(&text).expect("changes");
    let latest = changes.last().map_or(since, |change| change.stamp);
    let made = changes.iter().map(|change| to.adopt(change).expect("made"));
    (latest, made.filter(|made| *made).count())
}

#[test]
fn the_later_change_holds_at_both_gates() {
    let sites = [Site::new(), Site::new()];
    let [mut here, mut there] = [up(&sites[0]), up(&sites[1])];
    let down = |mbit: u64| Setting {
        down: Some(Rate::from_bits_per_second(mbit * 1_000_000)),
        ..Setting::default()
    };
    let rate = |gate: &Own| gate.subscriber("alice").expect("there").limits.down.rate;
    assert_eq!(here.changes_since(0), []);
    here.set("alice", &down(20)).expect("set");
    let (mut known, made) = follow(&here, &mut there, 0);
    assert_eq!((made, rate(&there)), (1, Some(20_000_000)));
    // What came from there is not made again.
    assert_eq!(follow(&there, &mut here, 0).1, 0);
    // The later one of two holds, in any order.
    here.set("alice", &down(30)).expect("set");
    there.set("alice", &down(31)).expect("set");
    there.set("alice", &down(32)).expect("set");
    (known, _) = follow(&here, &mut there, known);
    follow(&there, &mut here, 0);
    follow(&here, &mut there, known);
    assert_eq!(rate(&here), rate(&there));
    // An address goes from one subscriber to another, and back; also a process that takes over knows that.
    let matched = here.subscriber("alice").expect("there").matches[0];
    here.adjust("bob", None, &[MatchChange::Assign(matched)])
        .expect("assigned");
    let (latest, made) = follow(&here, &mut there, known);
    assert!(made > 0);
    drop(there);
    let mut there = sites[1].take_over().expect("ours");
    let has = |gate: &Own, name: &str| {
        gate.subscriber(name)
            .expect("there")
            .matches
            .contains(&matched)
    };
    assert!(has(&there, "bob") && !has(&there, "alice"));
    sites[1].holds(there.state());
    there
        .adjust("bob", None, &[MatchChange::AsDeclared])
        .expect("back");
    follow(&there, &mut here, 0);
    assert!(has(&here, "alice") && !has(&here, "bob"));
    assert_eq!(follow(&here, &mut there, latest).1, 0);
    // A plan that the other file lacks changes nothing there.
    let mut change = here.changes_since(0).pop().expect("one");
    change.stamp += 1_000_000_000_000;
    change.setting = Some(Setting {
        plan: Some("lead".into()),
        ..Setting::default()
    });
    assert!(there.adopt(&change).is_err());
    change.name = "nobody".into();
    assert!(there.adopt(&change).is_err());
    sites[1].holds(there.state());
}

#[test]
fn who_loses_a_tag_keeps_what_else_was_set() {
    let sites = [Site::new(), Site::new()];
    let [mut here, mut there] = [up(&sites[0]), up(&sites[1])];
    let slow = Setting {
        down: Some(Rate::from_bits_per_second(4_000_000)),
        ..Setting::default()
    };
    here.set("bob", &slow).expect("set");
    let tag = here.subscriber("bob").expect("there").matches[0];
    here.adjust("alice", None, &[MatchChange::Assign(tag)])
        .expect("assigned");
    // Both have the stamp of the latter change, and alice is first by name.
    follow(&here, &mut there, 0);
    assert_eq!(rate_down(&there, "bob"), Some(4_000_000));
    for gate in [&here, &there] {
        let has = |name| gate.subscriber(name).expect("there").matches.contains(&tag);
        assert!(has("alice") && !has("bob"));
    }
    assert_eq!(follow(&there, &mut here, 0).1, 0);
    sites[1].holds(there.state());
}

#[test]
fn one_key_of_the_flow_hash_serves_both() {
    let sites = [Site::new(), Site::new()];
    let [here, mut there] = [up(&sites[0]), up(&sites[1])];
    let identity = there.state().identity();
    assert_ne!(here.hash(), there.hash());
    there.set_hash(here.hash()).expect("set");
    assert_eq!(there.hash(), here.hash());
    assert_eq!(
        there.state().identity(),
        identity,
        "its counters are still its own"
    );
    drop(there);
    let there = sites[1].take_over().expect("ours");
    assert_eq!(
        (there.hash(), there.state().identity()),
        (here.hash(), identity)
    );
    sites[1].holds(there.state());
}

#[test]
fn what_the_other_gate_said_is_not_said_back() {
    const SECOND: u64 = 1_000_000_000;
    let sites = [Site::new(), Site::new()];
    let [mut here, mut there] = [up(&sites[0]), up(&sites[1])];
    let memory = |site: &Site| Memory::at(site.pins(), |path| path.memory.clone()).expect("a path");
    let pass = |site: &Site, limiter, at| {
        Memory::at(site.pins(), |path| {
            (path.now, _) = (at, path.memory.insert(limiter, (1, at, vec![7; 8])));
        });
    };
    // A packet of each direction; what a gate says reaches the other one a millisecond later, whose clock is another.
    pass(&sites[0], 0, 10 * SECOND);
    pass(&sites[0], 1, 10 * SECOND);
    let before = memory(&sites[0]);
    Memory::at(sites[1].pins(), |path| path.now = 70 * SECOND + 1_000_000);
    let said = here.export(2 * SECOND).expect("said");
    assert_eq!(there.import(&said).expect("taken").taken, 2);
    Memory::at(sites[0].pins(), |path| path.now += 2_000_000);
    let back = there.export(2 * SECOND).expect("said");
    assert_eq!(here.import(&back).expect("taken"), Imported::default());
    assert_eq!(memory(&sites[0]), before);
    // What had a packet at the other gate since is said.
    pass(&sites[1], 1, 71 * SECOND);
    Memory::at(sites[0].pins(), |path| path.now = 11 * SECOND);
    let back = there.export(2 * SECOND).expect("said");
    assert_eq!(here.import(&back).expect("taken").taken, 1);
    // A gate that has lost all gets all back.
    Memory::at(sites[0].pins(), |path| path.memory.clear());
    let back = there.export(3600 * SECOND).expect("said");
    assert_eq!(here.import(&back).expect("taken").taken, 2);
}

/// Tells both gates what changed at the other one, `first` at one of them, until nothing is new.
fn tell_each_other(gates: &mut [Own; 2], first: usize) {
    for round in 0..4 {
        let told = gates[(round + first + 1) % 2].changes_since(0);
        for change in told {
            gates[(round + first) % 2].adopt(&change).expect("made");
        }
    }
}

/// Makes the next change of a subscriber later than any change so far, also than one of the same millisecond at the other gate.
fn a_moment_later(gate: &mut Own, name: &str) {
    gate.adjust(name, None, &[]).expect("nothing changes");
}

#[test]
fn an_address_stays_with_the_subscriber_that_got_it_later() {
    let address = |text: &str| matches::read(text).expect("an address")[0];
    let (lent, owned) = (address("10.0.0.7"), address("192.0.2.1"));
    for first in [0, 1] {
        let sites = [Site::new(), Site::new()];
        let mut gates = [up(&sites[0]), up(&sites[1])];
        let assign = |what| [MatchChange::Assign(what)];
        let has = |gate: &Own, name: &str, what| {
            let found = gate.subscriber(name).expect("there");
            found.matches.contains(what)
        };
        // Both gates assign the address before they hear of one another.
        gates[0].adjust("bob", None, &assign(lent)).expect("set");
        a_moment_later(&mut gates[1], "alice");
        gates[1].adjust("alice", None, &assign(lent)).expect("set");
        tell_each_other(&mut gates, first);
        for (gate, site) in gates.iter().zip(&sites) {
            assert!(has(gate, "alice", &lent) && !has(gate, "bob", &lent));
            assert!(has(gate, "alice", &owned), "nothing else is lost");
            site.holds(gate.state());
        }
        // A later change of a subscriber to what the file says takes nothing from who has it since.
        gates[0]
            .adjust("alice", None, &[MatchChange::AsDeclared])
            .expect("set");
        a_moment_later(&mut gates[1], "bob");
        gates[1].adjust("bob", None, &assign(owned)).expect("set");
        tell_each_other(&mut gates, first);
        for (gate, site) in gates.iter().zip(&sites) {
            assert!(has(gate, "bob", &owned) && !has(gate, "alice", &owned));
            site.holds(gate.state());
        }
    }
}

#[test]
fn nothing_goes_back_to_a_subscriber_that_gave_it_up_later() {
    for first in [0, 1] {
        let sites = [Site::new(), Site::new()];
        let mut gates = [up(&sites[0]), up(&sites[1])];
        let tag = gates[0].subscriber("bob").expect("there").matches[0];
        gates[0]
            .adjust("alice", None, &[MatchChange::Assign(tag)])
            .expect("set");
        tell_each_other(&mut gates, first);
        // One gate gives the tag back to bob. The other one has taken all from him meanwhile, and more lately.
        gates[0]
            .adjust("alice", None, &[MatchChange::Release(tag)])
            .expect("set");
        a_moment_later(&mut gates[1], "bob");
        let other = matches::read("10.0.0.9").expect("an address")[0];
        gates[1]
            .adjust("bob", None, &[MatchChange::Assign(other)])
            .expect("set");
        tell_each_other(&mut gates, first);
        for (gate, site) in gates.iter().zip(&sites) {
            let bob = gate.subscriber("bob").expect("there");
            assert_eq!(bob.matches, [other]);
            site.holds(gate.state());
        }
    }
}

#[test]
fn a_limiter_without_packets_since_its_plan_changed_is_not_said() {
    let site = Site::new();
    let mut gate = up(&site);
    let limiter = gate.state().members["alice"].limiter(Direction::Down);
    Memory::at(site.pins(), |path| {
        (path.now, _) = (10, path.memory.insert(limiter, (1, 5, vec![7; 8])));
    });
    let said = |gate: &Own| gate.export(3600 * 1_000_000_000).expect("said");
    assert_eq!(
        crate::pair::Reader::new(&said(&gate))
            .expect("said")
            .count(),
        1
    );
    let slow = Setting {
        down: Some(Rate::from_bits_per_second(4_000_000)),
        ..Setting::default()
    };
    gate.set("alice", &slow).expect("set");
    assert_eq!(
        crate::pair::Reader::new(&said(&gate))
            .expect("said")
            .count(),
        0
    );
    // Its next packet lets it follow the new plan.
    Memory::at(site.pins(), |path| {
        path.memory.insert(limiter, (2, 6, vec![7; 8]))
    });
    assert_eq!(
        crate::pair::Reader::new(&said(&gate))
            .expect("said")
            .count(),
        1
    );
}
