//! Polices a stream of packets: 16 Mbit/s come to a policer of 8 Mbit/s.
//!
//! `cargo run -p tidegate-limiter --example police`

use tidegate_limiter::{Decision, PacketMeta, PolicerConfig, Rate, TokenBucket, sizing};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rate: Rate = "8mbit".parse()?;
    // Enough for TCP to come near the rate at round trips of up to 50 ms.
    let path = sizing::Path {
        rtt: 50_000_000,
        mss: 1500,
    };
    let burst = sizing::correct_rate(rate, path);
    let mut policer = TokenBucket::new(&PolicerConfig::new(rate, burst)?, 0);

    let packet = PacketMeta {
        bytes: 1500,
        ..PacketMeta::default()
    };
    println!("bucket: {burst} bytes");
    for second in 0..3u64 {
        let (mut passed, mut dropped) = (0u64, 0u64);
        // A packet each 750 us is 16 Mbit/s.
        for number in 0..1333 {
            let now = second * 1_000_000_000 + number * 750_000;
            match policer.offer(now, &packet) {
                Decision::Drop => dropped += 1,
                Decision::Pass | Decision::Mark(_) | Decision::Ce => passed += 1,
            }
        }
        let mbit = passed as f64 * 1500.0 * 8.0 / 1e6;
        println!("second {second}: {mbit:.2} Mbit/s passed, {dropped} packets dropped");
    }
    Ok(())
}
