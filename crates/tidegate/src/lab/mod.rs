//! `tidegate lab`: runs, checks and describes scenarios.

mod connections;
mod folder;
#[cfg(target_os = "linux")]
mod kernel;
mod pictures;
pub mod progress;
mod run;
mod seeds;
mod table;

use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::Context;
use tidegate_lab::examples::EXAMPLES;
use tidegate_lab::rows::{LabParameters, LabPointRow};
use tidegate_lab::scenario::{self, Scenario, Source};
use tidegate_store::Writer;
use tidegate_table::Extra;

use crate::cli::Common;
use crate::cli::lab::{Check, Command, Example, Lab};
use crate::exit::Exit;
use crate::input;
use crate::output::Output;
use crate::units::{plural, time};

pub fn run(options: &Lab, common: &Common) -> anyhow::Result<Exit> {
    match &options.command {
        Command::Run(options) => run::run(options, common),
        Command::Check(options) => check(options),
        #[cfg(target_os = "linux")]
        Command::Kernel(options) => kernel::run(options, common),
        Command::Example(options) => example(options),
        Command::Schema => schema(),
    }
}

/// A scenario from a file, or from standard input.
pub fn read(path: &Path, settings: &[String]) -> anyhow::Result<Scenario> {
    let name = input::display(path);
    let mut text = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut text)?;
    } else {
        text = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    }
    let text = String::from_utf8(text).map_err(|error| {
        anyhow::anyhow!(
            "{name}: not UTF-8 text at byte {}",
            error.utf8_error().valid_up_to()
        )
    })?;
    let source = Source {
        file: &name,
        text: &text,
        settings,
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    Ok(Scenario::parse_with(source, &|file| {
        read_trace(&folder.join(file))
    })?)
}

/// Most bytes of a trace.
const MOST_OF_TRACE: u64 = 100 << 20;

/// The text of a trace that a scenario names.
pub fn read_trace(path: &Path) -> Result<String, String> {
    let read = || {
        let file = std::fs::metadata(path)?;
        if !file.is_file() || file.len() > MOST_OF_TRACE {
            let message = format!("not a file of up to {} MiB", MOST_OF_TRACE >> 20);
            return Err(io::Error::other(message));
        }
        std::fs::read_to_string(path)
    };
    read().map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The columns that points of a scenario have besides those of all points: a parameter each, and the share of each
/// group of flows.
fn columns_of_points(scenario: &Scenario) -> Vec<Extra> {
    let mut columns = LabParameters::new(scenario).columns().to_vec();
    columns.extend(LabParameters::shares(scenario));
    columns
}

/// Writes points with these columns.
fn write_points(
    writer: &mut Writer<Output>,
    scenario: &Scenario,
    rows: &[LabPointRow],
) -> io::Result<()> {
    let parameters = LabParameters::new(scenario);
    rows.iter().try_for_each(|row| {
        let extras = row.extras(&parameters, scenario);
        writer.rows_with(std::slice::from_ref(row), &extras)
    })
}

fn check(options: &Check) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    let mut failed = false;
    for path in &options.scenarios {
        match read(path, &options.set) {
            Ok(scenario) => writeln!(
                out,
                "{}: {}, {}, {} to simulate",
                input::display(path),
                plural(scenario.points() as u64, "point", "points"),
                plural(scenario.seeds().len() as u64, "seed", "seeds"),
                time(scenario.simulated()),
            )?,
            Err(error) => {
                out.flush()?;
                eprintln!("tidegate: {error:#}");
                failed = true;
            }
        }
    }
    out.commit()?;
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn example(options: &Example) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    match &options.name {
        Some(wanted) => {
            let example = EXAMPLES.iter().find(|(name, _)| name == wanted);
            let names: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
            let (_, text) = example.ok_or_else(|| {
                crate::cli::UsageError(format!(
                    "there is no example '{wanted}': there are {}",
                    names.join(", ")
                ))
            })?;
            out.write_all(text.as_bytes())?;
        }
        None => {
            for (name, text) in EXAMPLES {
                let scenario = Scenario::parse(Source {
                    file: name,
                    text,
                    settings: &[],
                })?;
                writeln!(out, "{name:18} {}", scenario.title())?;
            }
        }
    }
    out.commit()?;
    Ok(Exit::Done)
}

/// Every key, as Markdown: `docs/reference/scenarios.md` holds the same.
fn schema() -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    out.write_all(scenario::schema().as_bytes())?;
    out.commit()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_sound_and_named_after_its_file() {
        for (name, text) in EXAMPLES {
            let scenario = Scenario::parse(Source {
                file: name,
                text,
                settings: &[],
            });
            let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
            assert_ne!(scenario.title(), *name, "it has a title");
            assert!(
                text.contains(&format!("tidegate lab example {name}")),
                "{name}"
            );
        }
    }
}
