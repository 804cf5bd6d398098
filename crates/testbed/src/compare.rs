//! The kernel's TCP beside the virtual lab's: the points of a scenario, several runs of each, and
//! the differences.
//!
//! In each run, both get exactly the same plan. Runs differ in their seed, and so in the scenario's
//! random values. Without these the lab's runs would all be the same, because the lab has no noise
//! as the kernel has. A round trip drawn from a narrow range is enough.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tidegate_lab::capture::Captures;
use tidegate_lab::experiment::{Settings, simulate};
use tidegate_lab::outcome::FlowOutcome;
use tidegate_lab::plan::FlowPlan;
use tidegate_lab::scenario::{Group, Run, Scenario, ScenarioError};
use tidegate_lab::summary::{Throughput, percentile};
use tidegate_lab::{MILLISECOND, Nanos, RunError};

use crate::kernel::{self, KernelOutcome};
use crate::{CaptureFolder, TestbedError};

#[cfg(test)]
mod tests;

/// Lateness at the 99th percentile from which a run in real time is not used: 1/40 of the round trips
/// that are compared. It counts twice, so this is half of the wanted agreement.
pub const LATE: Nanos = MILLISECOND;
/// How often a run that was late is repeated.
const REPEATS: u32 = 2;
/// Agreement: the largest difference, as a share of the kernel's value.
pub const AGREEMENT: f64 = 0.1;

/// A measure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bits per second of payload that the applications received, over the run, all flows together.
    Goodput,
    /// Data packets that elements dropped, over data packets sent: their own counts.
    Loss,
    /// Median over flows of their median round-trip time, in nanoseconds.
    RttMedian,
    /// Median over flows of their 95th percentile, in nanoseconds.
    RttTail,
    /// Retransmission timeouts of all flows.
    Timeouts,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Goodput,
        Self::Loss,
        Self::RttMedian,
        Self::RttTail,
        Self::Timeouts,
    ];

    /// Those that are known of each flow: a kernel counts timeouts of all its connections together.
    pub const OF_FLOWS: [Self; 4] = [Self::Goodput, Self::Loss, Self::RttMedian, Self::RttTail];

    /// Its value over the flows of a run, which had these timeouts.
    fn of(self, flows: &[&FlowOutcome], duration: Nanos, timeouts: u64) -> f64 {
        let flows = || flows.iter().copied();
        let median = |of: fn(&FlowOutcome) -> Nanos| {
            let mut times: Vec<Nanos> = flows().filter(|f| f.rtt.count > 0).map(of).collect();
            times.sort_unstable();
            percentile(&times, 50.0).unwrap_or(0) as f64
        };
        match self {
            Self::Goodput => Throughput {
                bytes: flows().map(|flow| flow.delivered).sum(),
                time: duration,
            }
            .bits_per_second(),
            Self::Loss => {
                let sent: u64 = flows().map(|flow| flow.sent_packets).sum();
                flows().map(|flow| flow.dropped).sum::<u64>() as f64 / sent.max(1) as f64
            }
            Self::RttMedian => median(|flow| flow.rtt.p50),
            Self::RttTail => median(|flow| flow.rtt.p95),
            Self::Timeouts => timeouts as f64,
        }
    }
}

/// The values of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Median, the mean of two for an even number.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of these values; all 0 without any.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let half = values.len() / 2;
        Self {
            min,
            median: (values[half] + values[(values.len() - 1) / 2]) / 2.0,
            max,
        }
    }
}

/// How well two sides agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Their medians differ by at most [`AGREEMENT`].
    Agree,
    /// Their medians differ by more, but their runs overlap: more runs would be needed to
    /// distinguish them.
    Scatter,
    /// Their medians differ by more, and their runs do not overlap.
    Differ,
}

/// A measure of both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The measure.
    pub measure: Measure,
    /// The kernel's values.
    pub kernel: Spread,
    /// The lab's values.
    pub lab: Spread,
}

impl Comparison {
    /// The lab's median less the kernel's, over the kernel's; `None` if only the kernel's is 0.
    pub fn difference(&self) -> Option<f64> {
        let difference = self.lab.median - self.kernel.median;
        if difference == 0.0 {
            Some(0.0)
        } else {
            (self.kernel.median != 0.0).then(|| difference / self.kernel.median)
        }
    }

    /// Whether they agree.
    pub fn verdict(&self) -> Verdict {
        let near = |difference: f64| difference.abs() <= AGREEMENT;
        if self.difference().is_some_and(near) {
            Verdict::Agree
        } else if self.lab.min <= self.kernel.max && self.kernel.min <= self.lab.max {
            Verdict::Scatter
        } else {
            Verdict::Differ
        }
    }
}

/// The results of a point of a scenario on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Of all flows together, in the order of [`Measure::ALL`].
    pub comparisons: Vec<Comparison>,
    /// Of each flow.
    pub flows: Vec<ComparedFlow>,
    /// Runs of each side.
    pub runs: u64,
    /// The worst lateness at the 99th percentile of the runs that count.
    pub lateness: Nanos,
    /// Runs that were repeated because they were late.
    pub repeated: u64,
    /// Runs that count although they were late, or although packets were lost beside the elements,
    /// because repeating did not help. With any of them, the point has little meaning.
    pub bad: u64,
    /// Whether all runs in real time had real-time priority.
    pub real_time: bool,
}

/// A flow on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedFlow {
    /// Its name and number, after that of its aggregate if there are several.
    pub name: String,
    /// In the order of [`Measure::OF_FLOWS`].
    pub comparisons: Vec<Comparison>,
}

