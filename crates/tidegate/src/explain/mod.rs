//! `tidegate explain`: one flow in words, numbers and a picture.

mod picture;
mod scale;
mod story;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use tidegate_trace::annotate::{Metrics, Sent, Tally, Transfer};
use tidegate_trace::detect::{Detector, Judgement, by_name};
use tidegate_trace::flow::{Ended, FlowInfo, FlowSummary, Sink};
use tidegate_trace::read::{Capture, Nanos};

use crate::cli::{Common, Explain, Side, UsageError};
use crate::input::Input;
use crate::output::Output;
use crate::pipeline::{self, Report, follow};
use crate::{Exit, detect};

/// A transfer, kept with all its packets.
struct Kept {
    segment: u32,
    continues: bool,
    from_client: bool,
    mss: u32,
    sent: Vec<Sent>,
    tally: Tally,
    metrics: Metrics,
    judgement: Judgement,
}

/// All that is told of a flow.
struct Account {
    capture: String,
    capture_start: Nanos,
    info: FlowInfo,
    ended: Ended,
    detector: &'static str,
    /// The transfers of the side that the story is about, in order.
    transfers: Vec<Kept>,
}

pub fn run(options: &Explain, common: &Common) -> anyhow::Result<Exit> {
    let input = if options.capture.as_os_str() == "-" {
        Input::stdin()
    } else {
        Input::file(&options.capture)
    };
    crate::input::spare(std::slice::from_ref(&input), options.svg.as_deref())?;
    let stop = pipeline::interrupt_flag()?;
    let bar = pipeline::progress(std::slice::from_ref(&input), common.quiet);
    let settings = options.analysis.settings();
    let open = || -> anyhow::Result<Capture> {
        let open = || -> anyhow::Result<Capture> { Ok(Capture::new(input.open(&bar, &stop)?)?) };
        open().with_context(|| input.name.to_string())
    };
    let mut report = Report {
        name: Arc::clone(&input.name),
        ..Report::default()
    };

    // Without a number, a first pass finds the flow with the most data.
    let number = match options.flow {
        Some(number) => number,
        None if input.is_read_once() => {
            let message = "what can be read only once needs --flow".to_owned();
            return Err(UsageError(message).into());
        }
        None => {
            let mut largest = Largest::default();
            follow(
                &mut open()?,
                settings,
                &stop,
                &mut report,
                &mut largest,
                |_, _| (),
            );
            if stop.load(Ordering::Relaxed) {
                return Ok(Exit::Interrupted);
            }
            bar.set_position(0);
            largest
                .best
                .map(|(_, number)| number)
                .with_context(|| format!("{}: no flow with data in it", input.name))?
        }
    };
    let detector = by_name(&options.analysis.detector).context("no such detector")?;
    let mut keeper = Keeper {
        number,
        segment: options.segment,
        detector,
        start: None,
        kept: Vec::new(),
        flow: None,
        flows: 0,
    };
    follow(
        &mut open()?,
        settings,
        &stop,
        &mut report,
        &mut keeper,
        |keeper, at| {
            keeper.start = Some(at);
        },
    );
    bar.finish_and_clear();
    let failed = detect::complain(&report);
    let account = keeper.account(&input.name, options)?;

    let to_stdout = options.svg.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        let mut out = Output::stdout();
        story::tell(
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

/// The capture's name without its endings, in the current folder.
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
    fn transfer(&mut self, _: &Transfer<'_>, _: &Metrics) {}

    fn flow(&mut self, summary: &FlowSummary<'_>) {
        let packets = summary
            .sent
            .iter()
            .flatten()
            .map(|totals| totals.metrics.data_packets)
            .sum();
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

/// Keeps one flow.
struct Keeper {
    number: u64,
    segment: Option<u32>,
    detector: Box<dyn Detector>,
    start: Option<Nanos>,
    kept: Vec<Kept>,
    flow: Option<(FlowInfo, Ended)>,
    flows: u64,
}

impl Sink for Keeper {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        if transfer.flow.number != self.number
            || self
                .segment
                .is_some_and(|segment| segment != transfer.segment)
        {
            return;
        }
        self.kept.push(Kept {
            segment: transfer.segment,
            continues: transfer.continues,
            from_client: transfer.sender == transfer.flow.client,
            mss: transfer.mss,
            sent: transfer.sent.to_vec(),
            tally: *transfer.tally,
            metrics: *metrics,
            judgement: self.detector.judge(transfer),
        });
    }

    fn flow(&mut self, summary: &FlowSummary<'_>) {
        self.flows += 1;
        if summary.info.number == self.number {
            self.flow = Some((*summary.info, summary.ended));
        }
    }
}

impl Keeper {
    fn account(self, name: &str, options: &Explain) -> anyhow::Result<Account> {
        let number = self.number;
        let Some((info, ended)) = self.flow else {
            let flows = match self.flows {
                0 => "there are no flows in it".to_owned(),
                1 => "its only flow is 0".to_owned(),
                n => format!("its flows are 0 to {}", n - 1),
            };
            return Err(UsageError(format!("{name}: no flow {number}: {flows}")).into());
        };
        let packets = |client: bool| -> usize {
            self.kept
                .iter()
                .filter(|kept| kept.from_client == client)
                .map(|kept| kept.sent.len())
                .sum()
        };
        let client = match options.from {
            Some(side) => side == Side::Client,
            None => packets(true) > packets(false),
        };
        let mut transfers = self.kept;
        transfers.retain(|kept| kept.from_client == client);
        if transfers.is_empty() {
            let what = match options.segment {
                Some(segment) => format!("segment {segment} of flow {number}"),
                None => format!("flow {number}"),
            };
            return Err(UsageError(format!("{name}: no data in {what} from that side")).into());
        }
        Ok(Account {
            capture: name.to_owned(),
            capture_start: self.start.unwrap_or(info.started_at),
            info,
            ended,
            detector: self.detector.name(),
            transfers,
        })
    }
}
