//! The explanation for people: the verdict, what to do about it, and what it rests on.

use std::collections::BTreeMap;
use std::io::{self, Write};

use tidegate_trace::detect::Share;

use super::{figures, paper};
use crate::table::Paint;
use crate::units::{bytes, plural, rate};
use tidegate_story::account::{Account, Kept};
use tidegate_story::words::{lines, percent, time};
use tidegate_story::{advice, blind, headline};

/// Columns of a terminal, …
const WIDTH: usize = 80;
/// … and of what stands before a text: a name, or a number.
const NAME: usize = 22;
const NUMBER: usize = 6;
/// Shares of time below this are not listed.
const HARDLY: f64 = 0.000_5;
/// Other segments that are listed one by one.
const MOST_SEGMENTS: usize = 6;

pub(super) fn write(out: &mut impl Write, account: &Account, paint: Paint) -> io::Result<()> {
    let kept = account.chosen();
    let sentence = headline::sentence(&kept.transfer, &kept.judgement);
    let sentence = if kept.judgement.is_policed() {
        paint.alarm(&sentence)
    } else {
        paint.bold(&sentence)
    };
    writeln!(out, "{sentence}")?;
    writeln!(out)?;
    let (number, segment) = (account.info.number, kept.transfer.id.segment);
    let capture = &account.capture;
    writeln!(out, "Flow {number}, segment {segment} of {capture}")?;
    paragraph(out, &transfer(account, kept))?;
    let is_published = kept.findings().is_none();
    if is_published {
        writeln!(out)?;
        paper::write(out, account, paint)?;
    } else {
        general(out, account, kept, paint)?;
    }
    others(out, account, kept, paint)
}

fn general(out: &mut impl Write, account: &Account, kept: &Kept, paint: Paint) -> io::Result<()> {
    let judgement = &kept.judgement;
    title(out, paint, "What to do")?;
    let mut before = None;
    for (party, text) in advice::advice(kept) {
        let name = if before == Some(party) {
            ""
        } else {
            party.name()
        };
        before = Some(party);
        entry(out, name, &text)?;
    }
    let shares = judgement.shares.iter();
    let shares: Vec<&Share> = shares.filter(|part| part.share >= HARDLY).collect();
    if !shares.is_empty() {
        title(out, paint, "What limited it, by time")?;
        for part in shares {
            entry(out, part.cause.name(), &percent(part.share))?;
        }
    }
    title(out, paint, "Evidence")?;
    for (i, clue) in judgement.evidence(&kept.transfer).iter().enumerate() {
        beside(out, &format!("{}.", i + 1), NUMBER, &clue.text)?;
    }
    let ruled_out = judgement.ruled_out(&kept.transfer);
    if !ruled_out.is_empty() {
        title(out, paint, "Why nothing else")?;
        for other in &ruled_out {
            entry(out, &format!("not {}", other.cause), &other.why)?;
        }
    }
    title(out, paint, "What the capture does not tell")?;
    for text in blind::unknown(account, kept) {
        beside(out, "-", NUMBER - 2, &text)?;
    }
    title(out, paint, "Figures")?;
    figures::write(out, account, kept)
}

/// Which transfer it is, in a sentence.
fn transfer(account: &Account, kept: &Kept) -> String {
    let (info, transfer) = (&account.info, &kept.transfer);
    let metrics = &transfer.metrics;
    let at = metrics.first_sent.saturating_sub(account.capture_start);
    let goodput = metrics.goodput_bps();
    let goodput = goodput.map_or(String::new(), |bps| format!(", {} of payload", rate(bps)));
    // Without a SYN the ports tell, or who spoke first.
    let (is, because) = match info.roles_known {
        true => ("is", ""),
        false => ("seems to be", ": the capture has no SYN, which would tell"),
    };
    format!(
        "The {} sent {} in {}{goodput}, beginning {} ({} {is} the client, {} the server{because}).",
        account.side(),
        bytes(metrics.delivered_bytes),
        time(metrics.duration),
        match at {
            0 => "with the capture".to_owned(),
            at => format!("{} into the capture", time(at)),
        },
        info.client,
        info.server,
    )
}

/// What else there is to explain.
fn others(out: &mut impl Write, account: &Account, kept: &Kept, paint: Paint) -> io::Result<()> {
    let number = account.info.number;
    let segments = account.transfers.iter();
    let segments: Vec<&Kept> = segments
        .filter(|other| other.transfer.id != kept.transfer.id)
        .collect();
    if kept.findings().is_some() && !segments.is_empty() {
        title(out, paint, &format!("Other segments of flow {number}"))?;
        if segments.len() > MOST_SEGMENTS {
            let mut counts: BTreeMap<_, u64> = BTreeMap::new();
            for other in &segments {
                *counts.entry(other.judgement.cause).or_default() += 1;
            }
            for (cause, count) in counts {
                entry(out, cause.name(), &plural(count, "segment", "segments"))?;
            }
        } else {
            for other in segments {
                let words = headline::in_short(&other.transfer, &other.judgement);
                let took = time(other.transfer.metrics.duration);
                let name = format!("--segment {}", other.transfer.id.segment);
                entry(out, &name, &format!("{words}, {took}"))?;
            }
        }
    }
    if !account.others.is_empty() {
        title(out, paint, "Other transfers that took long")?;
        for other in &account.others {
            let name = format!("--flow {}", other.id.flow);
            let goodput = other.goodput_bps.map_or("-".to_owned(), rate);
            let text = format!(
                "segment {}: {}, {goodput} for {}",
                other.id.segment,
                other.words,
                time(other.busy)
            );
            entry(out, &name, &text)?;
        }
    }
    writeln!(out)
}

fn title(out: &mut impl Write, paint: Paint, text: &str) -> io::Result<()> {
    writeln!(out, "\n{}", paint.bold(text))
}

/// A name, and text beside it.
fn entry(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    beside(out, name, NAME, text)
}

fn beside(out: &mut impl Write, name: &str, room: usize, text: &str) -> io::Result<()> {
    let mut name = name;
    for line in lines(text, WIDTH - room) {
        writeln!(out, "  {name:<width$}{line}", width = room - 2)?;
        name = "";
    }
    Ok(())
}

fn paragraph(out: &mut impl Write, text: &str) -> io::Result<()> {
    for line in lines(text, WIDTH) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
