//! What is known of a connection: whose it is, how it is paced, what it is at, and how it went.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tidegate_limiter::Rate;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::files::Identity;
use super::kernel::{Pace, Snapshot};
use super::pacing::Turns;
use super::range::Span;
use super::{Group, Shared};

/// Files whose position is remembered on a connection.
const POSITIONS: usize = 8;
/// A request that begins at most so many bytes before what was sent last continues it: players fetch a little twice.
const OVERLAP: u64 = 64 << 10;
/// Writes of fewer bytes are no progress of a response; answers to HTTP/2's pings are as small.
const PROGRESS: usize = 512;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub shared: Arc<Shared>,
    /// Counted from 0, in the order of arrival.
    pub number: u64,
    pub peer: SocketAddr,
    /// Index of its group.
    group: usize,
    socket: TcpStream,
    pub accepted: SystemTime,
    began: Instant,
    /// Nanoseconds since it began: of the last write, or the time until which none is due.
    progress: AtomicU64,
    written: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Responses that are being sent, by number: the rate each is throttled to, in bytes per second.
    responses: BTreeMap<u64, Option<u64>>,
    requests: u64,
    /// Since when nothing is being sent.
    idle: Option<Instant>,
    positions: VecDeque<Position>,
    pace: Pace,
    /// When it was first throttled, and how it stood then.
    throttled: Option<(Instant, Snapshot)>,
    throttled_bytes: u64,
    /// Smallest and largest smoothed round-trip time seen, in microseconds.
    srtt: Option<(u32, u32)>,
}

/// Where the last response of a file ended.
#[derive(Debug)]
struct Position {
    file: Identity,
    next: u64,
    credit: u64,
}

/// How a connection went, for the log.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub requests: u64,
    pub written: u64,
    pub duration: Duration,
    pub now: Snapshot,
    pub srtt: Option<(u32, u32)>,
    /// Of the throttling phase: its duration, its body bytes, and how the connection stood when it began.
    pub throttled: Option<(Duration, u64, Snapshot)>,
    /// What paces it, as it turned out.
    pub by: &'static str,
}

impl Connection {
    pub fn new(
        shared: Arc<Shared>,
        number: u64,
        group: usize,
        socket: TcpStream,
        peer: SocketAddr,
    ) -> Self {
        let way = shared.config.groups[group].way;
        Self {
            number,
            peer,
            group,
            accepted: SystemTime::now(),
            began: Instant::now(),
            progress: AtomicU64::new(0),
            written: AtomicU64::new(0),
            state: Mutex::new(State {
                responses: BTreeMap::new(),
                requests: 0,
                idle: Some(Instant::now()),
                positions: VecDeque::new(),
                pace: shared.pacing.pace(way),
                throttled: None,
                throttled_bytes: 0,
                srtt: None,
            }),
            socket,
            shared,
        }
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub fn group(&self) -> &Group {
        &self.shared.config.groups[self.group]
    }

    pub fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many bytes went into the socket.
    pub fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        self.shared.metrics.written(self.group, bytes as u64);
        if bytes >= PROGRESS {
            self.busy_until(Instant::now());
        }
    }

    /// No write is expected before this time.
    pub fn busy_until(&self, time: Instant) {
        let since = time.saturating_duration_since(self.began);
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.progress.fetch_max(nanos, Ordering::Relaxed);
    }

    /// When the client will have been too slow, if nothing happens until then; and whether it is so while a response is being sent.
    pub fn deadline(&self) -> (Instant, bool) {
        let progress = self.began + Duration::from_nanos(self.progress.load(Ordering::Relaxed));
        let limits = &self.shared.config.limits;
        match self.state().idle {
            Some(idle) => (idle.max(progress) + limits.header_timeout, false),
            None => (progress + limits.stall_timeout, true),
        }
    }

    /// A response begins. Its start-up credit, in bytes: a request that goes on where the last one of this file ended goes on in its phase,
    /// too, and any other begins anew.
    pub fn begin(&self, video: Option<(Identity, Rate, Span)>) -> (u64, u64) {
        let mut state = self.state();
        let number = state.requests;
        state.requests += 1;
        state.idle = None;
        state.responses.insert(number, None);
        self.busy_until(Instant::now());
        let Some((file, rate, span)) = video else {
            return (number, u64::MAX);
        };
        let place = state.positions.iter().position(|one| one.file == file);
        let position = place.and_then(|place| state.positions.remove(place));
        let credit = match position {
            Some(Position { next, credit, .. })
                if span.start <= next && span.start + OVERLAP >= next =>
            {
                credit
            }
            _ => {
                let seconds = self.shared.config.start_up.as_secs_f64();
                (rate.bits_per_second() as f64 / 8.0 * seconds) as u64
            }
        };
        (number, credit)
    }

    /// A response enters its throttling phase, at a rate in bytes per second; when it may write is for the answer to say.
    pub fn throttle(&self, number: u64, bytes_per_second: u64) -> Box<dyn Turns> {
        let mut state = self.state();
        state.responses.insert(number, Some(bytes_per_second));
        if state.throttled.is_none() {
            state.throttled = Some((Instant::now(), Snapshot::of(&self.socket)));
            self.shared.metrics.throttled(self.group);
        }
        self.apply(&mut state);
        state.pace.turns(bytes_per_second)
    }

    /// The socket is kept to the sum of its responses' rates, as soon as all of them are throttled.
    fn apply(&self, state: &mut State) {
        let rates = state.responses.values().copied();
        if let Some(sum) = rates.sum::<Option<u64>>() {
            state.pace.set(&self.socket, Some(sum));
        } else {
            state.pace.set(&self.socket, None);
        }
    }

    /// So many bytes of a throttled response were handed over.
    pub fn sent_throttled(&self, bytes: usize) {
        let snapshot = Snapshot::of(&self.socket);
        let mut state = self.state();
        state.throttled_bytes += bytes as u64;
        state.note(snapshot);
    }

    /// A response was sent, or given up, up to `next`.
    pub fn end(&self, number: u64, video: Option<(Identity, u64, u64)>) {
        let mut state = self.state();
        state.responses.remove(&number);
        if let Some((file, next, credit)) = video {
            state.positions.retain(|one| one.file != file);
            state.positions.push_back(Position { file, next, credit });
            if state.positions.len() > POSITIONS {
                state.positions.pop_front();
            }
        }
        if state.responses.is_empty() {
            // What is on its way keeps its pace.
            state.idle = Some(Instant::now());
        } else {
            self.apply(&mut state);
        }
    }

    /// How it stands.
    pub fn account(&self) -> Account {
        let now = Snapshot::of(&self.socket);
        let mut state = self.state();
        state.note(now);
        Account {
            requests: state.requests,
            written: self.written.load(Ordering::Relaxed),
            duration: self.began.elapsed(),
            now,
            srtt: state.srtt,
            throttled: state
                .throttled
                .map(|(at, then)| (at.elapsed(), state.throttled_bytes, then)),
            by: state.pace.by(),
        }
    }
}

impl State {
    fn note(&mut self, snapshot: Snapshot) {
        if snapshot.srtt_us == 0 {
            return;
        }
        let (least, most) = self.srtt.unwrap_or((u32::MAX, 0));
        self.srtt = Some((least.min(snapshot.srtt_us), most.max(snapshot.srtt_us)));
    }
}
