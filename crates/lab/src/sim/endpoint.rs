//! Both ends of a flow: connections under an application, or a sender of datagrams.

use tidegate_limiter::Nanos;

use crate::outcome::{AdaptiveOutcome, State, StreamOutcome};
use crate::packet::wire::{UDP_HEADERS, tcp_length};
use crate::plan::Plan;
use crate::record::FlowRecord;
use crate::tcp::{Connection, Segment, TcpConfig};
use crate::traffic::datagrams::Datagrams;
use crate::traffic::{Application, Ends, Opening, Source, Web};

pub use crate::traffic::Side;

/// Both ends.
#[derive(Debug)]
pub enum Endpoints {
    /// TCP, a connection at a time.
    Tcp(Tcp),
    /// A browser, and the settings of its connections.
    Web(Box<Web>, Box<TcpConfig>),
    /// UDP: what has arrived at the client, and the sender.
    Datagrams {
        /// The sender.
        sender: Datagrams,
        /// Payload bytes at the client.
        delivered: u64,
    },
}

/// A segment or datagram that an end sends.
#[derive(Debug)]
pub struct Sent {
    /// The number of its connection.
    pub connection: u32,
    /// Its length as an IP packet.
    pub bytes: u32,
}

/// Connections of a flow, one after the other. All of it is in one line of the processor's cache.
#[derive(Debug)]
pub struct Tcp {
    opening: Box<Opening>,
    application: Application,
    /// None until the first one opens.
    ends: Option<Box<Ends>>,
    /// Number of connections opened.
    opened: u32,
    /// Timeouts of earlier connections' servers.
    timeouts: u32,
    /// Bytes that clients of earlier connections received.
    delivered: u64,
}

impl Endpoints {
    /// The ends of a flow of the plan; nothing is sent before the application's first time.
    pub fn new(plan: &Plan, index: usize) -> Self {
        match Source::new(plan, index) {
            Source::Web(web) => Self::Web(web, Box::new(plan.flows[index].tcp.clone())),
            Source::Application(application) => Self::Tcp(Tcp {
                opening: Box::new(Opening::new(plan, index)),
                application,
                ends: None,
                opened: 0,
                timeouts: 0,
                delivered: 0,
            }),
            Source::Datagrams(sender) => Self::Datagrams {
                sender,
                delivered: 0,
            },
        }
    }

    /// Asks for the memory of a side.
    #[inline]
    pub fn prefetch(&self, side: Side) {
        if let Self::Tcp(tcp) = self {
            match (&tcp.ends, side) {
                (Some(ends), Side::Server) => ends.server.prefetch(true),
                (Some(ends), Side::Client) => ends.client.prefetch(false),
                (None, _) => {}
            }
        }
    }

    /// Asks for the memory of what the server sent, when that of the server is there.
    #[inline]
    pub fn prefetch_sent(&self) {
        if let Self::Tcp(tcp) = self
            && let Some(ends) = &tcp.ends
        {
            ends.server.prefetch_sent();
        }
    }

    /// When the application, or the sender of datagrams, acts by itself.
    pub fn next_application(&self) -> Option<Nanos> {
        match self {
            Self::Tcp(tcp) => tcp.application.next_timeout(),
            Self::Web(web, _) => web.next_application(),
            Self::Datagrams { sender, .. } => sender.next_timeout(),
        }
    }

    /// The application acts if its time has come.
    pub fn on_application(&mut self, now: Nanos, record: &mut FlowRecord) {
        match self {
            Self::Tcp(tcp) => tcp.on_application(now),
            Self::Web(web, _) => record.completions.extend(web.on_application(now)),
            Self::Datagrams { .. } => {}
        }
    }

    /// Whether the flow still has the connection of this number. Packets of an earlier one no longer have a receiver.
    #[inline]
    pub fn holds(&self, connection: u32) -> bool {
        match self {
            Self::Tcp(tcp) => connection + 1 == tcp.opened,
            Self::Web(web, _) => web.holds(connection),
            Self::Datagrams { .. } => true,
        }
    }

    /// A segment or datagram has come to one end of a connection.
    #[inline]
    pub fn on_segment(
        &mut self,
        now: Nanos,
        (side, connection): (Side, u32),
        segment: &Segment,
        record: &mut FlowRecord,
    ) {
        match self {
            Self::Tcp(tcp) => tcp.on_segment(now, side, segment, record),
            Self::Web(web, _) => {
                let noticed = web.on_segment(now, side, connection, segment);
                if let Some(rtt) = noticed.rtt {
                    record.rtt.record(rtt);
                }
                record.completions.extend(noticed.completion);
                if noticed.came {
                    record.last = now;
                }
            }
            Self::Datagrams { delivered, .. } => {
                *delivered += u64::from(segment.payload);
                record.last = now;
            }
        }
    }

    /// An end's timer has fired. Returns whether data came to its application, or nothing if the timer was moved since.
    pub fn on_timeout(&mut self, now: Nanos, side: Side, record: &mut FlowRecord) -> Option<bool> {
        match self {
            Self::Tcp(tcp) => tcp.on_timeout(now, side, record),
            Self::Web(web, _) => {
                let came = web.on_timeout(now, side, &mut record.completions);
                if side == Side::Client && came == Some(true) {
                    record.last = now;
                }
                came
            }
            Self::Datagrams { .. } => None,
        }
    }

    /// When an end needs to act next.
    #[inline]
    pub fn next_timeout(&mut self, side: Side) -> Option<Nanos> {
        if let Self::Web(web, _) = self {
            return web.next_timeout(side);
        }
        self.connection(side)?.next_timeout()
    }

