//! The lab on the page: scenarios in, rows and curves out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};
use tidegate_lab::Nanos;
use tidegate_lab::capture::InMemory;
use tidegate_lab::examples::EXAMPLES;
use tidegate_lab::experiment::{self, ExperimentError, Finished, Look, Settings};
use tidegate_lab::outcome::{Sample, drop_step};
use tidegate_lab::rows::{LabParameters, LabPointRow, LabPoints};
use tidegate_lab::scenario::{Group, Scenario, ScenarioError};
use tidegate_lab::summary::{self, Throughput};
use tidegate_table::{Extra, Row, Value as Cell, convert};

use crate::csv;
use crate::curve::Point;
use crate::files::{Files, Live};
use crate::panel::{Mark, Panel};
use crate::request::View;

/// Curves in a panel: more could not be told apart.
const MOST_CURVES: usize = 8;
const INKS: [&str; MOST_CURVES] = [
    "blue", "orange", "green", "purple", "sky", "red", "black", "grey",
];
/// Simulations with captures are kept in memory only where there are few.
const MOST_CAPTURED: usize = 16;
/// Pixels of a picture that moves, in both directions.
const LIVE_PIXELS: u32 = 1000;

/// The scenarios that come with Tidegate.
pub fn examples() -> Value {
    let examples = EXAMPLES.iter().map(|(name, text)| {
        let title = Scenario::parse(*text).map_or(String::new(), |one| one.title().to_owned());
        json!({ "name": name, "title": title, "text": text })
    });
    examples.collect()
}

/// How much a scenario is to simulate.
///
/// # Errors
/// What is wrong with the scenario, and where.
pub fn check(text: &str) -> Result<Value, String> {
    let scenario = Scenario::parse(text).map_err(|error| told(&error))?;
    Ok(json!({
        "title": scenario.title(),
        "points": scenario.points(),
        "seeds": scenario.seeds().len(),
        "work_s": scenario.work() as f64 / 1e9,
    }))
}

/// A mistake with its line and column, as the command line writes it.
fn told(error: &ScenarioError) -> String {
    error.to_string()
}

/// A scenario that was run.
pub struct Ran {
    title: String,
    /// The columns of the rows, and those of the scenario's sweep and flows.
    columns: Value,
    /// The values of each point by the names of their columns, as in JSON of the command line.
    points: Vec<Map<String, Value>>,
    /// The same as a table, as the command line writes it.
    csv: String,
    seconds: f64,
    /// Of each point's first seed.
    panels: Vec<Vec<Panel>>,
    captures: BTreeMap<String, Vec<u8>>,
}

/// Runs a scenario to its end, and shows it while it runs.
///
/// # Errors
/// What is wrong with the scenario, or why a simulation failed.
pub fn simulate(text: &str, files: &impl Files) -> Result<Ran, String> {
    let scenario = Scenario::parse(text).map_err(|error| told(&error))?;
    let captures = InMemory::default();
    let few = scenario.points() * scenario.seeds().len() <= MOST_CAPTURED;
    let done = AtomicU64::new(0);
    let work = scenario.work().max(1) as f64;
    let share = || done.load(Ordering::Relaxed) as f64 / work;
    let look = |look: Look<'_>| {
        if files.progress(share()) {
            files.show(live(&scenario, &look));
        }
    };
    let settings = Settings {
        jobs: 1,
        captures: few.then_some(&captures),
        stop: None,
        progress: Some(&done),
        look: Some(&look),
    };
    let mut points = LabPoints::new(&scenario);
    let mut panels: Vec<Vec<Panel>> = Vec::new();
    let mut seconds: f64 = 0.0;
    experiment::run::<ExperimentError>(&scenario, settings, |finished| {
        points.add(&finished);
        seconds = seconds.max(finished.group.plan.duration as f64 / 1e9);
        if panels.len() <= finished.point {
            panels.resize_with(finished.point + 1, Vec::new);
        }
        if panels[finished.point].is_empty() {
            panels[finished.point] = whole(&finished);
        }
        files.progress(share());
        Ok(())
    })
    .map_err(|error| error.to_string())?;
    let rows = points.finish();
    let (columns, points) = table(&scenario, &rows);
    Ok(Ran {
        title: scenario.title().to_owned(),
        columns,
        points,
        csv: csv(&scenario, &rows),
        seconds,
        panels,
        captures: captures.into_captures(),
    })
}

