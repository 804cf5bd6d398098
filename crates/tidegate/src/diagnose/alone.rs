//! One capture alone: its verdict, and what a second capture would tell.

use std::io::Write;

use anyhow::Context;
use tidegate_story::account::Keeper;
use tidegate_story::headline;
use tidegate_story::model::Model;
use tidegate_trace::Sink;
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Judgement, by_name};
use tidegate_trace::flow::Settings;

use crate::cli::{Common, Diagnose, Format, UsageError};
use crate::detect;
use crate::exit::Exit;
use crate::explain::{self, Reading};
use crate::input::Input;
use crate::output::Output;
use crate::pipeline;
use crate::units::{count, percent};

/// The detector that knows all causes.
const DETECTOR: &str = "tidegate";

/// The transfer with the most data.
#[derive(Default)]
struct Largest(Option<(TransferSummary, Judgement)>);

impl Sink for Largest {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let bytes = transfer.tally.payload_bytes;
        let larger = |(kept, _): &(TransferSummary, _)| bytes > kept.tally.payload_bytes;
        if self.0.as_ref().is_none_or(larger) {
            self.0 = Some((*transfer, judgement));
        }
    }
}

pub(super) fn run(options: &Diagnose, common: &Common, input: &Input) -> anyhow::Result<Exit> {
    check(options, input)?;
    let stop = pipeline::interrupt_flag()?;
    let bar = pipeline::progress(std::slice::from_ref(input), common.quiet);
    let detector = by_name(DETECTOR).context("unknown detector")?;
    let reading = Reading {
        input,
        bar: &bar,
        stop: &stop,
        settings: Settings::default(),
    };
    let mut largest = Largest::default();
    let report = reading.run(Some(detector.whole()), &mut largest)?;
    let account = match &largest.0 {
        Some((transfer, _)) if options.json || options.svg.is_some() => {
            let keeper = Keeper::new(transfer.id.flow, Some(transfer.id.segment));
            let detector = (detector.name, detector.whole());
            let (account, _) = reading.explain(keeper, detector, Some(transfer.id.from_client))?;
            Some(account?)
        }
        _ => None,
    };
    bar.finish_and_clear();
    let failed = detect::print_all_problems(&report);
    let mut out = Output::to(options.output.as_deref())?;
    match (&largest.0, &account) {
        (_, Some(account)) if options.json => {
            explain::write_json(&mut out, account, &Model::of(account))?;
        }
        (None, _) if options.json => writeln!(out, "null")?,
        (None, _) => writeln!(out, "No transfer with data is in this capture.")?,
        (Some((transfer, judgement)), _) => write(&mut out, transfer, judgement)?,
    }
    out.commit()?;
    if let (Some(path), Some(account)) = (&options.svg, &account) {
        explain::write_picture(path, account, &Model::of(account))?;
    }
    Ok(detect::ended(&stop, failed, ""))
}

fn check(options: &Diagnose, input: &Input) -> anyhow::Result<()> {
    let wrong = if options.format.is_some_and(|format| format != Format::Table) {
        "with one capture there is nothing to compare: tidegate detect --by flow prints a row for each direction of a connection"
    } else if options.from.or(options.to).is_some() {
        "--from and --to are for two captures: with one the picture shows the whole transfer"
    } else if (options.json || options.svg.is_some()) && input.is_read_once() {
        "--json and --svg read one capture twice, which standard input and pipes do not allow: name a file"
    } else {
        for file in [&options.output, &options.svg].into_iter().flatten() {
            crate::input::refuse_overwriting(std::slice::from_ref(input), Some(file))?;
        }
        return Ok(());
    };
    Err(UsageError(wrong.to_owned()).into())
}

fn write(
    out: &mut Output,
    transfer: &TransferSummary,
    judgement: &Judgement,
) -> anyhow::Result<()> {
    let metrics = &transfer.metrics;
    let headline = headline::sentence(transfer, judgement);
    writeln!(out, "One capture alone: {headline}\n")?;
    writeln!(
        out,
        "largest transfer: flow {} segment {}, {} > {}, {} data packets, {} lost ({})",
        transfer.id.flow,
        transfer.id.segment,
        transfer.sender,
        transfer.receiver,
        count(metrics.data_packets),
        count(metrics.lost_packets),
        percent(metrics.loss_rate()),
    )?;
    for clue in judgement.evidence(transfer) {
        writeln!(out, "  {}", clue.text)?;
    }
    writeln!(
        out,
        "\nA second capture of the same traffic, taken elsewhere on the path, would tell which side of it\n\
         loses the packets, how long packets take one way, and whether they wait in a queue or are dropped\n\
         without waiting: tidegate diagnose THIS OTHER"
    )?;
    Ok(())
}
