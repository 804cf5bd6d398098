//! HTTP/3, with the clients of quinn and h3.

mod hostile;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use hyper::body::{Buf, Bytes};
use hyper::{Request, Response, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, EndpointConfig, TokioRuntime};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::TlsConnector;

use super::{Running, log_to, split, start_with};
use crate::server::{Config, LogFormat, Way};

type Sender = SendRequest<h3_quinn::OpenStreams, Bytes>;
type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// A server that speaks HTTP/3 too, and its certificate. It logs to `log`.
async fn secure(change: impl FnOnce(&mut Config)) -> (Running, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let keep = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = keep.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let certificate = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let tls = Some((certificate.clone(), key));
    let server = start_with(
        |config| {
            config.tls = tls;
            config.http3 = true;
            change(config);
        },
        log_to("log", LogFormat::Json),
    )
    .await;
    let root = CertificateDer::from_pem_file(&certificate).unwrap();
    (server, root)
}

fn tls(root: &CertificateDer<'static>, protocol: &[u8]) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

fn endpoint(root: &CertificateDer<'static>) -> Endpoint {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let config = EndpointConfig::default();
    let mut endpoint = Endpoint::new(config, None, socket, Arc::new(TokioRuntime)).unwrap();
    let crypto = QuicClientConfig::try_from(tls(root, b"h3")).unwrap();
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
    endpoint
}

async fn connect(address: SocketAddr, root: &CertificateDer<'static>) -> quinn::Connection {
    let connecting = endpoint(root).connect(address, "localhost").unwrap();
    connecting.await.unwrap()
}

/// A client of HTTP/3.
async fn client(connection: quinn::Connection) -> Sender {
    let quic = h3_quinn::Connection::new(connection);
    let (mut driver, sender) = h3::client::new(quic).await.unwrap();
    tokio::spawn(async move {
        let _ = std::future::poll_fn(|cx| driver.poll_close(cx)).await;
    });
    sender
}

async fn ask(sender: &mut Sender, method: &str, target: &str, range: &str) -> Stream {
    let request = Request::builder().method(method);
    let request = request.uri(format!("https://localhost{target}"));
    let request = request.header("range", range).body(()).unwrap();
    let mut stream = sender.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    stream
}

async fn answer(mut stream: Stream) -> Result<(Response<()>, Vec<u8>), StreamError> {
    let response = stream.recv_response().await?;
    let mut body = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Ok((response, body))
}

async fn fetch(sender: &mut Sender, target: &str, range: &str) -> (StatusCode, Vec<u8>) {
    let (response, body) = answer(ask(sender, "GET", target, range).await)
        .await
        .unwrap();
    (response.status(), body)
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap()
}

#[tokio::test]
async fn it_answers_as_the_other_versions_do() {
    let (mut server, root) = secure(|_| {}).await;
    let mut sender = client(connect(server.address, &root).await).await;
    let file = fs::read(server.folder.path().join("v.mp4")).unwrap();
    let (one, two) = (&mut sender.clone(), &mut sender.clone());
    let (one, two) = tokio::join!(
        fetch(one, "/v.mp4", "bytes=0-"),
        fetch(two, "/v.mp4", "bytes=500000-"),
    );
    assert!(one.1 == file && two.1 == file[500_000..]);
    let (status, body) = fetch(&mut sender, "/abc.txt", "bytes=2-4").await;
    assert_eq!(
        (status, &body[..]),
        (StatusCode::PARTIAL_CONTENT, &b"cde"[..])
    );
    for (method, target, range, status, length) in [
        ("GET", "/abc.txt", "bytes=90-", 416, None),
        ("GET", "/none", "bytes=0-", 404, None),
        ("GET", "/../secret", "bytes=0-", 404, None),
        ("HEAD", "/abc.txt", "bytes=0-", 200, Some("10")),
        ("POST", "/abc.txt", "bytes=0-", 405, None),
    ] {
        let stream = ask(&mut sender, method, target, range).await;
        let (response, body) = answer(stream).await.unwrap();
        let headers = response.headers();
        assert_eq!(response.status(), status, "{method} {target}");
        assert!(body.is_empty() || method != "HEAD");
        assert!(headers.contains_key("date") && !headers.contains_key("alt-svc"));
        if let Some(length) = length {
            assert_eq!(headers["content-length"], length);
        }
    }
    drop(sender);
    server.stop().await;
    let log = log(server.folder.path());
    assert!(log.contains("\"protocol\":\"HTTP/3.0\""), "{log}");
    assert!(log.contains("\"ended\":\"done\",\"requests\":8"), "{log}");
}

#[tokio::test]
async fn clients_of_tls_learn_of_it() {
    let (server, root) = secure(|_| {}).await;
    let config = Arc::new(tls(&root, b"http/1.1"));
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(config).connect(name, server.connect().await);
    let mut stream = stream.await.unwrap();
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let request = b"GET /abc.txt HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let (status, head, _) = split(&response);
    let service = format!("alt-svc: h3=\":{}\"; ma=86400", server.address.port());
    assert!(status == 200 && head.contains(&service), "{head}");
}

#[tokio::test]
async fn without_a_certificate_there_is_none() {
    let mut config = Config::new(std::env::temp_dir());
    config.http3 = true;
    let error = crate::server::Server::bind(config, None).await.err();
    assert!(error.unwrap().to_string().contains("--cert"));
}

/// A video of 0.8 Mbit/s, after 2 s of it at full speed. Over loopback the window is at its floor, so writes are throttled too.
#[tokio::test]
async fn a_video_is_throttled() {
    for (way, by) in [
        (Way::TRICKLE, "clamp"),
        (Way::APPLICATION_16K, "application"),
        (Way::MaxPacingRate, "application"),
    ] {
        let (mut server, root) = secure(|config| {
            config.groups = vec![way.into()];
            config.start_up = Duration::from_secs(2);
        })
        .await;
        let mut sender = client(connect(server.address, &root).await).await;
        let began = Instant::now();
        let (_, body) = fetch(&mut sender, "/v.mp4", "bytes=0-499999").await;
        // 200 kB at once, and 300 kB at 125 kB/s.
        let time = began.elapsed().as_secs_f64();
        assert!(
            body.len() == 500_000 && (2.2..2.9).contains(&time),
            "{way} {time}"
        );
        drop(sender);
        server.stop().await;
        let log = log(server.folder.path());
        assert!(log.contains(&format!("\"paced_by\":\"{by}\"")), "{log}");
        assert!(log.contains("\"throttled_seconds\":2."), "{log}");
    }
}

#[tokio::test]
async fn a_response_is_sent_to_its_end_at_shutdown() {
    let (mut server, root) = secure(|config| {
        config.groups = vec![Way::APPLICATION_16K.into()];
        config.start_up = Duration::from_secs(1);
    })
    .await;
    let address = server.address;
    let mut sender = client(connect(address, &root).await).await;
    let stream = ask(&mut sender, "GET", "/v.mp4", "bytes=0-299999").await;
    let reading = tokio::spawn(answer(stream));
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.stop().await;
    let (_, body) = reading.await.unwrap().unwrap();
    assert_eq!(body.len(), 300_000);
    // And nobody is let in any more.
    let late = endpoint(&root).connect(address, "localhost").unwrap();
    let late = tokio::time::timeout(Duration::from_secs(1), late).await;
    assert!(!matches!(late, Ok(Ok(_))));
    let log = log(server.folder.path());
    assert!(log.contains("\"ended\":\"done\""), "{log}");
}

/// Each family has a socket of its own, also of UDP.
#[tokio::test]
async fn both_families_are_listened_to_at_one_port() {
    let Ok(free) = std::net::TcpListener::bind("[::]:0") else {
        eprintln!("skipped: no IPv6 here");
        return;
    };
    let port = free.local_addr().unwrap().port();
    drop(free);
    let listen = |text: String| text.parse().unwrap();
    let (server, root) = secure(|config| {
        config.listen = vec![
            listen(format!("0.0.0.0:{port}")),
            listen(format!("[::]:{port}")),
        ];
    })
    .await;
    assert_eq!(server.address.port(), port);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connection = connect(address, &root).await;
    assert_eq!(connection.remote_address(), address);
}
