//! A viewer's connection: TCP, TLS if the URL says so, and the version of HTTP. HTTP/3 has QUIC in place of the first two.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, USER_AGENT};
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::addresses;
use super::answer::Answer;
use super::error::PlayError;
use super::http3;
use super::tls::{self, Trust};

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS by prior knowledge (RFC 9113, section 3.3).
    Http2,
    /// HTTP/3, to URLs of `https`.
    Http3,
}

/// How connections are made.
pub struct Transport {
    tls: Option<TlsConnector>,
    quic: Option<http3::Client>,
    http: Option<HttpVersion>,
    timeout: Duration,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl Transport {
    /// Connections to servers that have this time for each of their steps. URLs of `https` need `trust`. Without a
    /// version of HTTP, TLS chooses one; without TLS it is HTTP/1.1.
    ///
    /// # Errors
    /// If there are no certificates to trust.
    pub fn new(
        timeout: Duration,
        http: Option<HttpVersion>,
        trust: Option<&Trust>,
    ) -> Result<Self, PlayError> {
        let (one, two) = (b"http/1.1".to_vec(), b"h2".to_vec());
        let protocols = match http {
            None => vec![two, one],
            Some(HttpVersion::Http1) => vec![one],
            Some(HttpVersion::Http2) => vec![two],
            Some(HttpVersion::Http3) => vec![b"h3".to_vec()],
        };
        let tls = trust.map(|trust| tls::config(trust, protocols));
        let (tls, quic) = match (tls.transpose()?, http) {
            (Some(tls), Some(HttpVersion::Http3)) => {
                (None, Some(http3::Client::new(tls, timeout)?))
            }
            (tls, _) => (tls.map(|tls| Arc::new(tls).into()), None),
        };
        Ok(Self {
            tls,
            quic,
            http,
            timeout,
        })
    }

    /// Waits until servers were told that their connections ended.
    pub(super) async fn finish(&self) {
        if let Some(quic) = &self.quic {
            quic.finish().await;
        }
    }

    /// How long a server may take for each of its steps.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A connection to a URL's server, from this address of this machine if one is given. `local_port` is set before TLS begins.
    async fn connect(
        &self,
        url: &Uri,
        from: Option<IpAddr>,
        local_port: &mut u16,
    ) -> Result<Sender, PlayError> {
        let host = url.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let secure = url.scheme_str() == Some("https");
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        if self.http == Some(HttpVersion::Http3) {
            let Some(quic) = self.quic.as_ref().filter(|_| secure) else {
                return Err(PlayError::Url {
                    url: url.to_string(),
                    problem: "HTTP/3 needs a URL of https".into(),
                });
            };
            let connected = timeout(self.timeout, quic.connect((bare, port), from, local_port));
            let (sender, connection) = connected
                .await
                .map_err(|_| PlayError::Timeout("no QUIC connection within the timeout"))??;
            return Ok(Sender {
                requests: Requests::Three(sender),
                connection,
            });
        }
        let server = format!("{host}:{port}");
        let failed = |source| PlayError::Connect {
            server: server.clone(),
            source,
        };
        let socket = timeout(self.timeout, open(bare, port, from))
            .await
            .map_err(|_| PlayError::Timeout("no TCP connection within the timeout"))?
            .map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        *local_port = socket.local_addr().map_err(failed)?.port();
        let Some(tls) = self.tls.as_ref().filter(|_| secure) else {
            let is_two = self.http == Some(HttpVersion::Http2);
            return Ok(Sender::new(socket, is_two).await?);
        };
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| PlayError::Setting {
            what: "TLS does not accept the server's name",
            problem: error.to_string(),
        })?;
        let stream = timeout(self.timeout, tls.connect(name, socket))
            .await
            .map_err(|_| PlayError::Timeout("the server does not answer TLS"))?
            .map_err(|source| PlayError::Tls { server, source })?;
        let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if !is_two && self.http == Some(HttpVersion::Http2) {
            return Err(PlayError::NoHttp2);
        }
        Ok(Sender::new(stream, is_two).await?)
    }
}

/// A request for a URL.
pub(super) fn get(url: &Uri) -> Result<Request<Empty<Bytes>>, PlayError> {
    let request =
        Request::get(url).header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")));
    request.body(Empty::new()).map_err(|error| PlayError::Url {
        url: url.to_string(),
        problem: error.to_string(),
    })
}

