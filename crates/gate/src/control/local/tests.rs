use tidegate_limiter::PolicyTree;

use super::*;
use crate::binding::Binding;
use crate::config::plan_key;
use crate::control::{SharedGate, inspect};
use crate::limits::Boost;
use crate::memory::Memory;
use crate::testing::Site;

fn up(site: &Site) -> LocalGate<Memory> {
    site.write(Site::FILE);
    let config = Config::read(&site.file()).expect("a configuration");
    LocalGate::held(Gate::up(&config).expect("up").0)
}

fn rates(gate: &mut LocalGate<Memory>, name: &str) -> (String, [Option<u64>; 2]) {
    let one = gate.subscriber(name).expect("there");
    let rates = [one.limits.down.rate, one.limits.up.rate];
    (one.plan_name().to_owned(), rates)
}

#[test]
fn settings_add_up_until_they_are_reset() {
    let site = Site::new();
    let mut gate = up(&site);
    let mut set = |adjustment: Adjustment| {
        gate.set("alice", &adjustment)?;
        Ok::<_, ControlError>(rates(&mut gate, "alice"))
    };
    let rate = |text: &str| Some(text.parse().expect("a rate"));
    let none = Adjustment::default;
    let only = |setting: Setting| Adjustment { setting, ..none() };
    let mbit = |down: u64, up: u64| [Some(down * 1_000_000), Some(up * 1_000_000)];

    let down = only(Setting {
        down: rate("20mbit"),
        ..Setting::default()
    });
    assert_eq!(
        set(down.clone()).expect("set"),
        ("gold".into(), mbit(20, 10))
    );
    let up = only(Setting {
        up: rate("5mbit"),
        ..Setting::default()
    });
    assert_eq!(set(up).expect("set"), ("gold".into(), mbit(20, 5)));
    let plan = only(Setting {
        plan: Some("basic".into()),
        ..Setting::default()
    });
    assert_eq!(
        set(plan.clone()).expect("set"),
        ("basic".into(), mbit(20, 5))
    );
    let again = Adjustment {
        reset: true,
        ..plan
    };
    assert_eq!(set(again).expect("set").1, [Some(10_000_000), None]);
    let reset = Adjustment {
        reset: true,
        ..none()
    };
    assert_eq!(set(reset).expect("reset"), ("gold".into(), mbit(50, 10)));

    let lead = only(Setting {
        plan: Some("lead".into()),
        ..Setting::default()
    });
    assert!(matches!(set(lead), Err(ControlError::Invalid(_))));
    assert!(matches!(set(none()), Err(ControlError::Invalid(_))));
    let unknown = gate.set("alise", &down);
    let Err(ControlError::Unknown(text)) = unknown else {
        panic!("{unknown:?}");
    };
    assert!(text.contains("alice"), "{text}");
}

/// Otherwise 100,000 subscribers would be read anew several times a second.
#[test]
fn what_the_other_gate_of_a_pair_asks_for_drops_nothing_that_was_read() {
    let site = Site::new();
    let gate = SharedGate::new(Box::new(up(&site)));
    let roster = || gate.reading().expect("a reading").roster.clone();
    let first = roster();
    let hash = gate.pair(|gate| Ok(gate.hash())).expect("told");
    gate.pair(|gate| gate.set_hash(hash)).expect("set");
    gate.pair(|gate| gate.export(1)).expect("told");
    let mut change = SharedChange {
        name: "alice".into(),
        stamp: 7,
        setting: Some(Setting {
            plan: Some("basic".into()),
            ..Setting::default()
        }),
        matches: None,
    };
    let plan = |roster: &Roster| roster.subscribers[0].plan_name().to_owned();
    assert!(Arc::ptr_eq(&first, &roster()));
    assert!(gate.adopt(&change).expect("made"));
    let second = roster();
    assert_eq!(
        (plan(&first), plan(&second)),
        ("gold".into(), "basic".into())
    );
    // It is known already.
    assert!(!gate.adopt(&change).expect("known"));
    assert!(Arc::ptr_eq(&second, &roster()));
    (change.stamp, change.setting) = (8, None);
    assert!(gate.adopt(&change).expect("made"));
    assert_eq!(plan(&roster()), "gold");
}

