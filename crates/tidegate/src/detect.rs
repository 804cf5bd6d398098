//! `tidegate detect`.

use std::io::{self, IsTerminal, Write};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use tidegate_store::Writer;
use tidegate_story::remarks::{problems, remarks};
use tidegate_trace::rows::{ClientRow, FlowRow, PacketRow, SegmentRow};

use crate::cli::{By, Common, Detect, Format, UsageError};
use crate::exit::Exit;
use crate::input::Input;
use crate::output::Output;
use crate::pipeline::{self, Event, Report, Task};
use crate::succession::Succession;
use crate::summary::Summary;
use crate::table::{Paint, Table};
use crate::{cli, input};

/// What is said after Ctrl-C.
pub const INTERRUPTED: &str = "interrupted; the results cover what was read before";

/// Where rows go.
enum View {
    Table(Box<Table>, Output),
    Rows(Box<Writer<Output>>),
    /// Only the summary is wanted.
    Summary(Output),
}

pub fn run(options: &Detect, common: &Common) -> anyhow::Result<Exit> {
    check(options)?;
    let detector = options.analysis.detector()?.following(options.follow);
    let mut inputs = input::find(&options.captures)?;
    if options.follow {
        let [input] = &mut inputs[..] else {
            let message = "--follow reads one capture: name one, or pipe it in".to_owned();
            return Err(UsageError(message).into());
        };
        input.follow = true;
    }
    input::refuse_overwriting(&inputs, options.output.as_deref())?;
    let inputs = match options.pieces.join {
        true => vec![Input::joined(inputs)],
        false => inputs,
    };
    let (stop, terminated) = pipeline::interrupt_flags()?;
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = options.jobs.unwrap_or(cores).max(1);
    let mut view = View::new(options, common, inputs.len() > 1)?;
    let mut summary = Summary::of_ports(&options.port);
    let mut succession = Succession::default();
    let mut failed = false;
    let bar = pipeline::progress(&inputs, common.quiet);
    let shown = options.output.is_none() && io::stdout().is_terminal();

    let task = Task {
        inputs: &inputs,
        by: options.by,
        analysis: &options.analysis,
        detector,
        ports: &options.port,
        jobs,
        bar: &bar,
        stop: &stop,
    };
    let result = pipeline::run(task, |event| {
        match event {
            Event::Segments(rows) => without_bar(&bar, shown, || view.segments(&rows))?,
            Event::Flows(rows) => without_bar(&bar, shown, || view.flows(&rows))?,
            Event::Clients(rows) => without_bar(&bar, shown, || view.clients(&rows))?,
            Event::Packets(rows) => without_bar(&bar, shown, || view.packets(&rows))?,
            Event::Done(report) => {
                summary.capture(&report);
                succession.capture(&report);
                failed |= bar.suspend(|| print_problems(&report));
            }
        }
        io::Result::Ok(())
    });
    bar.finish_and_clear();
    result?;
    view.finish(&summary, options.format())?;
    summary.warn();
    if succession.is_one() {
        eprintln!(
            "tidegate: these captures follow each other: if they are the pieces of one, add --join, so that a connection continues in the next"
        );
    }
    if options.follow && terminated.load(Ordering::Relaxed) {
        // As a service manager ends what would go on for ever.
        return Ok(Exit::Done);
    }
    let read = match inputs.len() {
        1 => String::new(),
        all => format!(
            ": {} of {all} captures, the last ones not to their end",
            summary.captures()
        ),
    };
    Ok(ended(&stop, failed, &read))
}

/// How a command on captures ended. After Ctrl-C, standard error says what was read.
pub fn ended(stop: &AtomicBool, failed: bool, read: &str) -> Exit {
    if stop.load(Ordering::Relaxed) {
        eprintln!("tidegate: {INTERRUPTED}{read}");
        return Exit::Interrupted;
    }
    match failed {
        true => Exit::Failed,
        false => Exit::Done,
    }
}

