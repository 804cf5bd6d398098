//! What is known of a connection: whose it is, how it is paced, what it is at, and how it went.

use std::collections::{BTreeMap, VecDeque};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::{Hold, Way, Writer, socket, throttled_rate};
use tokio::net::TcpStream;
use tokio::task::{self, AbortHandle};
use tokio::time::Instant;

use super::files::Identity;
use super::kernel::Snapshot;
use super::range::Span;
use super::{Group, Shared};

/// Files whose position is remembered on a connection.
const POSITIONS: usize = 8;
/// A request that begins at most so many bytes before what was sent last continues it: players fetch a little twice.
const OVERLAP: u64 = 64 << 10;
/// So many acknowledged bytes of bodies are progress; fewer are if they are the last.
const PROGRESS: u64 = 512;

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
    /// Nanoseconds since it began: when bytes of a body were last written, or seen to be acknowledged. All else that is written, such as
    /// answers to HTTP/2's pings, is no progress.
    progress: AtomicU64,
    written: AtomicU64,
    /// Bytes that the socket was offered last and did not take.
    refused: AtomicU64,
    /// Bytes of bodies that were handed on and not written yet.
    outstanding: AtomicU64,
    /// How many bytes will have been written with the last of them that belong to a body.
    payload: AtomicU64,
    /// Bytes acknowledged up to there, when last looked.
    acknowledged: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Videos that are being sent, by number: the rate each is throttled to, in bit/s.
    videos: BTreeMap<u64, Option<u64>>,
    /// Responses that are being sent, by number.
    responses: BTreeMap<u64, Response>,
    /// Tasks of the streams of HTTP/2.
    streams: Vec<AbortHandle>,
    requests: u64,
    /// Since when nothing is being sent.
    idle: Option<Instant>,
    positions: VecDeque<Position>,
    paced: Paced,
    /// The kernel does not pace this socket as it was asked to; the application does then.
    refused: bool,
    /// What ended last was not sent to its end.
    cut: bool,
    throttled: Throttled,
    throttled_bytes: u64,
    /// Smallest and largest smoothed round-trip time seen, in microseconds.
    srtt: Option<(u32, u32)>,
}

/// A response that is being sent.
#[derive(Debug, Clone, Copy)]
struct Response {
    /// Since when it waits for the client.
    since: Instant,
    /// Who sends it.
    task: Option<task::Id>,
}

/// The throttling phase, as the log tells of it.
#[derive(Debug, Clone, Copy)]
enum Throttled {
    NotYet,
    /// As soon as all that was written before is acknowledged: so many bytes.
    Behind(u64),
    /// Since then, with the connection as it stood.
    Since(Instant, Snapshot),
}

