//! Documented defaults.

use tidegate_notation::{Key, Section};

use super::*;
use crate::scenario::keys::SECTIONS;

/// The keys that a table needs, with some value of their kind.
fn needed(section: &Section) -> Vec<String> {
    let needed = section.keys.iter().filter(|key| key.default.is_empty());
    let value = |key: &Key| {
        let value = match key.value {
            "rate" => "'10mbit'",
            "time" => "'10ms'",
            "size" => "'90kB'",
            "number" => "0.5",
            "rates" => "['1mbit', '3mbit']",
            _ => return None,
        };
        Some(format!("{} = {value}", key.name))
    };
    let mut lines: Vec<String> = needed.filter_map(value).collect();
    if section.name.contains("drop-tail") {
        lines.push("packets = 10".to_owned());
    }
    lines
}

/// A scenario around a table with these keys.
fn scenario(section: &Section, keys: &[String]) -> String {
    let (lines, inside) = (keys.join("\n"), keys.join(", "));
    let link = "kind = 'link'\nrate = '10mbit'";
    let flow = "[[flow]]\nname = 'f'\npath = ['e']\nrtt = '10ms'";
    let flow_without_rtt = "[[flow]]\nname = 'f'\npath = ['e']";
    // Names of tables within a line end with their closing brace.
    let table = section.name.trim_end_matches('}').trim_end();
    match section.name {
        "the file" => {
            format!("{lines}\n[[element]]\nname = 'e'\n{link}\n{flow}")
        }
        "[[element]]" => {
            format!("duration = '1s'\n[[element]]\nname = 'e'\n{link}\n{lines}\n{flow}")
        }
        "[[flow]]" => {
            format!("duration = '1s'\n[[element]]\nname = 'e'\n{link}\n{flow_without_rtt}\n{lines}")
        }
        name if name.starts_with("kind = ") => {
            format!("duration = '1s'\n[[element]]\nname = 'e'\n{name}\n{lines}\n{flow}")
        }
        name if name.starts_with("queue = ") => format!(
            "duration = '1s'\n[[element]]\nname = 'e'\n{link}\n{table}, {inside} }}\n{flow}"
        ),
        name if name.starts_with("traffic = ") => format!(
            "duration = '1s'\n[[element]]\nname = 'e'\n{link}\n{flow}\n{table}, {inside} }}"
        ),
        _ => String::new(),
    }
}

/// A file that writes a default as the documentation has it means the same as one that leaves it out.
#[test]
fn documented_defaults_are_those_of_the_lab() {
    let (mut compared, mut different) = (0, Vec::new());
    for section in SECTIONS {
        let needed = needed(section);
        let without = scenario(section, &needed);
        if without.is_empty() {
            continue;
        }
        let left_out = parse(&without).unwrap_or_else(|error| panic!("{error}"));
        for line in section.keys.iter().filter_map(Key::written_default) {
            let all = [&needed[..], std::slice::from_ref(&line)].concat();
            let written = scenario(section, &all);
            // Two keys belong to another way to pace than the default one. A class that is written, and none,
            // are the same to limiters only.
            let key = line.split(' ').next().unwrap_or_default();
            if ["kind", "class", "headroom", "hold-average"].contains(&key) {
                continue;
            }
            let written = parse(&written).unwrap_or_else(|error| panic!("{error}"));
            if one(&written) != one(&left_out) {
                different.push(format!("{}: {line}", section.name));
            }
            compared += 1;
        }
    }
    assert_eq!(different, [""; 0]);
    assert!(compared > 60, "{compared}");
}
