//! What holds after a live change, in a line.

use tidegate_gate::Direction;
use tidegate_gate::table::Match;

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

/// What belongs to a subscriber: `alice: 192.0.2.7/32, vlan 7`.
pub fn addresses(one: &SubscriberJson) -> String {
    let all = &one.matches;
    let mut text = match all.is_empty() {
        true => "no addresses or tags".to_owned(),
        false => all[..all.len().min(MOST)].join(", "),
    };
    if let Some(more @ 1..) = all.len().checked_sub(MOST) {
        text += &format!(" and {more} more");
    }
    format!("{}: {text}", one.name)
}

/// Who has what a subscriber lost: `192.0.2.7/32: bob has it again`.
pub fn released(what: &Match, lost: &str, holder: Option<&str>) -> String {
    match holder {
        Some(holder) => format!("{what}: {holder} has it again, {lost} no longer"),
        None => format!("{what}: no subscriber has it, {lost} no longer"),
    }
}
