//! Names that are looked up in a shell.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use super::program::parts;
use super::users::has_slirp4netns;
use super::{left, machine};
use tidegate_testbed::namespace::Namespace;

/// Answers one question for an address over DNS (RFC 1035 §4.1) with 192.0.2.1.
fn answer_a_question(socket: &UdpSocket) {
    let patience = Some(Duration::from_secs(20));
    socket.set_read_timeout(patience).expect("a socket");
    let mut message = [0; 512];
    let (bytes, from) = socket.recv_from(&mut message).expect("a question");
    let mut answer = message[..bytes].to_vec();
    // A response, with one answer: the question's name, type A, class IN, a minute, four bytes.
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[7] = 1;
    answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    socket.send_to(&answer, from).expect("sent");
}

/// What a shell shows of the file and of a name, on a machine with this `/etc/resolv.conf` and a server at this address. `before` starts the
/// shell's program.
fn looked_up(machine: &Namespace, text: &str, server: &str, before: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("resolv.conf");
    fs::write(&file, text).expect("written");
    let bind = || UdpSocket::bind((server, 53));
    let names = machine.enter(bind).expect("a server").expect("a port");
    // Only these processes see the file.
    let script = format!(
        "mount --bind \"$1\" /etc/resolv.conf && exec {before} \"$0\" shell delay 20ms -- sh -c \
         'cat /etc/resolv.conf; getent -s hosts:dns ahostsv4 server.test'"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    command.arg(env!("CARGO_BIN_EXE_tidegate")).arg(&file);
    // No folder of the machine is needed.
    command.env("TMPDIR", "/no/such/folder");
    let (code, out, said) = std::thread::scope(|scope| {
        scope.spawn(|| answer_a_question(&names));
        parts(&machine.output(&mut command).expect("it runs"))
    });
    assert_eq!((code, said.as_str()), (0, ""), "{out}");
    let (shown, found) = out.split_at(out.find("192.0.2.1").unwrap_or(0));
    assert!(found.contains("STREAM server.test"), "{out}");
    shown.to_owned()
}

#[test]
fn names_are_looked_up_at_a_loopback_address_of_the_machine() {
    let test = "names_are_looked_up_at_a_loopback_address_of_the_machine";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let text = "nameserver 127.0.0.53\noptions timeout:5\n";
    assert_eq!(
        looked_up(&machine, text, "127.0.0.53", ""),
        "nameserver 100.64.0.1\noptions timeout:5\n"
    );
    assert_eq!(left(&machine), "");
}

/// The server listens at any address. So its answers have the address that is next to the shell, not the one that was asked.
#[test]
fn names_are_looked_up_at_an_address_of_the_machine_itself() {
    let test = "names_are_looked_up_at_an_address_of_the_machine_itself";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let text = "nameserver 192.0.2.2\noptions timeout:5\n";
    for server in ["0.0.0.0", "192.0.2.2"] {
        assert_eq!(
            looked_up(&machine, text, server, ""),
            "nameserver 100.64.0.1\noptions timeout:5\n",
            "{server}"
        );
    }
    assert_eq!(left(&machine), "");
}

/// resolv.conf(5): then the server is that of the local machine.
#[test]
fn a_file_without_servers_means_the_one_of_this_machine() {
    let test = "a_file_without_servers_means_the_one_of_this_machine";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let text = "options timeout:5\n";
    assert_eq!(
        looked_up(&machine, text, "127.0.0.1", ""),
        "options timeout:5\nnameserver 100.64.0.1\n"
    );
    if has_slirp4netns() {
        // The network belongs to other namespaces of users.
        let before = "unshare --user --map-root-user";
        assert_eq!(
            looked_up(&machine, text, "127.0.0.1", before),
            "options timeout:5\nnameserver 10.0.2.2\n"
        );
    }
    assert_eq!(left(&machine), "");
}

#[test]
fn a_machine_without_the_file_is_told_what_to_do() {
    let test = "a_machine_without_the_file_is_told_what_to_do";
    let Some((machine, _server)) = machine(test) else {
        return;
    };
    let script = "mount -t tmpfs tmpfs /etc && exec \"$0\" shell -- echo began";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]);
    command.arg(env!("CARGO_BIN_EXE_tidegate"));
    let (code, out, said) = parts(&machine.output(&mut command).expect("it runs"));
    assert_eq!((code, out.as_str()), (0, "began\n"), "{said}");
    assert!(said.contains("no /etc/resolv.conf: create it"), "{said}");
}
