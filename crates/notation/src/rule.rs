//! Match rules: which packets belong to which class of a policy.

use std::ops::RangeInclusive;

use tidegate_limiter::{DscpSet, Prefix, Rule};

use crate::{Fields, Key, Mistake, Node, Section, Value};

/// The keys of a rule.
pub const KEYS: &[Key] = &[
    key(
        "class",
        "number",
        "",
        "The class, from 0 in the order of the policy.",
    ),
    key("remote", "prefix", "any", "Addresses of the remote side."),
    key(
        "local",
        "prefix",
        "any",
        "Addresses of the subscriber's side.",
    ),
    key(
        "remote-ports",
        "port or range",
        "any",
        "Ports of the remote side: `443` or `\"5000-5100\"`. Fragments have no ports.",
    ),
    key(
        "local-ports",
        "port or range",
        "any",
        "Ports of the subscriber's side.",
    ),
    key(
        "protocol",
        "\"tcp\", \"udp\", \"icmp\", \"icmp6\", \"sctp\" or number",
        "any",
        "The transport protocol.",
    ),
    key(
        "dscp",
        "code points",
        "any",
        "Names or numbers, separated by commas: `\"ef,af41\"`.",
    ),
];

const fn key(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key {
        name,
        value,
        default,
        doc,
    }
}

/// IANA's numbers.
const PROTOCOLS: [(&str, u8); 5] = [
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("icmp6", 58),
    ("sctp", 132),
];

/// Reads a rule for packets to the subscriber, whose source is the remote side. The policy has this
/// many classes.
///
/// # Errors
/// All mistakes in it.
pub fn read(node: &Node, section: Section, classes: usize) -> Result<Rule, Vec<Mistake>> {
    let fields = Fields::of(node, "a rule").map_err(|mistake| vec![mistake])?;
    let mut mistakes: Vec<Mistake> = fields.unknown_keys(&[section], &[]).collect();
    let mut rule = Rule::default();
    if fields.node("class").is_none() && mistakes.is_empty() {
        mistakes.push(fields.missing("class"));
    }
    let mut note = |key: &str, read: &mut dyn FnMut(&Node) -> Result<(), Mistake>| {
        if let Some(Err(mistake)) = fields.node(key).map(read) {
            mistakes.push(mistake);
        }
    };
    note("class", &mut |node| {
        rule.class = node.integer("class", 0..=u16::MAX.into())? as u16;
        match usize::from(rule.class) < classes {
            true => Ok(()),
            false => Err(node.wrong(format!(
                "there is no class {}: the policy has {classes}, from 0 on",
                rule.class
            ))),
        }
    });
    for (key, into) in [
        ("remote", &mut rule.source),
        ("local", &mut rule.destination),
    ] {
        note(key, &mut |node| {
            set(into, node, node.text(key)?.parse::<Prefix>())
        });
    }
    for (key, into) in [
        ("remote-ports", &mut rule.source_ports),
        ("local-ports", &mut rule.destination_ports),
    ] {
        note(key, &mut |node| {
            *into = ports(key, node)?;
            Ok(())
        });
    }
    note("protocol", &mut |node| {
        rule.protocol = Some(protocol(node)?);
        Ok(())
    });
    note("dscp", &mut |node| {
        set(&mut rule.dscp, node, node.text("dscp")?.parse::<DscpSet>())
    });
    match mistakes.is_empty() {
        true => Ok(rule),
        false => Err(mistakes),
    }
}

fn set<T, E: ToString>(into: &mut T, node: &Node, read: Result<T, E>) -> Result<(), Mistake> {
    *into = read.map_err(|error| node.wrong(error.to_string()))?;
    Ok(())
}

fn ports(key: &str, node: &Node) -> Result<RangeInclusive<u16>, Mistake> {
    let Value::Text(text) = &node.value else {
        let port = node.integer(key, 0..=u16::MAX.into())? as u16;
        return Ok(port..=port);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().ok().zip(last.trim().parse().ok());
    let range = range.filter(|(first, last): &(u16, u16)| first <= last);
    range.map(|(first, last)| first..=last).ok_or_else(|| {
        let message = format!("'{text}' is neither a port nor a range: write 443 or \"5000-5100\"");
        node.wrong(message)
    })
}

fn protocol(node: &Node) -> Result<u8, Mistake> {
    match node.value {
        Value::Text(_) => node.word("protocol", &PROTOCOLS),
        _ => Ok(node.integer("protocol", 0..=255)? as u8),
    }
}

#[cfg(test)]
mod tests;
