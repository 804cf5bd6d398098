//! Whether limits that were changed as `tidegate advise` says improve what it said, by what it said: on ten limits, with
//! other seeds and round trips than it used.

mod limits;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tidegate_advise::advice::{self, Means};
use tidegate_advise::claim;
use tidegate_advise::effect::Effect;
use tidegate_advise::remedy::Remedy;
use tidegate_advise::situation::Situation;
use tidegate_advise::trial::{Effort, Workload};
use tidegate_studies::experiment::{self, Report};

use limits::LIMITS;

/// The seed of the limits as they are found: far from those of the predictions.
const SEED: u64 = 1001;
/// Round trips are longer by this factor in the last part.
const LONGER: (u64, u64) = (5, 4);
/// An improvement that was found may differ from the predicted one by this share.
const WITHIN: f64 = 0.2;

/// A limit as it is, and as advised.
struct Pair {
    now: Effect,
    then: Effect,
}

/// How many claims held.
#[derive(Default)]
struct Tally {
    /// Those that are said to be known within a share.
    known: Held,
    /// Those that are said with the least and the most.
    ranges: Held,
}

#[derive(Default)]
struct Held {
    claims: usize,
    improved: usize,
    /// By the predicted improvement within the share.
    within: usize,
    /// Between the least and the most that were said.
    between: usize,
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
        // As many simulations as the most that a prediction had.
        let effort = Effort {
            seed: SEED,
            seeds: predicted.now.runs.most(),
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
        let (known, ranges) = (&tally.known, &tally.ranges);
        writeln!(
            text,
            "{name}: of {} claims {} improved, {} by what was predicted within {:.0} %",
            known.claims + ranges.claims,
            known.improved + ranges.improved,
            known.within + ranges.within,
            WITHIN * 100.0,
        )?;
        writeln!(
            text,
            "{name}: {} of {} claims that are known within {:.0} %; {} of {} claims that are ranges are within them",
            known.within,
            known.claims,
            WITHIN * 100.0,
            ranges.between,
            ranges.claims,
        )?;
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
        "  {:<22}{:>5}{:>18}{:>16}{:>28}{:>28}",
        "in % or s", "runs", "predicted", "improves by", "found, other seeds", "longer round trips"
    )?;
    let [(near, near_tally), (far, far_tally)] = found;
    for claim in claim::claims(&predicted.now, &predicted.then) {
        let measure = claim.measure;
        let scale = match measure.workload {
            Workload::Downloads => 100.0,
            Workload::Pages | Workload::Video => 1.0,
        };
        let value = |effect: &Effect| (measure.value)(effect);
        let (least, most) = claim.range().context("a single simulation")?;
        let judge = |pair: &Pair, tally: &mut Tally| {
            let gain = measure.better * (value(&pair.then) - value(&pair.now));
            let share = gain / claim.gain();
            let within = (share - 1.0).abs() <= WITHIN;
            let between = (least..=most).contains(&gain);
            let held = match claim.is_known() {
                true => &mut tally.known,
                false => &mut tally.ranges,
            };
            held.claims += 1;
            held.improved += usize::from(gain > 0.0);
            held.within += usize::from(within);
            held.between += usize::from(between);
            let holds = if claim.is_known() { within } else { between };
            format!(
                "{:.2} to {:.2} ({:.0} %{})",
                value(&pair.now) * scale,
                value(&pair.then) * scale,
                share * 100.0,
                if holds { "" } else { "!" }
            )
        };
        let (near, far) = (judge(near, &mut *near_tally), judge(far, &mut *far_tally));
        let range = match claim.is_known() {
            true => String::new(),
            false => format!("{:.2}..{:.2}", least * scale, most * scale),
        };
        let said = format!("{:.2} to {:.2}", claim.now * scale, claim.then * scale);
        let runs = (measure.runs)(&predicted.now).len();
        writeln!(
            text,
            "  {:<22}{runs:>5}{said:>18}{range:>16}{near:>28}{far:>28}",
            measure.words,
        )?;
    }
    writeln!(text)?;
    Ok(())
}
