//! Tests that programs of another version are replaced while they limit packets.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use libbpf_rs::Link;

use super::attach::{attachment, on_links, passed, send};
use super::*;
use crate::path::{DataPath, Renewal};
use crate::table::Hook;

/// The number of the program that takes the packets of `near.1` or `far`.
fn number(pins: &Path) -> String {
    let links = fs::read_dir(pins.join("links")).unwrap();
    let links = links.map(|entry| entry.unwrap().path());
    let mut links = links.filter(|path| path.to_string_lossy().contains("/link-"));
    if let Some(path) = links.next() {
        return Link::open(path)
            .unwrap()
            .info()
            .unwrap()
            .prog_id
            .to_string();
    }
    let shown = Command::new("tc")
        .args(["filter", "show", "dev", "near.1", "egress"])
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    let mut words = shown
        .split_whitespace()
        .skip_while(|word| *word != "id")
        .skip(1);
    words.next().expect("a program").to_owned()
}

#[test]
fn programs_of_another_version_are_replaced_while_they_limit() {
    let test = "programs_of_another_version_are_replaced_while_they_limit";
    on_links(test, |mut gate, _| {
        let places = [
            ("near.1", Hook::TcEgress, TcKind::Best, "tc_down"),
            ("near.1", Hook::TcEgress, TcKind::Clsact, "tc_down"),
            ("far", Hook::XdpNative, TcKind::Best, "xdp_down"),
            ("far", Hook::XdpGeneric, TcKind::Best, "xdp_down"),
        ];
        let programs = gate.pins.join("programs");
        let note = |name: &str| programs.join(format!("{name}_of"));
        for (interface, hook, kind, name) in places {
            let place = attachment(interface, hook, Direction::Down);
            gate.kernel().set_tc(kind);
            gate.kernel().attach(&place).unwrap();
            assert_eq!(
                gate.kernel().renew(),
                Renewal::default(),
                "it is of this version"
            );
            // Versions before this one noted nothing.
            for another in [None, Some("another")] {
                fs::remove_file(note(name)).unwrap();
                if let Some(another) = another {
                    symlink(another, note(name)).unwrap();
                }
                gate.kernel = Some(Kernel::open(&gate.pins).unwrap());
                assert_eq!(gate.kernel().outdated(), [name]);
                let (before, counted) = (number(&gate.pins), passed(&mut gate, 0));
                send("192.0.2.1");
                let renewal = gate.kernel().renew();
                assert_eq!(renewal.replaced, [name], "{place:?} {kind:?}: {renewal:?}");
                assert_ne!(number(&gate.pins), before, "{place:?} {kind:?}");
                send("192.0.2.1");
                let now = passed(&mut gate, 0);
                assert_eq!(now.0 - counted.0, 10, "{place:?} {kind:?}");
                assert!(gate.kernel().outdated().is_empty());
                assert_eq!(gate.kernel().attachments(), std::slice::from_ref(&place));
            }
            let files = fs::read_dir(&programs).unwrap();
            let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let left = |file: &String| file.ends_with("_new") || file.ends_with("_spare");
            assert_eq!(files.filter(left).count(), 0);
            gate.kernel().detach(&place).unwrap();
            assert_eq!(gate.kernel().attachments(), []);
        }
        // One that nothing needs at present is replaced, too. The kernel keeps the old one if it refuses the new one.
        let map = gate.pins.join("maps/lines");
        fs::rename(&map, gate.pins.join("maps/elsewhere")).unwrap();
        fs::remove_file(note("tc_down")).unwrap();
        let renewal = gate.kernel().renew();
        assert!(renewal.replaced.is_empty());
        assert!(renewal.kept[0].starts_with("tc_down ("), "{renewal:?}");
        assert_eq!(gate.kernel().outdated(), ["tc_down"]);
        fs::rename(gate.pins.join("maps/elsewhere"), &map).unwrap();
        assert_eq!(gate.kernel().renew().replaced, ["tc_down"]);
    });
}
