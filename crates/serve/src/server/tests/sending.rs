//! Files that are sent behind the heads of their responses. No byte may differ from the file's.

use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::phases::{Stage, stage};
use super::{Running, log_to, split, start, start_with};
use crate::server::behind::{Behind, Sent, Taken};
use crate::server::body::{Answer, Piece};
use crate::server::disk;
use crate::server::rest::Kept;
use crate::server::{Config, LogFormat};
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

/// A client takes little at a time, so that the socket takes little at once.
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
    // In a part that waits for the socket, and long after it.
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

/// The log counts what the socket took, not what was handed on.
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

/// Requests on one connection, each after the answer to the last, by clients that end their lines in either way.
#[tokio::test]
async fn connections_persist_between_files() {
    let (server, file) = noisy().await;
    let mut socket = server.connect().await;
    for (at, head) in [
        "GET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET /noise.bin HTTP/1.1\nHost: t\n\n",
        "\r\nGET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET /noise.bin HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc",
        "GET /noise.bin HTTP/1.1\r\nHost: t\r\nConnection: keep-alive\r\n\r\n",
        "GET /noise.bin HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
        "GET /noise.bin HTTP/1.1\r\nHost: t\r\nConnection: x, Close\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        // In two pieces, so that the head comes in two.
        let (first, second) = head.split_at(9 + at);
        socket.write_all(first.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(5)).await;
        socket.write_all(second.as_bytes()).await.unwrap();
        let mut all = vec![0; LENGTH];
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        socket.read_exact(&mut all).await.unwrap();
        assert!(all == file, "{at}");
    }
    assert_eq!(socket.read(&mut [0]).await.unwrap(), 0);
    // A client of HTTP/1.0 that does not ask for it gets no second answer.
    let mut socket = server.connect().await;
    let twice = b"GET /noise.bin HTTP/1.0\r\n\r\n";
    socket.write_all(twice).await.unwrap();
    let mut all = Vec::new();
    socket.read_to_end(&mut all).await.unwrap();
    assert!(split(&all).2 == file);
}

/// The head of a paced response, whose first byte is not due, does not wait for it.
#[tokio::test]
async fn a_head_does_not_wait_for_a_body_that_is_not_due() {
    let server = start(|config| {
        config.groups = vec![Way::APPLICATION_64K.into()];
        config.start_up = Duration::ZERO;
    })
    .await;
    fs::write(server.folder.path().join("noise.bin"), noise(700_001)).unwrap();
    // A block of 64 KiB takes half a second.
    fs::write(server.folder.path().join("noise.bin.rate"), "1mbit").unwrap();
    let mut socket = server.connect().await;
    let request = b"GET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut head = [0; 15];
    let began = Instant::now();
    socket.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    // Linux sends what waits for more after 200 ms. A machine that is busy may take as long, so several are tried.
    let mut least = began.elapsed();
    for _ in 0..5 {
        let mut socket = server.connect().await;
        socket.write_all(request).await.unwrap();
        let began = Instant::now();
        socket.read_exact(&mut head).await.unwrap();
        least = least.min(began.elapsed());
    }
    assert!(least < Duration::from_millis(150), "{least:?}");
}

/// A client that ends its connection is noticed while its next block is not due.
#[tokio::test]
async fn a_client_that_leaves_between_blocks_is_noticed() {
    let log = log_to("log", LogFormat::Json);
    let slow = |config: &mut Config| {
        config.groups = vec![Way::APPLICATION_64K.into()];
        config.start_up = Duration::ZERO;
    };
    let mut server = start_with(slow, log).await;
    fs::write(server.folder.path().join("noise.bin"), noise(700_001)).unwrap();
    // A block of 64 KiB takes half a minute.
    fs::write(server.folder.path().join("noise.bin.rate"), "16kbit").unwrap();
    let mut socket = server.connect().await;
    let request = b"GET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    // All that came is read, so that it ends with FIN.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    drop(socket);
    let path = server.folder.path().join("log");
    let ended = async {
        while !fs::read_to_string(&path).unwrap().contains("\"ended\"") {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), ended).await.unwrap();
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.contains("\"ended\":\"client left\""), "{log}");
    server.stop().await;
}

