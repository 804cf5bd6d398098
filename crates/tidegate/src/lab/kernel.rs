//! `tidegate lab kernel`.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;

use anyhow::Context;
use tidegate_lab::RunError;
use tidegate_lab::scenario::{Parameter, Scenario, Source};
use tidegate_store::Writer;
use tidegate_testbed::compare::{self, CompareError, Compared, Comparison, Measure, Verdict};
use tidegate_testbed::{LabKernelRow, TestbedError};

use crate::cli::lab::{Kernel, KernelBy};
use crate::cli::{Common, Format, RightsError, UsageError};
use crate::exit::Exit;
use crate::output::Output;
use crate::pipeline;
use crate::table::Paint;
use crate::units::{percent, plural, rate, time};
use tidegate_lab::examples::KERNEL;

/// The output, as points are completed.
enum View {
    /// Whether the heading is there yet.
    Table(Output, Paint, bool),
    Rows(Box<Writer<Output>>),
}

pub fn run(options: &Kernel, common: &Common) -> anyhow::Result<Exit> {
    if options.format == Format::Parquet && io::stdout().is_terminal() {
        let wrong = "Parquet is not for a terminal: send it to a file or a pipe";
        return Err(UsageError(wrong.to_owned()).into());
    }
    let scenario = match &options.scenario {
        Some(path) => super::read(path, &options.set)?,
        None => Scenario::parse(Source {
            file: "the scenario of lab kernel",
            text: KERNEL,
            settings: &options.set,
        })?,
    };
    if let Some(folder) = &options.output {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    let stop = pipeline::interrupt_flag()?;
    let mut view = View::new(options, common)?;
    let points = scenario.points();
    // The command chooses the seeds instead of the scenario.
    let once = scenario.work() / scenario.seeds().len() as u64;
    if !common.quiet {
        eprintln!(
            "tidegate: {}, {} each: {} in real time",
            plural(points as u64, "point", "points"),
            plural(options.runs, "run", "runs"),
            time(once * options.runs),
        );
    }
    for point in 0..points {
        let folder = options.output.as_deref();
        match compare::point(&scenario, point, options.runs, folder, &stop) {
            Ok(compared) => view.add(&scenario, point, &compared, options.by)?,
            Err(CompareError::Lab(RunError::Interrupted)) if stop.load(Ordering::Relaxed) => {
                view.finish()?;
                eprintln!("tidegate: interrupted: the results cover the runs that were complete");
                return Ok(Exit::Interrupted);
            }
            Err(CompareError::Kernel(
                error @ (TestbedError::Rights { .. } | TestbedError::NoTun),
            )) => return Err(RightsError(error.to_string()).into()),
            Err(error) => return Err(error.into()),
        }
    }
    view.finish()?;
    Ok(Exit::Done)
}

impl View {
    fn new(options: &Kernel, common: &Common) -> anyhow::Result<Self> {
        let output = Output::stdout();
        let format = match options.format {
            Format::Table => {
                let paint = Paint::for_stdout(common.color, false);
                return Ok(Self::Table(output, paint, false));
            }
            Format::Json => tidegate_store::Format::Json,
            Format::Jsonl => tidegate_store::Format::JsonLines,
            Format::Csv => tidegate_store::Format::Csv,
            Format::Parquet => tidegate_store::Format::Parquet,
        };
        let writer = Writer::new::<LabKernelRow>(output, format)?;
        Ok(Self::Rows(Box::new(writer)))
    }

    fn add(
        &mut self,
        scenario: &Scenario,
        point: usize,
        compared: &Compared,
        by: KernelBy,
    ) -> io::Result<()> {
        let parameters = scenario.parameters(point);
        match self {
            Self::Rows(writer) => writer.rows(&match by {
                KernelBy::Point => LabKernelRow::of(point, &parameters, compared),
                KernelBy::Flow => LabKernelRow::by_flow(point, &parameters, compared),
            }),
            Self::Table(out, paint, headed) => {
                if !std::mem::replace(headed, true) {
                    writeln!(out, "{}", paint.bold(scenario.title()))?;
                    let heading = format!(
                        "  {:<9} {:>11} {:>15} {:>11} {:>15} {:>8}",
                        "", "KERNEL", "MIN..MAX", "LAB", "MIN..MAX", "DIFF"
                    );
                    writeln!(out, "{}", paint.dim(&heading))?;
                }
                let parts: Vec<String> = parameters.iter().map(Parameter::to_string).collect();
                if !parts.is_empty() {
                    writeln!(out, "{}", paint.bold(&parts.join("  ")))?;
                }
                match by {
                    KernelBy::Point => lines(out, &compared.comparisons, *paint)?,
                    KernelBy::Flow => {
                        for flow in &compared.flows {
                            writeln!(out, " {}", flow.name)?;
                            lines(out, &flow.comparisons, *paint)?;
                        }
                    }
                }
                writeln!(out, "{}", lateness(compared, *paint))?;
                // A point takes a minute, so each is shown at once.
                out.flush()
            }
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Table(mut out, paint, headed) => {
                let legend = "\
DIFF: the lab's median less the kernel's, over the kernel's. Above 10 %: ~ the runs of
both overlap, ! they do not. LATE: 99th percentile of how late packets left in real time.";
                if headed {
                    writeln!(out, "\n{}", paint.dim(legend))?;
                }
                out.commit()
            }
            Self::Rows(writer) => writer.finish()?.commit(),
        }
    }
}

fn lines(out: &mut Output, comparisons: &[Comparison], paint: Paint) -> io::Result<()> {
    comparisons
        .iter()
        .try_for_each(|comparison| writeln!(out, "{}", line(comparison, paint)))
}

/// A measure of both sides.
fn line(comparison: &Comparison, paint: Paint) -> String {
    let (name, show): (&str, fn(f64) -> String) = match comparison.measure {
        Measure::Goodput => ("goodput", rate),
        Measure::Loss => ("loss", |share| format!("{:.2}%", share * 100.0)),
        Measure::RttMedian => ("RTT p50", |nanos| time(nanos as u64)),
        Measure::RttTail => ("RTT p95", |nanos| time(nanos as u64)),
        Measure::Timeouts => ("timeouts", |count| count.to_string()),
    };
    // The unit is printed once.
    let range = |min: f64, max: f64| {
        let (min, max) = (show(min), show(max));
        let number = |text: &str| {
            text.trim_end_matches(|c: char| !c.is_ascii_digit())
                .to_owned()
        };
        let unit = |text: &str| text[number(text).len()..].to_owned();
        if unit(&min) == unit(&max) {
            format!("{}..{}", number(&min), number(&max))
        } else {
            format!("{min}..{max}")
        }
    };
    let (kernel, lab) = (comparison.kernel, comparison.lab);
    let difference = match comparison.difference() {
        Some(share) => format!("{}{}", if share > 0.0 { "+" } else { "" }, percent(share)),
        None => "-".to_owned(),
    };
    let text = format!(
        "  {name:<9} {:>11} {:>15} {:>11} {:>15} {difference:>8}",
        show(kernel.median),
        range(kernel.min, kernel.max),
        show(lab.median),
        range(lab.min, lab.max),
    );
    match comparison.verdict() {
        Verdict::Agree => text,
        Verdict::Scatter => format!("{text} ~"),
        Verdict::Differ => format!("{text} {}", paint.alarm("!")),
    }
}

/// How far a point can be trusted.
fn lateness(compared: &Compared, paint: Paint) -> String {
    let mut text = format!("  {:<9} {:>11}", "late", time(compared.lateness));
    if compared.repeated > 0 {
        text += &format!("   {} repeated", plural(compared.repeated, "run", "runs"));
    }
    if compared.bad > 0 {
        let note = format!(
            "   {} came too late to be compared",
            plural(compared.bad, "run", "runs")
        );
        text += &paint.alarm(&note);
    }
    if !compared.real_time {
        text += "   without real-time priority";
    }
    text
}
