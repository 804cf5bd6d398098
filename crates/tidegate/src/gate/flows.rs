//! `tidegate gate flows`: the watched flows of one subscriber.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_gate::control::{Control, ControlError};

use super::remote;
use super::view::felt::{FlowJson, FlowsJson, WayJson};
use crate::cli::gate::Flows;
use crate::exit::Exit;
use crate::output::Output;
use crate::table::Paint;
use crate::units::{bytes, percent, plural, rate, time};

#[cfg(test)]
mod tests;

/// Shows the flows of a gate that this process can read.
pub fn run(options: &Flows, control: &mut dyn Control, paint: Paint) -> anyhow::Result<Exit> {
    show(options, paint, |most| {
        Ok(FlowsJson::new(&control.flows(&options.name)?, most))
    })
}

/// Shows the flows of a gate whose limits are in the process of its daemon, which is asked.
pub fn ask(options: &Flows, state: &Path, paint: Paint) -> anyhow::Result<Exit> {
    show(options, paint, |most| {
        let name = remote::encoded(&options.name);
        let path = format!("/v1/subscribers/{name}/flows?limit={}", most.min(10_000));
        remote::daemon(state)?.get(&path)
    })
}

/// Reads the flows twice and shows what passed in between; as JSON, it reads them once.
fn show(
    options: &Flows,
    paint: Paint,
    mut read: impl FnMut(usize) -> Result<FlowsJson, ControlError>,
) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &read(options.limit)?).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        let before = read(usize::MAX)?;
        let began = Instant::now();
        std::thread::sleep(options.over);
        let now = read(usize::MAX)?;
        let rows = rows(&before, now, began.elapsed());
        table(&mut out, &rows, options.limit, paint)?;
    }
    out.commit()?;
    Ok(Exit::Done)
}

/// A flow, and its rates in bit/s: down, up.
struct Row {
    flow: FlowJson,
    rates: [f64; 2],
}

/// The flows with their rates since an earlier reading, the fastest first.
fn rows(before: &FlowsJson, now: FlowsJson, elapsed: Duration) -> Vec<Row> {
    let key = |flow: &FlowJson| {
        let ends = (
            flow.local.clone(),
            flow.local_port,
            flow.remote.clone(),
            flow.remote_port,
        );
        (flow.protocol.clone(), ends)
    };
    let old: HashMap<_, _> = before.flows.iter().map(|flow| (key(flow), flow)).collect();
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let mut rows: Vec<Row> = (now.flows.into_iter())
        .map(|flow| {
            let old = old.get(&key(&flow));
            let rate = |now: &WayJson, old: Option<&WayJson>| {
                // A table that was full may have forgotten the flow meanwhile.
                let before = old.map_or(0, |old| old.passed_bytes);
                let more = now.passed_bytes.checked_sub(before);
                8.0 * more.unwrap_or(now.passed_bytes) as f64 / seconds
            };
            let rates = [
                rate(&flow.down, old.map(|old| &old.down)),
                rate(&flow.up, old.map(|old| &old.up)),
            ];
            Row { flow, rates }
        })
        .collect();
    let sum = |row: &Row| row.rates[0] + row.rates[1];
    rows.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    rows
}

/// An address with its port, if it has one.
fn end(address: &str, port: u16) -> String {
    match (port, address.contains(':')) {
        (0, _) => address.to_owned(),
        (port, false) => format!("{address}:{port}"),
        (port, true) => format!("[{address}]:{port}"),
    }
}

fn table(out: &mut impl Write, rows: &[Row], most: usize, paint: Paint) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "no flow sent in the last minute");
    }
    let heading = format!(
        "{:<5} {:<22} {:<22} {:>11} {:>11} {:>9} {:>6} {:>6} {:>6} {:>7} {:>7}",
        "PROTO",
        "LOCAL",
        "REMOTE",
        "DOWN",
        "UP",
        "BYTES",
        "DROPS",
        "MARKS",
        "AGAIN",
        "ACCESS",
        "CORE"
    );
    writeln!(out, "{}", paint.dim(&heading))?;
    for Row { flow, rates } in rows.iter().take(most) {
        let ways = [&flow.down, &flow.up];
        let sum = |of: fn(&WayJson) -> u64| ways.iter().map(|way| of(way)).sum::<u64>();
        let packets = sum(|way| way.passed_packets + way.excess_packets);
        let share = |part: u64| match part {
            0 => "-".to_owned(),
            part => percent(part as f64 / packets.max(1) as f64),
        };
        let trip = |way: &WayJson| {
            way.trip_ms
                .map_or("-".to_owned(), |ms| time((ms * 1e6) as u64))
        };
        let (local, remote) = (
            end(&flow.local, flow.local_port),
            end(&flow.remote, flow.remote_port),
        );
        writeln!(
            out,
            "{:<5} {local:<22} {remote:<22} {:>11} {:>11} {:>9} {:>6} {:>6} {:>6} {:>7} {:>7}",
            flow.protocol,
            rate(rates[0]),
            rate(rates[1]),
            bytes(sum(|way| way.passed_bytes)),
            share(sum(|way| way.excess_packets)),
            share(sum(|way| way.marked_packets)),
            share(sum(|way| way.again)),
            trip(&flow.down),
            trip(&flow.up),
        )?;
    }
    let hidden = rows.len().saturating_sub(most) as u64;
    if hidden > 0 {
        let more = plural(hidden, "flow", "flows");
        writeln!(out, "{more} not shown: --limit shows more")?;
    }
    Ok(())
}
