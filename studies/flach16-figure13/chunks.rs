//! What a capture at the server says of each chunk: measures, and the detector's verdict.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use tidegate_trace::annotate::{Metrics, Transfer};
use tidegate_trace::detect::Pd;
use tidegate_trace::detect::pd::Code;
use tidegate_trace::flow::Settings;
use tidegate_trace::read::Capture;
use tidegate_trace::wire;
use tidegate_trace::{Options, Sink, analyse};

/// A chunk.
pub struct Chunk {
    /// Payload in Mbit/s, from the first packet to the last acknowledgement.
    pub goodput: f64,
    /// Lost packets over sent ones, 0 to 1, as the capture shows them.
    pub loss: f64,
    /// Policed, or what rules it out.
    pub code: Code,
}

struct Chunks {
    detector: Pd,
    all: Vec<Chunk>,
}

impl Sink for Chunks {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        // Not the request.
        if metrics.data_packets > 100 {
            self.all.push(Chunk {
                goodput: metrics.goodput_bps().unwrap_or(0.0) / 1e6,
                loss: metrics.loss_rate(),
                code: self.detector.judge(transfer).deciding().code,
            });
        }
    }
}

/// The chunks in a capture.
pub fn read(capture: &Path) -> Result<Vec<Chunk>> {
    let mut chunks = Chunks {
        detector: Pd::published(),
        all: Vec::new(),
    };
    let options = Options::measuring(Settings::default());
    analyse(File::open(capture)?, options, &mut chunks).whole()?;
    Ok(chunks.all)
}

/// Places in a sequence graph: seconds since the first data packet, and kilobytes.
type Points = Vec<(f64, f64)>;

/// The sequence graph of a capture's server: what it sent, retransmissions as dips, and what was
/// acknowledged.
pub fn sequence(capture: &Path, seconds: f64) -> Result<(Points, Points)> {
    let mut capture = Capture::new(File::open(capture)?)?;
    let mut origin = None;
    let (mut sent, mut acknowledged) = (Vec::new(), Vec::new());
    while let Some(frame) = capture.frame()? {
        let Ok(packet) = wire::decode(&frame) else {
            continue;
        };
        let data = packet.payload > 1000;
        if data && origin.is_none() {
            origin = Some((packet.at, packet.seq, packet.src));
        }
        let Some((start, first, server)) = origin else {
            continue;
        };
        let time = packet.at.saturating_sub(start) as f64 / 1e9;
        let kilobytes = |seq: u32| f64::from(seq.wrapping_sub(first)) / 1e3;
        if time > seconds {
            break;
        }
        if data {
            sent.push((time, kilobytes(packet.seq)));
        } else if packet.src != server {
            acknowledged.push((time, kilobytes(packet.ack)));
        }
    }
    Ok((sent, acknowledged))
}
