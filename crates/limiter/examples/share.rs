//! Shares a rate by a policy with BC-PQP: voice first, and what it leaves in equal shares.
//!
//! `cargo run -p tidegate-limiter --example share`

use std::net::IpAddr;

use tidegate_limiter::{
    BurstControl, Classifier, Decision, HashKey, Headers, PhantomQueues, PhantomQueuesConfig,
    PolicyTree, Ports, Rate, Rule, sizing,
};

/// Packets of one sender.
struct Sender {
    name: &'static str,
    port: u16,
    dscp: u8,
    /// Nanoseconds from one packet to the next.
    gap: u64,
    bytes: u32,
}

const SECONDS: u64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Class 0 is one queue, class 1 has 8 queues; class 0 is served first.
    let policy = PolicyTree::priority(vec![PolicyTree::queue(), PolicyTree::fair(8)?])?;
    let rate: Rate = "10mbit".parse()?;
    let path = sizing::Path {
        rtt: 100_000_000,
        mss: 1500,
    };
    let queue = sizing::phantom_queue(rate, path);
    let config = PhantomQueuesConfig::new(&policy, rate, queue)?;
    let config = config.with_burst_control(BurstControl::DEFAULT);

    // Expedited forwarding is voice; packets that no rule matches are of the last class.
    let voice = Rule {
        dscp: "ef".parse()?,
        class: 0,
        ..Rule::default()
    };
    let classifier = Classifier::new(
        config.program(),
        vec![voice],
        None,
        HashKey::from_bytes(*b"a 16 byte secret"),
    )?;
    let mut limiter = PhantomQueues::new(&config, 0);

    // 0.8 Mbit/s of voice, and two senders of 12 and 60 Mbit/s.
    let senders = [
        ("voice", 5060, 46, 2_000_000, 200),
        ("modest", 443, 0, 1_000_000, 1500),
        ("greedy", 8080, 0, 200_000, 1500),
    ]
    .map(|(name, port, dscp, gap, bytes)| Sender {
        name,
        port,
        dscp,
        gap,
        bytes,
    });
    let (server, client): (IpAddr, IpAddr) = ("198.51.100.7".parse()?, "192.0.2.1".parse()?);
    let mut passed = [0u64; 3];
    for now in (0..SECONDS * 1_000_000_000).step_by(100_000) {
        for (sender, passed) in senders.iter().zip(&mut passed) {
            if now % sender.gap == 0 {
                let headers = Headers {
                    source: server,
                    destination: client,
                    protocol: 17,
                    ports: Some(Ports {
                        source: sender.port,
                        destination: 50_000,
                    }),
                    dscp: sender.dscp,
                };
                let packet = classifier.classify(&headers.into(), sender.bytes);
                if limiter.offer(now, &packet) == Decision::Pass {
                    *passed += u64::from(sender.bytes);
                }
            }
        }
    }
    for (sender, passed) in senders.iter().zip(passed) {
        let mbit = passed as f64 * 8.0 / 1e6 / SECONDS as f64;
        println!("{}: {mbit:.2} Mbit/s", sender.name);
    }
    Ok(())
}
