use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use tidegate_gate::Memory;
use tidegate_gate::reading::Reading;

use super::*;
use crate::cli::gate::Imports;
use crate::gate::testing::Site;
use crate::gate::top::{self, Source as _};

const STRICT: Imports = Imports { lenient: false };

fn options(file: &Path) -> Up {
    Up {
        file: file.to_owned(),
        imports: STRICT,
    }
}

fn again(file: Option<PathBuf>) -> Reload {
    Reload {
        file,
        imports: STRICT,
    }
}

fn set(site: &Site, down: Option<&str>) -> anyhow::Result<Exit> {
    let options = Set {
        name: "alice".into(),
        down: down.map(|rate| rate.parse().expect("a rate")),
        up: None,
        plan: None,
        reset: down.is_none(),
        keys: Vec::new(),
        suspend: false,
        resume: false,
        from_port: None,
        from_mac: None,
        from_vlan: None,
    };
    super::set::<Memory>(&options, &site.state(), true)
}

/// The rate down of a subscriber, and how many there are.
fn seen(site: &Site) -> (Option<u64>, usize) {
    let mut view = LocalGate::<Memory>::watched(&site.state()).expect("up");
    let rate = view.subscriber("alice").expect("there").limits.down.rate;
    (rate, view.roster().expect("one").subscribers.len())
}

/// A daemon like `gate run`, without its log.
fn daemon(site: &Site) -> JoinHandle<anyhow::Result<()>> {
    let config = read(&site.file(), false).expect("a configuration");
    let endpoints = Endpoints::open(&config).expect("open");
    std::thread::spawn(move || {
        let (gate, _, _) = Gate::<Memory>::start(&config)?;
        let gate = LocalGate::held(gate).of_daemon(&config);
        endpoints.serve(Box::new(gate), None, "the limits stay in force")
    })
}

fn another_subscriber() -> String {
    let carl = "\n[[subscriber]]\nname = \"carl\"\nplan = \"basic\"\nvlan = 9\n";
    Site::FILE.to_owned() + carl
}

#[test]
fn commands_change_a_gate_without_a_daemon() {
    let site = Site::new();
    assert!(set(&site, Some("1mbit")).is_err(), "nothing is up");
    up::<Memory>(&options(&site.file())).expect("up");
    let twice = up::<Memory>(&options(&site.file())).expect_err("is up");
    assert!(twice.to_string().contains("is up"), "{twice}");
    set(&site, Some("20mbit")).expect("set");
    assert_eq!(seen(&site), (Some(20_000_000), 2));
    set(&site, None).expect("reset");
    assert_eq!(seen(&site), (Some(50_000_000), 2));
    site.write(&another_subscriber());
    reload::<Memory>(&again(None), &site.state()).expect("reloaded");
    assert_eq!(seen(&site), (Some(50_000_000), 3));
    // The files of a daemon that was killed.
    let socket = crate::gate::remote::socket(&site.state());
    drop(UnixListener::bind(socket).expect("bound"));
    down::<Memory>(&Down { pins: None }, &site.state()).expect("down");
    assert!(!site.state().exists(), "nothing is left");
    down::<Memory>(&Down { pins: None }, &site.state()).expect("down again is no harm");
    assert!(!site.state().exists(), "nothing is made by it");
}

#[test]
fn commands_ask_the_daemon_that_has_the_gate() {
    let site = Site::new();
    let running = daemon(&site);
    while LocalGate::<Memory>::watched(&site.state()).is_err() {
        std::thread::sleep(PAUSE);
    }
    set(&site, Some("20mbit")).expect("set");
    assert_eq!(seen(&site), (Some(20_000_000), 2));
    // What `top` reads there is what it reads in this process.
    let state = site.state();
    let mut asked = top::Asked(&state);
    let mut own = LocalGate::<Memory>::watched(&state).expect("up");
    let (whole, known) = (asked.whole().expect("asked"), own.whole().expect("read"));
    assert_eq!(
        (whole.file, whole.attachments, whole.nodes, whole.plans),
        (known.file, known.attachments, known.nodes, known.plans)
    );
    let (answer, watches) = asked.counters().expect("asked");
    let (reading, is_watched) = own.counters().expect("read");
    let limits = |reading: &Reading| {
        let all = reading.roster.subscribers.iter();
        all.map(|one| {
            (
                one.name.clone(),
                one.plan.clone(),
                one.set,
                one.limits.map(|limit| limit.rate),
            )
        })
        .collect::<Vec<_>>()
    };
    assert_eq!((limits(&answer), watches), (limits(&reading), is_watched));
    assert_eq!(answer.counters, reading.counters);
    assert_eq!(asked.load(&answer, 0), own.load(&reading, 0));
    let error = set(&site, Some("0bit")).expect_err("no rate").to_string();
    assert!(error.contains("out of range"), "{error}");

    // The file again, one that is wrong, and another one.
    site.write(&another_subscriber());
    reload::<Memory>(&again(None), &site.state()).expect("reloaded");
    assert_eq!(seen(&site), (Some(20_000_000), 3));
    site.write("plan = 7");
    let wrong = reload::<Memory>(&again(None), &site.state());
    let error = wrong.expect_err("wrong").to_string();
    assert!(error.contains("gate.toml:3:"), "{error}");
    let other = site.file().with_file_name("other.toml");
    site.write(Site::FILE);
    std::fs::rename(site.file(), &other).expect("moved");
    let file = Some(other);
    reload::<Memory>(&again(file), &site.state()).expect("reloaded");
    assert_eq!(seen(&site), (Some(20_000_000), 2));
    set(&site, None).expect("reset");
    assert_eq!(seen(&site), (Some(50_000_000), 2));

    // A second daemon learns that there is one; down ends it.
    let config = read(&site.file().with_file_name("other.toml"), false).expect("sound");
    let second = Endpoints::open(&config).map(drop).expect_err("taken");
    assert!(format!("{second:#}").contains("another"), "{second:#}");
    down::<Memory>(&Down { pins: None }, &site.state()).expect("down");
    running.join().expect("no panic").expect("ended well");
    assert!(!site.state().exists(), "nothing is left");
}

