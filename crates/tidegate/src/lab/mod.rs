//! `tidegate lab`: runs, checks and describes scenarios.

mod folder;
#[cfg(target_os = "linux")]
mod kernel;
mod pictures;
mod run;
mod table;

use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::Context;
use tidegate_lab::scenario::{self, Scenario, Source};

use crate::cli::Common;
use crate::cli::lab::{Check, Command, Example, Lab};
use crate::exit::Exit;
use crate::input;
use crate::output::Output;
use crate::units::{plural, time};

/// The scenario of `tidegate lab kernel` without arguments.
const KERNEL: &str = include_str!("../../scenarios/kernel.toml");

/// Scenarios that come with the program: name and text.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "fair-share",
        include_str!("../../scenarios/fair-share.toml"),
    ),
    (
        "policer-or-shaper",
        include_str!("../../scenarios/policer-or-shaper.toml"),
    ),
    ("policies", include_str!("../../scenarios/policies.toml")),
    (
        "bottlenecks",
        include_str!("../../scenarios/bottlenecks.toml"),
    ),
    ("trickle", include_str!("../../scenarios/trickle.toml")),
    ("video", include_str!("../../scenarios/video.toml")),
    ("capture", include_str!("../../scenarios/capture.toml")),
    ("kernel", KERNEL),
    (
        "rate-enforcement",
        include_str!("../../scenarios/rate-enforcement.toml"),
    ),
];

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
fn read(path: &Path, settings: &[String]) -> anyhow::Result<Scenario> {
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
    Ok(Scenario::parse(Source {
        file: &name,
        text: &text,
        settings,
    })?)
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
                time(scenario.work()),
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
