//! `tidegate detect --dataset`: each capture once, into Parquet files by date and hour.

mod arrived;
mod segments;
mod watch;

pub use segments::Segments;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use indicatif::ProgressBar;
use tidegate_dataset::{Claim, Dataset, Error, Given, Held, Networks, Overlap, Shares};
use tidegate_story::remarks::problems;
use tidegate_trace::Options;
use tidegate_trace::read::Capture;

use crate::cli::{Analysis, Chosen, Common, Detect, UsageError};
use crate::detect::print_problems;
use crate::exit::{self, Exit};
use crate::input::{self, Input};
use crate::output::Output;
use crate::pipeline::{self, Report};
use crate::units::plural;
use arrived::{Arrived, Unread};

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
    /// Why lines are missing on standard output.
    unsaid: OnceLock<anyhow::Error>,
    /// Captures whose content another thread is about to add, under this name.
    waiting: Mutex<Vec<(String, Input)>>,
    unread: Unread,
    /// Whether it was said that pseudonyms have no networks.
    told: AtomicBool,
}

/// Stops everything when a thread panics that holds it. A service manager starts the program again. It would not if the program
/// stayed and did nothing.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
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
        unsaid: OnceLock::new(),
        waiting: Mutex::default(),
        unread: Unread::default(),
        told: AtomicBool::new(false),
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (sender, receiver) = channel();
    let queue = Mutex::new(receiver);
    std::thread::scope(|scope| {
        let jobs = 0..options.jobs.unwrap_or(cores).max(1);
        let workers: Vec<_> = jobs.map(|_| scope.spawn(|| job.work(&queue))).collect();
        for input in inputs {
            // The receiver outlives this scope.
            let _ = sender.send(input);
        }
        let watched = match options.follow {
            true => watch::watch(&options.captures, &sender, &job.unread, &job.stop),
            false => Ok(()),
        };
        drop(sender);
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        watched?;
        match ended.iter().all(Result::is_ok) {
            true => Ok(()),
            false => Err(anyhow::anyhow!(
                "an analysis panicked, which is a fault of this program; the dataset has every capture that was finished before"
            )),
        }
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

/// Refuses a command line none of whose captures can be opened and begins as one, before a folder is made for their rows.
fn readable(inputs: &[Input]) -> anyhow::Result<()> {
    let stop = Arc::default();
    let mut problem = None;
    for piece in inputs.iter().flat_map(Input::pieces) {
        let opened = piece.open(&ProgressBar::hidden(), &stop);
        let begun = opened.map_err(|error| error.to_string()).and_then(|file| {
            // What is read once must be left for later.
            let begun = (!piece.is_read_once()).then(|| Capture::new(file));
            begun.transpose().map_err(|error| error.to_string())
        });
        match begun {
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
        ("--max-flows", bounds.max_flows.to_string()),
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

/// What is wrong with a capture that has pieces in common with one of the dataset.
fn overlapping(Overlap { piece, other }: &Overlap) -> String {
    let other = match &other[..] {
        [first, .., last] => format!("{first} to {last}"),
        other => other.concat(),
    };
    format!(
        "{piece} is in the dataset as a part of {other}: its rows would count twice, so nothing is added. Name the pieces of both \
         with --join, or begin a new dataset"
    )
}

/// What the user says of a capture now that its rows do not have.
fn changed(before: &Given, now: &Given) -> Option<String> {
    let share = |given: &Given| match given.sampled {
        Some(share) => format!("with --sampled {share}"),
        None => "without --sampled".to_owned(),
    };
    // Shares may be written in several ways.
    let difference = before.sampled.unwrap_or(0.0) - now.sampled.unwrap_or(0.0);
    let lacks = if difference.abs() > 1e-12 {
        format!("{}, not {}", share(before), share(now))
    } else if now.networks && !before.networks {
        "without --asn".to_owned()
    } else {
        return None;
    };
    Some(format!(
        "was added {lacks}, and its rows stay as they are: to change that, begin a new dataset"
    ))
}

impl Job<'_> {
    /// Takes captures from the queue, until there will be no more.
    fn work(&self, queue: &Mutex<Receiver<Input>>) {
        let _alarm = self.options.follow.then(|| Alarm(&self.stop));
        let next = || queue.lock().ok().and_then(|queue| queue.recv().ok());
        let mut again = Vec::new();
        while let Some(input) = again.pop().or_else(next) {
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
            again.extend(self.free());
        }
    }

    /// Takes out the captures that wait for no other one any more. They are known now, or still to be added.
    fn free(&self) -> Vec<Input> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let free = waiting.extract_if(.., |(name, _)| !self.dataset.is_drafted(name));
        free.map(|(_, input)| input).collect()
    }

    /// Adds a capture, unless it is known. The report says what is wrong with it.
    fn add(&self, input: &Input) -> Result<Report, Error> {
        if input.is_read_once() && input.pieces().iter().any(|piece| piece.state().is_some()) {
            let reason = "a pipe can be read only once: write it to a file first";
            return Ok(Report::failed(&input.name, reason.to_owned()));
        }
        let given = input;
        let mut input = input.clone();
        let arrived = match self.options.follow {
            true => match Arrived::open(&mut input) {
                Ok(arrived) => arrived,
                Err(error) => return Ok(self.unopened(given, &error)),
            },
            false => None,
        };
        let (pieces, hidden) = (input.pieces().to_vec(), ProgressBar::hidden());
        let state = || -> Vec<_> { pieces.iter().map(Input::state).collect() };
        let identify = || {
            // What cannot be opened is reported by the analysis.
            let files = pieces.iter().filter_map(|piece| {
                let file = piece.open(&hidden, &self.stop).ok()?;
                Some((&*piece.name, file))
            });
            self.dataset.identify(files)
        };
        let before = state();
        let mut content = match identify() {
            Ok(content) => content,
            Err(error) => {
                arrived
                    .iter()
                    .for_each(|file| self.unread.could_not_read(file));
                return Ok(Report::failed(&input.name, error.to_string()));
            }
        };
        if let Some(file) = &arrived {
            input.name = file.name();
            for piece in &mut content.pieces {
                piece.name = input.name.to_string();
            }
        }
        let id = content.id();
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
                    report.error = self.known(&input, held);
                    return Ok(report);
                }
                Claim::Drafted(name) => {
                    let waiting = self.waiting.lock();
                    let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
                    waiting.push((name, given.clone()));
                    return Ok(report);
                }
                Claim::Overlaps(overlap) => {
                    self.bar.inc(input.length);
                    report.error = Some(overlapping(&overlap));
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
            pseudonyms: false,
            error: None,
        };
        report = pipeline::analyse(&input, &self.bar, &self.stop, options, &mut rows);
        if rows.pseudonyms && !self.networks.is_empty() && !self.told.swap(true, Ordering::Relaxed)
        {
            let line = "addresses are pseudonyms, which have no networks: their columns are empty. This is said once";
            self.bar
                .suspend(|| eprintln!("tidegate: {}: {line}", input.name));
        }
        if let Some(error) = rows.error {
            return Err(error);
        }
        let Some(draft) = rows.draft.filter(|_| !self.stop.load(Ordering::Relaxed)) else {
            return Ok(report);
        };
        // Programs that copy files set their times in the end.
        let is_same = || identify().is_ok_and(|content| content.id() == id);
        if before != state() && !is_same() {
            let reason =
                "it was written while it was read, and left out: run again when it is complete";
            report.error = Some(reason.to_owned());
        } else if report.mixed {
            // Nothing is added: the files would count as known, and could not be added apart.
        } else if report.error.is_none() || report.counters.frames > 0 {
            let found = draft.rows();
            let held = draft.commit(tidegate_dataset::Report {
                packets: report.counters.frames,
                flows: report.counters.flows,
                problems: problems(&report.passed_over, report.error.as_deref()),
                given: Some(self.given()),
            })?;
            if let Some(held) = held {
                report.error = self.known(&input, held);
                return Ok(report);
            }
            self.count.added.fetch_add(1, Ordering::Relaxed);
            self.count.rows.fetch_add(found, Ordering::Relaxed);
            if self.options.follow {
                self.say(&format!("{}: {}", input.name, plural(found, "row", "rows")));
            }
        }
        Ok(report)
    }

    /// A capture that arrived, and cannot be opened now.
    fn unopened(&self, input: &Input, error: &std::io::Error) -> Report {
        if error.kind() == ErrorKind::NotFound {
            // Under another name, it arrives again.
            let line = "was renamed or removed before it was read";
            eprintln!("tidegate: {}: {line}", input.name);
            let name = Arc::clone(&input.name);
            return Report {
                name,
                begun: true,
                ..Report::default()
            };
        }
        input
            .path()
            .inspect(|path| self.unread.could_not_open(path));
        Report::failed(&input.name, error.to_string())
    }

    /// What the user says of all captures.
    fn given(&self) -> Given {
        let into = &self.options.into;
        Given {
            sampled: into.sampled,
            networks: !into.asn.is_empty(),
        }
    }

    /// Counts a capture that the dataset holds. Returns what was wrong with it when it was added, since its rows still lack
    /// that, and what the user says otherwise now.
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
        let problems = (!problems.is_empty())
            .then(|| format!("was added before, as far as it could be read: {problems}"));
        let changed = held
            .given
            .and_then(|before| changed(&before, &self.given()));
        let both: Vec<String> = problems.into_iter().chain(changed).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// Writes a line to standard output. If that fails, captures are still added: they matter more than the lines.
    fn say(&self, line: &str) {
        let mut out = Output::stdout();
        let written = writeln!(out, "{line}").map_err(Into::into);
        let Err(error) = written.and_then(|()| out.commit()) else {
            return;
        };
        if self.options.follow && self.unsaid.get().is_none() {
            eprintln!(
                "tidegate: {}; captures are added as before",
                exit::words(&error)
            );
        }
        let _ = self.unsaid.set(error);
    }

    fn finish(mut self, root: &Path) -> anyhow::Result<Exit> {
        if let Some(error) = self.broken.take() {
            return Err(error.into());
        }
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.say(&format!(
            "{} added with {}, {} known before, {} with problems; {} in {}",
            plural(get(&self.count.added), "capture", "captures"),
            plural(get(&self.count.rows), "row", "rows"),
            get(&self.count.known),
            get(&self.count.failed),
            plural(self.dataset.captures() as u64, "capture", "captures"),
            input::display(root),
        ));
        if let Some(error) = self.unsaid.take() {
            return Err(error);
        }
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

#[cfg(test)]
mod tests;
