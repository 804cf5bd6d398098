use std::net::{TcpListener, TcpStream};

use super::*;

fn without_kernel() -> Pacer {
    Pacer::open_with(&Options {
        without_kernel: true,
        ..Options::default()
    })
}

/// A connection of this process with itself: the server's end.
fn connection(listener: &TcpListener) -> TcpStream {
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.accept().unwrap().0
}

#[test]
fn a_socket_is_the_same_by_another_descriptor() {
    let pace = without_kernel();
    let socket = connection(&TcpListener::bind("127.0.0.1:0").unwrap());
    pace.pace(&socket, &Target::new(8_000_000)).unwrap();
    let duplicate = socket.try_clone().unwrap();
    drop(socket);
    assert_eq!(pace.hold(&duplicate).unwrap(), Hold::Fallback);
    pace.change(&duplicate, &Target::new(16_000_000)).unwrap();
    assert_eq!(pace.stats(&duplicate).unwrap().rate, 2_000_000);
    assert_eq!(socket::max_pacing_rate(&duplicate).unwrap(), 2_400_000);
    drop(pace);
    assert_eq!(socket::max_pacing_rate(&duplicate).unwrap(), u64::MAX);
}

#[test]
fn sockets_that_are_closed_are_forgotten() {
    let pace = without_kernel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kept = connection(&listener);
    pace.pace(&kept, &Target::new(8_000_000)).unwrap();
    for _ in 0..2 * Paced::LEAST + 10 {
        let socket = connection(&listener);
        pace.pace(&socket, &Target::new(8_000_000)).unwrap();
    }
    assert!(pace.paced().sockets.len() <= Paced::LEAST);
    assert_eq!(pace.hold(&kept).unwrap(), Hold::Fallback);
}
