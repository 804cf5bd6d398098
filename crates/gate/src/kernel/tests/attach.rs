//! Tests that programs are attached, outlive their process, and are removed when they should be.

use std::net::UdpSocket;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_testbed::namespace::Namespace;

use super::*;
use crate::path::DataPath;
use crate::table::Hook;
use crate::testing::in_namespace;

/// Runs this on a gate with seats. `near.1` and `far` are the two ends of a link; `tun` has no link
/// layer. 192.0.2.0/25 is reached through `near.1`, 192.0.2.128/25 through `tun`.
pub(super) fn on_links(test: &str, run: impl FnOnce(Gate, &Namespace) + Send) {
    in_namespace(test, |space| {
        let ip = |line: &str| space.ip(line).expect("a network");
        ip("link add near.1 type veth peer name far");
        ip("tuntap add tun mode tun");
        for (interface, address, route) in [
            ("near.1", "198.51.100.1/32", "192.0.2.0/25"),
            ("tun", "198.51.100.2/32", "192.0.2.128/25"),
        ] {
            ip(&format!("link set {interface} up"));
            ip(&format!("addr add {address} dev {interface}"));
            ip(&format!(
                "route add {route} dev {interface} src {}",
                &address[..12]
            ));
        }
        ip("link set far up");
        carries(space, "near.1");
        ip("neigh add 192.0.2.1 lladdr 02:00:00:00:00:09 dev near.1 nud permanent");
        if let Some(mut gate) = gate(test) {
            seated(&mut gate);
            run(gate, space);
        }
    });
}

pub(super) fn attachment(interface: &str, hook: Hook, direction: Direction) -> Attachment {
    Attachment {
        interface: interface.into(),
        hook,
        direction,
    }
}

fn seated(gate: &mut Gate) {
    let unlimited = draft(Means::Unlimited, &PolicyTree::queue());
    let kernel = gate.kernel();
    kernel.put_plan(0, &unlimited.plan()).unwrap();
    let seat = Seat {
        limiter: 0,
        plan: 0,
        version: 1,
        ..Seat::default()
    };
    let matched = |text: &str| Match::Prefix(text.parse().unwrap());
    kernel
        .seat(Direction::Down, &[(matched("192.0.2.0/24"), seat)])
        .unwrap();
    let seat = Seat { limiter: 1, ..seat };
    kernel
        .seat(Direction::Up, &[(matched("198.51.100.0/24"), seat)])
        .unwrap();
}

pub(super) fn passed(gate: &mut Gate, limiter: u32) -> (u64, u64) {
    let counters = gate.kernel().read(limiter).unwrap().counters;
    (counters.passed_packets, counters.passed_bytes)
}

pub(super) fn send(to: &str) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for _ in 0..5 {
        // There is no host behind it that would answer.
        let _ = socket.send_to(&[0; 72], (to, 9));
    }
}

