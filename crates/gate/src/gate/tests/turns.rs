//! Plans that change by the time of day and by volume.

use super::*;
use crate::calendar::{Moment, Why};
use crate::pair::SharedChange;
use crate::usage::SharedUsage;

const FILE: &str = concat!(
    include_str!("../../../tests/gate.toml"),
    r#"
[usage]
file = "usage.json"
[plan.night]
down = "200mbit"
up = "20mbit"
[plan.slow]
down = "1mbit"
up = "1mbit"
[plan.meter]
down = "80mbit"
up = "8mbit"
quota = "1MB"
quota-plan = "slow"
[[plan.meter.schedule]]
from = "22:00"
to = "6:00"
plan = "night"
[[subscriber]]
name = "cem"
plan = "meter"
up = "5mbit"
vlan = 9
"#
);

fn at(hour: u32) -> Moment {
    Moment {
        year: 2026,
        month: 11,
        day: 24,
        weekday: 1,
        minute: 60 * hour,
    }
}

fn rates(gate: &Own) -> (Option<u64>, Option<u64>) {
    let limits = gate.subscriber("cem").expect("there").limits;
    let mbit = |rate: Option<u64>| rate.map(|rate| rate / 1_000_000);
    (mbit(limits.down.rate), mbit(limits.up.rate))
}

/// Counts that the subscriber has had this number of bytes.
fn count(site: &Site, gate: &Own, usage: &SharedUsage, bytes: u64) {
    let number = gate.subscriber("cem").expect("there").limits.down.limiter;
    Memory::at(site.pins(), |memory| {
        let limiter = memory.limiters.entry(number).or_default();
        limiter.counters.passed_bytes = bytes;
    });
    let roster = Arc::new(Roster::of(gate.state()));
    let reading = Reading::take(roster, gate.state(), gate.path()).expect("a reading");
    let identity = gate.state().identity();
    usage.lock().count(identity, &reading, &at(12));
}

