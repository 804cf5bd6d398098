use std::process::Command;

use tidegate_limiter::Rate;
use tidegate_testbed::namespace::Namespace;

use super::*;
use crate::gate::{Folders, Gate, GateError, Setting, View};
use crate::reading::{Reading, Roster};
use crate::testing::{Site, in_namespace};

/// A site in a network namespace with the interfaces core and access.
fn in_kernel(test: &str, run: impl FnOnce(&Site, &Namespace) + Send) {
    in_namespace(test, |space| {
        for name in ["core", "access"] {
            let line = format!("link add {name} type veth peer name {name}-far");
            space.ip(&line).expect("a link");
        }
        run(&Site::in_the_kernel(), space);
    });
}

/// The fixture's file between these interfaces, with more of its tables.
fn file(more: &str) -> String {
    let access = "[[interface]]\nname = \"access\"\nside = \"access\"\n";
    Site::FILE.replace("\"lo\"", "\"core\"") + access + more
}

/// Parts that the fixture lacks: a policy with rules, a policer that marks, and a session.
const MORE: &str = r#"
[plan.shared]
down = "100mbit"
up = "20mbit"
policy = { priority = ["queue", { weighted = [[4, { fair = 8 }], [1, "queue"]] }] }
default-class = 1
[[plan.shared.rule]]
class = 0
dscp = "ef"
[plan.old]
down = "10mbit"
scheme = "policer"
excess = "cs1"
[[subscriber]]
name = "carol"
plan = "shared"
addresses = ["192.0.2.3", "2001:db8:3::/56"]
[[subscriber]]
name = "dave"
plan = "old"
qinq = "100.200"
pppoe = 9
"#;

/// Whether packets are taken from each of the interfaces.
fn attached(gate: &Gate<Kernel>) -> Vec<bool> {
    let attachments = gate.overview().attachments.into_iter();
    attachments.map(|one| one.attached).collect()
}

/// Interfaces of other namespaces have the same numbers, so they must not be taken for the gate's.
#[test]
fn a_gate_is_read_and_changed_in_its_own_network_namespace_only() {
    let test = "a_gate_is_read_and_changed_in_its_own_network_namespace_only";
    in_kernel(test, |site, _| {
        drop(Gate::<Kernel>::up(&site.config(&file(""))).expect("up"));
        assert!(View::<Kernel>::open(site.folders()).is_ok());
        let (refused, down) = std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a namespace");
                let refused = [
                    View::<Kernel>::open(site.folders()).err(),
                    Gate::<Kernel>::take_over(site.folders()).err(),
                ];
                (refused, Gate::<Kernel>::down_at(site.folders()))
            });
            elsewhere.join().expect("no panic")
        });
        assert!(
            (refused.iter()).all(|error| matches!(error, Some(GateError::Network { .. }))),
            "{refused:?}"
        );
        // It can be removed from anywhere.
        assert!(down.expect("down"));
    });
}

/// As after an update of the package.
#[test]
fn the_next_daemon_replaces_programs_of_another_version() {
    let test = "the_next_daemon_replaces_programs_of_another_version";
    in_kernel(test, |site, _| {
        let config = site.config(&file(""));
        let (gate, report, _) = Gate::<Kernel>::start(&config).expect("up");
        assert_eq!((&report.replaced[..], &report.kept[..]), (&[][..], &[][..]));
        let before = gate.state().clone();
        drop(gate);
        for name in ["tc_down", "tc_up"] {
            let note = site.pins().join("programs").join(format!("{name}_of"));
            std::fs::remove_file(note).expect("noted");
        }
        let view = View::<Kernel>::open(site.folders()).expect("a view");
        assert_eq!(view.overview().outdated, ["tc_down", "tc_up"]);
        let (gate, report, taken) = Gate::<Kernel>::start(&config).expect("up");
        assert!(taken);
        assert_eq!(report.replaced, ["tc_down", "tc_up"]);
        assert_eq!(attached(&gate), [true, true]);
        assert!(gate.overview().outdated.is_empty());
        assert_eq!(gate.state().members, before.members);
        gate.down().expect("down");
        assert!(!site.pins().exists(), "nothing is left");
    });
}

