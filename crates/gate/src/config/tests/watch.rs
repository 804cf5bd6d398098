//! What is watched.

use super::*;
use crate::quality::{Range, Requirement, Watch};

#[test]
fn watching_has_defaults() {
    assert_eq!(sound(SMALL).watch, None);
    let watch = sound(&format!("{SMALL}\n[watch]\n")).watch;
    let requirement = Requirement::default();
    let flows = 65_536;
    assert_eq!(watch, Some(Watch { flows, requirement }));
    let given = "[watch]\nflows = 1024\np50 = [\"10ms\", \"1s\"]\nagain = [0.5, 2]\n";
    let watch = sound(&format!("{SMALL}\n{given}")).watch.expect("one");
    assert_eq!(watch.flows, 1_024);
    let second = 1_000_000_000;
    let (good, useless) = (second / 100, second);
    assert_eq!(watch.requirement.p50, Range { good, useless });
    assert_eq!(watch.requirement.p95, requirement.p95);
    let (good, useless) = (5_000, 20_000);
    assert_eq!(watch.requirement.again, Range { good, useless });
}

#[test]
fn a_shadow_is_asked_for() {
    assert!(!sound(SMALL).shadow);
    assert!(sound(&format!("shadow = true\n{SMALL}")).shadow);
}

#[test]
fn mistakes_in_it_have_places() {
    for (key, wanted) in [
        ("flows = 10", "`flows` must be from 1024 to 16777216"),
        ("p50 = \"10ms\"", "`p50` is a list of two values"),
        (
            "p95 = [\"10ms\", \"10ms\"]",
            "`p95` begins with the lower value",
        ),
        ("p50 = [\"10ms\", \"fast\"]", "`p50`: "),
        ("again = [1, 200]", "`again` must be from 0 to 100"),
        ("p99 = 1", "p99"),
    ] {
        let text = format!("{SMALL}\n[watch]\n{key}\n");
        let found = wrong(&text, &[]).join("\n");
        assert!(found.contains(wanted), "{key}: {found}");
    }
}

#[test]
fn documented_defaults_are_those_of_the_gate() {
    let keys = keys::WATCH.keys.iter();
    let written: Vec<String> = keys
        .map(|key| format!("{} = {}", key.name, key.default))
        .collect();
    let written = format!("{SMALL}\n[watch]\n{}\n", written.join("\n"));
    assert_eq!(sound(&written), sound(&format!("{SMALL}\n[watch]\n")));
}
