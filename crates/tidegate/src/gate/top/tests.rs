use std::time::Instant;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tidegate_gate::control::Control;
use tidegate_gate::reading::{NodeStatus, Reading, Roster};
use tidegate_gate::table::{Counters, NodeState, PerDirection};
use tidegate_limiter::Share;

use super::*;
use crate::gate::testing::{self, Fake};
use crate::gate::view::pair::PairJson;

/// This many bytes down for each subscriber, in one second each.
fn reading(roster: &Arc<Roster>, start: Instant, second: u64, bytes: fn(u64) -> u64) -> Reading {
    let mut reading = testing::reading(roster, 0);
    reading.at = start + Duration::from_secs(second);
    reading.felt = None;
    for (place, counters) in reading.counters.iter_mut().enumerate() {
        let bytes = bytes(place as u64) * second;
        *counters = PerDirection {
            down: testing::counters(bytes),
            up: Counters::default(),
        };
    }
    reading
}

/// A model after a second in which the place in the roster made the rate.
fn model(subscribers: u32) -> Model {
    let roster = Arc::new(testing::roster(subscribers));
    let mut model = Model::new(SortTop::Down, String::new());
    model.overview = Some(Fake::new(1).overview().expect("one"));
    let bytes = |place| (place + 1) * 1000;
    let start = Instant::now();
    model.update(Arc::new(reading(&roster, start, 1, bytes)));
    model.update(Arc::new(reading(&roster, start, 2, bytes)));
    model
}

fn screen(model: &mut Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    for _ in 0..2 {
        terminal
            .draw(|frame| draw::draw(frame, model))
            .expect("drawn");
        read_queues(model, &mut Fake::new(0));
    }
    terminal.backend().to_string()
}

fn names(model: &Model) -> Vec<String> {
    let roster = &model.reading().expect("one").roster;
    let name = |(place, ..): (usize, _, _)| roster.subscribers[place].name.to_string();
    model.rows().map(name).collect()
}

fn key(model: &mut Model, code: KeyCode) -> Pressed {
    press(model, KeyEvent::new(code, KeyModifiers::NONE))
}

fn letters(model: &mut Model, text: &str) {
    for letter in text.chars() {
        assert_eq!(key(model, KeyCode::Char(letter)), Pressed::Other);
    }
}

#[test]
fn marks_suspended_subscribers() {
    let mut roster = testing::roster(2);
    roster.subscribers[0].suspended = true;
    let mut model = Model::new(SortTop::Name, String::new());
    let start = Instant::now();
    model.update(Arc::new(reading(&Arc::new(roster), start, 1, |_| 0)));
    let text = screen(&mut model, 80, 12);
    let line = |name| {
        text.lines()
            .find(|line| line.contains(name))
            .expect("shown")
    };
    assert!(line("s000000").contains(" off "), "{text}");
    assert!(!line("s000001").contains(" off "), "{text}");
}

#[test]
fn shows_rates_flows_and_magic_of_the_heaviest() {
    let mut model = model(1000);
    let text = screen(&mut model, 80, 12);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("/etc/tidegate/gate.toml"), "{text}");
    // 1 to 1000 kB in a second, and a tenth more was dropped.
    assert!(lines[1].contains("down 4.00 Gbit/s"), "{text}");
    assert!(lines[1].contains("beyond limits 400 Mbit/s"), "{text}");
    assert!(lines[2].contains("1000 subscribers, 1000 shown"), "{text}");
    assert!(lines[4].contains("DOWNv"), "{text}");
    for part in ["s000999", "basic", "8.00 Mbit/s", " 16%", "9.1%", " 1.8%"] {
        assert!(lines[5].contains(part), "{part} is not in\n{text}");
    }
    // A queue with bytes besides its magic bytes, in each direction; 1500 magic bytes in each.
    assert!(lines[5].ends_with("     2 3.00kB\""), "{text}");
    assert!(lines[10].contains("s000994"), "{text}");
    assert!(lines[11].contains("q quit"), "{text}");
}

