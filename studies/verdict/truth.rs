//! What limited a transfer of the lab, by what the lab knows: which packets came out of the
//! bottleneck, and how busy that was. Nothing here comes from Tidegate's measures but when the transfer
//! began and ended.

use std::collections::{HashMap, VecDeque};
use std::io::Cursor;
use std::sync::Arc;

use anyhow::Result;
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
/// A link that was busy for less than this left a transfer's rate to its ends.
const HARDLY_BUSY: f64 = 0.5;
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
/// Bytes of a full frame.
const FRAME: u64 = 1514;
/// A managed queue with room for fewer packets is full before it is managed, or soon after.
const FEW_PACKETS: usize = 10;
/// Longer frames carry data.
const NO_DATA: u32 = 100;
/// The client's port of the first connection of the first flow.
const FIRST_PORT: u16 = 10_000;
/// The server's port.
const PORT: [u8; 2] = 443u16.to_be_bytes();

/// A data packet that the bottleneck dropped.
#[derive(Debug)]
struct Drop {
    /// The client's port.
    port: u16,
    /// When it was sent.
    at: Nanos,
    /// Packets of the capture that were in the bottleneck when it came there.
    waiting: usize,
}

/// What became of the packets of a simulation.
#[derive(Debug)]
pub struct Truth {
    scenario: Cause,
    /// The rate in bytes a second and the queue of the bottleneck, if it is a link, or else of the link
    /// behind it.
    link: Option<(f64, QueueKind)>,
    /// Bytes of the largest frame.
    largest: u32,
    dropped: Vec<Drop>,
    /// All that came out of the bottleneck: when, and its bytes.
    passed: Vec<(Nanos, u32)>,
    /// Data packets towards the seen client that came out: when they were sent, and how long after that.
    transits: Vec<(Nanos, Nanos)>,
    /// The rate of a limiter in bit/s, as frames with their check sequence.
    shaping: Option<f64>,
    /// The same of a policer, and the bytes that its bucket holds.
    bucket: Option<(f64, f64)>,
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
        // Half of a flow's delay is between the server and the bottleneck.
        let flows = &simulation.plan.flows;
        let delay = |port: u16| flows[usize::from(port - FIRST_PORT) % flows.len()].delay / 2;
        let (mut sent, mut transits) = (Vec::new(), Vec::new());
        let mut largest = 0;
        data_packets(&captured.server, |at, headers, bytes| {
            largest = largest.max(bytes);
            let port = u16::from_be_bytes([headers[36], headers[37]]);
            let out = came_out.get_mut(&headers).and_then(VecDeque::pop_front);
            transits.extend(out.map(|out| (at, out.saturating_sub(at))));
            sent.push((at + delay(port), out, port));
        })?;
        sent.sort_unstable();
        let mut dropped = Vec::new();
        // When the packets come out that are in the bottleneck.
        let mut inside: VecDeque<Nanos> = VecDeque::new();
        for (at, out, port) in sent {
            while inside.front().is_some_and(|&out| out <= at) {
                inside.pop_front();
            }
            match out {
                Some(out) => inside.push_back(out),
                None => dropped.push(Drop {
                    port,
                    at: at - delay(port),
                    waiting: inside.len(),
                }),
            }
        }
        let (mut link, mut shaping, mut bucket) = (None, None, None);
        // What a limiter charges for a frame counts as much more on the link.
        let on_link = |overhead: u32| {
            let charged = largest - ETHERNET + overhead;
            f64::from(largest + CHECK_SEQUENCE) / f64::from(charged.max(1))
        };
        for element in &simulation.plan.elements {
            match &element.kind {
                ElementKind::Link { rate, queue } if is_bottleneck(&element.name) => {
                    link = Some((rate.bits_per_second() as f64 / 8.0, queue.clone()));
                }
                ElementKind::Limiter {
                    config: LimiterConfig::Shaper(shaper),
                    overhead,
                    ..
                } => {
                    shaping = Some(shaper.rate().bits_per_second() as f64 * on_link(*overhead));
                }
                ElementKind::Limiter {
                    config: LimiterConfig::Policer(policer),
                    overhead,
                    ..
                } => {
                    let [rate, burst] = [policer.rate().bits_per_second(), policer.burst()]
                        .map(|limit| limit as f64 * on_link(*overhead));
                    bucket = Some((rate, burst));
                }
                _ => {}
            }
        }
        Ok(Self {
            scenario: simulation.cause,
            link,
            largest,
            dropped,
            passed,
            transits,
            shaping,
            bucket,
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

    /// The rate of a policer in bit/s and the bytes that its bucket holds, both as frames on the link.
    pub fn bucket(&self) -> Option<(f64, f64)> {
        self.bucket
    }

    /// The bottleneck's rate in bit/s, if it is a link, and what its drop-tail queue holds in bytes, both as full frames
    /// with their check sequence.
    pub fn link(&self) -> Option<(f64, Option<f64>)> {
        let (rate, queue) = self.link.as_ref()?;
        let on_link = f64::from(self.largest + CHECK_SEQUENCE) / f64::from(self.largest);
        let size = match *queue {
            QueueKind::DropTail { bytes, packets } => {
                let packets = packets.map(|packets| packets * u64::from(self.largest));
                bytes.or(packets).map(|bytes| bytes as f64 * on_link)
            }
            _ => None,
        };
        Some((rate * 8.0 * on_link, size))
    }

    /// What limited a transfer; `None` where the lab cannot say either.
    pub fn cause(&self, transfer: &TransferSummary) -> Option<Cause> {
        let first = transfer.metrics.first_sent;
        let last = first + transfer.metrics.duration;
        let of_transfer = |drop: &&Drop| {
            drop.port == transfer.receiver.port() && (first..=last).contains(&drop.at)
        };
        let dropped = || self.dropped.iter().filter(of_transfer);
        let lost = dropped().count() >= LEAST_LOSSES;
        let during = self
            .passed
            .iter()
            .filter(|(at, _)| (first..=last).contains(at));
        let bytes: u64 = during.map(|&(_, bytes)| u64::from(bytes)).sum();
        let seconds = transfer.metrics.duration as f64 / 1e9;
        let busy = |rate: f64| bytes as f64 / (rate * seconds);
        match (self.scenario, &self.link) {
            (Cause::Queue | Cause::Aqm, Some((rate, queue))) => match (lost, busy(*rate) >= BUSY) {
                (true, _) => dropped_by(queue, dropped()),
                (false, true) => Some(Cause::Queue),
                _ => None,
            },
            (Cause::ShaperBurst, _) => {
                (lost || self.switch(transfer).is_some()).then_some(Cause::ShaperBurst)
            }
            // Random losses on the way to a line that is full limit no more than the line does.
            (Cause::RandomLoss, Some((rate, _))) if busy(*rate) >= BUSY => None,
            // A sender that loses packets in a queue, and then takes long to repair that.
            (Cause::Sender, Some((rate, _))) if busy(*rate) >= HARDLY_BUSY => None,
            (cause @ (Cause::Policer | Cause::RandomLoss), _) => lost.then_some(cause),
            (cause, _) => Some(cause),
        }
    }

    /// What dropped all the packets of the capture that were dropped; `None` where that is not clear.
    pub fn of_drops(&self) -> Option<Cause> {
        match (self.scenario, &self.link) {
            (Cause::Queue | Cause::Aqm, Some((_, queue))) => dropped_by(queue, self.dropped.iter()),
            (cause, _) => Some(cause),
        }
    }

    /// Whether a policer was on the way.
    pub fn is_policed(&self) -> bool {
        self.scenario == Cause::Policer
    }
}

/// Whether an element is the bottleneck, or the line behind what loses packets at random.
fn is_bottleneck(name: &str) -> bool {
    name.starts_with("bottleneck") || name.starts_with("access")
}

/// Which queue some drops are of; `None` where a managed one has room for so few packets that it is full before it is
/// managed.
fn dropped_by<'a>(queue: &QueueKind, drops: impl Iterator<Item = &'a Drop>) -> Option<Cause> {
    if matches!(queue, QueueKind::DropTail { .. }) {
        return Some(Cause::Queue);
    }
    let most = most_packets(queue);
    // A managed queue that is full drops as any other.
    let (mut all, mut overflowed) = (0, 0);
    for drop in drops {
        all += 1;
        overflowed += usize::from(drop.waiting >= most);
    }
    let cause = match 2 * overflowed < all {
        true => Cause::Aqm,
        false => Cause::Queue,
    };
    Some(cause).filter(|_| most >= FEW_PACKETS)
}

/// How many full packets a managed queue holds.
fn most_packets(queue: &QueueKind) -> usize {
    let packets = match queue {
        QueueKind::CoDel { packets, .. }
        | QueueKind::Pie { packets, .. }
        | QueueKind::FqCoDel { packets, .. }
        | QueueKind::DualPi2 { packets, .. } => *packets,
        QueueKind::Red { limit, .. } => limit / FRAME,
        // Without a limit, CAKE has at least 4 MiB.
        QueueKind::Cake(cake) => cake.limit.unwrap_or(4 << 20) / FRAME,
        QueueKind::DropTail { .. } => return usize::MAX,
    };
    packets as usize
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
