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
use super::hole;
use super::kernel::REFRESH;
use super::pace::Pace;
use super::payload::Payload;
use super::range::Span;
use super::request::Request;
use super::slots::Slot;
use super::tick;
use super::transport::NOT_SENT;
use tidegate_pace::{Hold, Phase, Ready, Writer};

/// Bytes that are read and written at once; no block is larger.
const BLOCK: usize = disk::BLOCK;
/// The same while the client takes less than comes: the rest of a block stays in memory until it does.
const SLOW_BLOCK: usize = 16 << 10;
/// The same for a stream of HTTP/2 or HTTP/3, because a connection has many streams. Paced blocks are larger if the way to
/// pace needs it.
const STREAM_BLOCK: usize = 16 << 10;

/// For how long it is known what holds a socket: a block is written and followed by the next question at the same time.
const FRESH: Duration = Duration::from_millis(1);
/// Fewer bytes are copied, which takes one system call less than to let the kernel move them.
const LEAST_PART: u64 = 8 << 10;

/// The body of a response; when it is dropped, the response is over.
#[derive(Debug)]
pub(super) struct Answer {
    content: Content,
    connection: Arc<Connection>,
    number: u64,
    /// Its entry in the log; `sent` is counted here.
    request: Option<Request>,
    sent: u64,
}

/// The next bytes of a body.
#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    /// This many of the file, which the kernel moves.
    Part(usize),
}

#[derive(Debug)]
enum Content {
    Bytes(Bytes),
    Video(Box<Video>),
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
        let piece = match &mut this.content {
            Content::Bytes(bytes) => Piece::Bytes(std::mem::take(bytes)),
            Content::Video(video) => match ready!(video.poll(cx, &this.connection, this.number)) {
                Ok(piece) => piece,
                Err(error) => return Poll::Ready(Some(Err(error))),
            },
        };
        let length = piece.length();
        if length == 0 {
            return Poll::Ready(None);
        }
        this.sent += length as u64;
        this.connection.handed(this.number, length);
        let connection = Arc::clone(&this.connection);
        let payload = match piece {
            Piece::Bytes(bytes) => Payload::bytes(bytes, connection),
            Piece::Part(_) => Payload::hole(length, connection),
        };
        Poll::Ready(Some(Ok(Frame::data(payload))))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Video(video) => video.left,
        })
    }
}

impl Piece {
    fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Part(length) => *length,
        }
    }
}

impl Video {
    /// The next bytes to write, as soon as they may be written; none at the end.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        number: u64,
    ) -> Poll<io::Result<Piece>> {
        if self.left == 0 {
            return Poll::Ready(Ok(Piece::Bytes(Bytes::new())));
        }
        if !self.throttled && self.writer.phase() == Phase::Throttling {
            self.throttled = true;
            self.writer.bound_bursts(connection.burst(self.is_stream));
            connection.throttle(number, &self.writer);
        }
        if self.waits {
            ready!(self.waiting.as_mut().poll(cx));
            self.waits = false;
        }
        let now = connection.now();
        let hold = self.hold(connection, now);
        let (allowed, paced) = match self.writer.ready(now, hold) {
            Ready::Write(bytes) => {
                let paced = self.throttled && bytes < u64::MAX;
                (bytes.min(self.left), paced)
            }
            Ready::Wait(nanos) => {
                let until = connection.at(now.saturating_add(nanos));
                let until = tick::at(until, Duration::from_nanos(nanos));
                ready!(self.wait(cx, connection, number, until));
                // Not before the next turn, so that a clock that stands still does not cause an
                // endless loop.
                self.waits = false;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        let piece = match self.part(connection, now, allowed, paced) {
            Some(piece) => piece,
            None => {
                let most = match self.is_stream {
                    _ if paced => BLOCK,
                    true => STREAM_BLOCK,
                    false => connection.room().clamp(SLOW_BLOCK, BLOCK),
                };
                let block = allowed.min(most as u64) as usize;
                Piece::Bytes(ready!(self.read(cx, block))?)
            }
        };
        let length = piece.length() as u64;
        self.left -= length;
        self.credit = self.credit.saturating_sub(length);
        let wrote = tidegate_limiter::Bytes::new(length);
        self.writer.wrote(wrote, now);
        if self.throttled {
            connection.sent_throttled(piece.length());
        }
        Poll::Ready(Ok(piece))
    }

    /// The next bytes, at most this many, if the kernel can move them from memory to the socket. A paced block must be complete.
    fn part(
        &mut self,
        connection: &Connection,
        now: u64,
        allowed: u64,
        paced: bool,
    ) -> Option<Piece> {
        let parts = connection.parts().filter(|_| !self.is_stream)?;
        // What was read already must be sent first.
        let is_next = self.reading.is_none() && self.ready.is_empty();
        if allowed < LEAST_PART || !is_next {
            return None;
        }
        let block = BLOCK as u64;
        let most = match self.throttled || allowed <= block {
            // What the clamp lets out ahead of the rate counts later. So no more is handed over than the socket takes at once.
            true => allowed.min(NOT_SENT.into()),
            // The response ends with a block, so that it is logged when its client has nearly all of it.
            false => allowed
                .min(hole::LONGEST as u64)
                .min(self.left - block)
                .max(block),
        } as usize;
        let offset = self.unread.start;
        let length = self.in_memory(now, most);
        if length == 0 || paced && length < most {
            return None;
        }
        parts.push(Arc::clone(&self.file), offset, length);
        self.unread.start += length as u64;
        Some(Piece::Part(length))
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

    /// The next bytes, this many. A block is written at once, so it must be complete.
    fn read(&mut self, cx: &mut Context<'_>, block: usize) -> Poll<io::Result<Bytes>> {
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

    /// Begins to read from the disk, as much as makes the way to another thread worthwhile.
    fn read_ahead(&mut self, missing: usize) {
        let left = self.unread.end - self.unread.start;
        let block = match self.is_stream {
            true => STREAM_BLOCK,
            false => BLOCK,
        };
        let count = missing
            .max(block)
            .min(usize::try_from(left).unwrap_or(block));
        self.reading = Some(disk::read(Arc::clone(&self.file), self.unread.start, count));
    }
}

/// Whether something that was found at a time is not older than this. Times are nanoseconds of a connection.
fn is_fresh(at: u64, now: u64, age: Duration) -> bool {
    u128::from(now.saturating_sub(at)) < age.as_nanos()
}

impl Drop for Answer {
    fn drop(&mut self) {
        let sent = self.is_end_stream();
        self.connection.end(self.number, sent);
        let unsent = match (&self.content, self.connection.parts()) {
            (Content::Video(_), Some(parts)) if !sent => parts.unsent().min(self.sent),
            _ => 0,
        };
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
