//! What can be wrong with a capture, and where.

use std::io;
use std::sync::Arc;

use super::link::LinkType;

/// Why a capture cannot be read, or not any further, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (at byte {offset}{})", if *.decompressed { " of the decompressed data" } else { "" })]
pub struct ReadError {
    /// Offset in bytes from the start of the capture, after decompression.
    pub offset: u64,
    /// Whether the offset counts decompressed bytes.
    pub decompressed: bool,
    /// What is wrong there.
    pub reason: Reason,
}

/// What is wrong with a capture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No bytes at all.
    #[error("the input is empty: a capture has at least a header")]
    Empty,
    /// Neither pcap nor pcapng.
    #[error("not a packet capture: neither pcap nor pcapng")]
    NotACapture,
    /// A pcap version other than 2.x.
    #[error("pcap version {0}.{1} is not supported; only 2.x is")]
    Version(u16, u16),
    /// The input ends inside a header or a packet.
    #[error("cut off in the middle of {what}: it needs {needed} bytes, and {available} are left")]
    CutOff {
        /// What was being read.
        what: &'static str,
        /// Its length in bytes.
        needed: usize,
        /// The bytes left in the input.
        available: usize,
    },
    /// A length that no capture of this kind can have.
    #[error("{what} claims {length} bytes, which is impossible: the capture is damaged")]
    BadLength {
        /// What claims it.
        what: &'static str,
        /// The claimed length in bytes.
        length: u64,
    },
    /// A pcapng block where no section has begun, or with an unknown byte order.
    #[error("damaged pcapng section header")]
    BadSection,
    /// No decoder for the link layer.
    #[error("link layer {0} is not supported")]
    Link(LinkType),
    /// A packet names an interface that the section has not described.
    #[error("a packet belongs to interface {0}, which the capture does not describe")]
    NoInterface(u32),
    /// A capture in pieces, or of several sections, is of several samplers: each has a share of the flows of its own.
    #[error(
        "from here on the capture is of a sampler on {after}, and before of one on {before}. Each has its own share of the flows: analyse the files of each sampler alone"
    )]
    OtherSampler {
        /// The interface and the host before.
        before: Arc<str>,
        /// Those from here on.
        after: Arc<str>,
    },
    /// The operating system or a decompressor failed.
    #[error("{0}")]
    Io(String),
}

impl Reason {
    /// Whether the capture is of several samplers.
    pub fn is_mixed(&self) -> bool {
        matches!(self, Self::OtherSampler { .. })
    }
}

impl From<&io::Error> for Reason {
    fn from(error: &io::Error) -> Self {
        Self::Io(error.to_string())
    }
}
