//! HTTP/2 and TLS.

mod rests;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper::{Request, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::super::rest::REST;
use super::{Running, log_to, start, start_with};
use crate::server::LogFormat;
use tidegate_pace::Way;

/// A port that is free.
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

type Sender = http2::SendRequest<Empty<Bytes>>;

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Sender {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

async fn fetch(sender: &mut Sender, target: &str, range: &str) -> (StatusCode, Bytes) {
    let request = Request::get(format!("http://t{target}"))
        .header("range", range)
        .body(Empty::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    let status = response.status();
    (
        status,
        response.into_body().collect().await.unwrap().to_bytes(),
    )
}

#[tokio::test]
async fn http2_without_tls() {
    let server = start(|_| {}).await;
    let mut sender = http2(server.connect().await).await;
    let (status, body) = fetch(&mut sender, "/abc.txt", "bytes=2-4").await;
    assert_eq!(
        (status, &body[..]),
        (StatusCode::PARTIAL_CONTENT, &b"cde"[..])
    );
    let file = fs::read(server.folder.path().join("v.mp4")).unwrap();
    let (mut one, mut two) = (sender.clone(), sender.clone());
    let (one, two) = tokio::join!(
        fetch(&mut one, "/v.mp4", "bytes=0-"),
        fetch(&mut two, "/v.mp4", "bytes=500000-"),
    );
    assert!(one.1[..] == file && two.1[..] == file[500_000..]);
}

/// Each stream of a connection is throttled at its rate, so that the connection has the sum.
#[tokio::test]
async fn http2_is_paced() {
    // 0.8 Mbit/s; 1 s of start-up, and so 100,000 bytes a stream; then 125,000 bytes a second.
    let server = start(|config| {
        config.groups = vec![Way::APPLICATION_16K.into()];
        config.start_up = Duration::from_secs(1);
    })
    .await;
    let mut sender = http2(server.connect().await).await;
    let began = Instant::now();
    let (mut one, mut two) = (sender.clone(), sender.clone());
    let (one, two) = tokio::join!(
        fetch(&mut one, "/v.mp4", "bytes=0-224999"),
        fetch(&mut two, "/v.mp4", "bytes=500000-724999"),
    );
    let elapsed = began.elapsed().as_secs_f64();
    assert_eq!((one.1.len(), two.1.len()), (225_000, 225_000));
    assert!((0.99..3.0).contains(&elapsed), "{elapsed} s");
    // Small answers do not wait for them.
    let began = Instant::now();
    fetch(&mut sender, "/abc.txt", "bytes=0-").await;
    assert!(began.elapsed() < Duration::from_millis(900));
}

struct Secure {
    server: Running,
    connector: TlsConnector,
    _keys: tempfile::TempDir,
}

async fn secure(protocols: &[&str], way: Way) -> Secure {
    secure_with(protocols, |config| config.groups = vec![way.into()]).await
}

async fn secure_with(
    protocols: &[&str],
    change: impl FnOnce(&mut crate::server::Config),
) -> Secure {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let keys = tempfile::tempdir().unwrap();
    let (certificate, key) = (keys.path().join("cert"), keys.path().join("key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from(made.cert.der().to_vec()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let server = start(|config| {
        config.metrics = Some(LOCAL);
        config.tls = Some((certificate, key));
        config.start_up = Duration::from_secs(1);
        change(config);
    })
    .await;
    Secure {
        server,
        connector: TlsConnector::from(Arc::new(client)),
        _keys: keys,
    }
}

impl Secure {
    async fn connect(&self) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let socket = self.server.connect().await;
        self.connector.connect(name, socket).await.unwrap()
    }
}

#[tokio::test]
async fn tls_with_either_version() {
    let secure_2 = secure(&["h2", "http/1.1"], Way::None).await;
    let stream = secure_2.connect().await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut sender = http2(stream).await;
    assert_eq!(fetch(&mut sender, "/abc.txt", "bytes=0-1").await.1, "ab");

    let secure_1 = secure(&["http/1.1"], Way::None).await;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = secure_1.connect().await;
    let request = b"GET /v.mp4 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    let (status, _, body) = super::split(&response);
    let file = fs::read(secure_1.server.folder.path().join("v.mp4")).unwrap();
    assert!(status == 200 && body == file);
}

/// Without the end of TLS a client cannot tell a timeout from an attack: it reports an error.
#[tokio::test]
async fn the_end_after_a_timeout_is_said_within_tls() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let time = Duration::from_millis(400);
    let secure = secure_with(&["http/1.1"], |config| config.limits.header_timeout = time).await;
    for request in ["", "GET /abc"] {
        let mut stream = secure.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer).await;
        assert!(ended.is_ok() && answer.is_empty(), "{request}: {ended:?}");
    }
}

