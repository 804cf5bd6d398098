use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::config::Config;
use crate::gate::{Folders, Gate, GateError, Setting, View};
use crate::reading::{Reading, Roster};

/// Runs this in a network namespace of its own, with the interfaces core and access; skips without
/// rights.
fn in_namespace(test: &str, run: impl FnOnce(&Site) + Send + 'static) {
    if !nix::unistd::Uid::effective().is_root() {
        let mut stderr = std::io::stderr();
        writeln!(stderr, "skipped TEST: {test}: needs root").expect("stderr");
        return;
    }
    let name = test.to_owned();
    let ran = std::thread::spawn(move || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a network namespace");
        for name in ["core", "access"] {
            let peer = format!("{name}-far");
            let made = Command::new("ip")
                .args(["link", "add", name, "type", "veth", "peer", "name", &peer])
                .status();
            assert!(made.expect("ip runs").success());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let site = Site {
            pins: PathBuf::from(format!(
                "/sys/fs/bpf/tidegate-{name}-{}",
                std::process::id()
            )),
            state: folder.path().join("state"),
        };
        run(&site);
    })
    .join();
    ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

struct Site {
    pins: PathBuf,
    state: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = Gate::<Kernel>::down_at(self.folders());
    }
}

impl Site {
    fn folders(&self) -> Folders<'_> {
        Folders {
            pins: &self.pins,
            state: &self.state,
        }
    }

    fn config(&self, rest: &str) -> Config {
        let text = format!(
            "pins = \"{}\"\nstate = \"{}\"\n{INTERFACES}{rest}",
            self.pins.display(),
            self.state.display()
        );
        let none = |_: &Path| Err("is not there".to_owned());
        Config::parse(Path::new("gate.toml"), text, &none).unwrap_or_else(|error| panic!("{error}"))
    }
}

const INTERFACES: &str = r#"
[[interface]]
name = "core"
side = "core"
[[interface]]
name = "access"
side = "access"
"#;

const ONE: &str = r#"
[plan.gold]
down = "100mbit"
up = "20mbit"
policy = { priority = ["queue", { weighted = [[4, { fair = 8 }], [1, "queue"]] }] }
default-class = 1
[[plan.gold.rule]]
class = 0
dscp = "ef"
[plan.old]
down = "10mbit"
scheme = "policer"
excess = "cs1"
[[subscriber]]
name = "ann"
plan = "gold"
addresses = ["192.0.2.1", "2001:db8::/56"]
[[subscriber]]
name = "bob"
plan = "old"
qinq = "100.200"
pppoe = 9
"#;

/// Whether packets are taken from each of the interfaces.
fn attached(gate: &Gate<Kernel>) -> Vec<bool> {
    let attachments = gate.overview().attachments.into_iter();
    attachments.map(|(_, attached)| attached).collect()
}

#[test]
fn a_gate_in_the_kernel_is_taken_over_changed_and_taken_off() {
    in_namespace("taken-over", |site| {
        let (gate, report) = Gate::<Kernel>::up(&site.config(ONE)).expect("up");
        assert_eq!(report.added, ["ann", "bob"]);
        let attached = attached(&gate);
        assert!(attached.iter().all(|&attached| attached), "{attached:?}");
        assert_eq!(gate.path().unknown().expect("counters").len(), 15);
        let state = gate.state().clone();
        drop(gate);
        assert!(matches!(
            Gate::<Kernel>::up(&site.config(ONE)),
            Err(GateError::AlreadyUp { .. })
        ));
        let mut gate = Gate::<Kernel>::take_over(site.folders()).expect("ours");
        assert_eq!(gate.state(), &state);
        let setting = Setting {
            down: Some(5_000_000),
            ..Setting::default()
        };
        gate.set("ann", &setting).expect("set");
        let ann = gate.subscriber("ann").expect("there");
        assert_eq!(ann.limits.down.rate, Some(5_000_000));
        assert_eq!(gate.state().members["ann"].lanes.down.version, 2);
        let two = ONE
            .replace("name = \"bob\"", "name = \"cem\"")
            .replace("pppoe = 9", "vlan = 5");
        let report = gate.reload(&site.config(&two)).expect("reloaded");
        assert_eq!(
            (report.removed, report.unchanged),
            (vec!["bob".to_owned()], 1)
        );
        let view = View::<Kernel>::open(site.folders()).expect("a view");
        assert_eq!(Roster::of(view.state()).subscribers.len(), 2);
        // An interface that goes and comes back.
        let ip = |line: &str| {
            let done = Command::new("ip").args(line.split(' ')).status();
            assert!(done.expect("ip runs").success(), "{line}");
        };
        ip("link del access");
        assert_eq!(self::attached(&gate), [true, false]);
        assert_eq!(
            gate.reload(&site.config(ONE)).expect("reloaded").missing,
            ["access"]
        );
        let missing = gate.heal();
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].interface, "access");
        ip("link add access type veth peer name access-far");
        assert!(gate.heal().is_empty());
        assert!(self::attached(&gate)[1]);
        gate.down().expect("down");
        assert!(!site.pins.exists() && !site.state.exists());
        let left = Command::new("tc")
            .args(["qdisc", "show", "dev", "core"])
            .output();
        let left = String::from_utf8(left.expect("tc runs").stdout).expect("text");
        assert!(!left.contains("clsact"), "{left}");
    });
}

