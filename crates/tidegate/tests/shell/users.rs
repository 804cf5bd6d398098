//! Shells of users without rights.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::parts;
use super::{RESULTS, left, machine, names_in};
use tidegate_testbed::namespace::Namespace;

/// The words of setpriv for a user without rights.
const NOBODY: [&str; 5] = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// Whether users' shells have a way outside here.
pub fn has_slirp4netns() -> bool {
    Command::new("slirp4netns")
        .arg("--version")
        .output()
        .is_ok()
}

/// A user's command, in the machine's network.
fn as_nobody(machine: &Namespace, program: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(program).args(words);
    parts(&machine.output(&mut command).expect("it runs"))
}

/// The program in a folder that everybody may read: where it was built, perhaps only root may.
fn program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("permissions");
    let program = folder.path().join("tidegate");
    fs::copy(env!("CARGO_BIN_EXE_tidegate"), &program).expect("a copy");
    (folder, program)
}

#[test]
fn users_without_rights_have_shells_of_their_own() {
    let test = "users_without_rights_have_shells_of_their_own";
    let Some((machine, server)) = machine(test) else {
        return;
    };
    let (_folder, program) = program();

    let listen = || std::net::TcpListener::bind("192.0.2.1:7");
    let _far = server.enter(listen).expect("a server").expect("a port");
    let listen = || std::net::TcpListener::bind("127.0.0.1:7");
    let _near = machine.enter(listen).expect("a server").expect("a port");
    let reach = "id -u; for to in 192.0.2.1 $TIDEGATE_SHELL_GATEWAY; do t=${EPOCHREALTIME/./}; \
                 exec 3<>/dev/tcp/$to/7 && echo $((${EPOCHREALTIME/./} - t)); done";
    let (code, out, said) = as_nobody(
        &machine,
        &program,
        &["shell", "delay", "20ms", "--", "bash", "-c", reach],
    );
    if has_slirp4netns() {
        assert_eq!((code, said.as_str()), (0, ""), "{out}");
        let numbers: Vec<u64> = out
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect();
        assert_eq!((numbers.len(), numbers[0]), (3, 0), "{out}");
        assert!(
            numbers[1..]
                .iter()
                .all(|time| (40_000..2_000_000).contains(time)),
            "{out}"
        );
    } else {
        assert!(said.contains("takes the command slirp4netns"), "{said}");
    }
    // A server in a shell, and a client in one within it: no other program is between them.
    let inner = "exec 3<>/dev/tcp/$TIDEGATE_SHELL_GATEWAY/8 && cat <&3";
    let serve =
        "import socket; s = socket.create_server((\"\", 8)); s.accept()[0].sendall(b\"hello\\n\")";
    let outer = format!(
        "python3 -c '{serve}' & sleep 1; {} shell --quiet bc-pqp 3mbit -- bash -c '{inner}'",
        program.display()
    );
    let (code, out, said) = as_nobody(
        &machine,
        &program,
        &["shell", "--quiet", "--", "sh", "-c", &outer],
    );
    assert_eq!((code, out.as_str()), (0, "hello\n"), "{said}");
    assert_eq!(left(&machine), "");
}

#[test]
fn users_without_rights_get_results() {
    let test = "users_without_rights_get_results";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let (folder, program) = program();
    let results = folder.path().join("results");
    fs::create_dir(&results).expect("a folder");
    std::os::unix::fs::chown(&results, Some(65534), Some(65534)).expect("an owner");
    let results = results.join("new");
    let output = results.to_str().expect("text");
    let words = [
        "shell", "--quiet", "delay", "5ms", "-o", output, "--", "true",
    ];
    let (code, _, said) = as_nobody(&machine, &program, &words);
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(names_in(&results), RESULTS);
}

#[test]
fn users_who_may_have_no_namespaces_are_told_what_to_change() {
    let test = "users_who_may_have_no_namespaces_are_told_what_to_change";
    if machine(test).is_none() {
        return;
    }
    // A limit that holds in a namespace of users, whose own user is root without the capabilities of shells.
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" shell -- true";
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "sh",
            "-c",
            script,
            env!("CARGO_BIN_EXE_tidegate"),
        ])
        .output()
        .expect("it runs");
    let (code, _, said) = parts(&output);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("user.max_user_namespaces"), "{said}");
}

/// Where it failed, the remedy is not to install it.
#[test]
fn the_last_words_of_slirp4netns_are_shown_when_it_fails() {
    let test = "the_last_words_of_slirp4netns_are_shown_when_it_fails";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let (folder, program) = program();
    let begin = |script: &str| {
        let file = folder.path().join("slirp4netns");
        fs::write(&file, script).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("setpriv");
        command.args(NOBODY).arg(&program);
        command.args(["shell", "--", "echo", "began"]);
        command.env("PATH", format!("{}:{path}", folder.path().display()));
        let (code, out, said) = parts(&machine.output(&mut command).expect("it runs"));
        assert_eq!((code, out.as_str()), (0, "began\n"), "{said}");
        said
    };
    let said = begin("#!/bin/sh\nprintf 'beginning\\nno device\\n\\n' >&2\nexit 1\n");
    assert!(said.contains("slirp4netns failed: no device\n"), "{said}");
    let said = begin("#!/bin/sh\nexit 3\n");
    assert!(
        said.contains("slirp4netns failed: exit status: 3"),
        "{said}"
    );
    // As a command that is missing.
    let said = begin("#!/bin/sh\nexit 127\n");
    assert!(said.contains("Install it"), "{said}");
}

/// All capabilities, but not over the machine's network.
#[test]
fn capabilities_of_another_namespace_do_not_count() {
    let test = "capabilities_of_another_namespace_do_not_count";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", env!("CARGO_BIN_EXE_tidegate")]);
    command.args(["shell", "delay", "1ms", "--", "sh", "-c"]);
    command.arg("id -u; ip -brief -4 address show dev tg0");
    let (code, out, said) = parts(&machine.output(&mut command).expect("it runs"));
    assert_eq!(code, 0, "{said}");
    assert!(out.starts_with("0\n") && out.contains("100.64."), "{out}");
    assert_eq!(said.is_empty(), has_slirp4netns(), "{said}");
    assert_eq!(left(&machine), "");
}