/// A request that comes while a file is sent is answered behind it.
#[tokio::test]
async fn requests_wait_for_the_end_of_a_file() {
    let (server, file) = noisy().await;
    let mut socket = narrow(server.address).await;
    let request = b"GET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    for last in [false, false, true] {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        if last {
            // Who closes its own side counts as gone.
            socket.shutdown().await.unwrap();
            let mut all = Vec::new();
            socket.read_to_end(&mut all).await.unwrap();
            assert!(all.len() < LENGTH && all == file[..all.len()]);
        } else {
            socket.write_all(request).await.unwrap();
            let mut all = vec![0; LENGTH];
            socket.read_exact(&mut all).await.unwrap();
            assert!(all == file);
        }
    }
}

/// The last response of a connection arrives whole, also if its client sends more meanwhile, and also while the server ends.
#[tokio::test]
async fn the_last_response_is_not_reset() {
    for close in ["Connection: close\r\n", ""] {
        let (mut server, file) = noisy().await;
        let mut socket = narrow(server.address).await;
        let request = format!("GET /noise.bin HTTP/1.1\r\nHost: t\r\n{close}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        socket.read_u8().await.unwrap();
        let further = "GET /noise.bin HTTP/1.1\r\nHost: t\r\n\r\n".repeat(1_000);
        socket.write_all(further.as_bytes()).await.unwrap();
        if close.is_empty() {
            server.stop.take().map(|stop| stop.send(()));
            sleep(Duration::from_millis(50)).await;
        }
        let mut all = b"H".to_vec();
        socket.read_to_end(&mut all).await.unwrap();
        // A server that ends may answer one more request, which has come already.
        let body = split(&all).2;
        assert!(body[..LENGTH] == file && body.len() < 2 * LENGTH + 1_000);
        server.stop().await;
    }
}

/// An upload that is refused is read for a moment, so that its client sees the answer.
#[tokio::test]
async fn refused_uploads_see_why() {
    let server = start(|_| {}).await;
    for _ in 0..20 {
        let mut socket = server.connect().await;
        let head = "POST /abc.txt HTTP/1.1\r\nHost: t\r\nContent-Length: 300000\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&[b'a'; 300_000]).await.unwrap();
        let mut all = Vec::new();
        socket.read_to_end(&mut all).await.unwrap();
        assert_eq!(split(&all).0, 405);
    }
}

/// What was handed on and not sent counts as start-up of the next response.
#[tokio::test]
async fn a_cut_response_gives_its_credit_back() {
    let stage = stage(Way::APPLICATION_64K, 2).await;
    let file = File::open(stage.folder.path().join("v.mp4")).unwrap();
    if disk::in_memory(&file, 0, 1) == 0 {
        // The file system of temporary files cannot tell.
        return;
    }
    let next = async |answer: &mut Answer| {
        let piece = std::future::poll_fn(|cx| answer.poll_piece(cx)).await;
        match piece.unwrap() {
            Some(Piece::Part { offset, length, .. }) => (offset, length),
            other => panic!("{other:?}"),
        }
    };
    let mut answer = stage.video(0);
    // 2 s of 1 Mbit/s.
    assert_eq!(next(&mut answer).await, (0, 250_000));
    answer.wrote(100_001);
    drop(answer);
    let mut answer = stage.video(100_001);
    assert_eq!(next(&mut answer).await, (100_001, 149_999));
}

/// HTTP that is spoken in memory, with one answer: a video.
struct Spoken {
    stage: Stage,
    behind: Arc<Behind>,
    client: DuplexStream,
    stream: Kept<Flushed>,
}

/// Memory that tells what is behind a head when it is flushed, as a socket does.
#[derive(Debug)]
struct Flushed(DuplexStream, Arc<Behind>);

impl AsyncRead for Flushed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Flushed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.1.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Spoken {
    /// With room for this many bytes of answers.
    async fn new(room: usize) -> Self {
        let (client, server) = tokio::io::duplex(room);
        let behind = Arc::new(Behind::default());
        Self {
            stage: stage(Way::None, 0).await,
            client,
            stream: Kept::new(Flushed(server, Arc::clone(&behind))),
            behind,
        }
    }

    /// Speaks until a response is taken, or for a while.
    async fn taken(&self) -> Option<Taken> {
        let behind = &self.behind;
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let persists = behind.asked(&request);
            let answer = Box::new(self.stage.video(0));
            let sent = match persists {
                Some(persists) => behind.hold(answer, persists),
                None => Sent::Whole(answer),
            };
            let length = sent.size_hint().exact().unwrap();
            let response = hyper::Response::builder().header("Content-Length", length);
            std::future::ready(response.body(sent))
        });
        let io = TokioIo::new(self.stream.clone());
        let mut speaking = pin!(http1::Builder::new().serve_connection(io, service));
        let taken = std::future::poll_fn(|cx| {
            assert!(speaking.as_mut().poll(cx).is_pending());
            match behind.take(|| self.stream.requests(), || {}) {
                Some(taken) => Poll::Ready(taken),
                None => Poll::Pending,
            }
        });
        timeout(Duration::from_millis(300), taken).await.ok()
    }
}

