//! How a link treats frames, without a clock, and which flow a frame belongs to.

use tidegate_lab::outcome::ElementOutcome;
use tidegate_lab::path::{Captured, Entering, Leaving, Path};
use tidegate_lab::plan::{ElementPlan, FlowPlan, Plan, Traffic};
use tidegate_lab::tcp::TcpConfig;
use tidegate_lab::{RunError, check};
use tidegate_limiter::{FlowKey, HashKey, Nanos, Ports, Prefix, Rate};

use super::LinkPlan;

#[cfg(test)]
mod tests;

/// Bytes of an Ethernet header without tags.
const HEADER: usize = 14;
/// IANA's numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Ethernet frames.
    Frames,
    /// IP packets.
    Packets,
}

impl Layer {
    /// Bytes before the IP header that do not count.
    fn header(self) -> usize {
        match self {
            Self::Frames => HEADER,
            Self::Packets => 0,
        }
    }
}

/// The running elements of a link.
#[derive(Debug)]
pub(super) struct Stages {
    layer: Layer,
    plan: Plan,
    /// The far ends of the plan's flows.
    far: Vec<Prefix>,
    /// Key of the flows' hash.
    secret: HashKey,
    path: Path,
}

impl Stages {
    /// The elements of a plan.
    pub(super) fn new(link: &LinkPlan, layer: Layer) -> Result<Self, RunError> {
        let plan = plan(link);
        check(&plan)?;
        let far = link.round_trips.iter().map(|&(far, _)| far);
        let header = match layer {
            Layer::Frames => ip_in_frame,
            Layer::Packets => ip_in_packet,
        };
        Ok(Self {
            layer,
            far: far.chain([Prefix::ALL]).collect(),
            secret: HashKey::from_bytes(
                (u128::from(!link.seed) << 64 | u128::from(link.seed)).to_le_bytes(),
            ),
            path: Path::new(&plan, header)?,
            plan,
        })
    }

    /// A frame came from one of the ends.
    pub(super) fn arrive(&mut self, at: Nanos, forward: bool, frame: &[u8]) {
        let key = key(frame, self.layer);
        let flow = key.and_then(|key| {
            let end = if forward { key.destination } else { key.source };
            self.far.iter().position(|far| far.contains(end))
        });
        let downloaded = key.map(|key| to_client(key, forward));
        // ARP and similar protocols belong to no flow, but hosts need them.
        let length = frame.len().saturating_sub(self.layer.header()) as u32;
        let entering = Entering {
            flow: flow.unwrap_or(self.far.len()),
            forward,
            length,
            payload: length,
            hash: downloaded.map_or(0, |key| key.hash(self.secret)),
            dscp: key.map_or(0, |key| key.dscp),
            key: downloaded,
        };
        self.path.enter(at, entering, frame);
    }

    /// The time of the next action.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.path.next()
    }

    /// Whether no packet is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.path.is_empty()
    }

    /// The next frame that must leave by now.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<Leaving> {
        self.path.leave(now)
    }

    /// The next frame that passed a tap.
    pub(super) fn take_captured(&mut self) -> Option<Captured> {
        self.path.take_captured()
    }

    /// The counts of the plan's elements so far, those forward first, and how full they are now.
    pub(super) fn counts(&mut self, now: Nanos) -> Vec<ElementOutcome> {
        let samples = self.path.occupancy(&self.plan, now);
        let counts = self.path.counts(&self.plan).into_iter();
        let counted = counts.zip(samples).map(|(count, sample)| ElementOutcome {
            samples: sample.into_iter().collect(),
            ..count
        });
        counted.collect()
    }

    /// Packets lost since the last call, forward and back.
    pub(super) fn dropped(&mut self) -> [u64; 2] {
        let mut sum = [0; 2];
        for [forward, back] in self.path.take_dropped() {
            sum[0] += forward;
            sum[1] += back;
        }
        sum
    }
}

