mod files;
mod killed;
mod pair;
mod turns;
mod undone;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use tidegate_limiter::Rate;

use super::*;
use crate::memory::Memory;
use crate::path::Others;
use crate::reading::{Reading, Roster};
use crate::table::{Counters, Direction, PerDirection};
use crate::testing::Site;

type Own = Gate<Memory>;

/// The requests of the tests to a site's gate in memory.
trait InMemory {
    fn take_over(&self) -> Result<Own, GateError>;

    /// Whether the data path agrees with the state, and has nothing else.
    fn holds(&self, state: &GateState);
}

impl InMemory for Site {
    fn take_over(&self) -> Result<Own, GateError> {
        Own::take_over(self.folders())
    }

    fn holds(&self, state: &GateState) {
        Memory::at(self.pins(), |memory| {
            let mut directory = HashMap::new();
            for member in state.members.values() {
                for direction in Direction::BOTH {
                    for what in member.matches() {
                        directory.insert((direction, *what), member.seat(direction));
                        let number = member.seat(direction).plan;
                        let limits = state.plans.get(number).expect("a plan");
                        assert_eq!(memory.plans.get(&number), limits.plan().as_ref().ok());
                    }
                }
            }
            assert_eq!(memory.directory, directory);
            assert_eq!(memory.settings, Some(state.settings()));
            let mut attached = memory.attachments.clone();
            attached.sort_by(|one, other| one.interface.cmp(&other.interface));
            assert_eq!(attached, state.attachments);
        })
        .expect("a data path");
    }
}

/// Everything that can be read about a gate's subscribers.
fn all_read(state: &GateState, path: &Memory) -> (Roster, Vec<PerDirection<Counters>>, Others) {
    let roster = Arc::new(Roster::of(state));
    let reading = Reading::take(Arc::clone(&roster), state, path).expect("a reading");
    ((*roster).clone(), reading.counters, reading.unlimited)
}

fn rate_down(gate: &Own, name: &str) -> Option<u64> {
    gate.subscriber(name).expect("there").limits.down.rate
}

fn setting(gate: &Own, name: &str) -> Option<Setting> {
    gate.state().members[name].setting.clone()
}

/// The fixture's file with two interfaces, and with cem.
static ONE: LazyLock<String> = LazyLock::new(|| {
    Site::FILE.replace("\"lo\"", "\"eth0\"")
        + r#"
[[interface]]
name = "eth1"
side = "access"
[[subscriber]]
name = "cem"
plan = "gold"
vlan = 9
"#
});

/// Bob gets the plan gold and an address, cem is removed, dot is added with cem's tag; another
/// interface.
static TWO: LazyLock<String> = LazyLock::new(|| {
    let bob = "plan = \"gold\"\naddresses = \"192.0.2.2\"";
    "unknown = \"drop\"\n".to_owned()
        + &ONE
            .replace("down = \"10mbit\"", "down = \"40mbit\"")
            .replace("plan = \"basic\"", bob)
            .replace(
                "name = \"cem\"\nplan = \"gold\"",
                "name = \"dot\"\nplan = \"basic\"",
            )
            .replace("eth1", "eth2")
});

#[test]
fn a_gate_goes_up_changes_and_goes_down() {
    let site = Site::new();
    let (mut gate, report) = Own::up(&site.config(&ONE)).expect("up");
    assert_eq!(report.added, ["alice", "bob", "cem"]);
    site.holds(gate.state());
    assert_eq!(site.files(), ["lock", "state.json"]);
    let alice = gate.state().members["alice"].clone();
    let report = gate.reload(&site.config(&TWO)).expect("reloaded");
    assert_eq!(
        (
            &report.added[..],
            &report.removed[..],
            &report.limited[..],
            &report.moved[..],
            report.unchanged
        ),
        (
            &["dot".to_owned()][..],
            &["cem".to_owned()][..],
            &["bob".to_owned()][..],
            &["bob".to_owned()][..],
            1
        )
    );
    assert_eq!(report.attached[0].interface, "eth2");
    assert_eq!(report.detached[0].interface, "eth1");
    site.holds(gate.state());
    assert_eq!(gate.state().members["alice"], alice);
    let log = Memory::at(site.pins(), |memory| std::mem::take(&mut memory.log)).expect("there");
    let about_alice = log.iter().filter(|line| line.contains("192.0.2.1")).count();
    assert_eq!(
        about_alice, 2,
        "alice was led once in each direction, at the start: {log:?}"
    );
    // The same file again changes nothing.
    let report = gate.reload(&site.config(&TWO)).expect("reloaded");
    assert_eq!(report.unchanged, 3);
    let log = Memory::at(site.pins(), |memory| memory.log.clone()).expect("there");
    assert!(log.is_empty(), "{log:?}");
    gate.down().expect("down");
    assert!(!Own::is_up(site.pins()) && !site.state().exists());
}

