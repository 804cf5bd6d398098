//! One active flow.

mod stray;

use std::collections::VecDeque;

use super::directions::Directions;
use super::duplicate::Recent;
use super::echoes::{Echoes, Told};
use super::segment::{Segment, Side};
use super::segmentation::SegmentSize;
use super::settings::Settings;
use super::sink::{Ended, FlowSink, FlowSummary};
use super::window::{announced_window, scale_is_known};
use crate::annotate::sender::{Payload, Progress, Seen, Sender};
use crate::annotate::{
    Brief, FlowInfo, Handshake, Measurer, Path, Sent, Sign, Totals, Transfer, Vantage, complete,
    with_echoes,
};
use crate::read::Nanos;
use crate::wire::{Endpoint, Flags, Packet, Timestamps};
use stray::Strays;

/// Segments that wait for their last acknowledgements; a flow with more has lost its reverse path.
const MAX_WAITING: usize = 64;
/// The memory of a segment, in packets.
const SEGMENT_WEIGHT: usize = 4;
/// A packet this many bytes away from where its stream is belongs to another connection.
const MAX_JUMP: u64 = 1 << 28;

/// The side that opened the flow is 0, the other 1.
pub(super) const CLIENT: usize = 0;
const SERVER: usize = 1;

pub(super) struct Flow {
    pub info: FlowInfo,
    /// When the last packet came.
    pub last: Nanos,
    /// Both sides finished, or one reset.
    pub closed: bool,
    senders: [Sender; 2],
    sizes: [SegmentSize; 2],
    /// Window scales: outer `None` where the SYN was not seen, inner where it had none.
    scales: [Option<Option<u8>>; 2],
    /// Sequence number of each side's SYN.
    syn: [Option<u32>; 2],
    recent: [Recent; 2],
    strays: Strays,
    /// Timestamps on their way to each side.
    echoes: [Echoes; 2],
    /// The least round-trip time from end to end.
    round_trip: Option<Nanos>,
    mss: [u32; 2],
    segments: VecDeque<Segment>,
    next_segment: u32,
    /// Packets of each side that were put in where they were lost before the capture.
    completed: [u64; 2],
    segments_with_data: u64,
    directions: Directions,
    /// The server has sent data since the last request.
    responding: bool,
    totals: [Option<Box<Totals>>; 2],
}

impl Flow {
    pub fn new(number: u64, packet: &Packet) -> Self {
        let syn = packet.flags.has(Flags::SYN);
        let client_sent = if syn {
            !packet.flags.has(Flags::ACK)
        } else {
            !looks_like_server(packet.src, packet.dst)
        };
        let (client, server) = if client_sent {
            (packet.src, packet.dst)
        } else {
            (packet.dst, packet.src)
        };
        Self {
            info: FlowInfo {
                number,
                client,
                server,
                started_at: packet.at,
                syn_seen: syn && client_sent,
                handshake: Handshake::default(),
                roles_known: syn,
            },
            last: packet.at,
            closed: false,
            senders: Default::default(),
            sizes: Default::default(),
            scales: [None; 2],
            syn: [None; 2],
            recent: Default::default(),
            strays: Strays::default(),
            echoes: Default::default(),
            round_trip: None,
            mss: [0; 2],
            // Most flows of a scan or a flood have one, and there can be many such.
            segments: VecDeque::with_capacity(1),
            next_segment: 0,
            completed: [0; 2],
            segments_with_data: 0,
            directions: Directions::default(),
            responding: false,
            totals: [None, None],
        }
    }

    /// Which side sent a packet of this flow.
    #[inline]
    pub fn side(&self, packet: &Packet) -> usize {
        if packet.src == self.info.client {
            CLIENT
        } else {
            SERVER
        }
    }