/// What was asked of the kernel for the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paced {
    No,
    /// At this rate, in bit/s.
    At(u64),
    /// At this rate, when the last response ended: what is on its way keeps it, and the next response begins a phase of its own.
    Was(u64),
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
        Self {
            number,
            peer,
            group,
            accepted: SystemTime::now(),
            began: Instant::now(),
            progress: AtomicU64::new(0),
            written: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            payload: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            state: Mutex::new(State {
                videos: BTreeMap::new(),
                responses: BTreeMap::new(),
                streams: Vec::new(),
                requests: 0,
                idle: Some(Instant::now()),
                positions: VecDeque::new(),
                paced: Paced::No,
                refused: false,
                cut: false,
                throttled: Throttled::NotYet,
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

    /// So many bytes went into the socket, of those that it was offered.
    pub fn wrote(&self, bytes: usize, offered: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        let refused = offered.saturating_sub(bytes) as u64;
        self.refused.store(refused, Ordering::Relaxed);
        self.shared.metrics.written(self.group, bytes as u64);
    }

    /// Looks whether the client took something meanwhile: the socket becomes writable only when much has left it.
    pub fn look(&self) {
        let payload = self.payload.load(Ordering::Relaxed);
        let now = Snapshot::of(&self.socket).acknowledged.min(payload);
        let before = self.acknowledged.load(Ordering::Relaxed);
        if now >= before + PROGRESS || now > before && now == payload {
            self.acknowledged.store(now, Ordering::Relaxed);
            self.progress.fetch_max(self.now(), Ordering::Relaxed);
        }
    }

    /// So many bytes of bodies were written; into TLS, which may keep some until the socket takes them.
    pub fn delivered(&self, bytes: usize) {
        self.outstanding.fetch_sub(bytes as u64, Ordering::Relaxed);
        let behind = self.refused.load(Ordering::Relaxed);
        let end = self.written.load(Ordering::Relaxed) + behind;
        self.payload.fetch_max(end, Ordering::Relaxed);
        self.progress.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// So many bytes of a body that were handed on will not be written.
    pub fn discarded(&self, bytes: usize) {
        self.outstanding.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.state().cut = true;
    }

    /// Whether the client ends the connection before what was sent last is there.
    pub fn was_cut(&self) -> bool {
        let state = self.state();
        state.cut || !state.responses.is_empty()
    }

    /// Whether bytes of the client wait in the socket.
    pub fn has_unread(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        socket2::SockRef::from(&self.socket)
            .peek(&mut byte)
            .is_ok_and(|count| count > 0)
    }

    /// So many bytes of a response were taken from its body.
    pub fn handed(&self, number: u64, bytes: usize) {
        self.outstanding.fetch_add(bytes as u64, Ordering::Relaxed);
        self.busy_until(number, Instant::now());
    }

    /// A response does not wait for the client before this time.
    pub fn busy_until(&self, number: u64, time: Instant) {
        if let Some(response) = self.state().responses.get_mut(&number) {
            response.since = response.since.max(time);
        }
    }

    /// When the client will have been too slow, if nothing happens until then; and whether it is so while a response is being sent.
    pub fn deadline(&self) -> (Instant, bool) {
        let progress = self.last_progress();
        let limits = &self.shared.config.limits;
        let state = self.state();
        match state.idle {
            // The end of the last response may be on its way to the socket.
            Some(idle) if self.outstanding.load(Ordering::Relaxed) > 0 => {
                (idle.max(progress) + limits.stall_timeout, true)
            }
            Some(idle) => (idle.max(progress) + limits.header_timeout, false),
            None => {
                let slowest = state.waiting(progress).map(|(since, _)| since).min();
                (slowest.unwrap_or(progress) + limits.stall_timeout, true)
            }
        }
    }

    fn last_progress(&self) -> Instant {
        self.began + Duration::from_nanos(self.progress.load(Ordering::Relaxed))
    }

    /// A stream of HTTP/2 has this task.
    pub fn spawned(&self, task: AbortHandle) {
        let streams = &mut self.state().streams;
        streams.retain(|task| !task.is_finished());
        streams.push(task);
    }

    /// Ends the streams of HTTP/2 whose client was too slow; says whether there were any. There are none if it is the connection that stalls:
    /// what the socket took waits to be acknowledged, and has waited too long.
    pub fn reset_stalled(&self) -> bool {
        let (now, limit) = (Instant::now(), self.shared.config.limits.stall_timeout);
        let progress = self.last_progress();
        // A socket that cannot be asked takes nothing.
        let queued = socket::unacknowledged(&self.socket).unwrap_or(u32::MAX);
        if queued > 0 && progress + limit <= now {
            return false;
        }
        let mut state = self.state();
        let late = state
            .waiting(progress)
            .filter(|(since, _)| *since + limit <= now);
        let late: Vec<_> = late.filter_map(|(_, task)| task).collect();
        let stalled = |task: &AbortHandle| late.contains(&task.id()) && !task.is_finished();
        let stalled: Vec<_> = state.streams.extract_if(.., |task| stalled(task)).collect();
        // Its body goes with the task, but not at once; until then it is not to be found late again.
        let is_over = |response: &Response| {
            let over = |task: &AbortHandle| Some(task.id()) == response.task;
            stalled.iter().any(over)
        };
        state.responses.retain(|_, response| !is_over(response));
        if state.responses.is_empty() {
            state.idle = Some(now);
        }
        drop(state);
        for task in &stalled {
            // With its task h2 forgets what the stream had ready, and tells the client (RST_STREAM, CANCEL).
            task.abort();
        }
        !stalled.is_empty()
    }

    /// How the connection is paced.
    fn way(&self) -> Way {
        self.group().way
    }

    /// What holds the socket, for a writer. Of several videos the socket holds the sum alone, or nothing, so that each that is throttled is kept
    /// to its rate by its own bucket; so is one whose socket the kernel did not pace.
    pub fn held(&self) -> Option<Hold> {
        let state = self.state();
        if state.refused || state.videos.len() > 1 {
            return Some(Hold::Fallback);
        }
        drop(state);
        self.shared.sockets.hold(self.way(), &self.socket)
    }

    /// The connection's time, in nanoseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A time of the connection.
    pub fn at(&self, nanos: u64) -> Instant {
        // Beyond a day nothing is waited for.
        self.began + Duration::from_nanos(nanos.min(self.now() + 86_400_000_000_000))
    }

    /// A short response begins; its number.
    pub fn begin(&self) -> u64 {
        let mut state = self.state();
        let number = state.requests;
        state.requests += 1;
        let response = Response {
            since: Instant::now(),
            task: task::try_id(),
        };
        state.responses.insert(number, response);
        state.idle = None;
        number
    }

    /// A response with a file begins: its number, its schedule, and its start-up credit in bytes. A request that goes on where the last one
    /// of this file ended goes on in its phase, too, and any other begins anew.
    pub fn begin_video(
        &self,
        file: Identity,
        rate: Option<Rate>,
        span: Span,
    ) -> (u64, Writer, u64) {
        let number = self.begin();
        let mut state = self.state();
        let (writer, credit) = match rate {
            None => {
                let free = Rate::from_bits_per_second(0);
                (Writer::new(Way::None, free, Bytes::new(0)), u64::MAX)
            }
            Some(rate) => {
                let bits = rate.bits_per_second();
                let seconds = self.shared.config.start_up.as_secs_f64();
                let whole = (bits as f64 / 8.0 * seconds) as u64;
                let credit = state.continued(file, span).unwrap_or(whole);
                let way = match self.way() {
                    // As the clamp, it leaves the time of writes to the socket, until the socket does not hold the stream alone.
                    Way::MaxPacingRate => Way::TRICKLE,
                    way => way,
                };
                let percent = u64::from(self.shared.config.throttle_percent);
                let throttled = throttled_rate(rate, percent * 10);
                (Writer::new(way, throttled, Bytes::new(credit)), credit)
            }
        };
        state.videos.insert(number, None);
        if credit > 0 {
            self.apply(&mut state);
        }
        (number, writer, credit)
    }

    /// A response enters its throttling phase.
    pub fn throttle(&self, number: u64, writer: &Writer) {
        let settings = writer.settings();
        let rate = settings.clamp.or(settings.max_pacing_rate).unwrap_or(0);
        let mut state = self.state();
        state.videos.insert(number, Some(rate));
        let first = matches!(state.throttled, Throttled::NotYet);
        if first {
            state.throttled = Throttled::Behind(self.written.load(Ordering::Relaxed));
        }
        self.apply(&mut state);
        if first {
            let by = self.paced_by(&state);
            self.shared.metrics.throttled(self.group, by);
        }
    }

    /// Keeps the socket to the sum of its responses' rates, as soon as all of them are throttled.
    fn apply(&self, state: &mut State) {
        let rate = state.videos.values().copied().sum::<Option<u64>>();
        let anew = !matches!(state.paced, Paced::At(_));
        let paced = match rate {
            Some(rate) if rate > 0 => Paced::At(rate),
            _ => Paced::No,
        };
        if paced == state.paced {
            return;
        }
        let rate = rate.filter(|&rate| rate > 0);
        let done = self
            .shared
            .sockets
            .set(self.way(), &self.socket, rate, anew);
        if !done {
            self.shared.metrics.unpaced(self.group);
        }
        if rate.is_some() {
            state.refused = !done;
        }
        state.paced = if done { paced } else { Paced::No };
    }

    /// So many bytes of a throttled response were handed over.
    pub fn sent_throttled(&self, bytes: usize) {
        let snapshot = Snapshot::of(&self.socket);
        let mut state = self.state();
        state.note(snapshot);
        match state.throttled {
            Throttled::Behind(before) if snapshot.acknowledged >= before => {
                state.throttled = Throttled::Since(Instant::now(), snapshot);
            }
            Throttled::Since(..) => {}
            _ => return,
        }
        state.throttled_bytes += bytes as u64;
    }

    /// A response was sent, or given up; a video up to `next`, with what is left of its credit.
    pub fn end(&self, number: u64, sent: bool, video: Option<(Identity, u64, u64)>) {
        let mut state = self.state();
        state.cut = !sent;
        state.responses.remove(&number);
        if state.videos.remove(&number).is_some() {
            match state.paced {
                Paced::At(rate) if state.videos.is_empty() => state.paced = Paced::Was(rate),
                _ if state.videos.is_empty() => {}
                _ => self.apply(&mut state),
            }
        }
        if let Some((file, next, credit)) = video {
            state.positions.retain(|one| one.file != file);
            state.positions.push_back(Position { file, next, credit });
            if state.positions.len() > POSITIONS {
                state.positions.pop_front();
            }
        }
        if state.responses.is_empty() {
            state.idle = Some(Instant::now());
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
            throttled: match state.throttled {
                Throttled::Since(at, then) => Some((at.elapsed(), state.throttled_bytes, then)),
                _ => None,
            },
            by: self.paced_by(&state),
        }
    }

    /// What paces it, as it turned out.
    fn paced_by(&self, state: &State) -> &'static str {
        match state.refused {
            true => "application",
            false => self.shared.sockets.by(self.group().way),
        }
    }
}

impl State {
    /// Since when each response waits for the client, if the socket moved at this time; and who sends it.
    fn waiting(&self, progress: Instant) -> impl Iterator<Item = (Instant, Option<task::Id>)> {
        // What the socket takes is a response's only if no other one came after it: a stream that stalls is not kept by others.
        let alone = self.responses.len() == 1
            && self.responses.contains_key(&self.requests.wrapping_sub(1));
        let responses = self.responses.values();
        responses.map(move |response| match alone {
            true => (response.since.max(progress), response.task),
            false => (response.since, response.task),
        })
    }

    /// The credit that is left of a file, if a response of this span continues the last one.
    fn continued(&mut self, file: Identity, span: Span) -> Option<u64> {
        let place = self.positions.iter().position(|one| one.file == file)?;
        let Position { next, credit, .. } = self.positions.remove(place)?;
        (span.start <= next && span.start + OVERLAP >= next).then_some(credit)
    }

    fn note(&mut self, snapshot: Snapshot) {
        if snapshot.srtt_us == 0 {
            return;
        }
        let (least, most) = self.srtt.unwrap_or((u32::MAX, 0));
        self.srtt = Some((least.min(snapshot.srtt_us), most.max(snapshot.srtt_us)));
    }
}