#[test]
fn a_gate_in_the_kernel_is_taken_over_changed_and_taken_off() {
    let test = "a_gate_in_the_kernel_is_taken_over_changed_and_taken_off";
    in_kernel(test, |site, space| {
        let one = file(MORE);
        let (gate, report) = Gate::<Kernel>::up(&site.config(&one)).expect("up");
        assert_eq!(report.added, ["alice", "bob", "carol", "dave"]);
        let attached = attached(&gate);
        assert!(attached.iter().all(|&attached| attached), "{attached:?}");
        assert_eq!(gate.path().unknown().expect("counters").len(), 19);
        let state = gate.state().clone();
        drop(gate);
        assert!(matches!(
            Gate::<Kernel>::up(&site.config(&one)),
            Err(GateError::AlreadyUp { .. })
        ));
        let mut gate = Gate::<Kernel>::take_over(site.folders()).expect("ours");
        assert_eq!(gate.state(), &state);
        let setting = Setting {
            down: Some(Rate::from_bits_per_second(5_000_000)),
            ..Setting::default()
        };
        gate.set("carol", &setting).expect("set");
        let carol = gate.subscriber("carol").expect("there");
        assert_eq!(carol.limits.down.rate, Some(5_000_000));
        assert_eq!(gate.state().members["carol"].lanes.down.version, 2);
        let two = one
            .replace("\"dave\"", "\"erin\"")
            .replace("pppoe = 9", "vlan = 5");
        let report = gate.reload(&site.config(&two)).expect("reloaded");
        assert_eq!(
            (report.removed, report.unchanged),
            (vec!["dave".to_owned()], 3)
        );
        let view = View::<Kernel>::open(site.folders()).expect("a view");
        assert_eq!(Roster::of(view.state()).subscribers.len(), 4);
        // An interface disappears and comes back.
        space.ip("link del access").expect("deleted");
        assert_eq!(self::attached(&gate), [true, false]);
        assert_eq!(
            gate.reload(&site.config(&one)).expect("reloaded").missing,
            ["access"]
        );
        let missing = gate.heal();
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].interface, "access");
        let link = "link add access type veth peer name access-far";
        space.ip(link).expect("a link");
        assert!(gate.heal().is_empty());
        assert!(self::attached(&gate)[1]);
        gate.down().expect("down");
        assert!(!site.pins().exists() && !site.state().exists());
        let left = Command::new("tc")
            .args(["qdisc", "show", "dev", "core"])
            .output();
        let left = String::from_utf8(left.expect("tc runs").stdout).expect("text");
        assert!(!left.contains("clsact"), "{left}");
    });
}

#[test]
fn the_old_program_stays_until_the_new_one_is_loaded() {
    let test = "the_old_program_stays_until_the_new_one_is_loaded";
    in_kernel(test, |site, _| {
        // Which programs are on the interface: one that was taken off and put there again is another link.
        let links = || -> Vec<u32> {
            let all = site.pins().join("links").read_dir().expect("a folder");
            let number = |file: std::io::Result<std::fs::DirEntry>| {
                let link = libbpf_rs::Link::open(file.expect("a file").path()).expect("a link");
                link.info().expect("known").id
            };
            all.map(number).collect()
        };
        let (mut gate, _) = Gate::<Kernel>::up(&site.config(&file(""))).expect("up");
        let before = links();
        // A program that cannot be loaded.
        let blocked = site.pins().join("programs").join("xdp_down");
        std::fs::create_dir(&blocked).expect("a folder");
        let other = "hook = \"xdp-generic\"\nside = \"core\"";
        let other = file("").replace("side = \"core\"", other);
        let error = gate.reload(&site.config(&other)).expect_err("refused");
        assert!(error.to_string().contains("core"), "{error}");
        assert_eq!(links(), before);
        assert_eq!(attached(&gate), [true, true]);
        std::fs::remove_dir(blocked).expect("removed");
        let report = gate.reload(&site.config(&other)).expect("reloaded");
        assert_eq!((report.attached.len(), report.detached.len()), (1, 1));
        assert_ne!(links(), before);
        gate.down().expect("down");
    });
}

