//! The pictures of a run. Distributions cover the whole run. Curves over time show each point's
//! first simulation, up to a number that people look at.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::connections;
use tidegate_lab::experiment::Finished;
use tidegate_lab::rows::Simulation;
use tidegate_lab::scenario::Scenario;
use tidegate_lab::summary;
use tidegate_plot::{Axis, Plot, PlotError};

/// Points whose first simulation is drawn over time.
const MOST_POINTS: usize = 24;
/// Most points that one picture of distributions shows. More points get more pictures.
const MOST_LINES: usize = 16;
/// Most flows of a point whose connections are shown.
const MOST_FLOWS: usize = 8;
/// Most queues that are shown separately over time.
const MOST_QUEUES: usize = 8;
/// Most aggregates of a simulation whose elements are shown over time.
const MOST_AGGREGATES: usize = 8;
/// The bits of a value that its counts leave out, so that these keep it to a thousandth.
const LEFT_OUT: u32 = 42;

#[derive(Default)]
pub struct Pictures {
    /// Names and pictures of single points.
    single: Vec<(String, Plot)>,
    /// Names and pictures of connections.
    connections: Vec<(String, String)>,
    /// Most flows with states in a simulation whose connections were drawn.
    flows: usize,
    /// Most aggregates of a simulation whose elements were drawn.
    aggregates: usize,
    /// By point: its parameters, and its values over all simulations.
    points: BTreeMap<usize, Values>,
}

#[derive(Default)]
struct Values {
    normalised: Counts,
    /// Medians of flows, in milliseconds.
    rtt: Counts,
    transfers: Counts,
    fairness: Counts,
}

/// How often each value was there, so that the memory of a point does not grow with what is simulated of it.
#[derive(Default)]
struct Counts(BTreeMap<u64, u64>);

impl Counts {
    fn extend(&mut self, values: impl IntoIterator<Item = f64>) {
        for value in values {
            // The bits of numbers that are not negative have the numbers' order.
            let bits = value.max(0.0).to_bits() + (1 << (LEFT_OUT - 1));
            *self.0.entry(bits >> LEFT_OUT).or_default() += 1;
        }
    }

    fn values(&self) -> impl Iterator<Item = (f64, u64)> {
        let counts = self.0.iter();
        counts.map(|(&bits, &count)| (f64::from_bits(bits << LEFT_OUT), count))
    }
}

impl Pictures {
    pub fn add(&mut self, of: &Simulation, finished: &Finished) {
        if !self.points.contains_key(&finished.point) && self.points.len() < MOST_POINTS {
            self.over_time(of, finished);
        }
        let values = self.points.entry(finished.point).or_default();
        let outcome = &finished.outcome;
        for aggregate in 0..outcome.aggregates.len() {
            values
                .normalised
                .extend(summary::normalised(finished, aggregate));
            let indices = summary::fairness(&finished.group.plan, outcome, aggregate);
            values.fairness.extend(indices.iter().map(|one| one.index));
        }
        for flow in &outcome.flows {
            if flow.rtt.count > 0 {
                values.rtt.extend([flow.rtt.p50 as f64 / 1e6]);
            }
            let times = flow
                .completions
                .iter()
                .map(|one| one.end.saturating_sub(one.start));
            values.transfers.extend(times.map(|time| time as f64 / 1e9));
        }
    }