/// Beside an address with TLS one without it, which leads to the first if it is to.
#[tokio::test]
async fn plain_addresses_lead_to_tls() {
    use crate::server::{Config, Server};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let secure = secure(&["http/1.1"], Way::None).await;
    let path = |name: &str| secure._keys.path().join(name);
    let config = |listen: &[&str], redirect: bool| {
        let mut config = Config::new(secure.server.folder.path().to_owned());
        config.listen = listen.iter().map(|one| one.parse().unwrap()).collect();
        config.tls = Some((path("cert"), path("key")));
        config.redirect = redirect;
        config
    };
    let both = ["https://127.0.0.1:0", "http://127.0.0.1:0"];
    for redirect in [true, false] {
        let server = Server::bind(config(&both, redirect), None).await.unwrap();
        let addresses = server.addresses().unwrap();
        assert!(addresses[0].1 && !addresses[1].1, "{addresses:?}");
        let port = addresses[0].0.port();
        let running = tokio::spawn(server.run(std::future::pending()));
        let ask = async |request: &str| {
            let mut socket = tokio::net::TcpStream::connect(addresses[1].0)
                .await
                .unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).await.unwrap();
            super::split(&answer)
        };
        let end = "Connection: close\r\n\r\n";
        let file = format!("GET /abc.txt?a=b HTTP/1.1\r\nHost: localhost:99\r\n{end}");
        let (status, head, body) = ask(&file).await;
        if redirect {
            let to = format!("location: https://localhost:{port}/abc.txt?a=b\r\n");
            assert!(status == 301 && head.contains(&to), "{head}");
            // Without a host there is nowhere to lead to.
            assert_eq!(ask(&format!("GET /abc.txt HTTP/1.0\r\n{end}")).await.0, 400);
            let evil = format!("GET / HTTP/1.1\r\nHost: a/b\r\n{end}");
            assert_eq!(ask(&evil).await.0, 400);
            // Other methods are not led there, nor is what is no path.
            for (asked, expected) in [("POST /a", 405), ("OPTIONS *", 405), ("GET *", 400)] {
                let request = format!("{asked} HTTP/1.1\r\nHost: localhost\r\n{end}");
                let (status, head, _) = ask(&request).await;
                assert!(status == expected && !head.contains("location"), "{head}");
            }
            // HTTP/2 has no `Host`.
            let socket = TcpStream::connect(addresses[1].0).await.unwrap();
            let mut sender = http2(socket).await;
            let request = Request::get("http://localhost/abc.txt").body(Empty::new());
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert_eq!(answer.status(), StatusCode::MOVED_PERMANENTLY);
        } else {
            assert_eq!((status, &body[..]), (200, &b"abcdefghij"[..]));
        }
        // With TLS the file comes in either case.
        let name = ServerName::try_from("localhost").unwrap();
        let socket = tokio::net::TcpStream::connect(addresses[0].0)
            .await
            .unwrap();
        let mut stream = secure.connector.connect(name, socket).await.unwrap();
        stream.write_all(file.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(super::split(&answer).0, 200);
        running.abort();
    }
    for (listen, redirect, why) in [
        (&["127.0.0.1:0"][..], true, "one of https"),
        (
            &["http://127.0.0.1:0"],
            false,
            "no address uses the certificate",
        ),
        (&[], false, "at least one address"),
    ] {
        let error = Server::bind(config(listen, redirect), None)
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains(why), "{error}");
    }
    let mut plain = config(&["https://127.0.0.1:0"], false);
    plain.tls = None;
    let error = Server::bind(plain, None).await.err().unwrap();
    assert!(error.to_string().contains("needs a certificate"), "{error}");
}

#[tokio::test]
async fn tls_is_paced() {
    let secure = secure(&["h2"], Way::APPLICATION_64K).await;
    let mut sender = http2(secure.connect().await).await;
    let began = Instant::now();
    let (_, body) = fetch(&mut sender, "/v.mp4", "bytes=0-224999").await;
    let elapsed = began.elapsed().as_secs_f64();
    assert_eq!(body.len(), 225_000);
    assert!((0.99..3.0).contains(&elapsed), "{elapsed} s");
}

