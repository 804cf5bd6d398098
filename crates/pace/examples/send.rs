//! Sends zeros to the first client that connects: two seconds of "video" at full speed, and the rest paced.
//!
//! ```text
//! cargo run -p tidegate-pace --example send -- 127.0.0.1:8000 2mbit
//! curl --http0.9 http://127.0.0.1:8000/ -o /dev/null
//! ```

use std::error::Error;
use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::{Mode, Pacer, Phase, Ready, Target, Way, Writer, throttled_rate};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:8000".into());
    let encoding: Rate = arguments.next().unwrap_or("2mbit".into()).parse()?;

    let pacer = Pacer::open();
    if let Mode::Fallback { why: Some(why) } = pacer.mode() {
        eprintln!("no clamp: {why}");
    }
    let (mut socket, peer) = TcpListener::bind(address)?.accept()?;
    println!("{peer} connected");

    let startup = Bytes::new(encoding.bits_per_second() / 8 * 2);
    let mut writer = Writer::new(Way::TRICKLE, throttled_rate(encoding, 1250), startup);
    let begin = Instant::now();
    let now = || begin.elapsed().as_nanos() as u64;
    let zeros = [0; 65_536];
    let mut paced = false;
    while begin.elapsed() < Duration::from_secs(20) {
        if !paced && writer.phase() == Phase::Throttling {
            if let Some(rate) = writer.settings().clamp {
                pacer.pace(&socket, &Target::new(rate)?)?;
            }
            paced = true;
        }
        let hold = match paced {
            true => Some(pacer.hold(&socket)?),
            false => None,
        };
        match writer.ready(now(), hold) {
            Ready::Write(bytes) => {
                let most = usize::try_from(bytes)
                    .unwrap_or(usize::MAX)
                    .min(zeros.len());
                let wrote = socket.write(&zeros[..most])?;
                writer.wrote(Bytes::new(wrote as u64), now());
            }
            Ready::Wait(nanoseconds) => std::thread::sleep(Duration::from_nanos(nanoseconds)),
        }
    }
    println!("{:#?}", pacer.stats(&socket)?);
    Ok(())
}
