//! What an advice promises: by how much the chosen limit improves what users feel, and how far this is known.

use crate::chance::Mean;
use crate::effect::Effect;
use crate::trial::Workload;

/// An improvement is known if what others find in as many simulations is within 20 % of it (95 % confidence). Their chance adds to
/// ours, as squares do, so chance may change ours by this share.
const KNOWN: f64 = 0.2 / std::f64::consts::SQRT_2;
/// Fewer simulations than this may agree by chance alone.
const LEAST: usize = 8;

/// What can improve.
#[derive(Debug)]
pub struct Measure {
    /// Its field in JSON.
    pub key: &'static str,
    /// Its name for people.
    pub words: &'static str,
    /// The experiment that measures it.
    pub workload: Workload,
    /// Its value.
    pub value: fn(&Effect) -> f64,
    /// The same of single simulations.
    pub runs: fn(&Effect) -> &[f64],
    /// Whether its value is a lower bound, for much was incomplete at the end.
    pub is_bound: fn(&Effect) -> bool,
    /// Whether it is a time; a share otherwise.
    pub in_seconds: bool,
    /// -1 if less is better, 1 if more is.
    pub better: f64,
    /// Whether a change of it from the first to the second is worth saying.
    is_worth: fn(f64, f64) -> bool,
}

/// All of them.
pub static MEASURES: [Measure; 4] = [
    Measure {
        key: "slowest_share",
        words: "share of the slowest",
        workload: Workload::Downloads,
        value: |effect| effect.slowest,
        runs: |effect| &effect.runs.slowest,
        is_bound: |_| false,
        in_seconds: false,
        better: 1.0,
        is_worth: |now, then| then - now > 0.05,
    },
    Measure {
        key: "loss_rate",
        words: "packets dropped",
        workload: Workload::Downloads,
        value: |effect| effect.loss,
        runs: |effect| &effect.runs.loss,
        is_bound: |_| false,
        in_seconds: false,
        better: -1.0,
        is_worth: |now, then| now - then > 0.01,
    },
    Measure {
        key: "short_transfer_p50_s",
        words: "a short transfer",
        workload: Workload::Pages,
        value: |effect| effect.page_s,
        runs: |effect| &effect.runs.page_s,
        is_bound: Effect::page_is_bound,
        in_seconds: true,
        better: -1.0,
        is_worth: |now, then| then < 0.8 * now,
    },
    Measure {
        key: "video_wait_s",
        words: "a viewer's wait",
        workload: Workload::Video,
        value: Effect::wait_s,
        runs: |effect| &effect.runs.video_s,
        is_bound: Effect::wait_is_bound,
        in_seconds: true,
        better: -1.0,
        is_worth: |now, then| now - then > 1.0 && then < 0.8 * now,
    },
];

/// What a change may cost, and what none is chosen for.
static DELAY: Measure = Measure {
    key: "delay_p95_s",
    words: "delay of a download",
    workload: Workload::Downloads,
    value: |effect| effect.delay_s,
    runs: |effect| &effect.runs.delay_s,
    is_bound: |_| false,
    in_seconds: true,
    better: -1.0,
    is_worth: |now, then| now - then > 0.02 && then < 0.8 * now,
};

/// A predicted change.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// What changes.
    pub measure: &'static Measure,
    /// Its value today.
    pub now: f64,
    /// Its value with the chosen limit.
    pub then: f64,
    /// Whether the first and the second are lower bounds.
    pub bounds: [bool; 2],
    /// The improvement by single simulations.
    gain: Mean,
}

impl Claim {
    /// By how much it improves: more is better.
    pub fn gain(&self) -> f64 {
        self.measure.better * (self.then - self.now)
    }

    /// Whether as many other simulations of the same length find the same improvement within 20 % (95 % confidence).
    pub fn is_known(&self) -> bool {
        self.gain.count >= LEAST && self.gain.bound() <= KNOWN * self.gain()
    }

    /// Whether this is true of longer simulations, too: no value is a lower bound, because much was incomplete at the end.
    pub fn is_complete(&self) -> bool {
        self.bounds == [false, false]
    }

    /// Whether it gets worse by more than chance.
    pub fn is_clearly_worse(&self) -> bool {
        self.gain.count > 1 && -self.gain.value > self.gain.bound()
    }

    /// By how much these simulations could improve at the most: to 0, or to a share of 1.
    pub fn most(&self) -> f64 {
        match self.measure.better > 0.0 {
            true => 1.0 - self.now,
            false => self.now,
        }
    }

