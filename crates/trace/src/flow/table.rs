//! All active flows, within bounds.

use std::collections::HashMap;
use std::hash::RandomState;

use super::foreign::Foreign;
use super::settings::Settings;
use super::sink::{Ended, FlowSink};
use super::tracker::Flow;
use crate::annotate::Measurer;
use crate::read::{Frame, Nanos};
use crate::wire::{self, Endpoint, Packet, Skip};

/// A clock that goes back by this is set, in nanoseconds.
const STEP: Nanos = 1_000_000_000;

/// What became of a capture's frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// All frames.
    pub frames: u64,
    /// TCP packets, followed.
    pub tcp: u64,
    /// Frames that are not IP.
    pub not_ip: u64,
    /// What they are, where the link layer tells.
    pub foreign: Foreign,
    /// IP packets that are not TCP.
    pub not_tcp: u64,
    /// Which protocols they have, of those before the first TCP packet.
    pub protocols: Foreign,
    /// Parts of fragmented IP packets with TCP, left out.
    pub fragments: u64,
    /// Frames that the capture cut before the TCP flags.
    pub cut: u64,
    /// TCP packets whose options the capture cut, so that selective acknowledgements and
    /// timestamps may be missing.
    pub options_cut: u64,
    /// TCP packets that a mirror or tap cut, and whose lengths are those that their headers state.
    pub sliced: u64,
    /// Frames whose headers contradict themselves.
    pub malformed: u64,
    /// Times that the clock went backwards.
    pub backwards: u64,
    /// Of these, by a second or more: that is no other order of packets.
    pub stepped_back: u64,
    /// Flows seen.
    pub flows: u64,
    /// Flows ended early because too many were active at once.
    pub evicted: u64,
    /// The time that the frames span; `None` without any.
    pub span: Option<Span>,
}

impl Counters {
    /// Counts a frame without a TCP packet.
    pub(crate) fn skip(&mut self, frame: &Frame<'_>, skip: Skip) {
        if skip == Skip::NotIp
            && let Some(kind) = wire::ethernet_type(frame)
        {
            self.foreign.add(kind);
        }
        if skip == Skip::NotTcp
            && self.tcp == 0
            && let Some(protocol) = wire::ip_protocol(frame)
        {
            self.protocols.add(protocol.into());
        }
        *match skip {
            Skip::NotIp => &mut self.not_ip,
            Skip::NotTcp => &mut self.not_tcp,
            Skip::Fragment => &mut self.fragments,
            Skip::Cut => &mut self.cut,
            Skip::Malformed => &mut self.malformed,
        } += 1;
    }
}

/// The time from the earliest frame to the latest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// When the earliest frame was captured.
    pub first: Nanos,
    /// When the latest frame was captured.
    pub last: Nanos,
}

/// Both ends of a flow, whichever way the packet went.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key(Endpoint, Endpoint);

impl Key {
    #[inline]
    fn of(packet: &Packet) -> Self {
        if packet.src <= packet.dst {
            Self(packet.src, packet.dst)
        } else {
            Self(packet.dst, packet.src)
        }
    }
}

/// Follows all flows of a capture, and hands what is done to a [`FlowSink`].
///
/// Memory is bounded by [`Settings`], whatever the capture holds.
pub struct FlowTable {
    settings: Settings,
    // Captures are hostile input: the hash is keyed.
    by_key: HashMap<Key, u32, RandomState>,
    // A flow has almost 2 kB, which are not moved.
    flows: Vec<Option<Box<Flow>>>,
    free: Vec<u32>,
    /// The flow of the last packet: the next is often of the same.
    last: Option<(Key, u32)>,
    measurer: Measurer,
    counters: Counters,
    now: Nanos,
    earliest: Nanos,
    swept_at: Nanos,
    packets_to_sweep: usize,
}