    /// Whether the packet opens another connection between the same ports.
    #[inline]
    pub fn is_reused_by(&self, packet: &Packet) -> bool {
        let side = self.side(packet);
        if packet.flags.has(Flags::SYN) {
            if packet.flags.has(Flags::ACK) {
                return false;
            }
            // A SYN again is a retransmission; another SYN is another connection.
            return match self.syn[side] {
                Some(seq) => seq != packet.seq,
                None => {
                    // A SYN captured after the SYN-ACK that answers it: two capture queues.
                    let sender = &self.senders[side];
                    let late = sender.max() == sender.position(packet.seq) + 1;
                    self.closed || (sender.max() != 0 && !late)
                }
            };
        }
        // The connection is over, and this is far from its end: the SYN of another was not captured.
        let sender = &self.senders[side];
        self.closed
            && packet.payload > 0
            && sender.max() != 0
            && sender.position(packet.seq).abs_diff(sender.max()) > MAX_JUMP
    }

    /// What is kept for this flow, in packets.
    pub fn kept(&self) -> usize {
        let senders: usize = self.senders.iter().map(Sender::kept).sum();
        let totals: usize = self.totals.iter().flatten().map(|side| side.kept()).sum();
        let echoes: usize = self.echoes.iter().map(Echoes::len).sum();
        let recent: usize = self.recent.iter().map(Recent::kept).sum();
        let strays = self.strays.kept();
        echoes / 4 + senders + self.segments.len() * SEGMENT_WEIGHT + totals + recent + strays
    }

    /// Takes a packet of a side.
    #[inline]
    fn take(
        &mut self,
        packet: &Packet,
        side: usize,
        settings: &Settings,
        measurer: &mut Measurer,
        sink: &mut impl FlowSink,
    ) {
        if self.directions.learn(side, packet.outbound) {
            self.update_vantage();
        }
        let syn = packet.flags.has(Flags::SYN);
        if syn {
            self.info.syn_seen |= side == CLIENT;
            self.syn[side] = Some(packet.seq);
            // Where the capture cut the options, the scale may be among what is missing.
            let is_known = packet.options.window_scale.is_some() || !packet.options.cut;
            self.scales[side] = is_known.then_some(packet.options.window_scale);
            self.sizes[side].learn(packet);
        }
        if syn || self.info.handshake.is_open() {
            let from_client = side == CLIENT;
            self.info
                .handshake
                .packet(from_client, packet.flags, packet.at);
            self.update_vantage();
        }
        let position = self.senders[side].position(packet.seq) + u64::from(syn);
        self.senders[side].begin(position);
        let payload = self.senders[side].classify(position, packet.payload);
        if self.divide(packet, side, position, payload, settings) {
            self.finish_settled(measurer, sink);
        }
        let resets = packet.flags.has(Flags::RST);
        let other = &self.senders[1 - side];
        let acknowledges = !resets && self.strays.acknowledges(packet, side, other);
        let echo = match acknowledges {
            true => self.echo(packet, side),
            false => Brief::NONE,
        };
        self.send(packet, side, position, payload, echo);
        if resets {
            self.closed = true;
            return;
        }
        if packet.flags.has(Flags::FIN) {
            self.senders[side].finish(position + u64::from(packet.payload));
        }
        if acknowledges {
            self.acknowledge(packet, 1 - side, settings);
        }
        self.closed |= self
            .senders
            .iter()
            .all(|sender| sender.fin && sender.is_quiet());
    }