    /// The least and the most by which as many other simulations find that it improves (95 % confidence); `None` by a single simulation.
    pub fn range(&self) -> Option<(f64, f64)> {
        let (gain, bound) = (self.gain(), self.gain.bound() * std::f64::consts::SQRT_2);
        (self.gain.count > 1).then_some((gain - bound, gain + bound))
    }
}

/// What a change from one limit to another promises.
pub fn claims(now: &Effect, then: &Effect) -> Vec<Claim> {
    let changes = MEASURES.iter().map(|measure| change(measure, now, then));
    let is_worth = |claim: &Claim| (claim.measure.is_worth)(claim.now, claim.then);
    changes.filter(is_worth).collect()
}

/// What a change from one limit to another makes worse: what would be worth saying of the way back, and delays.
pub fn costs(now: &Effect, then: &Effect) -> Vec<Claim> {
    let measures = MEASURES.iter().chain([&DELAY]);
    let changes = measures.map(|measure| change(measure, now, then));
    let is_worse = |claim: &Claim| (claim.measure.is_worth)(claim.then, claim.now);
    changes.filter(is_worse).collect()
}

fn change(measure: &'static Measure, now: &Effect, then: &Effect) -> Claim {
    let (before, after) = ((measure.runs)(now), (measure.runs)(then));
    Claim {
        measure,
        now: (measure.value)(now),
        then: (measure.value)(then),
        bounds: [now, then].map(measure.is_bound),
        gain: match measure.better > 0.0 {
            true => Mean::of_difference(after, before),
            false => Mean::of_difference(before, after),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Runs;

    fn effect(losses: &[f64]) -> Effect {
        Effect {
            loss: losses.iter().sum::<f64>() / losses.len() as f64,
            runs: Runs {
                loss: losses.to_vec(),
                ..Runs::default()
            },
            ..Effect::default()
        }
    }

    #[test]
    fn an_improvement_is_known_if_many_simulations_agree() {
        let then = effect(&[0.02; 8]);
        let [claim] = claims(&effect(&[0.12; 8]), &then)[..] else {
            panic!("one claim");
        };
        assert_eq!(claim.measure.key, "loss_rate");
        assert!((claim.gain() - 0.1).abs() < 1e-9 && claim.is_known());
        // Seven may agree by chance.
        assert!(!claims(&effect(&[0.12; 7]), &effect(&[0.02; 7]))[0].is_known());
        // Half of the simulations have no losses, the others twice as many.
        let apart: Vec<f64> = (0..8).map(|number| f64::from(number % 2) * 0.24).collect();
        let claim = claims(&effect(&apart), &then)[0];
        let (least, most) = claim.range().expect("eight simulations");
        assert!(
            !claim.is_known() && least < 0.05 && most > 0.15,
            "{claim:?}"
        );
        assert!(
            claims(&effect(&[0.12]), &effect(&[0.02]))[0]
                .range()
                .is_none()
        );
        // A point and less are not worth a word, nor is a change for the worse.
        assert!(claims(&effect(&[0.025; 8]), &then).is_empty());
        assert!(claims(&then, &effect(&[0.12; 8])).is_empty());
    }

    #[test]
    fn what_gets_worse_is_a_cost() {
        let (few, many) = (effect(&[0.02; 8]), effect(&[0.12; 8]));
        assert!(costs(&many, &few).is_empty());
        let [cost] = costs(&few, &many)[..] else {
            panic!("one cost");
        };
        assert!(cost.measure.key == "loss_rate" && cost.is_clearly_worse());
        assert!(costs(&few, &effect(&[0.025; 8])).is_empty());
        assert!(!costs(&effect(&[0.02]), &effect(&[0.12]))[0].is_clearly_worse());
    }

    #[test]
    fn waits_that_were_cut_off_at_the_end_are_lower_bounds() {
        let wait = |seconds: f64, wait_open: f64| Effect {
            join_s: seconds,
            wait_open,
            runs: Runs {
                video_s: vec![seconds; 8],
                ..Runs::default()
            },
            ..Effect::default()
        };
        let claim = |now, then| claims(&now, &then)[0];
        let complete = claim(wait(30.0, 0.1), wait(2.0, 0.0));
        assert!(complete.is_known() && complete.is_complete());
        let cut = claim(wait(30.0, 0.5), wait(2.0, 0.0));
        assert_eq!((cut.bounds, cut.is_complete()), ([true, false], false));
    }
}
