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

/// A stream that HTTP can be spoken on by one after the other.
#[derive(Debug)]
pub(super) struct Kept<S>(Arc<Mutex<Inner<S>>>);

#[derive(Debug)]
struct Inner<S> {
    stream: S,
    /// The last three bytes that were read.
    last: [u8; 3],
    /// The header of a request was read in part.
    in_header: bool,
    /// Headers that were read whole.
    headers: u64,
}

impl<S> Clone for Kept<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Kept<S> {
    pub fn new(stream: S) -> Self {
        let inner = Inner {
            stream,
            last: [0; 3],
            in_header: false,
            headers: 0,
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// How many requests the client has sent, if none of them has a body, and nothing of a further one was read. Empty lines before a
    /// request are none of it (RFC 9112, section 2.2).
    pub fn requests(&self) -> Option<u64> {
        let inner = self.lock();
        (!inner.in_header).then_some(inner.headers)
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
        for &byte in &buffer.filled()[before..] {
            inner.last = [inner.last[1], inner.last[2], byte];
            if inner.in_header && ends_header(inner.last) {
                inner.in_header = false;
                inner.headers += 1;
            }
            inner.in_header |= !matches!(byte, b'\r' | b'\n');
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether a request's header ends with these bytes: a line, and an empty one. Lines may end without a carriage return (RFC 9112, section 2.2).
fn ends_header(last: [u8; 3]) -> bool {
    matches!(last, [_, b'\n', b'\n'] | [b'\n', b'\r', b'\n'])
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
        assert_eq!(kept.requests(), Some(0));
        let mut buffer = [0; 64];
        for (part, requests) in [
            ("GET / HTTP/1.1\r\n", None),
            ("\r", None),
            ("\n", Some(1)),
            ("G", None),
            ("ET / HTTP/1.1\r\n\r\nGET /", None),
            (" HTTP/1.1\r\nA: \r\n\r\n", Some(3)),
            ("GET / HTTP/1.1\nA: b\r\n\nGET / HTTP/1.1\n\r\n", Some(5)),
            ("\r", Some(5)),
            ("\nGET / HTTP/1.1\r\n\r\n\r\n", Some(6)),
        ] {
            client.write_all(part.as_bytes()).await.unwrap();
            let count = kept.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..count], part.as_bytes());
            assert_eq!(kept.requests(), requests, "{part:?}");
        }
    }
}