/// A plan of the lab with a flow for each round trip, and one for all others.
fn plan(link: &LinkPlan) -> Plan {
    let kinds = link.forward.iter().chain(&link.back);
    let elements = kinds.enumerate().map(|(i, kind)| ElementPlan {
        name: format!("element {i}"),
        kind: kind.clone(),
    });
    let all = link.forward.len() + link.back.len();
    let delays = link.round_trips.iter().map(|&(_, delay)| delay).chain([0]);
    let flows = delays.enumerate().map(|(i, delay)| FlowPlan {
        name: format!("route {i}"),
        aggregate: 0,
        forward: (0..link.forward.len()).collect(),
        back: (link.forward.len()..all).collect(),
        delay,
        class: None,
        queue: None,
        dscp: 0,
        address: None,
        port: 443,
        client: None,
        start: 0,
        // Any value: it sends nothing.
        traffic: Traffic::Datagrams {
            rate: Rate::from_bits_per_second(1),
            bytes: 28,
            stop: None,
        },
        tcp: TcpConfig::default(),
    });
    Plan {
        seed: link.seed,
        duration: 1,
        window: 1,
        sample: None,
        connections: None,
        aggregates: vec!["link".into()],
        elements: elements.collect(),
        nodes: link.nodes.clone(),
        flows: flows.collect(),
    }
}

/// Where the IP header of a frame is, behind its tags, and of which version.
fn ip(frame: &[u8]) -> Option<(usize, u16)> {
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = HEADER;
    // IEEE 802.1Q and 802.1ad.
    while matches!(kind(at - 2)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    Some((at, kind(at - 2)?))
}

/// Where the IP header of a frame is.
fn ip_in_frame(frame: &[u8]) -> Option<usize> {
    let (at, kind) = ip(frame)?;
    // What the frame says of its content must be true.
    let (_, version) = version(frame.get(at..)?)?;
    (version == kind).then_some(at)
}

/// Where the IP header of an IP packet is.
fn ip_in_packet(packet: &[u8]) -> Option<usize> {
    version(packet).map(|(at, _)| at)
}

/// The IP header of a packet without Ethernet headers, and of which version it is.
fn version(packet: &[u8]) -> Option<(usize, u16)> {
    match packet.first()? >> 4 {
        4 => Some((0, 0x0800)),
        6 => Some((0, 0x86dd)),
        _ => None,
    }
}

/// The values that elements need of an IP packet.
fn key(frame: &[u8], layer: Layer) -> Option<FlowKey> {
    let (at, kind) = match layer {
        Layer::Frames => ip(frame)?,
        Layer::Packets => version(frame)?,
    };
    let ip = frame.get(at..)?;
    let (source, destination, protocol, next, class) = match kind {
        0x0800 if ip.len() >= 20 => {
            let address = |at: usize| {
                let mut address = [0; 16];
                address[10..12].fill(0xff);
                address[12..].copy_from_slice(&ip[at..at + 4]);
                address
            };
            // Fragments have no ports, so that those of a datagram stay together (RFC 791 §3.1).
            let whole = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0;
            let next = whole.then(|| usize::from(ip[0] & 15) * 4);
            (address(12), address(16), ip[9], next, ip[1])
        }
        0x86dd if ip.len() >= 40 => {
            let address = |at: usize| {
                let mut address = [0; 16];
                address.copy_from_slice(&ip[at..at + 16]);
                address
            };
            let class = ip[0] << 4 | ip[1] >> 4;
            (address(8), address(24), ip[6], Some(40), class)
        }
        _ => return None,
    };
    let ports = next.filter(|_| matches!(protocol, TCP | UDP));
    let ports = ports.and_then(|next| ip.get(next..next + 4));
    Some(FlowKey {
        source,
        destination,
        ports: ports.map(|ports| {
            let word = |at| u16::from_be_bytes([ports[at], ports[at + 1]]);
            Ports {
                source: word(0),
                destination: word(2),
            }
        }),
        protocol,
        dscp: class >> 2,
    })
}

/// The headers as they are on the way to the client: the same in both directions of a flow.
fn to_client(key: FlowKey, forward: bool) -> FlowKey {
    if forward {
        return key;
    }
    FlowKey {
        source: key.destination,
        destination: key.source,
        ports: key.ports.map(|ports| Ports {
            source: ports.destination,
            destination: ports.source,
        }),
        ..key
    }
}
