use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use super::{Namespace, Port, TestbedError};
use crate::testing::{alone, permitted};

/// Two namespaces with a veth between, or nothing if there are no rights.
fn pair(test: &str) -> Option<(Namespace, Namespace)> {
    let make = || {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        left.veth("there", &right, "here")?;
        left.address("there", [192, 0, 2, 1].into(), 24)?;
        right.address("here", [192, 0, 2, 2].into(), 24)?;
        Ok((left, right))
    };
    permitted(test, make()).map(Result::unwrap)
}

#[test]
fn what_was_opened_in_a_namespace_stays_in_it() {
    let _alone = alone();
    let Some((left, right)) = pair("what_was_opened_in_a_namespace_stays_in_it") else {
        return;
    };
    let listener = right.enter(|| TcpListener::bind("192.0.2.2:7")).unwrap();
    let listener = listener.unwrap();
    let stream = left.enter(|| TcpStream::connect("192.0.2.2:7")).unwrap();
    stream.unwrap().write_all(b"hello").unwrap();
    let mut text = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "hello");
    // This thread has not moved.
    TcpStream::connect("192.0.2.2:7").unwrap_err();
}

#[test]
fn mounts_are_the_namespace_s_own() {
    let _alone = alone();
    let Some((left, right)) = pair("mounts_are_the_namespace_s_own") else {
        return;
    };
    left.run("touch", "/run/tidegate-test").unwrap();
    left.run("mkdir", "/sys/fs/bpf/tidegate-test").unwrap();
    assert_eq!(left.run("ls", "/run").unwrap(), "tidegate-test\n");
    assert_eq!(right.run("ls", "/run").unwrap(), "");
    let pinned = |space: &Namespace| space.run("ls", "/sys/fs/bpf").unwrap();
    assert!(pinned(&left).contains("tidegate-test"));
    assert!(!pinned(&right).contains("tidegate-test"));
    assert!(!std::fs::exists("/run/tidegate-test").unwrap());
}

#[test]
fn programs_end_with_their_owner_and_say_what_is_wrong() {
    let _alone = alone();
    let Some((left, _right)) = pair("programs_end_with_their_owner_and_say_what_is_wrong") else {
        return;
    };
    let mut sleeper = left.start(Command::new("sleep").arg("1000")).unwrap();
    let id = sleeper.child().id();
    drop(sleeper);
    assert!(!std::fs::exists(format!("/proc/{id}")).unwrap());
    let Err(TestbedError::Command(what, why)) = left.ip("link set nobody up") else {
        panic!("there is no such device");
    };
    assert_eq!(what, "ip link set nobody up");
    assert!(why.contains("nobody"), "{why}");
}

/// The next frame of this type that the namespace sends.
fn next(port: &Port, kind: u16) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    for _ in 0..200 {
        if let Some(bytes) = port.receive(&mut buffer).unwrap() {
            if buffer[12..14] == kind.to_be_bytes() {
                return buffer[..bytes].to_vec();
            }
        } else {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    panic!("nothing came");
}

#[test]
fn frames_cross_a_bridge_between_two_ports() {
    let _alone = alone();
    let test = "frames_cross_a_bridge_between_two_ports";
    let make = || {
        let bridge = Namespace::new()?;
        let ports = (bridge.port("left")?, bridge.port("right")?);
        bridge.bridge("br0", &["left", "right"])?;
        Ok((bridge, ports))
    };
    let Some(made) = permitted(test, make()) else {
        return;
    };
    let (_bridge, (left, right)) = made.unwrap();
    // To all; of a type for experiments, IEEE 802.
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.resize(60, 7);
    left.send(&frame).unwrap();
    assert_eq!(next(&right, 0x88b5), frame);
    right.send(&[]).unwrap_err();
}
