//! Keys of a plan that were set live for one subscriber, in place of those of its plan.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tidegate_notation::{KeyNode, Node, Place, Table, Value};

use super::problem::Sink;
use super::{plan, terms};
use crate::calendar::{Counts, Quota};
use crate::limits::PlanTemplate;

/// Keys of `[plan.NAME]` and their values, as JSON has them. `quota` may also be `"none"`.
pub type PlanKeys = BTreeMap<String, Json>;

/// Reads `KEY=VALUE`, with the value as in the file or as a text without quotes. Without a value it is null.
///
/// # Errors
/// If there is no `=`, or the value begins as a list or table and is none.
pub fn plan_key(text: &str) -> Result<(String, Json), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("write KEY=VALUE, such as quota=500GB")?;
    let value = match value.trim() {
        "" => Json::Null,
        value => {
            let node = tidegate_notation::parse_value(0, value);
            json(&node.map_err(|mistake| mistake.message)?.value)
        }
    };
    Ok((key.trim().to_owned(), value))
}

/// A plan with other values for these keys. `name` is the plan's, and `plans` are the names of all plans.
///
/// # Errors
/// The mistakes in the keys, a sentence each.
pub(crate) fn overlay(
    base: &PlanTemplate,
    name: &str,
    plans: &[&str],
    keys: &PlanKeys,
) -> Result<PlanTemplate, String> {
    let sink = Sink::default();
    let mut table = table(keys.iter())?;
    let no_quota = keys.get("quota").and_then(Json::as_str) == Some("none");
    if no_quota {
        table.0.retain(|(key, _)| !key.text.starts_with("quota"));
    } else if let Some(quota) = &base.terms.quota
        && keys.keys().any(|key| key.starts_with("quota"))
    {
        keep_quota(&mut table, quota);
    }
    let node = at_no_place(Value::Table(table));
    let mut whole = plan::plan(&node, base, &sink);
    let new = terms::terms(&node, name, plans, &sink);
    whole.terms = base.terms.clone();
    if keys.contains_key("schedule") {
        whole.terms.schedule = new.schedule;
    }
    if no_quota || new.quota.is_some() {
        whole.terms.quota = new.quota;
    }
    let mistakes = sink.into_messages();
    match mistakes.is_empty() {
        true => Ok(whole),
        false => Err(mistakes.join("; ")),
    }
}

/// Keys of a quota that are not given stay as they are in the plan.
fn keep_quota(table: &mut Table, quota: &Quota) {
    let of = match quota.counts {
        Counts::Both => "both",
        Counts::Down => "down",
        Counts::Up => "up",
    };
    let parts = [
        ("quota", Value::Text(format!("{}B", quota.bytes))),
        ("quota-plan", Value::Text(quota.plan.clone())),
        ("quota-of", Value::Text(of.to_owned())),
        ("quota-day", Value::Integer(i64::from(quota.day))),
    ];
    for (key, value) in parts {
        if table.get(key).is_none() {
            table.set(&[key], at_no_place(value));
        }
    }
}

fn at_no_place(value: Value) -> Node {
    let place = Place::default();
    Node { place, value }
}

fn table<'a>(entries: impl Iterator<Item = (&'a String, &'a Json)>) -> Result<Table, String> {
    let entry = |(key, value): (&String, &Json)| {
        let key = KeyNode {
            place: Place::default(),
            text: key.clone(),
        };
        Ok((key, node(value)?))
    };
    Ok(Table(entries.map(entry).collect::<Result<_, String>>()?))
}

fn json(value: &Value) -> Json {
    match value {
        Value::Text(text) | Value::Date(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Truth(truth) => (*truth).into(),
        Value::List(all) => all.iter().map(|one| json(&one.value)).collect(),
        Value::Table(table) => {
            let entries = table.0.iter();
            entries
                .map(|(key, one)| (key.text.clone(), json(&one.value)))
                .collect()
        }
    }
}

fn node(json: &Json) -> Result<Node, String> {
    let value = match json {
        Json::Null => return Err("null is not a value inside of `keys`".to_owned()),
        Json::Bool(truth) => Value::Truth(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Integer(number),
            (None, Some(number)) => Value::Real(number),
            (None, None) => return Err(format!("{number} is too large")),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(all) => Value::List(all.iter().map(node).collect::<Result<_, _>>()?),
        Json::Object(all) => Value::Table(table(all.iter())?),
    };
    Ok(at_no_place(value))
}
