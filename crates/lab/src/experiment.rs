//! Runs all simulations of a scenario on several cores, each on one. Results come in the order of
//! the scenario, with any number of cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::time::Duration;

use crate::capture::{Captures, Recorder};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::scenario::{Group, Parameter, Run, Scenario, ScenarioError};
use crate::{Nanos, Observer, RunError, SoFar, TappedPacket};

#[cfg(test)]
mod tests;

/// Most simulations at a time. No machine needs more.
pub const MAX_JOBS: usize = 256;

/// Simulations per thread that may be finished before their turn.
const AHEAD: usize = 8;
/// How soon a waiting thread sees that it must stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// How a scenario is run.
#[derive(Clone, Copy, Default)]
pub struct Settings<'a> {
    /// Threads: at least 1, at most [`MAX_JOBS`]. As many simulations run at a time. If there are fewer of them, the threads
    /// that are left over help with [large ones](crate::run_on), unless they are [looked](Self::look) at. With 1 no thread is started, so
    /// that it also works without threads (WebAssembly).
    pub jobs: usize,
    /// Opens captures; without it, taps are left out.
    pub captures: Option<&'a dyn Captures>,
    /// Set it to stop early. Simulations that are complete by then are handed on.
    pub stop: Option<&'a AtomicBool>,
    /// Counts the virtual time that has passed, in nanoseconds, up to [`Scenario::work`].
    pub progress: Option<&'a AtomicU64>,
    /// Is shown what running simulations have counted, many times a second.
    pub look: Option<&'a (dyn Fn(Look<'_>) + Sync)>,
}

/// A simulation that runs.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The point of the sweep.
    pub point: usize,
    /// The seed of the scenario.
    pub seed: u64,
    /// The plan that is run.
    pub group: &'a Group,
    /// What it has counted.
    pub so_far: &'a dyn SoFar,
}

impl Settings<'_> {
    fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn advance(&self, time: Nanos) {
        if let Some(progress) = self.progress {
            progress.fetch_add(time, Ordering::Relaxed);
        }
    }
}

/// A simulation that was run to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The point of the sweep.
    pub point: usize,
    /// The seed of the scenario.
    pub seed: u64,
    /// The plan that was run.
    pub group: Group,
    /// Its outcome.
    pub outcome: Outcome,
    /// Names of its captures, in the order of the plan's taps.
    pub captures: Vec<String>,
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
        /// The simulation: point, parameters and seed.
        simulation: String,
        /// The reason.
        error: RunError,
    },
}

/// Is shown what a simulation has counted.
type Show<'a> = &'a dyn Fn(&dyn SoFar);

/// A simulation to be run.
struct Job {
    point: usize,
    seed: u64,
    group: Group,
    /// The suffix of its captures' names, after the taps' names.
    suffix: String,
}

/// Runs all points with all seeds, and hands on the result of each simulation, in the order of
/// points, seeds and groups. Ends early, without an error, if `stop` is set.
///
/// # Errors
/// A simulation failed, or `each` did. All simulations before it were handed on.
pub fn run<E: From<ExperimentError>>(
    scenario: &Scenario,
    settings: Settings<'_>,
    mut each: impl FnMut(Finished) -> Result<(), E>,
) -> Result<(), E> {
    let jobs = jobs(scenario, settings.captures.is_some());
    let (workers, threads, jobs) = spread(scenario, settings.jobs.clamp(1, MAX_JOBS), jobs);
    let settings = Settings {
        jobs: threads,
        ..settings
    };
    let failed = AtomicBool::new(false);
    let stopped = || settings.stopped() || failed.load(Ordering::Relaxed);
    let run = |job: Result<Job, ExperimentError>| {
        job.and_then(|job| finish(scenario, job, settings, &failed))
    };
    let mut hand_on = |result: Result<Option<Finished>, ExperimentError>| match result {
        Ok(Some(finished)) => each(finished),
        Ok(None) => Ok(()),
        Err(error) => Err(E::from(error)),
    };
    if workers == 1 {
        return jobs
            .take_while(|_| !stopped())
            .try_for_each(|job| hand_on(run(job)));
    }
    let jobs = Mutex::new(jobs.enumerate());
    // Results wait for earlier ones, so no thread runs far ahead of the slowest.
    let (turn, moved) = (Mutex::new(0), Condvar::new());
    // Bounded, so that results do not pile up if `each` is slow.
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
                    if sender.send((index, run(job))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
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
                    // The other results are no longer needed.
                    failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        // Stopped with gaps: later results are complete, too.
        early.into_values().try_for_each(hand_on)
    })
}

/// A simulation, or why there is none.
type Made = Result<Job, ExperimentError>;

/// How many simulations run at a time on these threads, and on how many threads each.
fn spread<'a>(
    scenario: &Scenario,
    threads: usize,
    jobs: impl Iterator<Item = Made> + Send + 'a,
) -> (usize, usize, Box<dyn Iterator<Item = Made> + Send + 'a>) {
    // Only few are made before it is their turn.
    if scenario.points() * scenario.seeds().len() >= threads {
        return (threads, 1, Box::new(jobs));
    }
    let jobs: Vec<_> = jobs.collect();
    let workers = jobs.len().clamp(1, threads);
    (workers, threads / workers, Box::new(jobs.into_iter()))
}

