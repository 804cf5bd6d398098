//! The body of a response: a file's bytes, in two phases [Trickle §2].

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::Version;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

use super::connection::{Connection, Credit};
use super::disk;
use super::kernel::REFRESH;
use super::pace::Pace;
use super::payload::Payload;
use super::range::Span;
use super::request::Request;
use super::slots::Slot;
use super::tick;
use super::transport::NOT_SENT;
use tidegate_pace::{Hold, Packets, Phase, Ready, Writer};

/// Bytes that are read and written at once; no block is larger.
const BLOCK: usize = disk::BLOCK;
/// The same while the client takes less than comes: the rest of a block stays in memory until it does.
const SLOW_BLOCK: usize = 16 << 10;
/// The same for a stream of HTTP/2 or HTTP/3, because a connection has many streams. Paced blocks are larger if the way to
/// pace needs it.
const STREAM_BLOCK: usize = 16 << 10;

/// For how long it is known what holds a socket: a block is written and followed by the next question at the same time.
const FRESH: Duration = Duration::from_millis(1);
/// A shorter response leaves with its head in one call.
const LONG: u64 = 8 << 10;
/// The kernel is asked to move no more at once.
const LONGEST_PART: u64 = 512 << 10;

/// The body of a response; when it is dropped, the response is over.
#[derive(Debug)]
pub(super) struct Answer {
    content: Content,
    connection: Arc<Connection>,
    number: u64,
    /// Its entry in the log; `sent` is counted here.
    request: Option<Request>,
    sent: u64,
    /// Bytes among them that its own loop has not sent yet.
    unsent: u64,
}

/// The next bytes of a body.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Bytes),
    /// A part of a file, which the kernel moves.
    Part {
        file: Arc<File>,
        offset: u64,
        length: usize,
    },
}

#[derive(Debug)]
enum Content {
    Bytes(Bytes),
    Video(Box<Video>),
}

/// What may be written now.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// Now, in nanoseconds of the connection.
    now: u64,
    bytes: u64,
    /// More follow at a time.
    paced: bool,
}

/// A file that is being sent.
#[derive(Debug)]
struct Video {
    file: Arc<File>,
    _slot: Slot,
    /// Whom the rest of the credit belongs to.
    owner: Credit,
    /// The bytes that remain to be read, and how many remain to be handed on.
    unread: Span,
    left: u64,
    /// Bytes that may still be sent at full speed.
    credit: u64,
    writer: Writer,
    throttled: bool,
    /// Whether it is a stream of HTTP/2 or HTTP/3.
    is_stream: bool,
    /// Bytes that were read, but not handed on yet.
    ready: Bytes,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    /// Whether the next block is not due yet.
    waits: bool,
    waiting: Pin<Box<Sleep>>,
    /// What held the socket, and when the kernel said so, in nanoseconds of the connection.
    held: Option<(u64, Option<Hold>)>,
    /// The bytes before this one were in memory, at that time in nanoseconds of the connection.
    in_memory: Option<(u64, u64)>,
}

impl Answer {
    /// The connection that it goes to.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// An answer of a few bytes.
    pub fn bytes(connection: Arc<Connection>, request: Request, bytes: impl Into<Bytes>) -> Self {
        let number = connection.begin();
        Self {
            content: Content::Bytes(bytes.into()),
            connection,
            number,
            request: Some(request),
            sent: 0,
            unsent: 0,
        }
    }

    /// A part of a file, paced if its rate is known.
    pub fn video(
        connection: Arc<Connection>,
        request: Request,
        (file, slot): (File, Slot),
        pace: Pace,
        span: Span,
    ) -> Self {
        let (number, writer, credit, owner) = connection.begin_video(pace, span);
        let video = Video {
            file: Arc::new(file),
            _slot: slot,
            owner,
            unread: span,
            left: span.end - span.start,
            credit,
            writer,
            throttled: false,
            is_stream: request.version >= Version::HTTP_2,
            ready: Bytes::new(),
            reading: None,
            waits: false,
            held: None,
            in_memory: None,
            waiting: Box::pin(tokio::time::sleep_until(Instant::now())),
        };
        Self {
            content: Content::Video(Box::new(video)),
            connection,
            number,
            request: Some(request),
            sent: 0,
            unsent: 0,
        }
    }

