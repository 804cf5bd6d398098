//! Subscribers in the file itself.

use toml::de::DeValue;

use super::fields::{Fields, Node, decimal};
use super::keys::SUBSCRIBER;
use super::problem::{Place, Sink};
use super::roll::Draft;
use crate::matches;
use crate::table::Match;

/// Reads an entry; what is wrong with it is told.
pub(super) fn subscriber<'a>(node: &'a Node<'a>, sink: &'a Sink) -> Option<Draft<'a>> {
    let f = Fields::new(node, "a subscriber", &[SUBSCRIBER], sink)?;
    let mut found = Vec::new();
    let mut read = |key: &str, read: fn(&str) -> Result<Match, String>| {
        for node in f.many(key) {
            let text = match node.get_ref() {
                DeValue::String(text) => text.to_string(),
                // A pair may not be a number: 100.20 would be 100.2.
                DeValue::Integer(number) if key != "qinq" => decimal(number),
                _ => {
                    f.text_of(node, key);
                    continue;
                }
            };
            match read(&text) {
                Ok(what) => found.push((what, f.place_of(node))),
                Err(message) => f.wrong(node, message),
            }
        }
    };
    read("addresses", matches::prefix);
    read("vlan", matches::vlan);
    read("qinq", matches::qinq);
    read("pppoe", matches::pppoe);
    let place = |key: &str| -> Place { f.node(key).map_or(f.place(), |node| f.place_of(node)) };
    let rates = [f.rate("down"), f.rate("up")];
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
        rate_places: [place("down"), place("up")],
    })
}
