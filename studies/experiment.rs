//! What the studies in virtual time share: a scenario is run on all cores, a table is printed, a
//! picture is written.
//!
//! Simulations come out the same on every machine, so a study's table is compared with its
//! `expected.txt` to the letter: by `--check`, as `make study` calls it, or by a test where it takes
//! no more than seconds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tidegate_lab::capture::Captures;
use tidegate_lab::experiment::{self, ExperimentError, Finished, Settings};
use tidegate_lab::scenario::{Scenario, Source};
use tidegate_testbed::CaptureFolder;

/// Runs every point and seed of a scenario, and gives each simulation's results in their order to
/// `each`; `settings` are as those of `tidegate lab run --set`. Captures, if it has taps, go to
/// the folder.
///
/// # Errors
/// If the scenario is wrong, or a simulation or `each` fails.
pub fn simulate(
    name: &str,
    scenario: &str,
    settings: &[String],
    captures: Option<&Path>,
    mut each: impl FnMut(&Scenario, Finished) -> Result<()>,
) -> Result<()> {
    let scenario = Scenario::parse(Source {
        file: name,
        text: scenario,
        settings,
    })?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let folder = captures.map(CaptureFolder::new);
    let settings = Settings {
        jobs,
        captures: folder.as_ref().map(|folder| folder as &dyn Captures),
        ..Settings::default()
    };
    experiment::run(&scenario, settings, |finished| {
        each(&scenario, finished).map_err(Failure)
    })
    .map_err(|Failure(error)| error)
}

/// An error of either kind.
struct Failure(anyhow::Error);

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        Self(error.into())
    }
}

/// What a study comes to.
pub struct Report {
    /// What is printed, and compared.
    pub table: String,
    /// Pictures: file names and their SVG.
    pub pictures: Vec<(&'static str, String)>,
}

/// Options of the studies in virtual time.
#[derive(Parser)]
pub struct Options {
    /// Fail if the table is not what is committed in the study's folder
    #[arg(long)]
    check: bool,
    /// Write table and pictures into the study's folder
    #[arg(long)]
    pub update: bool,
    /// Run all of a study that is a sample otherwise, and only print it
    #[arg(long, conflicts_with_all = ["check", "update"])]
    full: bool,
}

/// The main function of a study in `studies/NAME`: prints its table.
///
/// Exit status: 0 done, 1 failed or not what is committed, 2 wrong use.
pub fn main(name: &str, run: impl FnOnce() -> Result<Report>) -> ExitCode {
    main_of_sample(name, |_| run())
}

/// The same for a study that is a sample, unless `run` runs all of it.
pub fn main_of_sample(name: &str, run: impl FnOnce(bool) -> Result<Report>) -> ExitCode {
    main_with(name, &Options::parse(), run)
}

/// The same for a study that has options of its own beside these.
pub fn main_with(name: &str, args: &Options, run: impl FnOnce(bool) -> Result<Report>) -> ExitCode {
    exit(name, conclude(args, &folder(name), || run(args.full)))
}

/// The folder of a study.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The exit status of a study that came to this, with the error printed.
pub fn exit(name: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn conclude(args: &Options, folder: &Path, run: impl FnOnce() -> Result<Report>) -> Result<()> {
    let report = run()?;
    print!("{}", report.table);
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let expected = folder.join("expected.txt");
    if args.update {
        write(expected, &report.table)?;
        for (file, svg) in &report.pictures {
            write(folder.join(file), svg)?;
        }
    } else if args.check {
        let committed = std::fs::read_to_string(&expected)
            .with_context(|| format!("cannot read {}", expected.display()))?;
        anyhow::ensure!(
            committed == report.table,
            "the table is not that of {}; if it is better, --update writes it",
            expected.display()
        );
    }
    Ok(())
}