/// As for circuits of LibreQoS, whose plan has no rates.
#[test]
fn a_plan_without_rates_leaves_a_subscriber_its_own() {
    let site = Site::new();
    site.write(
        "[[interface]]
        name = \"wan\"
        side = \"core\"
        [plan.circuit]
        [plan.slow]
        down = \"1mbit\"
        [[subscriber]]
        name = \"alice\"
        plan = \"circuit\"
        addresses = \"192.0.2.1\"
        down = \"60mbit\"
        up = \"20mbit\"",
    );
    let config = Config::read(&site.file()).expect("a configuration");
    let mut gate = LocalGate::held(Gate::<Memory>::up(&config).expect("up").0);
    for (plan, expected) in [
        ("circuit", [Some(60_000_000), Some(20_000_000)]),
        ("slow", [Some(1_000_000), Some(20_000_000)]),
    ] {
        let setting = Setting {
            plan: Some(plan.into()),
            ..Setting::default()
        };
        let adjustment = Adjustment {
            reset: true,
            setting,
            ..Adjustment::default()
        };
        gate.set("alice", &adjustment).expect("set");
        assert_eq!(rates(&mut gate, "alice").1, expected, "{plan}");
    }
}

/// As when an access server changes a plan by RADIUS.
#[test]
fn rates_end_without_the_rest_of_a_live_change() {
    let site = Site::new();
    site.write(&(Site::FILE.to_owned() + "suspended = true\n"));
    let config = Config::read(&site.file()).expect("a configuration");
    let mut gate = LocalGate::held(Gate::<Memory>::up(&config).expect("up").0);
    let keys = [
        "boost=5s",
        "down={ rate = \"70mbit\", rtt = \"50ms\" }",
        "up=7mbit",
    ];
    let from = BindingChange {
        mac: Some("02:00:00:00:00:07".into()),
        ..BindingChange::default()
    };
    let before = Adjustment {
        setting: Setting {
            down: Some("3mbit".parse().expect("a rate")),
            suspended: Some(false),
            keys: keys
                .map(|text| plan_key(text).expect("a key"))
                .into_iter()
                .collect(),
            ..Setting::default()
        },
        from,
        ..Adjustment::default()
    };
    gate.set("bob", &before).expect("set");
    let binding = gate.subscriber("bob").expect("there").from;
    assert_ne!(binding, Binding::default());
    assert_eq!(
        rates(&mut gate, "bob").1,
        [Some(3_000_000), Some(7_000_000)]
    );
    let plan = Adjustment {
        setting: Setting {
            plan: Some("gold".into()),
            ..Setting::default()
        },
        reset_rates: true,
        ..Adjustment::default()
    };
    gate.set("bob", &plan).expect("set");
    assert_eq!(
        rates(&mut gate, "bob"),
        ("gold".into(), [Some(50_000_000), Some(10_000_000)])
    );
    let bob = gate.subscriber("bob").expect("there");
    assert!(!bob.suspended);
    assert_eq!(bob.from, binding);
    let kept = ["boost=5s", "down={ rtt = \"50ms\" }"];
    let kept = kept.map(|text| plan_key(text).expect("a key"));
    assert_eq!(bob.keys, Some(kept.into_iter().collect()));
}

