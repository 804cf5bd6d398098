//! The results of simulations, for people: a line for each point of a sweep or each flow.

use std::collections::BTreeMap;
use std::io::{self, Write};

use tidegate_lab::rows::{LabFlowRow, LabPointRow};
use tidegate_lab::scenario::Parameter;
use tidegate_table::{Row, Value};

use crate::table::Paint;
use crate::units::{count, percent, rate, time};

/// Points that were run in part, and how many simulations all of each would have been.
pub type Partial = BTreeMap<u64, u64>;

/// Most groups of flows whose shares are printed.
const MOST_SHARES: usize = 6;

/// Prints points.
pub fn points(
    out: &mut impl Write,
    paint: Paint,
    rows: &[LabPointRow],
    partial: &Partial,
) -> io::Result<()> {
    let heading = format!(
        "{:>11} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>13}",
        "THROUGHPUT", "RATE", "P99", "DROPS", "JAIN", "RTT", "P95", "DONE", "TIME"
    );
    writeln!(out, "{}", paint.dim(&heading))?;
    for row in rows {
        let mut parts: Vec<String> = row.parameters.iter().map(Parameter::to_string).collect();
        if let Some(all) = partial.get(&row.point) {
            let done = count(row.summary.simulations);
            parts.push(format!("({done} of {} simulations)", count(*all)));
        }
        if !parts.is_empty() {
            writeln!(out, "{}", paint.bold(&parts.join("  ")))?;
        }
        let summary = &row.summary;
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let times = summary.completion_p50.zip(summary.completion_p95);
        writeln!(
            out,
            "{:>11} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>13}",
            or(summary.throughput.map(rate)),
            or(summary.normalised_mean.map(percent)),
            or(summary.normalised_p99.map(percent)),
            or(summary.drop_rate.map(percent)),
            or(summary.jain.map(|index| format!("{index:.3}"))),
            or(summary.rtt_p50.map(time)),
            or(summary.rtt_p95.map(time)),
            count(summary.completions),
            or(times.map(|(p50, p95)| format!("{}..{}", time(p50), time(p95)))),
        )?;
        // Shares are for a few groups that compete, and a reader of a terminal.
        if (2..=MOST_SHARES).contains(&summary.delivered.len()) {
            let names = summary.delivered.keys();
            let shares = names.filter_map(|name| Some((name, summary.share(name)?)));
            let shares: Vec<String> = shares
                .map(|(name, share)| format!("{name} {}", percent(share)))
                .collect();
            writeln!(
                out,
                "{:>11} {}",
                "",
                paint.dim(&format!("shares: {}", shares.join(", ")))
            )?;
        }
    }
    writeln!(out)?;
    let legend = "THROUGHPUT: mean of an aggregate. RATE and P99: its windows over the rate of\n\
         its limiter, mean and 99th percentile. RTT and P95: medians over flows.\n\
         DONE: transfers; TIME: their median..p95.";
    writeln!(out, "{}", paint.dim(legend))
}

/// Prints flows.
pub struct Flows {
    paint: Paint,
    headed: bool,
    point: String,
}

impl Flows {
    pub fn new(paint: Paint) -> Self {
        Self {
            paint,
            headed: false,
            point: String::new(),
        }
    }

    pub fn print(&mut self, out: &mut impl Write, rows: &[LabFlowRow]) -> io::Result<()> {
        let columns = LabFlowRow::columns();
        for row in rows {
            let value = |name: &str| {
                let column = columns.iter().find(|column| column.name == name);
                column.map_or(Value::Missing, |column| (column.get)(row))
            };
            let text = |name: &str| match value(name) {
                Value::Text(text) => text.into_owned(),
                Value::Integer(number) => count(number),
                _ => "-".to_owned(),
            };
            let real = |name: &str, show: &dyn Fn(f64) -> String| match value(name) {
                Value::Real(number) => show(number),
                Value::Integer(number) => show(number as f64),
                _ => "-".to_owned(),
            };
            let millis = |ms: f64| time((ms * 1e6) as u64);
            if !self.headed {
                self.headed = true;
                let heading = format!(
                    "{:<26} {:>6} {:>6} {:>11} {:>7} {:>6} {:>6} {:>5}",
                    "FLOW", "CC", "DELAY", "GOODPUT", "PACKETS", "DROPS", "RTT", "RTOS"
                );
                writeln!(out, "{}", self.paint.dim(&heading))?;
            }
            let point = format!("{} seed={}", text("parameters"), text("seed"));
            if point != self.point {
                writeln!(out, "{}", self.paint.bold(point.trim()))?;
                self.point = point;
            }
            let name = format!("{} {} {}", text("aggregate"), text("flow"), text("number"));
            // Its end distinguishes it better than its beginning.
            let over = name.chars().count().saturating_sub(26);
            let name: String = name.chars().skip(over).collect();
            writeln!(
                out,
                "{name:<26} {:>6} {:>6} {:>11} {:>7} {:>6} {:>6} {:>5}",
                text("cc"),
                real("delay_ms", &millis),
                real("goodput_bps", &rate),
                text("sent_packets"),
                real("drop_rate", &percent),
                real("rtt_p50_ms", &millis),
                text("timeouts"),
            )?;
        }
        Ok(())
    }
}