#[test]
fn sorts_filters_and_moves() {
    let mut model = model(50);
    model.resize(3);
    assert_eq!(names(&model), ["s000049", "s000048", "s000047"]);
    letters(&mut model, "d");
    assert_eq!(names(&model)[0], "s000000", "the other way around");
    letters(&mut model, "x");
    assert_eq!(names(&model)[0], "s000049");
    letters(&mut model, "n");
    assert_eq!(names(&model), ["s000000", "s000001", "s000002"]);
    key(&mut model, KeyCode::PageDown);
    key(&mut model, KeyCode::Down);
    key(&mut model, KeyCode::Down);
    key(&mut model, KeyCode::Up);
    assert_eq!(names(&model)[0], "s000004");
    key(&mut model, KeyCode::End);
    assert_eq!(names(&model)[2], "s000049");
    key(&mut model, KeyCode::Home);
    assert_eq!(names(&model)[0], "s000000");

    // Letters go to the filter while it is typed.
    letters(&mut model, "/4Q");
    assert!(model.typing && names(&model).is_empty());
    key(&mut model, KeyCode::Backspace);
    key(&mut model, KeyCode::Enter);
    assert_eq!(names(&model), ["s000004", "s000014", "s000024"]);
    assert_eq!(model.matched(), 14);
    letters(&mut model, "/");
    key(&mut model, KeyCode::Esc);
    assert_eq!(model.matched(), 50);
    assert_eq!(key(&mut model, KeyCode::Char('q')), Pressed::Quit);
}

#[test]
fn sorts_by_what_is_in_queues_of_the_heaviest() {
    let mut model = model(1000);
    model.resize(3);
    model.sort_by(SortTop::Magic);
    assert_eq!(model.wanted().len(), 200);
    let loads = model.wanted().into_iter().map(|place| {
        let magic = if place == 900 { 7 } else { 1 };
        let load = Load {
            magic,
            ..Load::default()
        };
        (place, load)
    });
    let loads = loads.collect();
    model.loaded(loads);
    assert_eq!(names(&model), ["s000900", "s000999", "s000998"]);
    assert!(model.wanted().is_empty());
}

#[test]
fn keeps_its_rates_when_subscribers_come_and_go() {
    let start = Instant::now();
    let (three, two) = (Arc::new(testing::roster(3)), Arc::new(testing::roster(2)));
    let mut model = Model::new(SortTop::Name, String::new());
    model.resize(5);
    let bytes = |_| 1000;
    model.update(Arc::new(reading(&three, start, 1, bytes)));
    assert_eq!(model.total.down, 0.0, "nothing to compare with");
    model.update(Arc::new(reading(&two, start, 2, bytes)));
    assert_eq!(model.total.down, 16_000.0);
    model.update(Arc::new(reading(&three, start, 3, bytes)));
    let rates: Vec<f64> = model.rows().map(|(_, rates, _)| rates.down).collect();
    assert_eq!(
        rates,
        [8000.0, 8000.0, 24_000.0],
        "the new one began with 0"
    );
}

#[test]
fn nodes_take_the_place_of_subscribers_the_full_ones_first() {
    let mut model = model(3);
    assert!(
        screen(&mut model, 80, 12)
            .lines()
            .nth(3)
            .expect("a line")
            .trim_matches('"')
            .trim()
            .is_empty()
    );
    let node = |name: &str, parent: Option<&str>, rate, share: u32| {
        let state = |share| NodeState {
            rate,
            share,
            ..NodeState::default()
        };
        let part = Share::from_parts((1 << 20) * share / 100);
        NodeStatus {
            name: name.into(),
            parent: parent.map(Into::into),
            capacity: PerDirection {
                down: 100_000_000,
                up: 50_000_000,
            },
            state: PerDirection {
                down: state(part),
                up: state(Share::WHOLE),
            },
        }
    };
    let overview = model.overview.as_mut().expect("one");
    overview.nodes = vec![
        node("roof", None, 10_000_000, 100),
        node("ea\u{1b}st", Some("roof"), 45_000_000, 100),
        node("west", Some("roof"), 96_000_000, 40),
    ];
    letters(&mut model, "o");
    let text = screen(&mut model, 80, 12);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[3].contains("3 nodes, 1 full: west"), "{text}");
    for (line, parts) in [
        (5, ["west", "roof", "96.0 Mbit/s", " 96%", " 40%"]),
        (6, ["ea?st", "roof", "45.0 Mbit/s", " 45%", " 90%"]),
        (7, ["roof", " - ", "10.0 Mbit/s", " 10%", " 20%"]),
    ] {
        for part in parts {
            assert!(
                lines[line].contains(part),
                "{part} is not in line {line} of\n{text}"
            );
        }
    }
    letters(&mut model, "/EA");
    assert_eq!(model.nodes().len(), 1);
    key(&mut model, KeyCode::Esc);
    key(&mut model, KeyCode::End);
    letters(&mut model, "o");
    assert!(screen(&mut model, 80, 12).contains("s000002"));
}

