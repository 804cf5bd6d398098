//! How well a machine keeps time: a thread with the priority of a link does nothing but wake up every 58 µs, as packets of 200 Mbit/s leave. How
//! late it wakes is the least lateness that packets in a shell can have there. With `awake`, processors are kept awake meanwhile.
//!
//! ```sh
//! cargo build --release -p tidegate-testbed --example wakes && sudo target/release/examples/wakes awake
//! ```

use std::thread;
use std::time::{Duration, Instant};

use tidegate_lab::record::Histogram;
use tidegate_testbed::{Awake, real_time};

const STEP: Duration = Duration::from_micros(58);
const WAKES: u32 = 150_000;

fn main() {
    let awake = std::env::args().any(|word| word == "awake");
    let _awake = awake.then(Awake::new);
    if !real_time() {
        println!("without real-time priority, which the system refuses");
    }
    let mut lateness = Histogram::default();
    let origin = Instant::now();
    for number in 0..WAKES {
        let due = origin + STEP * number;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        lateness.record(due.elapsed().as_nanos() as u64);
    }
    let late = lateness.distribution();
    let [half, most, all] = [late.p50, late.p99, late.max].map(Duration::from_nanos);
    println!("half at most {half:.0?} late, 99 % at most {most:.2?}, all at most {all:.2?}");
}
