//! `tidegate diagnose`: two captures of the same traffic, and what happened between them.

mod alone;
mod json;
mod picture;
mod story;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::ProgressBar;
use tidegate_store::Writer;
use tidegate_trace::Outcome;
use tidegate_trace::pair::{Diagnosis, Gathered};
use tidegate_trace::read::{Capture, ReadError};
use tidegate_trace::rows::PairRow;

use crate::cli::{Common, Diagnose, Format, UsageError};
use crate::detect;
use crate::exit::Exit;
use crate::input::{self, Input};
use crate::output::Output;
use crate::pipeline::{self, Report};
use crate::table::Paint;

/// Frames between two checks whether to stop.
const STRIDE: u64 = 4096;

/// A diagnosis, and whose.
struct Account {
    names: [Arc<str>; 2],
    diagnosis: Diagnosis,
}

pub fn run(options: &Diagnose, common: &Common) -> anyhow::Result<Exit> {
    let inputs = match inputs(options)? {
        (only, None) => return alone::run(options, common, &only),
        (first, Some(second)) => [first, second],
    };
    check(options, &inputs)?;
    for file in [&options.output, &options.svg].into_iter().flatten() {
        input::refuse_overwriting(&inputs, Some(file))?;
    }
    let stop = pipeline::interrupt_flag()?;
    let bar = pipeline::progress(&inputs, common.quiet);
    let mut failed = false;
    let mut gather = |input: &Input| -> anyhow::Result<Gathered> {
        let (gathered, report) = gather(input, options.max_packets, &bar, &stop)?;
        failed |= bar.suspend(|| detect::print_all_problems(&report));
        let left = gathered.counts().not_kept;
        if left > 0 {
            let name = &input.name;
            eprintln!("tidegate: {name}: {left} packets left out: --max-packets is reached");
        }
        Ok(gathered)
    };
    let (a, b) = (gather(&inputs[0])?, gather(&inputs[1])?);
    bar.finish_and_clear();
    let account = Account {
        names: inputs.map(|input| input.name),
        diagnosis: Diagnosis::new(a, b),
    };
    write(options, common, &account)?;
    if let Some(path) = &options.svg {
        let mut out = Output::to(Some(path))?;
        let span = [options.from, options.to].map(|time| time.map(|time| time.as_secs_f64()));
        out.write_all(picture::draw(&account, span).as_bytes())?;
        out.commit()?;
    }
    Ok(detect::ended(&stop, failed, ""))
}

/// The captures: two arguments, or one and that of `--other`, or one.
fn inputs(options: &Diagnose) -> anyhow::Result<(Input, Option<Input>)> {
    let join = options.pieces.join;
    match (&options.captures[..], &options.other[..]) {
        ([first, second], []) if !join => {
            let one = |path: &PathBuf| input::single(std::slice::from_ref(path), false);
            Ok((one(first)?, Some(one(second)?)))
        }
        (captures, []) => Ok((input::single(captures, join)?, None)),
        (captures, other) => Ok((
            input::single(captures, join)?,
            Some(input::single(other, join)?),
        )),
    }
}

fn check(options: &Diagnose, inputs: &[Input; 2]) -> anyhow::Result<()> {
    let is_stdin = |input: &Input| input.pieces().iter().any(Input::is_stdin);
    let wrong = if inputs.iter().all(is_stdin) {
        "only one of the captures can come from standard input"
    } else if options.max_packets == 0 {
        "--max-packets must be at least 1"
    } else if options
        .from
        .zip(options.to)
        .is_some_and(|(from, to)| from >= to)
    {
        "--from must be before --to"
    } else if options.format() == Format::Parquet
        && options.output.is_none()
        && std::io::stdout().is_terminal()
    {
        "Parquet cannot be shown on a terminal: name a file with --output"
    } else {
        return Ok(());
    };
    Err(UsageError(wrong.to_owned()).into())
}

/// Reads a capture, all its pieces. One that breaks off is compared as far as it goes.
fn gather(
    input: &Input,
    most: usize,
    bar: &ProgressBar,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<(Gathered, Report)> {
    let mut gathered = Gathered::new(most);
    let mut report = Report::new(&input.name, Outcome::default());
    for piece in input.pieces() {
        let source = piece.open(bar, stop).map_err(anyhow::Error::from);
        let read = source.and_then(|source| {
            let mut capture = Capture::new(source)?;
            let end = frames(&mut capture, &mut gathered, stop);
            report.passed_over.add(capture.passed_over());
            Ok(end?)
        });
        if let (Err(error), None) = (read, &report.error) {
            report.error = Some(input.problem_of(&piece.name, &error));
        }
    }
    report.counters = *gathered.counters();
    match &report.error {
        Some(error) if gathered.counts().frames == 0 => bail!("{}: {error}", input.name),
        _ => Ok((gathered, report)),
    }
}

/// Takes the frames of a capture, until its end or until it is to stop.
fn frames(
    capture: &mut Capture,
    gathered: &mut Gathered,
    stop: &AtomicBool,
) -> Result<(), ReadError> {
    while !(gathered.counts().frames.is_multiple_of(STRIDE) && stop.load(Ordering::Relaxed)) {
        match capture.frame()? {
            Some(frame) => gathered.frame(&frame),
            None => break,
        }
    }
    Ok(())
}

fn write(options: &Diagnose, common: &Common, account: &Account) -> anyhow::Result<()> {
    let mut out = Output::to(options.output.as_deref())?;
    let format = match options.format() {
        Format::Table if options.json => {
            serde_json::to_writer_pretty(&mut out, &json::of(account))?;
            writeln!(out)?;
            return out.commit();
        }
        Format::Table => {
            let paint = Paint::for_stdout(common.color, options.output.is_some());
            story::write(&mut out, account, paint)?;
            return out.commit();
        }
        Format::Json => tidegate_store::Format::Json,
        Format::Jsonl => tidegate_store::Format::JsonLines,
        Format::Csv => tidegate_store::Format::Csv,
        Format::Parquet => tidegate_store::Format::Parquet,
    };
    let mut writer = Writer::new::<PairRow>(out, format)?;
    let rows: Vec<PairRow> = PairRow::of(&account.names, &account.diagnosis).collect();
    writer.rows(&rows)?;
    writer.finish()?.commit()
}
