//! When another plan takes the place of a plan.

use tidegate_notation::Node;

use super::fields::Fields;
use super::keys::SCHEDULE;
use super::problem::Sink;
use crate::calendar::{Counts, Quota, Slot, Terms};

const DAYS: [(&str, u8); 7] = [
    ("mon", 1),
    ("tue", 1 << 1),
    ("wed", 1 << 2),
    ("thu", 1 << 3),
    ("fri", 1 << 4),
    ("sat", 1 << 5),
    ("sun", 1 << 6),
];
/// Most times of day of a plan.
const MOST: usize = 64;

/// Reads quota and schedule of a plan, with these names of plans, and reports mistakes.
pub(super) fn terms<'a>(node: &'a Node, name: &str, plans: &[&str], sink: &'a Sink) -> Terms {
    let Some(f) = Fields::again(node, "a plan", sink) else {
        return Terms::default();
    };
    let tables = f.tables("schedule");
    if tables.len() > MOST {
        f.wrong(
            &tables[MOST],
            format!("too many times of day: at most {MOST}"),
        );
    }
    Terms {
        schedule: tables
            .iter()
            .take(MOST)
            .filter_map(|node| slot(node, name, plans, sink))
            .collect(),
        quota: quota(&f, name, plans),
    }
}

fn quota(f: &Fields<'_>, name: &str, plans: &[&str]) -> Option<Quota> {
    let of = [
        ("both", Counts::Both),
        ("down", Counts::Down),
        ("up", Counts::Up),
    ];
    let (counts, day) = (f.word("quota-of", &of), f.integer("quota-day", 1..=28));
    if f.node("quota").is_none() {
        if f.node("quota-plan").is_some() {
            f.wrong_key("quota-plan", "`quota-plan` needs `quota`");
        }
        return None;
    }
    if f.node("quota-plan").is_none() {
        f.wrong_key(
            "quota",
            "`quota-plan` is missing: name the plan for the rest of the month",
        );
    }
    Some(Quota {
        bytes: f.size("quota")?,
        counts: counts.unwrap_or_default(),
        day: day.unwrap_or(1) as u32,
        plan: other(f, "quota-plan", name, plans)?,
    })
}

fn slot<'a>(node: &'a Node, name: &str, plans: &[&str], sink: &'a Sink) -> Option<Slot> {
    let f = Fields::new(node, "a schedule", &[SCHEDULE], sink)?;
    for key in ["from", "to", "plan"] {
        if f.node(key).is_none() {
            f.missing(key);
        }
    }
    let time = |key: &str| {
        let text = f.text(key)?;
        let minute = minute(text);
        if minute.is_none() {
            f.wrong_key(
                key,
                format!("`{text}` is not a time of day: write \"06:30\""),
            );
        }
        minute
    };
    let days = f.values("days").iter();
    let days = days.filter_map(|node| sink.note(node.word("days", &DAYS)));
    let (from, to, plan) = (time("from"), time("to"), other(&f, "plan", name, plans));
    Some(Slot {
        days: match f.node("days") {
            None => Slot::ALL_DAYS,
            Some(_) => days.fold(0, |all, day| all | day),
        },
        from: from?,
        to: to?,
        plan: plan?,
    })
}

/// The name of another plan.
fn other(f: &Fields<'_>, key: &str, name: &str, plans: &[&str]) -> Option<String> {
    let other = f.text(key)?;
    if other == name {
        f.wrong_key(key, format!("`{key}` is the plan itself: name another one"));
    } else if !plans.contains(&other) {
        let meant = tidegate_notation::instead(other, plans.iter().copied());
        f.wrong_key(key, format!("there is no plan `{other}`{meant}"));
    }
    Some(other.to_owned())
}

/// Minutes since midnight.
fn minute(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let two = |text: &str| match text.len() {
        1 | 2 if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse::<u32>().ok(),
        _ => None,
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    (hour < 24 && minute < 60).then_some(60 * hour + minute)
}