    /// Begins a new segment where the packet is a new request, or the segment has grown too long;
    /// whether it did.
    fn divide(
        &mut self,
        packet: &Packet,
        side: usize,
        position: u64,
        payload: Payload,
        settings: &Settings,
    ) -> bool {
        if payload == Payload::None && !self.segments.is_empty() {
            return false;
        }
        let speaks = match payload {
            Payload::New => true,
            Payload::Old => !settings.join_repeated_requests,
            Payload::None | Payload::Probe => false,
        };
        let request = speaks && side == CLIENT && self.responding;
        let full = payload == Payload::New
            && self.segments.back().is_some_and(|segment| {
                self.senders[side].log.next() - segment.sides[side].first
                    >= settings.max_segment_packets
            });
        if speaks {
            self.responding = side == SERVER;
        }
        if !request && !full && !self.segments.is_empty() {
            return false;
        }
        if let Some(segment) = self.segments.back_mut() {
            for (side, sender) in segment.sides.iter_mut().zip(&mut self.senders) {
                side.end = sender.max();
                side.tally.idle = std::mem::take(&mut sender.idle);
                side.tally.window_limited = std::mem::take(&mut sender.window_limited);
            }
        }
        let mut sides: [Side; 2] = std::array::from_fn(|side| Side {
            first: self.senders[side].log.next(),
            ..Side::default()
        });
        // Relative numbers start at the packet's sequence number, and for the other side at its
        // acknowledgement number.
        sides[side].origin = Some(position - 1);
        if packet.flags.has(Flags::ACK) {
            let other = &mut self.senders[1 - side];
            sides[1 - side].origin = Some(other.position(packet.ack) - 1);
        }
        self.segments.push_back(Segment {
            number: self.next_segment,
            continues: full && !request,
            begun: false,
            begun_at: packet.at,
            sides,
        });
        self.next_segment = self.next_segment.saturating_add(1);
        true
    }

    /// Hands on what is certain after a new segment has begun: the one before may still wait for
    /// its last acknowledgements; those before it are done once they have them.
    fn finish_settled(&mut self, measurer: &mut Measurer, sink: &mut impl FlowSink) {
        while self.segments.len() > 2
            && (self.segments.len() > MAX_WAITING
                || (0..2).all(|side| self.senders[side].una() >= self.segments[0].sides[side].end))
        {
            self.finish_first(measurer, sink);
        }
    }

    /// Takes an acknowledgement's timestamps: how long after the one that it echoes it comes.
    #[inline]
    fn echo(&mut self, packet: &Packet, side: usize) -> Brief {
        let Some(Timestamps { value, echo }) = packet.options.timestamps else {
            return Brief::NONE;
        };
        let other = &self.senders[1 - side];
        let ack = other.position(packet.ack);
        let window = announced_window(packet, self.scales[side], self.scales[1 - side]);
        let told = Told {
            acked: other.acked_by(ack),
            edge: window.map(|window| ack + window),
        };
        self.echoes[1 - side].sent(value, packet.at, told);
        let least = self.echoes[side].least;
        let Some(echo) = self.echoes[side].echoed(echo, packet.at) else {
            return Brief::NONE;
        };
        if self.echoes[side].least != least {
            self.update_vantage();
        }
        let sender = &mut self.senders[side];
        if let Some(known) = &mut sender.known {
            *known = echo.told.acked.max(*known);
            (sender.edges.known, sender.edges.before) = (echo.told.edge, echo.before);
        }
        Brief::new(echo.after)
    }

    /// Finds out how far the capture is from both ends, where something new is known of that.
    #[cold]
    fn update_vantage(&mut self) {
        for side in [CLIENT, SERVER] {
            let path = self.seen_path(side);
            self.round_trip = path.round_trip();
            let vantage = path.vantage();
            let sender = &mut self.senders[side];
            sender.away = path.away();
            if matches!(vantage, Vantage::Sender | Vantage::Unknown) {
                sender.known = None;
            } else if self.echoes[side].least.is_some() {
                let una = sender.una();
                sender.known.get_or_insert(una);
            }
        }
    }

    /// How far the capture is from both ends, as the data of a side see it, by the handshake and by
    /// timestamps.
    fn seen_path(&self, side: usize) -> Path {
        let handshake = self.info.handshake;
        let ends = [handshake.to_client(), handshake.to_server()];
        let least = |side: usize| {
            let both = [ends[side], self.echoes[side].least];
            both.into_iter().flatten().min()
        };
        let sign = match ends.iter().all(Option::is_some) {
            true => Sign::Handshake,
            false => Sign::Timestamps,
        };
        let path = Path {
            to_sender: least(side),
            to_receiver: least(1 - side),
            sign: Some(sign),
            outbound: self.directions.leaves(side),
        };
        path.or_directions()
    }

