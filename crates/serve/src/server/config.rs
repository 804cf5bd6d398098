//! All settings, and their defaults.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_limiter::Rate;
use tidegate_limiter::pacing::{Way, WayError};

use super::cache::CacheRule;
use super::cors::Origin;
use super::listeners::Listen;
use super::viewer::SessionName;

/// All settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder to serve.
    pub folder: PathBuf,
    /// Where to listen, at one address or more.
    pub listen: Vec<Listen>,
    /// Whether requests without TLS are led to the first address with TLS.
    pub redirect: bool,
    /// Certificate and key, as PEM files, for the addresses with TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether HTTP/3 is spoken too, at the addresses and ports with TLS.
    pub http3: bool,
    /// How connections are paced, at [`throttle_percent`](Self::throttle_percent). With several groups, each connection gets one at
    /// random, evenly.
    pub groups: Vec<Group>,
    /// Seed of that random choice.
    pub seed: u64,
    /// How much video is sent at full speed at first.
    pub start_up: Duration,
    /// The rate of the throttling phase, in percent of the encoding rate.
    pub throttle_percent: u32,
    /// The encoding rate of files that do not give one; without it they are sent at full speed.
    pub rate: Option<Rate>,
    /// Where requests for adaptive video name their viewer's session, if the player does not (CMCD). Otherwise a viewer is an
    /// address and a program.
    pub session: Option<SessionName>,
    /// Whether folders are listed.
    pub index: bool,
    /// The origins whose pages may read answers.
    pub cors: Vec<Origin>,
    /// What caches may keep; the first rule that matches holds.
    pub cache: Vec<CacheRule>,
    /// Limits on what clients may use.
    pub limits: Limits,
    /// Threads that serve connections; 0: the runtime of the caller does.
    pub threads: usize,
    /// Where metrics are served; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
}

/// A group of connections that are paced in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name in logs and metrics.
    pub name: String,
    /// How its connections are paced.
    pub way: Way,
}

/// Limits on what clients may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time of one address, or of one IPv6 network of 64 bits.
    pub per_address: usize,
    /// Files that are sent at a time. An address has the same share of them as of connections. Further requests are answered
    /// with 503.
    pub files: usize,
    /// How long a connection may be without a request: from its beginning or the last response to the end of the next request's header.
    /// The TLS handshake has the same time.
    pub header_timeout: Duration,
    /// How long a client may take nothing while a response is being sent.
    pub stall_timeout: Duration,
    /// How long responses may take to end at shutdown.
    pub grace: Duration,
}

/// The format of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// The combined log format of other servers, with more fields at the end; responses only.
    Common,
    /// An object a line; responses and connections.
    Json,
}

/// The access log: the format of its lines, and its destination.
pub type LogTo = (LogFormat, Box<dyn io::Write + Send>);

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8_192,
            per_address: 1_000,
            files: 16_384,
            header_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// The settings of `tidegate serve FOLDER` without options, but with a free port.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()],
            redirect: false,
            tls: None,
            http3: false,
            groups: vec![Way::TRICKLE.into()],
            seed: 0,
            start_up: Duration::from_secs(40),
            throttle_percent: 125,
            rate: None,
            session: None,
            index: false,
            cors: Vec::new(),
            cache: Vec::new(),
            limits: Limits::default(),
            threads: 0,
            metrics: None,
        }
    }
}

impl From<Way> for Group {
    fn from(way: Way) -> Self {
        let name = way.to_string();
        Self { name, way }
    }
}

impl std::str::FromStr for Group {
    type Err = WayError;

    /// A way, or `NAME=WAY`.
    fn from_str(text: &str) -> Result<Self, WayError> {
        match text.split_once('=') {
            Some((name, way)) => Ok(Self {
                name: name.to_owned(),
                way: way.parse()?,
            }),
            None => text.parse().map(Way::into),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.way)
    }
}
