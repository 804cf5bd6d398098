//! Why the server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder cannot be opened.
    #[error("cannot serve {}: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address that it should listen on.
        address: SocketAddr,
        /// What is wrong.
        error: io::Error,
    },
    /// The address is in use for UDP, or does not belong to this machine.
    #[error("cannot listen on {address} with UDP for HTTP/3: {error}")]
    ListenUdp {
        /// The address that it should listen on.
        address: SocketAddr,
        /// What is wrong.
        error: io::Error,
    },
    /// The certificate or the key is bad.
    #[error("{}: {what}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The configuration is contradictory.
    #[error("{0}")]
    Config(&'static str),
    /// A call of the system failed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}
