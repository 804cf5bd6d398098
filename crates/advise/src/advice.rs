//! The advice: every candidate simulated beside today's limit, and the one to choose.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tidegate_lab::Nanos;
use tidegate_lab::experiment::{self, ExperimentError, Finished, Settings};
use tidegate_lab::scenario::{Scenario, ScenarioError};

use crate::chance::Mean;
use crate::claim::{self, Claim};
use crate::effect::{Collector, Effect};
use crate::remedy::{self, Change, Remedy};
use crate::setting::{GATE_HOSTS, Kind};
use crate::situation::Situation;
use crate::trial::{Effort, Trial, Workload};

/// Shares of the slowest download that differ by less count as the same.
const SAME: f64 = 0.05;
/// A viewer has to wait this much less, in seconds, …
const SOONER: f64 = 1.0;
/// … and the time of a short transfer, or of a viewer's wait, has to fall to this share to be worth a change, …
const FASTER: f64 = 0.8;
/// … and losses to this one.
const FEWER: f64 = 0.5;
/// Losses below this are none worth a change.
const FEW: f64 = 0.01;
/// All downloads together have to keep this share of what they get today, or of the rate if they get more than that.
const KEPT: f64 = 0.8;

/// A remedy, and what it does.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The remedy.
    pub remedy: Remedy,
    /// Its effect.
    pub effect: Effect,
}

/// What a limit does, and what to set instead.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// What it was asked about.
    pub situation: Situation,
    /// How much was simulated of each option; [`Effect::runs`](crate::effect::Effect::runs) has how much of one.
    pub effort: Effort,
    /// Today's limit first, then every candidate.
    pub options: Vec<Choice>,
    /// The option that the operator should choose; `None`: leave it as it is.
    pub chosen: Option<usize>,
    /// Sentences about what was left out or limits the advice.
    pub remarks: Vec<String>,
}

/// How an advice is computed.
#[derive(Clone, Copy, Default)]
pub struct Means<'a> {
    /// Simulations at a time.
    pub jobs: usize,
    /// Set it to stop early.
    pub stop: Option<&'a AtomicBool>,
    /// Counts the virtual time that has passed, in nanoseconds, up to [`work`].
    pub progress: Option<&'a AtomicU64>,
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The situation cannot be simulated.
    #[error("{0}")]
    Situation(String),
    /// A scenario of ours is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A simulation failed.
    #[error(transparent)]
    Run(#[from] ExperimentError),
    /// It was stopped.
    #[error("interrupted: nothing is advised without all simulations")]
    Stopped,
}

/// The virtual time that an advice takes at most, in nanoseconds.
///
/// # Errors
/// The situation cannot be simulated.
pub fn work(situation: &Situation, effort: Effort) -> Result<Nanos, AdviceError> {
    situation.check().map_err(AdviceError::Situation)?;
    let remedies = all(situation).0.len() as u64 + 2 * effort.rounds;
    let seconds = Workload::ALL.map(|workload| effort.lasts(workload));
    Ok(remedies * effort.seeds * seconds.iter().sum::<Nanos>())
}

/// Today's limit and every candidate; and sentences about what was left out.
pub fn all(situation: &Situation) -> (Vec<Remedy>, Vec<String>) {
    let (found, left_out) = remedy::candidates(situation);
    let today = Remedy::today(situation);
    (std::iter::once(today).chain(found).collect(), left_out)
}

/// Simulates one remedy.
///
/// # Errors
/// A simulation failed, or it was stopped.
pub fn effect(
    situation: &Situation,
    remedy: &Remedy,
    effort: Effort,
    means: Means<'_>,
) -> Result<Effect, AdviceError> {
    Ok(simulated(situation, remedy, effort, means)?.finish(situation))
}

/// What the simulations of a remedy come to.
fn simulated(
    situation: &Situation,
    remedy: &Remedy,
    effort: Effort,
    means: Means<'_>,
) -> Result<Collector, AdviceError> {
    let mut collector = Collector::default();
    let one = std::slice::from_mut(&mut collector);
    collect(situation, &[remedy], &Workload::ALL, effort, means, one)?;
    Ok(collector)
}

