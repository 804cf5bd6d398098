//! Why a video cannot be watched.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// Why a video cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The URL cannot be fetched.
    #[error("'{url}': {problem}")]
    Url {
        /// As it was written.
        url: String,
        /// What is wrong with it, and what to write.
        problem: String,
    },
    /// No certificates to trust were found in a file.
    #[error("{}: no certificate in PEM{}", path.display(), why.as_ref().map_or_else(String::new, |why| format!(": {why}")))]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; `None` if there is none in it.
        why: Option<String>,
    },
    /// The system has no certificates to trust.
    #[error("this system has no certificates to trust{0}")]
    NoRoots(String),
    /// The server did not respond within the timeout.
    #[error("{0}")]
    Timeout(&'static str),
    /// There is no TCP connection to the server.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// Its name and port.
        server: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// There is no TLS session with the server.
    #[error("no TLS with {server}: {source}")]
    Tls {
        /// Its name and port.
        server: String,
        /// The step that failed.
        source: io::Error,
    },
    /// There is no connection of QUIC with the server.
    #[error("no QUIC with {server}: {source}")]
    Quic {
        /// Its name and port.
        server: String,
        /// Why the handshake failed.
        source: Box<dyn Error + Send + Sync>,
    },
    /// HTTP/2 was wanted, but TLS agreed on HTTP/1.1.
    #[error("the server does not offer HTTP/2")]
    NoHttp2,
    /// The connection failed, or its data is not HTTP.
    #[error("{}", with_causes(.0))]
    Http(#[from] hyper::Error),
    /// The connection of HTTP/3 failed, or its data is not HTTP/3.
    #[error("{0}")]
    Http3(Box<dyn Error + Send + Sync>),
    /// A player cannot use the server's answer.
    #[error("{0}")]
    Answer(String),
    /// The headers at the beginning of the file do not give its rate.
    #[error("the beginning of the file does not say its encoding rate")]
    UnknownRate,
    /// The player panicked.
    #[error("the player failed; please report it: {0}")]
    Fault(String),
    /// An argument is not valid for TLS or HTTP.
    #[error("{what}: {problem}")]
    Setting {
        /// The argument.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// hyper's errors keep the reason in their causes.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
