//! A connection: its client, how it is paced, its responses, and its figures.

mod late;
mod positions;
mod progress;
mod rate;
mod responses;

use std::net::{self, IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::{Hold, Packets, Way, Writer, throttled_rate};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::account::{Account, Notes};
use super::config::Group;
use super::files::Identity;
use super::kernel::{REFRESH, Snapshot};
use super::pace::{self, Pace};
use super::range::Span;
use super::request::Request;
use super::rest::REST;
use super::shared::Shared;
use super::transport::{NOT_SENT, Transport};
use super::viewers::{Ended, Loan};

use positions::{Position, Positions};
use progress::Progress;
use rate::{Applied, SocketRate};
use responses::Responses;

/// How old the kernel's figures may be where they are for the log, and for the length of packets, which changes rarely.
const NOTED: Duration = Duration::from_secs(1);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub shared: Arc<Shared>,
    transport: Transport,
    past: Past,
}

/// What a connection was until now. This is all that is kept of one that rests, but for its socket.
#[derive(Debug)]
pub(super) struct Past {
    /// Counted from 0, in the order of arrival.
    number: u64,
    peer: SocketAddr,
    /// Index of its group.
    group: usize,
    accepted: SystemTime,
    progress: Progress,
    changing: Mutex<Changing>,
}

/// The values that change with the responses of a connection.
#[derive(Debug)]
struct Changing {
    responses: Responses,
    rate: SocketRate,
    positions: Positions,
    notes: Notes,
}

/// A request whose response did not begin yet, until this is dropped.
#[derive(Debug)]
pub(super) struct Asked(Arc<Connection>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.changing().responses.asked -= 1;
    }
}

impl Changing {
    /// Gives up the memory of responses that ended: a map keeps that of its last entry, which lies between what is freed.
    fn forget_ends(&mut self) {
        self.responses.forget_ends();
        self.rate.forget_ends();
    }
}

/// Whom a response's start-up credit belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Credit {
    /// Nobody counts it.
    Free,
    /// This connection, for this file.
    File(Identity),
    /// A viewer of adaptive video, for a response that begins at this byte of a file of this rate.
    Viewer(Loan, Rate, u64),
}

impl Past {
    /// A connection that begins now.
    pub fn new(number: u64, group: usize, peer: SocketAddr) -> Self {
        Self {
            number,
            peer,
            group,
            accepted: SystemTime::now(),
            progress: Progress::new(),
            changing: Mutex::new(Changing {
                responses: Responses::new(),
                rate: SocketRate::new(),
                positions: Positions::default(),
                notes: Notes::default(),
            }),
        }
    }

    /// Counted from 0, in the order of arrival.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures until now, with those of the kernel. `by`: how it was to be paced.
    fn account<'a>(&self, shared: &'a Shared, now: Snapshot, by: &'static str) -> Account<'a> {
        let mut changing = self.changing();
        changing.notes.note(now);
        Account {
            number: self.number,
            peer: self.peer,
            group: &shared.config.groups[self.group],
            accepted: self.accepted,
            requests: changing.responses.count,
            written: self.progress.written(),
            duration: self.progress.began().elapsed(),
            now,
            srtt: changing.notes.srtt,
            throttled: changing.notes.throttled(),
            by: changing.rate.really_by(by),
        }
    }

    fn log_end(&self, shared: &Shared, account: &Account<'_>, why: &'static str) {
        shared.metrics.closed(self.group, why, account);
        if let Some(log) = &shared.log
            && !log.connection(account, why)
        {
            shared.metrics.log_dropped();
        }
    }

    /// Counts and logs the end of a connection of TCP whose socket was lost on its way to rest, or back.
    pub fn lost(&self, shared: &Shared) {
        let by = shared.sockets.by(shared.config.groups[self.group].way);
        self.log_end(
            shared,
            &self.account(shared, Snapshot::default(), by),
            "broken",
        );
    }
}

impl Connection {
    pub fn new(shared: Arc<Shared>, past: Past, transport: Transport) -> Self {
        Self {
            shared,
            transport,
            past,
        }
    }

