//! The scenarios of [Flach16, Table 3] in the lab, at their full grid: captures of a server's side
//! are written, read again and judged as `tidegate detect` does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tidegate_lab::experiment::Finished;
use tidegate_lab::plan::{ElementKind, Plan, QueueKind, Traffic};
use tidegate_limiter::LimiterConfig;
use tidegate_trace::detect::pd::{self, Code};
use tidegate_trace::flow::Settings;

use crate::experiment::simulate;
use crate::lab::{self, Chunk, Device, MIN_LOSSES, Truth};
use crate::table3::{Class, Table3, percent};

const POLICER: &str = include_str!("policer.toml");
const CONGESTION: &str = include_str!("congestion.toml");

/// The rates of the grid in bit/s, and the sizes of its buckets and queues in bytes.
const RATES: [u64; 4] = [500_000, 1_500_000, 3_000_000, 10_000_000];
const SIZES: [u64; 4] = [8_000, 100_000, 1_000_000, 2_000_000];
/// Bytes of a full frame: sizes are multiples of it where a queue counts packets.
const FRAME: u64 = 1514;
/// The port of the lab's servers.
const SERVER_PORT: u16 = 443;

/// Whose answers are held against the truth.
const SOURCES: [&str; 3] = ["pd", "pd-paper", "pd+lost"];

/// A chunk of the seen connection, and what is known of it.
#[derive(Debug)]
struct Seen {
    class: Class,
    /// What dropped, and who was there besides.
    place: String,
    rate: u64,
    size: u64,
    losses: u64,
    /// In the order of `SOURCES`.
    answers: [Answer; 3],
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    code: Code,
    /// The policer's rate as frames with their check sequence.
    link_rate: Option<f64>,
}

impl Answer {
    fn of(answer: &pd::Answer, chunk: &Chunk) -> Self {
        let verdict = answer.deciding();
        Self {
            code: verdict.code,
            link_rate: verdict.rate_bps.map(|rate| chunk.tally.at_link(rate)),
        }
    }

    fn is_policed(self) -> bool {
        self.code == Code::Policed
    }
}

/// What a plan says that a router was set to, and the name of its queue.
fn truth(plan: &Plan) -> Result<(Truth, &'static str)> {
    let of_packets = |packets: u64| SIZES.into_iter().find(|size| size / FRAME == packets);
    let mut found = None;
    let mut random_loss_percent = 0.0;
    for element in &plan.elements {
        match &element.kind {
            ElementKind::Loss { probability, .. } => random_loss_percent = probability * 100.0,
            ElementKind::Limiter {
                config: LimiterConfig::Policer(config),
                ..
            } => {
                let (rate, burst) = (config.rate(), config.burst());
                found = Some((Device::Policer, rate, Some(burst), "policer"));
            }
            ElementKind::Link { rate, queue } if element.name == "bottleneck" => {
                let (device, size, name) = match *queue {
                    QueueKind::DropTail { bytes, .. } => (Device::Shaper, bytes, "drop-tail"),
                    QueueKind::CoDel { packets, .. } => (Device::Aqm, of_packets(packets), "CoDel"),
                    QueueKind::Red { limit, .. } => (Device::Aqm, Some(limit), "RED"),
                    QueueKind::Pie { packets, .. } => (Device::Aqm, of_packets(packets), "PIE"),
                    QueueKind::FqCoDel { .. } | QueueKind::DualPi2 { .. } | QueueKind::Cake(_) => {
                        continue;
                    }
                };
                found = Some((device, *rate, size, name));
            }
            _ => {}
        }
    }
    let (device, rate, burst_bytes, name) =
        found.context("neither a policer nor a bottleneck in the scenario")?;
    let count = |is: fn(&Traffic) -> bool| {
        plan.flows.iter().filter(|flow| is(&flow.traffic)).count() as u32
    };
    let truth = Truth {
        device,
        rate_bps: rate.bits_per_second() as f64,
        burst_bytes,
        chunk_connections: count(|traffic| matches!(traffic, Traffic::Video { .. })),
        iperf_connections: count(|traffic| matches!(traffic, Traffic::Bulk { .. })),
        random_loss_percent,
        rtt_ms: plan.flows[0].delay as f64 / 1e6,
    };
    Ok((truth, name))
}

