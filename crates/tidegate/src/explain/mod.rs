//! `tidegate explain`: one flow in words, numbers and a picture.

mod account;
mod picture;
mod scale;
mod story;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use tidegate_trace::detect::by_name;
use tidegate_trace::flow::FlowSummary;
use tidegate_trace::{Options, Sink, analyse};

use crate::cli::{Common, Explain, UsageError};
use crate::input::Input;
use crate::output::Output;
use crate::pipeline::{self, Report};
use crate::{Exit, detect};
use account::Keeper;

pub fn run(options: &Explain, common: &Common) -> anyhow::Result<Exit> {
    let input = if options.capture.as_os_str() == "-" {
        Input::stdin()
    } else {
        Input::file(&options.capture)
    };
    crate::input::refuse_overwriting(std::slice::from_ref(&input), options.svg.as_deref())?;
    let stop = pipeline::interrupt_flag()?;
    let bar = pipeline::progress(std::slice::from_ref(&input), common.quiet);
    // A capture that breaks off is still explained; one whose beginning cannot be read is an error.
    let read = |options: Options, sink: &mut dyn Sink| -> anyhow::Result<Report> {
        let name = || input.name.to_string();
        let outcome = analyse(input.open(&bar, &stop).with_context(name)?, options, sink);
        match outcome.error {
            Some(error) if outcome.counters.frames == 0 => Err(error).with_context(name),
            _ => Ok(Report::new(&input.name, outcome)),
        }
    };
    let measuring = || Options {
        cancel: Some(Arc::clone(&stop)),
        ..Options::measuring(options.analysis.settings())
    };

    // Without a number, a first pass finds the flow with the most data.
    let number = match options.flow {
        Some(number) => number,
        None if input.is_read_once() => {
            let message = "explain reads the capture twice to find its largest flow, which standard input and pipes do not allow: name a flow with --flow".to_owned();
            return Err(UsageError(message).into());
        }
        None => {
            let mut largest = Largest::default();
            read(measuring(), &mut largest)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(Exit::Interrupted);
            }
            bar.set_position(0);
            largest
                .best
                .map(|(_, number)| number)
                .with_context(|| format!("{}: no flow in this capture has data", input.name))?
        }
    };
    let detector = by_name(&options.analysis.detector).context("unknown detector")?;
    let mut keeper = Keeper::new(number, options.segment);
    let judging = Options {
        detector: Some((detector.make)()),
        ..measuring()
    };
    let report = read(judging, &mut keeper)?;
    bar.finish_and_clear();
    let failed = detect::print_problems(&report);
    let account = keeper.account(&input.name, detector.name, options)?;

    let to_stdout = options.svg.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        let mut out = Output::stdout();
        story::write_story(
            &mut out,
            &account,
            crate::table::Paint::for_stdout(common.color, false),
        )?;
        out.commit()?;
    }
    if !options.no_svg {
        let path = options
            .svg
            .clone()
            .unwrap_or_else(|| default_picture(&options.capture, number));
        let mut out = Output::to(Some(&path))?;
        picture::draw(&mut out, &account)
            .with_context(|| format!("cannot write {}", path.display()))?;
        out.commit()?;
        if !to_stdout {
            println!("picture: {}", path.display());
        }
    }
    Ok(if stop.load(Ordering::Relaxed) {
        Exit::Interrupted
    } else if failed {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// The default name of the picture: the capture's without its endings, in the current folder.
fn default_picture(capture: &Path, number: u64) -> PathBuf {
    let name = capture
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut stem = name.as_str();
    for end in [".gz", ".xz", ".zst", ".pcap", ".pcapng", ".cap", ".dmp"] {
        stem = stem.strip_suffix(end).unwrap_or(stem);
    }
    let stem = if stem == "-" || stem.is_empty() {
        "stdin"
    } else {
        stem
    };
    PathBuf::from(format!("{stem}-flow-{number}.svg"))
}

/// Finds the flow with the most data packets.
#[derive(Default)]
struct Largest {
    best: Option<(u64, u64)>,
}

impl Sink for Largest {
    fn flow(&mut self, summary: FlowSummary) {
        let senders = summary.senders();
        let packets = senders.map(|totals| totals.metrics.data_packets).sum();
        let number = summary.info.number;
        // Of equals, the one with the lowest number.
        if self.best.is_none_or(|(most, first)| {
            packets > most || (packets == most && packets > 0 && number < first)
        }) && packets > 0
        {
            self.best = Some((packets, number));
        }
    }
}