impl FlowTable {
    /// An empty table.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            by_key: HashMap::with_hasher(RandomState::new()),
            flows: Vec::new(),
            free: Vec::new(),
            last: None,
            measurer: Measurer::default(),
            counters: Counters::default(),
            now: 0,
            earliest: Nanos::MAX,
            swept_at: 0,
            packets_to_sweep: 0,
        }
    }

    /// What became of the frames so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many flows are active.
    pub fn active_flows(&self) -> usize {
        self.by_key.len()
    }

    /// What is kept for all of them, in packets, which [`Settings::max_packets`] bounds. Each call
    /// counts it again.
    pub fn kept(&self) -> usize {
        self.flows.iter().flatten().map(|flow| flow.kept()).sum()
    }

    /// Decodes a frame and takes its packet. A frame without a TCP packet raises a counter.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>, sink: &mut impl FlowSink) {
        self.counters.frames += 1;
        let span = self.counters.span.get_or_insert(Span {
            first: frame.at,
            last: frame.at,
        });
        span.first = span.first.min(frame.at);
        span.last = span.last.max(frame.at);
        match wire::decode(frame) {
            Ok(packet) => self.take(&packet, wire::interface(frame), sink),
            Err(skip) => self.counters.skip(frame, skip),
        }
    }

    /// Takes a TCP packet.
    #[inline]
    pub fn packet(&mut self, packet: &Packet, sink: &mut impl FlowSink) {
        self.take(packet, None, sink);
    }

    /// Takes a TCP packet, and of a capture of all interfaces that on which it was seen.
    #[inline]
    fn take(&mut self, packet: &Packet, interface: Option<u32>, sink: &mut impl FlowSink) {
        self.counters.tcp += 1;
        self.counters.options_cut += u64::from(packet.options.cut);
        self.counters.sliced += u64::from(packet.sliced);
        if packet.at < self.now {
            self.counters.backwards += 1;
            self.counters.stepped_back += u64::from(self.now - packet.at >= STEP);
        }
        self.now = packet.at;
        // A super-packet is as many packets as it is split into.
        self.tend(1 + packet.payload as usize / 1460, sink);
        let key = Key::of(packet);
        let slot = match self.last {
            Some((last, slot)) if last == key => Some(slot),
            _ => self.by_key.get(&key).copied(),
        };
        let slot = match slot {
            Some(slot) => {
                let stale = match &self.flows[slot as usize] {
                    Some(flow) if flow.is_reused_by(packet) => Some(Ended::Reused),
                    Some(flow)
                        if packet.at.saturating_sub(flow.last) > self.settings.idle_timeout =>
                    {
                        Some(Ended::Idle)
                    }
                    _ => None,
                };
                if let Some(ended) = stale {
                    self.end(slot, key, ended, sink);
                    self.open(key, packet)
                } else {
                    slot
                }
            }
            None => {
                if self.by_key.len() >= self.settings.max_flows {
                    // A quarter, so that the search pays.
                    self.evict(self.by_key.len() / 4 + 1, |_| 1, sink);
                }
                self.open(key, packet)
            }
        };
        self.last = Some((key, slot));
        if let Some(flow) = &mut self.flows[slot as usize] {
            flow.packet(packet, interface, &self.settings, &mut self.measurer, sink);
        }
    }

    /// It is this time, and later packets are not older: ends the flows that are over. For live traffic, which may pause.
    pub fn time(&mut self, now: Nanos, sink: &mut impl FlowSink) {
        if now.abs_diff(self.swept_at) >= self.settings.linger {
            self.earliest = now;
            self.sweep(sink);
        }
    }

    /// The capture is over: hands everything that is left to the sink, in the order of the flows.
    pub fn finish(&mut self, sink: &mut impl FlowSink) {
        self.by_key.clear();
        self.free.clear();
        self.last = None;
        self.flows.retain(Option::is_some);
        self.flows
            .sort_unstable_by_key(|flow| flow.as_ref().map(|flow| flow.info.number));
        for flow in self.flows.drain(..).flatten() {
            let ended = if flow.closed {
                Ended::Closed
            } else {
                Ended::CaptureEnd
            };
            flow.finish(ended, &mut self.measurer, sink);
        }
    }

    fn open(&mut self, key: Key, packet: &Packet) -> u32 {
        let flow = Box::new(Flow::new(self.counters.flows, packet));
        self.counters.flows += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            (self.flows.len() - 1) as u32
        });
        self.flows[slot as usize] = Some(flow);
        self.by_key.insert(key, slot);
        slot
    }

    fn end(&mut self, slot: u32, key: Key, ended: Ended, sink: &mut impl FlowSink) {
        self.by_key.remove(&key);
        self.last = None;
        if let Some(flow) = self.flows[slot as usize].take() {
            self.free.push(slot);
            flow.finish(ended, &mut self.measurer, sink);
        }
    }

    /// Ends flows that are over, from time to time.
    ///
    /// A sweep looks at every flow, so there is at least a packet between two sweeps for each of
    /// them, whatever the timestamps say: the cost for a packet is constant.
    #[inline]
    fn tend(&mut self, weight: usize, sink: &mut impl FlowSink) {
        self.earliest = self.earliest.min(self.now);
        if self.packets_to_sweep > 0 {
            self.packets_to_sweep = self.packets_to_sweep.saturating_sub(weight);
            return;
        }
        self.sweep(sink);
    }

    #[cold]
    fn sweep(&mut self, sink: &mut impl FlowSink) {
        self.packets_to_sweep = self.flows.len().max(1024);
        // The earliest time since the last sweep. So no flow counts as idle because another
        // interface's clock is ahead, or because the time of one packet is wrong.
        let now = std::mem::replace(&mut self.earliest, Nanos::MAX);
        if now.abs_diff(self.swept_at) >= self.settings.linger {
            self.swept_at = now;
            let settings = self.settings;
            self.end_where(sink, |flow| {
                let quiet = now.saturating_sub(flow.last);
                if flow.closed && quiet > settings.linger {
                    Some(Ended::Closed)
                } else {
                    (quiet > settings.idle_timeout).then_some(Ended::Idle)
                }
            });
        }
        let kept = self.kept();
        if kept > self.settings.max_packets {
            let excess = kept - self.settings.max_packets / 4 * 3;
            self.evict(excess, Flow::kept, sink);
        }
    }

    /// Ends the flows that were quiet the longest, until `excess` of what `weight` counts is gone.
    /// It ends as many as that takes, even a busy flow: a flow that grows without end cannot hide
    /// behind others that come and go.
    fn evict(&mut self, excess: usize, weight: impl Fn(&Flow) -> usize, sink: &mut impl FlowSink) {
        let mut quietest: Vec<(Nanos, u64, usize)> = self
            .flows
            .iter()
            .flatten()
            .map(|flow| (flow.last, flow.info.number, weight(flow)))
            .collect();
        quietest.sort_unstable();
        let mut freed = 0;
        let Some(&(last, number, _)) = quietest.iter().find(|&&(_, _, weight)| {
            freed += weight;
            freed >= excess
        }) else {
            return;
        };
        self.counters.evicted += self.end_where(sink, |flow| {
            ((flow.last, flow.info.number) <= (last, number)).then_some(Ended::Evicted)
        });
    }

    fn end_where(
        &mut self,
        sink: &mut impl FlowSink,
        mut over: impl FnMut(&Flow) -> Option<Ended>,
    ) -> u64 {
        let mut ended: Vec<(u64, u32, Ended)> = (0..)
            .zip(&self.flows)
            .filter_map(|(slot, flow)| {
                let flow = flow.as_ref()?;
                Some((flow.info.number, slot, over(flow)?))
            })
            .collect();
        if ended.is_empty() {
            return 0;
        }
        self.last = None;
        ended.sort_unstable_by_key(|&(number, ..)| number);
        for &(_, slot, why) in &ended {
            if let Some(flow) = self.flows[slot as usize].take() {
                self.free.push(slot);
                flow.finish(why, &mut self.measurer, sink);
            }
        }
        let flows = &self.flows;
        self.by_key
            .retain(|_, &mut slot| flows[slot as usize].is_some());
        ended.len() as u64
    }
}
