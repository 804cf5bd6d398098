//! Subscribers in the file itself.

use tidegate_notation::{Node, Place, Value};

use super::fields::Fields;
use super::keys::SUBSCRIBER;
use super::problem::Sink;
use super::roll::{Draft, LIVE};
use crate::binding::{Binding, Mac};
use crate::matches;
use crate::table::PerDirection;

/// Reads an entry, and reports what is wrong with it.
pub(super) fn subscriber<'a>(node: &'a Node, sink: &'a Sink) -> Option<Draft<'a>> {
    // An unknown key may be meant to be one that is missing.
    let mistakes = sink.count();
    let f = Fields::new(node, "a subscriber", &[SUBSCRIBER], sink)?;
    let mut found = Vec::new();
    let mut live = false;
    for (key, read) in matches::KEYS {
        for node in f.values(key) {
            let text = match &node.value {
                // A pair may not be a number: 100.20 would be 100.2.
                Value::Integer(number) if key != "qinq" => Ok(number.to_string()),
                _ => node.text(key).map(str::to_owned),
            };
            if key == "addresses" && text.as_deref() == Ok(LIVE) {
                live = true;
                continue;
            }
            let found_here = text.and_then(|text| read(&text).map_err(|error| node.wrong(error)));
            let found_here = sink.note(found_here).unwrap_or_default();
            found.extend(found_here.into_iter().map(|what| (what, node.place)));
        }
    }
    let users = f.values("users").iter().filter_map(|node| {
        let user = sink.note(node.text("users"))?;
        Some((user.to_owned(), node.place))
    });
    let place = |key: &str| -> Place { f.known().place_of(key) };
    let rates = PerDirection::new(|way| f.rate(way.name()));
    let (name, plan, parent) = (f.text("name"), f.text("plan"), f.text("parent"));
    if f.node("name").is_none() {
        f.missing("name");
    }
    Some(Draft {
        name: name?,
        plan,
        parent,
        rates,
        matches: found,
        unread: sink.count() > mistakes,
        live,
        users: users.collect(),
        suspended: f.truth("suspended").unwrap_or(false),
        place: place("name"),
        plan_place: place("plan"),
        parent_place: place("parent"),
        rate_places: PerDirection::new(|way| place(way.name())),
        from: Binding {
            port: f.text("from-port").map(str::to_owned),
            mac: f.node("from-mac").and_then(|node| {
                let read = |text: &str| Mac::read(text).map_err(|error| node.wrong(error));
                sink.note(node.text("from-mac").and_then(read))
            }),
            tags: f.node("from-vlan").and_then(|node| {
                let text = match &node.value {
                    Value::Integer(number) => Ok(number.to_string()),
                    _ => node.text("from-vlan").map(str::to_owned),
                };
                let read =
                    |text: String| Binding::read_tags(&text).map_err(|error| node.wrong(error));
                sink.note(text.and_then(read))
            }),
        },
        port_place: place("from-port"),
    })
}
