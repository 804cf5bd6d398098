//! `tidegate lab run`.

use std::io::{self, IsTerminal, Write};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_lab::Nanos;
use tidegate_lab::capture::Captures;
use tidegate_lab::experiment::{self, ExperimentError, Finished, Settings};
use tidegate_lab::rows::{
    LabConnectionRow, LabElementRow, LabFlowRow, LabParameters, LabPointRow, LabPoints,
    LabSampleRow, LabTransferRow, LabWindowRow, Simulation,
};
use tidegate_lab::scenario::Scenario;
use tidegate_store::Writer;

use super::folder::Folder;
use super::progress::{bar, watched};
use super::seeds::Seeds;
use super::table::{self, Partial};
use crate::cli::lab::{LabBy, Run};
use crate::cli::{Common, Format, UsageError};
use crate::exit::Exit;
use crate::output::Output;
use crate::pipeline;
use crate::table::Paint;
use crate::units::{count, plural, time};

/// What is printed.
enum View {
    Points(Output, Paint),
    Flows(Output, table::Flows),
    Rows(Box<Writer<Output>>, LabBy, LabParameters),
}

pub fn run(options: &Run, common: &Common) -> anyhow::Result<Exit> {
    check(options)?;
    let mut settings = options.set.clone();
    settings.extend(options.seed.map(|seed| format!("seed={seed}")));
    settings.extend(
        options
            .duration
            .as_ref()
            .map(|time| format!("duration={time}")),
    );
    let scenario = super::read(&options.scenario, &settings)?;
    let stop = pipeline::interrupt_flag()?;
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let folder = options.output.as_deref();
    let mut folder = folder
        .map(|path| Folder::new(path, &scenario))
        .transpose()?;
    let mut view = View::new(options, common, &scenario)?;
    let mut points = LabPoints::new(&scenario);
    let progress = AtomicU64::new(0);
    let bar = bar(scenario.work(), common.quiet);
    let begun = Instant::now();
    let captures = folder.as_ref().map(Folder::captures);
    let settings = Settings {
        jobs: options.jobs.unwrap_or(cores),
        captures: captures.as_ref().map(|folder| folder as &dyn Captures),
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    let shown = io::stdout().is_terminal();
    let (mut simulated, mut last): (Nanos, Option<(usize, u64)>) = (0, None);
    let mut seeds = Seeds::default();
    let result = watched(&bar, &progress, || {
        experiment::run(&scenario, settings, |finished| {
            // Groups run beside each other in the scenario's time.
            let run = Some((finished.point, finished.seed));
            if last != run {
                simulated += finished.group.plan.duration;
                last = run;
            }
            points.add(&finished);
            if scenario.seeds().len() > 1 {
                seeds.note(&finished);
            }
            let of = Simulation::new(&finished, &scenario.parameters(finished.point));
            if let Some(folder) = &mut folder {
                folder.add(&of, &finished)?;
            }
            let mut print = || view.add(&of, &finished);
            if shown { bar.suspend(print) } else { print() }?;
            Ok(())
        })
    });
    bar.finish_and_clear();
    let failure = match result {
        Ok(()) => None,
        // What was complete before it is not lost with it.
        Err(RunFailure::Simulation(error)) => Some(error),
        Err(RunFailure::Writing(error)) => return Err(error),
    };
    let rows = points.finish();
    let early = failure.is_some() || stop.load(Ordering::Relaxed);
    let partial = if early {
        partial(&scenario, &rows)
    } else {
        Partial::new()
    };
    view.finish(&scenario, &rows, &partial)?;
    if let Some(folder) = folder {
        folder.finish(&rows)?;
    }
    if early {
        eprintln!(
            "tidegate: {} of {} complete, {} in part",
            count((rows.len() - partial.len()) as u64),
            plural(scenario.points() as u64, "point", "points"),
            count(partial.len() as u64),
        );
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if let Some(remark) = seeds.remark() {
        eprintln!("tidegate: {remark}");
    }
    let packets = rows.iter().map(|row| row.summary.packets).sum();
    if !common.quiet {
        eprintln!("{}", speed(simulated, packets, begun.elapsed()));
    }
    Ok(if stop.load(Ordering::Relaxed) {
        eprintln!("tidegate: interrupted: the results cover the simulations that were complete");
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

fn check(options: &Run) -> anyhow::Result<()> {
    let table = matches!(options.by, LabBy::Point | LabBy::Flow);
    let wrong = if options.jobs == Some(0) {
        "--jobs must be at least 1"
    } else if options.format == Format::Table && !table {
        "only --by point and --by flow are for a table: add -f csv, json, jsonl or parquet"
    } else if options.format == Format::Parquet && io::stdout().is_terminal() {
        "Parquet is not for a terminal: name a folder with --output, or a pipe"
    } else {
        return Ok(());
    };
    Err(UsageError(wrong.to_owned()).into())
}

/// Why a run ended early.
enum RunFailure {
    Simulation(anyhow::Error),
    /// Results that cannot be written cannot be finished either.
    Writing(anyhow::Error),
}

impl From<ExperimentError> for RunFailure {
    fn from(error: ExperimentError) -> Self {
        Self::Simulation(error.into())
    }
}

impl From<io::Error> for RunFailure {
    fn from(error: io::Error) -> Self {
        Self::Writing(anyhow::Error::new(error).context("cannot write results"))
    }
}

/// The points of which only some simulations were run.
fn partial(scenario: &Scenario, rows: &[LabPointRow]) -> Partial {
    let all = rows
        .iter()
        .map(|row| (row, scenario.simulations(row.point as usize)));
    all.filter(|(row, all)| row.summary.simulations < *all)
        .map(|(row, all)| (row.point, all))
        .collect()
}

/// How fast it was.
fn speed(simulated: Nanos, packets: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(1e-9);
    format!(
        "{} simulated in {}: {:.3}x real time, {} packets, {} packets/s",
        time(simulated),
        time(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)),
        simulated as f64 / 1e9 / seconds,
        count(packets),
        count((packets as f64 / seconds) as u64),
    )
}

impl View {
    fn new(options: &Run, common: &Common, scenario: &Scenario) -> anyhow::Result<Self> {
        let output = Output::stdout();
        let paint = Paint::for_stdout(common.color, false);
        let format = match options.format {
            Format::Table if options.by == LabBy::Flow => {
                return Ok(Self::Flows(output, table::Flows::new(paint)));
            }
            Format::Table => return Ok(Self::Points(output, paint)),
            Format::Json => tidegate_store::Format::Json,
            Format::Jsonl => tidegate_store::Format::JsonLines,
            Format::Csv => tidegate_store::Format::Csv,
            Format::Parquet => tidegate_store::Format::Parquet,
        };
        let parameters = LabParameters::new(scenario);
        let varied = parameters.columns().to_vec();
        let writer = match options.by {
            LabBy::Point => {
                let columns = super::columns_of_points(scenario);
                Writer::with_extras::<LabPointRow>(output, format, columns)
            }
            LabBy::Flow => Writer::with_extras::<LabFlowRow>(output, format, varied),
            LabBy::Window => Writer::with_extras::<LabWindowRow>(output, format, varied),
            LabBy::Element => Writer::with_extras::<LabElementRow>(output, format, varied),
            LabBy::Sample => Writer::with_extras::<LabSampleRow>(output, format, varied),
            LabBy::Transfer => Writer::with_extras::<LabTransferRow>(output, format, varied),
            LabBy::Connection => Writer::with_extras::<LabConnectionRow>(output, format, varied),
        };
        Ok(Self::Rows(Box::new(writer?), options.by, parameters))
    }

    fn add(&mut self, of: &Simulation, finished: &Finished) -> io::Result<()> {
        let (writer, by, parameters) = match self {
            Self::Points(..) => return Ok(()),
            Self::Flows(out, table) => return table.print(out, &LabFlowRow::of(of, finished)),
            Self::Rows(writer, by, parameters) => (writer, by, parameters),
        };
        let varied = parameters.values(finished.point);
        match by {
            LabBy::Point => Ok(()),
            LabBy::Flow => writer.rows_with(&LabFlowRow::of(of, finished), varied),
            LabBy::Window => writer.rows_with(&LabWindowRow::of(of, finished), varied),
            LabBy::Element => writer.rows_with(&LabElementRow::of(of, finished), varied),
            LabBy::Sample => writer.rows_with(&LabSampleRow::of(of, finished), varied),
            LabBy::Transfer => writer.rows_with(&LabTransferRow::of(of, finished), varied),
            LabBy::Connection => writer.rows_with(&LabConnectionRow::of(of, finished), varied),
        }
    }

    fn finish(
        self,
        scenario: &Scenario,
        rows: &[LabPointRow],
        partial: &Partial,
    ) -> anyhow::Result<()> {
        match self {
            Self::Points(mut out, paint) => {
                writeln!(out, "{}", paint.bold(scenario.title()))?;
                table::points(&mut out, paint, rows, partial)?;
                out.commit()
            }
            Self::Flows(out, _) => out.commit(),
            Self::Rows(mut writer, by, _) => {
                if by == LabBy::Point {
                    super::write_points(&mut writer, scenario, rows)?;
                }
                writer.finish()?.commit()
            }
        }
    }
}