#[test]
fn pauses_and_survives_a_gate_that_goes() {
    let mut model = model(3);
    let before = model.total;
    letters(&mut model, "p");
    refresh(&mut model, &mut Fake::new(5)).expect("nothing to do");
    assert_eq!(model.total, before);
    assert!(screen(&mut model, 80, 10).contains("PAUSED"));
    letters(&mut model, "p");
    refresh(&mut model, &mut Fake::new(5)).expect("read");
    assert_eq!(model.matched(), 5);
    model.message = Some("no gate is up".into());
    assert!(screen(&mut model, 80, 10).contains("no gate is up"));
}

#[test]
fn fits_any_terminal_and_names_cannot_write_to_it() {
    let mut fake = testing::roster(3);
    fake.subscribers[0].name = "a\u{1b}[2J\nb".into();
    let mut model = Model::new(SortTop::Name, String::new());
    model.update(Arc::new(testing::reading(&Arc::new(fake), 5)));
    for (width, height) in [(1, 1), (10, 3), (80, 5), (300, 100)] {
        let text = screen(&mut model, width, height);
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    assert!(screen(&mut model, 120, 20).contains("a?[2J?b"));
}

#[test]
fn a_hundred_thousand_subscribers_are_sorted_between_keys() {
    let mut model = model(100_000);
    let start = Instant::now();
    letters(&mut model, "u/s0000");
    let text = screen(&mut model, 80, 24);
    assert!(text.contains("100000 subscribers, 100 shown"), "{text}");
    // Six times all; a second each would be unusable even without optimisation.
    assert!(
        start.elapsed() < Duration::from_secs(6),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn round_trips_and_scores_are_shown_where_flows_are_watched() {
    let mut model = model(3);
    let mut watched = (**model.reading().expect("one")).clone();
    watched.felt = testing::reading(&watched.roster, 0).felt;
    model.watches = true;
    model.update(Arc::new(watched));
    let narrow = screen(&mut model, 80, 12);
    // The 95th percentile on the subscriber's side.
    for part in ["RTT", "60.0ms"] {
        assert!(narrow.contains(part), "{part} in {narrow}");
    }
    assert!(!narrow.contains("PLAN"), "{narrow}");
    let wide = screen(&mut model, 100, 12);
    for part in ["PLAN", "RTT", "SCORE", "60.0ms", " 78 "] {
        assert!(wide.contains(part), "{part} in {wide}");
    }
}

#[test]
fn what_is_saved_of_boosts_takes_the_place_of_the_plan_on_narrow_screens() {
    let mut model = model(2);
    let mut saving = (**model.reading().expect("one")).clone();
    let roster = Arc::make_mut(&mut saving.roster);
    roster.subscribers[1].limits.down.boost = 10_000_000;
    model.update(Arc::new(saving));
    let narrow = screen(&mut model, 80, 12);
    // The other subscriber has no boost. Both are idle, and what is saved still grows.
    let lines: Vec<&str> = narrow.lines().collect();
    assert!(
        lines[4].contains("BOOST") && !narrow.contains("PLAN"),
        "{narrow}"
    );
    let of = |name: &str| {
        let line = lines.iter().find(|line| line.contains(name));
        *line.expect("a line")
    };
    assert!(of("s000001").contains("2.00MB"), "{narrow}");
    assert!(!of("s000000").contains("MB"), "{narrow}");
    let wide = screen(&mut model, 100, 12);
    assert!(wide.contains("PLAN") && wide.contains("BOOST"), "{wide}");
}

#[test]
fn the_other_gate_of_a_pair_has_lines_of_its_own() {
    let mut model = model(3);
    model.pair = Some(PairJson {
        peer: "192.0.2.2:9642".into(),
        age_s: Some(12.0),
        follows_s: None,
        asked_s: Some(0.5),
        unknown_limiters: 0,
        error: Some("no\u{1b}route".into()),
    });
    let text = screen(&mut model, 120, 12);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[4].contains("pair: does not follow 192.0.2.2:9642, did 12.0 s ago: no?route"),
        "{text}"
    );
    assert!(lines[5].contains("asked this gate 0.5 s ago"), "{text}");
    assert!(lines[6].contains("SUBSCRIBER"), "{text}");
}
