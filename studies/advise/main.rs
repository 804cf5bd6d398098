//! Whether limits that were changed as `tidegate advise` says improve what it said, by what it said: on ten limits, with
//! other seeds and round trips than it used.

mod limits;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_advise::advice::{self, Means};
use tidegate_advise::chance::Mean;
use tidegate_advise::effect::Effect;
use tidegate_advise::remedy::Remedy;
use tidegate_advise::situation::Situation;
use tidegate_advise::trial::Effort;
use tidegate_studies::experiment::{self, Report};

use limits::LIMITS;

/// The seed of the limits as they are found: far from those of the predictions.
const SEED: u64 = 1001;
/// Round trips are longer by this factor in the last part.
const LONGER: (u64, u64) = (5, 4);
/// An improvement that was found may differ from the predicted one by this share.
const WITHIN: f64 = 0.2;

/// What is predicted to improve, and what counts as an improvement.
struct Measure {
    name: &'static str,
    /// Better is less.
    value: fn(&Effect) -> f64,
    /// The same of single simulations.
    runs: fn(&Effect) -> &[f64],
    /// Whether a prediction from the first to the second is worth saying.
    is_claim: fn(f64, f64) -> bool,
    scale: f64,
}

/// Those of the first sentences of an advice, and the viewer's wait for the video.
const MEASURES: [Measure; 4] = [
    Measure {
        name: "slowest, %",
        value: |effect| -effect.slowest,
        runs: |effect| &effect.runs.slowest,
        is_claim: |now, then| now - then > 0.05,
        scale: -100.0,
    },
    Measure {
        name: "losses, %",
        value: |effect| effect.loss,
        runs: |effect| &effect.runs.loss,
        is_claim: |now, then| now - then > 0.01,
        scale: 100.0,
    },
    Measure {
        name: "300 kB, s",
        value: |effect| effect.page_s,
        runs: |effect| &effect.runs.page_s,
        is_claim: |now, then| then < 0.8 * now,
        scale: 1.0,
    },
    Measure {
        name: "video, s",
        value: |effect| effect.join_s + effect.rebuffer_s,
        runs: |effect| &effect.runs.video_s,
        is_claim: |now, then| now - then > 1.0 && then < 0.8 * now,
        scale: 1.0,
    },
];

/// A limit as it is, and as advised.
struct Pair {
    now: Effect,
    then: Effect,
}

/// How many claims held.
#[derive(Default)]
struct Tally {
    all: Held,
    /// Those that are known within the same share, by the simulations of the prediction.
    certain: Held,
}

#[derive(Default)]
struct Held {
    claims: usize,
    improved: usize,
    within: usize,
}

fn main() -> ExitCode {
    experiment::main("advise", || {
        Ok(Report {
            table: table()?,
            pictures: Vec::new(),
        })
    })
}

fn table() -> Result<String> {
    let mut text = String::new();
    let (mut seeds, mut longer) = (Tally::default(), Tally::default());
    for limit in &LIMITS {
        let situation = limit.situation()?;
        let candidates = advice::all(&situation).0.len();
        let effort = Effort::for_seconds(&situation, candidates);
        let advice = advice::advise(&situation, effort, means())?;
        writeln!(text, "{}: {}", limit.name, limit.line)?;
        let Some(chosen) = advice.chosen() else {
            writeln!(text, "  advised: leave it as it is\n")?;
            continue;
        };
        writeln!(text, "  advised: {}", chosen.remedy.words())?;
        let predicted = Pair {
            now: advice.today().effect.clone(),
            then: chosen.effect.clone(),
        };
        let effort = Effort {
            seed: SEED,
            ..effort
        };
        let found = pair(&situation, &chosen.remedy, effort)?;
        let far = Situation {
            rtt: (
                situation.rtt.0 * LONGER.0 / LONGER.1,
                situation.rtt.1 * LONGER.0 / LONGER.1,
            ),
            ..situation
        };
        let found_far = pair(&far, &chosen.remedy, effort)?;
        rows(
            &mut text,
            &predicted,
            [(&found, &mut seeds), (&found_far, &mut longer)],
        )?;
    }
    for (name, tally) in [("other seeds", &seeds), ("longer round trips", &longer)] {
        for (which, held) in [("claims", &tally.all), ("certain claims", &tally.certain)] {
            writeln!(
                text,
                "{name}: of {} {which} {} improved, {} by what was predicted within {:.0} %",
                held.claims,
                held.improved,
                held.within,
                WITHIN * 100.0
            )?;
        }
    }
    Ok(text)
}

fn means() -> Means<'static> {
    Means {
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        ..Means::default()
    }
}

/// What the limit does now, and what the advised one does.
fn pair(situation: &Situation, remedy: &Remedy, effort: Effort) -> Result<Pair> {
    Ok(Pair {
        now: advice::effect(situation, &Remedy::today(situation), effort, means())?,
        then: advice::effect(situation, remedy, effort, means())?,
    })
}

fn rows(text: &mut String, predicted: &Pair, found: [(&Pair, &mut Tally); 2]) -> Result<()> {
    writeln!(
        text,
        "  {:<12}{:>22}{:>30}{:>30}",
        "", "predicted", "found, other seeds", "found, longer round trips"
    )?;
    let [(near, near_tally), (far, far_tally)] = found;
    for measure in &MEASURES {
        let value = |effect: &Effect| (measure.value)(effect);
        let (now, then) = (value(&predicted.now), value(&predicted.then));
        let runs = Mean::of_difference(
            (measure.runs)(&predicted.now),
            (measure.runs)(&predicted.then),
        );
        let show = |pair: &Pair| {
            let shown = |effect: &Effect| format!("{:.2}", value(effect) * measure.scale);
            format!("{} to {}", shown(&pair.now), shown(&pair.then))
        };
        if !(measure.is_claim)(now, then) {
            continue;
        }
        let certain = runs.is_within(WITHIN);
        let judge = |pair: &Pair, tally: &mut Tally| {
            let share = (value(&pair.now) - value(&pair.then)) / (now - then);
            let within = (share - 1.0).abs() <= WITHIN;
            let certain = certain.then_some(&mut tally.certain);
            for held in std::iter::once(&mut tally.all).chain(certain) {
                held.claims += 1;
                held.improved += usize::from(share > 0.0);
                held.within += usize::from(within);
            }
            format!(
                "{} ({:.0} %{})",
                show(pair),
                share * 100.0,
                if within { "" } else { "!" }
            )
        };
        let (near, far) = (judge(near, &mut *near_tally), judge(far, &mut *far_tally));
        let predicted = match certain {
            true => show(predicted),
            false => format!("~{}", show(predicted)),
        };
        writeln!(
            text,
            "  {:<12}{predicted:>22}{near:>30}{far:>30}",
            measure.name
        )?;
    }
    writeln!(text)?;
    Ok(())
}