#[test]
fn policies_that_no_plan_has_any_more_make_room() {
    in_namespace("policies", |site| {
        // Other policies and other sets of rules each time, together more than there is room for.
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
                    addresses = \"192.0.2.{plan}\"\n",
                    weights[0],
                    weights[1],
                    number + 2
                )
            });
            site.config(&plans.collect::<String>())
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
        // What is set has room as well.
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
    in_namespace("nothing", |site| {
        let config = site.config(&ONE.replace(
            "[plan.gold]",
            "[[interface]]\nname = \"nowhere\"\nside = \"core\"\n[plan.gold]",
        ));
        let error = Gate::<Kernel>::up(&config)
            .map(|_| ())
            .expect_err("no interface");
        assert!(
            error.to_string().contains("there is no interface nowhere"),
            "{error}"
        );
        assert!(!site.pins.exists() && !site.state.join("state.json").exists());
        // What was killed while it was made.
        std::fs::create_dir_all(site.pins.join("new")).expect("a folder");
        std::fs::create_dir_all(site.pins.join("programs")).expect("a folder");
        let (gate, _) = Gate::<Kernel>::up(&site.config(ONE)).expect("up");
        drop(gate);
        // The state is lost.
        std::fs::remove_dir_all(&site.state).expect("removed");
        assert!(matches!(
            Gate::<Kernel>::start(&site.config(ONE)),
            Err(GateError::Lost { .. })
        ));
        assert!(Gate::<Kernel>::down_at(site.folders()).expect("down"));
        assert!(!site.pins.exists() && !site.state.exists());
        // Folders that are none of ours are left alone.
        let other = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(other.path().join("maps")).expect("a folder");
        std::fs::write(other.path().join("maps/file"), "mine").expect("written");
        assert!(
            !Gate::<Kernel>::down_at(Folders {
                pins: other.path(),
                state: &site.state,
            })
            .expect("nothing to do")
        );
        assert!(other.path().join("maps/file").exists());
    });
}

/// Run with `cargo test --release -p tidegate-gate -- --ignored --nocapture subscribers_load`.
#[test]
#[ignore = "measures"]
fn a_hundred_thousand_subscribers_load() {
    use std::fmt::Write as _;
    in_namespace("many", |site| {
        let mut text = String::from("[plan.gold]\ndown = \"100mbit\"\nup = \"20mbit\"\n");
        for number in 0..100_000u32 {
            let (a, b, c) = (number >> 16, number >> 8 & 255, number & 255);
            writeln!(text, "[[subscriber]]\nname = \"user{number}\"\nplan = \"gold\"\naddresses = [\"10.{a}.{b}.{c}\", \"2001:db8:{a:x}:{:x}::/64\"]", number & 0xffff).expect("text");
        }
        // Time on the processor, this thread's, and time that passed: others may be at work.
        let clock = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("told");
            let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
            let own = std::time::Duration::from_nanos(nanos.expect("a number"));
            (own, std::time::Instant::now())
        };
        type Clock = (std::time::Duration, std::time::Instant);
        let time = |what: &str, (own, wall): Clock| {
            eprintln!("{what}: {:?} of {:?}", clock().0 - own, wall.elapsed());
        };
        let began = clock();
        let config = site.config(&text);
        time("check", began);
        let began = clock();
        let (mut gate, _) = Gate::<Kernel>::up(&config).expect("up");
        time("up", began);
        let began = clock();
        assert_eq!(gate.reload(&config).expect("reloaded").unchanged, 100_000);
        time("reload of the same", began);
        let config = site.config(&text.replace("100mbit", "90mbit"));
        let began = clock();
        assert_eq!(
            gate.reload(&config).expect("reloaded").limited.len(),
            100_000
        );
        time("reload of another rate for all", began);
        let began = clock();
        gate.set(
            "user77",
            &Setting {
                down: Some(5_000_000),
                ..Setting::default()
            },
        )
        .expect("set");
        time("set", began);
        let began = clock();
        let roster = Roster::of(gate.state());
        let reading = Reading::take(roster.into(), gate.state(), gate.path()).expect("a reading");
        assert_eq!(reading.counters.len(), 100_000);
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
