//! Clients that mean harm, or break.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use quinn::VarInt;
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

use super::{answer, ask, client, connect, fetch, log, secure};

/// A client that behaves is served.
async fn served(address: std::net::SocketAddr, root: &rustls::pki_types::CertificateDer<'static>) {
    let mut sender = client(connect(address, root).await).await;
    let (status, body) = fetch(&mut sender, "/abc.txt", "bytes=0-").await;
    assert_eq!(
        (status, &body[..]),
        (StatusCode::PARTIAL_CONTENT, &b"abcdefghij"[..])
    );
}

#[tokio::test]
async fn garbage() {
    let (server, root) = secure(|_| {}).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    // Bytes of a simple generator. The first byte makes some of them look like handshakes of QUIC, version 1.
    let mut state = 1_u32;
    for round in 0..2000_usize {
        let mut packet: Vec<u8> = (0..round % 1473)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        if round % 3 == 0 && packet.len() > 5 {
            packet[..5].copy_from_slice(&[0xc3, 0, 0, 0, 1]);
        }
        // The socket's buffer may be full.
        let _ = socket.try_send_to(&packet, server.address);
    }
    served(server.address, &root).await;
}

/// Handshakes that are begun and never finished: from the 65th on, clients must prove their address.
#[tokio::test]
async fn half_open_handshakes() {
    let (server, root) = secure(|_| {}).await;
    let (mut accepted, mut retries) = (0, 0);
    // All stay open. The kernel would give the port of a closed one to the next, and the last packet of the client before would come there.
    let mut sockets = Vec::new();
    for _ in 0..100 {
        // The first packet of a real client, which comes from elsewhere, and is never followed by another.
        let tap = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let endpoint = super::endpoint(&root);
        let there = tap.local_addr().unwrap();
        let _connecting = endpoint.connect(there, "localhost").unwrap();
        let mut first = [0; 2000];
        let length = tap.recv(&mut first).await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket
            .send_to(&first[..length], server.address)
            .await
            .unwrap();
        let mut reply = [0; 2000];
        let came = timeout(Duration::from_secs(5), socket.recv(&mut reply)).await;
        came.unwrap().unwrap();
        // A long header of type 3 is Retry, and one of type 0 an answer (RFC 9000, section 17.2).
        match reply[0] >> 4 & 3 {
            3 => retries += 1,
            _ => accepted += 1,
        }
        sockets.push((tap, socket));
    }
    assert_eq!((accepted, retries), (64, 36));
    // A client that can prove its address is served.
    served(server.address, &root).await;
}

#[tokio::test]
async fn frames_without_end() {
    let (mut server, root) = secure(|_| {}).await;
    let connection = connect(server.address, &root).await;
    // A header of 1 GB (RFC 9114, section 7.2.2), and an unknown frame as large.
    for kind in [0x01_u8, 0x21] {
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let mut sent = 0;
        let frame = [kind, 0xc0, 0, 0, 0, 0x40, 0, 0, 0];
        send.write_all(&frame).await.unwrap();
        let flood = async {
            while send.write_all(&[0; 1 << 10]).await.is_ok() {
                sent += 1 << 10;
            }
        };
        timeout(Duration::from_secs(10), flood).await.unwrap();
        assert!((64 << 10..1 << 20).contains(&sent), "{sent}");
        let _ = timeout(Duration::from_secs(1), receive.read(&mut [0]))
            .await
            .unwrap();
    }
    served(server.address, &root).await;
    connection.close(VarInt::from_u32(0x100), b"");
    server.stop().await;
}

#[tokio::test]
async fn requests_that_never_end() {
    let (mut server, root) = secure(|config| {
        config.limits.header_timeout = Duration::from_millis(400);
    })
    .await;
    let connection = connect(server.address, &root).await;
    let began = Instant::now();
    let mut streams = Vec::new();
    for _ in 0..16 {
        let (mut send, receive) = connection.open_bi().await.unwrap();
        // The beginning of a header.
        send.write_all(&[0x01, 0x40]).await.unwrap();
        streams.push((send, receive));
    }
    // No more than these at a time.
    assert!(
        timeout(Duration::from_millis(100), connection.open_bi())
            .await
            .is_err()
    );
    timeout(Duration::from_secs(5), connection.closed())
        .await
        .unwrap();
    assert!(began.elapsed() > Duration::from_millis(300));
    server.stop().await;
    let log = log(server.folder.path());
    assert!(log.contains("\"ended\":\"header timeout\""), "{log}");
}

/// A client that asks for a large file and gives no room for it. Only its stream is reset.
#[tokio::test]
async fn clients_that_take_nothing() {
    let (mut server, root) = secure(|config| {
        config.limits.stall_timeout = Duration::from_millis(500);
    })
    .await;
    let large = server.folder.path().join("large");
    std::fs::write(&large, vec![0; 20_000_000]).unwrap();
    let connection = connect(server.address, &root).await;
    let mut sender = client(connection.clone()).await;
    let mut stream = ask(&mut sender, "GET", "/large", "bytes=0-").await;
    stream.recv_response().await.unwrap();
    // Nothing is read: the client's window fills.
    sleep(Duration::from_millis(1500)).await;
    let (status, _) = fetch(&mut sender, "/abc.txt", "bytes=0-").await;
    assert_eq!(status, StatusCode::PARTIAL_CONTENT);
    let rest = answer(stream).await;
    assert!(rest.is_err());
    server.stop().await;
    let log = log(server.folder.path());
    assert!(log.contains("\"target\":\"/large\""), "{log}");
}

/// A client that is gone without a word.
#[tokio::test]
async fn clients_that_vanish() {
    let (mut server, root) = secure(|config| {
        config.limits.stall_timeout = Duration::from_millis(800);
        config.limits.header_timeout = Duration::from_millis(800);
    })
    .await;
    let large = server.folder.path().join("large");
    std::fs::write(&large, vec![0; 20_000_000]).unwrap();
    // Its runtime stops with all of its tasks.
    let address = server.address;
    let there = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stream = runtime.block_on(async {
            let mut sender = client(connect(address, &root).await).await;
            let stream = ask(&mut sender, "GET", "/large", "bytes=0-").await;
            sleep(Duration::from_millis(50)).await;
            stream
        });
        std::mem::forget(stream);
        runtime.shutdown_background();
    });
    tokio::task::spawn_blocking(move || there.join().unwrap())
        .await
        .unwrap();
    sleep(Duration::from_millis(2500)).await;
    let page = log(server.folder.path());
    assert!(page.contains("\"event\":\"connection\""), "{page}");
    server.stop().await;
}
