use tidegate_gate::table::{Direction, Hook};

use super::*;

#[test]
fn events_say_when_who_and_what() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.jsonl");
    let events = Events::new(Some(&path));
    assert_eq!(events.latest(10, None).expect("none"), Vec::<Value>::new());
    let adjustment = Adjustment {
        setting: tidegate_gate::Setting {
            down: Some("20mbit".parse().expect("a rate")),
            suspended: Some(false),
            ..tidegate_gate::Setting::default()
        },
        moves: vec![MatchChange::Assign(
            "192.0.2.7".parse().expect("an address"),
        )],
        ..Adjustment::default()
    };
    let holder = |_: &Match| Some("cem".to_owned());
    let taken = taken("alice", &adjustment.moves, holder);
    events.set("uid 0 pid 7", "alice", &adjustment, &taken);
    let turn = Turn {
        plan: "slow".into(),
        why: tidegate_gate::calendar::Why::Quota,
    };
    events.turned(&[("bob".into(), Some(turn)), ("alice".into(), None)]);
    let mut all = events.latest(10, None).expect("read");
    for event in &mut all {
        let time = event.as_object_mut().and_then(|event| event.remove("time"));
        let time = time.expect("a time");
        humantime::parse_rfc3339(time.as_str().expect("text")).expect("RFC 3339");
    }
    assert_eq!(
        all,
        [
            json!({ "by": "uid 0 pid 7", "event": "set", "subscriber": "alice", "down": 20_000_000,
                "suspended": false, "addresses": ["192.0.2.7/32 assigned"],
                "taken_from": { "cem": ["192.0.2.7/32"] } }),
            json!({ "by": "the daemon", "event": "turn", "subscriber": "bob", "plan": "slow", "why": "quota" }),
            json!({ "by": "the daemon", "event": "turn", "subscriber": "alice" }),
        ]
    );
    assert_eq!(events.latest(1, Some("alice")).expect("read").len(), 1);
    assert_eq!(events.latest(9, Some("bob")).expect("read").len(), 1);
    assert_eq!(events.latest(9, Some("cem")).expect("read").len(), 1);
}

#[test]
fn a_reload_says_which_interfaces_it_attached_and_detached() {
    let folder = tempfile::tempdir().expect("a folder");
    let events = Events::new(Some(&folder.path().join("events.jsonl")));
    let place = |interface: &str, hook, direction| Attachment {
        interface: interface.into(),
        hook,
        direction,
    };
    let report = Report {
        attached: vec![place("eth2", Hook::TcIngress, Direction::Up)],
        detached: vec![place("eth1", Hook::XdpNative, Direction::Down)],
        ..Report::default()
    };
    events.reloaded("SIGHUP", "reload", &report);
    events.reloaded("SIGHUP", "reload", &Report::default());
    let all = events.latest(9, None).expect("read");
    let named = |interface, hook, direction| json!([{ "interface": interface, "hook": hook, "direction": direction }]);
    assert_eq!(all[0]["attached"], named("eth2", "tc-ingress", "up"));
    assert_eq!(all[0]["detached"], named("eth1", "xdp-native", "down"));
    assert!(all[1].get("attached").is_none() && all[1].get("detached").is_none());
}

#[test]
fn the_file_does_not_grow_without_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.jsonl");
    let events = Events::new(Some(&path));
    // A line that is cut or damaged hides no others.
    fs::write(&path, "{\"event\":\n").expect("written");
    events.add("me", "stop", Value::Null);
    assert_eq!(events.latest(9, None).expect("read").len(), 1);
    fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(MOST))
        .expect("long");
    events.add("me", "up", Value::Null);
    let length = |name: &str| fs::metadata(folder.path().join(name)).expect("there").len();
    assert_eq!(length("events.jsonl.1"), MOST);
    assert!(length("events.jsonl") < 100);
}
