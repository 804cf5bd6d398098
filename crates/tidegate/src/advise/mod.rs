//! `tidegate advise`: what a limit does to its users, and what to set instead.

mod capture;
mod today;

use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use tidegate_advise::advice::{self, Advice, AdviceError, Means};
use tidegate_advise::situation::Situation;
use tidegate_advise::trial::Effort;
use tidegate_advise::{gate_file, json, picture, text};
use tidegate_limiter::{Nanos, parse_time};

use crate::cli::advise::Advise;
use crate::cli::{Common, UsageError};
use crate::exit::Exit;
use crate::input::{self, Input};
use crate::lab::progress::{bar, watched};
use crate::output::Output;
use crate::pipeline;
use today::Today;

#[cfg(test)]
mod tests;

/// Round trips, where nothing says them.
const RTT: (Nanos, Nanos) = (20_000_000, 100_000_000);
/// Longest simulation.
const LONGEST: Nanos = 600_000_000_000;
/// Shortest: senders need some round trips.
const SHORTEST: Nanos = 5_000_000_000;

pub fn run(options: &Advise, common: &Common) -> anyhow::Result<Exit> {
    if options.jobs == Some(0) {
        return Err(UsageError("--jobs must be at least 1".to_owned()).into());
    }
    if [&options.svg, &options.gate]
        .into_iter()
        .flatten()
        .any(|path| path.as_os_str() == "-")
    {
        let text = "the advice is written to standard output: name a file for --svg and --gate";
        return Err(UsageError(text.to_owned()).into());
    }
    let stop = pipeline::interrupt_flag()?;
    let capture = today::capture(options);
    refuse_overwriting(options, capture)?;
    let today = match capture {
        Some(path) => match capture::read(path, options, common, &stop)? {
            Some(today) => today,
            None => {
                eprintln!("tidegate: {}", AdviceError::Stopped);
                return Ok(Exit::Interrupted);
            }
        },
        None => today::read(options)?,
    };
    let Today {
        setting,
        origin,
        rtt,
    } = today;
    let rtt = match (&options.rtt, rtt) {
        (Some(text), _) => range(text)?,
        (None, Some(seen)) => seen,
        (None, None) => RTT,
    };
    let situation = Situation {
        today: setting,
        rtt,
        flows: options.flows,
        users: options.users,
        controls: options.cc.clone(),
        video: options.video,
        link: options.link,
    };
    situation.check().map_err(UsageError)?;
    let effort = effort(options, &situation)?;
    effort.check(&situation).map_err(UsageError)?;
    // Before anything is simulated.
    let files = Files::open(options)?;
    let progress = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let means = Means {
        jobs: options.jobs.unwrap_or(cores),
        stop: Some(&stop),
        progress: Some(&progress),
    };
    let bar = bar(advice::work(&situation, effort)?, common.quiet);
    let advice = watched(&bar, &progress, || {
        advice::advise(&situation, effort, means)
    });
    bar.finish_and_clear();
    let advice = match advice {
        Ok(advice) => advice,
        Err(error @ AdviceError::Stopped) => {
            eprintln!("tidegate: {error}");
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(error.into()),
    };
    files.write(&advice)?;
    let mut out = Output::stdout();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &json::value(&advice, &origin))?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text::text(&advice, &origin))?;
    }
    out.commit()?;
    Ok(match stop.load(Ordering::Relaxed) {
        true => Exit::Interrupted,
        false => Exit::Done,
    })
}

/// Refuses files that would overwrite what is read, or one another.
fn refuse_overwriting(options: &Advise, capture: Option<&Path>) -> Result<(), UsageError> {
    let read = [capture, options.config.as_deref()].map(|path| path.map(Input::file));
    let written = [("--svg", &options.svg), ("--gate", &options.gate)];
    for (option, path) in written {
        let Some(path) = path else { continue };
        if let Some(input) = read.iter().flatten().find(|input| input.is_same(path)) {
            let text = format!(
                "{}: is read, and {option} would overwrite it: name another file",
                input.name
            );
            return Err(UsageError(text));
        }
    }
    match (&options.svg, &options.gate) {
        (Some(svg), Some(gate)) if is_same(svg, gate) => Err(UsageError(format!(
            "{}: is named for --svg and for --gate: name two files",
            input::display(svg)
        ))),
        _ => Ok(()),
    }
}

/// Whether two paths name one file, which need not be there.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path| std::path::absolute(path).ok();
    whole(one) == whole(other) || Input::file(one).is_same(other)
}

/// The picture and the gate's file, where they are wanted.
struct Files {
    svg: Option<Output>,
    gate: Option<Output>,
}

impl Files {
    fn open(options: &Advise) -> anyhow::Result<Self> {
        let open = |path: &Option<PathBuf>| path.as_ref().map(|path| Output::to(Some(path)));
        Ok(Self {
            svg: open(&options.svg).transpose()?,
            gate: open(&options.gate).transpose()?,
        })
    }

    fn write(self, advice: &Advice) -> anyhow::Result<()> {
        if let Some(mut file) = self.svg {
            file.write_all(picture::svg(advice).as_bytes())?;
            file.commit()?;
        }
        if let Some(mut file) = self.gate {
            let Some(text) = gate_file::text(advice) else {
                bail!("there is no gate.toml for this limit");
            };
            file.write_all(text.as_bytes())?;
            file.commit()?;
        }
        Ok(())
    }
}

fn effort(options: &Advise, situation: &Situation) -> Result<Effort, UsageError> {
    let candidates = advice::all(situation).0.len();
    let mut effort = Effort::for_seconds(situation, candidates);
    effort.seed = options.seed;
    if let Some(seeds) = options.seeds {
        effort.seeds = seeds;
        effort.rounds = 0;
    }
    if let Some(duration) = &options.duration {
        effort.duration = time("--duration", duration)?;
        if !(SHORTEST..=LONGEST).contains(&effort.duration) {
            return Err(UsageError("--duration must be from 5s to 10min".to_owned()));
        }
    }
    if effort.last_seed().is_none_or(|last| last > i64::MAX as u64) {
        return Err(UsageError("--seed is too large".to_owned()));
    }
    Ok(effort)
}

/// `50ms`, or `20ms..100ms`.
fn range(text: &str) -> Result<(Nanos, Nanos), UsageError> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    Ok((time("--rtt", low)?, time("--rtt", high)?))
}

fn time(option: &str, text: &str) -> Result<Nanos, UsageError> {
    parse_time(text).map_err(|error| UsageError(format!("{option}: {error}")))
}
