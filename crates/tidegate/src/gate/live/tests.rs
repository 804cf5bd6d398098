use tidegate_gate::memory::Memory;

use super::*;
use crate::gate::control::subscriber;
use crate::gate::testing::Place;

fn up(place: &Place) -> Live<Memory> {
    let config = Config::read(&place.file()).expect("a configuration");
    Live::held(Gate::up(&config).expect("up").0)
}

fn rates(gate: &mut Live<Memory>, name: &str) -> (String, [Option<u64>; 2]) {
    let (entry, _) = subscriber(gate, name).expect("there");
    let rate = |limit: Option<Limit>| limit.and_then(|limit| limit.rate);
    (entry.plan.to_string(), entry.limits.map(rate))
}

#[test]
fn settings_add_up_until_they_are_reset() {
    let place = Place::new();
    let mut gate = up(&place);
    let mut set = |change: Change| {
        gate.set("alice", &change)?;
        Ok::<_, Failure>(rates(&mut gate, "alice"))
    };
    let rate = |text: &str| Some(text.parse().expect("a rate"));
    let none = Change::default;
    let mbit = |down: u64, up: u64| [Some(down * 1_000_000), Some(up * 1_000_000)];

    let down = Change {
        down: rate("20mbit"),
        ..none()
    };
    assert_eq!(
        set(down.clone()).expect("set"),
        ("gold".into(), mbit(20, 10))
    );
    let up = Change {
        up: rate("5mbit"),
        ..none()
    };
    assert_eq!(set(up).expect("set"), ("gold".into(), mbit(20, 5)));
    let plan = Change {
        plan: Some("basic".into()),
        ..none()
    };
    assert_eq!(
        set(plan.clone()).expect("set"),
        ("basic".into(), mbit(20, 5))
    );
    let anew = Change {
        reset: true,
        ..plan
    };
    assert_eq!(set(anew).expect("set").1, [Some(10_000_000), None]);
    let reset = Change {
        reset: true,
        ..none()
    };
    assert_eq!(set(reset).expect("reset"), ("gold".into(), mbit(50, 10)));

    let lead = Change {
        plan: Some("lead".into()),
        ..none()
    };
    assert!(matches!(set(lead), Err(Failure::Invalid(_))));
    assert!(matches!(set(none()), Err(Failure::Invalid(_))));
    let nobody = gate.set("alise", &down);
    let Err(Failure::Unknown(text)) = nobody else {
        panic!("{nobody:?}");
    };
    assert!(text.contains("alice"), "{text}");
}

#[test]
fn who_looks_sees_what_others_change() {
    let place = Place::new();
    let seen = || Live::<Memory>::seen(&place.state());
    assert!(matches!(seen(), Err(Failure::Down(_))));
    let mut gate = up(&place);
    let mut view = seen().expect("up");
    assert_eq!(view.roster().expect("one").entries.len(), 2);
    let same = view.read().expect("read").roster;
    assert!(Arc::ptr_eq(&same, &view.read().expect("read").roster));
    assert!(matches!(
        view.set("alice", &Change::default()),
        Err(Failure::Other(_))
    ));

    let set = Change {
        down: Some("20mbit".parse().expect("a rate")),
        ..Change::default()
    };
    gate.set("alice", &set).expect("set");
    assert_eq!(rates(&mut view, "alice").1[0], Some(20_000_000));
    assert_eq!(view.roster().expect("one").set(), 1);

    // Of the file, one changes and one comes; what was set for another stays.
    let text = Place::FILE.replace(
        "vlan = 7",
        "vlan = 8\n[[subscriber]]\nname = \"carl\"\nplan = \"basic\"\nvlan = 9",
    );
    place.write(&text);
    let done = gate.reload(None).expect("reloaded");
    assert_eq!((done.added, done.moved, done.unchanged), (1, 1, 1));
    let reading = view.read().expect("read");
    assert_eq!(reading.counters.len(), 3);
    assert_eq!(rates(&mut view, "alice").1[0], Some(20_000_000));

    place.write("plan = 7");
    let Err(Failure::Invalid(text)) = gate.reload(None) else {
        panic!("reloaded");
    };
    assert!(text.contains("gate.toml:1"), "{text}");
    assert_eq!(view.roster().expect("one").entries.len(), 3);

    drop(gate);
    let pins = place.pins();
    assert!(Gate::<Memory>::down_at(&pins, &place.state()).expect("down"));
    assert!(matches!(view.read(), Err(Failure::Down(_))));
}

#[test]
fn tells_the_whole_of_a_gate() {
    let place = Place::new();
    let mut gate = up(&place);
    let overview = gate.overview().expect("one");
    assert_eq!(overview.file, place.file().display().to_string());
    assert_eq!(overview.plans, 2);
    assert!(overview.attachments[0].1 && !overview.unsettled);
    let (entry, states) = subscriber(&mut gate, "alice").expect("there");
    assert_eq!(entry.matches.len(), 2);
    assert!(states.iter().all(Option::is_some));
}
