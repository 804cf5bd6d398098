//! Files that the kernel moves into sockets. No byte may differ from the file's, and a hole in place of them must never be sent.

use std::fs::{self, File, OpenOptions};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Buf;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::phases::{Stage, stage};
use super::{Running, log_to, split, start, start_with};
use crate::server::LogFormat;
use crate::server::disk::{self, Shortened};
use crate::server::hole;
use crate::server::payload::Payload;
use crate::server::socket::Watched;
use tidegate_pace::Way;

/// A length that is no multiple of anything.
const LENGTH: usize = 3_000_017;

/// Bytes without zeros, and without a period that a block could have.
fn noise(length: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 11) as u8 | 1;
    (0..length).map(byte).collect()
}

/// A server of such a file, `noise.bin`, and the file.
async fn noisy() -> (Running, Vec<u8>) {
    let server = start(|_| {}).await;
    let bytes = noise(LENGTH);
    fs::write(server.folder.path().join("noise.bin"), &bytes).unwrap();
    (server, bytes)
}

fn open(server: &Running) -> File {
    let path = server.folder.path().join("noise.bin");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

/// A client that has room for little.
async fn narrow(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(32 << 10).unwrap();
    socket.connect(address).await.unwrap()
}

#[tokio::test]
async fn whole_files_and_parts_arrive_as_they_are() {
    let (server, file) = noisy().await;
    let (status, _, body) = server.ask("GET", "/noise.bin", &[]).await;
    assert!(status == 200 && body == file);
    let ends = [
        (0, 0),
        (0, 8_191),
        (1, 8_192),
        (4_095, 70_000),
        (65_535, 65_537),
        (65_536, 131_071),
        (99_999, 99_999 + (512 << 10)),
        (1, 1_000_000),
        (2_999_000, LENGTH - 1),
        (LENGTH - 1, LENGTH - 1),
    ];
    for (first, last) in ends {
        let range = format!("Range: bytes={first}-{last}");
        let (status, _, body) = server.ask("GET", "/noise.bin", &[&range]).await;
        assert_eq!(status, 206);
        assert!(body == file[first..=last], "{first} to {last}");
    }
    let (status, head, body) = server.ask("HEAD", "/noise.bin", &[]).await;
    assert!(status == 200 && body.is_empty() && head.contains("content-length: 3000017"));
    let old = b"GET /noise.bin HTTP/1.0\r\n\r\n";
    assert!(split(&server.raw(old).await).2 == file);
}

/// Requests that are sent at once are answered in their order, small files among large ones.
#[tokio::test]
async fn pipelined_requests_have_their_answers() {
    let (server, file) = noisy().await;
    let mut requests = String::new();
    let mut expected = Vec::new();
    for at in 0..30 {
        let (first, last) = (at * 977, at * 40_009 + 20_000);
        requests +=
            &format!("GET /noise.bin HTTP/1.1\r\nHost: t\r\nRange: bytes={first}-{last}\r\n\r\n");
        expected.extend_from_slice(&file[first..=last]);
        requests += "GET /abc.txt HTTP/1.1\r\nHost: t\r\n\r\n";
        expected.extend_from_slice(b"abcdefghij");
    }
    requests += "HEAD /noise.bin HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let mut socket = narrow(server.address).await;
    let (mut reader, mut writer) = socket.split();
    let mut all = Vec::new();
    let write = writer.write_all(requests.as_bytes());
    let (read, wrote) = tokio::join!(reader.read_to_end(&mut all), write);
    assert!(read.is_ok() && wrote.is_ok());
    // All bodies, without their heads.
    let (mut rest, mut bodies) = (&all[..], Vec::new());
    for answer in 0..61 {
        let (_, head, _) = split(rest);
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        let body = &rest[head.len() + 4..];
        let length = if answer == 60 { 0 } else { length };
        bodies.extend_from_slice(&body[..length]);
        rest = &body[length..];
    }
    assert!(rest.is_empty() && bodies == expected);
}

/// A client takes little at a time, so that the socket takes parts of holes.
#[tokio::test]
async fn slow_clients_have_all_bytes() {
    let (server, file) = noisy().await;
    let mut socket = narrow(server.address).await;
    let request = b"GET /noise.bin HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut all = Vec::new();
    let mut part = [0; 7_001];
    loop {
        let count = socket.read(&mut part).await.unwrap();
        all.extend_from_slice(&part[..count]);
        if count == 0 {
            break;
        }
        if all.len() % 8 == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    assert!(split(&all).2 == file);
}

/// Bytes that are not in memory are read by another thread, and then sent as they were read.
#[tokio::test]
async fn bytes_that_are_not_in_memory_are_waited_for() {
    let (server, file) = noisy().await;
    let noise = open(&server);
    noise.sync_all().unwrap();
    for (offset, length) in [(0, 0), (300_000, 200_000), (2_000_000, 65_536)] {
        let length = std::num::NonZeroU64::new(length);
        rustix::fs::fadvise(&noise, offset, length, rustix::fs::Advice::DontNeed).unwrap();
        let (_, _, body) = server.ask("GET", "/noise.bin", &[]).await;
        assert!(body == file);
    }
}

/// The connection ends where the file does, and the log says why. Nothing is sent in place of bytes that are gone.
#[tokio::test]
async fn a_file_that_shrinks_ends_its_connection() {
    // In a hole that waits for the socket, and long after it.
    for length in [500_009, 1_500_007] {
        let log = log_to("log", LogFormat::Json);
        let mut server = start_with(|_| {}, log).await;
        let file = noise(8 << 20);
        fs::write(server.folder.path().join("noise.bin"), &file).unwrap();
        let mut socket = narrow(server.address).await;
        let request = b"GET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n";
        socket.write_all(request).await.unwrap();
        let mut all = vec![0; 20_000];
        socket.read_exact(&mut all).await.unwrap();
        // The socket is full.
        sleep(Duration::from_millis(100)).await;
        open(&server).set_len(length).unwrap();
        let _ = timeout(Duration::from_secs(10), socket.read_to_end(&mut all))
            .await
            .unwrap();
        let (_, _, body) = split(&all);
        assert!(body.len() as u64 <= length, "{}", body.len());
        assert!(body == file[..body.len()]);
        server.stop().await;
        let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
        assert!(log.contains("\"ended\":\"file shortened\""), "{log}");
    }
}

/// The log counts what the socket took, not what a hole promised.
#[tokio::test]
async fn clients_that_leave_are_logged_with_what_was_sent() {
    let log = log_to("log", LogFormat::Json);
    let mut server = start_with(|_| {}, log).await;
    fs::write(server.folder.path().join("noise.bin"), noise(8 << 20)).unwrap();
    let mut socket = narrow(server.address).await;
    let request = b"GET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut some = vec![0; 20_000];
    socket.read_exact(&mut some).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    drop(socket);
    sleep(Duration::from_millis(100)).await;
    server.stop().await;
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    let bytes = |event: &str| -> u64 {
        let start = format!("{{\"event\":\"{event}\"");
        let line = log.lines().find(|line| line.starts_with(&start)).unwrap();
        let number = line.split("\"bytes\":").nth(1).unwrap();
        number.split(',').next().unwrap().parse().unwrap()
    };
    let (body, all) = (bytes("request"), bytes("connection"));
    assert!(body < all && all < body + 1_000, "{body} of {all} bytes");
}

/// Paced blocks are moved too.
#[tokio::test]
async fn paced_files_arrive_as_they_are() {
    for way in [
        Way::APPLICATION_16K,
        Way::APPLICATION_64K,
        Way::MaxPacingRate,
        Way::TRICKLE,
    ] {
        let server = start(|config| {
            config.groups = vec![way.into()];
            config.start_up = Duration::from_millis(100);
        })
        .await;
        let file = noise(700_001);
        fs::write(server.folder.path().join("noise.bin"), &file).unwrap();
        fs::write(server.folder.path().join("noise.bin.rate"), "8mbit").unwrap();
        let (_, _, body) = server.ask("GET", "/noise.bin", &[]).await;
        assert!(body == file, "{way}");
    }
}

impl Stage {
    /// A file, and a hole for its bytes from 5 on.
    fn hole(&self, length: usize) -> (Arc<File>, Payload) {
        let path = self.folder.path().join("noise");
        fs::write(&path, noise(2 * length)).unwrap();
        let file = Arc::new(File::open(&path).unwrap());
        let parts = self.connection.parts().unwrap();
        parts.push(Arc::clone(&file), 5, length);
        (file, Payload::hole(length, Arc::clone(&self.connection)))
    }

    async fn write(&self, slices: &[&[u8]]) -> std::io::Result<usize> {
        let mut socket = Watched {
            connection: Arc::clone(&self.connection),
            socket: Arc::clone(&self.socket),
        };
        let slices: Vec<_> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
        std::future::poll_fn(|cx| std::pin::Pin::new(&mut socket).poll_write_vectored(cx, &slices))
            .await
    }
}

#[tokio::test]
async fn a_file_goes_through_a_hole() {
    let mut stage = stage(Way::None, 0).await.with_parts();
    let (_file, mut hole) = stage.hole(9_001);
    assert!(hole::is(hole.chunk()) && !hole::is(b"head"));
    let count = stage
        .write(&[b"head", hole.chunk(), b"tail"])
        .await
        .unwrap();
    assert_eq!(count, 9_009);
    hole.advance(9_001);
    let mut arrived = vec![0; count];
    stage.peer.read_exact(&mut arrived).await.unwrap();
    let expected = [b"head", &noise(18_002)[5..9_006], b"tail"].concat();
    assert!(arrived == expected);
}

/// A hole that has no part, or another one, is not written.
#[tokio::test]
async fn a_socket_refuses_a_hole_without_a_part() {
    let whole = hole::of(9_000);
    for torn in [false, true] {
        let mut stage = stage(Way::None, 0).await.with_parts();
        assert!(stage.write(&[whole]).await.is_err());
        let (_file, hole) = stage.hole(9_001);
        assert!(stage.write(&[whole]).await.is_err());
        assert!(
            stage
                .write(&[&hole.chunk()[1..]])
                .await
                .is_err_and(|_| true)
        );
        if torn {
            drop(hole);
            assert!(stage.write(&[hole::of(9_001)]).await.is_err());
        }
        let socket = socket2::SockRef::from(&*stage.socket);
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut arrived = Vec::new();
        stage.peer.read_to_end(&mut arrived).await.unwrap();
        assert!(arrived.is_empty());
    }
    // Nor on a connection that has none, such as one with TLS.
    let stage = stage(Way::None, 0).await;
    assert!(stage.write(&[whole]).await.is_err());
}

/// A library that copies the bytes of a hole advances it, and that panics.
#[tokio::test]
#[should_panic(expected = "only the kernel takes the bytes of holes")]
async fn a_hole_cannot_be_copied() {
    let stage = stage(Way::None, 0).await.with_parts();
    let (_file, mut hole) = stage.hole(9_000);
    hole.copy_to_bytes(10);
}

#[tokio::test]
async fn a_part_that_is_gone_is_an_error() {
    let stage = stage(Way::None, 0).await.with_parts();
    let (_file, mut hole) = stage.hole(9_000);
    let path = stage.folder.path().join("noise");
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(1_005)
        .unwrap();
    assert_eq!(stage.write(&[hole.chunk()]).await.unwrap(), 1_000);
    hole.advance(1_000);
    let error = stage.write(&[hole.chunk()]).await.unwrap_err();
    assert!(error.get_ref().unwrap().is::<Shortened>());
}

/// The body makes holes where it may.
#[tokio::test]
async fn bodies_have_holes() {
    let stage = stage(Way::None, 0).await.with_parts();
    let file = File::open(stage.folder.path().join("v.mp4")).unwrap();
    if disk::in_memory(&file, 0, 1) == 0 {
        // The file system of temporary files cannot tell.
        return;
    }
    let mut answer = stage.video(0);
    let frame = http_body_util::BodyExt::frame(&mut answer).await;
    let payload = frame.unwrap().unwrap().into_data().unwrap();
    assert!(hole::is(payload.chunk()) && payload.remaining() == hole::LONGEST);
}
