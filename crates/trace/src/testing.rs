//! What the tests of flows, annotation and detectors share: a conversation that is written packet
//! by packet, a sink that keeps everything, and transfers made by hand.

use std::net::SocketAddr;

use crate::annotate::{FlowInfo, Handshake, Marks, Measurer, Metrics, Path, Sent, Tally, Transfer};
use crate::flow::{FlowSink, FlowSummary, FlowTable, Settings};
use crate::read::{Frame, LinkType, Nanos};
use crate::wire::{Flags, Sacks};
use crate::write::pcapng::{Interface, PcapngWriter, Section};
use crate::write::{Ends, TcpFrame};

/// A millisecond.
pub const MS: Nanos = 1_000_000;
/// When conversations begin, so that time may go back.
pub const START: Nanos = 1_000_000 * MS;
/// The segment size of conversations with a handshake.
pub const MSS: u32 = 1000;
/// The bytes of packet n.
pub const fn nth(n: u32) -> u32 {
    n * MSS
}

pub fn client() -> SocketAddr {
    ([10, 0, 0, 1], 50_000).into()
}

pub fn server() -> SocketAddr {
    ([192, 0, 2, 7], 443).into()
}

/// A capture of Ethernet frames, in memory, whose header has this comment.
pub fn pcapng(comment: &str) -> PcapngWriter<Vec<u8>> {
    let section = Section {
        comment,
        ..Section::default()
    };
    let interface = Interface {
        name: "eth0",
        link: LinkType::ETHERNET,
        filter: "",
    };
    PcapngWriter::new(Vec::new(), &section, &interface).expect("memory")
}

/// A transfer that outlives its flow.
#[derive(Debug, Clone)]
pub struct Kept {
    pub info: FlowInfo,
    pub from_server: bool,
    pub segment: u32,
    pub continues: bool,
    pub sent: Vec<Sent>,
    pub first_number: u64,
    pub origin: u64,
    pub begun_at: Nanos,
    pub started_at: Nanos,
    pub mss: u32,
    pub path: Path,
    pub tally: Tally,
    pub metrics: Metrics,
}

impl Kept {
    /// The offset in the transfer at which each packet starts, in bytes.
    pub fn offsets(&self) -> Vec<i64> {
        let offset = |sent: &Sent| sent.seq.wrapping_sub(self.origin) as i64 - 1;
        self.sent.iter().map(offset).collect()
    }

    pub fn lengths(&self) -> Vec<u32> {
        self.sent.iter().map(|sent| sent.len).collect()
    }

    /// The indices of the packets of which something is true.
    pub fn which(&self, is: impl Fn(&Sent) -> bool) -> Vec<usize> {
        let all = self.sent.iter().enumerate();
        all.filter(|(_, sent)| is(sent)).map(|(i, _)| i).collect()
    }

    pub fn lost(&self) -> Vec<usize> {
        self.which(Sent::lost)
    }

    pub fn marked(&self, marks: u16) -> Vec<usize> {
        self.which(|sent| sent.marks.has(marks))
    }

    /// Round-trip times in ms.
    pub fn rtts(&self) -> Vec<Option<u64>> {
        let ms = |sent: &Sent| sent.rtt().map(|rtt| rtt / MS);
        self.sent.iter().map(ms).collect()
    }
}

/// Keeps everything.
#[derive(Debug, Default)]
pub struct Found {
    pub transfers: Vec<Kept>,
    pub flows: Vec<FlowSummary>,
}

impl Found {
    /// What the server sent, segment by segment.
    pub fn responses(&self) -> Vec<&Kept> {
        let all = self.transfers.iter();
        all.filter(|transfer| transfer.from_server).collect()
    }

    /// What the client sent, segment by segment.
    pub fn requests(&self) -> Vec<&Kept> {
        let all = self.transfers.iter();
        all.filter(|transfer| !transfer.from_server).collect()
    }

    /// The only transfer of the server.
    #[track_caller]
    pub fn response(&self) -> &Kept {
        let responses = self.responses();
        assert_eq!(responses.len(), 1);
        responses[0]
    }
}

