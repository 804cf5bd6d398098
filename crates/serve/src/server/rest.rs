//! Connections of HTTP/1 that wait for their next request: what spoke HTTP is let go meanwhile, with its buffers.
//!
//! A browser keeps a connection for minutes after its last request. The buffers for requests and answers are most of what a connection takes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection without a request for this long has no use for buffers soon.
pub(super) const REST: Duration = Duration::from_secs(1);

/// The end of a request's header: an empty line (RFC 9112, section 2.1).
const HEADER_END: u32 = u32::from_be_bytes(*b"\r\n\r\n");

/// A stream that HTTP can be spoken on by one after the other.
#[derive(Debug)]
pub(super) struct Kept<S>(Arc<Mutex<Inner<S>>>);

#[derive(Debug)]
struct Inner<S> {
    stream: S,
    /// The last four bytes that were read.
    last: u32,
}

impl<S> Clone for Kept<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Kept<S> {
    pub fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Inner { stream, last: 0 })))
    }

    /// Whether the client sent whole requests so far, if none of them has a body: nothing of a further one was read then.
    /// Otherwise that part would have to end with an empty line too, and so be a request that is answered.
    pub fn has_whole_requests(&self) -> bool {
        self.lock().last == HEADER_END
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Kept<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let mut inner = self.lock();
        ready!(Pin::new(&mut inner.stream).poll_read(cx, buffer))?;
        let new = &buffer.filled()[before..];
        let add = |last: u32, byte: &u8| last << 8 | u32::from(*byte);
        let end = new[new.len().saturating_sub(4)..].iter();
        inner.last = end.fold(inner.last, add);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Kept<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.lock().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.lock().stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.lock().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn requests_are_whole_after_an_empty_line() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut kept = Kept::new(server);
        assert!(!kept.has_whole_requests());
        let mut buffer = [0; 64];
        for (part, whole) in [
            ("GET / HTTP/1.1\r\n", false),
            ("\r", false),
            ("\n", true),
            ("G", false),
            ("ET / HTTP/1.1\r\n\r\nGET /", false),
            (" HTTP/1.1\r\nA: \r\n\r\n", true),
        ] {
            client.write_all(part.as_bytes()).await.unwrap();
            let count = kept.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..count], part.as_bytes());
            assert_eq!(kept.has_whole_requests(), whole, "{part:?}");
        }
    }
}