/// The chunks of a simulation; its capture is removed from the folder.
fn chunks(folder: &Path, finished: &Finished) -> Result<Vec<Seen>> {
    let plan = &finished.group.plan;
    let (truth, queue) = truth(plan)?;
    let tap = finished
        .captures
        .first()
        .context("no tap in the scenario")?;
    let file = folder.join(tap);
    let [chunks] = lab::judged(&file, SERVER_PORT, [Settings::default()])?;
    fs::remove_file(&file)?;
    // The paper has no chunk that the end of the simulation cut short.
    let complete = finished.outcome.flows[0].completions.len();
    let class = Class::of(&truth);
    let mut place = format!("{class:?} {queue}");
    if truth.random_loss_percent > 0.0 {
        place = format!("{class:?} {} %", truth.random_loss_percent);
    }
    for (count, what) in [
        (truth.chunk_connections - 1, " +video"),
        (truth.iperf_connections, " +bulk"),
    ] {
        place += if count > 0 { what } else { "" };
    }
    Ok(chunks
        .iter()
        .take(complete)
        .map(|chunk| Seen {
            class,
            place: place.clone(),
            rate: truth.rate_bps as u64,
            size: truth.burst_bytes.unwrap_or(0),
            losses: chunk.published_losses,
            answers: [&chunk.pd, &chunk.paper, &chunk.annotated]
                .map(|judgement| Answer::of(judgement, chunk)),
        })
        .collect())
}

/// Which of the situations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Full,
    /// Less of each, to compare senders.
    Brief,
}

/// Scenarios and what is set in them.
fn situations(extent: Extent) -> Vec<(&'static str, Vec<String>)> {
    const OTHER: &str = "other.count=1";
    const BULK: &str = "bulk.count=1";
    const PAUSE: &str = "seen.traffic.pause=1s";
    let less: &[&str] = match extent {
        Extent::Full => &[],
        Extent::Brief => &[PAUSE, "seed=1"],
    };
    let mut all = Vec::new();
    let mut add = |scenario, settings: &[&str]| {
        let settings = settings.iter().chain(less);
        all.push((scenario, settings.map(|&text| text.to_owned()).collect()));
    };
    for beside in [&[][..], &[OTHER], &[OTHER, BULK]] {
        add(POLICER, beside);
    }
    for beside in [&[][..], &[BULK], &[OTHER, BULK]] {
        add(CONGESTION, beside);
    }
    for size in SIZES {
        let packets = size / FRAME;
        for queue in [
            format!("bottleneck.queue={{ kind = \"codel\", packets = {packets} }}"),
            format!("bottleneck.queue={{ kind = \"red\", limit = \"{size}B\" }}"),
            format!("bottleneck.queue={{ kind = \"pie\", packets = {packets} }}"),
        ] {
            add(CONGESTION, &[&queue, PAUSE]);
            if extent == Extent::Full {
                add(CONGESTION, &[&queue, PAUSE, BULK]);
            }
        }
    }
    for loss in ["faults.probability=0.01", "faults.probability=0.02"] {
        add(CONGESTION, &[loss, "bottleneck.queue=100kB"]);
    }
    all
}

/// All chunks of all situations, with more that is set.
fn grid(captures: &Path, extent: Extent, more: &[&str]) -> Result<Vec<Seen>> {
    let mut all = Vec::new();
    for (scenario, mut settings) in situations(extent) {
        settings.extend(more.iter().map(|&text| text.to_owned()));
        simulate(
            "flach16-table3-lab",
            scenario,
            &settings,
            Some(captures),
            |_, finished| {
                all.extend(chunks(captures, &finished)?);
                Ok(())
            },
        )?;
    }
    Ok(all)
}