/// All simulations, made as they are needed.
fn jobs(scenario: &Scenario, taps: bool) -> impl Iterator<Item = Made> + Send {
    let runs = (0..scenario.points())
        .flat_map(|point| scenario.seeds().iter().map(move |&seed| (point, seed)));
    runs.flat_map(move |(point, seed)| {
        let groups = scenario.groups(Run { point, seed, taps });
        let (groups, error) = match groups {
            Ok(groups) => (groups, None),
            Err(error) => (Vec::new(), Some(Err(error.into()))),
        };
        let several = (
            scenario.points() > 1,
            scenario.seeds().len() > 1,
            groups.len() > 1,
        );
        let jobs = groups.into_iter().map(move |group| {
            let mut suffix = String::new();
            if several.0 {
                suffix += &format!(".point-{point}");
            }
            if several.1 {
                suffix += &format!(".seed-{seed}");
            }
            if several.2 {
                suffix += &format!(".{}", group.plan.aggregates[0]);
            }
            Ok(Job {
                point,
                seed,
                group,
                suffix,
            })
        });
        jobs.chain(error)
    })
}

/// Identifies a simulation of a scenario.
fn describe(scenario: &Scenario, point: usize, seed: u64) -> String {
    let parameters = scenario.parameters(point);
    let parameters: Vec<String> = parameters.iter().map(Parameter::to_string).collect();
    match parameters.join(", ").as_str() {
        "" => format!("seed {seed}"),
        parameters => format!("point {point} ({parameters}), seed {seed}"),
    }
}

/// Runs a simulation of a scenario to its end; `None` if it was stopped before.
fn finish(
    scenario: &Scenario,
    job: Job,
    settings: Settings<'_>,
    failed: &AtomicBool,
) -> Result<Option<Finished>, ExperimentError> {
    let Job {
        point,
        seed,
        group,
        suffix,
    } = job;
    let look = settings.look.map(|look| {
        let group = &group;
        move |so_far: &dyn SoFar| {
            look(Look {
                point,
                seed,
                group,
                so_far,
            });
        }
    });
    let look = look.as_ref().map(|look| look as Show<'_>);
    let ended = watched(&group.plan, &suffix, settings, (failed, look));
    let ended = ended.map_err(|error| ExperimentError::Run {
        simulation: describe(scenario, point, seed),
        error,
    });
    Ok(ended?.map(|(outcome, captures)| Finished {
        point,
        seed,
        group,
        outcome,
        captures,
    }))
}

/// Runs a plan to its end, on as many threads as `settings` has jobs if it is [large](crate::run_on), and returns its outcome and the names of its captures, which are those
/// of [`Plan::captures`]; `None` if it was stopped before.
///
/// # Errors
/// If the plan contradicts itself or is too large, or a capture cannot be written.
pub fn simulate(
    plan: &Plan,
    suffix: &str,
    settings: Settings<'_>,
) -> Result<Option<(Outcome, Vec<String>)>, RunError> {
    watched(plan, suffix, settings, (&AtomicBool::new(false), None))
}

/// The same as `simulate`; it also ends early if `failed` is set, and shows what was counted.
fn watched(
    plan: &Plan,
    suffix: &str,
    settings: Settings<'_>,
    (failed, look): (&AtomicBool, Option<Show<'_>>),
) -> Result<Option<(Outcome, Vec<String>)>, RunError> {
    let recorder = settings.captures.map(|to| Recorder::new(plan, suffix, to));
    let mut watch = Watch {
        settings,
        failed,
        look,
        duration: plan.duration,
        passed: 0,
        recorder: recorder.transpose()?,
    };
    let ended = match look {
        Some(_) => crate::run(plan, &mut watch),
        None => crate::run_on(plan, &mut watch, settings.jobs),
    };
    let outcome = match ended {
        Err(RunError::Interrupted) => return Ok(None),
        outcome => outcome?,
    };
    let captures = watch.recorder.take().map(Recorder::finish).transpose()?;
    let rest = plan.duration.saturating_sub(watch.passed);
    settings.advance(rest);
    Ok(Some((outcome, captures.unwrap_or_default())))
}

/// Watches a simulation of an experiment.
struct Watch<'a> {
    settings: Settings<'a>,
    failed: &'a AtomicBool,
    look: Option<Show<'a>>,
    duration: Nanos,
    /// The virtual time that was already added to the progress.
    passed: Nanos,
    recorder: Option<Recorder<'a>>,
}

impl Observer for Watch<'_> {
    fn progress(&mut self, now: Nanos) -> bool {
        let step = now.min(self.duration).saturating_sub(self.passed);
        self.settings.advance(step);
        self.passed += step;
        !self.settings.stopped() && !self.failed.load(Ordering::Relaxed)
    }

    fn counted(&mut self, so_far: &dyn SoFar) {
        if let Some(look) = self.look {
            look(so_far);
        }
    }

    fn packet(&mut self, packet: &TappedPacket<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.packet(packet);
        }
    }
}
