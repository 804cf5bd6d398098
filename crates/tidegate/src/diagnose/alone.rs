//! One capture alone: its verdict, and what a second capture would tell.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use tidegate_story::headline;
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Judgement, by_name};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink};

use crate::cli::{Common, Diagnose, Format, UsageError};
use crate::detect;
use crate::exit::Exit;
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
    if options.json || options.format != Format::Table || options.svg.is_some() {
        let message = "with one capture there is nothing to compare: name a second one, or see what it shows alone with \
                       tidegate explain (--json, --svg) or tidegate detect (--format)";
        return Err(UsageError(message.to_owned()).into());
    }
    let stop = pipeline::interrupt_flag()?;
    let bar = pipeline::progress(std::slice::from_ref(input), common.quiet);
    let detector = by_name(DETECTOR).context("unknown detector")?;
    let judging = Options {
        detector: Some(detector.whole()),
        cancel: Some(Arc::clone(&stop)),
        ..Options::measuring(Settings::default())
    };
    let mut largest = Largest::default();
    let report = pipeline::analyse(input, &bar, &stop, judging, &mut largest);
    bar.finish_and_clear();
    let failed = detect::print_problems(&report);
    if failed && report.counters.frames == 0 {
        return Ok(Exit::Failed);
    }
    let mut out = Output::to(options.output.as_deref())?;
    match largest.0 {
        None => writeln!(out, "No transfer with data is in this capture.")?,
        Some((transfer, judgement)) => write(&mut out, &transfer, &judgement)?,
    }
    out.commit()?;
    Ok(detect::ended(&stop, failed, ""))
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
    for clue in &judgement.evidence {
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
