//! The time that each stage of `detect` adds, in one process on one core. It is processor time,
//! which stays comparable when others use the machine too.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::sync::Arc;

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use tidegate_store::{Format, Writer};
use tidegate_trace::annotate::{Metrics, Transfer, TransferSummary};
use tidegate_trace::detect::{DETECTORS, Judgement};
use tidegate_trace::flow::Settings;
use tidegate_trace::read::Capture;
use tidegate_trace::rows::SegmentRow;
use tidegate_trace::wire;
use tidegate_trace::{Analysis, Options, Sink};

use super::capture::Big;
use super::{Figures, child, core, median};

/// Everything up to a stage. Each function does the work of the one before, and more.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Read,
    Decode,
    Flows,
    Detect,
    Rows,
}

const STAGES: [(Stage, &str); 5] = [
    (Stage::Read, "read"),
    (Stage::Decode, "decode"),
    (Stage::Flows, "flows_and_annotation"),
    (Stage::Detect, "detector"),
    (Stage::Rows, "rows"),
];

/// Measures all stages in turn, as often as there are rounds.
pub fn measure(big: &Big, rounds: usize, figures: &mut Figures) -> Result<()> {
    child::pin(core())?;
    let mut times = STAGES.map(|_| Vec::new());
    for round in 0..rounds {
        for ((stage, name), times) in STAGES.iter().zip(&mut times) {
            let start = cpu()?;
            run(big, *stage)?;
            let nanos = (cpu()? - start) / big.packets as f64;
            eprintln!("round {}: up to {name} {nanos:.1} ns/packet", round + 1);
            times.push(nanos);
        }
    }
    let mut before = 0.0;
    for ((_, name), times) in STAGES.iter().zip(times) {
        let up_to = median(times);
        figures.add(format!("stage.{name}"), up_to - before, "ns/packet");
        before = up_to;
    }
    figures.add("stages.all", before, "ns/packet");
    figures.add("stages.rate", 1e3 / before, "Mpackets/s");
    Ok(())
}

/// Processor time of this process so far, in nanoseconds, with the kernel's work for it.
fn cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let nanos = |time: TimeVal| time.tv_sec() as f64 * 1e9 + time.tv_usec() as f64 * 1e3;
    Ok(nanos(usage.user_time()) + nanos(usage.system_time()))
}

fn run(big: &Big, stage: Stage) -> Result<()> {
    let mut capture = Capture::new(File::open(&big.path)?)?;
    let mut analysis = Analysis::new(match stage {
        Stage::Read | Stage::Decode | Stage::Flows => Options::measuring(Settings::default()),
        Stage::Detect | Stage::Rows => Options::default(),
    });
    let mut sink = Stages::new(stage)?;
    while let Some(frame) = capture.frame()? {
        match stage {
            Stage::Read => {
                black_box(frame.at);
            }
            Stage::Decode => {
                black_box(wire::decode(&frame).ok());
            }
            Stage::Flows | Stage::Detect | Stage::Rows => analysis.frame(&frame, &mut sink),
        }
    }
    analysis.finish(&mut sink);
    if let Some(writer) = sink.writer {
        writer.finish()?;
    }
    Ok(())
}

struct Stages {
    writer: Option<Writer<io::Sink>>,
    file: Arc<str>,
}

impl Stages {
    fn new(stage: Stage) -> Result<Self> {
        let rows = matches!(stage, Stage::Rows);
        let writer = rows.then(|| Writer::new::<SegmentRow>(io::sink(), Format::Csv));
        Ok(Self {
            writer: writer.transpose()?,
            file: Arc::from("capture.pcap"),
        })
    }
}

impl Sink for Stages {
    fn transfer(&mut self, _: &Transfer<'_>, metrics: &Metrics) {
        black_box(metrics);
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let judgement = black_box(judgement);
        if let Some(writer) = &mut self.writer {
            let row = SegmentRow {
                file: Arc::clone(&self.file),
                capture_start: 0,
                transfer: *transfer,
                detector: DETECTORS[0].name,
                judgement,
            };
            // Writing to a sink cannot fail.
            let _ = writer.rows(&[row]);
        }
    }
}
