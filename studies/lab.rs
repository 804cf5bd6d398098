//! The captures that the authors of \[Flach16\] recorded in their lab and published, what their
//! router was set to, and what their own detector said.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail};
use tidegate_trace::annotate::{Marks, Metrics, Sent, Tally, Transfer};
use tidegate_trace::detect::Pd;
use tidegate_trace::detect::pd::Answer;
use tidegate_trace::flow::Settings;
use tidegate_trace::read::Capture;
use tidegate_trace::{Analysis, Options, Sink};

use crate::cores::on_all_cores;

/// The environment variable that names the folder of shared captures.
pub const TRACES: &str = "TIDEGATE_TRACES";
/// The server's port of the connection that the published detector was shown.
pub const SEEN_PORT: u16 = 1234;
/// Chunks with fewer losses count in no table: too few to judge [Flach16 §3.1 and data].
pub const MIN_LOSSES: u64 = 15;

/// The folder of the lab's captures: the one given, else `usc` in the shared ones; `None` where
/// neither is named.
pub fn folder(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(|| Some(PathBuf::from(std::env::var_os(TRACES)?).join("usc")))
}

/// The folder, or a message on standard error and exit status 2.
pub fn folder_or_exit(given: Option<PathBuf>) -> PathBuf {
    folder(given).unwrap_or_else(|| {
        eprintln!(
            "no captures: name the folder that holds them with truth.csv and original-pd.csv,\n\
             or set {TRACES} to the folder above it"
        );
        std::process::exit(2)
    })
}

/// What the router did to the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// It dropped what exceeded a token bucket.
    Policer,
    /// It queued what exceeded the rate, and dropped what exceeded the queue.
    Shaper,
    /// It queued what exceeded the rate, and dropped as an active queue management decides. Not
    /// in the published captures.
    Aqm,
}

/// What the router was set to for a capture.
#[derive(Debug, Clone)]
pub struct Truth {
    /// What it did.
    pub device: Device,
    /// Its rate in bit/s.
    pub rate_bps: f64,
    /// Bucket or queue in bytes; `None` is the router's default.
    pub burst_bytes: Option<u64>,
    /// Chunk-requesting connections through the device.
    pub chunk_connections: u32,
    /// Bulk connections through the device.
    pub iperf_connections: u32,
    /// Packets dropped at random, in percent.
    pub random_loss_percent: f64,
    /// Round-trip time of the path.
    pub rtt_ms: f64,
}

/// What the published detector said of a chunk, in its run without and in that with a cut.
#[derive(Debug, Clone)]
pub struct Original {
    /// Data packets.
    pub data_packets: u64,
    /// Lost ones among them.
    pub losses: u64,
    /// First run, then the run that leaves out two losses at either end.
    pub runs: [Run; 2],
}

/// One run's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Whether it found a policer.
    pub policed: bool,
    /// The result code.
    pub code: u8,
    /// The policing rate in payload bit/s.
    pub rate_bps: Option<f64>,
    /// Payload bytes before the first loss.
    pub burst_bytes: Option<u64>,
}

/// A capture with all that is known of it beforehand.
#[derive(Debug, Clone)]
pub struct Case {
    /// The file's name.
    pub file: String,
    /// What the router was set to.
    pub truth: Truth,
    /// The published detector's answers, by the number of the segment.
    pub original: BTreeMap<u32, Original>,
}

/// A row of a CSV file by column names.
struct Row<'a> {
    header: &'a csv::StringRecord,
    record: csv::StringRecord,
}

impl Row<'_> {
    fn text(&self, column: &str) -> Result<&str> {
        let i = self.header.iter().position(|name| name == column);
        i.and_then(|i| self.record.get(i))
            .ok_or_else(|| anyhow!("no column {column}"))
    }

    fn value<T: std::str::FromStr>(&self, column: &str) -> Result<T> {
        self.optional(column)?
            .ok_or_else(|| anyhow!("no value in column {column}"))
    }

    fn optional<T: std::str::FromStr>(&self, column: &str) -> Result<Option<T>> {
        let text = self.text(column)?;
        if text.is_empty() {
            return Ok(None);
        }
        let value = text
            .parse()
            .map_err(|_| anyhow!("'{text}' in column {column}"))?;
        Ok(Some(value))
    }
}

fn each_row(path: &Path, mut row: impl FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
    let file = || path.display().to_string();
    let mut reader = csv::Reader::from_path(path).with_context(file)?;
    let header = reader.headers().with_context(file)?.clone();
    for record in reader.records() {
        let record = record.with_context(file)?;
        let line = record.position().map_or(0, csv::Position::line);
        let header = &header;
        row(&Row { header, record }).with_context(|| format!("{}, line {line}", file()))?;
    }
    Ok(())
}

