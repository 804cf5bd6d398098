use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::memory::Memory;
use crate::path::Others;
use crate::reading::{Reading, Roster};
use crate::table::{Counters, PerDirection};

type Own = Gate<Memory>;

/// A gate's folders, and files for it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn pins(&self) -> PathBuf {
        self.folder.path().join("pins")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn config(&self, rest: &str) -> Config {
        let text = format!(
            "pins = \"{}\"\nstate = \"{}\"\n{rest}",
            self.pins().display(),
            self.state().display()
        );
        let none = |_: &Path| Err("is not there".to_owned());
        Config::parse(Path::new("gate.toml"), text, &none).unwrap_or_else(|error| panic!("{error}"))
    }

    fn take_over(&self) -> Result<Own, GateError> {
        Own::take_over(&self.pins(), &self.state())
    }

    /// Whether the data path holds what the state says, and nothing else.
    fn holds(&self, state: &State) {
        Memory::at(&self.pins(), |own| {
            let mut directory = HashMap::new();
            for member in state.members.values() {
                for direction in Direction::BOTH {
                    for what in &member.matches {
                        directory.insert((direction, *what), member.seat(direction));
                        let number = member.seat(direction).plan;
                        let limits = state.plans.get(number).expect("a plan");
                        assert_eq!(own.plans.get(&number), limits.plan().as_ref().ok());
                    }
                }
            }
            assert_eq!(own.directory, directory);
            assert_eq!(own.settings, Some(state.settings()));
            let mut attached = own.attachments.clone();
            attached.sort_by(|one, other| one.interface.cmp(&other.interface));
            assert_eq!(attached, state.attachments);
        })
        .expect("a data path");
    }

    fn files(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.state()) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        names
    }
}

