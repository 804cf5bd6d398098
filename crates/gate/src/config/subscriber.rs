//! Subscribers in the file itself.

use tidegate_notation::{Node, Place, Value};

use super::fields::Fields;
use super::keys::SUBSCRIBER;
use super::problem::Sink;
use super::roll::Draft;
use crate::matches;
use crate::table::{Match, PerDirection};

/// Reads an entry, and reports what is wrong with it.
pub(super) fn subscriber<'a>(node: &'a Node, sink: &'a Sink) -> Option<Draft<'a>> {
    let f = Fields::new(node, "a subscriber", &[SUBSCRIBER], sink)?;
    let mut found = Vec::new();
    let mut read = |key: &str, read: fn(&str) -> Result<Match, String>| {
        for node in f.values(key) {
            let text = match &node.value {
                // A pair may not be a number: 100.20 would be 100.2.
                Value::Integer(number) if key != "qinq" => Ok(number.to_string()),
                _ => node.text(key).map(str::to_owned),
            };
            let found_here = text.and_then(|text| read(&text).map_err(|error| node.wrong(error)));
            if let Some(what) = sink.note(found_here) {
                found.push((what, node.place));
            }
        }
    };
    read("addresses", matches::prefix);
    read("vlan", matches::vlan);
    read("qinq", matches::qinq);
    read("pppoe", matches::pppoe);
    let place = |key: &str| -> Place { f.known().place_of(key) };
    let rates = PerDirection::new(|way| f.rate(way.name()));
    let (name, plan) = (f.text("name"), f.text("plan"));
    if f.node("name").is_none() {
        f.missing("name");
    }
    Some(Draft {
        name: name?,
        plan,
        rates,
        matches: found,
        place: place("name"),
        plan_place: place("plan"),
        rate_places: PerDirection::new(|way| place(way.name())),
    })
}
