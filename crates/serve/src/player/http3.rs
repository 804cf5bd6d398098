//! HTTP/3: a connection of QUIC, its requests, and their answers.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h3::client::{RequestStream, SendRequest};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Buf, Bytes, Frame};
use hyper::header::CONTENT_LENGTH;
use hyper::{Request, Response};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, IdleTimeout, TransportConfig};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::addresses;
use super::answer::Answer;
use super::error::PlayError;

/// H3_NO_ERROR (RFC 9114, section 8.1).
const NO_ERROR: u32 = 0x100;
/// Time for the packets that tell servers of the end.
const FAREWELL: Duration = Duration::from_millis(200);

type Cause = Box<dyn Error + Send + Sync>;

/// Makes connections.
pub(super) struct Client {
    config: ClientConfig,
    /// Those that end.
    ending: Arc<Mutex<JoinSet<()>>>,
}

/// Sends requests. The connection ends with this.
pub(super) struct Sender {
    requests: SendRequest<h3_quinn::OpenStreams, Bytes>,
    quic: Connection,
    endpoint: Endpoint,
    ending: Arc<Mutex<JoinSet<()>>>,
}

impl Client {
    /// `timeout`: how long a server may be silent.
    pub fn new(tls: rustls::ClientConfig, timeout: Duration) -> Result<Self, PlayError> {
        let wrong = |problem: String| PlayError::Setting {
            what: "QUIC cannot be set up",
            problem,
        };
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| wrong(error.to_string()))?;
        let idle = IdleTimeout::try_from(timeout).map_err(|error| wrong(error.to_string()))?;
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(idle));
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        Ok(Self {
            config,
            ending: Arc::default(),
        })
    }

    /// A connection to a server, from this address of this machine if one is given, and the task that reads what concerns all of its
    /// requests. `local_port` is set before the handshake.
    pub async fn connect(
        &self,
        (host, port): (&str, u16),
        from: Option<IpAddr>,
        local_port: &mut u16,
    ) -> Result<(Sender, JoinHandle<()>), PlayError> {
        let server = || format!("{host}:{port}");
        let failed = |source| PlayError::Connect {
            server: server(),
            source,
        };
        let found = tokio::net::lookup_host((host, port)).await;
        let all = found.map_err(failed)?;
        let to = all.filter(|to| from.is_none_or(|from| from.is_ipv4() == to.is_ipv4()));
        // Packets to an address where nobody listens have no answer, so the next address is tried while the first may still answer.
        let tries = to.map(|to| {
            let made = endpoint(from, to).and_then(|made| Ok((made.local_addr()?.port(), made)));
            if let Ok((port, _)) = &made {
                *local_port = *port;
            }
            let (config, name) = (self.config.clone(), host.to_owned());
            async move {
                let (port, endpoint) = made?;
                let quic = endpoint.connect_with(config, to, &name)?.await?;
                Ok::<_, Cause>((quic, endpoint, port))
            }
        });
        match addresses::first(tries).await {
            Ok((quic, endpoint, port)) => {
                *local_port = port;
                self.speak(quic, endpoint).await
            }
            Err(reason) => Err(PlayError::Quic {
                server: server(),
                source: reason.unwrap_or_else(|| addresses::NONE.into()),
            }),
        }
    }

    async fn speak(
        &self,
        quic: Connection,
        endpoint: Endpoint,
    ) -> Result<(Sender, JoinHandle<()>), PlayError> {
        let http = h3::client::new(h3_quinn::Connection::new(quic.clone())).await;
        let (mut driver, requests) = http.map_err(broken)?;
        let driver = tokio::spawn(async move {
            // If the connection fails, its requests return the reason.
            let _ = driver.wait_idle().await;
        });
        let sender = Sender {
            requests,
            quic,
            endpoint,
            ending: Arc::clone(&self.ending),
        };
        Ok((sender, driver))
    }

    /// Waits until servers were told that their connections ended.
    pub async fn finish(&self) {
        let mut ending = std::mem::take(&mut *lock(&self.ending));
        while ending.join_next().await.is_some() {}
    }
}

impl Sender {
    /// Sends a request for an absolute URL.
    pub async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Answer>, PlayError> {
        let sent = self.requests.send_request(request.map(|_| ())).await;
        let mut stream = sent.map_err(broken)?;
        stream.finish().await.map_err(broken)?;
        let response = stream.recv_response().await.map_err(broken)?;
        let length = response.headers().get(CONTENT_LENGTH);
        let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(response.map(|()| Content { stream, left }.boxed_unsync()))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.quic.close(NO_ERROR.into(), b"");
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let endpoint = self.endpoint.clone();
        let told = async move {
            let _ = timeout(FAREWELL, endpoint.wait_idle()).await;
        };
        let mut ending = lock(&self.ending);
        while ending.try_join_next().is_some() {}
        ending.spawn_on(told, &runtime);
    }
}

/// The content of an answer.
struct Content {
    stream: RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    /// Bytes that must still come, if the server said how many.
    left: Option<u64>,
}

impl Body for Content {
    type Data = Bytes;
    type Error = PlayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, PlayError>>> {
        let data = match ready!(self.stream.poll_recv_data(cx)).map_err(broken)? {
            Some(mut data) => data.copy_to_bytes(data.remaining()),
            None if self.left.is_none_or(|left| left == 0) => return Poll::Ready(None),
            None => return Poll::Ready(Some(Err(broken("the answer ended too early")))),
        };
        // An answer must have the length that it states (RFC 9114, section 4.1.2).
        if let Some(left) = self.left {
            let rest = left.checked_sub(data.len() as u64);
            self.left = Some(rest.ok_or_else(|| broken("the answer is longer than it says"))?);
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

/// A socket to a server at this address.
fn endpoint(from: Option<IpAddr>, to: SocketAddr) -> io::Result<Endpoint> {
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Endpoint::client((from.unwrap_or(any), 0).into())
}

fn lock(ending: &Mutex<JoinSet<()>>) -> MutexGuard<'_, JoinSet<()>> {
    ending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broken(error: impl Into<Cause>) -> PlayError {
    PlayError::Http3(error.into())
}
