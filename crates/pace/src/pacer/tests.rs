use std::net::{TcpListener, TcpStream};

use tidegate_limiter::Rate;

use super::*;

fn target(bits_per_second: u64) -> Target {
    Target::new(Rate::from_bits_per_second(bits_per_second)).unwrap()
}

#[test]
fn a_socket_is_the_same_by_another_descriptor() {
    let pacer = Pacer::open_with(&Options {
        without_kernel: true,
        ..Options::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = listener.accept().unwrap().0;
    pacer.pace(&socket, &target(8_000_000)).unwrap();
    let duplicate = socket.try_clone().unwrap();
    drop(socket);
    assert_eq!(pacer.hold(&duplicate).unwrap(), Hold::Fallback);
    pacer.change(&duplicate, &target(16_000_000)).unwrap();
    assert_eq!(pacer.stats(&duplicate).unwrap().rate, 2_000_000);
    assert_eq!(socket::max_pacing_rate(&duplicate).unwrap(), 2_400_000);
    drop(pacer);
    assert_eq!(socket::max_pacing_rate(&duplicate).unwrap(), u64::MAX);
}