    /// The same, or by how long retransmissions took, where the packets passed too seldom in both
    /// directions.
    fn path(&self, side: usize, sent: &[Sent]) -> Path {
        let path = self.seen_path(side);
        if path.round_trip().is_some() {
            return path;
        }
        let to_receiver = path
            .to_receiver
            .or_else(|| sent.iter().filter_map(Sent::rtt).min());
        let recovery = self.senders[side].holes.recovery;
        let to_sender = recovery
            .zip(to_receiver)
            .map(|(recovery, to_receiver)| recovery.saturating_sub(to_receiver));
        let path = Path {
            to_sender,
            to_receiver,
            sign: to_sender.map(|_| Sign::Recovery),
            outbound: path.outbound,
        };
        path.or_directions()
    }

    /// The latest round-trip time from end to end.
    #[inline]
    fn latest_round_trip(&self) -> Option<Nanos> {
        let [client, server] = &self.echoes;
        Some(
            client
                .latest?
                .saturating_add(server.latest?)
                .max(self.round_trip?),
        )
    }

    #[inline]
    fn send(&mut self, packet: &Packet, side: usize, position: u64, payload: Payload, echo: Brief) {
        let latest_round_trip = self.latest_round_trip();
        let Some(segment) = self.segments.back_mut() else {
            return;
        };
        if !segment.begun && payload != Payload::None {
            segment.begun = true;
            segment.begun_at = packet.at;
        }
        let this = &mut segment.sides[side];
        this.tally.packets += 1;
        if segment.begun {
            // The handshake before the first request is not part of the exchange.
            this.started_at.get_or_insert(packet.at);
            this.origin.get_or_insert(position - 1);
        }
        match payload {
            Payload::None => return,
            Payload::Probe => {
                this.tally.probes += 1;
                return;
            }
            Payload::New | Payload::Old => {}
        }
        if this.data.is_none() {
            // Until now it had nothing to send: the request may have come with the last
            // acknowledgement.
            self.senders[side].forget_idle();
            this.data = Some(position);
        }
        let [client, server] = &mut self.sizes;
        let (this_size, other_size) = if side == CLIENT {
            (client, &*server)
        } else {
            (server, &*client)
        };
        let mss = this_size.of(other_size, packet);
        self.mss[side] = mss;
        let bytes = u64::from(packet.payload);
        let pieces = bytes.div_ceil(u64::from(mss));
        let headers = u64::from(packet.headers) * pieces;
        this.tally.payload_bytes += bytes;
        this.tally.ip_bytes += bytes + headers;
        this.tally.link_bytes += bytes + headers + u64::from(packet.framing) * pieces;
        let seen = Seen {
            echo,
            round_trip: self.round_trip,
            latest_round_trip,
        };
        let unseen = self.senders[side].send(packet, position, mss, seen);
        this.tally.unseen_bytes = this.tally.unseen_bytes.saturating_add_signed(unseen);
    }

    #[inline]
    fn acknowledge(&mut self, packet: &Packet, side: usize, settings: &Settings) {
        let sender = &mut self.senders[side];
        let progress = sender.acknowledge(packet);
        let window = announced_window(packet, self.scales[1 - side], self.scales[side]);
        sender.set_window(window, packet.at);
        if let Some(progress) = progress {
            // Not whether this window is known: a closed one is, whatever its scale.
            let known = scale_is_known(self.scales);
            self.credit(packet.at, side, progress, known, settings);
        }
    }

    /// Books an acknowledgement's progress to the segment whose data it acknowledges.
    #[inline]
    fn credit(
        &mut self,
        at: Nanos,
        side: usize,
        progress: Progress,
        known: bool,
        settings: &Settings,
    ) {
        let Progress { from, to, unseen } = progress;
        if to <= from {
            return;
        }
        let belongs = |segment: &&mut Segment| {
            segment.sides[side]
                .data
                .is_some_and(|data| data <= from.max(data.min(to - 1)))
        };
        let Some(segment) = self.segments.iter_mut().rev().find(belongs) else {
            return;
        };
        let begun_at = segment.begun_at;
        let this = &mut segment.sides[side];
        let data = this.data.unwrap_or(from);
        this.tally.window_known |= known;
        this.tally.unseen_bytes += unseen;
        // Playback that starts `wait` after the request reaches the bytes that have just come
        // when all before them have been played.
        let before = from.saturating_sub(data);
        let playable = u128::from(before) * 8_000_000_000
            / u128::from(settings.playback_bits_per_second.max(1));
        let waited = at
            .saturating_sub(begun_at)
            .saturating_sub(u64::try_from(playable).unwrap_or(u64::MAX));
        this.tally.wait = Some(this.tally.wait.unwrap_or(0).max(waited));
    }