    /// Throughput by flow and occupancy by queue.
    fn over_time(&mut self, of: &Simulation, finished: &Finished) {
        let (plan, outcome) = (&finished.group.plan, &finished.outcome);
        let what = match &*of.parameters {
            "" => format!("seed {}", of.seed),
            parameters => format!("{parameters}, seed {}", of.seed),
        };
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let rate = |window: usize, bytes: u64| {
            summary::Throughput {
                bytes,
                time: summary::width(plan, window),
            }
            .bits_per_second()
                / 1e6
        };
        let axes = || {
            (
                Axis::new("time [s]").from(0.0).to(seconds(plan.duration)),
                Axis::new("throughput [Mbit/s]").from(0.0),
            )
        };
        let (x, y) = axes();
        let mut plot = Plot::new(&format!("Throughput: {what}"), x, y);
        let windows = |windows: &[u64]| -> Vec<(f64, f64)> {
            let at = |index: usize| seconds(index as u64 * outcome.window);
            let rates = windows.iter().enumerate();
            let rates = rates.map(|(index, &bytes)| (at(index), rate(index, bytes)));
            let mut steps: Vec<_> = rates.collect();
            // The last one lasts until the end.
            steps.extend(steps.last().map(|last| (seconds(plan.duration), last.1)));
            steps
        };
        if outcome.aggregates.len() == 1 {
            for (flow, number) in outcome.flows.iter().zip(&finished.group.numbers) {
                plot.steps(&format!("{} {number}", flow.name), windows(&flow.windows));
            }
            if let Some(Some(limit)) = finished.group.limits.first() {
                let limit = limit.bits_per_second() as f64 / 1e6;
                plot.dashed("rate", [(0.0, limit), (seconds(plan.duration), limit)]);
            }
        } else {
            for aggregate in &outcome.aggregates {
                plot.steps(&aggregate.name, windows(&aggregate.windows));
            }
        }
        self.single
            .push((format!("throughput-{}.svg", finished.point), plot));

        self.connections(&what, finished);
        for (element, instance) in outcome.elements.iter().zip(&finished.group.elements) {
            if element.samples.is_empty() {
                continue;
            }
            self.aggregates = self.aggregates.max(plan.aggregates.len());
            if instance.aggregate >= Some(MOST_AGGREGATES) {
                continue;
            }
            let x = Axis::new("time [s]").from(0.0).to(seconds(plan.duration));
            let y = Axis::new("bytes [kB]").from(0.0);
            let queues = element
                .samples
                .iter()
                .map(|sample| sample.queues.len())
                .max()
                .unwrap_or(0);
            let line = |pick: &dyn Fn(&tidegate_lab::outcome::Sample) -> Option<u64>| {
                let points = element
                    .samples
                    .iter()
                    .map(|sample| (seconds(sample.at), pick(sample).unwrap_or(0) as f64 / 1e3));
                points.collect::<Vec<_>>()
            };
            // Queues that never held anything are not shown.
            let used = (0..queues).filter(|&queue| {
                let held =
                    |sample: &tidegate_lab::outcome::Sample| sample.queues.get(queue).copied();
                element.samples.iter().any(|sample| held(sample) > Some(0))
            });
            let used: Vec<usize> = used.collect();
            let mut title = format!("Occupancy of {}: {what}", element.name);
            if used.len() > MOST_QUEUES {
                let _ = write!(title, " (the first {MOST_QUEUES} of {} queues)", used.len());
            }
            let mut plot = Plot::new(&title, x, y);
            for queue in used.into_iter().take(MOST_QUEUES) {
                plot.line(
                    &format!("queue {queue}"),
                    line(&|sample| sample.queues.get(queue).copied()),
                );
                if element
                    .samples
                    .iter()
                    .any(|sample| sample.magic.get(queue) > Some(&0))
                {
                    let magic = line(&|sample| sample.magic.get(queue).copied());
                    plot.beside(&format!("magic of {queue}"), magic);
                }
            }
            let name = match instance.aggregate {
                Some(aggregate) if plan.aggregates.len() > 1 => {
                    format!("{}-{}", plan.aggregates[aggregate], instance.name)
                }
                _ => instance.name.clone(),
            };
            if !plot.is_empty() {
                self.single
                    .push((format!("occupancy-{name}-{}.svg", finished.point), plot));
            }
        }
    }

    /// The connections of the first flows.
    fn connections(&mut self, what: &str, finished: &Finished) {
        let (plan, outcome) = (&finished.group.plan, &finished.outcome);
        let flows = outcome.flows.iter().zip(&finished.group.numbers);
        let noted: Vec<_> = flows.filter(|(flow, _)| !flow.states.is_empty()).collect();
        self.flows = self.flows.max(noted.len());
        for (flow, number) in noted.into_iter().take(MOST_FLOWS) {
            let mut name = format!("{}-{number}", flow.name);
            if plan.aggregates.len() > 1 {
                name = format!("{}-{name}", plan.aggregates[flow.aggregate]);
            }
            let (title, end) = (format!("{name}: {what}"), plan.duration as f64 / 1e9);
            let picture = connections::draw(&title, &flow.states, end);
            let file = format!("connection-{name}-{}.svg", finished.point);
            self.connections.extend(picture.map(|svg| (file, svg)));
        }
    }

