//! One request of HTTP/3, and its answer.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use h3::error::Code;
use h3::server::{RequestResolver, RequestStream};
use http_body_util::BodyExt;
use hyper::header::{DATE, HeaderValue};
use hyper::{Request, Response};
use tokio::time::timeout;

use super::bounded::{Bounded, Counted};
use crate::server::connection::Connection;
use crate::server::handler::{self, Entrance};
use crate::server::payload::Payload;

type Resolver = RequestResolver<Bounded, Payload>;
type Stream = RequestStream<Counted<h3_quinn::BidiStream<Payload>>, Payload>;

/// A stream that is reset when it is dropped, unless its answer is complete. quinn would end it as if it were.
struct Sending {
    stream: Stream,
    is_complete: bool,
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_complete {
            self.stream.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
    }
}

/// Reads a request, and answers it.
pub(super) async fn answer(connection: Arc<Connection>, resolver: Resolver) {
    let time = connection.shared.config.limits.header_timeout;
    let peer = connection.peer();
    let done = match timeout(time, resolver.resolve_request()).await {
        Ok(Ok((request, stream))) => send(connection, request, stream).await,
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err("a request was not complete in time".into()),
    };
    if let Err(error) = done {
        tracing::debug!("{peer}: {error}");
    }
}

async fn send(
    connection: Arc<Connection>,
    request: Request<()>,
    stream: Stream,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut sending = Sending {
        stream,
        is_complete: false,
    };
    let stream = &mut sending.stream;
    let asked = connection.asked();
    let Ok(response) = handler::answer(connection, request, Entrance::Quic).await;
    drop(asked);
    let (mut head, body) = response.into_parts();
    // hyper does this for the other versions (RFC 9110, section 6.6.1).
    let now = httpdate::fmt_http_date(SystemTime::now());
    head.headers.insert(DATE, HeaderValue::from_str(&now)?);
    // The answer ends when its body is dropped.
    let mut body = pin!(body);
    stream.send_response(Response::from_parts(head, ())).await?;
    while let Some(frame) = body.frame().await {
        if let Ok(payload) = frame?.into_data() {
            stream.send_data(payload).await?;
        }
    }
    stream.finish().await?;
    // A body of the request is not read (RFC 9114, section 4.1).
    stream.stop_sending(Code::H3_NO_ERROR);
    sending.is_complete = true;
    Ok(())
}
