//! A limiter of one's own: a daily allowance at full speed, then a policer.
//!
//! `cargo run -p tidegate-limiter --example own_limiter`

use tidegate_limiter::{Decision, Nanos, PacketMeta, PolicerConfig, TokenBucket};

const DAY: Nanos = 86_400_000_000_000;

/// Passes everything until the day's allowance is used up, and then what the policer passes.
struct Allowance {
    /// Bytes a day.
    allowance: u64,
    left: u64,
    /// When the allowance is renewed.
    renewal: Nanos,
    policer: TokenBucket,
}

impl Allowance {
    fn new(allowance: u64, after: &PolicerConfig, now: Nanos) -> Self {
        Self {
            allowance,
            left: allowance,
            renewal: now.saturating_add(DAY),
            policer: TokenBucket::new(after, now),
        }
    }

    /// Integers only, time is passed in, and nothing is allocated: as in all limiters of the crate.
    fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        if now >= self.renewal {
            let days = (now - self.renewal) / DAY + 1;
            self.renewal = self.renewal.saturating_add(days.saturating_mul(DAY));
            self.left = self.allowance;
        }
        match self.left.checked_sub(packet.bytes.into()) {
            Some(left) => {
                self.left = left;
                Decision::Pass
            }
            None => self.policer.offer(now, packet),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let after = PolicerConfig::new("1mbit".parse()?, 15_000)?;
    // 1 GB a day, then 1 Mbit/s.
    let mut limiter = Allowance::new(1_000_000_000, &after, 0);
    let packet = PacketMeta {
        bytes: 1500,
        ..PacketMeta::default()
    };
    // 12 Mbit/s for 20 minutes of each of two days.
    for day in 0..2 {
        let packets = (0..1_200_000u64).map(|number| day * DAY + number * 1_000_000);
        let passed = packets.filter(|&now| limiter.offer(now, &packet) == Decision::Pass);
        let megabytes = passed.count() as f64 * 1500.0 / 1e6;
        println!("day {day}: {megabytes:.0} MB of 1800 passed");
        assert!((1000.0..1150.0).contains(&megabytes));
    }
    Ok(())
}