fn table3(all: &[Seen]) -> Table3 {
    let mut table = Table3::new(&SOURCES);
    for chunk in all {
        let policed = chunk.answers.map(Answer::is_policed);
        table.count(chunk.class, chunk.losses, &policed);
    }
    table
}

/// What is set differently in a row of the last table: keys of all three flows, and the noise.
struct Variation {
    name: &'static str,
    flows: &'static [&'static str],
    noise: Option<&'static str>,
}

impl Variation {
    const fn of(name: &'static str, flows: &'static [&'static str]) -> Self {
        Self {
            name,
            flows,
            noise: None,
        }
    }
}

const VARIATIONS: [Variation; 7] = [
    Variation::of("as above, fewer runs", &[]),
    Variation::of("every packet acknowledged", &["delayed-ack=0s"]),
    Variation {
        noise: Some("noise.jitter=500us"),
        ..Variation::of("0.5 ms between packets", &[])
    },
    Variation::of("conserving packets, Linux 4.2", &["recovery=conservative"]),
    Variation::of(
        "and RACK-TLP, ACKs compressed",
        &["recovery=conservative", "rack=true", "ack-compression=true"],
    ),
    Variation::of("Reno", &["cc=reno"]),
    Variation::of("BBR", &["cc=bbr"]),
];

/// Runs everything, and prints it.
///
/// # Errors
/// A simulation fails, or its capture cannot be written or read.
pub fn report() -> Result<String> {
    let folder = tempfile::tempdir().context("no folder for captures")?;
    let all = grid(folder.path(), Extent::Full, &[])?;
    let mut out = table3(&all).to_string();
    let lossy: Vec<&Seen> = all.iter().filter(|c| c.losses >= MIN_LOSSES).collect();
    cells(&mut out, &lossy)?;
    codes(&mut out, &lossy)?;
    differences(&mut out, &lossy)?;
    rates(&mut out, &lossy)?;
    let mut tables = Vec::new();
    for variation in VARIATIONS {
        let mut settings = Vec::new();
        for flow in ["seen", "other", "bulk"] {
            settings.extend(variation.flows.iter().map(|key| format!("{flow}.{key}")));
        }
        settings.extend(variation.noise.map(str::to_owned));
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let chunks = grid(folder.path(), Extent::Brief, &settings)?;
        tables.push((variation.name, table3(&chunks)));
    }
    variations(&mut out, &tables)?;
    Ok(out)
}

/// Wrong answers by rate and size.
fn cells(out: &mut String, lossy: &[&Seen]) -> Result<()> {
    writeln!(out, "\nwrong of chunks, by rate in Mbit/s and size")?;
    write!(out, "{:<21} {:>8}", "class", "size")?;
    for source in &SOURCES[..2] {
        for rate in RATES {
            let column = format!("{source} {}", rate as f64 / 1e6);
            write!(out, " {column:>12}")?;
        }
    }
    writeln!(out)?;
    let mut rows: BTreeMap<(&str, u64), Vec<&Seen>> = BTreeMap::new();
    for chunk in lossy {
        let key = (chunk.place.as_str(), chunk.size);
        rows.entry(key).or_default().push(chunk);
    }
    for ((place, size), chunks) in rows {
        write!(out, "{place:<21} {size:>8}")?;
        for source in 0..2 {
            for rate in RATES {
                let cell = || chunks.iter().filter(|chunk| chunk.rate == rate);
                let is_wrong = |c: &&&Seen| c.answers[source].is_policed() != c.class.is_policed();
                let text = match (cell().filter(is_wrong).count(), cell().count()) {
                    (_, 0) => "-".to_owned(),
                    (wrong, chunks) => format!("{wrong}/{chunks}"),
                };
                write!(out, " {text:>12}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What decided.
fn codes(out: &mut String, lossy: &[&Seen]) -> Result<()> {
    for (source, name) in SOURCES.iter().enumerate().take(2) {
        writeln!(out, "\nwhat {name} found, in chunks")?;
        write!(out, "{:<21}", "class")?;
        for code in Code::ALL {
            write!(out, " {:>22}", code.reason())?;
        }
        writeln!(out)?;
        let mut rows: BTreeMap<&str, [usize; Code::ALL.len()]> = BTreeMap::new();
        for chunk in lossy {
            let row = rows.entry(&chunk.place).or_default();
            row[usize::from(chunk.answers[source].code.number())] += 1;
        }
        for (place, counts) in rows {
            write!(out, "{place:<21}")?;
            for count in counts {
                write!(out, " {count:>22}")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// What one detector says of chunks in which only the other finds a policer.
fn differences(out: &mut String, lossy: &[&Seen]) -> Result<()> {
    for (finds, other) in [(1, 0), (0, 1)] {
        let (name, against) = (SOURCES[finds], SOURCES[other]);
        writeln!(out, "\npoliced by {name} only: what {against} found")?;
        let mut rows: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for chunk in lossy {
            let answer = chunk.answers[other];
            if chunk.answers[finds].is_policed() && !answer.is_policed() {
                let class = format!("{:?}", chunk.class);
                *rows.entry((class, answer.code.reason())).or_default() += 1;
            }
        }
        for ((class, reason), count) in rows {
            writeln!(out, "{class:<3} {reason:<22} {count:>5}")?;
        }
    }
    Ok(())
}

/// How far the rates of the policers that were found are from the truth.
fn rates(out: &mut String, lossy: &[&Seen]) -> Result<()> {
    writeln!(out, "\nrate found over rate set, at the link, in percent")?;
    writeln!(
        out,
        "{:<12} {:>8} {:>10} {:>8} {:>8} {:>8} {:>8}",
        "class", "size", "detector", "chunks", "10 %", "median", "90 %"
    )?;
    let mut rows: BTreeMap<(usize, u64, usize), Vec<f64>> = BTreeMap::new();
    for chunk in lossy.iter().filter(|chunk| chunk.class.is_policed()) {
        for (source, answer) in chunk.answers.iter().enumerate().take(2) {
            if let Some(rate) = answer.link_rate {
                let key = (chunk.class as usize, chunk.size, source);
                let ratio = (rate / chunk.rate as f64 - 1.0) * 100.0;
                rows.entry(key).or_default().push(ratio);
            }
        }
    }
    for ((class, size, source), mut ratios) in rows {
        ratios.sort_by(f64::total_cmp);
        let at = |percent: usize| ratios[(ratios.len() * percent).div_ceil(100).max(1) - 1];
        writeln!(
            out,
            "{:<12} {size:>8} {:>10} {:>8} {:>+8.2} {:>+8.2} {:>+8.2}",
            format!("{:?}", Class::ALL[class]),
            SOURCES[source],
            ratios.len(),
            at(10),
            at(50),
            at(90)
        )?;
    }
    Ok(())
}

/// Accuracy with other senders.
fn variations(out: &mut String, tables: &[(&str, Table3)]) -> Result<()> {
    writeln!(out, "\nright answers with other senders")?;
    write!(out, "{:<31} {:>8}", "sender", "detector")?;
    for class in Class::ALL {
        write!(out, " {:>8}", format!("{class:?}"))?;
    }
    writeln!(out)?;
    for (sender, table) in tables {
        for (source, detector) in SOURCES.iter().enumerate().take(2) {
            write!(out, "{sender:<31} {detector:>8}")?;
            for class in Class::ALL {
                let (right, chunks) = table.right(class, source);
                write!(out, " {:>8}", percent(right, chunks))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