#[test]
fn policies_that_no_plan_has_any_more_make_room() {
    in_kernel("policies_that_no_plan_has_any_more_make_room", |site, _| {
        // Other policies and sets of rules each time, together more than there is room for.
        const EACH: u32 = 20;
        let other = |round: u32| {
            let plans = (0..EACH).map(|plan| {
                let number = round * EACH + plan;
                let weights = [number % 100 + 1, number / 100 + 1];
                format!(
                    "[plan.p{plan}]
                    down = \"10mbit\"
                    policy = {{ weighted = [[{}, \"queue\"], [{}, {{ fair = 2 }}]] }}
                    [[plan.p{plan}.rule]]
                    class = 0
                    remote-ports = \"1-{}\"
                    [[subscriber]]
                    name = \"{plan}\"
                    plan = \"p{plan}\"
                    addresses = \"198.51.100.{plan}\"\n",
                    weights[0],
                    weights[1],
                    number + 2
                )
            });
            site.config(&file(&plans.collect::<String>()))
        };
        let (mut gate, _) = Gate::<Kernel>::up(&other(0)).expect("up");
        for round in 1..120 {
            if round == 45 || round == 80 {
                drop(gate);
                gate = Gate::<Kernel>::take_over(site.folders()).expect("ours");
            }
            let report = gate.reload(&other(round)).expect("reloaded");
            assert_eq!(report.limited.len(), EACH as usize, "{round}");
        }
        // Live changes have room as well.
        let setting = Setting {
            plan: Some("p3".into()),
            ..Setting::default()
        };
        gate.set("4", &setting).expect("set");
        gate.down().expect("down");
    });
}

#[test]
fn what_cannot_be_leaves_nothing_behind() {
    in_kernel("what_cannot_be_leaves_nothing_behind", |site, _| {
        let one = file(MORE);
        let nowhere = "[[interface]]\nname = \"nowhere\"\nside = \"core\"\n";
        let config = site.config(&(one.clone() + nowhere));
        let error = Gate::<Kernel>::up(&config)
            .map(|_| ())
            .expect_err("no interface");
        assert!(
            error.to_string().contains("there is no interface nowhere"),
            "{error}"
        );
        assert!(!site.pins().exists() && !site.state().join("state.json").exists());
        // The process was killed while it made the gate.
        std::fs::create_dir_all(site.pins().join("new")).expect("a folder");
        std::fs::create_dir_all(site.pins().join("programs")).expect("a folder");
        let (gate, _) = Gate::<Kernel>::up(&site.config(&one)).expect("up");
        drop(gate);
        // The state is lost.
        std::fs::remove_dir_all(site.state()).expect("removed");
        assert!(matches!(
            Gate::<Kernel>::start(&site.config(&one)),
            Err(GateError::Lost { .. })
        ));
        assert!(Gate::<Kernel>::down_at(site.folders()).expect("down"));
        assert!(!site.pins().exists() && !site.state().exists());
        // Folders of other programs stay.
        let other = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(other.path().join("maps")).expect("a folder");
        std::fs::write(other.path().join("maps/file"), "mine").expect("written");
        assert!(
            !Gate::<Kernel>::down_at(Folders {
                pins: other.path(),
                state: site.state(),
            })
            .expect("nothing to do")
        );
        assert!(other.path().join("maps/file").exists());
    });
}

/// The memory that a gate's maps take, as the kernel reports it in bytes.
fn reported(site: &Site) -> u64 {
    let folders = ["maps", "pages"].map(|name| site.pins().join(name));
    let files = folders
        .iter()
        .flat_map(|folder| folder.read_dir().expect("a folder"));
    let memory = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.expect("a file").path();
        let map = libbpf_rs::MapHandle::from_pinned_path(path).expect("a map");
        let number = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&map));
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).expect("info");
        let line = info.lines().find_map(|line| line.strip_prefix("memlock:"));
        line.expect("memory").trim().parse::<u64>().expect("bytes")
    };
    files.map(memory).sum()
}