/// The values of a measure in the runs of the kernel, and in those of the lab.
type Sides = [Vec<f64>; 2];

/// Adds the values of a run of a side.
fn add(values: &mut [Sides], side: usize, run: &[f64]) {
    for (sides, &value) in values.iter_mut().zip(run) {
        sides[side].push(value);
    }
}

fn comparisons(measures: &[Measure], values: Vec<Sides>) -> Vec<Comparison> {
    let both = measures.iter().zip(values);
    both.map(|(&measure, [kernel, lab])| Comparison {
        measure,
        kernel: Spread::of(kernel),
        lab: Spread::of(lab),
    })
    .collect()
}

/// The names of the flows of all groups.
fn names(groups: &[Group]) -> Vec<String> {
    let several = groups.len() > 1 || groups.iter().any(|one| one.plan.aggregates.len() > 1);
    let of = |group: &Group| -> Vec<String> {
        let flows = group.plan.flows.iter().zip(&group.numbers);
        let name = |(flow, number): (&FlowPlan, &u32)| match several {
            true => format!(
                "{} {} {number}",
                group.plan.aggregates[flow.aggregate], flow.name
            ),
            false => format!("{} {number}", flow.name),
        };
        flows.map(name).collect()
    };
    groups.iter().flat_map(of).collect()
}

/// Why points cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The scenario is wrong at a point.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The virtual lab failed.
    #[error(transparent)]
    Lab(#[from] RunError),
    /// The kernel's side failed.
    #[error(transparent)]
    Kernel(TestbedError),
}

impl From<TestbedError> for CompareError {
    fn from(error: TestbedError) -> Self {
        match error {
            // Both sides have the same.
            TestbedError::Plan(error) => Self::Lab(error),
            error => Self::Kernel(error),
        }
    }
}

/// Runs a point `runs` times on each side, with the scenario's first seed and the following ones.
/// Captures of its taps are written to the folder, if there is one. `stop` ends it early with
/// [`RunError::Interrupted`].
///
/// # Errors
/// A part of the plan that one of the sides cannot run.
pub fn point(
    scenario: &Scenario,
    point: usize,
    runs: u64,
    captures: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Compared, CompareError> {
    let mut values = vec![Sides::default(); Measure::ALL.len()];
    let mut by_flow: Vec<Vec<Sides>> = Vec::new();
    let mut flow_names = Vec::new();
    let mut compared = Compared {
        comparisons: Vec::new(),
        flows: Vec::new(),
        runs,
        lateness: 0,
        repeated: 0,
        bad: 0,
        real_time: true,
    };
    for run in 0..runs {
        let seed = scenario.seeds()[0].wrapping_add(run);
        let groups = scenario.groups(Run {
            point,
            seed,
            taps: captures.is_some(),
        })?;
        let mut sides = [(Vec::new(), 0), (Vec::new(), 0)];
        for group in &groups {
            let plan = &group.plan;
            let suffix = |side: &str| format!("-{}-{point}-{seed}-{side}", plan.aggregates[0]);
            let files: Vec<PathBuf> = captures.map_or_else(Vec::new, |folder| {
                let names = plan.captures(&suffix("kernel"));
                names.iter().map(|name| folder.join(name)).collect()
            });
            let kernel = (0..=REPEATS).find_map(|attempt| {
                let outcome = kernel::run(plan, &files, stop);
                let good = |o: &KernelOutcome| o.lateness.p99 <= LATE && o.strays == 0;
                if attempt < REPEATS && outcome.as_ref().is_ok_and(|outcome| !good(outcome)) {
                    compared.repeated += 1;
                    return None;
                }
                compared.bad += u64::from(outcome.as_ref().is_ok_and(|outcome| !good(outcome)));
                Some(outcome)
            });
            let Some(kernel) = kernel.transpose()? else {
                continue;
            };
            compared.lateness = compared.lateness.max(kernel.lateness.p99);
            compared.real_time &= kernel.real_time;
            let folder = captures.map(CaptureFolder::new);
            let settings = Settings {
                captures: folder.as_ref().map(|folder| folder as &dyn Captures),
                stop: Some(stop),
                ..Settings::default()
            };
            let lab = simulate(plan, &suffix("lab"), settings)?;
            let (lab, _) = lab.ok_or(RunError::Interrupted)?;
            let timeouts = lab.flows.iter().map(|flow| flow.timeouts).sum();
            for (side, outcome, timeouts) in
                [(0, kernel.outcome, kernel.timeouts), (1, lab, timeouts)]
            {
                sides[side].0.push(outcome);
                sides[side].1 += timeouts;
            }
        }
        let duration = groups.first().map_or(0, |group| group.plan.duration);
        flow_names = names(&groups);
        by_flow.resize(
            flow_names.len(),
            vec![Sides::default(); Measure::OF_FLOWS.len()],
        );
        for (side, (outcomes, timeouts)) in sides.iter().enumerate() {
            let flows: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.flows).collect();
            let all = Measure::ALL.map(|measure| measure.of(&flows, duration, *timeouts));
            add(&mut values, side, &all);
            for (flow, values) in flows.iter().zip(&mut by_flow) {
                let one = Measure::OF_FLOWS.map(|measure| measure.of(&[*flow], duration, 0));
                add(values, side, &one);
            }
        }
    }
    compared.comparisons = comparisons(&Measure::ALL, values);
    let flows = flow_names.into_iter().zip(by_flow);
    compared.flows = flows
        .map(|(name, values)| ComparedFlow {
            name,
            comparisons: comparisons(&Measure::OF_FLOWS, values),
        })
        .collect();
    Ok(compared)
}