#[test]
fn errors_say_that_a_gate_is_busy_up_or_not_there() {
    let site = Site::new();
    assert!(matches!(site.take_over(), Err(GateError::NotUp { .. })));
    assert!(!Own::down_at(site.folders()).expect("nothing to do"));
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    let this = std::process::id();
    let busy = |error: Option<GateError>| matches!(error, Some(GateError::Busy { process, .. }) if process == Some(this));
    assert!(busy(site.take_over().err()));
    assert!(busy(Own::down_at(site.folders()).err()));
    assert!(busy(Own::up(&site.config(&ONE)).err()));
    // A view needs no lock.
    let view = View::<Memory>::open(site.folders()).expect("a view");
    assert_eq!(
        all_read(view.state(), view.path()),
        all_read(gate.state(), gate.path())
    );
    assert_eq!(view.overview(), gate.overview());
    drop(gate);
    let twice = Own::up(&site.config(&ONE)).expect_err("is up").to_string();
    let down = format!("`tidegate gate down --state {}`", site.state().display());
    assert!(twice.contains(&down), "{twice}");
    // Where the state is not known, the pins lead to it.
    let mut other = site.config(&ONE);
    other.state = site.state().join("other");
    let twice = Own::up(&other).expect_err("is up").to_string();
    let down = format!("`tidegate gate down --pins {}`", site.pins().display());
    assert!(twice.contains(&down), "{twice}");
    let gate = site.take_over().expect("ours");
    site.holds(gate.state());
    drop(gate);
    // Without its state the gate cannot be taken over, since the owners of the limits are unknown. But it can be
    // removed.
    std::fs::remove_dir_all(site.state()).expect("removed");
    assert!(matches!(site.take_over(), Err(GateError::Lost { .. })));
    assert!(Own::down_at(site.folders()).expect("down"));
    assert!(!Own::is_up(site.pins()) && !site.state().exists());
    // A restart of the machine may leave a state without a gate.
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    drop(gate);
    Memory::clear(site.pins()).expect("gone");
    assert!(matches!(site.take_over(), Err(GateError::NotUp { .. })));
    let (gate, report, was_up) = Own::start(&site.config(&TWO)).expect("up");
    assert!(!was_up && report.added.len() == 3);
    gate.down().expect("down");
}

#[test]
fn a_gate_elsewhere_keeps_its_state() {
    let site = Site::new();
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    drop(gate);
    let other = Config {
        pins: site.folder().join("other"),
        ..site.config(&ONE)
    };
    let error = Own::up(&other).map(|_| ()).expect_err("it is another's");
    assert!(matches!(error, GateError::Elsewhere { .. }), "{error}");
    assert!(!Own::is_up(&other.pins));
    assert!(!Own::down_at((&other).into()).expect("nothing there"));
    let gate = site.take_over().expect("ours");
    site.holds(gate.state());
    gate.down().expect("down");
    // The gate is gone, so its state belongs to no gate.
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    drop(gate);
    Memory::clear(site.pins()).expect("gone");
    let (gate, _) = Own::up(&other).expect("up");
    gate.down().expect("down");
}