impl Ran {
    /// The panels of a point.
    pub fn panels(&self, point: usize) -> &[Panel] {
        self.panels.get(point).map_or(&[], |panels| panels)
    }

    /// The points as CSV, with the columns of `tidegate lab run --format csv`.
    pub fn csv(&self) -> &str {
        &self.csv
    }

    /// A capture by its name.
    pub fn capture(&self, name: &str) -> Result<&[u8], String> {
        let found = self.captures.get(name);
        let found = found.ok_or_else(|| format!("there is no capture {name}"))?;
        Ok(found)
    }

    pub fn to_json(&self) -> Value {
        let points = self.points.iter().enumerate().map(|(point, values)| {
            let panels = self.panels(point).iter().map(Panel::to_json);
            json!({ "values": values, "panels": panels.collect::<Vec<_>>() })
        });
        json!({
            "title": self.title,
            "seconds": self.seconds,
            "columns": self.columns,
            "points": points.collect::<Vec<_>>(),
            "captures": self.captures.keys().collect::<Vec<_>>(),
        })
    }
}

/// The columns that a scenario adds: what its sweep varies, and what each group of flows got.
fn extras(parameters: &LabParameters, scenario: &Scenario) -> Vec<Extra> {
    let varied = parameters.columns().iter().cloned();
    varied.chain(LabParameters::shares(scenario)).collect()
}

fn csv(scenario: &Scenario, rows: &[LabPointRow]) -> String {
    let parameters = LabParameters::new(scenario);
    let extras = extras(&parameters, scenario);
    let columns = || LabPointRow::columns().iter();
    let names = columns().map(|column| column.name.to_owned());
    let head = names.chain(extras.iter().map(|extra| extra.name.clone()));
    let mut lines = vec![head.collect::<Vec<String>>()];
    for row in rows {
        let mut more = row.extras(&parameters, scenario);
        more.resize(extras.len(), Cell::Missing);
        let cells = columns().map(|column| (column.get)(row)).chain(more);
        lines.push(
            cells
                .map(|cell| csv::field(&cell.to_string()).into_owned())
                .collect(),
        );
    }
    lines.iter().map(|cells| cells.join(",") + "\n").collect()
}

/// The columns of the points and their values.
fn table(scenario: &Scenario, rows: &[LabPointRow]) -> (Value, Vec<Map<String, Value>>) {
    let parameters = LabParameters::new(scenario);
    let extras = extras(&parameters, scenario);
    let columns = LabPointRow::columns().iter();
    let fixed = columns
        .map(|column| json!({ "name": column.name, "unit": column.unit, "doc": column.doc }));
    let added = extras
        .iter()
        .map(|extra| json!({ "name": extra.name, "unit": extra.unit, "doc": extra.doc }));
    let values = rows.iter().map(|row| {
        let cells = LabPointRow::columns().iter();
        let cells = cells.map(|column| (column.name.to_owned(), (column.get)(row)));
        let names = extras.iter().map(|extra| extra.name.clone());
        cells
            .chain(names.zip(row.extras(&parameters, scenario)))
            .map(|(name, cell)| (name, written(cell)))
            .collect()
    });
    (fixed.chain(added).collect(), values.collect())
}