    /// Writes the next segment or datagram of an end, if there is one.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, side: Side, segment: &mut Segment) -> Option<Sent> {
        match self {
            Self::Tcp(tcp) => {
                let end = tcp.ends.as_mut()?.of(side);
                end.transmit(now, segment).then(|| Sent {
                    connection: tcp.opened - 1,
                    bytes: tcp_length(segment, &tcp.opening.config),
                })
            }
            Self::Web(web, config) => Some(Sent {
                connection: web.poll_transmit(now, side, segment)?,
                bytes: tcp_length(segment, config),
            }),
            Self::Datagrams { sender, .. } => {
                if side == Side::Client || sender.next_timeout().is_none_or(|at| at > now) {
                    return None;
                }
                *segment = Segment {
                    seq: sender.sent,
                    payload: sender.bytes - UDP_HEADERS,
                    ..Segment::default()
                };
                sender.sent += 1;
                Some(Sent {
                    connection: 0,
                    bytes: sender.bytes,
                })
            }
        }
    }

    fn connection(&mut self, side: Side) -> Option<&mut Connection> {
        match self {
            Self::Tcp(tcp) => Some(tcp.ends.as_mut()?.of(side)),
            Self::Web(..) | Self::Datagrams { .. } => None,
        }
    }

    /// Payload bytes that the client's application received.
    pub fn delivered(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => {
                let now = tcp.ends.as_ref().map_or(0, |ends| ends.client.received());
                tcp.delivered + now
            }
            Self::Web(web, _) => web.delivered(),
            Self::Datagrams { delivered, .. } => *delivered,
        }
    }

    /// Retransmission timeouts of the server.
    pub fn timeouts(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => {
                let now = tcp.ends.as_ref().map_or(0, |ends| timeouts(&ends.server));
                u64::from(tcp.timeouts) + now
            }
            Self::Web(web, _) => web.timeouts(),
            Self::Datagrams { .. } => 0,
        }
    }

    /// The state of the server's connection that did something last, if it is established.
    pub fn state(&self, now: Nanos) -> Option<State> {
        match self {
            Self::Tcp(tcp) => {
                let server = &tcp.ends.as_ref()?.server;
                server.established().then(|| State {
                    at: now,
                    connection: tcp.opened - 1,
                    snapshot: server.snapshot(),
                })
            }
            Self::Web(web, _) => web.latest_state(now),
            Self::Datagrams { .. } => None,
        }
    }

    /// The states of all connections that are established.
    pub fn states(&self, now: Nanos, states: &mut Vec<State>) {
        match self {
            Self::Web(web, _) => states.extend(web.states(now)),
            _ => states.extend(self.state(now)),
        }
    }

    /// When the incomplete transfer began.
    pub fn open(&self) -> Option<Nanos> {
        match self {
            Self::Tcp(tcp) => tcp.application.open(),
            Self::Web(web, _) => web.open(),
            Self::Datagrams { .. } => None,
        }
    }

    /// The results of a video until this time.
    pub fn stream(&self, now: Nanos) -> Option<StreamOutcome> {
        match self {
            Self::Tcp(tcp) => {
                let server = tcp.ends.as_ref().map(|ends| &ends.server);
                tcp.application.stream(now, server)
            }
            _ => None,
        }
    }

    /// The results of a video whose quality is adapted, until this time.
    pub fn adaptive(&self, now: Nanos) -> Option<AdaptiveOutcome> {
        match self {
            Self::Tcp(tcp) => tcp.application.adaptive(now),
            _ => None,
        }
    }

    /// Whether nothing will be sent any more.
    pub fn ended(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.application.ended(),
            Self::Web(web, _) => web.ended(),
            Self::Datagrams { sender, .. } => sender.next_timeout().is_none(),
        }
    }
}

impl Tcp {
    fn on_application(&mut self, now: Nanos) {
        // This wake-up is too early or unnecessary: the application has changed its time.
        if self.application.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        if !self.application.on_timeout(now, self.ends.as_deref_mut()) {
            return;
        }
        if let Some(ends) = &self.ends {
            self.delivered += ends.client.received();
            self.timeouts += timeouts(&ends.server) as u32;
        }
        self.ends = Some(Box::new(self.opening.open(self.opened, now)));
        self.opened += 1;
    }

    #[inline]
    fn on_segment(&mut self, now: Nanos, side: Side, segment: &Segment, record: &mut FlowRecord) {
        let Some(ends) = &mut self.ends else { return };
        let before = ends.client.received();
        ends.of(side).on_segment(now, segment);
        if side == Side::Server
            && let Some(rtt) = ends.server.take_rtt()
        {
            record.rtt.record(rtt);
        }
        // A duplicate is not the end of a flow.
        if ends.client.received() > before {
            record.last = now;
        }
        self.notice(now, side, record);
    }

    fn on_timeout(&mut self, now: Nanos, side: Side, record: &mut FlowRecord) -> Option<bool> {
        let came = self.ends.as_mut()?.of(side).on_due(now)?;
        if came {
            if side == Side::Client {
                record.last = now;
            }
            self.notice(now, side, record);
        }
        Some(came)
    }

    /// The application looks at what came to this end.
    #[inline]
    fn notice(&mut self, now: Nanos, side: Side, record: &mut FlowRecord) {
        let Some(ends) = &mut self.ends else { return };
        match side {
            Side::Server => self.application.on_server(now, &mut ends.server),
            Side::Client => {
                let completion = self.application.on_client(now, &mut ends.client);
                record.completions.extend(completion);
            }
        }
    }
}

fn timeouts(server: &Connection) -> u64 {
    server.snapshot().counts.timeouts
}
