//! The playback of viewers, as tables and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use tidegate_limiter::Rate;
use tidegate_serve::player::{Ended, PlayError, Viewed, Viewing};
use tidegate_table::csv;

use crate::cli::Common;
use crate::cli::serve::{Play, PlayFormat};
use crate::output::Output;
use crate::table::Paint;
use crate::units::{bytes, percent, plural, rate, time};

/// Viewers that a table shows one by one.
const FEW: usize = 30;

pub fn write(
    options: &Play,
    common: &Common,
    viewed: &[Viewed],
    mut out: Output,
) -> anyhow::Result<()> {
    match options.format {
        PlayFormat::Table => {
            let paint = Paint::for_stdout(common.color, options.output.is_some());
            table(&mut out, paint, viewed)?;
        }
        PlayFormat::Json => {
            let viewers: Vec<Value> = viewed.iter().map(json_of).collect();
            let groups: Vec<Value> = groups(viewed).iter().map(Group::json).collect();
            let all = json!({ "viewers": viewers, "groups": groups });
            serde_json::to_writer_pretty(&mut out, &all)?;
            writeln!(out)?;
        }
        PlayFormat::Jsonl => {
            for one in viewed {
                writeln!(out, "{}", json_of(one))?;
            }
        }
        PlayFormat::Csv => csv(&mut out, viewed)?,
    }
    out.commit()
}

fn json_of(viewed: &Viewed) -> Value {
    let viewing = |field: fn(&Viewing) -> Value| viewed.viewing.as_ref().map(field);
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    json!({
        "viewer": viewed.viewer,
        "url": viewed.url,
        "group": viewed.group,
        "port": viewed.port,
        "http": (!viewed.http.is_empty()).then_some(viewed.http),
        "arrived_seconds": viewed.arrived.as_secs_f64(),
        "seconds": viewed.duration.as_secs_f64(),
        "bytes": viewed.bytes,
        "length": viewed.length,
        "encoding_bits_per_second": viewed.rate.map(Rate::bits_per_second),
        "switches": viewed.switches,
        "join_seconds": viewed.viewing.and_then(|viewing| viewing.join).map(seconds),
        "rebufferings": viewing(|viewing| viewing.rebufferings.into()),
        "rebuffering_seconds": viewed.viewing.map(|viewing| seconds(viewing.stalled)),
        "rebuffering_per_second": viewing(|viewing| viewing.frequency().into()),
        "played_seconds": viewed.viewing.map(|viewing| seconds(viewing.played)),
        "goodput_bits_per_second": viewed.goodput(),
        "throttled_bytes": viewed.throttled.map(|(bytes, _)| bytes),
        "throttled_goodput_bits_per_second": viewed.throttled_goodput(),
        "ended": viewed.ended.as_ref().map_or("failed", |ended| word(*ended)),
        "error": viewed.ended.as_ref().err().map(with_remedy),
    })
}

/// The error, and the option that helps, if there is one.
pub fn with_remedy(error: &PlayError) -> String {
    let option = match error {
        PlayError::UnknownRate => ": give --rate",
        PlayError::NoRoots(_) => ": give --ca or --insecure",
        _ => "",
    };
    format!("{error}{option}")
}

fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "complete",
        Ended::Left => "left",
    }
}

/// Viewers whose connections the server treated in the same way.
struct Group {
    name: String,
    viewers: usize,
    failed: usize,
    bytes: u64,
    /// Join times of viewers who saw a picture, in seconds, in order.
    joins: Vec<f64>,
    /// Viewers with rebuffering events.
    interrupted: usize,
    watched: usize,
    frequency: f64,
    /// Goodput after the start-up phase, in bits per second, in order.
    goodputs: Vec<f64>,
}

impl Group {
    fn json(&self) -> Value {
        json!({
            "group": self.name,
            "viewers": self.viewers,
            "failed": self.failed,
            "bytes": self.bytes,
            "join_seconds_median": percentile(&self.joins, 50),
            "join_seconds_p95": percentile(&self.joins, 95),
            "rebuffering_chance": self.chance(),
            "rebuffering_per_second": self.frequency(),
            "throttled_goodput_bits_per_second_median": percentile(&self.goodputs, 50),
        })
    }

    fn chance(&self) -> Option<f64> {
        (self.watched > 0).then(|| self.interrupted as f64 / self.watched as f64)
    }

    fn frequency(&self) -> Option<f64> {
        (self.watched > 0).then(|| self.frequency / self.watched as f64)
    }
}