#[test]
fn a_live_binding_ends_with_the_interface_that_it_names() {
    let site = Site::new();
    let with = |name: &str| {
        let access = format!("[[interface]]\nname = \"{name}\"\nside = \"access\"\n");
        site.write(&(access + Site::FILE));
    };
    with("eth1");
    let config = Config::read(&site.file()).expect("a configuration");
    let mut gate = LocalGate::held(Gate::<Memory>::up(&config).expect("up").0);
    let bound = Adjustment {
        setting: Setting {
            suspended: Some(true),
            ..Setting::default()
        },
        from: BindingChange {
            port: Some("eth1".into()),
            mac: Some("02:00:00:00:00:07".into()),
            ..BindingChange::default()
        },
        ..Adjustment::default()
    };
    gate.set("bob", &bound).expect("set");
    let report = gate.reload(None, false).expect("reloaded");
    assert!(report.reset.is_empty(), "{report:?}");
    with("eth2");
    let report = gate.reload(None, false).expect("reloaded");
    assert_eq!(report.reset, ["bob"]);
    // The rest stays.
    let bob = gate.subscriber("bob").expect("there");
    assert!(bob.suspended && bob.from.mac.is_some());
    assert_eq!(bob.from.port, None);
    let state = gate.fresh().expect("a state").0;
    let seat = state.members["bob"].seats().up;
    let there = Memory::at(site.pins(), |memory| {
        memory
            .directory
            .iter()
            .any(|((way, _), led)| *way == Direction::Up && *led == seat)
    });
    assert_eq!(there, Some(true));
    assert!(gate.reload(None, false).expect("reloaded").reset.is_empty());
    // Where nothing else was set, nothing is left.
    let only = Adjustment {
        reset: true,
        from: BindingChange {
            port: Some("eth2".into()),
            ..BindingChange::default()
        },
        ..Adjustment::default()
    };
    gate.set("bob", &only).expect("set");
    with("eth1");
    assert_eq!(gate.reload(None, false).expect("reloaded").reset, ["bob"]);
    assert!(!gate.subscriber("bob").expect("there").set);
}

/// What was set for the former plan must not keep an access server from changing the plan.
#[test]
fn keys_that_do_not_fit_a_new_plan_end_with_the_former_one() {
    let site = Site::new();
    let old = "[plan.old]\ndown = \"7mbit\"\nscheme = \"policer\"\n\
               [plan.bare]\n[plan.free]\nscheme = \"unlimited\"\n";
    site.write(&(Site::FILE.to_owned() + old));
    let config = Config::read(&site.file()).expect("a configuration");
    let mut gate = LocalGate::held(Gate::<Memory>::up(&config).expect("up").0);
    let keys = |texts: &[&str]| -> PlanKeys {
        let keys = texts.iter().map(|text| plan_key(text).expect("a key"));
        keys.collect()
    };
    let set = |gate: &mut LocalGate<Memory>, texts: &[&str]| {
        let setting = Setting {
            keys: keys(texts),
            ..Setting::default()
        };
        let adjustment = Adjustment {
            reset: true,
            setting,
            ..Adjustment::default()
        };
        gate.set("alice", &adjustment).expect("set");
    };
    let change = |gate: &mut LocalGate<Memory>, plan: &str, down: Option<&str>| {
        let setting = Setting {
            plan: Some(plan.into()),
            down: down.map(|rate| rate.parse().expect("a rate")),
            ..Setting::default()
        };
        let adjustment = Adjustment {
            reset_rates: true,
            setting,
            ..Adjustment::default()
        };
        gate.set("alice", &adjustment)
    };
    let hosts = "policy={ hosts = [4, 4] }";
    let quota = ["quota=5GB", "quota-plan=basic", "quota-day=7"];
    for (before, plan, kept) in [
        (
            &[hosts, "default-class=0", "boost=5s"][..],
            "old",
            &["boost=5s"][..],
        ),
        (&[quota[0], quota[1], quota[2], hosts], "old", &quota),
        // A plan cannot follow itself.
        (&[quota[0], quota[1], quota[2], hosts], "basic", &[hosts]),
        (
            &["scheme=policer", "burst=1MB"],
            "basic",
            &["scheme=policer", "burst=1MB"],
        ),
        // Its rate ends, and the plan has none.
        (
            &["down={ rate = \"70mbit\", rtt = \"50ms\" }", hosts],
            "bare",
            &[hosts],
        ),
    ] {
        set(&mut gate, before);
        change(&mut gate, plan, None).unwrap_or_else(|error| panic!("{plan}: {error}"));
        let alice = gate.subscriber("alice").expect("there");
        assert_eq!(alice.plan_name(), plan);
        assert_eq!(alice.keys, Some(keys(kept)), "{before:?} {plan}");
    }
    // What cannot be done is not half done.
    set(
        &mut gate,
        &[hosts, "down={ rate = \"70mbit\", rtt = \"50ms\" }"],
    );
    let before = gate.subscriber("alice").expect("there");
    let member = gate.fresh().expect("a state").0.members["alice"].clone();
    for (plan, down) in [("lead", None), ("free", Some("3mbit"))] {
        let refused = change(&mut gate, plan, down);
        assert!(
            matches!(refused, Err(ControlError::Invalid(_))),
            "{refused:?}"
        );
        assert_eq!(gate.subscriber("alice").expect("there"), before);
        assert_eq!(gate.fresh().expect("a state").0.members["alice"], member);
    }
}

