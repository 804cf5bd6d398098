//! What holds after a live change, in a line.

use tidegate_gate::Direction;
use tidegate_gate::table::Match;

use super::events::Taken;
use super::status::turned;
use super::view::SubscriberJson;
use crate::units::rate;

#[cfg(test)]
mod tests;

/// Most addresses and tags in a line.
const MOST: usize = 8;

/// The limits of a subscriber: `alice: 20.0 Mbit/s down, 5.00 Mbit/s up (plan home)`.
pub fn limits(one: &SubscriberJson) -> String {
    let mut parts = Vec::new();
    if one.suspended {
        parts.push("suspended, so all its packets are dropped".to_owned());
    } else {
        for (way, limited) in [(Direction::Down, &one.down), (Direction::Up, &one.up)] {
            let (way, limit) = (way.name(), limited.as_ref().and_then(|one| one.rate));
            parts.push(match limit {
                Some(limit) => format!("{} {way}", rate(limit as f64)),
                None => format!("no limit {way}"),
            });
        }
    }
    let plan = match (&one.plan, turned(one)) {
        (Some(plan), turned) => format!("plan {plan}{turned}"),
        (None, _) => "no plan".to_owned(),
    };
    let mut text = format!("{}: {} ({plan})", one.name, parts.join(", "));
    for (key, value) in one.keys.iter().flatten() {
        text += &format!(", {key} = {value}");
    }
    if !one.from.is_empty() {
        text += &format!(", from {}", one.from.join(", "));
    }
    text
}

/// What belongs to a subscriber, and who lost some of it to this one: `alice: 192.0.2.7/32, vlan 7`, and a line
/// `vlan 7: bob no longer`.
pub fn addresses(one: &SubscriberJson, taken: &Taken) -> String {
    let mut text = match one.matches.is_empty() {
        true => format!("{}: no addresses or tags", one.name),
        false => format!("{}: {}", one.name, some(&one.matches)),
    };
    for (loser, what) in taken {
        text += &format!("\n{}: {loser} no longer", some(what));
    }
    text
}

/// The first addresses and tags, and how many more there are.
fn some(all: &[String]) -> String {
    let text = all[..all.len().min(MOST)].join(", ");
    match all.len().saturating_sub(MOST) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Who has what a subscriber lost: `192.0.2.7/32: bob has it again`.
pub fn released(what: &Match, lost: &str, holder: Option<&str>) -> String {
    match holder {
        Some(holder) => format!("{what}: {holder} has it again, {lost} no longer"),
        None => format!("{what}: no subscriber has it, {lost} no longer"),
    }
}