#[test]
fn what_is_set_holds_until_reset_or_the_file_says_otherwise() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    let rate = |rate: u64| Setting {
        down: Some(Rate::from_bits_per_second(rate)),
        ..Setting::default()
    };
    gate.set("alice", &rate(5_000_000)).expect("set");
    let limits = gate.subscriber("alice").expect("there").limits;
    assert_eq!(
        (limits.down.rate, limits.up.rate),
        (Some(5_000_000), Some(10_000_000))
    );
    let lanes = gate.state().members["alice"].lanes;
    assert_eq!((lanes.down.version, lanes.up.version), (2, 1));
    site.holds(gate.state());
    // Also for later processes, and after reloads that change others.
    drop(gate);
    let mut gate = site.take_over().expect("ours");
    assert_eq!(setting(&gate, "alice"), Some(rate(5_000_000)));
    gate.reload(&site.config(&TWO)).expect("reloaded");
    site.holds(gate.state());
    assert_eq!(rate_down(&gate, "alice"), Some(5_000_000));
    // Another plan, whose rates change in the file.
    let basic = Setting {
        plan: Some("basic".into()),
        ..Setting::default()
    };
    gate.set("alice", &basic).expect("set");
    assert_eq!(rate_down(&gate, "alice"), Some(40_000_000));
    assert_eq!(
        gate.subscriber("alice").expect("there").plan_name(),
        "basic"
    );
    gate.reload(&site.config(&TWO.replace("40mbit", "30mbit")))
        .expect("reloaded");
    assert_eq!(rate_down(&gate, "alice"), Some(30_000_000));
    // The file changes alice.
    let other = TWO.replacen("plan = \"gold\"", "plan = \"gold\"\ndown = \"70mbit\"", 1);
    let report = gate.reload(&site.config(&other)).expect("reloaded");
    assert_eq!(report.reset, ["alice"]);
    assert_eq!(rate_down(&gate, "alice"), Some(70_000_000));
    assert_eq!(setting(&gate, "alice"), None);
    gate.set("alice", &rate(8_000_000)).expect("set");
    gate.reset("alice").expect("reset");
    assert_eq!(rate_down(&gate, "alice"), Some(70_000_000));
    assert_eq!(setting(&gate, "alice"), None);
    site.holds(gate.state());
    for (name, setting, told) in [
        (
            "alise",
            rate(1_000_000),
            "there is no subscriber `alise`, did you mean `alice`?",
        ),
        ("alice", rate(1), "1 bit/s is out of range"),
        ("alice", Setting::default(), "nothing is set"),
        (
            "alice",
            Setting {
                plan: Some("glod".into()),
                ..Setting::default()
            },
            "there is no plan `glod`, did you mean `gold`?",
        ),
    ] {
        let error = gate.set(name, &setting).expect_err("wrong").to_string();
        assert!(error.starts_with(told), "{error}");
    }
    gate.down().expect("down");
}

#[test]
fn many_settings_do_not_fill_the_journal_or_the_plans() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    for round in 0..1100u64 {
        let down = Some(Rate::from_bits_per_second(1_000_000 + round));
        gate.set(
            "bob",
            &Setting {
                down,
                ..Setting::default()
            },
        )
        .expect("set");
    }
    assert!(gate.state().plans.contents().len() < 10);
    let journal = std::fs::read_to_string(site.state().join("journal")).expect("a journal");
    assert!(journal.lines().count() <= Own::MOST_ENTRIES);
    let state = gate.state().clone();
    drop(gate);
    let gate = site.take_over().expect("ours");
    assert_eq!(gate.state().members, state.members);
    site.holds(gate.state());
}

#[test]
fn what_is_stuck_does_not_keep_the_rest_from_being_taken_off() {
    let site = Site::new();
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    drop(gate);
    Memory::at(site.pins(), |memory| memory.stuck = true);
    let error = Own::down_at(site.folders()).expect_err("it is stuck");
    assert!(
        error.to_string().ends_with("a part of it is stuck"),
        "{error}"
    );
    assert!(!site.state().exists());
}