/// Simulates workloads behind remedies, and adds the results to a collector for each.
fn collect(
    situation: &Situation,
    remedies: &[&Remedy],
    workloads: &[Workload],
    effort: Effort,
    means: Means<'_>,
    collectors: &mut [Collector],
) -> Result<(), AdviceError> {
    let mut trials = Vec::new();
    for (&remedy, index) in remedies.iter().zip(0..) {
        for &workload in workloads {
            let trial = |number| Trial {
                situation,
                remedy,
                workload,
                effort,
                number,
            };
            trials.extend((0..effort.seeds).map(|number| (index, trial(number))));
        }
    }
    let (collected, trials): (Vec<usize>, Vec<Trial<'_>>) = trials.into_iter().unzip();
    for ((trial, index), finished) in trials.iter().zip(collected).zip(simulate(&trials, means)) {
        let finished = finished.unwrap_or(Err(AdviceError::Stopped))?;
        collectors[index].add(situation, trial.workload, &finished);
    }
    Ok(())
}

/// The simulations of all trials, in their order; `None` where one was stopped. They are independent, so that each thread
/// takes the next one.
fn simulate(trials: &[Trial<'_>], means: Means<'_>) -> Vec<Option<Result<Finished, AdviceError>>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(trial) = trials.get(number) else {
                return done;
            };
            done.push((number, run(trial, means)));
        }
    };
    let jobs = means.jobs.clamp(1, trials.len().max(1));
    let mut found: Vec<_> = trials.iter().map(|_| None).collect();
    let mut keep = |done: Vec<(usize, Result<Finished, AdviceError>)>| {
        for (number, finished) in done {
            found[number] = Some(finished);
        }
    };
    if jobs == 1 {
        // Without threads, as in WebAssembly.
        keep(work());
        return found;
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(done) => keep(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    found
}

/// One simulation.
fn run(trial: &Trial<'_>, means: Means<'_>) -> Result<Finished, AdviceError> {
    let scenario = Scenario::parse(&trial.scenario())?;
    let settings = Settings {
        jobs: 1,
        stop: means.stop,
        progress: means.progress,
        ..Settings::default()
    };
    let mut found = None;
    experiment::run(&scenario, settings, |finished| {
        found = Some(finished);
        Ok::<(), ExperimentError>(())
    })?;
    found.ok_or(AdviceError::Stopped)
}

/// Simulates today's limit and every candidate, and chooses.
///
/// # Errors
/// The situation cannot be simulated, a simulation failed, or it was stopped.
pub fn advise(
    situation: &Situation,
    effort: Effort,
    means: Means<'_>,
) -> Result<Advice, AdviceError> {
    situation.check().map_err(AdviceError::Situation)?;
    effort.check(situation).map_err(AdviceError::Situation)?;
    let (remedies, mut remarks) = all(situation);
    remarks.extend(effort.remark(situation));
    let collectors = remedies.iter();
    let collectors = collectors.map(|remedy| simulated(situation, remedy, effort, means));
    let collectors = collectors.collect::<Result<Vec<_>, AdviceError>>()?;
    let finished = remedies.into_iter().zip(&collectors);
    let mut options: Vec<Choice> = finished
        .map(|(remedy, collector)| Choice {
            remedy,
            effect: collector.finish(situation),
        })
        .collect();
    let chosen = choose(&options);
    if let Some(chosen) = chosen {
        let pair = [0, chosen];
        let mut pair_of = pair.map(|option| collectors[option].clone());
        for round in 1..=effort.rounds {
            let [now, then] = pair.map(|option| &options[option]);
            let unknown = unknown(&now.effect, &then.effect);
            if unknown.is_empty() {
                break;
            }
            collect(
                situation,
                &[&now.remedy, &then.remedy],
                &unknown,
                effort.round(round),
                means,
                &mut pair_of,
            )?;
            for (option, collector) in pair.into_iter().zip(&pair_of) {
                options[option].effect = collector.finish(situation);
            }
        }
    }
    if situation.users > usize::from(GATE_HOSTS) {
        remarks.push(format!(
            "The gate keeps at most {GATE_HOSTS} users of one limit apart; some of the {} share a place. Give each \
             subscriber a limit where you can.",
            situation.users
        ));
    }
    Ok(Advice {
        situation: situation.clone(),
        effort,
        options,
        chosen,
        remarks,
    })
}

/// The experiments that have to be repeated before it is known what a change improves.
fn unknown(now: &Effect, then: &Effect) -> Vec<Workload> {
    let claims = claim::claims(now, then);
    let is_open = |workload: &Workload| {
        let mut claims = claims.iter();
        claims.any(|claim| claim.measure.workload == *workload && !claim.is_known())
    };
    Workload::ALL.into_iter().filter(is_open).collect()
}

/// The operator's best option of those that are worth a change: the slowest download's share decides; where shares are
/// about the same, the 95th percentile of short transfers.
fn choose(options: &[Choice]) -> Option<usize> {
    let today = &options.first()?.effect;
    let candidates = options.iter().enumerate().skip(1);
    let mut candidates = candidates.filter(|(_, option)| {
        option.remedy.change.is_for_operator() && is_worth(&option.effect, today)
    });
    let first = candidates.next()?;
    let best = candidates.fold(first, |best, other| {
        match is_better(&other.1.effect, &best.1.effect) {
            true => other,
            false => best,
        }
    });
    Some(best.0)
}

fn is_better(one: &Effect, other: &Effect) -> bool {
    match one.slowest - other.slowest {
        difference if difference.abs() > SAME => difference > 0.0,
        _ => one.page_p95_s < other.page_p95_s,
    }
}

/// Whether a change is worth its trouble, beyond chance.
fn is_worth(effect: &Effect, today: &Effect) -> bool {
    let (then, now) = (&effect.runs, &today.runs);
    let clear = |more: &[f64], less: &[f64]| Mean::of_difference(more, less).is_clear();
    let shares = effect.slowest - today.slowest;
    if effect.goodput < KEPT * today.goodput.min(1.0) {
        return false;
    }
    (shares > SAME && clear(&then.slowest, &now.slowest))
        || (shares > -SAME
            && (effect.page_p95_s < FASTER * today.page_p95_s && clear(&now.page_s, &then.page_s)
                || is_soon(effect, today) && clear(&now.video_s, &then.video_s)
                || today.loss > FEW
                    && effect.loss < FEWER * today.loss
                    && clear(&now.loss, &then.loss)))
}

/// Whether the viewer of the video waits clearly less.
fn is_soon(effect: &Effect, today: &Effect) -> bool {
    let (then, now) = (effect.wait_s(), today.wait_s());
    then < FASTER * now && now - then > SOONER
}

impl Advice {
    /// Today's limit.
    pub fn today(&self) -> &Choice {
        &self.options[0]
    }

    /// The option to choose.
    pub fn chosen(&self) -> Option<&Choice> {
        self.chosen.map(|chosen| &self.options[chosen])
    }

    /// What the chosen option promises.
    pub fn claims(&self) -> Vec<Claim> {
        let chosen = self.chosen().map(|chosen| &chosen.effect);
        chosen.map_or(Vec::new(), |then| claim::claims(&self.today().effect, then))
    }

    /// What the chosen option makes worse.
    pub fn costs(&self) -> Vec<Claim> {
        let chosen = self.chosen().map(|chosen| &chosen.effect);
        chosen.map_or(Vec::new(), |then| claim::costs(&self.today().effect, then))
    }

    /// The option of a kind.
    pub fn option(&self, change: Change) -> Option<&Choice> {
        self.options
            .iter()
            .find(|option| option.remedy.change == change)
    }

    /// The gate's limit among the options.
    pub fn phantom_queues(&self) -> Option<(Nanos, u16)> {
        self.options
            .iter()
            .find_map(|option| match option.remedy.setting.kind {
                Kind::BcPqp { rtt, hosts, .. } => Some((rtt, hosts)),
                _ => None,
            })
    }
}
