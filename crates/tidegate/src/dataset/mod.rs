//! `tidegate detect --dataset`: each capture once, into Parquet files by date and hour.

mod segments;
mod watch;

pub use segments::Segments;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};

use indicatif::ProgressBar;
use tidegate_dataset::{Claim, Dataset, Error, Held, Networks, Shares};
use tidegate_story::remarks::problems;
use tidegate_trace::Options;

use crate::cli::{Analysis, Chosen, Common, Detect, UsageError};
use crate::detect::print_problems;
use crate::exit::Exit;
use crate::input::{self, Input};
use crate::pipeline::{self, Report};
use crate::units::plural;

/// What all captures have in common.
struct Job<'a> {
    options: &'a Detect,
    detector: Chosen,
    dataset: Dataset,
    networks: Networks,
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    /// Whether SIGTERM ended it, as service managers do.
    terminated: Arc<AtomicBool>,
    count: Count,
    /// Why nothing more can be written.
    broken: OnceLock<Error>,
}

#[derive(Default)]
struct Count {
    added: AtomicU64,
    known: AtomicU64,
    failed: AtomicU64,
    rows: AtomicU64,
}

pub fn run(options: &Detect, common: &Common) -> anyhow::Result<Exit> {
    let Some(root) = options.into.dataset.as_deref() else {
        return Err(UsageError("name the dataset's folder with --dataset".to_owned()).into());
    };
    let inputs = inputs(options)?;
    let networks = networks(&options.into.asn)?;
    let detector = options.analysis.detector()?;
    if !options.follow && !root.exists() {
        readable(&inputs)?;
    }
    let dataset = open(root, &options.analysis, &detector, &options.port)?;
    let (stop, terminated) = pipeline::interrupt_flags()?;
    let job = Job {
        options,
        detector,
        dataset,
        networks,
        bar: pipeline::progress(&inputs, common.quiet || options.follow),
        stop,
        terminated,
        count: Count::default(),
        broken: OnceLock::new(),
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (sender, receiver) = channel();
    let queue = Mutex::new(receiver);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.unwrap_or(cores).max(1) {
            scope.spawn(|| job.work(&queue));
        }
        for input in inputs {
            // The receiver outlives this scope.
            let _ = sender.send(input);
        }
        let watched = match options.follow {
            true => watch::watch(&options.captures, &sender, &job.stop),
            false => Ok(()),
        };
        drop(sender);
        watched
    })?;
    job.bar.finish_and_clear();
    job.finish(root)
}

/// The captures to begin with.
fn inputs(options: &Detect) -> anyhow::Result<Vec<Input>> {
    let wrong = |message: &str| Err(UsageError(message.to_owned()).into());
    if options.jobs == Some(0) {
        return wrong("--jobs must be at least 1");
    }
    if options.captures.is_empty() || options.captures.iter().any(|path| path.as_os_str() == "-") {
        return wrong(
            "--dataset takes files and folders: standard input can be read only once, so write it to a file first",
        );
    }
    if options.follow {
        if let Some(file) = options.captures.iter().find(|path| !path.is_dir()) {
            let message = format!(
                "{}: with --dataset, --follow takes folders in which captures arrive",
                file.display()
            );
            return Err(UsageError(message).into());
        }
        // The watch sends those that are there too: each one once.
        return Ok(Vec::new());
    }
    let inputs = input::find(&options.captures)?;
    Ok(match options.pieces.join {
        true => vec![Input::joined(inputs)],
        false => inputs,
    })
}

/// Refuses a command line none of whose captures can be opened, before a folder is made for their rows.
fn readable(inputs: &[Input]) -> anyhow::Result<()> {
    let stop = Arc::default();
    let mut problem = None;
    for piece in inputs.iter().flat_map(Input::pieces) {
        match piece.open(&ProgressBar::hidden(), &stop) {
            Ok(_) => return Ok(()),
            Err(error) => problem = problem.or(Some(format!("{}: {error}", piece.name))),
        }
    }
    match problem {
        None => Ok(()),
        Some(problem) => anyhow::bail!("{problem}: no capture can be read, so no dataset is begun"),
    }
}

/// The tables of networks in these files.
pub fn networks(files: &[PathBuf]) -> anyhow::Result<Networks> {
    let mut networks = Networks::default();
    for file in files {
        networks.add(file).map_err(anyhow::Error::msg)?;
    }
    Ok(networks)
}

/// Opens a dataset whose captures are all analysed like this.
pub fn open(
    root: &Path,
    analysis: &Analysis,
    detector: &Chosen,
    ports: &[u16],
) -> anyhow::Result<Dataset> {
    Dataset::open(root, &settings(analysis, detector, ports)).map_err(usage)
}