/// All that can be read of a gate's subscribers.
fn all_read(state: &State, path: &Memory) -> (Roster, Vec<PerDirection<Counters>>, Others) {
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

const ONE: &str = r#"
[[interface]]
name = "eth0"
side = "core"
[[interface]]
name = "eth1"
side = "access"
[plan.gold]
down = "100mbit"
up = "20mbit"
[plan.silver]
down = "50mbit"
up = "10mbit"
[[subscriber]]
name = "ann"
plan = "gold"
addresses = ["10.0.0.1", "2001:db8::/56"]
[[subscriber]]
name = "bob"
plan = "silver"
addresses = "10.0.0.2"
[[subscriber]]
name = "cem"
plan = "gold"
vlan = 7
"#;

/// Bob gets gold and another address, cem goes, dot comes with cem's tag; another interface.
const TWO: &str = r#"
unknown = "drop"
[[interface]]
name = "eth0"
side = "core"
[[interface]]
name = "eth2"
side = "access"
[plan.gold]
down = "100mbit"
up = "20mbit"
[plan.silver]
down = "40mbit"
up = "10mbit"
[[subscriber]]
name = "ann"
plan = "gold"
addresses = ["10.0.0.1", "2001:db8::/56"]
[[subscriber]]
name = "bob"
plan = "gold"
addresses = ["10.0.0.2", "10.0.0.3"]
[[subscriber]]
name = "dot"
plan = "silver"
vlan = 7
"#;

#[test]
fn a_gate_goes_up_changes_and_goes_down() {
    let place = Place::new();
    let (mut gate, report) = Own::up(&place.config(ONE)).expect("up");
    assert_eq!(report.added, ["ann", "bob", "cem"]);
    place.holds(gate.state());
    assert_eq!(place.files(), ["lock", "state.json"]);
    let ann = gate.state().members["ann"].clone();
    let report = gate.reload(&place.config(TWO)).expect("reloaded");
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
    place.holds(gate.state());
    assert_eq!(gate.state().members["ann"], ann);
    let log = Memory::at(&place.pins(), |own| std::mem::take(&mut own.log)).expect("there");
    let about_ann = log.iter().filter(|line| line.contains("10.0.0.1")).count();
    assert_eq!(
        about_ann, 2,
        "ann was led once in each direction, at the start: {log:?}"
    );
    // The same again does nothing.
    let report = gate.reload(&place.config(TWO)).expect("reloaded");
    assert_eq!(report.unchanged, 3);
    let log = Memory::at(&place.pins(), |own| own.log.clone()).expect("there");
    assert!(log.is_empty(), "{log:?}");
    gate.down().expect("down");
    assert!(!Own::is_up(&place.pins()) && !place.state().exists());
}

#[test]
fn others_are_told_that_a_gate_is_taken_up_or_not_there() {
    let place = Place::new();
    assert!(matches!(place.take_over(), Err(GateError::NotUp { .. })));
    assert!(!Own::down_at(&place.pins(), &place.state()).expect("nothing to do"));
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    let own = std::process::id();
    let busy = |error: Option<GateError>| matches!(error, Some(GateError::Busy { process, .. }) if process == Some(own));
    assert!(busy(place.take_over().err()));
    assert!(busy(Own::down_at(&place.pins(), &place.state()).err()));
    assert!(busy(Own::up(&place.config(ONE)).err()));
    // Looking is free.
    let view = View::<Memory>::open(&place.state(), &place.pins()).expect("a view");
    assert_eq!(
        all_read(view.state(), view.path()),
        all_read(gate.state(), gate.path())
    );
    assert_eq!(view.overview(), gate.overview());
    drop(gate);
    assert!(matches!(
        Own::up(&place.config(ONE)),
        Err(GateError::AlreadyUp { .. })
    ));
    let gate = place.take_over().expect("ours");
    place.holds(gate.state());
    drop(gate);
    // Without its state nobody knows whose limits they are; it can still be taken off.
    std::fs::remove_dir_all(place.state()).expect("removed");
    assert!(matches!(place.take_over(), Err(GateError::Lost { .. })));
    assert!(Own::down_at(&place.pins(), &place.state()).expect("down"));
    assert!(!Own::is_up(&place.pins()) && !place.state().exists());
    // A state without a gate is what a restart of the machine may leave.
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    drop(gate);
    Memory::clear(&place.pins()).expect("gone");
    assert!(matches!(place.take_over(), Err(GateError::NotUp { .. })));
    let (gate, report, was_up) = Own::start(&place.config(TWO)).expect("up");
    assert!(!was_up && report.added.len() == 3);
    gate.down().expect("down");
}

#[test]
fn a_gate_elsewhere_keeps_its_state() {
    let place = Place::new();
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    drop(gate);
    let other = Config {
        pins: place.folder.path().join("other"),
        ..place.config(ONE)
    };
    let error = Own::up(&other).map(|_| ()).expect_err("it is another's");
    assert!(matches!(error, GateError::Elsewhere { .. }), "{error}");
    assert!(!Own::is_up(&other.pins));
    assert!(!Own::down_at(&other.pins, &other.state).expect("nothing there"));
    let gate = place.take_over().expect("ours");
    place.holds(gate.state());
    gate.down().expect("down");
    // Nobody's any more.
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    drop(gate);
    Memory::clear(&place.pins()).expect("gone");
    let (gate, _) = Own::up(&other).expect("up");
    gate.down().expect("down");
}

#[test]
fn what_is_set_holds_until_reset_or_the_file_says_otherwise() {
    let place = Place::new();
    let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
    let rate = |rate: u64| Setting {
        down: Some(rate),
        ..Setting::default()
    };
    gate.set("ann", &rate(5_000_000)).expect("set");
    let limits = gate.subscriber("ann").expect("there").limits;
    assert_eq!(
        (limits.down.rate, limits.up.rate),
        (Some(5_000_000), Some(20_000_000))
    );
    let lanes = gate.state().members["ann"].lanes;
    assert_eq!((lanes[0].version, lanes[1].version), (2, 1));
    place.holds(gate.state());
    // Also for those who come after us, and over reloads that change others.
    drop(gate);
    let mut gate = place.take_over().expect("ours");
    assert_eq!(setting(&gate, "ann"), Some(rate(5_000_000)));
    gate.reload(&place.config(TWO)).expect("reloaded");
    place.holds(gate.state());
    assert_eq!(rate_down(&gate, "ann"), Some(5_000_000));
    // Another plan, whose rates change in the file.
    let silver = Setting {
        plan: Some("silver".into()),
        ..Setting::default()
    };
    gate.set("ann", &silver).expect("set");
    assert_eq!(rate_down(&gate, "ann"), Some(40_000_000));
    assert_eq!(gate.subscriber("ann").expect("there").plan_name(), "silver");
    gate.reload(&place.config(&TWO.replace("40mbit", "30mbit")))
        .expect("reloaded");
    assert_eq!(rate_down(&gate, "ann"), Some(30_000_000));
    // The file says otherwise of ann.
    let other = TWO.replacen("plan = \"gold\"", "plan = \"gold\"\ndown = \"70mbit\"", 1);
    let report = gate.reload(&place.config(&other)).expect("reloaded");
    assert_eq!(report.reset, ["ann"]);
    assert_eq!(rate_down(&gate, "ann"), Some(70_000_000));
    assert_eq!(setting(&gate, "ann"), None);
    gate.set("ann", &rate(8_000_000)).expect("set");
    gate.reset("ann").expect("reset");
    assert_eq!(rate_down(&gate, "ann"), Some(70_000_000));
    assert_eq!(setting(&gate, "ann"), None);
    place.holds(gate.state());
    for (name, setting, told) in [
        (
            "anm",
            rate(1_000_000),
            "there is no subscriber `anm`, did you mean `ann`?",
        ),
        ("ann", rate(1), "1 bit/s is out of range"),
        ("ann", Setting::default(), "nothing is set"),
        (
            "ann",
            Setting {
                plan: Some("iron".into()),
                ..Setting::default()
            },
            "there is no plan `iron`",
        ),
    ] {
        let error = gate.set(name, &setting).expect_err("wrong").to_string();
        assert!(error.starts_with(told), "{error}");
    }
    gate.down().expect("down");
}

#[test]
fn many_settings_do_not_fill_the_journal_or_the_plans() {
    let place = Place::new();
    let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
    for round in 0..1100u64 {
        let down = Some(1_000_000 + round);
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
    let journal = std::fs::read_to_string(place.state().join("journal")).expect("a journal");
    assert!(journal.lines().count() <= Own::MOST_ENTRIES);
    let state = gate.state().clone();
    drop(gate);
    let gate = place.take_over().expect("ours");
    assert_eq!(gate.state().members, state.members);
    place.holds(gate.state());
}

/// Dies at each step of `act`, is taken over, and ends where it would have ended.
fn dies_everywhere(act: impl Fn(&Place, &mut Own), end: impl Fn(&Place, &mut Own)) {
    for step in 0.. {
        let place = Place::new();
        let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
        gate.set(
            "ann",
            &Setting {
                up: Some(3_000_000),
                ..Setting::default()
            },
        )
        .expect("set");
        Memory::at(&place.pins(), |own| {
            (own.left, own.deadly) = (Some(step), true)
        });
        let died = catch_unwind(AssertUnwindSafe(|| {
            act(&place, &mut gate);
        }));
        drop(gate);
        Memory::at(&place.pins(), |own| (own.left, own.deadly) = (None, false));
        let mut gate = place.take_over().expect("ours");
        place.holds(gate.state());
        assert_eq!(gate.state().members["ann"].lanes[1].version, 2);
        end(&place, &mut gate);
        place.holds(gate.state());
        drop(gate);
        Own::down_at(&place.pins(), &place.state()).expect("down");
        assert!(!place.state().exists());
        if died.is_ok() {
            assert!(step > 3, "it was to do more than {step} things");
            return;
        }
    }
}

#[test]
fn a_reload_that_is_killed_at_any_step_is_made_whole() {
    dies_everywhere(
        |place, gate| {
            gate.reload(&place.config(TWO)).expect("reloaded, or dead");
        },
        |place, gate| {
            assert!(
                gate.state().members.contains_key("dot"),
                "the change was begun"
            );
            let report = gate.reload(&place.config(TWO)).expect("reloaded");
            assert_eq!(report.unchanged, 3);
        },
    );
}

#[test]
fn a_setting_that_is_killed_at_any_step_is_made_whole() {
    dies_everywhere(
        |_, gate| {
            let setting = Setting {
                plan: Some("silver".into()),
                ..Setting::default()
            };
            gate.set("cem", &setting).expect("set, or dead");
            gate.set(
                "bob",
                &Setting {
                    down: Some(2_000_000),
                    ..Setting::default()
                },
            )
            .expect("set, or dead");
        },
        |_, gate| {
            let cem = gate.subscriber("cem").expect("there");
            assert_eq!(cem.plan.as_deref(), Some("silver"));
        },
    );
}

#[test]
fn a_reload_that_is_killed_before_it_is_written_whole_is_made_again() {
    let place = Place::new();
    let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
    gate.set(
        "ann",
        &Setting {
            up: Some(3_000_000),
            ..Setting::default()
        },
    )
    .expect("set");
    let [state, next, journal] =
        ["state.json", "next.json", "journal"].map(|name| place.state().join(name));
    let before = [&state, &journal].map(|path| std::fs::read(path).expect("a file"));
    gate.reload(&place.config(TWO)).expect("reloaded");
    let wanted = gate.state().clone();
    drop(gate);
    std::fs::rename(&state, &next).expect("renamed");
    std::fs::write(&state, &before[0]).expect("written");
    std::fs::write(&journal, &before[1]).expect("written");
    let gate = place.take_over().expect("ours");
    assert_eq!(gate.state(), &wanted);
    place.holds(gate.state());
    assert_eq!(place.files(), ["lock", "state.json"]);
}

#[test]
fn a_gate_that_is_killed_while_it_goes_up_is_made_whole_or_taken_off() {
    // Memory is fresh with each gate: die when the last attachment is made, by an interface that is
    // gone, and before the state is renamed.
    let place = Place::new();
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    let wanted = gate.state().clone();
    drop(gate);
    let [state, next] = ["state.json", "next.json"].map(|name| place.state().join(name));
    std::fs::rename(&state, &next).expect("renamed");
    Memory::at(&place.pins(), |own| {
        own.settings = None;
        own.directory.clear();
        own.plans.clear();
        own.attachments.clear();
        own.room = 0;
    });
    let gate = place.take_over().expect("ours");
    assert_eq!(gate.state(), &wanted);
    place.holds(gate.state());
    gate.down().expect("down");
    let error =
        Own::up(&place.config(&ONE.replace("eth1", "gone1"))).expect_err("no such interface");
    assert!(error.to_string().contains("no interface gone1"), "{error}");
    assert!(!Own::is_up(&place.pins()));
}

#[test]
fn a_change_that_fails_at_any_step_is_undone() {
    for step in 0.. {
        let place = Place::new();
        let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
        let before = Roster::of(gate.state());
        Memory::at(&place.pins(), |own| own.left = Some(step));
        let made = gate.reload(&place.config(TWO));
        Memory::at(&place.pins(), |own| own.left = None);
        if made.is_ok() {
            assert!(step > 10);
            place.holds(gate.state());
            return;
        }
        // Nothing more could be done, also not undone: the next change does.
        assert!(matches!(made, Err(GateError::Half { .. })), "{made:?}");
        assert!(gate.overview().unsettled);
        let report = gate.reload(&place.config(ONE)).expect("reloaded");
        assert_eq!(report.unchanged, 3);
        place.holds(gate.state());
        let after = Roster::of(gate.state());
        assert_eq!(after.subscribers.len(), before.subscribers.len());
        assert!(!gate.overview().unsettled);
        for (was, is) in before.subscribers.iter().zip(&after.subscribers) {
            assert_eq!(was.limits.down, is.limits.down);
        }
        // Or whoever comes after a kill.
        Memory::at(&place.pins(), |own| own.left = Some(step));
        let made = gate.reload(&place.config(TWO)).is_ok();
        Memory::at(&place.pins(), |own| own.left = None);
        drop(gate);
        let gate = place.take_over().expect("ours");
        assert_ne!(gate.state().members.contains_key("cem"), made);
        place.holds(gate.state());
    }
}

#[test]
fn a_setting_that_fails_at_any_step_is_undone() {
    for step in 0.. {
        for later in [false, true] {
            let place = Place::new();
            let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
            let setting = Setting {
                down: Some(2_000_000),
                up: Some(1_000_000),
                ..Setting::default()
            };
            Memory::at(&place.pins(), |own| own.left = Some(step));
            let made = gate.set("cem", &setting);
            if made.is_ok() {
                assert!(step > 3);
                place.holds(gate.state());
                return;
            }
            // Nothing more could be done, also not undone.
            assert!(matches!(made, Err(GateError::Half { .. })), "{made:?}");
            let other = gate.set("ann", &setting);
            assert!(other.is_err(), "nothing is changed before");
            let view = View::<Memory>::open(&place.state(), &place.pins()).expect("a view");
            assert_eq!(
                all_read(view.state(), view.path()),
                all_read(gate.state(), gate.path())
            );
            assert_eq!(view.overview(), gate.overview());
            assert!(view.is_unsettled() && gate.is_unsettled());
            Memory::at(&place.pins(), |own| own.left = None);
            let gate = if later {
                drop(gate);
                place.take_over().expect("ours")
            } else {
                gate.set("ann", &setting).expect("set");
                gate
            };
            assert!(!gate.is_unsettled());
            place.holds(gate.state());
            let cem = gate.subscriber("cem").expect("there");
            assert_eq!((cem.set, cem.limits.down.rate), (false, Some(100_000_000)));
            let version = gate.state().members["cem"].lanes[0].version;
            assert!(version > 1, "limiters may have followed");
            assert!(!place.state().join("undo.json").exists());
            // Plans that only it brought are not kept.
            let plans = gate.state().plans.contents().len();
            assert_eq!(plans, if later { 4 } else { 6 });
            let state = gate.state().clone();
            drop(gate);
            let gate = place.take_over().expect("ours");
            assert_eq!(gate.state().members, state.members);
            place.holds(gate.state());
        }
    }
}

#[test]
fn an_interface_that_refuses_undoes_the_change_at_once() {
    let place = Place::new();
    let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
    Memory::at(&place.pins(), |own| own.gone.insert("eth2".into()));
    let error = gate
        .reload(&place.config(TWO))
        .expect_err("eth2 refuses")
        .to_string();
    assert_eq!(error, "attaching to eth2: no interface eth2");
    place.holds(gate.state());
    assert!(gate.state().members.contains_key("cem"));
    // It is there again.
    Memory::at(&place.pins(), |own| own.gone.clear());
    gate.reload(&place.config(TWO)).expect("reloaded");
    place.holds(gate.state());
}

#[test]
fn a_torn_line_of_the_journal_was_not_begun() {
    let place = Place::new();
    let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
    gate.set(
        "bob",
        &Setting {
            down: Some(2_000_000),
            ..Setting::default()
        },
    )
    .expect("set");
    let path = place.state().join("journal");
    let whole = std::fs::read(&path).expect("a journal");
    gate.set(
        "bob",
        &Setting {
            down: Some(4_000_000),
            ..Setting::default()
        },
    )
    .expect("set");
    let both = std::fs::read(&path).expect("a journal");
    drop(gate);
    for cut in [whole.len(), whole.len() + 1, both.len() - 2] {
        std::fs::write(&path, &both[..cut]).expect("written");
        let mut gate = place.take_over().expect("ours");
        assert_eq!(rate_down(&gate, "bob"), Some(2_000_000));
        gate.set(
            "ann",
            &Setting {
                down: Some(9_000_000),
                ..Setting::default()
            },
        )
        .expect("set");
        drop(gate);
        let gate = place.take_over().expect("ours");
        assert_eq!(rate_down(&gate, "ann"), Some(9_000_000), "cut {cut}");
    }
}

#[test]
fn a_folder_that_others_write_in_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::create_dir(place.state()).expect("a folder");
    std::fs::set_permissions(place.state(), std::fs::Permissions::from_mode(0o777)).expect("set");
    let error = Own::up(&place.config(ONE))
        .map(|_| ())
        .expect_err("anybody's")
        .to_string();
    assert!(
        error.ends_with("others may write in this folder: give it mode 0700, or another one"),
        "{error}"
    );
    std::fs::remove_dir(place.state()).expect("removed");
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    let mode = |name: &str| {
        std::fs::metadata(place.state().join(name))
            .expect("there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode(""), mode("state.json"), mode("lock")),
        (0o700, 0o600, 0o600)
    );
    gate.down().expect("down");
}

#[test]
fn files_of_the_state_keep_their_format() {
    fn same<T: serde::de::DeserializeOwned + serde::Serialize>(text: &str) {
        let read: T = serde_json::from_str(text).expect("of the format");
        let written = serde_json::to_string(&read).expect("written");
        assert_eq!(written, text.trim_end());
    }
    same::<State>(include_str!("../../tests/state.json"));
    same::<Entry>(include_str!("../../tests/journal"));
}

#[test]
fn files_that_are_none_are_told() {
    let place = Place::new();
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    drop(gate);
    let path = place.state().join("state.json");
    let text = std::fs::read_to_string(&path).expect("a state");
    for wrong in [
        "",
        "{}",
        "[1]",
        &text[..text.len() / 2],
        &text.replace("\"format\":1", "\"format\":9"),
    ] {
        std::fs::write(&path, wrong).expect("written");
        let error = place.take_over().map(|_| ()).expect_err("it is none");
        assert!(matches!(error, GateError::Corrupt { .. }), "{error}");
    }
    assert!(Own::down_at(&place.pins(), &place.state()).expect("down"));
}

#[test]
fn a_change_that_is_killed_while_it_is_undone_is_undone_by_whoever_comes() {
    let mut killed = 0;
    for step in 1.. {
        let place = Place::new();
        let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
        Memory::at(&place.pins(), |own| {
            own.gone.insert("eth2".into());
            (own.left, own.deadly) = (Some(step), true);
        });
        let made = catch_unwind(AssertUnwindSafe(|| gate.reload(&place.config(TWO))));
        drop(gate);
        let undoing = place.state().join("undo.json").exists();
        Memory::at(&place.pins(), |own| {
            own.gone.clear();
            (own.left, own.deadly) = (None, false);
        });
        let undone = made.is_ok();
        killed += usize::from(undoing);
        // As if it had died after the state before was written, or when `next.json` was, too.
        if undoing && step % 2 == 0 {
            let next = place.state().join("next.json");
            std::fs::rename(next, place.state().join("state.json")).expect("renamed");
        }
        let gate = place.take_over().expect("ours");
        place.holds(gate.state());
        let back = undoing || undone;
        assert_eq!(
            gate.state().members.contains_key("cem"),
            back,
            "step {step}"
        );
        assert_eq!(place.files(), ["lock", "state.json"]);
        if undone {
            assert!(killed > 5, "it was to undo more than {killed} things");
            return;
        }
    }
}

#[test]
fn a_change_that_cannot_be_written_is_undone_as_soon_as_it_can() {
    let place = Place::new();
    for later in [false, true] {
        let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
        // Nothing can take this name.
        let state = place.state().join("state.json");
        std::fs::remove_file(&state).expect("removed");
        std::fs::create_dir(&state).expect("a folder");
        let made = gate.reload(&place.config(TWO));
        assert!(matches!(made, Err(GateError::Half { .. })), "{made:?}");
        assert!(gate.is_unsettled() && gate.state().members.contains_key("cem"));
        assert!(gate.reset("ann").is_err(), "nothing is changed before");
        std::fs::remove_dir(&state).expect("removed");
        let gate = if later {
            drop(gate);
            place.take_over().expect("ours")
        } else {
            gate.reset("ann").expect("reset");
            gate
        };
        assert!(!gate.is_unsettled() && gate.state().members.contains_key("cem"));
        place.holds(gate.state());
        assert!(!place.state().join("undo.json").exists());
        gate.down().expect("down");
    }
}

#[test]
fn a_place_that_cannot_be_healed_says_why() {
    let place = Place::new();
    let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
    Memory::at(&place.pins(), |own| {
        own.attachments.clear();
        own.gone.insert("eth1".into());
    });
    let missing = Missing {
        interface: "eth1".into(),
        why: "no interface eth1".into(),
    };
    assert_eq!(gate.heal(), [missing]);
    Memory::at(&place.pins(), |own| own.gone.clear());
    assert_eq!(gate.heal(), []);
    place.holds(gate.state());
}

#[test]
fn a_place_that_refuses_does_not_keep_others_from_being_changed() {
    let place = Place::new();
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    drop(gate);
    // It went away and is back, with somebody else's program on it.
    let set_busy = |busy| {
        Memory::at(&place.pins(), |own| {
            own.attachments.retain(|own| own.interface != "eth0");
            own.gone = if busy {
                ["eth0".into()].into()
            } else {
                [].into()
            };
        })
    };
    set_busy(true);
    let (mut gate, report, _) = Own::start(&place.config(ONE)).expect("ours");
    assert_eq!(report.missing, ["eth0"]);
    let report = gate.reload(&place.config(TWO)).expect("reloaded");
    assert_eq!(report.missing, ["eth0"]);
    assert_eq!(report.attached.len(), 1, "{:?}", report.attached);
    gate.reset("ann").expect("reset");
    // A change that fails is undone all the same.
    Memory::at(&place.pins(), |own| own.gone.insert("eth1".into()));
    gate.reload(&place.config(ONE)).expect_err("eth1 refuses");
    assert!(!gate.is_unsettled());
    set_busy(false);
    let report = gate.reload(&place.config(TWO)).expect("reloaded");
    assert!(report.missing.is_empty());
    assert_eq!(report.attached[0].interface, "eth0");
    place.holds(gate.state());
}

#[test]
fn a_killed_change_whose_rest_cannot_be_done_is_undone() {
    for step in 0.. {
        let place = Place::new();
        let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
        Memory::at(&place.pins(), |own| {
            (own.left, own.deadly) = (Some(step), true)
        });
        let died = catch_unwind(AssertUnwindSafe(|| gate.reload(&place.config(TWO))));
        drop(gate);
        if died.is_ok() {
            assert!(step > 10);
            return;
        }
        Memory::at(&place.pins(), |own| {
            (own.left, own.deadly) = (None, false);
            own.gone.insert("eth2".into());
        });
        let mut gate = place.take_over().expect("ours");
        assert!(!gate.is_unsettled() && gate.state().members.contains_key("cem"));
        place.holds(gate.state());
        gate.reset("cem").expect("reset");
        assert_eq!(place.files(), ["journal", "lock", "state.json"]);
    }
}

#[test]
fn a_gate_that_was_killed_while_it_went_up_and_cannot_be_made_whole_is_taken_off() {
    let place = Place::new();
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    drop(gate);
    let [state, next] = ["state.json", "next.json"].map(|name| place.state().join(name));
    std::fs::rename(&state, &next).expect("renamed");
    Memory::at(&place.pins(), |own| {
        own.attachments.clear();
        own.gone.insert("eth1".into());
    });
    assert!(matches!(place.take_over(), Err(GateError::NotUp { .. })));
    assert!(!Own::is_up(&place.pins()) && !place.state().exists());
}

#[test]
fn what_a_kill_left_and_cannot_be_done_at_once_is_done_with_the_next_change() {
    let down = Some(2_000_000);
    let setting = Setting {
        down,
        ..Setting::default()
    };
    let left = |place: &Place, left, deadly| {
        Memory::at(&place.pins(), |own| (own.left, own.deadly) = (left, deadly))
    };
    // A line of the journal, and a change that could not be undone either.
    for deadly in [true, false] {
        let place = Place::new();
        let (mut gate, _) = Own::up(&place.config(ONE)).expect("up");
        left(&place, Some(0), deadly);
        let set = catch_unwind(AssertUnwindSafe(|| gate.set("bob", &setting)));
        assert_eq!(set.is_err(), deadly);
        drop(gate);
        left(&place, Some(0), false);
        let mut gate = place.take_over().expect("ours");
        assert!(gate.is_unsettled() && gate.reset("ann").is_err());
        left(&place, None, false);
        gate.reset("ann").expect("reset");
        assert!(!gate.is_unsettled());
        place.holds(gate.state());
        let bob = gate.subscriber("bob").expect("there");
        assert_eq!(bob.set, deadly);
        let state = gate.state().clone();
        drop(gate);
        let gate = place.take_over().expect("ours");
        assert_eq!(gate.state().members, state.members);
        place.holds(gate.state());
    }
}

#[test]
fn what_is_stuck_does_not_keep_the_rest_from_being_taken_off() {
    let place = Place::new();
    let (gate, _) = Own::up(&place.config(ONE)).expect("up");
    drop(gate);
    Memory::at(&place.pins(), |own| own.stuck = true);
    let error = Own::down_at(&place.pins(), &place.state()).expect_err("it is stuck");
    assert!(
        error.to_string().ends_with("a part of it is stuck"),
        "{error}"
    );
    assert!(!place.state().exists());
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_links_are_not_followed() {
    let place = Place::new();
    std::fs::create_dir(place.state()).expect("a folder");
    let elsewhere = place.folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "theirs").expect("written");
    for name in ["lock", "next.json.new"] {
        let link = place.state().join(name);
        std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
        let made = Own::up(&place.config(ONE)).map(|_| ());
        // What is left of files is removed first, links themselves among them.
        assert_eq!(made.is_err(), name == "lock", "{made:?}");
        let text = std::fs::read_to_string(&elsewhere).expect("there");
        assert_eq!(text, "theirs", "{name}");
        let _ = std::fs::remove_file(link);
    }
    let mut gate = place.take_over().expect("ours");
    for name in ["next.json.new", "journal"] {
        std::os::unix::fs::symlink(&elsewhere, place.state().join(name)).expect("a link");
        let made = match name {
            "journal" => {
                let down = Some(2_000_000);
                let setting = Setting {
                    down,
                    ..Setting::default()
                };
                gate.set("bob", &setting).map(|_| ())
            }
            _ => gate.reload(&place.config(TWO)).map(|_| ()),
        };
        let error = made.expect_err("a link").to_string();
        assert!(error.contains("symbolic link"), "{error}");
        let text = std::fs::read_to_string(&elsewhere).expect("there");
        assert_eq!(text, "theirs", "{name}");
    }
    drop(gate);
    Own::down_at(&place.pins(), &place.state()).expect("down");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::fs::create_dir(place.state()).expect("a folder");
    std::os::unix::fs::chown(place.state(), Some(12345), None).expect("given away");
    let error = Own::up(&place.config(ONE)).map(|_| ()).expect_err("theirs");
    assert!(
        error.to_string().contains("this folder is user 12345's"),
        "{error}"
    );
}