impl FlowSink for Found {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        self.transfers.push(Kept {
            info: *transfer.flow,
            from_server: transfer.sender == transfer.flow.server,
            segment: transfer.segment,
            continues: transfer.continues,
            sent: transfer.sent.to_vec(),
            first_number: transfer.first_number,
            origin: transfer.origin,
            begun_at: transfer.begun_at,
            started_at: transfer.started_at,
            mss: transfer.mss,
            path: transfer.path,
            tally: *transfer.tally,
            metrics: *metrics,
        });
    }

    fn flow(&mut self, summary: FlowSummary) {
        self.flows.push(summary);
    }
}

/// A conversation of one client and one server, as a capture holds it. Times count from
/// [`START`], and bytes from the first of either stream.
pub struct Talk {
    pub table: FlowTable,
    pub found: Found,
    pub ends: [SocketAddr; 2],
    /// The initial sequence numbers.
    pub isn: [u32; 2],
    /// The next byte of either side.
    next: [u32; 2],
    /// The window field of the client's packets.
    pub window: u16,
    pub ip_id: u16,
    /// The end that captures, if the capture says which packets it sent.
    pub captures: Option<SocketAddr>,
    bytes: Vec<u8>,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl Talk {
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        Self {
            table: FlowTable::new(settings),
            found: Found::default(),
            ends: [client(), server()],
            isn: [1_000_000, 5_000_000],
            next: [0; 2],
            window: u16::MAX,
            ip_id: 0,
            captures: None,
            bytes: Vec::new(),
        }
    }

    /// With a handshake in the first 2 ms and a request of 100 bytes at 3 ms.
    pub fn begun() -> Self {
        let mut talk = Self::new();
        talk.handshake(0);
        talk.request(3 * MS, 0, 100);
        talk
    }

    /// Sends a frame as it is.
    pub fn put(&mut self, at: Nanos, frame: TcpFrame) {
        let wire_len = frame.encode(&mut self.bytes);
        let frame = Frame {
            outbound: self.captures.map(|host| frame.src == host),
            at: START + at,
            link: LinkType::ETHERNET,
            data: &self.bytes,
            wire_len,
        };
        self.table.frame(&frame, &mut self.found);
    }

    /// A packet from one side, acknowledging all that the other has sent so far.
    fn frame(&mut self, side: usize, offset: u32, payload: u32) -> TcpFrame {
        self.ip_id = self.ip_id.wrapping_add(1).max(1);
        self.next[side] = self.next[side].max(offset + payload);
        TcpFrame {
            seq: self.isn[side].wrapping_add(1).wrapping_add(offset),
            ack: self.number(1 - side, self.next[1 - side]),
            payload,
            window: self.window,
            ip_id: self.ip_id,
            ..TcpFrame::new(Ends {
                src: self.ends[side],
                dst: self.ends[1 - side],
            })
        }
    }

    fn number(&self, side: usize, offset: u32) -> u32 {
        self.isn[side].wrapping_add(1).wrapping_add(offset)
    }

    /// SYN, SYN-ACK and ACK as at the server, with [`MSS`], window scale 7 and SACK. The client
    /// answers within 2 ms.
    pub fn handshake(&mut self, at: Nanos) {
        let syn = |frame| TcpFrame {
            mss: Some(MSS as u16),
            window_scale: Some(7),
            sack_permitted: true,
            ..frame
        };
        let open = self.frame(CLIENT, 0, 0);
        self.put(
            at,
            syn(TcpFrame {
                seq: self.isn[CLIENT],
                ack: 0,
                flags: Flags::SYN,
                ..open
            }),
        );
        let answer = self.frame(SERVER, 0, 0);
        self.put(
            at + MS / 100,
            syn(TcpFrame {
                seq: self.isn[SERVER],
                flags: Flags::SYN | Flags::ACK,
                ..answer
            }),
        );
        self.ack(at + 2 * MS, 0);
    }