#[test]
fn a_reload_names_what_changed_and_what_needs_a_restart() {
    let site = Site::new();
    let running = daemon(&site);
    while LocalGate::<Memory>::watched(&site.state()).is_err() {
        std::thread::sleep(PAUSE);
    }
    let said = |text: &str| {
        site.write(text);
        let daemon = Remote::connect(&site.state()).expect("a daemon");
        let done = daemon.reload(None, false).expect("reloaded");
        let mut out = Vec::new();
        places(&mut out, &done).expect("written");
        String::from_utf8(out).expect("text")
    };
    assert_eq!(said(Site::FILE), "");
    let head = "shadow = true\nsources = \"known\"\nwatch = {}\n";
    let tail = "[api]\nlisten = \"127.0.0.1:0\"\n[pair]\npeer = \"127.0.0.1:9\"\n[radius]\naccounting = \"127.0.0.1:0\"\nsecret = \"secret\"\nclients = [\"127.0.0.1\"]\n";
    let restart = "warning: `[api]`, `[radius]`, `[pair]` changed: restart the daemon\n";
    assert_eq!(
        said(&format!("{head}{}{tail}", Site::FILE)),
        format!("the settings for all packets changed: `sources`, `shadow`, `[watch]`\n{restart}")
    );
    // It is said until the daemon restarts, or the file is as it was.
    assert_eq!(said(&format!("{head}{}{tail}", Site::FILE)), restart);
    assert_eq!(
        said(Site::FILE),
        "the settings for all packets changed: `sources`, `shadow`, `[watch]`\n"
    );
    down::<Memory>(&Down { pins: None }, &site.state()).expect("down");
    running.join().expect("no panic").expect("ended well");
}

#[test]
fn a_daemon_that_ends_leaves_the_limits_and_the_next_one_takes_over() {
    let site = Site::new();
    let running = daemon(&site);
    while LocalGate::<Memory>::watched(&site.state()).is_err() {
        std::thread::sleep(PAUSE);
    }
    set(&site, Some("20mbit")).expect("set");
    let stop = || Remote::connect(&site.state()).expect("there").stop();
    stop().expect("stopped");
    running.join().expect("no panic").expect("ended well");
    assert_eq!(seen(&site).0, Some(20_000_000));
    let running = daemon(&site);
    while Remote::connect(&site.state()).is_none_or(|daemon| daemon.stop().is_err()) {
        std::thread::sleep(PAUSE);
    }
    running.join().expect("no panic").expect("ended well");
    assert_eq!(seen(&site).0, Some(20_000_000), "set holds");
    down::<Memory>(&Down { pins: None }, &site.state()).expect("down");
}

#[test]
fn lines_with_mistakes_are_skipped_on_demand_with_and_without_a_daemon() {
    let site = Site::new();
    let list = site.file().with_file_name("list.csv");
    std::fs::write(&list, "name,plan,vlan\ncarl,basic,9\n").expect("written");
    site.write(&format!("{}[[import]]\ncsv = {list:?}\n", Site::FILE));
    up::<Memory>(&options(&site.file())).expect("up");
    assert_eq!(seen(&site).1, 3);
    std::fs::write(&list, "name,plan,vlan\ncarl,basic,9x\ndora,basic,10\n").expect("written");
    let lenient = Reload {
        file: None,
        imports: Imports { lenient: true },
    };
    let reload = |how: &Reload| reload::<Memory>(how, &site.state());
    let error = reload(&again(None)).expect_err("a mistake").to_string();
    assert!(error.contains("list.csv:2:12: "), "{error}");
    assert_eq!(seen(&site).1, 3);
    reload(&lenient).expect("reloaded");
    assert_eq!(seen(&site).1, 3, "dora came, carl went");
    down::<Memory>(&Down { pins: None }, &site.state()).expect("down");

    std::fs::write(&list, "name,plan,vlan\ncarl,basic,9\n").expect("written");
    let running = daemon(&site);
    while LocalGate::<Memory>::watched(&site.state()).is_err() {
        std::thread::sleep(PAUSE);
    }
    std::fs::write(&list, "name,plan,vlan\ncarl,basic,9x\n").expect("written");
    let error = reload(&again(None)).expect_err("a mistake").to_string();
    assert!(error.contains("list.csv:2:12: "), "{error}");
    let answer = Remote::connect(&site.state()).expect("a daemon");
    let answer = answer.reload(None, true).expect("reloaded");
    assert_eq!((answer.removed, answer.skipped_lines), (1, 1));
    assert!(answer.skipped[0].contains("list.csv:2:12: "), "{answer:?}");
    down::<Memory>(&Down { pins: None }, &site.state()).expect("down");
    running.join().expect("no panic").expect("ended well");
}