    /// Hands the oldest segment to the sink and forgets it.
    fn finish_first(&mut self, measurer: &mut Measurer, sink: &mut impl FlowSink) {
        let Some(mut segment) = self.segments.pop_front() else {
            return;
        };
        let mut has_data = false;
        for side in [CLIENT, SERVER] {
            let next = self.segments.front().map_or_else(
                || self.senders[side].log.next(),
                |segment| segment.sides[side].first,
            );
            let missing = self.senders[side].take_missing(next);
            let log = &self.senders[side].log;
            let this = &mut segment.sides[side];
            let mut sent = log.range(this.first, next);
            has_data |= !sent.is_empty();
            if !sent.is_empty() {
                let path = self.path(side, sent);
                let mut completed;
                if !missing.is_empty() || path.vantage() == Vantage::Receiver {
                    let bytes = missing.iter().map(|lost| u64::from(lost.len)).sum();
                    let captured = sent.len() as u64;
                    this.tally
                        .add_missing(bytes, missing.len() as u64, captured);
                    completed = complete(sent, this.first, &missing);
                    if path.vantage() == Vantage::Receiver {
                        with_echoes(&mut completed);
                    }
                    sent = &completed;
                }
                let ends = [self.info.client, self.info.server];
                let transfer = Transfer {
                    flow: &self.info,
                    segment: segment.number,
                    continues: segment.continues,
                    sender: ends[side],
                    receiver: ends[1 - side],
                    sent,
                    first_number: this.first + self.completed[side],
                    origin: this.origin.unwrap_or(sent[0].seq - 1),
                    begun_at: segment.begun_at,
                    started_at: this.started_at.unwrap_or(sent[0].at),
                    mss: self.mss[side],
                    path,
                    tally: &this.tally,
                };
                let metrics = measurer.measure(&transfer);
                self.totals[side]
                    .get_or_insert_default()
                    .add(&transfer, &metrics);
                sink.transfer(&transfer, &metrics);
                self.completed[side] += missing.len() as u64;
            }
            self.senders[side].log.forget(next);
        }
        self.segments_with_data += u64::from(has_data);
    }

    /// Hands all that is left to the sink.
    pub fn finish(
        mut self: Box<Self>,
        ended: Ended,
        measurer: &mut Measurer,
        sink: &mut impl FlowSink,
    ) {
        self.forget_stray(CLIENT);
        self.forget_stray(SERVER);
        if let Some(segment) = self.segments.back_mut() {
            for (side, sender) in segment.sides.iter_mut().zip(&mut self.senders) {
                side.tally.idle = std::mem::take(&mut sender.idle);
                side.tally.window_limited = std::mem::take(&mut sender.window_limited);
            }
        }
        while !self.segments.is_empty() {
            self.finish_first(measurer, sink);
        }
        let [client, server] = self.totals;
        sink.flow(FlowSummary {
            info: self.info,
            ended,
            segments: self.segments_with_data,
            client,
            server,
        });
    }
}

/// Guesses the server by its port, for flows without a SYN: servers listen on well-known or
/// registered ports, clients connect from dynamic ones (RFC 6335 §6; Linux's begin at 32768). If
/// the ports do not tell, the endpoint that sends first is taken for the client.
fn looks_like_server(this: Endpoint, other: Endpoint) -> bool {
    let rank = |port: u16| match port {
        0..1024 => 0,
        1024..32768 => 1,
        _ => 2,
    };
    rank(this.port()) < rank(other.port())
}