    /// What is kept of it while it rests, and its socket, which no runtime watches any more. Otherwise it has ended.
    pub fn rest(self) -> Option<(Past, net::TcpStream)> {
        let Self {
            shared,
            transport,
            past,
            ..
        } = self;
        let socket = match transport {
            Transport::Tcp { socket, .. } => {
                Arc::into_inner(socket).and_then(|socket| socket.into_std().ok())
            }
            Transport::Quic(_) => None,
        };
        if socket.is_none() {
            past.lost(&shared);
        }
        past.changing().forget_ends();
        socket.map(|socket| (past, socket))
    }

    pub fn group(&self) -> &Group {
        &self.shared.config.groups[self.past.group]
    }

    pub fn peer(&self) -> SocketAddr {
        self.past.peer
    }

    pub fn address(&self) -> IpAddr {
        self.past.peer.ip().to_canonical()
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.past.changing()
    }

    /// The socket took this many of the offered bytes.
    pub fn wrote(&self, bytes: usize, offered: usize) {
        self.past.progress.wrote(bytes, offered);
        self.shared.metrics.written(self.past.group, bytes as u64);
    }

    /// How many bytes the socket takes at once.
    pub fn room(&self) -> usize {
        self.transport.room()
    }

    /// The packets that bodies leave in now, if they are known. `is_stream`: bodies go into a stream of HTTP/2 or HTTP/3.
    pub fn packets(&self, is_stream: bool) -> Option<Packets> {
        let now = self.transport.snapshot();
        self.transport.packets(&now, self.group().way, is_stream)
    }

    /// Asks the kernel whether the client took something meanwhile, because the socket becomes writable only when much has
    /// left it.
    pub fn note_acknowledged(&self) {
        let acknowledged = self.transport.snapshot().acknowledged;
        match self.transport {
            Transport::Tcp { .. } => self.past.progress.acknowledged(acknowledged),
            Transport::Quic(_) => self.past.progress.acknowledged_about(acknowledged),
        }
    }

    /// Bytes of a response were taken from its body.
    pub fn handed(&self, number: u64, bytes: usize) {
        self.past.progress.handed(bytes);
        self.busy_until(number, Instant::now());
    }

    /// Bytes of bodies were written. TLS may keep some of them until the socket takes them.
    pub fn delivered(&self, bytes: usize) {
        if let Transport::Quic(quic) = &self.transport {
            // There is no socket of its own that anything else is written to.
            self.wrote(bytes, bytes);
            quic.took(bytes, NOT_SENT);
        }
        self.past.progress.delivered(bytes);
    }

    /// Bytes of a body that were handed on will never be written.
    pub fn discarded(&self, bytes: usize) {
        self.past.progress.discarded(bytes);
        self.changing().responses.cut = true;
    }

    /// Whether the client ends the connection before it has the whole last response.
    pub fn was_cut(&self) -> bool {
        self.changing().responses.was_cut()
    }

    /// Whether it had a request.
    pub fn was_used(&self) -> bool {
        self.changing().responses.count > 0
    }

    /// From when on it needs no buffers until the next request, if it has none and its last one was answered. The streams of HTTP/2 may
    /// begin at any time.
    pub fn rests_at(&self) -> Option<Instant> {
        if self.past.progress.is_outstanding() || self.past.progress.is_refused() {
            return None;
        }
        let responses = &self.changing().responses;
        let rests = responses.count > 0 && responses.asked == 0 && !responses.multiplexed;
        responses.idle.filter(|_| rests).map(|idle| idle + REST)
    }

    /// Whether bytes of bodies that the socket took were not acknowledged when last checked.
    pub fn is_unacknowledged(&self) -> bool {
        self.past.progress.is_unacknowledged()
    }

    /// Whether the client took nothing for this time.
    pub fn is_quiet(&self, time: Duration) -> bool {
        self.past.progress.last() + time <= Instant::now()
    }

    /// A response does not wait for the client until this time.
    pub fn busy_until(&self, number: u64, time: Instant) {
        self.changing().responses.busy_until(number, time);
    }

    /// When the client counts as too slow if nothing happens before, and whether a response is being sent.
    pub fn deadline(&self) -> (Instant, bool) {
        let progress = self.past.progress.last();
        let limits = &self.shared.config.limits;
        let responses = &self.changing().responses;
        match responses.idle {
            // The end of the last response may be on its way to the socket.
            Some(idle) if self.past.progress.is_outstanding() => {
                (idle.max(progress) + limits.stall_timeout, true)
            }
            Some(_) if responses.asked > 0 => (Instant::now() + limits.header_timeout, false),
            Some(idle) => (idle.max(progress) + limits.header_timeout, false),
            None => {
                let slowest = responses.waits_since(progress).unwrap_or(progress);
                (slowest + limits.stall_timeout, true)
            }
        }
    }

