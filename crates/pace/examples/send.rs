//! Sends to whoever connects, paced; prints how the connection does.
//! `send ADDRESS RATE [--fallback]`, RATE in bit/s.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use tidegate_pace::{Options, Pace, Target};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, rate, rest @ ..] = &arguments[..] else {
        return Err("send ADDRESS RATE [--fallback]".into());
    };
    let mut options = Options::default();
    options.without_kernel = rest.iter().any(|flag| flag == "--fallback");
    let pace = Pace::open_with(&options);
    println!("{:?}", pace.mode());
    let listener = TcpListener::bind(address)?;
    if let Ok(name) = std::env::var("CC") {
        socket2::SockRef::from(&listener).set_tcp_congestion(name.as_bytes())?;
    }
    let (mut socket, peer) = listener.accept()?;
    println!("{peer}");
    let block = vec![0; 65_536];
    let begin = Instant::now();
    let startup: usize = rest.iter().find_map(|a| a.parse().ok()).unwrap_or(0);
    for _ in 0..startup / block.len() {
        socket.write_all(&block)?;
    }
    println!("start-up written after {:?}", begin.elapsed());
    pace.pace(&socket, &Target::new(rate.parse()?))?;
    let mut next = Duration::ZERO;
    while begin.elapsed() < Duration::from_secs(8) {
        socket.write_all(&block)?;
        if begin.elapsed() >= next {
            next += Duration::from_millis(500);
            println!("{:?} {:?}", begin.elapsed(), pace.stats(&socket)?);
        }
    }
    Ok(())
}
