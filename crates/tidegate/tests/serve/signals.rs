//! What signals do to the server.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::program::tidegate;
use super::{Server, played};

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::start(&[
        "--way=application-16k",
        "--start-up=0s",
        "--log-format=json",
    ]);
    let mut viewer = tidegate(&["play", &server.url])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("tidegate runs");
    std::thread::sleep(Duration::from_millis(700));
    server.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    // The response would take 16 s.
    assert!(server.child.try_wait().expect("a state").is_none());
    let began = Instant::now();
    let (code, log, messages) = server.end("TERM");
    assert_eq!(code, Some(130), "{messages}");
    assert!(began.elapsed() < Duration::from_secs(3));
    // The response and its connection are in the log.
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.contains(r#""ended":"shutdown""#), "{log}");
    // The viewer learns that it failed.
    assert_eq!(viewer.wait().expect("it ends").code(), Some(1));
}

#[test]
fn hangups_reopen_the_log_and_reload_the_certificate() {
    let keys = tempfile::tempdir().expect("a folder");
    let path = |name: &str| {
        keys.path()
            .join(name)
            .into_os_string()
            .into_string()
            .expect("text")
    };
    let (cert, key, log) = (path("cert"), path("key"), path("log"));
    let make = || {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a key");
        fs::write(&cert, made.cert.pem()).expect("written");
        fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    };
    make();
    // A full disk let an earlier server write no more of its last line.
    fs::write(&log, "{\"event\":").expect("written");
    let server = Server::start(&["--way=none", "--log", &log, "--cert", &cert, "--key", &key]);
    assert_eq!(played(&server.url, &["--ca", &cert]).0, 0);
    // A new certificate is shown after SIGHUP, not before.
    make();
    assert_eq!(played(&server.url, &["--ca", &cert]).0, 1);
    fs::rename(&log, path("log.1")).expect("renamed");
    let lines = fs::read_to_string(path("log.1")).expect("the log");
    assert!(lines.starts_with("{\"event\":\n127.0.0.1 "), "{lines}");
    server.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(played(&server.url, &["--ca", &cert]).0, 0);
    fs::rename(&log, path("log.2")).expect("reopened");
    server.signal("USR1");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(played(&server.url, &["--ca", &cert]).0, 0);
    // A damaged certificate leaves the server with the one that it has.
    fs::write(&key, "no key").expect("written");
    server.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(played(&server.url, &["--ca", &cert]).0, 0);
    let (code, _, messages) = server.end("TERM");
    assert_eq!(code, Some(0));
    assert!(messages.contains("keeps what it had"), "{messages}");
    assert!(messages.contains("no private key in PEM"), "{messages}");
    for log in ["log.1", "log.2", "log"] {
        let lines = fs::read_to_string(path(log)).expect("a log");
        assert!(lines.contains("GET /v.mp4"), "{log}: {lines}");
    }
}

#[test]
fn a_hangup_opens_the_folder_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().to_owned();
    let current = base.join("current");
    let point_at = |release: &str, text: &str| {
        let to = base.join(release);
        fs::create_dir(&to).expect("a folder");
        fs::write(to.join("f.txt"), text).expect("written");
        let new = base.join("new");
        std::os::unix::fs::symlink(to, &new).expect("a link");
        fs::rename(new, &current).expect("replaced");
    };
    point_at("one", "1");
    let served = current.to_str().expect("text");
    let server = Server::of(served, folder, &["--way=none"]);
    let answer = || {
        let address = server.url.trim_start_matches("http://");
        let address = address.split('/').next().expect("an address");
        let mut socket = std::net::TcpStream::connect(address).expect("connected");
        let request = b"GET /f.txt HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
        socket.write_all(request).expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("text");
        answer.chars().last().expect("a body")
    };
    assert_eq!(answer(), '1');
    point_at("two", "2");
    assert_eq!(answer(), '1');
    server.signal("HUP");
    let mut tries = 0..100;
    while answer() != '2' {
        assert!(tries.next().is_some(), "the folder is the old one");
        std::thread::sleep(Duration::from_millis(20));
    }
}