fn written(cell: Cell) -> Value {
    match cell {
        Cell::Missing => Value::Null,
        Cell::Text(text) => text.into(),
        Cell::Integer(number) => number.into(),
        Cell::Real(number) => number.into(),
        Cell::Time(nanos) => convert::seconds(nanos).into(),
        Cell::Truth(truth) => truth.into(),
        Cell::Address(address) => address.to_string().into(),
    }
}

/// What a simulation has counted, at its end or before.
struct Counted<'a> {
    group: &'a Group,
    /// Bytes by window of each flow.
    windows: Vec<&'a [u64]>,
    /// Samples of each element.
    samples: Vec<&'a [Sample]>,
    /// Packets that each element dropped, by steps of the simulation.
    drops: Vec<&'a [u64]>,
    /// How much was simulated.
    now: Nanos,
}

/// The panels of a simulation that runs.
fn live(scenario: &Scenario, look: &Look<'_>) -> Live {
    let plan = &look.group.plan;
    let windows = (0..plan.flows.len()).map(|flow| {
        let begun = look.so_far.windows(flow);
        // The last one is not over yet.
        &begun[..begun.len().saturating_sub(1)]
    });
    let panels = draw(Counted {
        group: look.group,
        windows: windows.collect(),
        samples: (0..plan.elements.len())
            .map(|element| look.so_far.samples(element))
            .collect(),
        drops: (0..plan.elements.len())
            .map(|element| look.so_far.drops(element))
            .collect(),
        now: look.so_far.now(),
    });
    let seconds = plan.duration as f64 / 1e9;
    let view = View {
        from: 0.0,
        to: seconds,
        columns: LIVE_PIXELS,
        rows: LIVE_PIXELS,
    };
    let parameters = scenario.parameters(look.point);
    let parameters: Vec<String> = parameters.iter().map(ToString::to_string).collect();
    let told = json!({
        "parameters": parameters.join(", "),
        "seed": look.seed,
        "now_s": look.so_far.now() as f64 / 1e9,
        "seconds": seconds,
        "panels": panels.iter().map(Panel::to_json).collect::<Vec<_>>(),
    });
    Live {
        told: told.to_string(),
        numbers: panels.iter().map(|panel| panel.draw(view)).collect(),
    }
}

/// The panels of a simulation that is over.
fn whole(finished: &Finished) -> Vec<Panel> {
    let (plan, outcome) = (&finished.group.plan, &finished.outcome);
    draw(Counted {
        group: &finished.group,
        windows: outcome.flows.iter().map(|flow| &flow.windows[..]).collect(),
        samples: outcome
            .elements
            .iter()
            .map(|element| &element.samples[..])
            .collect(),
        drops: outcome
            .elements
            .iter()
            .map(|element| &element.drops[..])
            .collect(),
        now: plan.duration,
    })
}

/// How many packets an element had dropped in all, from the beginning to `now`.
fn dropped(drops: &[u64], step: Nanos, now: Nanos) -> Vec<Point> {
    let mut all = 0;
    let mut points = vec![(0.0, 0.0)];
    for (i, packets) in drops.iter().enumerate() {
        all += packets;
        // They are counted at the end of their step. The last one may not be over yet.
        let at = ((i as u64 + 1) * step).min(now);
        points.push((at as f64 / 1e9, all as f64));
    }
    points.push((now as f64 / 1e9, all as f64));
    points
}

