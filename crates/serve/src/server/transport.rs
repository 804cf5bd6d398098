//! What carries a connection: TCP, which the kernel paces, or QUIC, whose window is the program's own.

use std::sync::Arc;

use tidegate_pace::{Hold, Packets, Way, socket as tcp};
use tokio::net::TcpStream;

use super::kernel::{Snapshot, Sockets};
use super::quic::Quic;

/// Bytes in the socket that are not sent yet. This is enough to keep TCP busy. It is little enough that a client that leaves wastes little,
/// and that the throttling phase does not wait for megabytes of the start-up phase.
pub(super) const NOT_SENT: u32 = 128 << 10;

/// Bytes around those of a record of TLS 1.2 or 1.3, at most (RFC 5288, section 3; RFC 8446, section 5.2).
const TLS_RECORD: u64 = 29;
/// Bytes before those of a frame of HTTP/2 (RFC 9113, section 4.1).
const FRAME: u64 = 9;

/// What carries a connection.
#[derive(Debug)]
pub(super) enum Transport {
    Tcp {
        socket: Arc<TcpStream>,
        /// Within TLS.
        is_secure: bool,
    },
    Quic(Quic),
}

impl Transport {
    /// The figures now.
    pub fn snapshot(&self) -> Snapshot {
        match self {
            Self::Tcp { socket, .. } => Snapshot::of(socket),
            Self::Quic(quic) => quic.snapshot(),
        }
    }

    /// How many bytes it takes at once.
    pub fn room(&self) -> usize {
        match self {
            Self::Tcp { socket, .. } => {
                let unsent = tcp::unsent(socket).unwrap_or(0);
                NOT_SENT.saturating_sub(unsent) as usize
            }
            Self::Quic(_) => NOT_SENT as usize,
        }
    }

    /// The packets that bodies leave in, by figures of now. `is_stream`: within frames of HTTP/2 or HTTP/3. Of QUIC's packets it is known only
    /// what they have room for at least, which bounds Trickle's bursts, but fills no blocks.
    pub fn packets(&self, now: &Snapshot, way: Way, is_stream: bool) -> Option<Packets> {
        let framing = match self {
            Self::Tcp { is_secure, .. } => match (is_secure, is_stream) {
                // A full frame and its head are two records.
                (true, true) => FRAME + 2 * TLS_RECORD,
                (true, false) => TLS_RECORD,
                (false, true) => FRAME,
                (false, false) => 0,
            },
            Self::Quic(_) if matches!(way, Way::Application { .. }) => return None,
            Self::Quic(_) => 0,
        };
        Some(Packets {
            payload: now.segment.into(),
            framing,
        })
    }

    /// What bounds the rate, for the writer.
    pub fn hold(&self, sockets: &Sockets, way: Way) -> Option<Hold> {
        match self {
            Self::Tcp { socket, .. } => sockets.hold(way, socket),
            Self::Quic(quic) => quic.hold(way),
        }
    }

    /// Paces it to this rate in bit/s, or frees it. `new_phase`: data written before is sent at full speed. Returns whether that was done.
    pub fn set(&self, sockets: &Sockets, way: Way, rate: Option<u64>, new_phase: bool) -> bool {
        match self {
            Self::Tcp { socket, .. } => sockets.set(way, socket, rate, new_phase),
            Self::Quic(quic) => {
                quic.set(way, rate);
                true
            }
        }
    }

    /// How it is really paced.
    pub fn by(&self, sockets: &Sockets, way: Way) -> &'static str {
        match self {
            Self::Tcp { .. } => sockets.by(way),
            Self::Quic(_) => Quic::by(way),
        }
    }
}
