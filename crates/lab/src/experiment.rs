//! All simulations of a scenario, on several cores: each on one, results in the order of the
//! scenario whatever the number of cores.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::time::Duration;

use crate::outcome::Outcome;
use crate::plan::ElementKind;
use crate::scenario::{Group, Scenario, ScenarioError};
use crate::{Nanos, RunError};

#[cfg(test)]
mod tests;

/// More simulations at a time are of no use on any machine.
pub const MAX_JOBS: usize = 256;

/// Simulations, for each that is run at a time, that may be finished before their turn.
const AHEAD: usize = 8;
/// How soon those who wait see that they are to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// How a scenario is run.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Simulations at a time; counted as at least 1, and at most [`MAX_JOBS`].
    pub jobs: usize,
    /// The folder for captures; without one, taps are left out.
    pub captures: Option<&'a Path>,
    /// Raised to stop: what is complete by then is handed on.
    pub stop: &'a AtomicBool,
    /// Grows with the virtual time that has passed, up to [`Scenario::work`].
    pub progress: &'a AtomicU64,
}

/// A simulation that was run to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The point of the sweep.
    pub point: usize,
    /// The seed of the scenario.
    pub seed: u64,
    /// What was run.
    pub group: Group,
    /// What came of it.
    pub outcome: Outcome,
}

/// Why a scenario was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The scenario is wrong at a point.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A simulation failed.
    #[error("{simulation}: {error}")]
    Run {
        /// Which: point, parameters and seed.
        simulation: String,
        /// Why.
        error: RunError,
    },
}

/// A simulation to be run.
struct Job {
    point: usize,
    seed: u64,
    group: Group,
}

/// Runs all points with all seeds, and hands on what comes of each simulation, in the order of
/// points, seeds and groups. Ends early, without an error, if told to stop.
///
/// # Errors
/// A simulation failed, or `each` did. All simulations before it were handed on.
pub fn run<E: From<ExperimentError>>(
    scenario: &Scenario,
    settings: Settings<'_>,
    mut each: impl FnMut(Finished) -> Result<(), E>,
) -> Result<(), E> {
    let jobs = Mutex::new(jobs(scenario, settings.captures).enumerate());
    // Results wait for those before them: nobody runs far ahead of the slowest.
    let (turn, moved) = (Mutex::new(0), Condvar::new());
    let workers = settings.jobs.clamp(1, MAX_JOBS);
    let stopped = || settings.stop.load(Ordering::Relaxed);
    // Bounded, so that results do not pile up before one who is slow to take them.
    let (sender, receiver) = mpsc::sync_channel(workers);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (jobs, turn, moved, sender) = (&jobs, &turn, &moved, sender.clone());
            scope.spawn(move || {
                let next = || jobs.lock().ok().and_then(|mut jobs| jobs.next());
                while !stopped()
                    && let Some((index, job)) = next()
                {
                    let ahead = |turn: &mut usize| index > *turn + AHEAD * workers && !stopped();
                    if let Ok(mut turn) = turn.lock() {
                        while ahead(&mut turn) {
                            let Ok((again, _)) = moved.wait_timeout(turn, PATIENCE) else {
                                return;
                            };
                            turn = again;
                        }
                    }
                    let result = job.and_then(|job| {
                        let (point, seed) = (job.point, job.seed);
                        simulate(job, settings).map_err(|error| ExperimentError::Run {
                            simulation: describe(scenario, point, seed),
                            error,
                        })
                    });
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut hand_on = |result: Result<Option<Finished>, ExperimentError>| match result {
            Ok(Some(finished)) => each(finished),
            Ok(None) => Ok(()),
            Err(error) => Err(E::from(error)),
        };
        for (index, result) in receiver {
            early.insert(index, result);
            let mut due = turn.lock().map_or(0, |turn| *turn);
            while let Some(result) = early.remove(&due) {
                due += 1;
                if let Ok(mut turn) = turn.lock() {
                    *turn = due;
                }
                moved.notify_all();
                if let Err(error) = hand_on(result) {
                    // Nobody listens any more.
                    settings.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        // Stopped with gaps: what came behind them is complete, too.
        early.into_values().try_for_each(hand_on)
    })
}

/// All simulations, made as they are needed.
fn jobs<'a>(
    scenario: &'a Scenario,
    folder: Option<&'a Path>,
) -> impl Iterator<Item = Result<Job, ExperimentError>> + Send + 'a {
    let runs = (0..scenario.points())
        .flat_map(|point| scenario.seeds().iter().map(move |&seed| (point, seed)));
    runs.flat_map(move |(point, seed)| {
        let groups = scenario.groups(point, seed, folder.is_some());
        let (groups, error) = match groups {
            Ok(groups) => (groups, None),
            Err(error) => (Vec::new(), Some(Err(error.into()))),
        };
        let several = (
            scenario.points() > 1,
            scenario.seeds().len() > 1,
            groups.len() > 1,
        );
        let jobs = groups.into_iter().map(move |mut group| {
            let mut name = String::new();
            if several.0 {
                name += &format!(".point-{point}");
            }
            if several.1 {
                name += &format!(".seed-{seed}");
            }
            if several.2 {
                name += &format!(".{}", group.plan.aggregates[0]);
            }
            if let Some(folder) = folder {
                place(&mut group, folder, &name);
            }
            Ok(Job { point, seed, group })
        });
        jobs.chain(error)
    })
}

/// Puts the captures of a simulation into the folder, under names that no other has.
pub(crate) fn place(group: &mut Group, folder: &Path, suffix: &str) {
    for element in &mut group.plan.elements {
        if let ElementKind::Tap { file, .. } = &mut element.kind {
            // A dot, which the names of files' elements and aggregates do not have.
            let name = element.name.replace(':', ".");
            *file = folder.join(format!("{name}{suffix}.pcap"));
        }
    }
}

/// Which simulation of a scenario it is.
fn describe(scenario: &Scenario, point: usize, seed: u64) -> String {
    let parameters = scenario.parameters(point);
    let parameters: Vec<String> = parameters
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    match parameters.join(", ").as_str() {
        "" => format!("seed {seed}"),
        parameters => format!("point {point} ({parameters}), seed {seed}"),
    }
}

/// Runs a simulation to its end; `None` if told to stop before.
fn simulate(job: Job, settings: Settings<'_>) -> Result<Option<Finished>, RunError> {
    let mut passed: Nanos = 0;
    let mut stopped = false;
    let mut watch = |now: Nanos| {
        let now = now.min(job.group.plan.duration);
        let step = now.saturating_sub(passed);
        settings.progress.fetch_add(step, Ordering::Relaxed);
        passed += step;
        stopped = settings.stop.load(Ordering::Relaxed);
        !stopped
    };
    let result = crate::run(&job.group.plan, &mut watch);
    if stopped {
        return Ok(None);
    }
    let outcome = result?;
    let rest = job.group.plan.duration.saturating_sub(passed);
    settings.progress.fetch_add(rest, Ordering::Relaxed);
    Ok(Some(Finished {
        point: job.point,
        seed: job.seed,
        group: job.group,
        outcome,
    }))
}
