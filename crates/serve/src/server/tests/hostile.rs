//! Limits, slow clients, malformed requests, and shutdown.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::{log_to, split, start, start_with};
use crate::server::LogFormat;
use crate::server::rest::REST;
use tidegate_pace::Way;

#[tokio::test]
async fn slow_headers() {
    let server = start(|config| config.limits.header_timeout = Duration::from_millis(400)).await;
    // Nothing; a header byte by byte; and single bytes after a complete request.
    for first in ["", "GET /abc.txt HTTP/1.1\r\nHost: t\r\n\r\n"] {
        for drip in [None, Some(b'a')] {
            let mut socket = server.connect().await;
            socket.write_all(first.as_bytes()).await.unwrap();
            let began = Instant::now();
            let mut buffer = [0; 1000];
            loop {
                if let Some(byte) = drip {
                    // Refused once the server has hung up.
                    let _ = socket.write_all(&[byte]).await;
                }
                let read = socket.read(&mut buffer);
                match tokio::time::timeout(Duration::from_millis(50), read).await {
                    Ok(Ok(0) | Err(_)) => break,
                    _ => assert!(began.elapsed() < Duration::from_secs(10)),
                }
            }
            assert!(began.elapsed() > Duration::from_millis(300));
        }
    }
}

#[tokio::test]
async fn timeouts_of_zero_are_refused() {
    for header in [true, false] {
        let mut config = crate::server::Config::new(std::env::temp_dir());
        let limits = &mut config.limits;
        if header {
            limits.header_timeout = Duration::ZERO;
        } else {
            limits.stall_timeout = Duration::ZERO;
        }
        let error = crate::server::Server::bind(config, None).await.err();
        assert!(error.unwrap().to_string().contains("timeout of 0"));
    }
}

#[tokio::test]
async fn whoever_says_nothing_is_logged_as_such() {
    // Its time is up, or the server ends: before the connection rests, and while it does.
    let resting = REST + Duration::from_millis(300);
    for (header, stop, expected) in [
        (200, None, "header timeout"),
        (1_300, None, "header timeout"),
        (20_000, Some(Duration::from_millis(100)), "shutdown"),
        (20_000, Some(resting), "shutdown"),
    ] {
        let mut server = start_with(
            |config| config.limits.header_timeout = Duration::from_millis(header),
            log_to("log", LogFormat::Json),
        )
        .await;
        let mut socket = server.connect().await;
        match stop {
            Some(after) => sleep(after).await,
            None => assert_eq!(socket.read(&mut [0]).await.unwrap(), 0),
        }
        server.stop().await;
        let log = std::fs::read_to_string(server.folder.path().join("log")).unwrap();
        assert!(log.contains(&format!("\"ended\":\"{expected}\"")), "{log}");
    }
}

