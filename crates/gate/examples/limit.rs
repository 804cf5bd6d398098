//! Limits subscribers in the kernel for a minute, and prints each second how much traffic passed.
//!
//! Run it as root: `cargo run --example limit -- gate.toml`

use std::error::Error;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use tidegate_gate::control::{Control, LocalGate};
use tidegate_gate::{Config, Gate, Kernel};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("give the gate's file")?;
    let config = Config::read(Path::new(&file))?;
    let (gate, report) = Gate::<Kernel>::up(&config)?;
    println!("{} subscribers are limited", report.added.len());

    let mut gate = LocalGate::held(gate);
    let mut before = gate.read()?.sums();
    for _ in 0..60 {
        sleep(Duration::from_secs(1));
        let now = gate.read()?.sums();
        for (direction, counters) in now.iter() {
            let counted = counters.since(before[direction]);
            println!(
                "{}: {} bytes passed, {} exceeded the limits",
                direction.name(),
                counted.passed_bytes,
                counted.excess_bytes
            );
        }
        before = now;
    }
    drop(gate);

    // The limits are still in force. Any process can remove them.
    Gate::<Kernel>::down_at((&config).into())?;
    Ok(())
}