#[tokio::test]
async fn a_response_is_taken_behind_its_head() {
    let mut spoken = Spoken::new(1 << 10).await;
    for (close, persists) in [("", true), ("", true), ("Connection: close\r\n", false)] {
        let request = format!("GET / HTTP/1.1\r\nHost: t\r\n{close}\r\n");
        spoken.client.write_all(request.as_bytes()).await.unwrap();
        let taken = spoken.taken().await.unwrap();
        assert_eq!((taken.persists, taken.answer.left()), (persists, 7_500_000));
        // The head is there, and nothing else.
        let mut head = [0; 1_024];
        let count = spoken.client.read(&mut head).await.unwrap();
        assert!(head[..count].starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(head[..count].ends_with(b"\r\n\r\n"));
    }
}

/// A head that does not fit into the socket is not behind the library yet.
#[tokio::test]
async fn a_response_is_not_taken_before_its_head_is_written() {
    let mut spoken = Spoken::new(60).await;
    let request = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";
    spoken.client.write_all(request).await.unwrap();
    assert!(spoken.taken().await.is_none());
    assert_eq!(spoken.behind.take(|| Some(1), || {}).map(|_| ()), None);
}

/// What the library has read beyond a request would be lost with it. So it sends that response itself.
#[tokio::test]
async fn a_response_before_further_bytes_is_kept() {
    let get = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";
    for requests in [
        format!("{get}G"),
        format!("{get}{get}"),
        format!("{get}\r\nG"),
        format!("GET / HTTP/1.1\nHost: t\n\n{get}"),
        "GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\n\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: t\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: t\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n".to_owned(),
    ] {
        let mut spoken = Spoken::new(1 << 10).await;
        spoken.client.write_all(requests.as_bytes()).await.unwrap();
        let (client, stage, behind) = (spoken.client, spoken.stage, spoken.behind);
        let (mut reader, writer) = tokio::io::split(client);
        let spoken = Spoken {
            client: tokio::io::duplex(1).0,
            stage,
            behind,
            stream: spoken.stream,
        };
        let mut all = vec![0; 1 << 20];
        let read = async {
            reader.read_exact(&mut all).await.unwrap();
            drop(writer);
        };
        tokio::select! {
            taken = spoken.taken() => assert!(taken.is_none(), "{requests:?}"),
            () = read => {}
        }
        assert!(all.starts_with(b"HTTP/1.1 200 OK"), "{requests:?}");
    }
}

/// A library that is let go with a response that was not taken lets go of that too.
#[tokio::test]
async fn a_response_that_is_not_taken_is_given_up() {
    let stage = stage(Way::None, 0).await;
    let behind = Arc::new(Behind::default());
    let count = Arc::strong_count(&stage.connection);
    let held = behind.hold(Box::new(stage.video(0)), true);
    assert_eq!(Arc::strong_count(&stage.connection), count + 1);
    drop(held);
    assert_eq!(Arc::strong_count(&stage.connection), count);
}
