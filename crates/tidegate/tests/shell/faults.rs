//! What a shell does when something that it needs fails, and what its surroundings must not change.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::program::{parts, tidegate};
use super::{descendants, left, machine, until};
use tidegate_testbed::namespace::Namespace;
use tidegate_trace::read::Capture;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// Runs a shell in the machine.
fn shell(machine: &Namespace, words: &[&str]) -> (i32, String, String) {
    let words = [&["shell"], words].concat();
    parts(&machine.output(&mut tidegate(&words)).expect("it runs"))
}

fn kill(signal: &str, process: u32) {
    let process = process.to_string();
    let status = Command::new("kill").args([signal, &process]).status();
    assert!(status.expect("kill runs").success());
}

#[test]
fn a_shell_ends_at_once_when_its_link_fails() {
    let Some((machine, _server)) = machine("a_shell_ends_at_once_when_its_link_fails") else {
        return;
    };
    let mut command = tidegate(&["shell", "delay", "1ms", "--", "sleep", "1000"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut shell = machine.start(&mut command).expect("it starts");
    let process = shell.child().id();
    until("sleep runs", || {
        descendants(process).iter().any(|(_, name)| name == "sleep")
    });
    let began = Instant::now();
    machine.run("ip", "link delete tg0").expect("ip runs");
    let status = shell.child().wait().expect("it ends");
    let mut said = String::new();
    let mut stderr = shell.child().stderr.take().expect("a pipe");
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
    assert_eq!(status.code(), Some(128 + 9), "{said}");
    assert!(said.contains("packet"), "{said}");
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(left(&machine), "");
}

/// Linux 6.18 keeps a route, and with it the shell's device, for a connection of IPv6 that came through a raw socket.
#[test]
fn a_shell_ends_while_a_server_still_sends_to_it_by_ipv6() {
    let Some((machine, _server)) = machine("a_shell_ends_while_a_server_still_sends_to_it_by_ipv6")
    else {
        return;
    };
    let listen = || std::net::TcpListener::bind("[::]:7");
    let listener = machine.enter(listen).expect("a server").expect("a port");
    let sender = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        // It stays open until the test ends, with data that nobody takes.
        let _ = socket.set_nonblocking(true);
        let _ = std::io::Write::write(&mut socket, &vec![7; 1 << 20]);
        socket
    });
    let fetch = "exec 3<>/dev/tcp/fd74:6964:6567::1/7 && head -c 1000 <&3 | wc -c";
    let mut command = tidegate(&["shell", "delay", "25ms", "--", "bash", "-c", fetch]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let shell = RefCell::new(machine.start(&mut command).expect("it starts"));
    until("the shell has ended", || {
        matches!(shell.borrow_mut().child().try_wait(), Ok(Some(_)))
    });
    let mut shell = shell.into_inner();
    let mut got = String::new();
    let mut stdout = shell.child().stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut stdout, &mut got).expect("text");
    assert_eq!(got.trim(), "1000");
    assert_eq!(left(&machine), "");
    drop(sender.join().expect("no panic"));
}

