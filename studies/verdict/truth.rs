//! What limited a transfer of the lab, by what the lab knows: which packets came out of the
//! bottleneck, and how busy that was. Nothing here comes from Tidegate's measures but when the transfer
//! began and ended.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use anyhow::{Context, Result};
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::Cause;
use tidegate_trace::read::{Capture, Nanos};

use super::transfers::{Captured, Simulation};

/// Transfers with fewer losses were not limited by what drops.
const LEAST_LOSSES: usize = 3;
/// A link that was busy for this share of a transfer's time limited it.
const BUSY: f64 = 0.8;
/// Ethernet, IPv4 and TCP headers without options: a key that tells packets apart.
const HEADERS: usize = 54;
/// Longer frames carry data.
const NO_DATA: u32 = 100;
/// The server's port.
const PORT: [u8; 2] = 443u16.to_be_bytes();

/// What became of the packets of a simulation.
#[derive(Debug)]
pub struct Truth {
    scenario: Cause,
    /// The bottleneck's rate in bytes a second and its queue, if it is a link.
    link: Option<(f64, QueueKind)>,
    /// Data packets towards the seen client that the bottleneck dropped.
    dropped: Vec<Nanos>,
    /// All that came out of the bottleneck: when, and its bytes.
    passed: Vec<(Nanos, u32)>,
}

impl Truth {
    /// Compares what was sent with what came out of the bottleneck.
    ///
    /// # Errors
    /// A capture cannot be read.
    pub fn of(simulation: &Simulation, captured: &Captured) -> Result<Self> {
        let mut passed = Vec::new();
        let mut came_out: HashMap<[u8; HEADERS], u32> = HashMap::new();
        data_packets(&captured.behind, |at, headers, bytes| {
            *came_out.entry(headers).or_default() += 1;
            passed.push((at, bytes));
        })?;
        let mut dropped = Vec::new();
        data_packets(&captured.server, |at, headers, _| {
            match came_out.get_mut(&headers).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => dropped.push(at),
            }
        })?;
        let mut elements = simulation.plan.elements.iter();
        let bottleneck = elements
            .find(|element| element.name.starts_with("bottleneck"))
            .context("no bottleneck")?;
        let link = match &bottleneck.kind {
            ElementKind::Link { rate, queue } => {
                Some((rate.bits_per_second() as f64 / 8.0, queue.clone()))
            }
            _ => None,
        };
        Ok(Self {
            scenario: simulation.cause,
            link,
            dropped,
            passed,
        })
    }

    /// What limited a transfer; `None` where the lab cannot say either.
    pub fn cause(&self, transfer: &TransferSummary) -> Option<Cause> {
        let first = transfer.metrics.first_sent;
        let last = first + transfer.metrics.duration;
        let dropped = self
            .dropped
            .iter()
            .filter(|&&at| (first..=last).contains(&at));
        let lost = dropped.count() >= LEAST_LOSSES;
        match (self.scenario, &self.link) {
            (Cause::Queue | Cause::Aqm, Some((rate, queue))) => {
                let managed = !matches!(queue, QueueKind::DropTail { .. });
                let during = self
                    .passed
                    .iter()
                    .filter(|(at, _)| (first..=last).contains(at));
                let bytes: u64 = during.map(|&(_, bytes)| u64::from(bytes)).sum();
                let seconds = transfer.metrics.duration as f64 / 1e9;
                let busy = bytes as f64 >= BUSY * rate * seconds;
                match (lost, managed, busy) {
                    (true, true, _) => Some(Cause::Aqm),
                    (true, false, _) | (false, _, true) => Some(Cause::Queue),
                    _ => None,
                }
            }
            (cause @ (Cause::Policer | Cause::RandomLoss | Cause::ShaperBurst), _) => {
                lost.then_some(cause)
            }
            (cause, _) => Some(cause),
        }
    }
}

/// The data packets that servers sent: time, headers, bytes at the link layer.
fn data_packets(pcap: &Arc<[u8]>, mut each: impl FnMut(Nanos, [u8; HEADERS], u32)) -> Result<()> {
    let mut capture = Capture::new(Cursor::new(Arc::clone(pcap)))?;
    while let Some(frame) = capture.frame()? {
        let headers = frame.data.first_chunk::<HEADERS>();
        if let Some(headers) = headers.filter(|headers| headers[34..36] == PORT)
            && frame.wire_len > NO_DATA
        {
            each(frame.at, *headers, frame.wire_len);
        }
    }
    Ok(())
}
