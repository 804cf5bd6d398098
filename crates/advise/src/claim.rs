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
    /// -1 if less is better, 1 if more is.
    pub better: f64,
    /// Whether a change of it from the first to the second is worth saying.
    is_worth: fn(f64, f64) -> bool,
}

/// All of them.
pub const MEASURES: [Measure; 4] = [
    Measure {
        key: "slowest_share",
        words: "share of the slowest",
        workload: Workload::Downloads,
        value: |effect| effect.slowest,
        runs: |effect| &effect.runs.slowest,
        better: 1.0,
        is_worth: |now, then| then - now > 0.05,
    },
    Measure {
        key: "loss_rate",
        words: "packets dropped",
        workload: Workload::Downloads,
        value: |effect| effect.loss,
        runs: |effect| &effect.runs.loss,
        better: -1.0,
        is_worth: |now, then| now - then > 0.01,
    },
    Measure {
        key: "short_transfer_p50_s",
        words: "a short transfer",
        workload: Workload::Pages,
        value: |effect| effect.page_s,
        runs: |effect| &effect.runs.page_s,
        better: -1.0,
        is_worth: |now, then| then < 0.8 * now,
    },
    Measure {
        key: "video_wait_s",
        words: "a viewer's wait",
        workload: Workload::Video,
        value: |effect| effect.join_s + effect.rebuffer_s,
        runs: |effect| &effect.runs.video_s,
        better: -1.0,
        is_worth: |now, then| now - then > 1.0 && then < 0.8 * now,
    },
];

/// A predicted improvement.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// What improves.
    pub measure: &'static Measure,
    /// Its value today.
    pub now: f64,
    /// Its value with the chosen limit.
    pub then: f64,
    /// The improvement by single simulations.
    gain: Mean,
}

impl Claim {
    /// By how much it improves: more is better.
    pub fn gain(&self) -> f64 {
        self.measure.better * (self.then - self.now)
    }

    /// Whether as many other simulations find the same improvement within 20 % (95 % confidence).
    pub fn is_known(&self) -> bool {
        self.gain.count >= LEAST && self.gain.bound() <= KNOWN * self.gain()
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
    let claim = |measure: &'static Measure| {
        let claim = Claim {
            measure,
            now: (measure.value)(now),
            then: (measure.value)(then),
            gain: match measure.better > 0.0 {
                true => Mean::of_difference((measure.runs)(then), (measure.runs)(now)),
                false => Mean::of_difference((measure.runs)(now), (measure.runs)(then)),
            },
        };
        (measure.is_worth)(claim.now, claim.then).then_some(claim)
    };
    MEASURES.iter().filter_map(claim).collect()
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
}