/// The throughput of flows, how full the queues and buckets were, and what was dropped.
fn draw(counted: Counted<'_>) -> Vec<Panel> {
    let group = counted.group;
    let plan = &group.plan;
    let mut throughput = Panel::new("throughput", "Throughput at the IP layer", "bit/s");
    let series = |windows: &[u64]| -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        points.extend(windows.iter().enumerate().map(|(window, &bytes)| {
            let time = summary::width(plan, window);
            let at = window as u64 * plan.window;
            (
                at as f64 / 1e9,
                Throughput { bytes, time }.bits_per_second(),
            )
        }));
        let end = (windows.len() as u64 * plan.window).min(plan.duration);
        points.extend(points.last().map(|last| (end as f64 / 1e9, last.1)));
        points
    };
    let mut inks = INKS.iter();
    for (index, flow) in plan.flows.iter().enumerate() {
        let Some(ink) = inks.next() else { break };
        let label = match group.numbers.get(index) {
            Some(number) if *number > 0 => format!("{} {number}", flow.name),
            _ => flow.name.clone(),
        };
        throughput.curve(
            (index.to_string(), Mark::Steps, ink),
            label,
            series(counted.windows[index]),
        );
    }
    if let Some(limit) = group.limits.iter().flatten().next() {
        let bps = limit.bits_per_second() as f64;
        let across = [(0.0, bps), (plan.duration as f64 / 1e9, bps)];
        throughput.curve(("limit", Mark::Dashed, "black"), "the limit", across);
    }
    let mut levels = Panel::new("levels", "Bytes in queues, or missing from buckets", "B");
    let mut inks = INKS.iter();
    for (index, samples) in counted.samples.iter().enumerate() {
        let name = &group.elements[index].name;
        let queues = samples.first().map_or(0, |sample| sample.queues.len());
        for queue in 0..queues {
            let points = samples.iter().filter_map(|sample| {
                Some((sample.at as f64 / 1e9, *sample.queues.get(queue)? as f64))
            });
            let points: Vec<Point> = points.collect();
            if points.iter().all(|(_, bytes)| *bytes == 0.0) {
                continue;
            }
            let Some(ink) = inks.next() else { break };
            let label = if queues > 1 {
                format!("{name}, queue {queue}")
            } else {
                name.clone()
            };
            levels.curve((format!("{index}-{queue}"), Mark::Line, ink), label, points);
        }
    }
    let mut drops = Panel::new("drops", "Dropped packets, in all", "packets");
    let mut inks = INKS.iter();
    let droppers = counted.drops.iter().enumerate();
    for (index, steps) in droppers.filter(|(_, steps)| !steps.is_empty()) {
        let Some(ink) = inks.next() else { break };
        let name = group.elements[index].name.clone();
        let points = dropped(steps, drop_step(plan.duration), counted.now);
        drops.curve((index.to_string(), Mark::Steps, ink), name, points);
    }
    [throughput, levels, drops]
        .into_iter()
        .filter(|panel| !panel.curves.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::*;

    struct Nothing;

    impl Files for Nothing {
        fn open(&self, _: u32) -> io::Result<Box<dyn Read + Send>> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn dropped_packets_are_drawn_from_the_beginning_of_a_short_run() {
        let scenario = r#"
            duration = "300ms"
            [[element]]
            name = "gate"
            kind = "policer"
            rate = "2mbit"
            burst = "15kB"
            [[flow]]
            name = "download"
            rtt = "20ms"
            path = ["gate"]
            "#;
        let ran = simulate(scenario, &Nothing).expect("a scenario");
        let mut panels = ran.panels(0).iter();
        let drops = panels.find(|panel| panel.key == "drops").expect("drops");
        let points = &drops.curves[0].points;
        let (first, last) = (points[0], points[points.len() - 1]);
        assert_eq!((first, last.0), ((0.0, 0.0), 0.3));
        assert!(last.1 > 3.0, "{last:?}");
        assert!(points.is_sorted_by(|one, other| one.1 <= other.1));
        // A bucket of 10 packets is empty in the second round trip, not a window later.
        let begins = points.iter().find(|point| point.1 > 0.0);
        assert!(begins.is_some_and(|(at, _)| *at < 0.1), "{begins:?}");
        // The last window of throughput is drawn to its end.
        let throughput = &ran.panels(0)[0].curves[0].points;
        let (last, before) = (throughput.len() - 1, throughput.len() - 2);
        assert_eq!(throughput[last], (0.3, throughput[before].1));
        assert!(throughput[before].0 < 0.3);
    }
}
