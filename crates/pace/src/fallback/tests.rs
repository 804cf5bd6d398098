use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

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
    fallback.check(kept.as_fd()).unwrap();
}