/// The value that this percentage of a sorted list does not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn groups(viewed: &[Viewed]) -> Vec<Group> {
    let mut groups: BTreeMap<&str, Vec<&Viewed>> = BTreeMap::new();
    for one in viewed {
        let name = one.group.as_deref().unwrap_or("all");
        groups.entry(name).or_default().push(one);
    }
    let group = |(name, members): (&str, Vec<&Viewed>)| {
        let viewings = || members.iter().filter_map(|one| one.viewing);
        let mut joins: Vec<f64> = viewings()
            .filter_map(|viewing| viewing.join)
            .map(|join| join as f64 / 1e9)
            .collect();
        let mut goodputs: Vec<f64> = members
            .iter()
            .filter_map(|one| one.throttled_goodput())
            .collect();
        joins.sort_by(f64::total_cmp);
        goodputs.sort_by(f64::total_cmp);
        Group {
            name: name.to_owned(),
            viewers: members.len(),
            failed: members.iter().filter(|one| one.failed()).count(),
            bytes: members.iter().map(|one| one.bytes).sum(),
            joins,
            interrupted: viewings()
                .filter(|viewing| viewing.rebufferings > 0)
                .count(),
            watched: viewings().count(),
            frequency: viewings().map(|viewing| viewing.frequency()).sum(),
            goodputs,
        }
    };
    groups.into_iter().map(group).collect()
}

fn table(out: &mut impl Write, paint: Paint, viewed: &[Viewed]) -> io::Result<()> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let seconds = |value: f64| time((value * 1e9) as u64);
    if viewed.len() <= FEW {
        let heading = format!(
            "{:>6} {:>5} {:>7} {:>8} {:>11} {:>6} {:>5} {:>7} {:>11}  ENDED",
            "VIEWER", "PORT", "TIME", "BYTES", "RATE", "JOIN", "STOPS", "STOPPED", "THROTTLED"
        );
        writeln!(out, "{}", paint.bold(&heading))?;
        for one in viewed {
            let encoding = one.rate.map(|rate| rate.to_string());
            let join = one.viewing.and_then(|viewing| viewing.join).map(time);
            let stops = one.viewing.map(|viewing| viewing.rebufferings.to_string());
            let stopped = one.viewing.map(|viewing| time(viewing.stalled));
            let ended = match &one.ended {
                Ok(ended) => word(*ended).to_owned(),
                Err(error) => format!("failed: {}", with_remedy(error)),
            };
            writeln!(
                out,
                "{:>6} {:>5} {:>7} {:>8} {:>11} {:>6} {:>5} {:>7} {:>11}  {ended}",
                one.viewer,
                one.port,
                time(one.duration.as_nanos() as u64),
                bytes(one.bytes),
                or_dash(encoding),
                or_dash(join),
                or_dash(stops),
                or_dash(stopped),
                or_dash(one.throttled_goodput().map(rate)),
            )?;
        }
        writeln!(out)?;
    }
    let heading = format!(
        "{:<16} {:>7} {:>6} {:>6} {:>6} {:>6} {:>9} {:>11}",
        "GROUP", "VIEWERS", "FAILED", "JOIN", "P95", "CHANCE", "FREQ", "THROTTLED"
    );
    writeln!(out, "{}", paint.bold(&heading))?;
    for group in groups(viewed) {
        writeln!(
            out,
            "{:<16} {:>7} {:>6} {:>6} {:>6} {:>6} {:>9} {:>11}",
            group.name,
            group.viewers,
            group.failed,
            or_dash(percentile(&group.joins, 50).map(seconds)),
            or_dash(percentile(&group.joins, 95).map(seconds)),
            or_dash(group.chance().map(percent)),
            or_dash(group.frequency().map(|value| format!("{value:.5}/s"))),
            or_dash(percentile(&group.goodputs, 50).map(rate)),
        )?;
    }
    if viewed.len() > FEW {
        let why = viewed.iter().find_map(|one| one.ended.as_ref().err());
        if let Some(why) = why {
            let failed = viewed.iter().filter(|one| one.failed()).count() as u64;
            let failed = plural(failed, "viewer", "viewers");
            writeln!(out, "{failed} failed; the first: {}", with_remedy(why))?;
        }
    }
    Ok(())
}

fn csv(out: &mut impl Write, viewed: &[Viewed]) -> io::Result<()> {
    let empty = serde_json::Map::new();
    for (number, one) in viewed.iter().enumerate() {
        let value = json_of(one);
        let fields = value.as_object().unwrap_or(&empty);
        if number == 0 {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            writeln!(out, "{}", names.join(","))?;
        }
        let values: Vec<String> = fields.values().map(cell).collect();
        writeln!(out, "{}", values.join(","))?;
    }
    Ok(())
}

/// A value as a field.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => csv::field(text).into_owned(),
        other => other.to_string(),
    }
}
