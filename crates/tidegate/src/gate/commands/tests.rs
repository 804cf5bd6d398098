use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use tidegate_gate::memory::Memory;

use super::*;
use crate::gate::control::{self, Control};
use crate::gate::testing::Place;

fn options(file: &Path) -> Up {
    Up {
        file: file.to_owned(),
    }
}

fn set(place: &Place, down: Option<&str>) -> anyhow::Result<Exit> {
    let options = Set {
        name: "alice".into(),
        down: down.map(|rate| rate.parse().expect("a rate")),
        up: None,
        plan: None,
        reset: down.is_none(),
    };
    super::set::<Memory>(&options, &place.state())
}

/// The rate down of a subscriber, and how many there are.
fn seen(place: &Place) -> (Option<u64>, usize) {
    let mut view = Live::<Memory>::seen(&place.state()).expect("up");
    let (entry, _) = control::subscriber(&mut view, "alice").expect("there");
    let rate = entry.limits[0].and_then(|limit| limit.rate);
    (rate, view.roster().expect("one").entries.len())
}

/// A daemon, as `gate run` is without its log.
fn daemon(place: &Place) -> JoinHandle<anyhow::Result<()>> {
    let config = read(&place.file()).expect("a configuration");
    let doors = Doors::open(&config).expect("open");
    std::thread::spawn(move || {
        let (gate, _, _) = Gate::<Memory>::start(&config)?;
        doors.serve(Box::new(Live::held(gate)))
    })
}

fn another_subscriber() -> String {
    let carl = "\n[[subscriber]]\nname = \"carl\"\nplan = \"basic\"\nvlan = 9\n";
    Place::FILE.to_owned() + carl
}

#[test]
fn commands_change_a_gate_without_a_daemon() {
    let place = Place::new();
    assert!(set(&place, Some("1mbit")).is_err(), "nothing is up");
    up::<Memory>(&options(&place.file())).expect("up");
    let twice = up::<Memory>(&options(&place.file())).expect_err("is up");
    assert!(twice.to_string().contains("is up"), "{twice}");
    set(&place, Some("20mbit")).expect("set");
    assert_eq!(seen(&place), (Some(20_000_000), 2));
    set(&place, None).expect("reset");
    assert_eq!(seen(&place), (Some(50_000_000), 2));
    place.write(&another_subscriber());
    reload::<Memory>(&Reload { file: None }, &place.state()).expect("reloaded");
    assert_eq!(seen(&place), (Some(50_000_000), 3));
    // What a daemon leaves that was killed.
    let socket = crate::gate::remote::socket(&place.state());
    drop(UnixListener::bind(socket).expect("bound"));
    down::<Memory>(&Down { pins: None }, &place.state()).expect("down");
    assert!(!place.state().exists(), "nothing is left");
    down::<Memory>(&Down { pins: None }, &place.state()).expect("down again is no harm");
    assert!(!place.state().exists(), "nothing is made by it");
}

#[test]
fn commands_ask_the_daemon_that_has_the_gate() {
    let place = Place::new();
    let running = daemon(&place);
    while Live::<Memory>::seen(&place.state()).is_err() {
        std::thread::sleep(PAUSE);
    }
    set(&place, Some("20mbit")).expect("set");
    assert_eq!(seen(&place), (Some(20_000_000), 2));
    let error = set(&place, Some("0bit")).expect_err("no rate").to_string();
    assert!(error.contains("out of range"), "{error}");

    // The file again, one that is wrong, and another one.
    place.write(&another_subscriber());
    reload::<Memory>(&Reload { file: None }, &place.state()).expect("reloaded");
    assert_eq!(seen(&place), (Some(20_000_000), 3));
    place.write("plan = 7");
    let wrong = reload::<Memory>(&Reload { file: None }, &place.state());
    let error = wrong.expect_err("wrong").to_string();
    assert!(error.contains("gate.toml:1:"), "{error}");
    let other = place.file().with_file_name("other.toml");
    place.write(Place::FILE);
    std::fs::rename(place.file(), &other).expect("moved");
    let file = Some(other);
    reload::<Memory>(&Reload { file }, &place.state()).expect("reloaded");
    assert_eq!(seen(&place), (Some(20_000_000), 2));
    set(&place, None).expect("reset");
    assert_eq!(seen(&place), (Some(50_000_000), 2));

    // A second daemon is told that there is one; down ends it.
    let config = read(&place.file().with_file_name("other.toml")).expect("sound");
    let second = Doors::open(&config).map(drop).expect_err("taken");
    assert!(format!("{second:#}").contains("another"), "{second:#}");
    down::<Memory>(&Down { pins: None }, &place.state()).expect("down");
    running.join().expect("no panic").expect("ended well");
    assert!(!place.state().exists(), "nothing is left");
}

#[test]
fn a_daemon_that_ends_leaves_the_limits_and_the_next_one_takes_over() {
    let place = Place::new();
    let running = daemon(&place);
    while Live::<Memory>::seen(&place.state()).is_err() {
        std::thread::sleep(PAUSE);
    }
    set(&place, Some("20mbit")).expect("set");
    let stop = || Remote::connect(&place.state()).expect("there").stop();
    stop().expect("stopped");
    running.join().expect("no panic").expect("ended well");
    assert_eq!(seen(&place).0, Some(20_000_000));
    let running = daemon(&place);
    while Remote::connect(&place.state()).is_none_or(|daemon| daemon.stop().is_err()) {
        std::thread::sleep(PAUSE);
    }
    running.join().expect("no panic").expect("ended well");
    assert_eq!(seen(&place).0, Some(20_000_000), "set holds");
    down::<Memory>(&Down { pins: None }, &place.state()).expect("down");
}
