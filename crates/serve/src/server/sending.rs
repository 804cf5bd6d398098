//! Sends a response of HTTP/1 without TLS that was taken from the library for HTTP: pieces of a file, which the kernel moves where it can.

use std::future::poll_fn;
use std::io;

use hyper::body::Buf;
use rustix::fs::sendfile;
use rustix::io::Errno;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::body::{Answer, Piece};
use super::disk;

/// Sends what waits in a socket for more (tcp(7)).
pub(super) fn push(socket: &TcpStream) {
    // If it fails, that leaves 200 ms later.
    let _ = SockRef::from(socket).set_tcp_nodelay(true);
}

/// Sends the rest of a response, behind its head.
pub(super) async fn send(mut answer: Box<Answer>, socket: &TcpStream) -> io::Result<()> {
    // The head waits in the socket for what follows.
    let mut waits = true;
    loop {
        let next = poll_fn(|cx| {
            let next = answer.poll_piece(cx);
            if next.is_pending() && std::mem::take(&mut waits) {
                push(socket);
            }
            next
        });
        let Some(mut piece) = next.await? else {
            return Ok(());
        };
        waits = false;
        loop {
            poll_fn(|cx| socket.poll_write_ready(cx)).await?;
            let mut count = 0;
            // The runtime learns from `WouldBlock` that the socket is full.
            let put = || piece.put(socket, &mut count);
            let result = socket.try_io(Interest::WRITABLE, put);
            if count > 0 {
                answer.wrote(count);
            }
            match result {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Piece {
    /// Writes all of it. `count` grows by what the socket takes, also before an error, and that is gone from the piece. The error
    /// is `WouldBlock` if the socket does not take all.
    fn put(&mut self, socket: &TcpStream, count: &mut usize) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => {
                while !bytes.is_empty() {
                    let flags = libc::MSG_NOSIGNAL;
                    let taken = SockRef::from(socket).send_with_flags(bytes, flags)?;
                    bytes.advance(taken);
                    *count += taken;
                }
            }
            Self::Part {
                file,
                offset,
                length,
            } => {
                while *length > 0 {
                    // It advances the offset.
                    let taken = match sendfile(socket, &**file, Some(offset), *length) {
                        Err(Errno::INTR) => continue,
                        taken => taken?,
                    };
                    if taken == 0 {
                        return Err(disk::shortened());
                    }
                    *length -= taken;
                    *count += taken;
                }
            }
        }
        Ok(())
    }
}