#[test]
fn plans_follow_the_clock_and_the_volume() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(FILE)).expect("up");
    let usage = SharedUsage::default();
    count(&site, &gate, &usage, 0);
    assert_eq!(gate.turn(&at(12), &usage).expect("no change"), []);
    assert_eq!(rates(&gate), (Some(80), Some(5)));

    // Night comes, the process ends, and another one sees the morning. The subscriber's rates are of its plan.
    let turns = gate.turn(&at(23), &usage).expect("night");
    assert_eq!((turns.len(), turns[0].0.as_str()), (1, "cem"));
    assert_eq!(gate.turn(&at(2), &usage).expect("no change"), []);
    site.holds(gate.state());
    let cem = gate.subscriber("cem").expect("there");
    assert_eq!(cem.plan_name(), "night");
    assert_eq!(cem.turn, Some((Why::Schedule, Some("meter".into()))));
    drop(gate);
    let mut gate = site.take_over().expect("ours");
    assert_eq!(rates(&gate), (Some(200), Some(20)));
    // A reload keeps it, and a live rate stays in force.
    gate.reload(&site.config(&FILE.replace("200mbit", "300mbit")))
        .expect("reloaded");
    assert_eq!(rates(&gate), (Some(300), Some(20)));
    let setting = Setting {
        up: Some(Rate::from_bits_per_second(7_000_000)),
        ..Setting::default()
    };
    gate.set("cem", &setting).expect("set");
    assert_eq!(rates(&gate), (Some(300), Some(7)));
    gate.turn(&at(6), &usage).expect("morning");
    assert_eq!(rates(&gate), (Some(80), Some(7)));
    gate.reset("cem").expect("reset");

    // The volume is used up: also at night. It holds across reloads.
    count(&site, &gate, &usage, 999_999);
    assert_eq!(gate.turn(&at(12), &usage).expect("no change"), []);
    count(&site, &gate, &usage, 1_000_000);
    gate.turn(&at(12), &usage).expect("spent");
    assert_eq!(rates(&gate), (Some(1), Some(1)));
    assert_eq!(gate.turn(&at(23), &usage).expect("no change"), []);
    let report = gate.reload(&site.config(FILE)).expect("reloaded");
    assert_eq!(
        (report.limited.len(), rates(&gate)),
        (0, (Some(1), Some(1)))
    );
    site.holds(gate.state());
    // Another plan has no such terms; neither has the file without them.
    let other = Setting {
        plan: Some("gold".into()),
        ..Setting::default()
    };
    gate.set("cem", &other).expect("set");
    assert_eq!(rates(&gate), (Some(50), Some(10)));
    let ended = [("cem".to_owned(), None)];
    assert_eq!(gate.turn(&at(12), &usage).expect("no terms"), ended);
    assert_eq!(gate.turn(&at(12), &usage).expect("no change"), []);
    // A larger quota that was set live; nobody sets the same for others of the plan.
    let larger = Setting {
        keys: [("quota".to_owned(), "2MB".into())].into(),
        ..Setting::default()
    };
    gate.set("cem", &larger).expect("set");
    assert_eq!(gate.turn(&at(12), &usage).expect("no change"), []);
    assert_eq!(rates(&gate), (Some(80), Some(5)));
    count(&site, &gate, &usage, 2_000_000);
    gate.turn(&at(12), &usage).expect("spent");
    assert_eq!(rates(&gate), (Some(1), Some(1)));
    // What the last look found holds for changes at once: the smaller quota of the file is spent too.
    gate.reset("cem").expect("reset");
    assert_eq!(rates(&gate), (Some(1), Some(1)));
    let without = FILE.replace("quota = \"1MB\"\nquota-plan = \"slow\"\n", "");
    gate.reload(&site.config(&without)).expect("reloaded");
    assert_eq!(rates(&gate), (Some(80), Some(5)));
    gate.set("cem", &other).expect("set");
    gate.reset("cem").expect("reset");
    gate.reload(&site.config(FILE)).expect("reloaded");
    assert_eq!(rates(&gate), (Some(1), Some(1)));
    site.holds(gate.state());
    assert_eq!(gate.turn(&at(12), &usage).expect("as before"), []);
    // It comes back in the same month. Another subscriber does not inherit its volume with its number.
    let gone = include_str!("../../../tests/gate.toml");
    let report = gate.reload(&site.config(gone)).expect("reloaded");
    assert_eq!(report.removed, ["cem"]);
    let other = FILE.replace("\"cem\"", "\"dea\"");
    gate.reload(&site.config(&other)).expect("reloaded");
    let dea = gate.subscriber("dea").expect("there");
    assert_eq!(dea.plan_name(), "meter");
    let report = gate.reload(&site.config(FILE)).expect("reloaded");
    assert_eq!(report.added, ["cem"]);
    assert_eq!(rates(&gate), (Some(1), Some(1)));
    site.holds(gate.state());
    gate.down().expect("down");
}

/// The file whose plan for the day is unlimited, and the one before that change. The subscriber has no rate of its own
/// in either.
fn limited_and_free() -> [String; 2] {
    let limited = FILE.replace("up = \"5mbit\"\n", "");
    let free = limited.replace(
        "down = \"80mbit\"\nup = \"8mbit\"",
        "scheme = \"unlimited\"",
    );
    assert_ne!(limited, free);
    [limited, free]
}

/// The reload says nothing of the subscriber, whose live change stays.
#[test]
fn live_changes_outlive_the_plan_that_is_in_force_for_now() {
    let site = Site::new();
    let [limited, free] = limited_and_free();
    let (mut gate, _) = Own::up(&site.config(&limited)).expect("up");
    let usage = SharedUsage::default();
    let suspended = Setting {
        up: Some(Rate::from_bits_per_second(7_000_000)),
        suspended: Some(true),
        ..Setting::default()
    };
    gate.set("cem", &suspended).expect("set");
    assert_eq!(gate.turn(&at(23), &usage).expect("night").len(), 1);
    let report = gate
        .reload(&site.config(&limited.replace("night", "dark")))
        .expect("reloaded");
    assert_eq!(report.reset, [""; 0]);
    assert_eq!(setting(&gate, "cem"), Some(suspended));
    assert!(gate.subscriber("cem").expect("there").suspended);
    site.holds(gate.state());
    assert_eq!(gate.subscriber("cem").expect("there").plan_name(), "dark");
    // A rate cannot hold without any plan that has one.
    gate.turn(&at(12), &usage).expect("day");
    let report = gate
        .reload(&site.config(&free.replace("night", "late")))
        .expect("reloaded");
    assert_eq!(report.reset, ["cem"]);
    assert_eq!(setting(&gate, "cem"), None);
    site.holds(gate.state());
}

