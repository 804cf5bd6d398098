//! Both ends of a flow: connections under an application, or a sender of datagrams.

use tidegate_limiter::Nanos;

use crate::outcome::{State, StreamOutcome};
use crate::packet::wire::{UDP_HEADERS, tcp_length};
use crate::plan::Plan;
use crate::random::{Owner, Random};
use crate::record::FlowRecord;
use crate::tcp::cc::Start;
use crate::tcp::{Connection, Segment, TcpConfig};
use crate::traffic::datagrams::Datagrams;
use crate::traffic::{Application, Ends, Source};

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Sends data.
    Server = 0,
    /// Opens connections.
    Client = 1,
}

/// Both ends.
#[derive(Debug)]
pub enum Endpoints {
    /// TCP.
    Tcp(Box<Tcp>),
    /// UDP: what has arrived at the client, and the sender.
    Datagrams {
        /// The sender.
        sender: Datagrams,
        /// Payload bytes at the client.
        delivered: u64,
    },
}

/// Connections of a flow, one after the other.
#[derive(Debug)]
pub struct Tcp {
    /// Index of the flow, and the seed of the plan: random values in connections come from them.
    flow: usize,
    seed: u64,
    config: TcpConfig,
    application: Application,
    /// None until the first one opens.
    ends: Option<Ends>,
    /// Number of connections opened.
    opened: u32,
    /// Bytes that clients of earlier connections received.
    delivered: u64,
    /// Timeouts of earlier connections' servers.
    timeouts: u64,
}

impl Endpoints {
    /// The ends of a flow of the plan; nothing is sent before the application's first time.
    pub fn new(plan: &Plan, index: usize) -> Self {
        let flow = &plan.flows[index];
        match Source::new(flow, index, plan.seed) {
            Source::Application(application) => Self::Tcp(Box::new(Tcp {
                flow: index,
                seed: plan.seed,
                config: flow.tcp.clone(),
                application,
                ends: None,
                opened: 0,
                delivered: 0,
                timeouts: 0,
            })),
            Source::Datagrams(sender) => Self::Datagrams {
                sender,
                delivered: 0,
            },
        }
    }

    /// When the application, or the sender of datagrams, acts by itself.
    pub fn next_application(&self) -> Option<Nanos> {
        match self {
            Self::Tcp(tcp) => tcp.application.next_timeout(),
            Self::Datagrams { sender, .. } => sender.next_timeout(),
        }
    }

    /// The application acts if its time has come. Returns the number of the connection, if it opens
    /// one.
    pub fn on_application(&mut self, now: Nanos) -> Option<u32> {
        match self {
            Self::Tcp(tcp) => tcp.on_application(now),
            // Its first datagram. Datagrams are one connection, number 0, from that time on.
            Self::Datagrams { sender, .. } => (sender.sent == 0).then_some(0),
        }
    }

    /// A segment or datagram has come to one end.
    #[inline]
    pub fn on_segment(
        &mut self,
        now: Nanos,
        side: Side,
        segment: &Segment,
        record: &mut FlowRecord,
    ) {
        match self {
            Self::Tcp(tcp) => tcp.on_segment(now, side, segment, record),
            Self::Datagrams { delivered, .. } => *delivered += u64::from(segment.payload),
        }
    }

    /// An end's timer has fired. Returns false if it was moved since.
    pub fn on_timeout(&mut self, now: Nanos, side: Side) -> bool {
        if let Some(connection) = self.connection(side)
            && connection.next_timeout().is_some_and(|at| at <= now)
        {
            connection.on_timeout(now);
            return true;
        }
        false
    }

    /// When an end needs to act next.
    #[inline]
    pub fn next_timeout(&mut self, side: Side) -> Option<Nanos> {
        self.connection(side)?.next_timeout()
    }

    /// The next segment or datagram of an end, and its length as an IP packet.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, side: Side) -> Option<(u32, Segment)> {
        match self {
            Self::Tcp(tcp) => {
                let ends = tcp.ends.as_mut()?;
                let segment = match side {
                    Side::Server => ends.server.poll_transmit(now),
                    Side::Client => ends.client.poll_transmit(now),
                }?;
                Some((tcp_length(&segment, &tcp.config), segment))
            }
            Self::Datagrams { sender, .. } => {
                if side == Side::Client || sender.next_timeout().is_none_or(|at| at > now) {
                    return None;
                }
                let segment = Segment {
                    seq: sender.sent,
                    payload: sender.bytes - UDP_HEADERS,
                    ..Segment::default()
                };
                sender.sent += 1;
                Some((sender.bytes, segment))
            }
        }
    }

    fn connection(&mut self, side: Side) -> Option<&mut Connection> {
        match self {
            Self::Tcp(tcp) => {
                let ends = tcp.ends.as_mut()?;
                Some(match side {
                    Side::Server => &mut ends.server,
                    Side::Client => &mut ends.client,
                })
            }
            Self::Datagrams { .. } => None,
        }
    }

    /// Payload bytes that the client's application received.
    pub fn delivered(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => {
                let now = tcp.ends.as_ref().map_or(0, |ends| ends.client.received());
                tcp.delivered + now
            }
            Self::Datagrams { delivered, .. } => *delivered,
        }
    }

    /// Retransmission timeouts of the server.
    pub fn timeouts(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => {
                let now = tcp.ends.as_ref().map_or(0, |ends| timeouts(&ends.server));
                tcp.timeouts + now
            }
            Self::Datagrams { .. } => 0,
        }
    }

    /// The state of the server's connection, if it is established.
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
            Self::Datagrams { .. } => None,
        }
    }

    /// When the incomplete transfer began.
    pub fn open(&self) -> Option<Nanos> {
        match self {
            Self::Tcp(tcp) => tcp.application.open(),
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
            Self::Datagrams { .. } => None,
        }
    }

    /// Whether nothing will be sent any more.
    pub fn ended(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.application.ended(),
            Self::Datagrams { sender, .. } => sender.next_timeout().is_none(),
        }
    }
}

impl Tcp {
    fn on_application(&mut self, now: Nanos) -> Option<u32> {
        // This wake-up is too early or unnecessary: the application has changed its time.
        if self.application.next_timeout().is_none_or(|at| at > now) {
            return None;
        }
        if !self.application.on_timeout(now, self.ends.as_mut()) {
            return None;
        }
        if let Some(ends) = &self.ends {
            self.delivered += ends.client.received();
            self.timeouts += timeouts(&ends.server);
        }
        let seed = Random::new(self.seed, Owner::Sender(self.flow, self.opened)).long();
        let (algorithm, mss) = (self.config.algorithm, self.config.mss.max(1));
        self.ends = Some(Ends {
            client: Connection::client(&self.config, now),
            server: Connection::server(&self.config, now)
                .start(algorithm, Start { mss, now, seed }),
        });
        self.opened += 1;
        Some(self.opened - 1)
    }

    #[inline]
    fn on_segment(&mut self, now: Nanos, side: Side, segment: &Segment, record: &mut FlowRecord) {
        let Some(ends) = &mut self.ends else { return };
        match side {
            Side::Server => {
                ends.server.on_segment(now, segment);
                if let Some(rtt) = ends.server.take_rtt() {
                    record.rtt.record(rtt);
                }
                self.application.on_server(now, &mut ends.server);
            }
            Side::Client => {
                ends.client.on_segment(now, segment);
                let completion = self.application.on_client(now, &mut ends.client);
                record.completions.extend(completion);
            }
        }
    }
}

fn timeouts(server: &Connection) -> u64 {
    server.snapshot().counts.timeouts
}