#[test]
fn the_memory_that_a_configuration_takes_is_known_before() {
    let test = "the_memory_that_a_configuration_takes_is_known_before";
    // Linux before 6.4 reports what maps have room for, not what they take.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut parts = release
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    if (parts.next(), parts.next()) < (Some(6), Some(4)) {
        return;
    }
    in_kernel(test, |site, _| {
        let subscriber = |number: u32| {
            let (high, low) = (number >> 8, number & 255);
            format!(
                "[[subscriber]]\nname = \"s{number}\"\nplan = \"gold\"\naddresses = [\"10.0.{high}.{low}\", \"2001:db8:9:{number:x}::/64\"]\nvlan = {}\nfrom-mac = \"02:00:00:00:{high:02x}:{low:02x}\"\n",
                number + 100,
            )
        };
        let mut both = Vec::new();
        for subscribers in [1, 3_000] {
            let more: String = (0..subscribers).map(subscriber).collect();
            let config = site.config(&file(&format!("{MORE}{more}[watch]\n")));
            let known = crate::Footprint::of(&config).expect("known");
            let (gate, _) = Gate::<Kernel>::up(&config).expect("up");
            // What lines feel is not there yet: it comes with packets.
            let lines = 2_048 * config.subscribers.len() as u64;
            let (found, entries) = (reported(site), known.entries - lines);
            gate.down().expect("down");
            let whole = known.tables + entries;
            assert!(
                (found..found * 101 / 100).contains(&whole),
                "{found} {known:?}"
            );
            both.push((found, known.tables, entries));
        }
        let [(few, tables, before), (many, same, entries)] = both[..] else {
            unreachable!("two")
        };
        assert_eq!(tables, same);
        let (found, more) = (many - few, entries - before);
        assert!((found..found * 5 / 4).contains(&more), "{found} {more}");
    });
}

/// Run with `cargo test --release -p tidegate-gate -- --ignored --nocapture subscribers_load`.
#[test]
#[ignore = "measures"]
fn a_hundred_thousand_subscribers_load() {
    load("a_hundred_thousand_subscribers_load", 100_000);
}

/// It takes 5 GB of memory.
#[test]
#[ignore = "measures"]
fn a_million_subscribers_load() {
    load("a_million_subscribers_load", 1_000_000);
}

fn load(test: &str, subscribers: usize) {
    use std::fmt::Write as _;
    in_kernel(test, |site, _| {
        let mut text = file("");
        for number in 0..subscribers {
            let (a, b, c) = (number >> 16, number >> 8 & 255, number & 255);
            writeln!(text, "[[subscriber]]\nname = \"user{number}\"\nplan = \"gold\"\naddresses = [\"10.{a}.{b}.{c}\", \"2001:db8:{a:x}:{:x}::/64\"]", number & 0xffff).expect("text");
        }
        // Time of this thread on the processor, and time that passed, because the machine may do
        // other work.
        let clock = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("readable");
            let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
            let processor = std::time::Duration::from_nanos(nanos.expect("a number"));
            (processor, std::time::Instant::now())
        };
        type Clock = (std::time::Duration, std::time::Instant);
        let time = |what: &str, (processor, wall): Clock| {
            eprintln!(
                "{what}: {:?} of {:?}",
                clock().0 - processor,
                wall.elapsed()
            );
        };
        let began = clock();
        let config = site.config(&text);
        time("check", began);
        let began = clock();
        let (mut gate, _) = Gate::<Kernel>::up(&config).expect("up");
        time("up", began);
        let began = clock();
        let all = subscribers + 2;
        assert_eq!(gate.reload(&config).expect("reloaded").unchanged, all);
        time("reload of the same", began);
        let config = site.config(&text.replace("50mbit", "90mbit"));
        let began = clock();
        assert_eq!(
            gate.reload(&config).expect("reloaded").limited.len(),
            all - 1
        );
        time("reload of another rate for all", began);
        let began = clock();
        gate.set(
            "user77",
            &Setting {
                down: Some(Rate::from_bits_per_second(5_000_000)),
                ..Setting::default()
            },
        )
        .expect("set");
        time("set", began);
        let began = clock();
        let roster = Roster::of(gate.state());
        let reading = Reading::take(roster.into(), gate.state(), gate.path()).expect("a reading");
        assert_eq!(reading.counters.len(), all);
        time("status", began);
        drop(gate);
        let began = clock();
        let gate = Gate::<Kernel>::take_over(site.folders()).expect("ours");
        time("take over", began);
        let began = clock();
        gate.down().expect("down");
        time("down", began);
    });
}
