//! The scenarios of [Flach16, Table 3] in the lab, at their full grid: captures of a server's side
//! are written, read again and judged as `tidegate detect` does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use tidegate_lab::experiment::Finished;
use tidegate_lab::plan::{ElementKind, LimiterKind, Plan, QueueKind, Traffic};
use tidegate_trace::detect::{Code, Judgement};
use tidegate_trace::flow::Settings;

use crate::experiment::simulate;
use crate::lab::{self, Chunk, Device, MIN_LOSSES, Truth};
use crate::table3::{Class, Table3, percent};

const POLICER: &str = include_str!("policer.toml");
const CONGESTION: &str = include_str!("congestion.toml");

/// The rates of the grid in bit/s, and the sizes of its buckets and queues in bytes.
const RATES: [u64; 4] = [500_000, 1_500_000, 3_000_000, 10_000_000];
const SIZES: [u64; 4] = [8_000, 100_000, 1_000_000, 2_000_000];
/// Bytes of a full frame: sizes are so many packets where a queue counts these.
const FRAME: u64 = 1514;
/// The port of the lab's servers.
const SERVER_PORT: u16 = 443;

/// Whose answers are held against the truth.
const SOURCES: [&str; 3] = ["pd", "pd-paper", "pd+lost"];

/// A chunk of the seen connection, and what is known of it.
#[derive(Debug)]
struct Seen {
    class: Class,
    queue: &'static str,
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
    fn of(judgement: &Judgement, chunk: &Chunk) -> Self {
        let verdict = judgement.deciding();
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
                kind: LimiterKind::Policer { rate, burst },
                ..
            } => found = Some((Device::Policer, *rate, Some(*burst), "policer")),
            ElementKind::Link { rate, queue } if element.name == "bottleneck" => {
                let (device, size, name) = match *queue {
                    QueueKind::DropTail { bytes, .. } => (Device::Shaper, bytes, "drop-tail"),
                    QueueKind::CoDel { packets, .. } => (Device::Aqm, of_packets(packets), "CoDel"),
                    QueueKind::Red { limit, .. } => (Device::Aqm, Some(limit), "RED"),
                    QueueKind::Pie { packets, .. } => (Device::Aqm, of_packets(packets), "PIE"),
                    QueueKind::FqCoDel { .. } => continue,
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

/// The chunks of a simulation; its capture is removed.
fn chunks(finished: &Finished) -> Result<Vec<Seen>> {
    let plan = &finished.group.plan;
    let (truth, queue) = truth(plan)?;
    let tap = plan
        .elements
        .iter()
        .find_map(|element| match &element.kind {
            ElementKind::Tap { file, .. } => Some(file.as_path()),
            _ => None,
        });
    let file = tap.ok_or_else(|| anyhow!("no tap in the scenario"))?;
    let [chunks] = lab::judged(file, SERVER_PORT, [Settings::default()])?;
    fs::remove_file(file)?;
    // A chunk that the end cut short is none of the paper's.
    let complete = finished.outcome.flows[0].completions.len();
    let class = Class::of(&truth);
    Ok(chunks
        .iter()
        .take(complete)
        .map(|chunk| Seen {
            class,
            queue,
            rate: truth.rate_bps as u64,
            size: truth.burst_bytes.unwrap_or(0),
            losses: chunk.published_losses,
            answers: [&chunk.pd, &chunk.paper, &chunk.annotated]
                .map(|judgement| Answer::of(judgement, chunk)),
        })
        .collect())
}

/// Scenarios and what is set in them.
fn situations() -> Vec<(&'static str, Vec<String>)> {
    const OTHER: &str = "other.count=1";
    const BULK: &str = "bulk.count=1";
    let both: [&[&str]; 3] = [&[], &[OTHER], &[OTHER, BULK]];
    let mut all = Vec::new();
    let mut add = |scenario, settings: &[&str]| {
        all.push((
            scenario,
            settings.iter().map(|&text| text.to_owned()).collect(),
        ));
    };
    for beside in both {
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
            add(CONGESTION, &[&queue]);
            add(CONGESTION, &[&queue, BULK]);
        }
    }
    for loss in ["faults.probability=0.01", "faults.probability=0.02"] {
        add(CONGESTION, &[loss, "bottleneck.queue=100kB"]);
    }
    all
}

/// All chunks of all situations, with more that is set.
fn grid(captures: &Path, more: &[&str]) -> Result<Vec<Seen>> {
    let mut all = Vec::new();
    for (scenario, mut settings) in situations() {
        settings.extend(more.iter().map(|&text| text.to_owned()));
        simulate(
            "flach16-table3-lab",
            scenario,
            &settings,
            Some(captures),
            |_, finished| {
                all.extend(chunks(&finished)?);
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

/// What differs from the scenarios' senders in a row of the last table.
const VARIATIONS: [(&str, &[&str]); 5] = [
    ("CUBIC before Linux 4.2", &[]),
    (
        "CUBIC, 4.2: conserving packets",
        &[
            "seen.recovery=conservative",
            "other.recovery=conservative",
            "bulk.recovery=conservative",
        ],
    ),
    (
        "CUBIC of today: and RACK-TLP",
        &[
            "seen.recovery=conservative",
            "other.recovery=conservative",
            "bulk.recovery=conservative",
            "seen.rack=true",
            "other.rack=true",
            "bulk.rack=true",
        ],
    ),
    ("Reno", &["seen.cc=reno", "other.cc=reno", "bulk.cc=reno"]),
    ("BBR", &["seen.cc=bbr", "other.cc=bbr", "bulk.cc=bbr"]),
];
/// Enough for a row.
const LESS: [&str; 2] = ["seed=1", "seen.traffic.pause=1s"];

/// Runs everything, and prints it.
///
/// # Errors
/// A simulation fails, or its capture cannot be written or read.
pub fn report() -> Result<String> {
    let folder = tempfile::tempdir().context("no folder for captures")?;
    let all = grid(folder.path(), &[])?;
    let mut out = table3(&all).to_string();
    let lossy: Vec<&Seen> = all.iter().filter(|c| c.losses >= MIN_LOSSES).collect();
    cells(&mut out, &lossy)?;
    codes(&mut out, &lossy)?;
    rates(&mut out, &lossy)?;
    let mut tables = Vec::new();
    for (name, settings) in VARIATIONS {
        let settings = [settings, &LESS].concat();
        tables.push((name, table3(&grid(folder.path(), &settings)?)));
    }
    variations(&mut out, &tables)?;
    Ok(out)
}

/// Wrong answers by rate and size.
fn cells(out: &mut String, lossy: &[&Seen]) -> Result<()> {
    writeln!(out, "\nwrong of chunks, by rate in Mbit/s and size")?;
    write!(out, "{:<12} {:>8}", "class", "size")?;
    for source in &SOURCES[..2] {
        for rate in RATES {
            let column = format!("{source} {}", rate as f64 / 1e6);
            write!(out, " {column:>12}")?;
        }
    }
    writeln!(out)?;
    let mut rows: BTreeMap<(usize, &str, u64), Vec<&Seen>> = BTreeMap::new();
    for chunk in lossy {
        let key = (chunk.class as usize, chunk.queue, chunk.size);
        rows.entry(key).or_default().push(chunk);
    }
    for ((class, queue, size), chunks) in rows {
        let class = Class::ALL[class];
        write!(out, "{:<12} {size:>8}", format!("{class:?} {queue}"))?;
        for source in 0..2 {
            for rate in RATES {
                let cell = || chunks.iter().filter(|chunk| chunk.rate == rate);
                let is_wrong = |c: &&&Seen| c.answers[source].is_policed() != class.is_policed();
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
        write!(out, "{:<12}", "class")?;
        for code in Code::ALL {
            write!(out, " {:>22}", code.reason())?;
        }
        writeln!(out)?;
        let mut rows: BTreeMap<(usize, &str), [usize; Code::ALL.len()]> = BTreeMap::new();
        for chunk in lossy {
            let row = rows.entry((chunk.class as usize, chunk.queue)).or_default();
            row[usize::from(chunk.answers[source].code.number())] += 1;
        }
        for ((class, queue), counts) in rows {
            write!(out, "{:<12}", format!("{:?} {queue}", Class::ALL[class]))?;
            for count in counts {
                write!(out, " {count:>22}")?;
            }
            writeln!(out)?;
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
