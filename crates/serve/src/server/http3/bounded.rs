//! QUIC for h3, with a bound on what a client may send: h3 keeps a frame in memory until it is complete, however long it says it is.

use std::task::{Context, Poll};

use h3::error::Code;
use h3::quic::{
    self, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};
use hyper::body::Buf;

/// Bytes of a request. Its header may have a quarter of this; what follows it is not read.
const REQUEST: usize = 64 << 10;
/// Bytes of any other stream. Clients may change their wishes there with each request.
const CONTROL: usize = 1 << 20;

/// A connection.
pub(super) struct Bounded {
    quic: quinn::Connection,
    inner: h3_quinn::Connection,
}

/// A stream, with the bytes that its client may still send.
pub(super) struct Counted<S> {
    inner: S,
    left: usize,
    /// The last read waits, and has the stream.
    reading: bool,
}

impl Bounded {
    pub fn new(quic: quinn::Connection) -> Self {
        Self {
            inner: h3_quinn::Connection::new(quic.clone()),
            quic,
        }
    }
}

impl<S> Counted<S> {
    fn new(inner: S, left: usize) -> Self {
        Self {
            inner,
            left,
            reading: false,
        }
    }
}

impl<B: Buf> quic::Connection<B> for Bounded {
    type RecvStream = Counted<h3_quinn::RecvStream>;
    type OpenStreams = Self;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = quic::Connection::<B>::poll_accept_recv(&mut self.inner, cx);
        accepted.map_ok(|stream| Counted::new(stream, CONTROL))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = quic::Connection::<B>::poll_accept_bidi(&mut self.inner, cx);
        accepted.map_ok(|stream| Counted::new(stream, REQUEST))
    }

    fn opener(&self) -> Self {
        Self::new(self.quic.clone())
    }
}

impl<B: Buf> OpenStreams<B> for Bounded {
    type BidiStream = Counted<h3_quinn::BidiStream<B>>;
    type SendStream = h3_quinn::SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let opened = OpenStreams::<B>::poll_open_bidi(&mut self.inner, cx);
        opened.map_ok(|stream| Counted::new(stream, REQUEST))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        OpenStreams::<B>::close(&mut self.inner, code, reason);
    }
}

impl<S: RecvStream> RecvStream for Counted<S> {
    type Buf = S::Buf;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<S::Buf>, StreamErrorIncoming>> {
        let read = self.inner.poll_data(cx);
        self.reading = read.is_pending();
        if let Poll::Ready(Ok(Some(data))) = &read {
            match self.left.checked_sub(data.remaining()) {
                Some(left) => self.left = left,
                None => {
                    return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated {
                        error_code: Code::H3_EXCESSIVE_LOAD.value(),
                    }));
                }
            }
        }
        read
    }

    fn stop_sending(&mut self, code: u64) {
        // h3-quinn cannot stop a stream that is being read. It is stopped when it is dropped.
        if !self.reading {
            self.inner.stop_sending(code);
        }
    }

    fn recv_id(&self) -> StreamId {
        self.inner.recv_id()
    }
}

impl<S: SendStream<B>, B: Buf> SendStream<B> for Counted<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.inner.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}
