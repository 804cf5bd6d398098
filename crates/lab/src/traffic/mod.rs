//! The traffic of applications. Each kind has a file.

mod adaptive;
mod bulk;
mod clamp;
pub mod datagrams;
mod on_off;
mod stream;
mod video;
mod web;

use tidegate_limiter::Nanos;

use crate::outcome::{AdaptiveOutcome, Completion, StreamOutcome};
use crate::plan::{FlowPlan, Plan, Traffic};
use crate::random::{BoundedPareto, Owner, Random};
use crate::tcp::cc::Start;
use crate::tcp::{Connection, TcpConfig};

pub use web::Web;

#[cfg(test)]
mod tests;

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Sends data.
    Server = 0,
    /// Opens connections.
    Client = 1,
}

/// The two ends of a connection, as applications see them. The engine knows both, so a server's
/// application can use what the client's has seen.
#[derive(Debug)]
pub struct Ends {
    /// The end that opens the connection and receives the data.
    pub client: Connection,
    /// The end that sends the data.
    pub server: Connection,
}

impl Ends {
    /// The end on a side.
    pub fn of(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Server => &mut self.server,
            Side::Client => &mut self.client,
        }
    }
}

/// How a flow's connections are opened.
#[derive(Debug)]
pub struct Opening {
    /// Index of the flow, and the seed of the plan: random values in connections come from them.
    pub flow: usize,
    /// The seed.
    pub seed: u64,
    /// The settings of both ends.
    pub config: TcpConfig,
}

impl Opening {
    /// The connections of a flow of the plan.
    pub fn new(plan: &Plan, flow: usize) -> Self {
        Self {
            flow,
            seed: plan.seed,
            config: plan.flows[flow].tcp.clone(),
        }
    }

    /// The ends of the flow's connection of this number, which opens now.
    pub fn open(&self, number: u32, now: Nanos) -> Ends {
        let seed = Random::new(self.seed, Owner::Sender(self.flow, number)).long();
        let (algorithm, mss) = (self.config.algorithm, self.config.mss.max(1));
        Ends {
            client: Connection::client(&self.config, now),
            server: Connection::server(&self.config, now)
                .start(algorithm, Start { mss, now, seed }),
        }
    }
}

/// The source of a flow's packets.
#[derive(Debug)]
pub enum Source {
    /// An application over TCP.
    Application(Application),
    /// A browser, over several connections at a time.
    Web(Box<Web>),
    /// Datagrams.
    Datagrams(datagrams::Datagrams),
}

/// The applications at both ends of a flow's connections. The simplest is here, so that it is beside its flow.
#[derive(Debug)]
pub enum Application {
    /// One transfer.
    Bulk(bulk::Bulk),
    /// Transfers with pauses.
    OnOff(Box<on_off::OnOff>),
    /// Requests for chunks.
    Video(Box<video::Video>),
    /// A whole video, throttled.
    Stream(Box<stream::Stream>),
    /// A whole video whose quality is adapted.
    Adaptive(Box<adaptive::Adaptive>),
}

impl Source {
    /// The application of a flow of the plan.
    pub fn new(plan: &Plan, index: usize) -> Self {
        let seed = plan.seed;
        let opening = || Opening::new(plan, index);
        let plan: &FlowPlan = &plan.flows[index];
        Self::Application(match plan.traffic {
            Traffic::Bulk { bytes } => Application::Bulk(bulk::Bulk::new(bytes, plan.start)),
            Traffic::OnOff {
                mean,
                shape,
                max,
                pause,
                reconnect,
            } => {
                let random = Random::new(seed, Owner::Application(index));
                let sizes = BoundedPareto::with_mean(mean, shape, max);
                let on_off = on_off::OnOff::new(sizes, pause, reconnect, plan.start, random);
                Application::OnOff(Box::new(on_off))
            }
            Traffic::Video {
                chunk,
                chunks,
                pause,
                request,
            } => {
                let video = video::Video::new(chunk, chunks, pause, request, plan.start);
                Application::Video(Box::new(video))
            }
            Traffic::Stream(ref stream) => {
                Application::Stream(Box::new(stream::Stream::new(stream.clone(), plan.start)))
            }
            Traffic::Adaptive(ref adaptive) => {
                let adaptive = adaptive::Adaptive::new(adaptive.clone(), plan.start);
                Application::Adaptive(Box::new(adaptive))
            }
            Traffic::Web(ref web) => {
                return Self::Web(Box::new(Web::new(web.clone(), plan.start, opening())));
            }
            Traffic::Datagrams { rate, bytes, stop } => {
                return Self::Datagrams(datagrams::Datagrams::new(rate, bytes, plan.start, stop));
            }
        })
    }
}