#[test]
fn a_user_s_shell_ends_when_its_way_outside_does() {
    let test = "a_user_s_shell_ends_when_its_way_outside_does";
    let is_installed = Command::new("slirp4netns").arg("--version").output();
    let (Some((machine, _server)), Ok(_)) = (machine(test), is_installed) else {
        return;
    };
    // The program may be in a folder that only root reads.
    let folder = tempfile::tempdir().expect("a folder");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("permissions");
    let program = folder.path().join("tidegate");
    fs::copy(PROGRAM, &program).expect("a copy");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(&program).args(["shell", "--", "sleep", "1000"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut shell = machine.start(&mut command).expect("it starts");
    let process = shell.child().id();
    let all = || descendants(process).into_iter();
    until("sleep runs", || all().any(|(_, name)| name == "sleep"));
    let slirp = all().find(|(_, name)| name == "slirp4netns");
    kill("-KILL", slirp.expect("slirp4netns runs").0);
    let status = shell.child().wait().expect("it ends");
    let mut said = String::new();
    let mut stderr = shell.child().stderr.take().expect("a pipe");
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
    assert_eq!(status.code(), Some(128 + 9), "{said}");
    assert!(said.contains("slirp4netns: it has ended"), "{said}");
}

#[test]
fn a_caller_may_ignore_the_ends_of_its_children() {
    let test = "a_caller_may_ignore_the_ends_of_its_children";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let ignore = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = Command::new("python3");
    command.args(["-c", ignore, PROGRAM, "shell", "--", "sh", "-c", "exit 7"]);
    let output = machine.output(&mut command).expect("it runs");
    assert_eq!(parts(&output), (7, String::new(), String::new()));
}

#[test]
fn signals_of_users_are_passed_on() {
    let Some((machine, _server)) = machine("signals_of_users_are_passed_on") else {
        return;
    };
    for (signal, code) in [("USR1", 9), ("USR2", 10)] {
        let wait = format!("trap 'exit {code}' {signal}; sleep 0.1; while :; do sleep 0.1; done");
        let mut command = tidegate(&["shell", "--", "sh", "-c", &wait]);
        let mut shell = machine.start(&mut command).expect("it starts");
        let process = shell.child().id();
        until("sleep runs", || {
            descendants(process).iter().any(|(_, name)| name == "sleep")
        });
        kill(&format!("-{signal}"), process);
        let status = shell.child().wait().expect("it ends");
        assert_eq!(status.code(), Some(code));
    }
}

#[test]
fn sys_shows_the_shell_s_devices_and_what_is_mounted_there() {
    let test = "sys_shows_the_shell_s_devices_and_what_is_mounted_there";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let list = "ls /sys/class/net; ls /sys/fs/cgroup | wc -l";
    let (code, out, said) = shell(&machine, &["--", "sh", "-c", list]);
    let groups = fs::read_dir("/sys/fs/cgroup").map_or(0, Iterator::count);
    let wanted = format!("lo\ntg0\n{groups}\n");
    assert_eq!(
        (code, out.as_str(), said.as_str()),
        (0, wanted.as_str(), "")
    );
}

#[test]
fn shells_without_elements_add_no_text() {
    let Some((machine, _server)) = machine("shells_without_elements_add_no_text") else {
        return;
    };
    let inner = [
        PROGRAM,
        "shell",
        "--",
        "sh",
        "-c",
        "echo \"$TIDEGATE_SHELL\"",
    ];
    let words = [&["delay", "1ms", "--"], &inner[..]].concat();
    assert_eq!(shell(&machine, &words).1, "delay 1ms\n");
}

/// A file system of 320 KiB with the results of an earlier run gets two captures of 550 kB.
#[test]
fn a_full_disk_keeps_whole_packets_and_nothing_of_an_earlier_run() {
    let test = "a_full_disk_keeps_whole_packets_and_nothing_of_an_earlier_run";
    let Some((machine, server)) = machine(test) else {
        return;
    };
    let bind = || std::net::UdpSocket::bind("192.0.2.1:9");
    let _receiver = server.enter(bind).expect("a server").expect("a port");
    let (disk, after) = (tempfile::tempdir(), tempfile::tempdir());
    let (disk, after) = (disk.expect("a folder"), after.expect("a folder"));
    // The first packets are written before the others come, and the shell's command waits until the failure has been told.
    let script = "mount -t tmpfs -o size=320k tmpfs \"$1\" && cd \"$1\" || exit
        for name in outside.pcap inside.pcap windows.parquet elements.parquet; do echo old >$name; done
        \"$0\" shell link 1gbit -o . --snaplen 2000 -- bash -c '
            exec 3>/dev/udp/192.0.2.1/9; send() { dd if=/dev/zero bs=1400 count=$1 >&3 2>/dev/null; }
            send 60; sleep 0.2; send 340
            for i in {1..100}; do grep -q longer \"$0\" && break; sleep 0.1; done' \"$2/said\" 2>\"$2/said\"
        code=$?
        cp * \"$2\"; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, PROGRAM]);
    command.args([disk.path(), after.path()]);
    let (code, _, complaints) = parts(&machine.output(&mut command).expect("it runs"));
    let read = |name: &str| fs::read(after.path().join(name)).unwrap_or_default();
    let said = String::from_utf8_lossy(&read("said")).into_owned();
    assert_eq!((code, complaints.as_str()), (1, ""), "{said}");
    for what in ["longer be written", "99 % at most"] {
        assert!(said.contains(what), "{said}");
    }
    for end in ["outside.pcap", "inside.pcap"] {
        let what = format!("cannot write the capture ./{end}: No space left");
        assert!(said.contains(&what), "{said}");
        let file = fs::File::open(after.path().join(end)).expect("a capture");
        let mut capture = Capture::new(file).expect("a capture");
        let mut packets = 0;
        while capture.frame().expect("a whole capture").is_some() {
            packets += 1;
        }
        assert!(packets > 40, "{end}: {packets}");
    }
    for table in ["windows", "elements"] {
        assert_ne!(read(&format!("{table}.parquet")), b"old\n");
    }
}

/// The results cannot be written, because the command has removed the folder.
#[test]
fn a_command_s_code_counts_more_than_1() {
    let Some((machine, _server)) = machine("a_command_s_code_counts_more_than_1") else {
        return;
    };
    for (own, wanted) in [(7, 7), (0, 1)] {
        let folder = tempfile::tempdir().expect("a folder");
        let results = folder.path().join("results");
        let results = results.to_str().expect("text");
        let command = format!("rm -r {results}; exit {own}");
        let words = ["-o", results, "--", "sh", "-c", &command];
        let (code, _, said) = shell(&machine, &words);
        assert_eq!(code, wanted, "{said}");
        assert!(said.contains("cannot write"), "{said}");
    }
}

#[test]
fn a_firewall_that_drops_replies_is_told() {
    let Some((machine, server)) = machine("a_firewall_that_drops_replies_is_told") else {
        return;
    };
    let listen = || std::net::TcpListener::bind("192.0.2.1:7");
    let _listener = server.enter(listen).expect("a server").expect("a port");
    let nft = |command: &str| machine.run("nft", command).expect("nft runs");
    nft("add table inet filter");
    nft("add chain inet filter output { type filter hook output priority 0; policy drop; }");
    nft("add rule inet filter output ct state established,related accept");
    nft("add rule inet filter output tcp dport 7 accept");
    let connect = "timeout 2 bash -c 'exec 3<>/dev/tcp/192.0.2.1/7'";
    let reach = || shell(&machine, &["--", "sh", "-c", connect]);
    let (code, _, said) = reach();
    assert_ne!(code, 0);
    assert!(said.contains("firewall seems to drop"), "{said}");
    // What it says to do helps.
    nft("insert rule inet filter output oifname \"tg*\" accept");
    assert_eq!(reach(), (0, String::new(), String::new()));
}
