//! The traffic of applications. Each kind has a file.

mod bulk;
mod clamp;
pub mod datagrams;
mod on_off;
mod stream;
mod video;

use tidegate_limiter::Nanos;

use crate::outcome::{Completion, StreamOutcome};
use crate::plan::{FlowPlan, Traffic};
use crate::random::{BoundedPareto, Owner, Random};
use crate::tcp::Connection;

#[cfg(test)]
mod tests;

/// The two ends of a connection, as applications see them. The engine knows both, so a server's
/// application can use what the client's has seen.
#[derive(Debug)]
pub struct Ends {
    /// The end that opens the connection and receives the data.
    pub client: Connection,
    /// The end that sends the data.
    pub server: Connection,
}

/// The source of a flow's packets.
#[derive(Debug)]
pub enum Source {
    /// An application over TCP.
    Application(Application),
    /// Datagrams.
    Datagrams(datagrams::Datagrams),
}

/// The applications at both ends of a flow's connections.
#[derive(Debug)]
pub enum Application {
    /// One transfer.
    Bulk(bulk::Bulk),
    /// Transfers with pauses.
    OnOff(on_off::OnOff),
    /// Requests for chunks.
    Video(video::Video),
    /// A whole video, throttled.
    Stream(Box<stream::Stream>),
}

impl Source {
    /// The application of a flow of the plan.
    pub fn new(plan: &FlowPlan, index: usize, seed: u64) -> Self {
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
                Application::OnOff(on_off::OnOff::new(
                    sizes, pause, reconnect, plan.start, random,
                ))
            }
            Traffic::Video {
                chunk,
                chunks,
                pause,
                request,
            } => Application::Video(video::Video::new(chunk, chunks, pause, request, plan.start)),
            Traffic::Stream(ref stream) => {
                Application::Stream(Box::new(stream::Stream::new(stream.clone(), plan.start)))
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
        }
    }

    /// Its time has come. Returns true if it needs a new connection, whose ends it gets next.
    pub fn on_timeout(&mut self, now: Nanos, ends: Option<&mut Ends>) -> bool {
        match self {
            Self::Bulk(bulk) => bulk.on_timeout(),
            Self::OnOff(on_off) => on_off.on_timeout(now, ends),
            Self::Video(video) => video.on_timeout(now, ends),
            Self::Stream(stream) => stream.on_timeout(now, ends),
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
        }
    }

    /// When the incomplete transfer began; `None` in a pause.
    pub fn open(&self) -> Option<Nanos> {
        match self {
            Self::Bulk(bulk) => bulk.open(),
            Self::OnOff(on_off) => on_off.open(),
            Self::Video(video) => video.open(),
            Self::Stream(stream) => stream.open(),
        }
    }

    /// Whether no more data will come.
    pub fn ended(&self) -> bool {
        match self {
            Self::Bulk(bulk) => bulk.ended(),
            Self::OnOff(_) => false,
            Self::Video(video) => video.ended(),
            Self::Stream(stream) => stream.ended(),
        }
    }

    /// The results of a video until this time.
    pub fn stream(&self, now: Nanos, server: Option<&Connection>) -> Option<StreamOutcome> {
        match self {
            Self::Stream(stream) => Some(stream.outcome(now, server)),
            _ => None,
        }
    }
}