    /// Bytes that remain to be handed on.
    pub fn left(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Video(video) => video.left,
        }
    }

    /// Whether it is worthwhile to send it in a loop of its own, so that the kernel moves it.
    pub fn is_long(&self) -> bool {
        matches!(&self.content, Content::Video(video) if video.left >= LONG)
    }

    /// What the connection's own loop sends next, as soon as it may be written; none at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>> {
        let piece = match &mut self.content {
            Content::Bytes(bytes) => Piece::Bytes(std::mem::take(bytes)),
            Content::Video(video) => ready!(video.poll_piece(cx, &self.connection, self.number))?,
        };
        let length = piece.length();
        self.handed(length);
        self.unsent = length as u64;
        Poll::Ready(Ok((length > 0).then_some(piece)))
    }

    /// The connection's own loop has sent this many bytes of the last piece.
    pub fn wrote(&mut self, bytes: usize) {
        self.unsent -= bytes as u64;
        self.connection.wrote(bytes, bytes);
        self.connection.delivered(bytes);
    }

    fn handed(&mut self, bytes: usize) {
        if bytes > 0 {
            self.sent += bytes as u64;
            self.connection.handed(self.number, bytes);
        }
    }
}

impl Body for Answer {
    type Data = Payload;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Payload>>>> {
        let this = self.get_mut();
        let bytes = match &mut this.content {
            Content::Bytes(bytes) => std::mem::take(bytes),
            Content::Video(video) => {
                match ready!(video.poll_bytes(cx, &this.connection, this.number)) {
                    Ok(bytes) => bytes,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
        };
        if bytes.is_empty() {
            return Poll::Ready(None);
        }
        this.handed(bytes.len());
        let payload = Payload::new(bytes, Arc::clone(&this.connection));
        Poll::Ready(Some(Ok(Frame::data(payload))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

impl Piece {
    fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Part { length, .. } => *length,
        }
    }
}

impl Video {
    /// The next bytes to write, as soon as they may be written; none at the end.
    fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        number: u64,
    ) -> Poll<io::Result<Bytes>> {
        if self.left == 0 {
            return Poll::Ready(Ok(Bytes::new()));
        }
        let due = ready!(self.due(cx, connection, number));
        let bytes = ready!(self.read(cx, connection, due))?;
        self.take(connection, due, bytes.len());
        Poll::Ready(Ok(bytes))
    }

    /// The same, but the kernel is to move them from memory to the socket if it can.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        number: u64,
    ) -> Poll<io::Result<Piece>> {
        if self.left == 0 {
            return Poll::Ready(Ok(Piece::Bytes(Bytes::new())));
        }
        let due = ready!(self.due(cx, connection, number));
        let piece = match self.part(due) {
            Some(part) => part,
            None => Piece::Bytes(ready!(self.read(cx, connection, due))?),
        };
        self.take(connection, due, piece.length());
        Poll::Ready(Ok(piece))
    }

    /// How many bytes may be written, as soon as there are any.
    fn due(&mut self, cx: &mut Context<'_>, connection: &Connection, number: u64) -> Poll<Due> {
        if !self.throttled && self.writer.phase() == Phase::Throttling {
            self.throttled = true;
            self.fill(connection.packets(self.is_stream));
            connection.throttle(number, &self.writer);
        }
        if self.waits {
            ready!(self.waiting.as_mut().poll(cx));
            self.waits = false;
        }
        let now = connection.now();
        let hold = self.hold(connection, now);
        match self.writer.ready(now, hold) {
            Ready::Write(bytes) => Poll::Ready(Due {
                now,
                bytes: bytes.min(self.left),
                paced: self.throttled && bytes < u64::MAX,
            }),
            Ready::Wait(nanos) => {
                let until = connection.at(now.saturating_add(nanos));
                let until = tick::at(until, Duration::from_nanos(nanos));
                ready!(self.wait(cx, connection, number, until));
                // Not before the next turn, so that a clock that stands still does not cause an
                // endless loop.
                self.waits = false;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn fill(&mut self, packets: Option<Packets>) {
        if let Some(packets) = packets {
            self.writer.fill(packets);
        }
    }

    /// Counts bytes that are handed on.
    fn take(&mut self, connection: &Connection, due: Due, length: usize) {
        self.left -= length as u64;
        self.credit = self.credit.saturating_sub(length as u64);
        let wrote = tidegate_limiter::Bytes::new(length as u64);
        self.writer.wrote(wrote, due.now);
        if self.throttled {
            self.fill(connection.sent_throttled(length, self.is_stream));
        }
    }

    /// The next bytes, if the kernel can move them from memory to the socket. A paced block must be complete.
    fn part(&mut self, due: Due) -> Option<Piece> {
        // What was read already must be sent first.
        if self.reading.is_some() || !self.ready.is_empty() {
            return None;
        }
        let most = match self.throttled {
            // What the clamp lets out ahead of the rate counts later. So no more is handed over than the socket takes at once.
            true => NOT_SENT.into(),
            false => LONGEST_PART,
        };
        let most = due.bytes.min(most) as usize;
        let offset = self.unread.start;
        let length = self.in_memory(due.now, most);
        if length == 0 || due.paced && length < most {
            return None;
        }
        self.unread.start += length as u64;
        Some(Piece::Part {
            file: Arc::clone(&self.file),
            offset,
            length,
        })
    }

    /// How many of the next bytes are in memory, at most this many. Those of the next small blocks are looked at together.
    fn in_memory(&mut self, now: u64, most: usize) -> usize {
        let offset = self.unread.start;
        let left = usize::try_from(self.unread.end - offset).unwrap_or(usize::MAX);
        let ahead = left.min(disk::STRIDE);
        if most >= ahead {
            return disk::in_memory(&self.file, offset, most);
        }
        let known = self
            .in_memory
            .is_some_and(|(end, at)| end >= offset + most as u64 && is_fresh(at, now, REFRESH));
        if known {
            return most;
        }
        if disk::in_memory(&self.file, offset, ahead) == ahead {
            self.in_memory = Some((offset + ahead as u64, now));
            return most;
        }
        disk::in_memory(&self.file, offset, most)
    }

    /// The next bytes, from memory of the program. A block is written at once, so it must be complete.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        due: Due,
    ) -> Poll<io::Result<Bytes>> {
        let most = match self.is_stream {
            _ if due.paced => BLOCK,
            true => STREAM_BLOCK,
            false => connection.room().clamp(SLOW_BLOCK, BLOCK),
        };
        let block = due.bytes.min(most as u64) as usize;
        while self.ready.len() < block {
            let read = match &mut self.reading {
                Some(reading) => {
                    let read = ready!(Pin::new(reading).poll(cx));
                    self.reading = None;
                    read.map_err(io::Error::other)??
                }
                None => {
                    let (offset, missing) = (self.unread.start, block - self.ready.len());
                    let Some(read) = disk::read_now(&self.file, offset, missing) else {
                        self.read_ahead(missing);
                        continue;
                    };
                    read
                }
            };
            if read.is_empty() {
                return Poll::Ready(Err(disk::shortened()));
            }
            self.unread.start += read.len() as u64;
            self.ready = if self.ready.is_empty() {
                read
            } else {
                [&self.ready[..], &read].concat().into()
            };
        }
        Poll::Ready(Ok(self.ready.split_to(block.min(self.ready.len()))))
    }

    /// What holds the socket. While writes are throttled and the clamp holds, the kernel is not asked for every block: a transfer that falls
    /// behind is throttled to its rate a little longer.
    fn hold(&mut self, connection: &Connection, now: u64) -> Option<Hold> {
        if !self.throttled {
            return None;
        }
        if let Some((at, hold)) = self.held {
            let steady = matches!(hold, Some(Hold::Floor | Hold::Spaced | Hold::Clamped));
            let age = match steady && self.writer.is_throttled() {
                true => REFRESH,
                false => FRESH,
            };
            if is_fresh(at, now, age) {
                return hold;
            }
        }
        let hold = connection.hold();
        self.held = Some((now, hold));
        hold
    }

    /// Waits for a time.
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        number: u64,
        until: Instant,
    ) -> Poll<()> {
        if self.waiting.deadline() != until {
            self.waiting.as_mut().reset(until);
            connection.busy_until(number, until);
        }
        self.waits = true;
        self.waiting.as_mut().poll(cx)
    }

    /// Begins to read from the disk, as much as makes the way to another thread worthwhile. What is read beyond a block is kept until the next one.
    fn read_ahead(&mut self, missing: usize) {
        let left = self.unread.end - self.unread.start;
        let least = match self.is_stream {
            true => STREAM_BLOCK,
            false if missing > BLOCK / 2 => missing,
            false => BLOCK,
        };
        let count = missing
            .max(least)
            .min(usize::try_from(left).unwrap_or(BLOCK));
        self.reading = Some(disk::read(Arc::clone(&self.file), self.unread.start, count));
    }
}

/// Whether something that was found at a time is not older than this. Times are nanoseconds of a connection.
fn is_fresh(at: u64, now: u64, age: Duration) -> bool {
    u128::from(now.saturating_sub(at)) < age.as_nanos()
}

impl Drop for Answer {
    fn drop(&mut self) {
        let unsent = self.unsent;
        if unsent > 0 {
            self.connection.discarded(unsent as usize);
        }
        self.connection
            .end(self.number, self.is_end_stream() && unsent == 0);
        if let Content::Video(video) = &self.content {
            let next = video.unread.end - video.left - unsent;
            let credit = match video.throttled {
                true => video.credit,
                false => video.credit.saturating_add(unsent),
            };
            let paid = video.writer.paid(tidegate_limiter::Bytes::new(unsent));
            self.connection.give_back(video.owner, (next, credit), paid);
        }
        if let Some(request) = self.request.take() {
            self.connection.log_request(&request, self.sent - unsent);
        }
    }
}