#[tokio::test]
async fn clients_that_take_nothing() {
    let mut server = start_with(
        |config| config.limits.stall_timeout = Duration::from_millis(500),
        log_to("log", LogFormat::Json),
    )
    .await;
    let large = server.folder.path().join("large");
    std::fs::File::create(&large)
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let mut socket = server.connect().await;
    let request = b"GET /large HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    sleep(Duration::from_millis(1500)).await;
    let mut taken = 0;
    let mut buffer = vec![0; 1 << 16];
    let error = loop {
        match socket.read(&mut buffer).await {
            Ok(0) => panic!("it ended well after {taken} bytes"),
            Ok(count) => taken += count,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(taken < 1 << 29, "{taken}");
    server.stop().await;
    let log = std::fs::read_to_string(server.folder.path().join("log")).unwrap();
    assert!(log.contains("\"ended\":\"stall timeout\""), "{log}");
}

/// A client that waits for the server's pace is not too slow.
#[tokio::test]
async fn pacing_is_no_stall() {
    let server = start(|config| {
        config.limits.stall_timeout = Duration::from_millis(200);
        config.groups = vec![Way::APPLICATION_64K.into()];
        config.start_up = Duration::ZERO;
    })
    .await;
    // A block every 524 ms.
    let (status, _, body) = server
        .ask("GET", "/v.mp4", &["Range: bytes=0-131071"])
        .await;
    assert_eq!((status, body.len()), (206, 131_072));
}

#[tokio::test]
async fn long_heads() {
    let server = start(|_| {}).await;
    let long = "x".repeat(100_000);
    let many = "A: b\r\n".repeat(5000);
    for request in [
        format!("GET /{long} HTTP/1.1\r\nHost: t\r\n\r\n"),
        format!("GET /abc.txt HTTP/1.1\r\nHost: t\r\nA: {long}\r\n\r\n"),
        format!("GET /abc.txt HTTP/1.1\r\nHost: t\r\n{many}\r\n"),
    ] {
        let response = server.raw(request.as_bytes()).await;
        // Bytes that were not read cause a reset, which may destroy the answer.
        if !response.is_empty() {
            let (status, ..) = split(&response);
            assert!([400, 414, 431].contains(&status), "{status}");
        }
    }
    assert_eq!(server.ask("GET", "/abc.txt", &[]).await.0, 200);
}

#[tokio::test]
async fn nonsense() {
    let server = start(|_| {}).await;
    for request in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame",
        b"GET /abc.txt HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ] {
        let response = server.raw(request).await;
        assert!(!response.starts_with(b"HTTP/1.1 200"), "{request:?}");
    }
    assert_eq!(server.ask("GET", "/abc.txt", &[]).await.0, 200);
}

#[tokio::test]
async fn places_are_limited_and_come_back() {
    for limit_of_all in [true, false] {
        let server = start(|config| {
            let limits = &mut config.limits;
            if limit_of_all {
                limits.connections = 2;
            } else {
                limits.per_address = 2;
            }
        })
        .await;
        let one = server.connect().await;
        let _two = server.connect().await;
        assert!(
            server
                .raw(b"GET /abc.txt HTTP/1.1\r\nHost: t\r\n\r\n")
                .await
                .is_empty()
        );
        drop(one);
        let mut status = 0;
        for _ in 0..100 {
            let request = b"GET /abc.txt HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
            let response = server.raw(request).await;
            if !response.is_empty() {
                status = split(&response).0;
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(status, 200);
    }
}

#[tokio::test]
async fn what_is_being_sent_is_finished() {
    let mut server = start(|config| {
        config.groups = vec![Way::APPLICATION_16K.into()];
        config.start_up = Duration::ZERO;
    })
    .await;
    let idle = server.connect().await;
    let mut socket = server.connect().await;
    // Half a second at 125,000 bytes a second.
    let request = b"GET /v.mp4 HTTP/1.1\r\nHost: t\r\nRange: bytes=0-65535\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut first = [0; 1];
    socket.read_exact(&mut first).await.unwrap();
    let began = Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5));
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.unwrap();
    let response = [&first[..], &rest].concat();
    assert_eq!(split(&response).2.len(), 65_536);
    drop(idle);
    assert!(
        tokio::net::TcpStream::connect(server.address)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn what_takes_too_long_is_not() {
    let mut server = start(|config| {
        config.groups = vec![Way::APPLICATION_16K.into()];
        config.start_up = Duration::ZERO;
        config.limits.grace = Duration::from_millis(300);
    })
    .await;
    let mut socket = server.connect().await;
    let request = b"GET /v.mp4 HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut first = [0; 1];
    socket.read_exact(&mut first).await.unwrap();
    let began = Instant::now();
    server.stop().await;
    let elapsed = began.elapsed();
    assert!(elapsed >= Duration::from_millis(250), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest).await;
    assert!(rest.len() < 500_000);
}

/// The socket is written to only when 64 KiB have left it. A client that takes fewer bytes in the stall timeout still
/// takes something.
#[tokio::test]
async fn slow_clients_are_not_stalled_ones() {
    let server = start(|config| config.limits.stall_timeout = Duration::from_millis(400)).await;
    let large = std::fs::File::create(server.folder.path().join("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let mut socket = socket.connect(server.address).await.unwrap();
    let request = b"GET /large HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut buffer = [0; 4 << 10];
    for _ in 0..50 {
        sleep(Duration::from_millis(50)).await;
        let count = socket.read(&mut buffer).await.unwrap();
        assert!(count > 0);
    }
}

/// A client that has sent a request gets its answer, even if the server has not accepted its connection when it is asked to end.
#[tokio::test]
async fn what_waits_to_be_accepted_is_answered() {
    use std::io::{Read, Write};
    let mut server = start(|_| {}).await;
    // The server runs on this thread: it accepts nothing until the test waits.
    let mut clients: Vec<_> = (0..50)
        .map(|_| {
            let mut socket = std::net::TcpStream::connect(server.address).unwrap();
            let request = b"GET /abc.txt HTTP/1.1\r\nHost: t\r\n\r\n";
            socket.write_all(request).unwrap();
            socket
        })
        .collect();
    server.stop().await;
    for client in &mut clients {
        let mut response = Vec::new();
        client.read_to_end(&mut response).unwrap();
        assert_eq!(split(&response).2, b"abcdefghij");
    }
}

/// Open files are bounded, for all clients and for each address. A client that comes too late learns when
/// to try again.
#[tokio::test]
async fn files_are_limited_and_come_back() {
    for (files, connections) in [(1, 8192), (4, 4000)] {
        let server = start(|config| {
            config.limits.files = files;
            config.limits.connections = connections;
        })
        .await;
        let large = std::fs::File::create(server.folder.path().join("large")).unwrap();
        large.set_len(1 << 30).unwrap();
        let mut socket = server.connect().await;
        let request = b"GET /large HTTP/1.1\r\nHost: t\r\n\r\n";
        socket.write_all(request).await.unwrap();
        socket.read_exact(&mut [0]).await.unwrap();
        let (status, head, _) = server.ask("GET", "/abc.txt", &[]).await;
        assert_eq!(status, 503, "{head}");
        assert!(head.contains("retry-after: 1"), "{head}");
        // Another address has a separate share.
        let other = tokio::net::TcpSocket::new_v4().unwrap();
        other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut other = other.connect(server.address).await.unwrap();
        let request = b"GET /abc.txt HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
        other.write_all(request).await.unwrap();
        let mut response = Vec::new();
        other.read_to_end(&mut response).await.unwrap();
        assert_eq!(split(&response).0, if files == 1 { 503 } else { 200 });
        drop(socket);
        let mut status = 0;
        for _ in 0..100 {
            status = server.ask("GET", "/abc.txt", &[]).await.0;
            if status == 200 {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(status, 200);
    }
}
