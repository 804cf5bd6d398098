//! A process that is killed at any step of a change: the next one completes it or undoes it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// The process dies at each step of `act`. The next one takes over, and must reach the same end.
fn dies_everywhere(act: impl Fn(&Site, &mut Own), end: impl Fn(&Site, &mut Own)) {
    for step in 0.. {
        let site = Site::new();
        let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
        gate.set(
            "alice",
            &Setting {
                up: Some(Rate::from_bits_per_second(3_000_000)),
                ..Setting::default()
            },
        )
        .expect("set");
        Memory::at(site.pins(), |memory| {
            (memory.left, memory.deadly) = (Some(step), true)
        });
        let died = catch_unwind(AssertUnwindSafe(|| {
            act(&site, &mut gate);
        }));
        drop(gate);
        Memory::at(site.pins(), |memory| {
            (memory.left, memory.deadly) = (None, false)
        });
        let mut gate = site.take_over().expect("ours");
        site.holds(gate.state());
        assert_eq!(gate.state().members["alice"].lanes.up.version, 2);
        end(&site, &mut gate);
        site.holds(gate.state());
        drop(gate);
        Own::down_at(site.folders()).expect("down");
        assert!(!site.state().exists());
        if died.is_ok() {
            assert!(step > 3, "it was to do more than {step} things");
            return;
        }
    }
}

#[test]
fn a_reload_that_is_killed_at_any_step_is_made_whole() {
    dies_everywhere(
        |site, gate| {
            gate.reload(&site.config(&TWO)).expect("reloaded, or dead");
        },
        |site, gate| {
            assert!(
                gate.state().members.contains_key("dot"),
                "the change was begun"
            );
            let report = gate.reload(&site.config(&TWO)).expect("reloaded");
            assert_eq!(report.unchanged, 3);
        },
    );
}

#[test]
fn a_setting_that_is_killed_at_any_step_is_made_whole() {
    dies_everywhere(
        |_, gate| {
            let setting = Setting {
                plan: Some("basic".into()),
                ..Setting::default()
            };
            gate.set("cem", &setting).expect("set, or dead");
            gate.set(
                "bob",
                &Setting {
                    down: Some(Rate::from_bits_per_second(2_000_000)),
                    ..Setting::default()
                },
            )
            .expect("set, or dead");
        },
        |_, gate| {
            let cem = gate.subscriber("cem").expect("there");
            assert_eq!(cem.plan.as_deref(), Some("basic"));
        },
    );
}

#[test]
fn a_reload_that_is_killed_before_it_is_written_whole_is_made_again() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    gate.set(
        "alice",
        &Setting {
            up: Some(Rate::from_bits_per_second(3_000_000)),
            ..Setting::default()
        },
    )
    .expect("set");
    let [state, next, journal] =
        ["state.json", "next.json", "journal"].map(|name| site.state().join(name));
    let before = [&state, &journal].map(|path| std::fs::read(path).expect("a file"));
    gate.reload(&site.config(&TWO)).expect("reloaded");
    let wanted = gate.state().clone();
    drop(gate);
    std::fs::rename(&state, &next).expect("renamed");
    std::fs::write(&state, &before[0]).expect("written");
    std::fs::write(&journal, &before[1]).expect("written");
    let gate = site.take_over().expect("ours");
    assert_eq!(gate.state(), &wanted);
    site.holds(gate.state());
    assert_eq!(site.files(), ["lock", "state.json"]);
}

#[test]
fn a_gate_that_is_killed_while_it_goes_up_is_made_whole_or_taken_off() {
    // Each gate has new memory. Die when the last attachment is made, at an interface that is gone,
    // before the state is renamed.
    let site = Site::new();
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    let wanted = gate.state().clone();
    drop(gate);
    let [state, next] = ["state.json", "next.json"].map(|name| site.state().join(name));
    std::fs::rename(&state, &next).expect("renamed");
    Memory::at(site.pins(), |memory| {
        memory.settings = None;
        memory.directory.clear();
        memory.plans.clear();
        memory.attachments.clear();
        memory.room = 0;
    });
    let gate = site.take_over().expect("ours");
    assert_eq!(gate.state(), &wanted);
    site.holds(gate.state());
    gate.down().expect("down");
    let error =
        Own::up(&site.config(&ONE.replace("eth1", "gone1"))).expect_err("no such interface");
    assert!(error.to_string().contains("no interface gone1"), "{error}");
    assert!(!Own::is_up(site.pins()));
}

