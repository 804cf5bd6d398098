//! Live changes of one gate of a pair at the other one.

use super::*;
use crate::config::Config;
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
            (path.now, _) = (at, path.memory.insert(limiter, (at, vec![7; 8])));
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
