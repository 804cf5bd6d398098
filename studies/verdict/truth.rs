//! What limited a transfer of the lab, by what the lab knows: which packets came out of the
//! bottleneck, and how busy that was. Nothing here comes from Tidegate's measures but when the transfer
//! began and ended.

use std::collections::{HashMap, VecDeque};
use std::io::Cursor;
use std::sync::Arc;

use anyhow::{Context, Result};
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_limiter::LimiterConfig;
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::Cause;
use tidegate_trace::read::{Capture, Nanos};

use super::transfers::{Captured, Simulation};

/// Transfers with fewer losses were not limited by what drops.
const LEAST_LOSSES: usize = 3;
/// A link that was busy for this share of a transfer's time limited it.
const BUSY: f64 = 0.8;
/// A packet waited at the bottleneck if it took this much longer than the fastest: more than the lab's noise.
const WAITED: Nanos = 1_000_000;
/// A transfer switched from burst to shaping if this share of its packets came before, and if after that
/// this share of them waited, for at least half of its time.
const BURST: f64 = 0.05;
const SHAPED: f64 = 0.9;
/// Ethernet, IPv4 and TCP headers without options: a key that tells packets apart.
const HEADERS: usize = 54;
/// A frame's header, and its check sequence, which captures lack.
const ETHERNET: u32 = 14;
const CHECK_SEQUENCE: u32 = 4;
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
    /// Data packets towards the seen client that came out: when they were sent, and how long after that.
    transits: Vec<(Nanos, Nanos)>,
    /// The rate of a limiter in bit/s, as frames with their check sequence.
    shaping: Option<f64>,
}

impl Truth {
    /// Compares what was sent with what came out of the bottleneck.
    ///
    /// # Errors
    /// A capture cannot be read.
    pub fn of(simulation: &Simulation, captured: &Captured) -> Result<Self> {
        let mut passed = Vec::new();
        let mut came_out: HashMap<[u8; HEADERS], VecDeque<Nanos>> = HashMap::new();
        data_packets(&captured.behind, |at, headers, bytes| {
            came_out.entry(headers).or_default().push_back(at);
            passed.push((at, bytes));
        })?;
        let (mut dropped, mut transits) = (Vec::new(), Vec::new());
        let mut largest = 0;
        data_packets(&captured.server, |at, headers, bytes| {
            largest = largest.max(bytes);
            match came_out.get_mut(&headers).and_then(VecDeque::pop_front) {
                Some(out) => transits.push((at, out.saturating_sub(at))),
                None => dropped.push(at),
            }
        })?;
        let mut elements = simulation.plan.elements.iter();
        let bottleneck = elements
            .find(|element| element.name.starts_with("bottleneck"))
            .context("no bottleneck")?;
        let (mut link, mut shaping) = (None, None);
        match &bottleneck.kind {
            ElementKind::Link { rate, queue } => {
                link = Some((rate.bits_per_second() as f64 / 8.0, queue.clone()));
            }
            ElementKind::Limiter {
                config: LimiterConfig::Shaper(shaper),
                overhead,
                ..
            } => {
                let charged = largest - ETHERNET + overhead;
                let on_link = f64::from(largest + CHECK_SEQUENCE) / f64::from(charged.max(1));
                shaping = Some(shaper.rate().bits_per_second() as f64 * on_link);
            }
            _ => {}
        }
        Ok(Self {
            scenario: simulation.cause,
            link,
            dropped,
            passed,
            transits,
            shaping,
        })
    }

    /// Where a burst-tolerant shaper's allowance was used up in a transfer: when the first packet that waited
    /// was sent, and the shaping rate in bit/s on the link. `None` where no burst passed before, or where
    /// the shaper was not what limited the transfer then.
    pub fn switch(&self, transfer: &TransferSummary) -> Option<(Nanos, f64)> {
        let first = transfer.metrics.first_sent;
        let last = first + transfer.metrics.duration;
        let least = self.transits.iter().map(|&(_, transit)| transit).min()?;
        let waited: Vec<(Nanos, bool)> = self
            .transits
            .iter()
            .filter(|(at, _)| (first..=last).contains(at))
            .map(|&(at, transit)| (at, transit >= least + WAITED))
            .collect();
        let place = waited.iter().position(|&(_, waited)| waited)?;
        let (at, behind) = (waited[place].0, &waited[place..]);
        let shaped = behind.iter().filter(|(_, waited)| *waited).count();
        let is_switch = place as f64 >= BURST * waited.len() as f64
            && shaped as f64 >= SHAPED * behind.len() as f64
            && last - at >= transfer.metrics.duration / 2;
        Some((at, self.shaping?)).filter(|_| is_switch)
    }

    /// The bottleneck's queue, if it is a link.
    pub fn queue(&self) -> Option<&QueueKind> {
        Some(&self.link.as_ref()?.1)
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
            (Cause::ShaperBurst, _) => {
                (lost || self.switch(transfer).is_some()).then_some(Cause::ShaperBurst)
            }
            (cause @ (Cause::Policer | Cause::RandomLoss), _) => lost.then_some(cause),
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