async fn open(host: &str, port: u16, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let all = tokio::net::lookup_host((host, port)).await?;
    let to = all.filter(|to| from.is_none_or(|from| from.is_ipv4() == to.is_ipv4()));
    let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, addresses::NONE);
    let connected = addresses::first(to.map(|to| open_at(to, from))).await;
    connected.map_err(|error| error.unwrap_or_else(none))
}

async fn open_at(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(from) = from else {
        return TcpStream::connect(to).await;
    };
    let socket = if from.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}

/// A viewer's connection to a URL's server. It is made with the first request, and again where the server closed it
/// between two of them, as servers do when a viewer pauses.
pub(super) struct Line<'a> {
    transport: &'a Transport,
    url: &'a Uri,
    from: Option<IpAddr>,
    sender: Option<Sender>,
}

impl<'a> Line<'a> {
    /// A line to a URL's server, from this address of this machine if one is given.
    pub fn new(transport: &'a Transport, (url, from): (&'a Uri, Option<IpAddr>)) -> Self {
        Self {
            transport,
            url,
            from,
            sender: None,
        }
    }

    /// Sends a request for an absolute URL, and waits for the head of the answer. `local_port` is set when it connects.
    pub async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
        local_port: &mut u16,
    ) -> Result<Response<Answer>, PlayError> {
        let patience = self.transport.timeout;
        let late = |_| PlayError::Timeout("the server did not answer within the timeout");
        if let Some(sender) = &mut self.sender {
            let answer = timeout(patience, sender.send(request.clone())).await;
            match answer.map_err(late)? {
                // A request that changes nothing may be sent again [RFC 9110 §9.2.2].
                Err(PlayError::Http(_) | PlayError::Http3(_)) => self.sender = None,
                answer => return answer,
            }
        }
        let sender = self.transport.connect(self.url, self.from, local_port);
        let sender = self.sender.insert(sender.await?);
        let answer = timeout(patience, sender.send(request)).await;
        answer.map_err(late)?
    }
}

/// Sends requests.
struct Sender {
    requests: Requests,
    /// The task that moves their bytes; it ends with this.
    connection: JoinHandle<()>,
}

enum Requests {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
    Three(http3::Sender),
}

impl Sender {
    /// Speaks HTTP/2 if `is_two`, and HTTP/1.1 otherwise.
    async fn new<S>(stream: S, is_two: bool) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        // If a connection fails, its requests return the reason.
        let (requests, connection) = if is_two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
            let run = async { drop(connection.await) };
            (Requests::Two(sender), tokio::spawn(run))
        } else {
            let (sender, connection) = http1::handshake(stream).await?;
            let run = async { drop(connection.await) };
            (Requests::One(sender), tokio::spawn(run))
        };
        Ok(Self {
            requests,
            connection,
        })
    }

    /// Sends a request for an absolute URL.
    async fn send(
        &mut self,
        mut request: Request<Empty<Bytes>>,
    ) -> Result<Response<Answer>, PlayError> {
        let response = match &mut self.requests {
            Requests::One(sender) => {
                let host = request.uri().authority().map(ToString::to_string);
                let host =
                    host.and_then(|host| host.parse().ok())
                        .ok_or_else(|| PlayError::Url {
                            url: request.uri().to_string(),
                            problem: "it has no host".into(),
                        })?;
                let path = request.uri().path_and_query().cloned();
                request.headers_mut().insert(HOST, host);
                *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
                sender.send_request(request).await?
            }
            Requests::Two(sender) => {
                *request.version_mut() = Version::HTTP_2;
                sender.send_request(request).await?
            }
            Requests::Three(sender) => return sender.send(request).await,
        };
        Ok(response.map(|content| content.map_err(PlayError::from).boxed_unsync()))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_line_is_made_again_where_the_server_closed_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let url: Uri = url.parse().unwrap();
        // It does not say that it closes, and does so after an answer.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                lines.map(Result::unwrap).find(String::is_empty);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
                stream.write_all(answer).unwrap();
            }
        });
        let transport = Transport::new(Duration::from_secs(5), None, None).unwrap();
        let mut line = Line::new(&transport, (&url, None));
        let mut ports = BTreeSet::new();
        for _ in 0..3 {
            let mut port = 0;
            let answer = line.send(get(&url).unwrap(), &mut port).await.unwrap();
            let body = answer.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "x");
            ports.insert(port);
        }
        assert!(ports.len() == 3 && !ports.contains(&0), "{ports:?}");
    }
}