/// Reads what is known of the captures in a folder, in the order of their names.
///
/// # Errors
/// `truth.csv` or `original-pd.csv` is missing or not as described in the captures' README.
pub fn cases(folder: &Path) -> Result<Vec<Case>> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    each_row(&folder.join("truth.csv"), |row| {
        let file = row.text("file")?.to_owned();
        let truth = Truth {
            device: match row.text("device")? {
                "policer" => Device::Policer,
                "shaper" => Device::Shaper,
                other => bail!("unknown device '{other}'"),
            },
            rate_bps: row.value("rate_bps")?,
            burst_bytes: row.optional("burst_bytes")?,
            chunk_connections: row.value("chunk_connections")?,
            iperf_connections: row.value("iperf_connections")?,
            random_loss_percent: row.value("random_loss_percent")?,
            rtt_ms: row.value("rtt_ms")?,
        };
        let original = BTreeMap::new();
        cases.insert(
            file.clone(),
            Case {
                file,
                truth,
                original,
            },
        );
        Ok(())
    })?;
    each_row(&folder.join("original-pd.csv"), |row| {
        let run = |suffix: &str| -> Result<Run> {
            let column = |name: &str| format!("{name}{suffix}");
            Ok(Run {
                policed: row.text(&column("policed"))? == "True",
                code: row.value(&column("code"))?,
                rate_bps: row.optional(&column("rate_bps"))?,
                burst_bytes: row.optional(&column("burst_bytes"))?,
            })
        };
        let original = Original {
            data_packets: row.value("data_packets")?,
            losses: row.value("losses")?,
            runs: [run("")?, run("_cut2")?],
        };
        let file = row.text("file")?;
        let case = cases
            .get_mut(file)
            .ok_or_else(|| anyhow!("{file} is not in truth.csv"))?;
        case.original.insert(row.value("segment")?, original);
        Ok(())
    })?;
    Ok(cases.into_values().collect())
}

/// What the server sent in a segment of the seen connection, measured and judged.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The segment's number in the flow.
    pub segment: u32,
    /// The numbers of its data packets among the server's.
    pub packets: std::ops::Range<u64>,
    /// Losses as the published code counts them.
    pub published_losses: u64,
    /// Measures.
    pub metrics: Metrics,
    /// Counts.
    pub tally: Tally,
    /// By the published rules.
    pub pd: Answer,
    /// By the paper's text.
    pub paper: Answer,
    /// By the published rules, with the losses as Tidegate's annotator finds them.
    pub annotated: Answer,
}

/// A capture analysed.
#[derive(Debug)]
pub struct Analysed {
    /// What was known beforehand.
    pub case: Case,
    /// The chunks of the seen connection, where a repeated request begins another segment, as
    /// in the published code.
    pub chunks: Vec<Chunk>,
    /// The same where it does not, as the paper defines a segment.
    pub joined: Vec<Chunk>,
}

/// Analyses all captures of a folder, with as many threads as there are cores.
///
/// # Errors
/// A file is missing or cannot be read to its end.
pub fn analyse(folder: &Path) -> Result<Vec<Analysed>> {
    let cases = cases(folder)?;
    let all = Mutex::new(Vec::new());
    on_all_cores(cases.iter().enumerate(), |(i, case)| {
        let path = folder.join(&case.file);
        let analysed = one(&path, case).with_context(|| path.display().to_string())?;
        if let Ok(mut all) = all.lock() {
            all.push((i, analysed));
        }
        Ok(())
    })?;
    let mut all = all.into_inner().context("a worker failed")?;
    all.sort_by_key(|(i, _)| *i);
    Ok(all.into_iter().map(|(_, analysed)| analysed).collect())
}

/// Both segmentations in one pass: decompressing takes longer than either.
fn one(path: &Path, case: &Case) -> Result<Analysed> {
    let settings = [false, true].map(|join_repeated_requests| Settings {
        join_repeated_requests,
        ..Settings::default()
    });
    let [chunks, joined] = judged(path, SEEN_PORT, settings)?;
    Ok(Analysed {
        case: case.clone(),
        chunks,
        joined,
    })
}

/// What was sent from a port in a capture, in segments as each of the settings has them.
///
/// # Errors
/// If the capture cannot be read to its end.
pub fn judged<const N: usize>(
    capture: &Path,
    port: u16,
    settings: [Settings; N],
) -> Result<[Vec<Chunk>; N]> {
    let mut capture = Capture::new(File::open(capture)?)?;
    let analysis = |settings| Analysis::new(Options::measuring(settings));
    let mut all = settings.map(|settings| (analysis(settings), Judges::of(port)));
    while let Some(frame) = capture.frame()? {
        for (analysis, sink) in &mut all {
            analysis.frame(&frame, sink);
        }
    }
    Ok(all.map(|(mut analysis, mut sink)| {
        analysis.finish(&mut sink);
        sink.chunks
    }))
}

struct Judges {
    port: u16,
    published: Pd,
    paper: Pd,
    changed: Vec<Sent>,
    chunks: Vec<Chunk>,
}

impl Judges {
    fn of(port: u16) -> Self {
        Self {
            port,
            published: Pd::published(),
            paper: Pd::paper(),
            changed: Vec::new(),
            chunks: Vec::new(),
        }
    }
}

impl Sink for Judges {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        if transfer.sender.port() != self.port {
            return;
        }
        let lost = |sent: &&Sent| sent.repeated != 0 && !sent.marks.has(Marks::SPURIOUS_DSACK);
        // The published rules take one sign only for a retransmission in vain: giving that sign
        // to all that arrived shows them the annotator's losses.
        self.changed.clear();
        self.changed.extend(transfer.sent.iter().map(|sent| {
            let mut sent = *sent;
            if sent.marks.has(Marks::DELIVERED) {
                sent.marks.set(Marks::SPURIOUS_DSACK);
            }
            sent
        }));
        let annotated = Transfer {
            sent: &self.changed,
            ..*transfer
        };
        self.chunks.push(Chunk {
            segment: transfer.segment,
            packets: transfer.first_number..transfer.first_number + metrics.data_packets,
            published_losses: transfer.sent.iter().filter(lost).count() as u64,
            metrics: *metrics,
            tally: *transfer.tally,
            pd: self.published.judge(transfer),
            paper: self.paper.judge(transfer),
            annotated: self.published.judge(&annotated),
        });
    }
}
