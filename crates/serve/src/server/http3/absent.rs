//! Stands for HTTP/3 where it was not built.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::config::Limits;
use super::error::ServeError;
use super::session::Order;
use super::shared::Shared;
use super::tls::Certificate;

pub(super) enum Endpoints {}
pub(super) enum Incoming {}
pub(super) enum Handshake {}

impl Endpoints {
    pub fn open(_: &[SocketAddr], _: &Certificate, _: Limits) -> Result<Self, ServeError> {
        Err(ServeError::Config(
            "this program was built without HTTP/3: build it with the feature http3",
        ))
    }

    pub async fn next(&mut self) -> Incoming {
        match *self {}
    }

    pub fn begin(&self, _: Incoming, _: &Handle) -> Option<Handshake> {
        match *self {}
    }

    pub fn finish(&self) {
        match *self {}
    }

    pub async fn close(self) {
        match self {}
    }
}

impl Incoming {
    pub fn remote_address(&self) -> SocketAddr {
        match *self {}
    }

    pub fn refuse(self) {
        match self {}
    }
}

pub(super) async fn serve(
    _: Arc<Shared>,
    _: (u64, usize),
    handshake: Handshake,
    _: watch::Receiver<Order>,
) {
    match handshake {}
}