/// Waits until an interface whose other end was just set up takes packets. The kernel lets it do so a little later.
fn carries(space: &Namespace, interface: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let shown = space.run("ip", &format!("link show {interface}"));
        if shown.expect("the interface").contains("state UP") {
            return;
        }
        assert!(Instant::now() < end, "{interface} stays down");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_hook_sees_packets_until_it_is_detached() {
    let test = "each_hook_sees_packets_until_it_is_detached";
    on_links(test, |mut gate, _| {
        let places = [
            ("near.1", Hook::TcEgress, TcKind::Best),
            ("near.1", Hook::TcEgress, TcKind::Clsact),
            ("far", Hook::TcIngress, TcKind::Tcx),
            ("far", Hook::TcIngress, TcKind::Clsact),
            ("far", Hook::XdpNative, TcKind::Best),
            ("far", Hook::XdpGeneric, TcKind::Best),
        ];
        for (interface, hook, kind) in places {
            for (direction, limiter) in [(Direction::Down, 0), (Direction::Up, 1)] {
                let place = attachment(interface, hook, direction);
                gate.kernel().set_tc(kind);
                gate.kernel()
                    .attach(&place)
                    .unwrap_or_else(|error| panic!("{place:?}: {error}"));
                assert!(matches!(
                    gate.kernel().attach(&place),
                    Err(KernelError::Attached(_))
                ));
                assert_eq!(gate.kernel().attachments(), std::slice::from_ref(&place));
                // Another process takes over.
                gate.kernel = Some(Kernel::open(&gate.pins).unwrap());
                let before = passed(&mut gate, limiter);
                send("192.0.2.1");
                let after = passed(&mut gate, limiter);
                // On layer 3: 20 + 8 + 72 bytes.
                assert_eq!(
                    (after.0 - before.0, after.1 - before.1),
                    (5, 500),
                    "{place:?} {kind:?}"
                );
                gate.kernel().detach(&place).unwrap();
                assert_eq!(gate.kernel().attachments(), []);
                let output = Command::new("tc")
                    .args(["qdisc", "show", "dev", interface])
                    .output();
                let disciplines = String::from_utf8(output.unwrap().stdout).unwrap();
                assert!(!disciplines.contains("clsact"), "{disciplines}");
                send("192.0.2.1");
                assert_eq!(passed(&mut gate, limiter), after, "{place:?} {kind:?}");
            }
        }
    });
}

#[test]
fn packets_without_a_link_layer_are_understood() {
    let test = "packets_without_a_link_layer_are_understood";
    on_links(test, |mut gate, _| {
        let place = attachment("tun", Hook::TcEgress, Direction::Down);
        gate.kernel().attach(&place).unwrap();
        send("192.0.2.200");
        assert_eq!(passed(&mut gate, 0), (5, 500));
    });
}

#[test]
fn nothing_is_left_behind() {
    let test = "nothing_is_left_behind";
    on_links(test, |mut gate, _| {
        let place = attachment("far", Hook::TcIngress, Direction::Down);
        gate.kernel().attach(&place).unwrap();
        assert!(matches!(
            gate.kernel()
                .attach(&attachment("none", Hook::TcIngress, Direction::Down)),
            Err(KernelError::Interface(_))
        ));
        let pins = gate.pins.clone();
        assert!(matches!(
            Kernel::create(&pins, &settings()),
            Err(KernelError::Exists(_))
        ));
        let before = gate.kernel().read(0).unwrap();
        gate.kernel.take().unwrap().remove().unwrap();
        assert!(!pins.exists());
        assert!(matches!(Kernel::open(&pins), Err(KernelError::Missing(_))));
        send("192.0.2.1");
        assert_eq!(before.counters.passed_packets, 0);
    });
}

#[test]
fn a_pin_that_stays_is_named_in_the_error_and_the_rest_is_removed() {
    let Some(mut gate) = gate("a_pin_that_stays_is_named_in_the_error_and_the_rest_is_removed")
    else {
        return;
    };
    let pins = gate.pins.clone();
    let stays = pins.join("maps").join("stays");
    std::fs::create_dir(&stays).unwrap();
    let error = gate.kernel.take().unwrap().remove().unwrap_err();
    assert!(
        error.to_string().contains("maps/stays"),
        "the error names the first: {error}"
    );
    assert!(!pins.join("programs").exists() && !pins.join("maps").join("plans").exists());
    std::fs::remove_dir(stays).unwrap();
    Kernel::clear(&pins).unwrap();
    assert!(!pins.exists());
    Kernel::clear(&pins).unwrap();
}

#[test]
fn what_another_program_detached_can_be_attached_again() {
    let test = "what_another_program_detached_can_be_attached_again";
    on_links(test, |mut gate, space| {
        let ip = |line: &str| space.ip(line).expect("a network");
        let places = [
            (Hook::TcIngress, TcKind::Tcx),
            (Hook::TcIngress, TcKind::Clsact),
            (Hook::XdpGeneric, TcKind::Best),
        ];
        for (hook, kind) in places {
            let place = attachment("far", hook, Direction::Down);
            gate.kernel().set_tc(kind);
            gate.kernel().attach(&place).unwrap();
            // It disappears, and comes back with the same name.
            ip("link del far");
            assert_eq!(gate.kernel().attachments(), []);
            ip("link add near.1 type veth peer name far");
            assert_eq!(gate.kernel().attachments(), [], "{place:?} {kind:?}");
            gate.kernel()
                .attach(&place)
                .unwrap_or_else(|error| panic!("{place:?} {kind:?}: {error:?}"));
            assert_eq!(gate.kernel().attachments(), std::slice::from_ref(&place));
            ip("link set near.1 up");
            ip("link set far up");
            ip("route replace 192.0.2.0/25 dev near.1");
            ip("neigh replace 192.0.2.1 lladdr 02:00:00:00:00:09 dev near.1 nud permanent");
            let before = passed(&mut gate, 0).0;
            send("192.0.2.1");
            assert_eq!(passed(&mut gate, 0).0, before + 5, "{place:?} {kind:?}");
            gate.kernel().detach(&place).unwrap();
        }
        let place = attachment("far", Hook::TcIngress, Direction::Down);
        gate.kernel().set_tc(TcKind::Clsact);
        let take_off = || {
            let tc = ["qdisc", "del", "dev", "far", "clsact"];
            assert!(Command::new("tc").args(tc).status().unwrap().success());
        };
        for _ in 0..2 {
            gate.kernel().attach(&place).unwrap();
            take_off();
            assert_eq!(gate.kernel().attachments(), []);
            gate.kernel().detach(&place).unwrap();
        }
        gate.kernel().attach(&place).unwrap();
        take_off();
        gate.kernel().attach(&place).unwrap();
        assert_eq!(gate.kernel().attachments(), std::slice::from_ref(&place));
        take_off();
        let pins = gate.pins.clone();
        gate.kernel.take().unwrap().remove().unwrap();
        assert!(!pins.exists());
    });
}

#[test]
fn a_renamed_interface_stays_limited_and_both_names_are_known() {
    let test = "a_renamed_interface_stays_limited_and_both_names_are_known";
    on_links(test, |mut gate, space| {
        let ip = |line: &str| space.ip(line).expect("a network");
        for hook in [Hook::TcIngress, Hook::XdpGeneric] {
            let place = attachment("far", hook, Direction::Down);
            gate.kernel().attach(&place).unwrap();
            assert_eq!(gate.kernel().renamed(&place), None);
            ip("link set far down name beyond");
            ip("link set beyond up");
            carries(space, "near.1");
            // Another interface that takes the old name is not the one that is limited.
            ip("link add far type veth peer name other");
            assert_eq!(gate.kernel().attachments(), std::slice::from_ref(&place));
            let now = gate.kernel().renamed(&place);
            assert_eq!(now.as_deref(), Some("beyond"), "{hook:?}");
            let before = passed(&mut gate, 0).0;
            send("192.0.2.1");
            assert_eq!(passed(&mut gate, 0).0, before + 5, "{hook:?}");
            gate.kernel().detach(&place).unwrap();
            let place = attachment("beyond", hook, Direction::Down);
            gate.kernel().attach(&place).unwrap();
            assert_eq!(gate.kernel().renamed(&place), None);
            gate.kernel().detach(&place).unwrap();
            ip("link del far");
            ip("link set beyond down name far");
            ip("link set far up");
            carries(space, "near.1");
        }
    });
}

#[test]
fn a_gate_whose_pins_would_end_with_the_command_is_refused() {
    let test = "a_gate_whose_pins_would_end_with_the_command_is_refused";
    on_links(test, |gate, _| {
        drop(gate);
        let pins = std::path::Path::new("/sys/fs/bpf/tidegate-test-mounts");
        assert!(<Kernel as DataPath>::sees(pins).is_ok());
        // The namespace's own is above the system's.
        while load::is_bpf(std::path::Path::new("/sys/fs/bpf")) {
            nix::mount::umount("/sys/fs/bpf").expect("unmounted in this namespace");
        }
        let refused = Kernel::create(pins, &settings());
        assert!(matches!(refused, Err(KernelError::Mounts)), "{refused:?}");
        // Nor may a command say that there is none.
        assert!(<Kernel as DataPath>::sees(pins).is_err());
        assert!(!load::is_bpf(std::path::Path::new("/sys/fs/bpf")));
    });
}

#[test]
fn a_second_gate_is_refused_unless_the_file_allows_it() {
    let test = "a_second_gate_is_refused_unless_the_file_allows_it";
    on_links(test, |mut first, _| {
        let at = attachment("near.1", Hook::TcIngress, Direction::Down);
        first.kernel().attach(&at).unwrap();
        // The gate itself may be there in several ways.
        let up = attachment("near.1", Hook::TcIngress, Direction::Up);
        first.kernel().attach(&up).unwrap();
        first.kernel().detach(&up).unwrap();
        let mut second = gate(test).unwrap();
        let error = second.kernel().attach(&at).unwrap_err();
        assert!(matches!(error, KernelError::OtherGate(_)), "{error}");
        assert!(error.to_string().contains("other-gates"), "{error}");
        // Another place is free.
        let out = attachment("near.1", Hook::TcEgress, Direction::Up);
        second.kernel().attach(&out).unwrap();
        let beside = true;
        let allowed = Settings {
            beside,
            ..settings()
        };
        second.kernel().set_settings(&allowed).unwrap();
        second.kernel = Some(Kernel::open(&second.pins).unwrap());
        second.kernel().attach(&at).unwrap();
        assert_eq!(second.kernel().attachments().len(), 2);
    });
}
