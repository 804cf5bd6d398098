//! `tidegate explain`: what limited one transfer, in words, numbers and a picture.

mod figures;
mod paper;
mod story;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::ProgressBar;
use tidegate_story::account::{Absent, Account, Keeper, Longest};
use tidegate_story::explanation::explanation;
use tidegate_story::model::{Model, Replay};
use tidegate_story::picture;
use tidegate_trace::detect::Detector;
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink};

use crate::cli::{Common, Explain, Side, UsageError};
use crate::detect;
use crate::exit::Exit;
use crate::input::Input;
use crate::output::Output;
use crate::pipeline::{self, Report};

/// A capture, which is read once for each question.
pub struct Reading<'a> {
    pub input: &'a Input,
    pub bar: &'a ProgressBar,
    pub stop: &'a Arc<AtomicBool>,
    pub settings: Settings,
}

impl Reading<'_> {
    /// Reads it.
    ///
    /// # Errors
    /// Its beginning cannot be read. One that breaks off later is read as far as it goes.
    pub fn run(
        &self,
        detector: Option<Box<dyn Detector>>,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<Report> {
        self.bar.set_position(0);
        let options = Options {
            detector,
            cancel: Some(Arc::clone(self.stop)),
            ..Options::measuring(self.settings)
        };
        let report = pipeline::analyse(self.input, self.bar, self.stop, options, sink);
        match &report.error {
            Some(error) if report.counters.frames == 0 => bail!("{}: {error}", self.input.name),
            _ => Ok(report),
        }
    }

    /// Reads it for the transfer that `keeper` is for, which may be absent.
    ///
    /// # Errors
    /// Its beginning cannot be read.
    pub fn explain(
        &self,
        mut keeper: Keeper,
        (name, detector): (&'static str, Box<dyn Detector>),
        from_client: Option<bool>,
    ) -> anyhow::Result<(Result<Account, Absent>, Report)> {
        let report = self.run(Some(detector), &mut keeper)?;
        Ok((keeper.account(&self.input.name, name, from_client), report))
    }
}

pub fn run(options: &Explain, common: &Common) -> anyhow::Result<Exit> {
    let input = crate::input::single(&options.captures, options.pieces.join)?;
    if options.json && options.svg.as_deref() == Some(Path::new("-")) {
        let message =
            "--json and --svg - both write to standard output: name a file for the picture";
        return Err(UsageError(message.to_owned()).into());
    }
    crate::input::refuse_overwriting(std::slice::from_ref(&input), options.svg.as_deref())?;
    let detector = options.analysis.detector()?;
    let stop = pipeline::interrupt_flag()?;
    let bar = pipeline::progress(std::slice::from_ref(&input), common.quiet);
    let reading = Reading {
        input: &input,
        bar: &bar,
        stop: &stop,
        settings: options.analysis.settings(),
    };

    let from_client = options.from.map(|side| side == Side::Client);
    // Without a number, a first pass finds the transfer that took longest.
    let number = match options.flow {
        Some(number) => number,
        None if input.is_read_once() => {
            let message = "explain reads the capture twice to find the transfer that took longest, which standard input and pipes do not allow: name a flow with --flow".to_owned();
            return Err(UsageError(message).into());
        }
        None => {
            let mut longest = Longest::new(from_client);
            let report = reading.run(None, &mut longest)?;
            if stop.load(Ordering::Relaxed) {
                eprintln!("tidegate: interrupted before there was anything to explain");
                return Ok(Exit::Interrupted);
            }
            let Some(flow) = longest.flow() else {
                // Why not, as far as the packets tell.
                bar.finish_and_clear();
                detect::print_all_problems(&report);
                bail!("{}: no flow in this capture has data", input.name);
            };
            flow
        }
    };
    let keeper = Keeper::new(number, options.segment);
    let detector = (detector.name(), detector.make());
    let explained = reading.explain(keeper, detector, from_client);
    bar.finish_and_clear();
    let (account, report) = explained?;
    let failed = detect::print_all_problems(&report);
    let account = account.map_err(|absent| UsageError(absent.to_string()))?;
    let replay = Model::of(&account);

    let to_stdout = options.svg.as_deref() == Some(Path::new("-"));
    if options.json {
        let mut out = Output::stdout();
        write_json(&mut out, &account, &replay)?;
        out.commit()?;
    } else if !to_stdout {
        let mut out = Output::stdout();
        let paint = crate::table::Paint::for_stdout(common.color, false);
        story::write(&mut out, &account, paint)?;
        out.commit()?;
    }
    // Programs that want a picture name its file.
    let wants_picture = !options.no_svg && (options.svg.is_some() || !options.json);
    if wants_picture {
        let path = options
            .svg
            .clone()
            .unwrap_or_else(|| default_picture(&options.captures[0], number));
        write_picture(&path, &account, &replay)?;
        if !to_stdout && !options.json {
            let mut out = Output::stdout();
            writeln!(out, "picture: {}", path.display())?;
            out.commit()?;
        }
    }
    Ok(detect::ended(&stop, failed, ""))
}

pub fn write_json(out: &mut Output, account: &Account, replay: &Replay) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, &explanation(account, replay))?;
    Ok(writeln!(out)?)
}

pub fn write_picture(path: &Path, account: &Account, replay: &Replay) -> anyhow::Result<()> {
    let mut out = Output::to(Some(path))?;
    out.write_all(picture::draw(account, replay).as_bytes())?;
    out.commit()
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
