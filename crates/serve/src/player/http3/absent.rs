//! Stands for HTTP/3 where it was not built.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, Response};
use tokio::task::JoinHandle;

use super::answer::Answer;
use super::error::PlayError;

pub(super) enum Client {}
pub(super) enum Sender {}

impl Client {
    pub fn new(_: rustls::ClientConfig, _: Duration) -> Result<Self, PlayError> {
        Err(PlayError::Setting {
            what: "HTTP/3",
            problem: "this program was built without it: build it with the feature http3".into(),
        })
    }

    pub async fn connect(
        &self,
        _: (&str, u16),
        _: Option<IpAddr>,
        _: &mut u16,
    ) -> Result<(Sender, JoinHandle<()>), PlayError> {
        match *self {}
    }

    pub async fn finish(&self) {
        match *self {}
    }
}

impl Sender {
    pub async fn send(&mut self, _: Request<Empty<Bytes>>) -> Result<Response<Answer>, PlayError> {
        match *self {}
    }
}
