//! Match rules: what belongs to which class of a policy.

use std::ops::RangeInclusive;

use tidegate_limiter::{DscpSet, Prefix, Rule};

use crate::{Key, instead};

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

/// A value of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Text in quotes.
    Text(&'a str),
    /// A whole number.
    Integer(i64),
    /// Anything else: what it is.
    Other(&'static str),
}

impl Value<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a number",
            Self::Other(kind) => kind,
        }
    }
}

/// Reads the values of a rule's [`KEYS`] by `get`, as a rule of packets to the subscriber: their source is
/// the remote side. What is wrong with the value of which key is told to `wrong`, and reading goes
/// on. The class must be one of so many.
pub fn read<'a>(
    classes: usize,
    get: impl Fn(&str) -> Option<Value<'a>>,
    mut wrong: impl FnMut(&str, String),
) -> Rule {
    let mut told = |key: &str, read: Result<(), String>| {
        if let Err(message) = read {
            wrong(key, message);
        }
    };
    let mut rule = Rule::default();
    if let Some(value) = get("class") {
        let class = integer("class", value, u16::MAX.into()).and_then(|class| {
            rule.class = class as u16;
            let found = usize::from(rule.class) < classes;
            found.then_some(()).ok_or_else(|| {
                format!("there is no class {class}: the policy has {classes}, from 0 on")
            })
        });
        told("class", class);
    }
    let addresses = [
        ("remote", &mut rule.source),
        ("local", &mut rule.destination),
    ];
    for (key, into) in addresses {
        if let Some(value) = get(key) {
            told(
                key,
                text(key, value).and_then(|text| set(into, text.parse::<Prefix>())),
            );
        }
    }
    let ranges = [
        ("remote-ports", &mut rule.source_ports),
        ("local-ports", &mut rule.destination_ports),
    ];
    for (key, into) in ranges {
        if let Some(value) = get(key) {
            told(key, set(into, ports(key, value)));
        }
    }
    if let Some(value) = get("protocol") {
        told(
            "protocol",
            set(&mut rule.protocol, protocol(value).map(Some)),
        );
    }
    if let Some(value) = get("dscp") {
        let set = |text: &str| set(&mut rule.dscp, text.parse::<DscpSet>());
        told("dscp", text("dscp", value).and_then(set));
    }
    rule
}

/// Reads one code point, by number or by name: `46`, `"ef"`.
///
/// # Errors
/// Why it is none.
pub fn code_point(key: &str, value: Value<'_>) -> Result<u8, String> {
    match value {
        Value::Text(text) => one(text).ok_or_else(|| {
            format!("'{text}' is no one code point: write one such as \"cs1\" or 8")
        }),
        number => integer(key, number, 63).map(|dscp| dscp as u8),
    }
}

/// Reads what becomes of packets: `"drop"`, which is `None`, or the code point that they get.
///
/// # Errors
/// Why it is neither.
pub fn mark(key: &str, value: Value<'_>) -> Result<Option<u8>, String> {
    match value {
        Value::Text("drop") => Ok(None),
        Value::Text(text) => match one(text) {
            Some(dscp) => Ok(Some(dscp)),
            None => Err(format!(
                "'{text}' is no one code point, and not \"drop\": write one such as \"cs1\" or 8"
            )),
        },
        Value::Integer(_) => code_point(key, value).map(Some),
        Value::Other(kind) => Err(format!("`{key}` is \"drop\" or a code point, not {kind}")),
    }
}

/// The code point that a text names, if it is one.
fn one(text: &str) -> Option<u8> {
    let points = text.parse::<DscpSet>().map_or(0, DscpSet::bits);
    (points.is_power_of_two()).then(|| points.trailing_zeros() as u8)
}

fn set<T, E: ToString>(into: &mut T, read: Result<T, E>) -> Result<(), String> {
    *into = read.map_err(|error| error.to_string())?;
    Ok(())
}

fn text<'a>(key: &str, value: Value<'a>) -> Result<&'a str, String> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(format!("`{key}` is text in quotes, not {}", other.kind())),
    }
}

fn integer(key: &str, value: Value<'_>, most: u64) -> Result<u64, String> {
    let Value::Integer(number) = value else {
        return Err(format!("`{key}` is a whole number, not {}", value.kind()));
    };
    let number = u64::try_from(number).ok().filter(|&number| number <= most);
    number.ok_or_else(|| format!("`{key}` must be from 0 to {most}"))
}

fn ports(key: &str, value: Value<'_>) -> Result<RangeInclusive<u16>, String> {
    let Value::Text(text) = value else {
        let port = integer(key, value, u16::MAX.into())? as u16;
        return Ok(port..=port);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().ok().zip(last.trim().parse().ok());
    let range = range.filter(|(first, last): &(u16, u16)| first <= last);
    range
        .map(|(first, last)| first..=last)
        .ok_or_else(|| format!("'{text}' is no port and no range: write 443 or \"5000-5100\""))
}

fn protocol(value: Value<'_>) -> Result<u8, String> {
    let Value::Text(text) = value else {
        return integer("protocol", value, 255).map(|number| number as u8);
    };
    let found = PROTOCOLS.iter().find(|(name, _)| *name == text);
    found.map(|(_, number)| *number).ok_or_else(|| {
        let meant = instead(text, PROTOCOLS.map(|(name, _)| name));
        format!("`protocol` cannot be `{text}`{meant}")
    })
}

#[cfg(test)]
mod tests;