    /// This task sends a stream of HTTP/2.
    pub fn spawned(&self, task: AbortHandle) {
        self.changing().responses.spawned(task);
    }

    /// Ends the streams of HTTP/2 whose client was too slow. Returns whether there were any. There are none if the whole connection stalls:
    /// then the bytes of bodies that the socket took have waited too long for acknowledgements. Answers to pings do not count, because a
    /// client may send many pings, and then one answer is nearly always under way.
    pub fn reset_stalled(&self) -> bool {
        let limit = self.shared.config.limits.stall_timeout;
        let progress = self.past.progress.last();
        let whole = match self.transport {
            Transport::Tcp { .. } => self.past.progress.is_unacknowledged(),
            // QUIC ends a connection whose client says nothing any more.
            Transport::Quic(_) => false,
        };
        if whole && progress + limit <= Instant::now() {
            return false;
        }
        let stalled = self.changing().responses.take_stalled(progress, limit);
        for task in &stalled {
            // When the task ends, h2 drops the stream's data and tells the client (RST_STREAM, CANCEL).
            task.abort();
        }
        !stalled.is_empty()
    }

    /// What bounds the socket's rate, for a writer. With several videos the kernel bounds only their sum, or nothing. Then each throttled video
    /// is kept to its rate by its token bucket. This also holds if the kernel does not pace the socket.
    pub fn hold(&self) -> Option<Hold> {
        if !self.changing().rate.holds_one() {
            return Some(Hold::Unheld);
        }
        self.transport.hold(&self.shared.sockets, self.group().way)
    }

