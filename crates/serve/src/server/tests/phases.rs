//! The two phases in simulated time, and sockets that keep a sum.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Request as Asked;
use hyper::body::Buf;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::media::make::{self, Layout};
use crate::server::Config;
use crate::server::body::Answer;
use crate::server::connection::{Connection, Past};
use crate::server::disk::Wait;
use crate::server::files::{Folder, ServedFile, Target};
use crate::server::kernel::Sockets;
use crate::server::metrics::Metrics;
use crate::server::pace::Pace;
use crate::server::patience::{Patience, Verdict};
use crate::server::range::Span;
use crate::server::request::Request;
use crate::server::shared::Shared;
use crate::server::slots::{SlotKind, Slots};
use crate::server::transport::Transport;
use crate::server::viewers::Viewers;
use tidegate_pace::Way;
use tidegate_pace::socket::tcp_info;

/// A connection whose client never reads, and a video of 1 Mbit/s and 60 s.
pub(in crate::server) struct Stage {
    pub connection: Arc<Connection>,
    pub socket: Arc<TcpStream>,
    pub folder: tempfile::TempDir,
    pub peer: TcpStream,
}

pub(in crate::server) async fn stage(way: Way, start_up: u64) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let video = folder.path().join("v.mp4");
    make::video(&video, Layout::Mp4, Duration::from_secs(60), 7_500_000).unwrap();
    let mut config = Config::new(folder.path().to_owned());
    config.groups = vec![way.into()];
    config.start_up = Duration::from_secs(start_up);
    let served = Folder::open(folder.path(), None).unwrap();
    let shared = Arc::new(Shared {
        sockets: Sockets::new([way].into_iter()),
        metrics: Metrics::new(&config.groups, served.overfull()),
        folder: served,
        log: None,
        slots: Slots::new(config.limits),
        viewers: Viewers::new(config.start_up),
        redirect: None,
        alternative: None,
        config,
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    SockRef::from(&listener).set_tcp_mss(1460).unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (socket, address) = listener.accept().await.unwrap();
    let socket = Arc::new(socket);
    let transport = Transport::Tcp {
        socket: socket.clone(),
        is_secure: true,
    };
    Stage {
        connection: Arc::new(Connection::new(shared, Past::new(0, 0, address), transport)),
        socket,
        folder,
        peer,
    }
}

impl Stage {
    /// The bytes of a body that fill this number of packets, in records of TLS.
    fn filled(&self, packets: usize) -> usize {
        let bytes = packets * tcp_info(&self.socket).unwrap().mss as usize;
        bytes - bytes.div_ceil(16 << 10) * 29
    }

    /// The bytes of a body that fill the packets of a block: 45 if it has 64 KiB, and a packet 1448 bytes.
    fn block(&self, bytes: usize) -> usize {
        self.filled(bytes / tcp_info(&self.socket).unwrap().mss as usize)
    }

    pub fn video(&self, start: u64) -> Answer {
        self.piece(start, u64::MAX)
    }

    /// A part of the video, of up to this many bytes.
    fn piece(&self, start: u64, most: u64) -> Answer {
        let path = std::path::Path::new("v.mp4");
        let Ok(Target::File(found)) =
            self.connection
                .shared
                .folder
                .find(path, false, Wait::ForDisk)
        else {
            panic!("no video");
        };
        let ServedFile {
            file,
            identity,
            length,
            rate,
            ..
        } = *found;
        let request = Request::of(&Asked::get("/v.mp4").body(()).unwrap());
        let end = length.min(start.saturating_add(most));
        let span = Span { start, end };
        let connection = self.connection.clone();
        let slots = &connection.shared.slots;
        let slot = slots.take(connection.address(), SlotKind::File).unwrap();
        let pace = Pace::File(identity, rate.unwrap());
        Answer::video(connection, request, (file, slot), pace, span)
    }
}

/// The next blocks: when each arrived, in ms, and its length.
async fn blocks(answer: &mut Answer, count: usize) -> Vec<(u64, usize)> {
    let began = Instant::now();
    let mut blocks = Vec::new();
    for _ in 0..count {
        let Some(frame) = answer.frame().await else {
            break;
        };
        let mut data = frame.unwrap().into_data().unwrap();
        let bytes = data.remaining();
        // As if it had been written.
        data.advance(bytes);
        blocks.push((began.elapsed().as_millis() as u64, bytes));
    }
    blocks
}

fn sum(blocks: &[(u64, usize)]) -> usize {
    blocks.iter().map(|(_, bytes)| bytes).sum()
}

#[tokio::test(start_paused = true)]
async fn start_up_then_blocks_in_time() {
    for (way, block) in [
        (Way::APPLICATION_64K, 64 << 10),
        (Way::APPLICATION_16K, 16 << 10),
    ] {
        let stage = stage(way, 2).await;
        let block = stage.block(block);
        let mut answer = stage.video(0);
        // 2 s of 1 Mbit/s at once: 3 blocks of 64 KiB and a rest.
        let start_up = blocks(&mut answer, 4).await;
        assert_eq!(sum(&start_up), 250_000);
        assert!(start_up.iter().all(|&(at, _)| at == 0), "{start_up:?}");
        // Each block is complete, when 156,250 bytes a second have allowed it; timers count
        // milliseconds, and blocks wait for common times.
        for (number, (at, bytes)) in blocks(&mut answer, 40).await.into_iter().enumerate() {
            assert_eq!(bytes, block);
            let due = (number as u64 + 1) * block as u64 * 1000 / 156_250;
            assert!(
                (due..=due + 18).contains(&at),
                "{way}: block {number} at {at} ms, due at {due} ms"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_file_in_its_time() {
    let stage = stage(Way::APPLICATION_64K, 30).await;
    let mut answer = stage.video(0);
    let all = blocks(&mut answer, usize::MAX).await;
    assert_eq!(sum(&all), 7_500_000);
    // 30 s of video at once, 30 s at 125 %.
    let (last, _) = all[all.len() - 1];
    assert!((23_990..=24_020).contains(&last), "{last} ms");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_paused_catches_up() {
    let stage = stage(Way::APPLICATION_64K, 2).await;
    let mut answer = stage.video(0);
    blocks(&mut answer, 5).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // 10 s at 1.25 Mbit/s are 24.02 blocks.
    let missed = blocks(&mut answer, 24).await;
    assert!(missed.iter().all(|&(at, _)| at == 0), "{missed:?}");
    assert!(blocks(&mut answer, 1).await[0].0 > 0);
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_where_it_ended_has_no_second_start_up() {
    let stage = stage(Way::APPLICATION_64K, 2).await;
    let mut answer = stage.video(0);
    // 250,000 bytes of start-up and two blocks.
    let block = stage.block(64 << 10);
    let due = block as u64 * 1_000 / 156_250;
    let sent = 250_000 + 2 * block;
    assert_eq!(sum(&blocks(&mut answer, 6).await), sent);
    let sent = sent as u64;
    drop(answer);
    // The last block may have been 16 ms late.
    let mut answer = stage.video(sent);
    assert!(blocks(&mut answer, 1).await[0].0 >= due - 16);
    drop(answer);
    // A little before.
    let mut answer = stage.video(sent + block as u64 - 1000);
    assert!(blocks(&mut answer, 1).await[0].0 >= due - 16);
    drop(answer);
    // At any other position the viewer has jumped, and wants to see something soon.
    for start in [3_000_000, 0] {
        let mut answer = stage.video(start);
        assert_eq!(blocks(&mut answer, 1).await, [(0, 65_536)]);
        drop(answer);
        // The rest of the credit continues.
        let mut answer = stage.video(start + 65_536);
        let rest = blocks(&mut answer, 4).await;
        assert_eq!(sum(&rest[..3]), 250_000 - 65_536);
        assert_eq!((rest[2].0, rest[3].1), (0, block));
        assert!(rest[3].0 >= due);
    }
}

#[tokio::test(start_paused = true)]
async fn small_pieces_get_the_rate_of_the_whole() {
    for way in [Way::APPLICATION_64K, Way::APPLICATION_16K, Way::TRICKLE] {
        let stage = stage(way, 0).await;
        let began = Instant::now();
        let (mut next, size) = (0, 8_000);
        while next < 1_562_500 {
            let mut piece = stage.piece(next, size);
            next += sum(&blocks(&mut piece, usize::MAX).await) as u64;
            drop(piece);
            // The next request takes a round trip: 8,000 bytes are due in 51 ms.
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        let took = began.elapsed().as_millis();
        assert!((10_000..10_100).contains(&took), "{way}: {took} ms");
        if way == Way::TRICKLE {
            // If it has a clamp, it keeps two bursts.
            continue;
        }
        // After a pause, 250 ms are due: 39,062 bytes.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let began = Instant::now();
        for _ in 0..5 {
            let mut piece = stage.piece(next, size);
            next += sum(&blocks(&mut piece, usize::MAX).await) as u64;
        }
        assert!(began.elapsed() <= Duration::from_millis(10), "{way}");
        let mut piece = stage.piece(next, size);
        assert!(blocks(&mut piece, 1).await[0].0 > 40, "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_shrinks_is_an_error() {
    let stage = stage(Way::None, 2).await;
    let mut answer = stage.video(0);
    blocks(&mut answer, 2).await;
    File::create(stage.folder.path().join("v.mp4")).unwrap();
    let next = answer.frame().await.unwrap();
    // Data that was read ahead may still arrive.
    let error = match next {
        Ok(_) => answer.frame().await.unwrap().unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test(start_paused = true)]
async fn a_socket_keeps_the_sum_of_its_responses() {
    let stage = stage(Way::MaxPacingRate, 2).await;
    let rate = || tidegate_pace::socket::max_pacing_rate(&stage.socket).unwrap();
    assert_eq!(rate(), u64::MAX);
    let mut one = stage.video(0);
    blocks(&mut one, 4).await;
    assert_eq!(rate(), u64::MAX);
    blocks(&mut one, 1).await;
    assert_eq!(rate(), 156_250);
    let page = stage.connection.shared.metrics.text();
    let known =
        "throttled_total{group=\"max-pacing-rate\",way=\"max-pacing-rate\",paced_by=\"kernel\"} 1";
    assert!(page.contains(known), "{page}");
    // Another video is in its start-up phase: the socket is free until both are throttled.
    let mut two = stage.video(5_000_000);
    assert_eq!(rate(), u64::MAX);
    blocks(&mut two, 5).await;
    assert_eq!(rate(), 312_500);
    drop(one);
    assert_eq!(rate(), 156_250);
    // Data on its way keeps its pace.
    drop(two);
    assert_eq!(rate(), 156_250);
    let _three = stage.video(1_000_000);
    assert_eq!(rate(), u64::MAX);
}

#[tokio::test(start_paused = true)]
async fn streams_keep_their_own_rates() {
    let stage = stage(Way::MaxPacingRate, 0).await;
    // A frame of HTTP/2 within TLS is two records. Without HTTP/2 there is one.
    let framing =
        [true, false].map(|is_stream| stage.connection.packets(is_stream).unwrap().framing);
    assert_eq!(framing, [2 * 29 + 9, 29]);
    let (mut one, mut two) = (stage.video(0), stage.video(5_000_000));
    let (one, two) = tokio::join!(blocks(&mut one, 12), blocks(&mut two, 12));
    // The first one that asks does not know the other one yet; then ten packets, less a record of TLS, at
    // 156,250 bytes a second.
    for blocks in [one, two] {
        let (at, bytes) = (blocks[11].0 - blocks[1].0, sum(&blocks[2..]));
        assert_eq!(bytes, 10 * stage.filled(10).min(14_480));
        assert!((900..960).contains(&at), "{blocks:?}");
    }
}

/// The end of a response has the stall timeout until it is written. After that, a request is due.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_response_is_being_sent() {
    let stage = stage(Way::None, 0).await;
    let connection = &stage.connection;
    assert!(!connection.deadline().1);
    let mut answer = stage.video(7_400_000);
    blocks(&mut answer, 1).await;
    let mut last = answer.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(last.remaining(), 34_464);
    drop(answer);
    let (deadline, sending) = connection.deadline();
    assert!(sending);
    assert_eq!(deadline, Instant::now() + Duration::from_secs(60));
    // Other data may be written meanwhile.
    connection.wrote(99_000, 99_000);
    last.advance(30_000);
    assert!(connection.deadline().1);
    last.advance(4_464);
    assert!(!connection.deadline().1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_the_disk_is_not_late() {
    let stage = stage(Way::None, 0).await;
    let asked = stage.connection.asked();
    tokio::time::sleep(Duration::from_secs(21)).await;
    let mut patience = Patience::new(&stage.connection);
    assert_eq!(patience.check(&stage.connection), Verdict::Wait);
    drop(asked);
    assert_eq!(patience.check(&stage.connection), Verdict::Ask);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_response_does_not_wait_for_a_whole_block() {
    let stage = stage(Way::APPLICATION_64K, 0).await;
    // 10 kB at 1.25 Mbit/s.
    let all = blocks(&mut stage.video(7_490_000), usize::MAX).await;
    assert_eq!(sum(&all), 10_000);
    let (last, _) = all[all.len() - 1];
    assert!((64..=80).contains(&last), "{last} ms");
}