#[test]
fn a_rate_that_was_set_holds_under_an_unlimited_plan() {
    let site = Site::new();
    let free = FILE.replace(
        "down = \"200mbit\"\nup = \"20mbit\"",
        "scheme = \"unlimited\"",
    );
    let (mut gate, _) = Own::up(&site.config(&free)).expect("up");
    let usage = SharedUsage::default();
    let slow = Setting {
        up: Some(Rate::from_bits_per_second(7_000_000)),
        ..Setting::default()
    };
    gate.set("cem", &slow).expect("set");
    assert_eq!(gate.turn(&at(23), &usage).expect("night").len(), 1);
    assert_eq!(rates(&gate), (None, Some(7)));
    site.holds(gate.state());
    let serial = gate.state().serial;
    assert_eq!(gate.turn(&at(23), &usage).expect("no change"), []);
    assert_eq!(gate.state().serial, serial);
    // It can also be set then.
    let slower = Setting {
        up: Some(Rate::from_bits_per_second(6_000_000)),
        ..Setting::default()
    };
    gate.set("cem", &slower).expect("set");
    assert_eq!(rates(&gate), (None, Some(6)));
    gate.turn(&at(6), &usage).expect("morning");
    assert_eq!(rates(&gate), (Some(80), Some(6)));
}

/// Every few seconds the same attempt, which must not write the state each time.
#[test]
fn a_turn_that_cannot_be_had_writes_nothing() {
    let site = Site::new();
    let [limited, free] = limited_and_free();
    let (mut gate, _) = Own::up(&site.config(&limited)).expect("up");
    let usage = SharedUsage::default();
    let slow = Setting {
        down: Some(Rate::from_bits_per_second(7_000_000)),
        ..Setting::default()
    };
    gate.set("cem", &slow).expect("set");
    gate.turn(&at(23), &usage).expect("night");
    // By day its plan is unlimited now, so that the rate would limit nothing.
    gate.reload(&site.config(&free)).expect("reloaded");
    let serial = gate.state().serial;
    for _ in 0..2 {
        assert_eq!(gate.turn(&at(12), &usage).expect("no change"), []);
    }
    assert_eq!(gate.state().serial, serial);
    assert_eq!(rates(&gate), (Some(7), Some(20)));
    gate.reset("cem").expect("reset");
    gate.turn(&at(12), &usage).expect("day");
    assert_eq!(rates(&gate), (None, None));
}

#[test]
fn a_turn_that_fails_at_any_step_is_undone() {
    for step in 0.. {
        let site = Site::new();
        let (mut gate, _) = Own::up(&site.config(FILE)).expect("up");
        let usage = SharedUsage::default();
        Memory::at(site.pins(), |memory| memory.left = Some(step));
        let made = gate.turn(&at(23), &usage);
        Memory::at(site.pins(), |memory| memory.left = None);
        if made.is_ok() {
            assert!(step > 1);
            site.holds(gate.state());
            return;
        }
        gate.turn(&at(12), &usage).expect("undone");
        assert_eq!(rates(&gate), (Some(80), Some(5)));
        site.holds(gate.state());
        gate.turn(&at(23), &usage).expect("made");
        assert_eq!(rates(&gate), (Some(200), Some(20)));
        site.holds(gate.state());
    }
}