    /// The connection's time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.past.progress.now()
    }

    /// A time of the connection.
    pub fn at(&self, nanos: u64) -> Instant {
        // No wait is longer than a day.
        self.past.progress.began()
            + Duration::from_nanos(nanos.min(self.now() + 86_400_000_000_000))
    }

    /// A request arrived. Until its response begins, which may have to wait for the disk, nothing waits for the client.
    pub fn asked(self: &Arc<Self>) -> Asked {
        self.changing().responses.asked += 1;
        Asked(Arc::clone(self))
    }

    /// Begins a short response. Returns its number.
    pub fn begin(&self) -> u64 {
        self.changing().responses.begin()
    }

    /// Begins a response with a file. Returns its number, its schedule, and its start-up credit in bytes, and whom that belongs to. A
    /// request that continues the last one of this file stays in its phase. Any other request begins with a start-up phase, except
    /// that of a viewer of adaptive video.
    pub fn begin_video(&self, pace: Pace, span: Span) -> (u64, Writer, u64, Credit) {
        let mut changing = self.changing();
        let number = changing.responses.begin();
        let config = &self.shared.config;
        let way = match self.group().way {
            // As the clamp, it leaves the time of writes to the socket, until the socket does not hold the stream alone.
            Way::MaxPacingRate => Way::TRICKLE,
            way => way,
        };
        let (way, throttled, credit, paid, owner) = match pace {
            Pace::Free => {
                let free = Rate::from_bits_per_second(0);
                (Way::None, free, u64::MAX, None, Credit::Free)
            }
            Pace::File(file, rate) => {
                let whole = pace::bytes_of(rate, config.start_up);
                let last = changing.positions.continued(file, span);
                let (credit, paid) = last.map_or((whole, None), |last| (last.credit, last.paid));
                let throttled = throttled_rate(rate, u64::from(config.throttle_percent) * 10);
                (way, throttled, credit, paid, Credit::File(file))
            }
            Pace::Segment(segment) => {
                let wanted = pace::time_of(segment.rate, span.end - span.start);
                let (place, viewers) = (segment.place(span), &self.shared.viewers);
                let loan = viewers.lend(segment.session, place, segment.waits, wanted);
                // Divisions must not cut the last byte off the start-up phase.
                let credit = match loan.credit < wanted {
                    true => pace::bytes_of(segment.rate, loan.credit),
                    false => span.end - span.start,
                };
                let paid = loan.paid.map(|paid| self.past.progress.nanos(paid));
                let owner = Credit::Viewer(loan, segment.rate, span.start);
                (way, segment.throttled, credit, paid, owner)
            }
        };
        let writer = match owner {
            Credit::Free => Writer::new(way, throttled, Bytes::new(0)),
            _ => Writer::new(way, throttled, Bytes::new(credit)),
        };
        let length = Bytes::new(span.end - span.start);
        let writer = writer.length(length).continues(paid);
        changing.rate.set(number, None);
        if credit > 0 {
            self.apply(&mut changing.rate);
        }
        (number, writer, credit, owner)
    }

    /// A response enters its throttling phase.
    pub fn throttle(&self, number: u64, writer: &Writer) {
        let settings = writer.settings();
        let rate = settings.clamp.or(settings.max_pacing_rate);
        let rate = rate.map_or(0, |rate| rate.bits_per_second());
        let mut changing = self.changing();
        changing.rate.set(number, Some(rate));
        let first = changing
            .notes
            .begin_throttling(self.past.progress.payload());
        self.apply(&mut changing.rate);
        if first {
            let by = self.paced_by(&changing.rate);
            self.shared.metrics.throttled(self.past.group, by);
        }
    }

    fn apply(&self, rate: &mut SocketRate) {
        let (sockets, way) = (&self.shared.sockets, self.group().way);
        if rate.apply(sockets, way, &self.transport) == Applied::Refused {
            self.shared.metrics.unpaced(self.past.group);
        }
    }

    /// A throttled response handed over this many bytes. Returns the packets that bodies leave in, if the kernel was asked. `is_stream` as
    /// above.
    pub fn sent_throttled(&self, bytes: usize, is_stream: bool) -> Option<Packets> {
        let now = Instant::now();
        let mut changing = self.changing();
        let asked = || self.transport.snapshot();
        let is_corrected = self.group().way == Way::MaxPacingRate;
        let age = if is_corrected { REFRESH } else { NOTED };
        let snapshot = changing.notes.sent_throttled(bytes, now, age, asked)?;
        if is_corrected {
            changing.rate.note(now, snapshot.acknowledged);
            self.apply(&mut changing.rate);
        }
        self.transport
            .packets(&snapshot, self.group().way, is_stream)
    }

    /// A response was sent, or given up.
    pub fn end(&self, number: u64, sent: bool) {
        let mut changing = self.changing();
        changing.responses.end(number, sent);
        if changing.rate.remove(number) {
            self.apply(&mut changing.rate);
        }
    }

    /// A response with a file ended before the byte `next`, and did not use this credit. At `paid`, in nanoseconds of the connection, there
    /// were tokens for what it sent.
    pub fn give_back(&self, owner: Credit, (next, credit): (u64, u64), paid: Option<u64>) {
        match owner {
            Credit::Free => {}
            Credit::File(file) => {
                let position = Position {
                    file,
                    next,
                    credit,
                    paid,
                };
                self.changing().positions.remember(position);
            }
            Credit::Viewer(loan, rate, start) => {
                let ended = Ended {
                    sent: pace::time_of(rate, next.saturating_sub(start)),
                    unused: pace::time_of(rate, credit).min(loan.credit),
                    paid: paid.map(|paid| self.at(paid)),
                };
                self.shared.viewers.give_back(loan, ended);
            }
        }
    }

    /// Logs a response that was sent or given up, with this many bytes of its body.
    pub fn log_request(&self, request: &Request, sent: u64) {
        let shared = &self.shared;
        let status = request.status.as_u16();
        shared.metrics.request(status, request.version);
        if let Some(log) = &shared.log
            && !log.request(&self.account(), request, sent)
        {
            shared.metrics.log_dropped();
        }
    }

    /// Counts the connection as open.
    pub fn log_begin(&self) {
        self.shared.metrics.opened(self.past.group);
    }

    /// Counts and logs the end of the connection.
    pub fn log_end(&self, why: &'static str) {
        self.past.log_end(&self.shared, &self.account(), why);
    }

    /// The figures until now.
    fn account(&self) -> Account<'_> {
        let by = self.transport.by(&self.shared.sockets, self.group().way);
        self.past
            .account(&self.shared, self.transport.snapshot(), by)
    }

    /// How it was really paced.
    fn paced_by(&self, rate: &SocketRate) -> &'static str {
        rate.really_by(self.transport.by(&self.shared.sockets, self.group().way))
    }
}
