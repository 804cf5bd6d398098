//! A viewer's connection: TCP, TLS if the URL says so, and the version of HTTP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::HOST;
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::cli::serve::{Http, Play};

/// How connections are made.
pub struct Transport {
    tls: Option<TlsConnector>,
    http: Option<Http>,
    timeout: Duration,
}

impl Transport {
    /// As the options say; what TLS needs only if there is a URL for it.
    pub fn new(options: &Play, urls: &[Uri]) -> anyhow::Result<Self> {
        let tls = urls.iter().any(|url| url.scheme_str() == Some("https"));
        Ok(Self {
            tls: tls.then(|| connector(options)).transpose()?,
            http: options.http,
            timeout: options.timeout,
        })
    }

    /// A connection to a URL's server, from an address of this machine if it matters. Its own port is known before TLS is.
    pub async fn connect(
        &self,
        url: &Uri,
        from: Option<IpAddr>,
        own: &mut u16,
    ) -> anyhow::Result<Sender> {
        let host = url.host().context("no host")?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let secure = url.scheme_str() == Some("https");
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let socket = timeout(self.timeout, open(bare, port, from))
            .await
            .context("nobody answers")?
            .with_context(|| format!("cannot connect to {host}:{port}"))?;
        socket.set_nodelay(true)?;
        *own = socket.local_addr()?.port();
        let Some(tls) = self.tls.as_ref().filter(|_| secure) else {
            let http = self.http.unwrap_or(Http::One);
            return Ok(Sender::new(socket, http).await?);
        };
        let name = ServerName::try_from(bare.to_owned()).context("no name for TLS")?;
        let stream = timeout(self.timeout, tls.connect(name, socket))
            .await
            .context("the server does not answer TLS")?
            .with_context(|| format!("no TLS with {host}:{port}"))?;
        let http = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Http::Two,
            _ if self.http == Some(Http::Two) => bail!("the server does not offer HTTP/2"),
            _ => Http::One,
        };
        Ok(Sender::new(stream, http).await?)
    }
}

async fn open(host: &str, port: u16, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(from) = from else {
        return TcpStream::connect((host, port)).await;
    };
    let mut to = tokio::net::lookup_host((host, port)).await?;
    let other = "the server has no address of that kind";
    let to = to
        .find(|to| to.is_ipv4() == from.is_ipv4())
        .ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, other))?;
    let socket = if from.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}

/// Where requests go in.
pub struct Sender {
    requests: Requests,
    /// What moves their bytes; it ends with this.
    connection: JoinHandle<()>,
}

enum Requests {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Sender {
    async fn new<S>(stream: S, http: Http) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        // Why a connection failed, its requests say.
        let (requests, connection) = match http {
            Http::One => {
                let (sender, connection) = http1::handshake(stream).await?;
                let run = async { drop(connection.await) };
                (Requests::One(sender), tokio::spawn(run))
            }
            Http::Two => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                let run = async { drop(connection.await) };
                (Requests::Two(sender), tokio::spawn(run))
            }
        };
        Ok(Self {
            requests,
            connection,
        })
    }

    /// Sends a request for an absolute URL.
    pub async fn send(
        &mut self,
        mut request: Request<Empty<Bytes>>,
    ) -> anyhow::Result<Response<Incoming>> {
        Ok(match &mut self.requests {
            Requests::One(sender) => {
                let authority = request.uri().authority().context("no host")?;
                let host = authority.as_str().parse()?;
                let path = request.uri().path_and_query().cloned();
                request.headers_mut().insert(HOST, host);
                *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
                sender.send_request(request).await?
            }
            Requests::Two(sender) => {
                *request.version_mut() = Version::HTTP_2;
                sender.send_request(request).await?
            }
        })
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn connector(options: &Play) -> anyhow::Result<TlsConnector> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = if options.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        builder.with_root_certificates(roots(options)?)
    };
    let mut config = builder.with_no_client_auth();
    let (one, two) = (b"http/1.1".to_vec(), b"h2".to_vec());
    config.alpn_protocols = match options.http {
        None => vec![two, one],
        Some(Http::One) => vec![one],
        Some(Http::Two) => vec![two],
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Whom to trust.
fn roots(options: &Play) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.ca {
        let wrong = || format!("{}: no certificate in PEM", path.display());
        for certificate in CertificateDer::pem_file_iter(path).with_context(wrong)? {
            roots
                .add(certificate.with_context(wrong)?)
                .with_context(wrong)?;
        }
        if roots.is_empty() {
            bail!(wrong());
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    // Some that are no good are usual among hundreds.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first();
        let why = why.map_or_else(String::new, |error| format!(" ({error})"));
        bail!("this system has no certificates to trust{why}: give --ca or --insecure");
    }
    Ok(roots)
}

/// Trusts whoever has the key of the certificate that is shown.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _above: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
