//! The capacities of links that vary.

use tidegate_limiter::Rate;
use tidegate_notation::{Mistake, Node, Value, quantity};

use super::fields::Fields;
use super::files::Files;
use crate::capacity::{Capacity, Steps};

/// Most steps.
const MOST: usize = 100_000;

/// The capacity of a link that varies; `None` if it is constant.
pub(super) fn varying(f: &Fields<'_>, files: &Files) -> Result<Option<Capacity>, Mistake> {
    let keys = ["rate", "rates", "trace"];
    let mut given = keys.iter().filter(|key| f.raw(key).is_some());
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        return Err(f.wrong(
            second,
            format!("a link has `{first}` or `{second}`: leave one out"),
        ));
    }
    let steps = f.raw("rates");
    if steps.is_none() && f.raw("period").is_some() {
        return Err(f.wrong("period", "`period` has no meaning without `rates`"));
    }
    if let Some(node) = f.raw("trace") {
        return files.trace(node).map(|trace| Some(Capacity::Trace(trace)));
    }
    let Some(node) = steps else {
        return Ok(None);
    };
    let Value::List(list) = &node.value else {
        return Err(node.wrong("`rates` is a list of pairs, such as [[\"0s\", \"5mbit\"]]"));
    };
    if list.len() > MOST {
        return Err(node.wrong(format!("`rates` has at most {MOST} steps")));
    }
    let pairs: Vec<_> = list.iter().map(step).collect::<Result<_, _>>()?;
    let steps = Steps::new(pairs, f.positive_time("period")?);
    let steps = steps.map_err(|message| node.wrong(format!("`rates`: {message}")))?;
    Ok(Some(Capacity::Steps(steps)))
}

/// A time, and the rate from then on.
fn step(node: &Node) -> Result<(tidegate_limiter::Nanos, Rate), Mistake> {
    let pair = match &node.value {
        Value::List(pair) => pair.as_slice(),
        _ => &[],
    };
    let [at, rate] = pair else {
        return Err(node.wrong("a step of `rates` is a pair such as [\"5s\", \"2mbit\"]"));
    };
    let (from, bits) = (
        at.quantity("rates", quantity::time)?,
        rate.quantity("rates", quantity::rate)?,
    );
    let value = Rate::from_bits_per_second(bits);
    if bits > 0 && !Rate::LIMITABLE.contains(&value) {
        let message = format!("`rates` must be 0bit or {}", Rate::LIMITABLE_TEXT);
        return Err(rate.wrong(message));
    }
    Ok((from, value))
}