#[test]
fn keys_of_the_plan_are_set_one_by_one() {
    let site = Site::new();
    let mut gate = up(&site);
    let set = |gate: &mut LocalGate<Memory>, keys: &[&str]| {
        let keys = keys.iter().map(|text| plan_key(text).expect("a key"));
        let setting = Setting {
            keys: keys.collect(),
            ..Setting::default()
        };
        gate.set(
            "alice",
            &Adjustment {
                setting,
                ..Adjustment::default()
            },
        )
    };
    let template = |gate: &mut LocalGate<Memory>| {
        let (state, _) = gate.fresh().expect("a state");
        let alice = &state.members["alice"];
        let set = alice.setting.clone().unwrap_or_default();
        let plan = state.plan_of(&alice.declared, &set).expect("it fits");
        let plan = plan.expect("a plan");
        plan.into_owned()
    };
    let before = template(&mut gate);
    set(&mut gate, &["policy={ hosts = [4, 4] }", "boost=5s"]).expect("set");
    let policy = PolicyTree::hosts(4, 4).expect("hosts");
    let now = template(&mut gate);
    assert_eq!((&now.down.policy, &now.up.policy), (&policy, &policy));
    assert_eq!(now.down.boost, Some(Boost::Time(5_000_000_000)));
    assert_eq!(
        rates(&mut gate, "alice").1,
        [Some(50_000_000), Some(10_000_000)]
    );
    // Others stay, and one goes back.
    set(
        &mut gate,
        &["quota=5GB", "quota-plan=basic", "boost=", "down=70mbit"],
    )
    .expect("set");
    let now = template(&mut gate);
    assert_eq!((now.down.boost, &now.down.policy), (None, &policy));
    let quota = now.terms.quota.expect("a quota");
    assert_eq!(
        (quota.bytes, quota.plan.as_str(), quota.day),
        (5_000_000_000, "basic", 1)
    );
    assert_eq!(
        rates(&mut gate, "alice").1,
        [Some(70_000_000), Some(10_000_000)]
    );
    let one = gate.subscriber("alice").expect("there");
    assert!(one.set && one.keys.expect("keys").len() == 4);
    assert_eq!(one.quota.expect("a quota").bytes, 5_000_000_000);
    // Another process finds them, and a reload keeps them.
    gate.reload(None, false).expect("reloaded");
    assert_eq!(template(&mut gate).down.policy, policy);
    // A part of the quota, and the other direction.
    set(&mut gate, &["quota-day=7", "up={ boost = \"1MB\" }"]).expect("set");
    let now = template(&mut gate);
    assert_eq!(now.terms.quota.expect("a quota").day, 7);
    assert_eq!(
        (now.down.boost, now.up.boost),
        (None, Some(Boost::Bytes(1_000_000)))
    );
    for (keys, wanted) in [
        (&["quota-plan=lead"][..], "there is no plan `lead`"),
        (&["queues=3"], "unknown key `queues` in a plan"),
        (&["quota-day=29"], "`quota-day` must be from 1 to 28"),
        (&["policy={ fair = 0 }"], "fair"),
        (&["burst=1MB"], "`burst` is a key of scheme policer"),
        (
            &["schedule=[{ from = \"22:00\", to = \"06:00\", plan = \"gold\" }]"],
            "the plan itself",
        ),
    ] {
        let Err(ControlError::Invalid(text)) = set(&mut gate, keys) else {
            panic!("{keys:?}");
        };
        assert!(text.contains(wanted), "{text}");
    }
    // Without a quota, and back to the file.
    set(&mut gate, &["quota=none"]).expect("set");
    assert_eq!(template(&mut gate).terms.quota, None);
    let reset = Adjustment {
        reset: true,
        ..Adjustment::default()
    };
    gate.set("alice", &reset).expect("reset");
    assert_eq!(template(&mut gate), before);
    for wrong in ["quota", "policy={ fair ="] {
        assert!(plan_key(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn who_looks_sees_what_others_change() {
    let site = Site::new();
    let watched = || LocalGate::<Memory>::watched(site.state());
    assert!(matches!(watched(), Err(ControlError::Down(_))));
    let mut gate = up(&site);
    let mut view = watched().expect("up");
    assert_eq!(view.roster().expect("one").subscribers.len(), 2);
    let same = view.read().expect("read").roster;
    assert!(Arc::ptr_eq(&same, &view.read().expect("read").roster));
    assert!(matches!(
        view.set("alice", &Adjustment::default()),
        Err(ControlError::Other(_))
    ));

    let set = Adjustment {
        setting: Setting {
            down: Some("20mbit".parse().expect("a rate")),
            ..Setting::default()
        },
        ..Adjustment::default()
    };
    gate.set("alice", &set).expect("set");
    assert_eq!(rates(&mut view, "alice").1[0], Some(20_000_000));
    assert_eq!(view.roster().expect("one").set(), 1);

    // The file changes one and adds one. The live change of another one stays.
    let text = Site::FILE.replace(
        "vlan = 7",
        "vlan = 8\n[[subscriber]]\nname = \"carl\"\nplan = \"basic\"\nvlan = 9",
    );
    site.write(&text);
    let done = gate.reload(None, false).expect("reloaded");
    assert_eq!(
        (done.added.len(), done.moved.len(), done.unchanged),
        (1, 1, 1)
    );
    let reading = view.read().expect("read");
    assert_eq!(reading.counters.len(), 3);
    assert_eq!(rates(&mut view, "alice").1[0], Some(20_000_000));

    site.write("plan = 7");
    let Err(ControlError::Invalid(text)) = gate.reload(None, false) else {
        panic!("reloaded");
    };
    assert!(text.contains("gate.toml:3"), "{text}");
    assert_eq!(view.roster().expect("one").subscribers.len(), 3);

    drop(gate);
    assert!(Gate::<Memory>::down_at(site.folders()).expect("down"));
    assert!(matches!(view.read(), Err(ControlError::Down(_))));
}

#[test]
fn tells_the_whole_of_a_gate() {
    let site = Site::new();
    let mut gate = up(&site);
    let overview = gate.overview().expect("one");
    assert_eq!(overview.file, site.file().display().to_string());
    assert_eq!(overview.plans, 2);
    assert!(overview.attachments[0].attached && !overview.unsettled);
    let found = inspect(&mut gate, "alice").expect("there");
    let (alice, states) = (found.subscriber, found.states);
    assert_eq!(alice.matches.len(), 2);
    assert_eq!((states.down.queues.len(), states.up.queues.len()), (16, 16));
}
