//! Limiters of a scenario that are changed without writing: scheme, rate and burst.

use serde_json::{Value, json};
use tidegate_notation::quantity;

use crate::outline::{Part, kind_section, kinds, parts, section};

/// What only limiters have, of all elements.
const OF_LIMITERS: [&str; 2] = ["rate", "overhead"];
/// How deep a limiter's bucket is, or how long its queue, by the name that its kind has for it.
const DEPTHS: [&str; 4] = ["burst", "queue", "committed", "peak-burst"];

/// Whether a kind of element has a key.
fn has(kind: &str, key: &str) -> bool {
    let sections = [kind_section("", kind), section("[[element]]")];
    let mut keys = sections.into_iter().flatten().flat_map(|one| one.keys);
    keys.any(|one| one.name == key)
}

fn is_limiter(kind: &str) -> bool {
    OF_LIMITERS.iter().all(|key| has(kind, key))
}

/// The limiters of a text, and what they are set to. A key that the sweep varies is not set by the limiter's table.
pub fn limiters(text: &str) -> Value {
    let parts = parts(text);
    let found = parts.iter().enumerate().filter_map(|(number, part)| {
        let name = part.entry("name")?.text();
        let kind = part
            .entry("kind")
            .filter(|_| part.heading == "[[element]]")?;
        let kind = kind.text();
        if !is_limiter(kind) {
            return None;
        }
        let is_varied = |key: &str| is_varied(&parts, name, key);
        let depth = DEPTHS.into_iter().find(|key| has(kind, key))?;
        let of = |key: &str, read: fn(&str) -> Result<u64, String>| {
            let text = part.entry(key).map(|entry| entry.text().to_owned());
            let number = text.as_deref().and_then(|text| read(text).ok());
            json!({ "key": key, "text": text, "number": number, "varied": is_varied(key) })
        };
        let schemes = kinds("")
            .map(|(kind, _)| kind)
            .filter(|kind| is_limiter(kind));
        Some(json!({
            "number": number,
            "name": name,
            "kind": kind,
            "kind_varied": is_varied("kind"),
            "kinds": schemes.collect::<Vec<_>>(),
            "rate": of("rate", quantity::rate),
            "depth": of(depth, quantity::bytes),
        }))
    });
    found.collect()
}