/// A session is resumed however many clients came meanwhile.
#[tokio::test]
async fn sessions_of_tls_are_resumed() {
    use rustls::HandshakeKind::{Full, Resumed};
    let secure = secure(&["http/1.1"], Way::None).await;
    let request = b"GET /abc.txt HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let visit = async |connector: &TlsConnector| {
        let name = ServerName::try_from("localhost").unwrap();
        let socket = secure.server.connect().await;
        let mut stream = connector.connect(name, socket).await.unwrap();
        // Tickets come behind the handshake.
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        stream.get_ref().1.handshake_kind().unwrap()
    };
    assert_eq!(visit(&secure.connector).await, Full);
    let mut others = rustls::ClientConfig::clone(secure.connector.config());
    others.resumption = rustls::client::Resumption::disabled();
    let others = TlsConnector::from(Arc::new(others));
    for _ in 0..150 {
        assert_eq!(visit(&others).await, Full);
    }
    assert_eq!(visit(&secure.connector).await, Resumed);
}

#[tokio::test]
async fn plain_http_to_tls_ends() {
    let secure = secure(&["h2"], Way::None).await;
    let response = secure.server.raw(b"GET / HTTP/1.1\r\n\r\n").await;
    assert!(!response.starts_with(b"HTTP"), "{response:?}");
}