/// What all rows of a dataset have in common.
fn settings(analysis: &Analysis, detector: &Chosen, ports: &[u16]) -> BTreeMap<String, String> {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports.dedup();
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let bounds = analysis.settings();
    [
        ("--detector", detector.name().to_owned()),
        ("--basis", detector.basis().name().to_owned()),
        ("--port", ports.join(" ")),
        (
            "--join-repeated-requests",
            analysis.join_repeated_requests.to_string(),
        ),
        (
            "--playback-rate",
            bounds.playback_bits_per_second.to_string(),
        ),
        ("--idle-timeout", format!("{} ns", bounds.idle_timeout)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Errors that another command line would not have.
fn usage(error: Error) -> anyhow::Error {
    match error {
        Error::Settings { .. } | Error::Version { .. } | Error::NotADataset(_) => {
            UsageError(error.to_string()).into()
        }
        other => other.into(),
    }
}

impl Job<'_> {
    /// Takes captures from the queue, until there will be no more.
    fn work(&self, queue: &Mutex<Receiver<Input>>) {
        let next = || queue.lock().ok().and_then(|queue| queue.recv().ok());
        while let Some(input) = next() {
            if self.stop.load(Ordering::Relaxed) {
                continue;
            }
            let report = match self.add(&input) {
                Ok(report) => report,
                // Its times concern one capture; the disk concerns all.
                Err(error @ Error::Times(_)) => Report::failed(&input.name, error.to_string()),
                Err(error) => {
                    self.stop.store(true, Ordering::Relaxed);
                    let _ = self.broken.set(error);
                    return;
                }
            };
            if self.bar.suspend(|| print_problems(&report)) {
                self.count.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Adds a capture, unless it is known. The report says what is wrong with it.
    fn add(&self, input: &Input) -> Result<Report, Error> {
        if input.is_read_once() && input.pieces().iter().any(|piece| piece.state().is_some()) {
            let reason = "a pipe can be read only once: write it to a file first";
            return Ok(Report::failed(&input.name, reason.to_owned()));
        }
        let state = || -> Vec<_> { input.pieces().iter().map(Input::state).collect() };
        let before = state();
        // What cannot be opened is reported by the analysis.
        let hidden = ProgressBar::hidden();
        let files = input.pieces().iter().filter_map(|piece| {
            let file = piece.open(&hidden, &self.stop).ok()?;
            Some((&*piece.name, file))
        });
        let content = match self.dataset.identify(files) {
            Ok(content) => content,
            Err(error) => return Ok(Report::failed(&input.name, error.to_string())),
        };
        let mut report = Report {
            name: Arc::clone(&input.name),
            begun: true,
            ..Report::default()
        };
        let draft = match content.pieces.is_empty() {
            true => None,
            false => match self.dataset.claim(content)? {
                Claim::Known(held) => {
                    self.bar.inc(input.length);
                    report.error = self.known(input, held);
                    return Ok(report);
                }
                Claim::New(draft) => Some(*draft),
            },
        };
        let options = Options {
            flows: self.options.analysis.settings(),
            detector: Some(self.detector.make()),
            cancel: Some(Arc::clone(&self.stop)),
        };
        let sampled = self.options.into.sampled;
        let mut rows = Segments {
            networks: &self.networks,
            detector: self.detector.name(),
            ports: &self.options.port,
            file: Arc::clone(&input.name),
            start: 0,
            draft,
            shares: Shares::new(sampled.unwrap_or(1.0)),
            // What the user says counts.
            believes: sampled.is_none(),
            error: None,
        };
        report = pipeline::analyse(input, &self.bar, &self.stop, options, &mut rows);
        if let Some(error) = rows.error {
            return Err(error);
        }
        let Some(draft) = rows.draft.filter(|_| !self.stop.load(Ordering::Relaxed)) else {
            return Ok(report);
        };
        if before != state() {
            let reason =
                "it was written while it was read, and left out: run again when it is complete";
            report.error = Some(reason.to_owned());
        } else if report.error.is_none() || report.counters.frames > 0 {
            let found = draft.rows();
            let held = draft.commit(tidegate_dataset::Report {
                packets: report.counters.frames,
                flows: report.counters.flows,
                problems: problems(&report.passed_over, report.error.as_deref()),
            })?;
            if let Some(held) = held {
                report.error = self.known(input, held);
                return Ok(report);
            }
            self.count.added.fetch_add(1, Ordering::Relaxed);
            self.count.rows.fetch_add(found, Ordering::Relaxed);
            if self.options.follow {
                println!("{}: {}", input.name, plural(found, "row", "rows"));
            }
        }
        Ok(report)
    }

    /// Counts a capture that the dataset holds. Returns what was wrong with it when it was added, since its rows still lack
    /// that.
    fn known(&self, input: &Input, held: Held) -> Option<String> {
        self.count.known.fetch_add(1, Ordering::Relaxed);
        if let Some(longer) = held.longer {
            let line = format!(
                "{}: a shorter copy of {longer}, which is in the dataset: nothing is added",
                input.name
            );
            self.bar.suspend(|| eprintln!("tidegate: {line}"));
            return None;
        }
        let problems = held.problems.join("; ");
        (!problems.is_empty())
            .then(|| format!("was added before, as far as it could be read: {problems}"))
    }

    fn finish(self, root: &Path) -> anyhow::Result<Exit> {
        if let Some(error) = self.broken.into_inner() {
            return Err(error.into());
        }
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        println!(
            "{} added with {}, {} known before, {} with problems; {} in {}",
            plural(get(&self.count.added), "capture", "captures"),
            plural(get(&self.count.rows), "row", "rows"),
            get(&self.count.known),
            get(&self.count.failed),
            plural(self.dataset.captures() as u64, "capture", "captures"),
            input::display(root),
        );
        let asked = self.options.follow && self.terminated.load(Ordering::Relaxed);
        Ok(if asked {
            Exit::Done
        } else if self.stop.load(Ordering::Relaxed) {
            eprintln!(
                "tidegate: interrupted; the dataset has every capture that was finished before"
            );
            Exit::Interrupted
        } else if get(&self.count.failed) > 0 {
            Exit::Failed
        } else {
            Exit::Done
        })
    }
}
