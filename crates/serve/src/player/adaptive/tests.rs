//! Viewers of a server that does what a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::super::screen::Patience;
use super::super::transport::Transport;
use super::super::viewer;
use super::*;

/// Four segments of 4 s, each of 10 kB.
const LIST: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n0.ts?s=1\n#EXTINF:4,\n1.ts?s=1
#EXTINF:4,\n2.ts?s=1\n#EXTINF:4,\n3.ts?s=1\n#EXT-X-ENDLIST\n";

/// A server with playlists and segments, on which the segment that is called like this stops in its middle. Returns its URL, and the targets
/// that it was asked for.
fn server(stops: &'static str) -> (Uri, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/all.m3u8", listener.local_addr().unwrap());
    let targets = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&targets);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(first)) = lines.next() {
            lines.by_ref().map(Result::unwrap).find(String::is_empty);
            let target = first.split(' ').nth(1).unwrap().to_owned();
            let path = target.split('?').next().unwrap().to_owned();
            asked.lock().unwrap().push(target);
            let body = match &*path {
                "/all.m3u8" => {
                    b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=20000\nlist.m3u8?t=a%2Fb\n".to_vec()
                }
                "/list.m3u8" => LIST.into(),
                _ => vec![0; 10_000],
            };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            let sent = match !stops.is_empty() && path.ends_with(stops) {
                true => body.len() / 2,
                false => body.len(),
            };
            stream.write_all(&body[..sent]).unwrap();
        }
    });
    (url.parse().unwrap(), targets)
}

async fn viewed(url: Uri, start: u64, buffer: u64, watch_for: u64) -> Viewed {
    let start = Duration::from_secs(start);
    let player = Player {
        transport: Transport::new(Duration::from_secs(5), None, None).unwrap(),
        watch: Some(Duration::from_millis(watch_for)),
        buffer: Duration::from_secs(buffer),
        range: None,
        patience: Patience {
            start,
            restart: start,
        },
        start_up: Duration::ZERO,
        rate: None,
    };
    let (_leave, leaving) = watch::channel(false);
    viewer::watch(0, (url, None), &player, Instant::now(), leaving).await
}

#[tokio::test]
async fn queries_of_playlists_and_segments_are_asked_for() {
    let (url, targets) = server("");
    let viewed = viewed(url, 4, 30, 5_000).await;
    assert!(viewed.ended.is_ok() && viewed.bytes == 40_000, "{viewed:?}");
    let expected = ["/all.m3u8", "/list.m3u8?t=a%2Fb", "/0.ts?s=1", "/1.ts?s=1"];
    assert_eq!(targets.lock().unwrap()[..4], expected);
}

/// A buffer that does not drain yet is filled as far as playing needs it.
#[tokio::test]
async fn a_start_above_the_buffer_is_not_waited_for() {
    let (url, _) = server("");
    let viewed = viewed(url, 12, 4, 1_000).await;
    let join = viewed.viewing.and_then(|viewing| viewing.join);
    assert!(join.is_some_and(|join| join < 500_000_000), "{viewed:?}");
    // It plays, and fetches nothing more.
    assert_eq!(viewed.bytes, 30_000, "{viewed:?}");
}

#[tokio::test]
async fn bytes_of_a_segment_that_is_left_count() {
    for (stops, bytes) in [("/0.ts", 5_000), ("/1.ts", 15_000), ("/list.m3u8", 0)] {
        let (url, _) = server(stops);
        let viewed = viewed(url, 4, 30, 500).await;
        assert_eq!(viewed.bytes, bytes, "{viewed:?}");
    }
}
