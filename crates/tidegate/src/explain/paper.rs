//! The story of a flow in the terms of the policing detector `pd` \[Flach16\].

use std::io::{self, Write};

use tidegate_trace::annotate::Layer;
use tidegate_trace::detect::pd::{Answer, Check, Code, Run};

use super::figures::{self, line};
use crate::table::Paint;
use crate::units::{bytes, plural, rate};
use tidegate_story::account::{Account, Kept};
use tidegate_story::headline;
use tidegate_story::words::lines;

/// The segments of the flow, one after the other.
pub(super) fn write(out: &mut impl Write, account: &Account, paint: Paint) -> io::Result<()> {
    let count = account.transfers.len() as u64;
    if count > 1 {
        let side = account.side();
        let segments = plural(count, "segment", "segments");
        writeln!(out, "The {side} sent data in {segments}:\n")?;
    }
    for (i, transfer) in account.transfers.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        segment(out, account, transfer, paint)?;
    }
    Ok(())
}

fn segment(out: &mut impl Write, account: &Account, kept: &Kept, paint: Paint) -> io::Result<()> {
    let transfer = &kept.transfer;
    let metrics = &transfer.metrics;
    let verdict = match kept.policed_rate() {
        Some(policed) => format!("policed at {}", rate(policed)),
        None if kept.judgement.is_policed() => "policed".to_owned(),
        None if headline::is_lossless(transfer, &kept.judgement) => {
            "not policed: no packet was lost".to_owned()
        }
        None => format!("not found to be policed: {}", kept.judgement.reason),
    };
    let headline = if kept.judgement.is_policed() {
        paint.alarm(&verdict)
    } else {
        verdict
    };
    let continues = if transfer.continues {
        " (continued)"
    } else {
        ""
    };
    let title = format!("Segment {}{continues}", transfer.id.segment);
    writeln!(out, "{}: {headline}", paint.bold(&title))?;

    figures::write(out, account, kept)?;
    if let Some(growth) = metrics.growth {
        let verdict = if metrics.bufferbloat {
            "delay grows with the bytes in flight: a bloated buffer"
        } else {
            "no bloat"
        };
        line(
            out,
            "queueing",
            &format!(
                "{verdict} (correlation of delay and bytes in flight {:+.2})",
                growth.correlation
            ),
        )?;
    }
    if let Some(capacity) = metrics.capacity {
        line(
            out,
            "bottleneck",
            &format!(
                "{}, from the spacing of acknowledgements in {}",
                rate(capacity.bps),
                plural(capacity.trains as u64, "train", "trains"),
            ),
        )?;
    }
    judged(out, kept)
}

fn judged(out: &mut impl Write, kept: &Kept) -> io::Result<()> {
    let judgement = &kept.judgement;
    let answer = judgement.details::<Answer>();
    let at = |layer| judgement.policed_rate(&kept.transfer.tally, layer);
    let rates = (at(Layer::Payload), at(Layer::Ip), at(Layer::Link));
    if let (Some(payload), Some(ip), Some(link)) = rates {
        line(
            out,
            "policing rate",
            &format!(
                "{} as payload, {} as IP packets, {} on the link",
                rate(payload),
                rate(ip),
                rate(link),
            ),
        )?;
        if let Some(burst) = answer.and_then(|answer| answer.deciding().burst_bytes) {
            line(out, "", &format!("after a burst of {}", bytes(burst)))?;
        }
    }
    let Some(answer) = answer else {
        return Ok(());
    };
    if headline::is_lossless(&kept.transfer, judgement) {
        return line(
            out,
            "verdict",
            "A policer drops packets, and none was lost.",
        );
    }
    run(out, "verdict", &answer.all)?;
    if answer.cut.code == answer.all.code {
        let same = "same result without the first two and last two losses";
        return line(out, "second run", same);
    }
    run(out, "second run", &answer.cut)?;
    line(out, "", "(without the first two and last two losses)")
}

fn run(out: &mut impl Write, name: &str, run: &Run) -> io::Result<()> {
    let code = format!("{} (code {})", run.code.reason(), run.code.number());
    line(out, name, &code)?;
    wrap(out, run.code.explanation())?;
    for check in &run.checks {
        // Tests for enough losses are of interest only where they fail.
        if !check.holds || check.rules_out != Code::TooFewLosses {
            line(out, "", &describe(check))?;
        }
    }
    Ok(())
}

fn describe(check: &Check) -> String {
    let unit = if check.unit.is_empty() {
        String::new()
    } else {
        format!(" {}", check.unit)
    };
    let holds = if check.holds { "passed" } else { "failed" };
    let must = match check.rules_out {
        Code::TooFewLosses | Code::NegativeFill => "at least",
        Code::HigherFillOnLoss => "less than",
        _ => "at most",
    };
    let number = |value: f64| {
        if value.abs() >= 1000.0 || value.fract() == 0.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.1}")
        }
    };
    format!(
        "{holds}: {} {}{unit}, {must} {} needed",
        check.what,
        number(check.found),
        number(check.limit)
    )
}

/// A sentence in lines that fit 80 columns.
fn wrap(out: &mut impl Write, text: &str) -> io::Result<()> {
    for text in lines(text, 62) {
        line(out, "", &text)?;
    }
    Ok(())
}
