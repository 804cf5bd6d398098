//! Adaptive videos and web pages of a file, checked and chosen.

use tidegate_limiter::Rate;
use tidegate_notation::{Mistake, Node, Value, quantity};

use super::fields::Fields;
use super::files::Files;
use super::keys::PAGE;
use crate::SECOND;
use crate::page::{Drawn, MOST_OBJECTS};
use crate::plan::{AdaptationRule, AdaptivePlan, Http, Pages, WebPlan};

/// Most qualities of a video.
const MOST_QUALITIES: usize = 100;
/// Most different sizes of segments.
const MOST_SIZES: usize = 10_000;

/// An adaptive video, from the table of its traffic.
pub(super) fn adaptive(f: &Fields<'_>) -> Result<AdaptivePlan, Mistake> {
    let ladder = f.raw("ladder").ok_or_else(|| f.missing("ladder"))?;
    let ladder = rates(ladder)?;
    Ok(AdaptivePlan {
        initial: f.rate("initial")?.unwrap_or(ladder[0]),
        initial_segments: f.integer("initial-segments", 1..=1000)?.unwrap_or(1) as u32,
        unmeasured: f.small_bytes("unmeasured", 0..=1_000_000)?.unwrap_or(0),
        weight: thousandths(f.real("weight", 0.01..=100.0)?.unwrap_or(1.0)),
        ladder,
        segment: f.positive_time("segment")?.unwrap_or(4 * SECOND),
        length: f.positive_time("length")?.unwrap_or(300 * SECOND),
        sizes: f.raw("segment-sizes").map_or(Ok(Vec::new()), shares)?,
        rule: f
            .word("rule", &AdaptationRule::NAMES)?
            .unwrap_or(AdaptationRule::Throughput),
        buffer: f.positive_time("buffer")?.unwrap_or(30 * SECOND),
        start: f.time("join")?.unwrap_or(2 * SECOND),
        restart: f.time("rejoin")?.unwrap_or(5 * SECOND),
        request: f.small_bytes("request", 1..=1_000_000)?.unwrap_or(300),
        preface: f.raw("preface").map_or(Ok(Vec::new()), sizes)?,
        work: f.time("work")?.unwrap_or(0),
    })
}

/// The nearest number of thousandths: 1.001 is 1001, though its product with 1000 is a little less.
pub(super) fn thousandths(share: f64) -> u32 {
    (share * 1000.0).round() as u32
}

/// Sizes of segments in thousandths.
fn shares(node: &Node) -> Result<Vec<u32>, Mistake> {
    let Value::List(list) = &node.value else {
        return Err(node.wrong("`segment-sizes` is a list of numbers, such as [1.1, 0.9]"));
    };
    if list.len() > MOST_SIZES {
        return Err(node.wrong(format!("`segment-sizes` has at most {MOST_SIZES} numbers")));
    }
    let shares = list
        .iter()
        .map(|node| node.real("segment-sizes", 0.01..=100.0));
    shares.map(|share| Ok(thousandths(share?))).collect()
}

/// The sizes of a preface; the simulation checks their number.
fn sizes(node: &Node) -> Result<Vec<u64>, Mistake> {
    let Value::List(list) = &node.value else {
        return Err(node.wrong("`preface` is a list of sizes, such as [\"3kB\", \"1kB\"]"));
    };
    let sizes = list
        .iter()
        .map(|node| node.quantity("preface", quantity::bytes));
    sizes.collect()
}

/// The rates of a ladder.
fn rates(node: &Node) -> Result<Vec<Rate>, Mistake> {
    let complaint =
        "`ladder` is a list of ascending rates, such as [\"300kbit\", \"1mbit\", \"3mbit\"]";
    let Value::List(list) = &node.value else {
        return Err(node.wrong(complaint));
    };
    let mut rates: Vec<Rate> = Vec::new();
    for node in list {
        let rate = Rate::from_bits_per_second(node.quantity("ladder", quantity::rate)?);
        if !Rate::LIMITABLE.contains(&rate) {
            let message = format!("rates of `ladder` must be {}", Rate::LIMITABLE_TEXT);
            return Err(node.wrong(message));
        }
        if rates.last().is_some_and(|&last| last >= rate) {
            return Err(node.wrong(complaint));
        }
        rates.push(rate);
    }
    if rates.is_empty() || rates.len() > MOST_QUALITIES {
        return Err(node.wrong(format!("`ladder` has 1 to {MOST_QUALITIES} rates")));
    }
    Ok(rates)
}

/// Visits of pages, from the table of their traffic.
pub(super) fn web(f: &Fields<'_>, files: &Files) -> Result<WebPlan, Mistake> {
    let connections = f.integer("connections", 1..=100)?;
    let is_two = f.word("http", &[("http/1.1", false), ("h2", true)])?;
    let http = match is_two.unwrap_or(true) {
        true if connections.is_some() => {
            let message = "`connections` has no meaning with h2, which has one to each host";
            return Err(f.wrong("connections", message));
        }
        true => Http::Two,
        false => Http::One {
            connections: connections.unwrap_or(6) as u32,
        },
    };
    let visits = f.integer("visits", 1..=u64::from(u32::MAX))?;
    Ok(WebPlan {
        page: pages(f, files)?,
        http,
        handshake: f.small_bytes("handshake", 0..=1_000_000)?.unwrap_or(4000),
        pause: f.time("pause")?.unwrap_or(5 * SECOND),
        visits: visits.map(|visits| visits as u32),
    })
}

/// The pages that are visited: that of a file, or drawn ones.
fn pages(f: &Fields<'_>, files: &Files) -> Result<Pages, Mistake> {
    let empty = tidegate_notation::Table::default();
    let (table, place) = match f.node("page")? {
        None => (&empty, f.known().place),
        Some(node) => match &node.value {
            Value::Text(_) => return files.page(node).map(Pages::Same),
            Value::Table(table) => (table, node.place),
            _ => return Err(node.wrong("`page` is the name of a file, or a table")),
        },
    };
    let inner = Fields::of(table, place, "a page", &[PAGE], &[])?;
    let objects = inner.integer("objects", 1..=MOST_OBJECTS as u64)?;
    let mean = inner.positive_bytes("mean")?.unwrap_or(20_000);
    let max = inner
        .positive_bytes("max")?
        .unwrap_or(mean.saturating_mul(100));
    if max <= mean {
        return Err(inner.wrong("max", "`max` must be more than `mean`"));
    }
    Ok(Pages::Drawn(Drawn {
        objects: objects.unwrap_or(40) as u32,
        mean: mean as f64,
        shape: inner.real("shape", 1.01..=100.0)?.unwrap_or(1.2),
        max: max as f64,
        nested: inner.real("nested", 0.0..=1.0)?.unwrap_or(0.3),
        request: inner.small_bytes("request", 1..=1_000_000)?.unwrap_or(400),
    }))
}