fn check(options: &Detect) -> anyhow::Result<()> {
    let wrong = if options.jobs == Some(0) {
        "--jobs must be at least 1"
    } else if options.summary && !matches!(options.format(), Format::Table | Format::Json) {
        "--summary has no rows: use it without --format, or with -f json"
    } else if options.by == By::Packet && options.format() == Format::Table {
        "--by packet has no table: add -f csv, json, jsonl or parquet"
    } else if options.format() == Format::Parquet
        && !options.summary
        && options.output.is_none()
        && io::stdout().is_terminal()
    {
        "Parquet cannot be shown on a terminal: name a file with --output"
    } else {
        return Ok(());
    };
    Err(UsageError(wrong.to_owned()).into())
}

/// Writes, and hides the progress bar meanwhile if the output goes to the same terminal.
fn without_bar<T>(bar: &ProgressBar, shown: bool, write: impl FnOnce() -> T) -> T {
    if shown { bar.suspend(write) } else { write() }
}

/// Writes a line on standard error for each problem of a capture that is not summed up with others, and for all that
/// was left out of it; returns whether there was a problem.
pub fn print_all_problems(report: &Report) -> bool {
    let mut summary = Summary::default();
    summary.capture(report);
    summary.warn();
    print_problems(report)
}

/// Writes a line on standard error for each problem of a capture; returns whether there was one.
pub fn print_problems(report: &Report) -> bool {
    let name = &report.name;
    let problems = problems(&report.passed_over, report.error.as_deref());
    for line in problems.iter().chain(&remarks(&report.counters)) {
        eprintln!("tidegate: {name}: {line}");
    }
    !problems.is_empty()
}

impl View {
    fn new(options: &Detect, common: &Common, name_files: bool) -> anyhow::Result<Self> {
        let output = Output::to(options.output.as_deref())?;
        let paint = Paint::for_stdout(common.color, options.output.is_some());
        let format = match options.format() {
            _ if options.summary => return Ok(Self::Summary(output)),
            Format::Table => {
                let table = Table::new(paint, options.all, name_files);
                return Ok(Self::Table(Box::new(table), output));
            }
            Format::Json => tidegate_store::Format::Json,
            Format::Jsonl => tidegate_store::Format::JsonLines,
            Format::Csv => tidegate_store::Format::Csv,
            Format::Parquet => tidegate_store::Format::Parquet,
        };
        let writer = match options.by {
            cli::By::Segment => Writer::new::<SegmentRow>(output, format),
            cli::By::Flow => Writer::new::<FlowRow>(output, format),
            cli::By::Client => Writer::new::<ClientRow>(output, format),
            cli::By::Packet => Writer::new::<PacketRow>(output, format),
        };
        Ok(Self::Rows(Box::new(writer?)))
    }

    fn segments(&mut self, rows: &[SegmentRow]) -> io::Result<()> {
        match self {
            Self::Table(table, out) => {
                table.segments(out, rows)?;
                out.flush()
            }
            Self::Rows(writer) => writer.rows(rows),
            Self::Summary(_) => Ok(()),
        }
    }

    fn flows(&mut self, rows: &[FlowRow]) -> io::Result<()> {
        match self {
            Self::Table(table, out) => {
                table.flows(out, rows)?;
                out.flush()
            }
            Self::Rows(writer) => writer.rows(rows),
            Self::Summary(_) => Ok(()),
        }
    }

    fn clients(&mut self, rows: &[ClientRow]) -> io::Result<()> {
        match self {
            Self::Table(table, out) => {
                table.clients(out, rows)?;
                out.flush()
            }
            Self::Rows(writer) => writer.rows(rows),
            Self::Summary(_) => Ok(()),
        }
    }

    fn packets(&mut self, rows: &[PacketRow]) -> io::Result<()> {
        match self {
            Self::Rows(writer) => writer.rows(rows),
            Self::Table(..) | Self::Summary(_) => Ok(()),
        }
    }

    fn finish(self, summary: &Summary, format: Format) -> anyhow::Result<()> {
        match self {
            Self::Table(table, mut out) => {
                table.finish(&mut out)?;
                summary.print(&mut out)?;
                out.commit()
            }
            Self::Rows(writer) => writer.finish()?.commit(),
            Self::Summary(mut out) => {
                if format == Format::Json {
                    serde_json::to_writer_pretty(&mut out, &summary.to_json())?;
                    writeln!(out)?;
                } else {
                    summary.print(&mut out)?;
                }
                out.commit()
            }
        }
    }
}
