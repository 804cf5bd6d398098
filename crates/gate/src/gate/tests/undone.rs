//! A change that fails is undone, and interfaces that refuse are tried again.

use super::*;

#[test]
fn a_change_that_fails_at_any_step_is_undone() {
    for step in 0.. {
        let site = Site::new();
        let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
        let before = Roster::of(gate.state());
        Memory::at(site.pins(), |memory| memory.left = Some(step));
        let made = gate.reload(&site.config(&TWO));
        Memory::at(site.pins(), |memory| memory.left = None);
        if made.is_ok() {
            assert!(step > 10);
            site.holds(gate.state());
            return;
        }
        // No further change succeeds, so it is not undone either: the next change undoes it.
        assert!(matches!(made, Err(GateError::Half { .. })), "{made:?}");
        assert!(gate.overview().unsettled);
        let report = gate.reload(&site.config(&ONE)).expect("reloaded");
        assert_eq!(report.unchanged, 3);
        site.holds(gate.state());
        let after = Roster::of(gate.state());
        assert_eq!(after.subscribers.len(), before.subscribers.len());
        assert!(!gate.overview().unsettled);
        for (was, is) in before.subscribers.iter().zip(&after.subscribers) {
            assert_eq!(was.limits.down, is.limits.down);
        }
        // Or the process that takes over after a kill undoes it.
        Memory::at(site.pins(), |memory| memory.left = Some(step));
        let made = gate.reload(&site.config(&TWO)).is_ok();
        Memory::at(site.pins(), |memory| memory.left = None);
        drop(gate);
        let gate = site.take_over().expect("ours");
        assert_ne!(gate.state().members.contains_key("cem"), made);
        site.holds(gate.state());
    }
}

#[test]
fn an_address_without_room_is_refused_and_nothing_is_written() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    let assign = |gate: &mut Own, text: &str| {
        let what = crate::matches::read(text).expect("a prefix")[0];
        gate.adjust("bob", None, &[MatchChange::Assign(what)])
    };
    // The file has addresses of the length 32 alone.
    for length in 17..32 {
        assign(&mut gate, &format!("10.{length}.0.0/{length}")).expect("there is room");
    }
    let before = (gate.state().clone(), site.files());
    let journal = std::fs::read(site.state().join("journal")).expect("a journal");
    Memory::at(site.pins(), |memory| memory.log.clear());
    let refused = assign(&mut gate, "10.0.0.0/16").expect_err("no room");
    assert!(matches!(&refused, GateError::Setting(_)), "{refused}");
    assert!(
        refused
            .to_string()
            .starts_with("10.0.0.0/16 cannot be assigned: ")
    );
    assert_eq!((gate.state().clone(), site.files()), before);
    assert_eq!(
        std::fs::read(site.state().join("journal")).expect("a journal"),
        journal
    );
    let log = Memory::at(site.pins(), |memory| memory.log.clone()).expect("there");
    assert!(log.is_empty(), "{log:?}");
    // A length that is in use has room.
    assign(&mut gate, "10.200.0.0/17").expect("there is room");
    site.holds(gate.state());
}

#[test]
fn a_setting_that_fails_at_any_step_is_undone() {
    for step in 0.. {
        for later in [false, true] {
            let site = Site::new();
            let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
            let setting = Setting {
                down: Some(Rate::from_bits_per_second(2_000_000)),
                up: Some(Rate::from_bits_per_second(1_000_000)),
                ..Setting::default()
            };
            Memory::at(site.pins(), |memory| memory.left = Some(step));
            let made = gate.set("cem", &setting);
            if made.is_ok() {
                assert!(step > 3);
                site.holds(gate.state());
                return;
            }
            // No further change succeeds, so it is not undone either.
            assert!(matches!(made, Err(GateError::Half { .. })), "{made:?}");
            let other = gate.set("alice", &setting);
            assert!(other.is_err(), "nothing is changed before");
            let view = View::<Memory>::open(site.folders()).expect("a view");
            assert_eq!(
                all_read(view.state(), view.path()),
                all_read(gate.state(), gate.path())
            );
            assert_eq!(view.overview(), gate.overview());
            assert!(view.is_unsettled() && gate.is_unsettled());
            Memory::at(site.pins(), |memory| memory.left = None);
            let gate = if later {
                drop(gate);
                site.take_over().expect("ours")
            } else {
                gate.set("alice", &setting).expect("set");
                gate
            };
            assert!(!gate.is_unsettled());
            site.holds(gate.state());
            let cem = gate.subscriber("cem").expect("there");
            assert_eq!((cem.set, cem.limits.down.rate), (false, Some(50_000_000)));
            let version = gate.state().members["cem"].lanes.down.version;
            assert!(version > 1, "limiters may have followed");
            assert!(!site.state().join("undo.json").exists());
            // Plans of the failed change alone are not kept.
            let plans = gate.state().plans.contents().len();
            assert_eq!(plans, if later { 4 } else { 6 });
            let state = gate.state().clone();
            drop(gate);
            let gate = site.take_over().expect("ours");
            assert_eq!(gate.state().members, state.members);
            site.holds(gate.state());
        }
    }
}