#[test]
fn a_change_that_is_killed_while_it_is_undone_is_undone_by_whoever_comes() {
    let mut killed = 0;
    for step in 1.. {
        let site = Site::new();
        let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
        Memory::at(site.pins(), |memory| {
            memory.gone.insert("eth2".into());
            (memory.left, memory.deadly) = (Some(step), true);
        });
        let made = catch_unwind(AssertUnwindSafe(|| gate.reload(&site.config(&TWO))));
        drop(gate);
        let undoing = site.state().join("undo.json").exists();
        Memory::at(site.pins(), |memory| {
            memory.gone.clear();
            (memory.left, memory.deadly) = (None, false);
        });
        let undone = made.is_ok();
        killed += usize::from(undoing);
        // As if it had died after it wrote the state before, or after it wrote `next.json` too.
        if undoing && step % 2 == 0 {
            let next = site.state().join("next.json");
            std::fs::rename(next, site.state().join("state.json")).expect("renamed");
        }
        let gate = site.take_over().expect("ours");
        site.holds(gate.state());
        let back = undoing || undone;
        assert_eq!(
            gate.state().members.contains_key("cem"),
            back,
            "step {step}"
        );
        assert_eq!(site.files(), ["lock", "state.json"]);
        if undone {
            assert!(killed > 5, "it was to undo more than {killed} things");
            return;
        }
    }
}

#[test]
fn a_killed_change_whose_rest_cannot_be_done_is_undone() {
    for step in 0.. {
        let site = Site::new();
        let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
        Memory::at(site.pins(), |memory| {
            (memory.left, memory.deadly) = (Some(step), true)
        });
        let died = catch_unwind(AssertUnwindSafe(|| gate.reload(&site.config(&TWO))));
        drop(gate);
        if died.is_ok() {
            assert!(step > 10);
            return;
        }
        Memory::at(site.pins(), |memory| {
            (memory.left, memory.deadly) = (None, false);
            memory.gone.insert("eth2".into());
        });
        let mut gate = site.take_over().expect("ours");
        assert!(!gate.is_unsettled() && gate.state().members.contains_key("cem"));
        site.holds(gate.state());
        gate.reset("cem").expect("reset");
        assert_eq!(site.files(), ["journal", "lock", "state.json"]);
    }
}

#[test]
fn a_gate_that_was_killed_while_it_went_up_and_cannot_be_made_whole_is_taken_off() {
    let site = Site::new();
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    drop(gate);
    let [state, next] = ["state.json", "next.json"].map(|name| site.state().join(name));
    std::fs::rename(&state, &next).expect("renamed");
    Memory::at(site.pins(), |memory| {
        memory.attachments.clear();
        memory.gone.insert("eth1".into());
    });
    assert!(matches!(site.take_over(), Err(GateError::NotUp { .. })));
    assert!(!Own::is_up(site.pins()) && !site.state().exists());
}

#[test]
fn what_a_kill_left_and_cannot_be_done_at_once_is_done_with_the_next_change() {
    let down = Some(Rate::from_bits_per_second(2_000_000));
    let setting = Setting {
        down,
        ..Setting::default()
    };
    let left = |site: &Site, left, deadly| {
        Memory::at(site.pins(), |memory| {
            (memory.left, memory.deadly) = (left, deadly)
        })
    };
    // A line of the journal, and a change that could not be undone either.
    for deadly in [true, false] {
        let site = Site::new();
        let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
        left(&site, Some(0), deadly);
        let set = catch_unwind(AssertUnwindSafe(|| gate.set("bob", &setting)));
        assert_eq!(set.is_err(), deadly);
        drop(gate);
        left(&site, Some(0), false);
        let mut gate = site.take_over().expect("ours");
        assert!(gate.is_unsettled() && gate.reset("alice").is_err());
        left(&site, None, false);
        gate.reset("alice").expect("reset");
        assert!(!gate.is_unsettled());
        site.holds(gate.state());
        let bob = gate.subscriber("bob").expect("there");
        assert_eq!(bob.set, deadly);
        let state = gate.state().clone();
        drop(gate);
        let gate = site.take_over().expect("ours");
        assert_eq!(gate.state().members, state.members);
        site.holds(gate.state());
    }
}