impl Application {
    /// When it acts next.
    pub fn next_timeout(&self) -> Option<Nanos> {
        match self {
            Self::Bulk(bulk) => bulk.next_timeout(),
            Self::OnOff(on_off) => on_off.next_timeout(),
            Self::Video(video) => video.next_timeout(),
            Self::Stream(stream) => stream.next_timeout(),
            Self::Adaptive(adaptive) => adaptive.next_timeout(),
        }
    }

    /// Its time has come. Returns true if it needs a new connection, whose ends it gets next.
    pub fn on_timeout(&mut self, now: Nanos, ends: Option<&mut Ends>) -> bool {
        match self {
            Self::Bulk(bulk) => bulk.on_timeout(),
            Self::OnOff(on_off) => on_off.on_timeout(now, ends),
            Self::Video(video) => video.on_timeout(now, ends),
            Self::Stream(stream) => stream.on_timeout(now, ends),
            Self::Adaptive(adaptive) => adaptive.on_timeout(now, ends),
        }
    }

    /// The server has received something: the end of a handshake, a request, acknowledgements.
    #[inline]
    pub fn on_server(&mut self, now: Nanos, server: &mut Connection) {
        match self {
            Self::Bulk(bulk) => bulk.on_server(now, server),
            Self::OnOff(on_off) => on_off.on_server(now, server),
            Self::Video(video) => video.on_server(now, server),
            Self::Stream(stream) => stream.on_server(now, server),
            Self::Adaptive(adaptive) => adaptive.on_server(now, server),
        }
    }

    /// The client has received something. Returns the transfer that this completed, if there is
    /// one.
    #[inline]
    pub fn on_client(&mut self, now: Nanos, client: &mut Connection) -> Option<Completion> {
        match self {
            Self::Bulk(bulk) => bulk.on_client(now, client),
            Self::OnOff(on_off) => on_off.on_client(now, client),
            Self::Video(video) => video.on_client(now, client),
            Self::Stream(stream) => stream.on_client(now, client),
            Self::Adaptive(adaptive) => adaptive.on_client(now, client),
        }
    }

    /// When the incomplete transfer began; `None` in a pause.
    pub fn open(&self) -> Option<Nanos> {
        match self {
            Self::Bulk(bulk) => bulk.open(),
            Self::OnOff(on_off) => on_off.open(),
            Self::Video(video) => video.open(),
            Self::Stream(stream) => stream.open(),
            Self::Adaptive(adaptive) => adaptive.open(),
        }
    }

    /// Whether no more data will come.
    pub fn ended(&self) -> bool {
        match self {
            Self::Bulk(bulk) => bulk.ended(),
            Self::OnOff(_) => false,
            Self::Video(video) => video.ended(),
            Self::Stream(stream) => stream.ended(),
            Self::Adaptive(adaptive) => adaptive.ended(),
        }
    }

    /// The results of a video that is streamed, until this time.
    pub fn stream(&self, now: Nanos, server: Option<&Connection>) -> Option<StreamOutcome> {
        match self {
            Self::Stream(stream) => Some(stream.outcome(now, server)),
            _ => None,
        }
    }

    /// The results of a video whose quality is adapted, until this time.
    pub fn adaptive(&self, now: Nanos) -> Option<AdaptiveOutcome> {
        match self {
            Self::Adaptive(adaptive) => Some(adaptive.outcome(now)),
            _ => None,
        }
    }
}
