//! The body of a response: a file's bytes, in two phases [Trickle §2].

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::Version;
use hyper::body::{Body, Buf, Bytes, Frame, SizeHint};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

use super::connection::{Connection, Credit};
use super::disk;
use super::pace::Pace;
use super::range::Span;
use super::request::Request;
use super::slots::Slot;
use tidegate_pace::{Phase, Ready, Writer};

/// Bytes that are read and written at once; no block is larger.
const BLOCK: usize = disk::BLOCK;
/// The same while the client takes less than comes: the rest of a block stays in memory until it does.
const SLOW_BLOCK: usize = 16 << 10;
/// The same for a stream of HTTP/2 or HTTP/3, because a connection has many streams. Paced blocks are larger if the way to
/// pace needs it.
const STREAM_BLOCK: usize = 16 << 10;

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

/// Bytes of a body on their way to the socket. The writer calls `advance`, so the connection can tell them from other bytes.
#[derive(Debug)]
pub(super) struct Payload {
    bytes: Bytes,
    connection: Arc<Connection>,
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
    waiting: Pin<Box<Sleep>>,
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
        let bytes = match &mut this.content {
            Content::Bytes(bytes) => std::mem::take(bytes),
            Content::Video(video) => match ready!(video.poll(cx, &this.connection, this.number)) {
                Ok(bytes) => bytes,
                Err(error) => return Poll::Ready(Some(Err(error))),
            },
        };
        if bytes.is_empty() {
            return Poll::Ready(None);
        }
        this.sent += bytes.len() as u64;
        this.connection.handed(this.number, bytes.len());
        let connection = Arc::clone(&this.connection);
        Poll::Ready(Some(Ok(Frame::data(Payload { bytes, connection }))))
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

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.connection.delivered(count);
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.connection.discarded(self.bytes.len());
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
    ) -> Poll<io::Result<Bytes>> {
        if self.left == 0 {
            return Poll::Ready(Ok(Bytes::new()));
        }
        if !self.throttled && self.writer.phase() == Phase::Throttling {
            self.throttled = true;
            connection.throttle(number, &self.writer);
        }
        let hold = if self.throttled {
            connection.hold()
        } else {
            None
        };
        let now = connection.now();
        let allowed = match self.writer.ready(now, hold) {
            Ready::Write(bytes) => {
                let paced = self.throttled && bytes < u64::MAX;
                let most = match self.is_stream {
                    _ if paced => BLOCK,
                    true => STREAM_BLOCK,
                    false => connection.room().clamp(SLOW_BLOCK, BLOCK),
                };
                bytes.min(self.left).min(most as u64) as usize
            }
            Ready::Wait(nanos) => {
                let until = connection.at(now.saturating_add(nanos));
                ready!(self.wait(cx, connection, number, until));
                // Not before the next turn, so that a clock that stands still does not cause an
                // endless loop.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        // A block is written at once, so it must be complete.
        while self.ready.len() < allowed {
            let read = match &mut self.reading {
                Some(reading) => {
                    let read = ready!(Pin::new(reading).poll(cx));
                    self.reading = None;
                    read.map_err(io::Error::other)??
                }
                None => {
                    let (offset, missing) = (self.unread.start, allowed - self.ready.len());
                    let Some(read) = disk::read_now(&self.file, offset, missing) else {
                        self.read_ahead(missing);
                        continue;
                    };
                    read
                }
            };
            if read.is_empty() {
                let cut = "the file became shorter while it was sent";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut)));
            }
            self.unread.start += read.len() as u64;
            self.ready = if self.ready.is_empty() {
                read
            } else {
                [&self.ready[..], &read].concat().into()
            };
        }
        let bytes = self.ready.split_to(allowed.min(self.ready.len()));
        self.left -= bytes.len() as u64;
        self.credit = self.credit.saturating_sub(bytes.len() as u64);
        let wrote = tidegate_limiter::Bytes::new(bytes.len() as u64);
        self.writer.wrote(wrote, connection.now());
        if self.throttled {
            connection.sent_throttled(bytes.len());
        }
        Poll::Ready(Ok(bytes))
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

impl Drop for Answer {
    fn drop(&mut self) {
        let sent = self.is_end_stream();
        self.connection.end(self.number, sent);
        if let Content::Video(video) = &self.content {
            let next = video.unread.end - video.left;
            self.connection.give_back(video.owner, next, video.credit);
        }
        if let Some(request) = self.request.take() {
            self.connection.log_request(&request, self.sent);
        }
    }
}
