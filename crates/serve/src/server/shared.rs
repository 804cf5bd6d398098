//! What all connections share.

use std::sync::Arc;

use hyper::header::HeaderValue;

use super::config::Config;
use super::files::Folder;
use super::kernel::Sockets;
use super::log::Log;
use super::metrics::Metrics;
use super::slots::Slots;
use super::viewers::Viewers;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub config: Config,
    pub folder: Folder,
    pub sockets: Sockets,
    pub metrics: Metrics,
    pub log: Option<Log>,
    pub slots: Arc<Slots>,
    pub viewers: Viewers,
    /// Requests without TLS are led to this port.
    pub redirect: Option<u16>,
    /// Where HTTP/3 is spoken (`Alt-Svc`, RFC 7838).
    pub alternative: Option<HeaderValue>,
}
