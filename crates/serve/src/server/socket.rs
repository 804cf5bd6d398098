//! A connection's socket, watched for progress. One part of the server writes to it, another asks the kernel about it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::behind::Behind;
use super::connection::Connection;

/// Reads and writes a connection's socket, and reports it to the connection.
#[derive(Debug)]
pub(super) struct Watched {
    pub connection: Arc<Connection>,
    pub socket: Arc<TcpStream>,
    pub behind: Arc<Behind>,
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &self.socket;
        loop {
            ready!(socket.poll_read_ready(cx))?;
            // Without zeroes before it: they would take memory for all of the buffer.
            match socket.try_read_buf(buffer) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = bytes.iter().map(|slice| slice.len()).sum();
        // The head of a response leaves in one packet with what follows.
        let flags = match self.behind.follows() {
            true => libc::MSG_NOSIGNAL | libc::MSG_MORE,
            false => libc::MSG_NOSIGNAL,
        };
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            let mut count = 0;
            // The runtime learns from `WouldBlock` that the socket is full, without another write that fails.
            let put = || {
                count = SockRef::from(&*self.socket).send_vectored_with_flags(bytes, flags)?;
                match count < offered {
                    true => Err(io::ErrorKind::WouldBlock.into()),
                    false => Ok(()),
                }
            };
            let result = self.socket.try_io(Interest::WRITABLE, put);
            match result {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ => self.connection.wrote(count, offered),
            }
            if count > 0 || result.is_ok() {
                return Poll::Ready(Ok(count));
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.behind.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = SockRef::from(&*self.socket).shutdown(std::net::Shutdown::Write);
        match shutdown {
            // The client was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            other => Poll::Ready(other),
        }
    }
}
