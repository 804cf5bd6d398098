//! Connections that wait for their next request.

use super::*;

/// How often connections have given up their buffers.
async fn rested(server: &Running) -> u64 {
    let page = page(server).await;
    let name = "tidegate_serve_connections_rested_total ";
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

const REQUEST: &[u8] = b"GET /abc.txt HTTP/1.1\r\nHost: t\r\n\r\n";

#[tokio::test]
async fn idle_connections_rest_between_requests() {
    let log = log_to("log", LogFormat::Json);
    let mut server = start_with(|config| config.metrics = Some(LOCAL), log).await;
    let mut socket = server.connect().await;
    for times in 0..3 {
        socket.write_all(REQUEST).await.unwrap();
        assert_eq!(answer(&mut socket, 10).await, b"abcdefghij");
        assert_eq!(rested(&server).await, times);
        sleep(REST + Duration::from_millis(300)).await;
        assert_eq!(rested(&server).await, times + 1);
    }
    // Of the second request a part is here, so it does not rest. A request in two parts is whole.
    let (first, second) = REQUEST.split_at(11);
    socket.write_all(&[REQUEST, first].concat()).await.unwrap();
    assert_eq!(answer(&mut socket, 10).await, b"abcdefghij");
    sleep(REST + Duration::from_millis(300)).await;
    assert_eq!(rested(&server).await, 3);
    socket.write_all(second).await.unwrap();
    assert_eq!(answer(&mut socket, 10).await, b"abcdefghij");
    sleep(REST + Duration::from_millis(300)).await;
    assert_eq!(rested(&server).await, 4);
    // The end of the server is the end of what rests.
    server.stop().await;
    assert_eq!(socket.read(&mut [0]).await.unwrap(), 0);
    // It was one connection all the time.
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    let ends: Vec<_> = log
        .lines()
        .filter(|line| line.contains("\"ended\""))
        .collect();
    assert_eq!(ends.len(), 1, "{log}");
    assert!(ends[0].contains("\"requests\":5,"), "{log}");
}

#[tokio::test]
async fn many_connections_rest_and_each_is_found_again() {
    let mut server = start(|config| {
        config.metrics = Some(LOCAL);
        config.threads = 2;
    })
    .await;
    let mut sockets = Vec::new();
    for _ in 0..100 {
        sockets.push(server.connect().await);
    }
    sleep(REST + Duration::from_millis(300)).await;
    assert_eq!(rested(&server).await, 100);
    // Some ask again, some leave.
    for (index, mut socket) in sockets.into_iter().enumerate() {
        if index % 2 == 0 {
            socket.write_all(REQUEST).await.unwrap();
            assert_eq!(answer(&mut socket, 10).await, b"abcdefghij");
        }
    }
    let all_left = async {
        while !page(&server).await.contains("_connections_open 0\n") {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), all_left).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_request_after_a_rest_may_wait_for_the_disk() {
    let server = start(|_| {}).await;
    let mut socket = server.connect().await;
    socket.write_all(REQUEST).await.unwrap();
    assert_eq!(answer(&mut socket, 10).await, b"abcdefghij");
    sleep(REST + Duration::from_millis(300)).await;
    // Nobody knows yet how fast this video plays: another thread reads it.
    let request = b"GET /v.mp4 HTTP/1.1\r\nHost: t\r\nRange: bytes=0-99\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let answered = timeout(Duration::from_secs(10), answer(&mut socket, 100)).await;
    assert_eq!(answered.unwrap().len(), 100);
}

#[tokio::test]
async fn the_time_for_a_request_does_not_begin_again_with_a_rest() {
    let time = Duration::from_millis(2_500);
    let server = start(|config| config.limits.header_timeout = time).await;
    let mut socket = server.connect().await;
    socket.write_all(REQUEST).await.unwrap();
    assert_eq!(answer(&mut socket, 10).await, b"abcdefghij");
    let began = Instant::now();
    assert_eq!(socket.read(&mut [0]).await.unwrap(), 0);
    assert!(began.elapsed() >= time - Duration::from_millis(100));
    assert!(began.elapsed() < 2 * time - Duration::from_millis(500));
}

#[tokio::test]
async fn idle_connections_with_tls_rest_too() {
    let server = secure(&["http/1.1"], Way::None).await;
    let mut socket = server.connect().await;
    for _ in 0..2 {
        socket.write_all(REQUEST).await.unwrap();
        assert_eq!(answer(&mut socket, 10).await, b"abcdefghij");
        sleep(REST + Duration::from_millis(300)).await;
    }
    assert_eq!(rested(&server.server).await, 2);
}