    /// What the pictures leave out.
    pub fn remarks(&self) -> Vec<String> {
        let (points, flows, aggregates) = (self.points.len(), self.flows, self.aggregates);
        let mut remarks = Vec::new();
        if points > MOST_POINTS {
            remarks.push(format!("the pictures over time show the first {MOST_POINTS} of {points} points; windows.parquet has all"));
        }
        if flows > MOST_FLOWS {
            remarks.push(format!("the pictures of connections show the first {MOST_FLOWS} of {flows} flows; connections.parquet has all"));
        }
        if aggregates > MOST_AGGREGATES {
            remarks.push(format!("the pictures of occupancy show the first {MOST_AGGREGATES} of {aggregates} aggregates; samples.parquet has all"));
        }
        remarks
    }

    /// File names and pictures.
    pub fn draw(self, scenario: &Scenario) -> Result<Vec<(String, String)>, PlotError> {
        let mut files = self.connections;
        for (name, plot) in &self.single {
            files.push((name.clone(), plot.svg()?));
        }
        type Pick = fn(&Values) -> &Counts;
        let kinds: [(&str, &str, Axis, Pick); 4] = [
            (
                "windows",
                "throughput of windows over rate",
                Axis::new("throughput over rate").from(0.0),
                |values| &values.normalised,
            ),
            (
                "rtt",
                "median round-trip times of flows",
                Axis::new("round-trip time [ms]").from(0.0),
                |values| &values.rtt,
            ),
            (
                "transfers",
                "times of transfers",
                Axis::new("time of a transfer [s]").log(),
                |values| &values.transfers,
            ),
            (
                "fairness",
                "Jain's index of windows",
                Axis::new("Jain's fairness index").to(1.0),
                |values| &values.fairness,
            ),
        ];
        for (name, what, x, pick) in kinds {
            let all: Vec<_> = self.points.iter().collect();
            for (number, part) in all.chunks(MOST_LINES).enumerate() {
                let (file, title) = match all.len() {
                    ..=MOST_LINES => (format!("{name}.svg"), what.to_owned()),
                    all => (
                        format!("{name}-{number}.svg"),
                        format!(
                            "{what}, points {} to {} of 0 to {}",
                            part[0].0,
                            part[part.len() - 1].0,
                            all - 1
                        ),
                    ),
                };
                let title = format!("{}: {title}", scenario.title());
                let mut plot = Plot::of_distributions(&title, x.clone());
                for &(&point, values) in part {
                    // The keys are the same for all.
                    let parameters = scenario.parameters(point);
                    let label: Vec<&str> =
                        parameters.iter().map(|one| one.value.as_str()).collect();
                    if !pick(values).0.is_empty() {
                        plot.counts(&label.join(" "), pick(values).values());
                    }
                }
                if !plot.is_empty() {
                    files.push((file, plot.svg()?));
                }
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_values_to_a_thousandth_in_bounded_memory() {
        let mut counts = Counts::default();
        let values = (0..1_000_000).map(|number| f64::from(number) / 1e6);
        counts.extend(values.chain([1.0, 1.0]));
        assert!(counts.0.len() < 20_000, "{}", counts.0.len());
        let all: u64 = counts.values().map(|(_, count)| count).sum();
        assert_eq!(all, 1_000_002);
        let mut seen = 0;
        for (value, count) in counts.values() {
            let middle = (seen as f64 + count as f64 / 2.0) / 1e6;
            assert!((value - middle).abs() <= value / 1000.0 + 1e-6, "{value}");
            seen += count;
        }
        assert_eq!(counts.values().last().map(|last| last.0), Some(1.0));
    }
}
