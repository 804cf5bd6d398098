//! `tidegate shell` in namespaces of the tests, which stand for the machine of a user.

#![cfg(target_os = "linux")]

#[path = "shell/faults.rs"]
mod faults;
#[path = "shell/names.rs"]
mod names;
mod program;
#[path = "shell/users.rs"]
mod users;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use program::{parts, run, tidegate};
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::Namespace;
use tidegate_trace::read::Capture;

/// A machine with a neighbour, 192.0.2.1, that answers connections.
fn machine(test: &str) -> Option<(Namespace, Namespace)> {
    let make = || {
        let (machine, server) = (Namespace::new()?, Namespace::new()?);
        machine.veth("wan", &server, "eth0")?;
        server.address("eth0", [192, 0, 2, 1].into(), 24)?;
        machine.address("wan", [192, 0, 2, 2].into(), 24)?;
        Ok((machine, server))
    };
    match make() {
        Err(TestbedError::Rights { .. } | TestbedError::NoTun) => {
            let why = "needs root and /dev/net/tun";
            writeln!(std::io::stderr(), "skipped {test}: {why}").expect("standard error");
            None
        }
        made => Some(made.expect("namespaces")),
    }
}

/// Devices and tables of shells.
fn left(machine: &Namespace) -> String {
    let devices = machine.run("ip", "-brief link").expect("ip runs");
    let devices: String = devices
        .lines()
        .filter(|line| line.starts_with("tg"))
        .collect();
    devices + &machine.run("nft", "list tables").expect("nft runs")
}

/// The files that `-o` leaves.
const RESULTS: [&str; 4] = [
    "elements.parquet",
    "inside.pcap",
    "outside.pcap",
    "windows.parquet",
];

/// The names in a folder, in order.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_command_has_its_exit_code_its_addresses_and_nested_delays() {
    let test = "a_command_has_its_exit_code_its_addresses_and_nested_delays";
    let Some((machine, server)) = machine(test) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_tidegate");
    let shell = |elements: &[&str], command: &[&str]| {
        let arguments = [&["shell"], elements, &["--"], command].concat();
        parts(&machine.output(&mut tidegate(&arguments)).expect("it runs"))
    };
    let code = |command| shell(&["delay", "1ms"], &["sh", "-c", command]);
    assert_eq!(code("exit 7"), (7, String::new(), String::new()));
    assert_eq!(code("kill -TERM $$").0, 128 + 15);
    let (missing, _, said) = shell(&[], &["/no/such/program"]);
    assert_eq!(missing, 127);
    assert!(said.contains("cannot start /no/such/program"), "{said}");
    // Process 1 has started the command, and /proc shows this.
    let (_, out, _) = code("echo $TIDEGATE_SHELL; echo $TIDEGATE_SHELL_GATEWAY; cat /proc/1/comm");
    assert_eq!(out, "delay 1ms\n100.64.0.1\nexe\n");

    let listen = || std::net::TcpListener::bind("192.0.2.1:7");
    let _listener = server.enter(listen).expect("a server").expect("a port");
    let time =
        "t=${EPOCHREALTIME/./}; exec 3<>/dev/tcp/192.0.2.1/7 && echo $((${EPOCHREALTIME/./} - t))";
    let nested = [program, "shell", "delay", "20ms", "--", "bash", "-c", time];
    let (code, out, said) = shell(&["delay", "10ms"], &nested);
    assert_eq!(code, 0, "{said}");
    // 2 · (10 + 20) ms; the bound above is wide, because the machine may be busy.
    let micros: u64 = out.trim().parse().expect("a time");
    assert!((60_000..1_000_000).contains(&micros), "{micros} us");
    assert_eq!(left(&machine), "");
}

/// The processes that a process has started, and those that these have started.
fn descendants(process: u32) -> Vec<(u32, String)> {
    let mut all = Vec::new();
    let mut parents = vec![process];
    let list = || fs::read_dir("/proc").expect("/proc").flatten();
    while let Some(parent) = parents.pop() {
        for entry in list() {
            let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let (name, rest) = stat.rsplit_once(')').unwrap_or(("", ""));
            if rest.split_whitespace().nth(1) == Some(&parent.to_string()) {
                let name = name.split_once('(').map_or("", |(_, name)| name);
                all.push((id, name.to_owned()));
                parents.push(id);
            }
        }
    }
    all
}

/// Waits until something holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn killing_any_process_leaves_nothing() {
    let Some((machine, _server)) = machine("killing_any_process_leaves_nothing") else {
        return;
    };
    // The program itself, the first process in the shell, the command, what it started, and the holder of the table.
    for victim in ["tidegate", "exe", "sh", "sleep", "nft"] {
        let mut command = tidegate(&[
            "shell",
            "delay",
            "1ms",
            "--",
            "sh",
            "-c",
            "sleep 1000; true",
        ]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = machine.start(&mut command).expect("it starts");
        let process = shell.child().id();
        let started = || descendants(process);
        until("all processes", || {
            let names: Vec<String> = started().into_iter().map(|(_, name)| name).collect();
            ["exe", "sh", "sleep", "nft"]
                .iter()
                .all(|name| names.iter().any(|one| one == name))
        });
        assert!(left(&machine).contains("tidegate-tg0"));
        let all = started();
        let found = all.iter().find(|(_, name)| name == victim);
        let killed = found.map_or(process, |(id, _)| *id);
        let kill = Command::new("kill")
            .args(["-KILL", &killed.to_string()])
            .status();
        assert!(kill.expect("kill runs").success());
        let status = shell.child().wait().expect("it ends");
        assert_eq!(status.success(), victim == "sleep", "{victim}: {status}");
        until(victim, || {
            all.iter()
                .all(|(id, _)| !fs::exists(format!("/proc/{id}/ns")).unwrap_or(true))
                && left(&machine).is_empty()
        });
    }
}