#[tokio::test]
async fn bad_certificates_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pem");
    for content in [
        "",
        "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
    ] {
        fs::write(&path, content).unwrap();
        let mut config = crate::server::Config::new(folder.path().to_owned());
        config.tls = Some((path.clone(), path.clone()));
        let error = crate::server::Server::bind(config, None)
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

fn large(server: &Running) {
    let large = fs::File::create(server.folder.path().join("large")).unwrap();
    large.set_len(1 << 30).unwrap();
}

/// Only streams that are not read are reset. Answers on other streams do not keep them alive, and these streams continue.
#[tokio::test]
async fn stalled_streams_are_reset_alone() {
    // 0.8 Mbit/s at 125 %: 250,000 bytes take 2 s.
    let server = start(|config| {
        config.limits.stall_timeout = Duration::from_millis(500);
        config.groups = vec![Way::APPLICATION_16K.into()];
        config.start_up = Duration::ZERO;
    })
    .await;
    large(&server);
    let mut sender = http2(server.connect().await).await;
    let began = Instant::now();
    let mut held = Vec::new();
    for _ in 0..2 {
        let request = Request::get("http://t/large").body(Empty::new()).unwrap();
        held.push(sender.send_request(request).await.unwrap().into_body());
    }
    let mut beside = sender.clone();
    let video = async { fetch(&mut beside, "/v.mp4", "bytes=0-249999").await.1.len() };
    let mut small = sender.clone();
    let pages = async {
        while began.elapsed() < Duration::from_millis(1500) {
            assert_eq!(fetch(&mut small, "/abc.txt", "bytes=2-4").await.1, "cde");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (sent, ()) = tokio::join!(video, pages);
    assert_eq!(sent, 250_000);
    for body in held {
        let error = body.collect().await.unwrap_err();
        assert!(format!("{error:?}").contains("CANCEL"), "{error:?}");
    }
    assert_eq!(fetch(&mut sender, "/abc.txt", "bytes=0-1").await.1, "ab");
}

/// Wide-open windows of HTTP/2 do not protect a client that reads nothing from its socket.
#[tokio::test]
async fn stalled_connections_end_with_their_streams() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = start(|config| config.limits.stall_timeout = Duration::from_millis(500)).await;
    large(&server);
    let mut socket = server.connect().await;
    let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frames.extend(b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff"); // SETTINGS_INITIAL_WINDOW_SIZE
    frames.extend(b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0"); // WINDOW_UPDATE
    frames.extend(b"\0\0\x0d\x01\x05\0\0\0\x01\x82\x86\x04\x06/large\x01\x01t"); // HEADERS
    socket.write_all(&frames).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut got = Vec::new();
    let read = socket.read_to_end(&mut got);
    let read = tokio::time::timeout(Duration::from_secs(5), read).await;
    assert!(read.expect("the end of the connection").is_err());
}

#[tokio::test]
async fn a_handshake_does_not_hold_up_the_end() {
    let mut secure = secure(&["h2"], Way::None).await;
    let _silent = secure.server.connect().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    secure.server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// A client's preface, with windows of 1000 bytes for streams.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\x03\xe8";
/// GET /large, or /abc.txt, as stream 1.
const LARGE: &[u8] = b"\0\0\x0d\x01\x05\0\0\0\x01\x82\x86\x04\x06/large\x01\x01t";
const SMALL: &[u8] = b"\0\0\x0f\x01\x05\0\0\0\x01\x82\x86\x04\x08/abc.txt\x01\x01t";

/// Pings are not progress: neither for a connection without a request, nor for a stream whose window is
/// closed.
#[tokio::test]
async fn pings_keep_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = start(|config| {
        config.limits.header_timeout = Duration::from_millis(600);
        config.limits.stall_timeout = Duration::from_millis(600);
    })
    .await;
    large(&server);
    // Enough pings that their answers are as long as a small video.
    let pings = b"\0\0\x08\x06\0\0\0\0\0tidegate".repeat(40);
    for request in [&b""[..], LARGE] {
        let mut socket = server.connect().await;
        socket.write_all(PREFACE).await.unwrap();
        socket.write_all(request).await.unwrap();
        let began = Instant::now();
        let mut got: Vec<u8> = Vec::new();
        loop {
            assert!(began.elapsed() < Duration::from_secs(8), "{request:?}");
            // Refused once the server has hung up.
            let _ = socket.write_all(&pings).await;
            let mut buffer = [0; 16 << 10];
            let read = socket.read(&mut buffer);
            match tokio::time::timeout(Duration::from_millis(20), read).await {
                Ok(Ok(0) | Err(_)) => break,
                Ok(Ok(count)) => got.extend(&buffer[..count]),
                Err(_) => {}
            }
        }
        assert!(began.elapsed() > Duration::from_millis(500));
        // The stream is reset first.
        let reset = b"\0\0\x04\x03\0\0\0\0\x01";
        let was_reset = got.windows(reset.len()).any(|bytes| bytes == reset);
        assert_eq!(was_reset, !request.is_empty());
    }
}

/// Data that was acknowledged long ago does not extend the header timeout.
#[tokio::test]
async fn old_bytes_are_no_progress() {
    let mut server = start(|config| {
        config.limits.header_timeout = Duration::from_millis(2000);
        config.groups = vec![Way::None.into()];
    })
    .await;
    let mut sender = http2(server.connect().await).await;
    let (_, body) = fetch(&mut sender, "/v.mp4", "bytes=0-99999").await;
    assert_eq!(body.len(), 100_000);
    let began = Instant::now();
    while sender.ready().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let elapsed = began.elapsed();
    assert!(elapsed > Duration::from_millis(1500), "{elapsed:?}");
    assert!(elapsed < Duration::from_millis(3300), "{elapsed:?}");
    server.stop().await;
}

/// A client that leaves in the middle is distinguished from one that has everything.
#[tokio::test]
async fn leaving_is_logged_as_such() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for (request, ended) in [(LARGE, "client left"), (SMALL, "done")] {
        let log = super::log_to("log", crate::server::LogFormat::Json);
        let mut server = super::start_with(|_| {}, log).await;
        large(&server);
        let mut socket = server.connect().await;
        socket.write_all(PREFACE).await.unwrap();
        socket.write_all(request).await.unwrap();
        let mut buffer = [0; 16 << 10];
        let read = async { while socket.read(&mut buffer).await.unwrap() > 0 {} };
        let _ = tokio::time::timeout(Duration::from_millis(300), read).await;
        drop(socket);
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.stop().await;
        let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
        assert!(log.contains(&format!("\"ended\":\"{ended}\"")), "{log}");
    }
}

/// Reads an answer of this many bytes.
async fn answer(socket: &mut (impl AsyncRead + Unpin), length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut part = [0; 1024];
        let count = socket.read(&mut part).await.unwrap();
        assert!(count > 0, "{:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&part[..count]);
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n")
            && all.len() >= end + 4 + length
        {
            assert_eq!(all.len(), end + 4 + length);
            return all.split_off(end + 4);
        }
    }
}

/// The metrics.
async fn page(server: &Running) -> String {
    let mut socket = TcpStream::connect(server.metrics.unwrap()).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut page = String::new();
    socket.read_to_string(&mut page).await.unwrap();
    page
}