#[test]
fn an_interface_that_refuses_undoes_the_change_at_once() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    Memory::at(site.pins(), |memory| memory.gone.insert("eth2".into()));
    let error = gate
        .reload(&site.config(&TWO))
        .expect_err("eth2 refuses")
        .to_string();
    assert_eq!(error, "attaching to eth2: no interface eth2");
    site.holds(gate.state());
    assert!(gate.state().members.contains_key("cem"));
    // It is there again.
    Memory::at(site.pins(), |memory| memory.gone.clear());
    gate.reload(&site.config(&TWO)).expect("reloaded");
    site.holds(gate.state());
}

#[test]
fn an_interface_stays_attached_if_the_other_way_is_refused() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    let other = ONE.replace("\"eth0\"", "\"eth0\"\nhook = \"xdp\"");
    Memory::at(site.pins(), |memory| {
        memory.gone.insert("eth0".into());
        memory.log.clear();
    });
    gate.reload(&site.config(&other)).expect_err("eth0 refuses");
    let log = Memory::at(site.pins(), |memory| memory.log.clone()).expect("a log");
    assert!(!log.contains(&"detach eth0".to_owned()), "{log:?}");
    site.holds(gate.state());
    Memory::at(site.pins(), |memory| memory.gone.clear());
    gate.reload(&site.config(&other)).expect("reloaded");
    site.holds(gate.state());
}

#[test]
fn a_change_that_cannot_be_written_is_undone_as_soon_as_it_can() {
    let site = Site::new();
    for later in [false, true] {
        let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
        // This name cannot be used.
        let state = site.state().join("state.json");
        std::fs::remove_file(&state).expect("removed");
        std::fs::create_dir(&state).expect("a folder");
        let made = gate.reload(&site.config(&TWO));
        assert!(matches!(made, Err(GateError::Half { .. })), "{made:?}");
        assert!(gate.is_unsettled() && gate.state().members.contains_key("cem"));
        assert!(gate.reset("alice").is_err(), "nothing is changed before");
        std::fs::remove_dir(&state).expect("removed");
        let gate = if later {
            drop(gate);
            site.take_over().expect("ours")
        } else {
            gate.reset("alice").expect("reset");
            gate
        };
        assert!(!gate.is_unsettled() && gate.state().members.contains_key("cem"));
        site.holds(gate.state());
        assert!(!site.state().join("undo.json").exists());
        gate.down().expect("down");
    }
}

#[test]
fn a_place_that_cannot_be_healed_says_why() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    Memory::at(site.pins(), |memory| {
        memory.attachments.clear();
        memory.gone.insert("eth1".into());
    });
    let missing = Missing {
        interface: "eth1".into(),
        why: "no interface eth1".into(),
    };
    assert_eq!(gate.heal(), [missing]);
    Memory::at(site.pins(), |memory| memory.gone.clear());
    assert_eq!(gate.heal(), []);
    site.holds(gate.state());
}

#[test]
fn a_place_that_refuses_does_not_keep_others_from_being_changed() {
    let site = Site::new();
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    drop(gate);
    // The interface was deleted and made again, and another program is attached to it.
    let set_busy = |busy| {
        Memory::at(site.pins(), |memory| {
            memory
                .attachments
                .retain(|attached| attached.interface != "eth0");
            memory.gone = if busy {
                ["eth0".into()].into()
            } else {
                [].into()
            };
        })
    };
    set_busy(true);
    let (mut gate, report, _) = Own::start(&site.config(&ONE)).expect("ours");
    assert_eq!(report.missing, ["eth0"]);
    let report = gate.reload(&site.config(&TWO)).expect("reloaded");
    assert_eq!(report.missing, ["eth0"]);
    assert_eq!(report.attached.len(), 1, "{:?}", report.attached);
    gate.reset("alice").expect("reset");
    // The failed change is still undone.
    Memory::at(site.pins(), |memory| memory.gone.insert("eth1".into()));
    gate.reload(&site.config(&ONE)).expect_err("eth1 refuses");
    assert!(!gate.is_unsettled());
    set_busy(false);
    let report = gate.reload(&site.config(&TWO)).expect("reloaded");
    assert!(report.missing.is_empty());
    assert_eq!(report.attached[0].interface, "eth0");
    site.holds(gate.state());
}