    /// The server's packet with these bytes, to be changed and [`put`](Self::put).
    pub fn data(&mut self, offset: u32, payload: u32) -> TcpFrame {
        self.frame(SERVER, offset, payload)
    }

    /// The client's packet with these bytes.
    pub fn asking(&mut self, offset: u32, payload: u32) -> TcpFrame {
        self.frame(CLIENT, offset, payload)
    }

    /// The client's acknowledgement of the server's bytes below `to`.
    pub fn acking(&mut self, to: u32) -> TcpFrame {
        let next = self.next[CLIENT];
        TcpFrame {
            ack: self.number(SERVER, to),
            ..self.frame(CLIENT, next, 0)
        }
    }

    /// The server sends these bytes.
    pub fn send(&mut self, at: Nanos, offset: u32, payload: u32) {
        let frame = self.data(offset, payload);
        self.put(at, frame);
    }

    /// The server sends the n-th full packet.
    pub fn full(&mut self, at: Nanos, n: u32) {
        self.send(at, nth(n), MSS);
    }

    /// The client sends these bytes.
    pub fn request(&mut self, at: Nanos, offset: u32, payload: u32) {
        let frame = self.asking(offset, payload);
        self.put(at, frame);
    }

    /// The client acknowledges the server's bytes below `to`.
    pub fn ack(&mut self, at: Nanos, to: u32) {
        let frame = self.acking(to);
        self.put(at, frame);
    }

    /// And selectively these, by offsets of their bytes.
    pub fn sack(&mut self, at: Nanos, to: u32, blocks: &[(u32, u32)]) {
        let blocks = blocks
            .iter()
            .map(|&(from, to)| self.number(SERVER, from)..self.number(SERVER, to));
        let frame = TcpFrame {
            sacks: Sacks::new(blocks),
            ..self.acking(to)
        };
        self.put(at, frame);
    }

    /// The capture ends.
    pub fn end(mut self) -> Found {
        self.table.finish(&mut self.found);
        self.found
    }
}

/// A transfer made by hand, packet by packet.
pub struct Made {
    pub sent: Vec<Sent>,
    pub started_at: Nanos,
    pub tally: Tally,
    info: FlowInfo,
}

impl Made {
    pub fn new() -> Self {
        Self {
            sent: Vec::new(),
            started_at: START,
            tally: Tally::default(),
            info: FlowInfo {
                number: 0,
                client: client().into(),
                server: server().into(),
                started_at: START,
                syn_seen: true,
                handshake: Handshake::default(),
                roles_known: true,
            },
        }
    }

    /// A packet that is acknowledged after a round trip, with `flight` packets in flight.
    pub fn passes(&mut self, at: Nanos, rtt: Nanos, flight: u32) {
        let mut marks = Marks::default();
        marks.set(Marks::RTT);
        let seq = self
            .sent
            .last()
            .map_or(1, |sent| sent.seq + u64::from(sent.len));
        self.sent.push(Sent {
            at: START + at,
            acked_at: START + at + rtt,
            seq,
            delivered: 0,
            len: MSS,
            in_flight: flight * MSS,
            tsval: 0,
            repeats: 0,
            repeated: 0,
            marks,
            ..Sent::default()
        });
    }

    /// A packet that is lost, and acknowledged a while later when it was sent again. Its
    /// retransmission is not part of the transfer, for simplicity.
    pub fn is_lost(&mut self, at: Nanos, later: Nanos, flight: u32) {
        self.passes(at, later, flight);
        if let Some(sent) = self.sent.last_mut() {
            sent.marks = Marks::default();
            sent.repeated = 1;
        }
    }

    pub fn transfer(&self) -> Transfer<'_> {
        Transfer {
            flow: &self.info,
            segment: 0,
            continues: false,
            sender: server().into(),
            receiver: client().into(),
            sent: &self.sent,
            first_number: 0,
            origin: 0,
            begun_at: START,
            started_at: self.started_at,
            mss: MSS,
            path: Path::default(),
            tally: &self.tally,
        }
    }

    pub fn measure(&self) -> Metrics {
        Measurer::default().measure(&self.transfer())
    }
}