/// What nohup(1) lets a command ignore stays ignored in the shell. A signal that comes while it starts is not lost.
#[test]
fn signals_reach_the_command_unless_they_are_ignored() {
    let test = "signals_reach_the_command_unless_they_are_ignored";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_tidegate");
    let start = |before: &str, seconds: &str| {
        let script = format!("{before} exec {program} shell -q -- sleep {seconds}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        machine.start(&mut command).expect("it starts")
    };
    let send = |process: u32, signal: &str| {
        let status = Command::new("kill")
            .args([signal, &process.to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    };
    let mut ignoring = start("trap '' HUP;", "2");
    let process = ignoring.child().id();
    until("sleep runs", || {
        let all = descendants(process);
        all.iter().any(|(_, name)| name == "sleep")
    });
    send(process, "-HUP");
    assert_eq!(ignoring.child().wait().expect("it ends").code(), Some(0));
    for _ in 0..4 {
        let mut shell = start("", "30");
        let process = shell.child().id();
        // The first process in the shell has no handlers yet.
        let first = loop {
            let mut all = descendants(process).into_iter();
            if let Some((first, _)) = all.find(|(_, name)| name == "exe") {
                break first;
            }
        };
        send(first, "-TERM");
        let sent = Instant::now();
        shell.child().wait().expect("it ends");
        assert!(sent.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn wrong_words_are_refused_with_a_remedy() {
    for (words, said) in [
        (["polcer", "3mbit"], "did you mean `policer`?"),
        (["delay", "25"], "`delay`"),
        (["tap", "up"], "`up` is the last word"),
        (
            ["link", "3mbit queue 1500B"],
            "link 3mbit queue 1500B: no packet of 1500 bytes could ever pass",
        ),
        (
            ["policer", "3mbit burst 32"],
            "room for packets of 32 bytes at most",
        ),
    ] {
        let words = words.iter().flat_map(|words| words.split(' '));
        let arguments: Vec<&str> = ["shell"]
            .into_iter()
            .chain(words)
            .chain(["--", "true"])
            .collect();
        let (code, out, err) = run(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(said), "{err}");
    }
    let (code, _, err) = run(&["shell", "--rtt", "soon", "--", "true"]);
    assert_eq!(code, 2, "{err}");
    let (code, _, err) = run(&["shell", "home.toml", "--rtt", "10ms", "--", "true"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("write `rtt` in home.toml"), "{err}");
    let (code, _, err) = run(&["shell", "foo", "--", "true"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("policer") && !err.contains("tap"), "{err}");
}

const HOME: &str = r#"title = "Home"
duration = "1s"
element = [ { name = "gate", kind = "policer", rate = "4mbit", burst = "32kB" }, { name = "slow", kind = "delay", delay = "20ms" } ]
flow = [ { name = "download", rtt = "10ms", path = ["slow", "gate"] } ]
"#;

#[test]
fn a_scenario_s_path_is_the_shell_s_and_its_results_are_kept() {
    let test = "a_scenario_s_path_is_the_shell_s_and_its_results_are_kept";
    let Some((machine, server)) = machine(test) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results");
    let file = folder.path().join("home.toml");
    fs::write(&file, HOME).expect("written");
    let listen = || std::net::TcpListener::bind("192.0.2.1:7");
    let _listener = server.enter(listen).expect("a server").expect("a port");
    let time =
        "t=${EPOCHREALTIME/./}; exec 3<>/dev/tcp/192.0.2.1/7 && echo $((${EPOCHREALTIME/./} - t))";
    let [file, results_text] = [&file, &results].map(|path| path.to_str().expect("text"));
    let mut command = tidegate(&["shell", file, "-o", results_text, "--", "bash", "-c", time]);
    let (code, out, said) = parts(&machine.output(&mut command).expect("it runs"));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("99 % at most"), "{said}");
    // 10 ms of the flow, and 20 ms of an element that only downloads pass.
    let micros: u64 = out.trim().parse().expect("a time");
    assert!((30_000..1_000_000).contains(&micros), "{micros} us");

    assert_eq!(names_in(&results), RESULTS);
    for end in ["inside.pcap", "outside.pcap"] {
        let file = fs::File::open(results.join(end)).expect("a capture");
        let mut capture = Capture::new(file).expect("a capture");
        let mut flags = Vec::new();
        while let Some(frame) = capture.frame().expect("a whole capture") {
            // TCP over IPv4, without link layer.
            if frame.data[0] == 0x45 && frame.data[9] == 6 {
                flags.push(frame.data[33] & 0x17);
            }
        }
        // Both directions of the handshake.
        assert!(flags.starts_with(&[0x02, 0x12, 0x10]), "{end}: {flags:x?}");
    }
    assert_eq!(left(&machine), "");
}

#[test]
fn scenarios_that_are_no_path_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("home.toml");
    let another = r#"flow = [ { name = "download", rtt = "10ms", path = ["slow", "gate"] }, { name = "other", rtt = "10ms", path = ["gate"] } ]"#;
    let flow = HOME.lines().last().expect("a flow");
    for (text, said) in [
        (
            HOME.replace(flow, another),
            "flow `other` has another `path`",
        ),
        (
            format!("{HOME}sweep = {{ \"gate.rate\" = [\"1mbit\", \"2mbit\"] }}\n"),
            "a sweep has several points",
        ),
        (format!("aggregate = {{}}\n{HOME}"), "home.toml:1"),
    ] {
        fs::write(&file, text).expect("written");
        let (code, out, err) = run(&["shell", file.to_str().expect("text"), "--", "true"]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains(said), "{err}");
    }
}