/// A reload says what it changes in the end, and another change that comes to the same is nothing new.
#[test]
fn reloads_and_changes_tell_what_is_in_force() {
    let site = Site::new();
    let without = FILE.replace("quota = \"1MB\"\nquota-plan = \"slow\"\n", "");
    let (mut gate, _) = Own::up(&site.config(&without)).expect("up");
    let usage = SharedUsage::default();
    for bytes in [0, 1_000_000] {
        count(&site, &gate, &usage, bytes);
        assert_eq!(gate.turn(&at(12), &usage).expect("no quota"), []);
    }
    // The quota is new, and spent.
    let report = gate.reload(&site.config(FILE)).expect("reloaded");
    assert_eq!(report.limited, ["cem"]);
    assert_eq!(rates(&gate), (Some(1), Some(1)));
    assert_eq!(gate.turn(&at(12), &usage).expect("told").len(), 1);
    // Another plan, with the same one in its place.
    let meter = "[plan.meter]\ndown = \"80mbit\"";
    let faster = FILE.replace(meter, "[plan.meter]\ndown = \"90mbit\"");
    assert_ne!(faster, FILE);
    let version = gate.state().members["cem"].lanes.down.version;
    let report = gate.reload(&site.config(&faster)).expect("reloaded");
    assert_eq!(report.limited, [""; 0]);
    assert_eq!(gate.state().members["cem"].lanes.down.version, version);
    // There and back again.
    let other = Setting {
        plan: Some("gold".into()),
        ..Setting::default()
    };
    gate.set("cem", &other).expect("set");
    gate.reset("cem").expect("reset");
    assert_eq!(gate.turn(&at(12), &usage).expect("no change"), []);
    // A process that takes over has not looked yet. It keeps what is in force.
    drop(gate);
    let mut gate = site.take_over().expect("ours");
    let slow = Setting {
        up: Some(Rate::from_bits_per_second(500_000)),
        ..Setting::default()
    };
    gate.set("cem", &slow).expect("set");
    assert_eq!(gate.subscriber("cem").expect("there").plan_name(), "slow");
    site.holds(gate.state());
}

/// A plan for now that cannot be had any longer, or not be left, is no reason to refuse other changes.
#[test]
fn changes_are_made_where_a_turn_cannot_be_had() {
    let site = Site::new();
    let [limited, free] = limited_and_free();
    let (mut gate, _) = Own::up(&site.config(&limited)).expect("up");
    let usage = SharedUsage::default();
    let slow = Setting {
        down: Some(Rate::from_bits_per_second(7_000_000)),
        ..Setting::default()
    };
    gate.set("cem", &slow).expect("set");
    gate.turn(&at(23), &usage).expect("night");
    gate.reload(&site.config(&free)).expect("reloaded");
    // By day its plan is unlimited, and cannot have the rate.
    gate.turn(&at(12), &usage).expect("no change");
    assert_eq!(gate.subscriber("cem").expect("there").plan_name(), "night");
    let suspended = Setting {
        suspended: Some(true),
        ..slow.clone()
    };
    gate.set("cem", &suspended).expect("suspended");
    let change = SharedChange {
        name: "cem".into(),
        stamp: u64::MAX,
        setting: Some(slow),
        matches: Some(vec!["vlan 9".into(), "10.9.9.9".into()]),
    };
    assert!(gate.adopt(&change).expect("adopted"));
    assert_eq!(rates(&gate), (Some(7), Some(20)));
    site.holds(gate.state());
    // A rate that the plan cannot have by day is refused at night too, with the plan.
    let other = Setting {
        plan: Some("meter".into()),
        up: Some(Rate::from_bits_per_second(7_000_000)),
        ..Setting::default()
    };
    gate.reset("cem").expect("reset");
    gate.turn(&at(23), &usage).expect("night");
    gate.set(
        "cem",
        &Setting {
            plan: None,
            ..other.clone()
        },
    )
    .expect("night has a rate");
    gate.set(
        "cem",
        &Setting {
            plan: Some("gold".into()),
            ..other.clone()
        },
    )
    .expect("gold has one");
    gate.set("cem", &other).expect_err("meter has none");
}
