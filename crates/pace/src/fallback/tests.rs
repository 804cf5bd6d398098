use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use tidegate_limiter::Rate;

use super::*;

fn target(bits_per_second: u64) -> Target {
    Target::new(Rate::from_bits_per_second(bits_per_second)).unwrap()
}

/// A connection of this process with itself: the server's end.
fn connection(listener: &TcpListener) -> TcpStream {
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.accept().unwrap().0
}

#[test]
fn sockets_that_are_closed_are_forgotten() {
    let fallback = Fallback::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kept = connection(&listener);
    let target = target(8_000_000);
    fallback.pace(kept.as_fd(), &target).unwrap();
    for _ in 0..2 * Paced::LEAST + 10 {
        let socket = connection(&listener);
        fallback.pace(socket.as_fd(), &target).unwrap();
    }
    assert!(fallback.paced().sockets.len() <= Paced::LEAST);
    fallback.hold(kept.as_fd()).unwrap();
}

/// Writes all that the socket takes, while nobody reads.
fn fill(mut socket: &TcpStream) {
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
}

/// Reads until all that was written is acknowledged.
fn drain(socket: &TcpStream, mut client: &TcpStream) {
    client
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let began = Instant::now();
    let mut buffer = vec![0; 1 << 16];
    while socket::unacknowledged(socket).unwrap() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20));
        assert!(client.read(&mut buffer).unwrap() > 0);
    }
}

#[test]
fn data_that_was_written_before_is_sent_at_full_speed() {
    let fallback = Fallback::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    let (hold, rate) = (
        || fallback.hold(socket.as_fd()).unwrap(),
        || socket::max_pacing_rate(&socket).unwrap(),
    );
    // The second time, the rate of the first must go.
    for _ in 0..2 {
        fill(&socket);
        fallback.pace(socket.as_fd(), &target(8_000_000)).unwrap();
        assert_eq!((hold(), rate()), (Hold::StartUp, u64::MAX));
        fallback
            .change(socket.as_fd(), &target(16_000_000))
            .unwrap();
        let stats = fallback.stats(socket.as_fd()).unwrap();
        assert_eq!((stats.hold, stats.rate), (Hold::StartUp, 2_000_000));
        assert_eq!((stats.delivered, stats.pacing, rate()), (0, 0, u64::MAX));
        drain(&socket, &client);
        let stats = fallback.stats(socket.as_fd()).unwrap();
        assert_eq!((stats.hold, stats.delivered), (Hold::Fallback, 0));
        assert_eq!((stats.pacing, rate()), (2_400_000, 2_400_000));
    }
    // Nothing is queued, so the phase begins at once.
    fallback.pace(socket.as_fd(), &target(8_000_000)).unwrap();
    assert_eq!(rate(), 1_200_000);
    assert_eq!(hold(), Hold::Fallback);
}