/// Whether the sweep varies a key of the table with this name: in its own table, or in one that it has for this name.
fn is_varied(parts: &[Part<'_>], name: &str, key: &str) -> bool {
    parts.iter().any(|part| {
        let heading = part.heading.replace(['[', ']', '"', '\'', ' '], "");
        match heading.strip_prefix("sweep") {
            Some("") => {
                part.entry(name).is_some() || part.entry(&format!("{name}.{key}")).is_some()
            }
            Some(rest) => rest.strip_prefix('.') == Some(name) && part.entry(key).is_some(),
            None => false,
        }
    })
}

/// The text with another value of a limiter's key. With another kind, keys that this kind does not have are left out.
///
/// # Errors
/// There is no such limiter.
pub fn turn(text: &str, number: usize, key: &str, value: &str) -> Result<String, String> {
    let parts = parts(text);
    let part = parts
        .get(number)
        .filter(|part| part.entry("kind").is_some());
    let part = part.ok_or("there is no such limiter in the scenario")?;
    let value = format!("\"{}\"", value.replace(['"', '\\', '\n'], ""));
    let mut turned = text.to_owned();
    // From the end on, so that places before stay what they are.
    for entry in part.entries.iter().rev() {
        if entry.key == key {
            turned.replace_range(entry.place.clone(), &value);
        } else if key == "kind" && is_foreign(part, entry.key, value.trim_matches('"')) {
            turned.replace_range(entry.lines.clone(), "");
        }
    }
    if part.entry(key).is_none()
        && let Some(kind) = part.entry("kind")
    {
        let end = if turned[..kind.lines.end].ends_with('\n') {
            ""
        } else {
            "\n"
        };
        turned.insert_str(kind.lines.end, &format!("{end}{key} = {value}\n"));
    }
    Ok(turned)
}

/// Whether a key belongs to the present kind of an element and not to another one.
fn is_foreign(part: &Part<'_>, key: &str, kind: &str) -> bool {
    part.keys().any(|one| one.name == key) && !has(kind, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_lab::scenario::Scenario;

    const TEXT: &str = "duration = \"2s\"\n[[element]]\nname = \"gate\"\nkind = \"policer\"   # drops\nrate = \"10mbit\"\nburst = \"30kB\"\n\
                        [[element]]\nname = \"line\"\nkind = \"link\"\nrate = \"1gbit\"\n\
                        [[flow]]\nname = \"a\"\nrtt = \"20ms\"\npath = [\"gate\", \"line\"]\n";

    #[test]
    fn limiters_are_found_and_links_are_not() {
        let found = limiters(TEXT);
        assert_eq!(found.as_array().map(Vec::len), Some(1));
        let gate = &found[0];
        assert_eq!(
            (gate["name"].as_str(), gate["kind"].as_str()),
            (Some("gate"), Some("policer"))
        );
        assert_eq!(gate["rate"]["number"], 10_000_000);
        assert_eq!(
            (
                gate["depth"]["key"].as_str(),
                gate["depth"]["number"].as_u64()
            ),
            (Some("burst"), Some(30_000))
        );
    }

    /// docs/reference/scenarios.md writes the key in quotes.
    #[test]
    fn what_the_sweep_varies_is_not_set_however_it_is_written() {
        for sweep in [
            "[sweep]\ngate.rate = [\"1mbit\"]\n",
            "[sweep]\n\"gate.rate\" = [\"1mbit\"]\n",
            "[sweep]\n'gate.rate' = [\n  \"1mbit\",\n]\n",
            "[sweep.gate]\nrate = [\"1mbit\"]\n",
            "[sweep.\"gate\"]\nrate = [\"1mbit\"]\n",
            "[[sweep.gate]]\nrate = \"1mbit\"\n",
        ] {
            let text = format!("{TEXT}{sweep}");
            assert!(Scenario::parse(text.as_str()).is_ok(), "{sweep}");
            let found = &limiters(&text)[0];
            let varied = ["rate", "depth"].map(|key| found[key]["varied"] == true);
            assert_eq!(varied, [true, false], "{sweep}");
        }
        let other = format!("{TEXT}[sweep.line]\nrate = [\"1mbit\"]\n");
        assert_eq!(limiters(&other)[0]["rate"]["varied"], false);
    }

    #[test]
    fn quotes_of_either_kind_are_no_part_of_a_value() {
        let text = TEXT.replace("\"policer\"", "'policer'");
        assert_eq!(limiters(&text), limiters(TEXT));
    }

    #[test]
    fn values_on_several_lines_are_left_out_whole() {
        let policy = "policy = { priority = [ # both\n  \"queue\",\n  \"queue\" ] }\n";
        let burst = "burst = \"30kB\"\n";
        let text = TEXT.replace("\"policer\"", "\"pqp\"");
        let text = text.replace(burst, &format!("queue = \"300kB\"\n{policy}"));
        assert!(Scenario::parse(text.as_str()).is_ok());
        let number = limiters(&text)[0]["number"].as_u64().expect("a number") as usize;
        let turned = turn(&text, number, "kind", "policer").expect("turned");
        assert_eq!(turned, TEXT.replace(burst, ""));
        // A value on several lines is replaced whole, too.
        let text = TEXT.replace("\"10mbit\"", "'''\n10mbit'''");
        let turned = turn(&text, number, "rate", "10mbit").expect("turned");
        assert_eq!(turned, TEXT);
    }

    #[test]
    fn every_turn_leaves_a_sound_scenario() {
        let number = limiters(TEXT)[0]["number"].as_u64().expect("a number") as usize;
        let slower = turn(TEXT, number, "rate", "2.5mbit").expect("turned");
        assert_eq!(slower, TEXT.replace("10mbit", "2.5mbit"));
        let kinds = limiters(TEXT)[0]["kinds"]
            .as_array()
            .cloned()
            .expect("kinds");
        assert!(kinds.len() > 5);
        for kind in kinds.iter().filter_map(Value::as_str) {
            // A peak rate has no default.
            if kind == "trtcm" {
                continue;
            }
            let other = turn(TEXT, number, "kind", kind).expect("turned");
            let scenario = Scenario::parse(other.as_str());
            assert!(scenario.is_ok(), "{kind}: {:?}\n{other}", scenario.err());
            let found = limiters(&other);
            let depth = found[0]["depth"]["key"].as_str().expect("a key");
            let deeper = turn(&other, number, depth, "100kB").expect("turned");
            assert_eq!(limiters(&deeper)[0]["depth"]["number"], 100_000, "{deeper}");
            assert!(Scenario::parse(deeper.as_str()).is_ok(), "{deeper}");
        }
        assert!(turn(TEXT, 99, "rate", "1mbit").is_err());
    }
}
