//! A new limiter on the path of a simulated sender: it passes a number of bytes in each hundredth of a
//! second, and drops the rest.
//!
//! ```sh
//! cargo run --release --example own_limiter
//! ```

use std::error::Error;

use tidegate_lab::plan::{CustomLimiter, ElementKind, ElementPlan};
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_lab::summary::Throughput;
use tidegate_lab::{MILLISECOND, Nanos};
use tidegate_limiter::{Decision, PacketMeta, Police};

/// Bytes per interval, as a policer that counts in fixed windows.
#[derive(Debug)]
struct FixedWindow {
    bytes: u64,
    interval: Nanos,
    window: u64,
    passed: u64,
}

impl Police for FixedWindow {
    fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let window = now / self.interval;
        if window != self.window {
            (self.window, self.passed) = (window, 0);
        }
        let passed = self.passed + u64::from(packet.bytes);
        if passed > self.bytes {
            return Decision::Drop;
        }
        self.passed = passed;
        Decision::Pass
    }
}

const SCENARIO: &str = r#"
duration = "20s"
[[element]]
name = "link"
kind = "link"
rate = "100mbit"
[[flow]]
name = "download"
cc = "cubic"
rtt = "20ms"
path = ["link"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::parse(SCENARIO)?;
    let mut plan = scenario
        .groups(Run {
            point: 0,
            seed: 1,
            taps: false,
        })?
        .remove(0)
        .plan;
    // 10 Mbit/s are 12,500 bytes in 10 ms.
    plan.elements.push(ElementPlan {
        name: "window".into(),
        kind: ElementKind::Custom {
            limiter: CustomLimiter::new("fixed-window", || {
                Box::new(FixedWindow {
                    bytes: 12_500,
                    interval: 10 * MILLISECOND,
                    window: 0,
                    passed: 0,
                })
            }),
            overhead: 0,
        },
    });
    plan.flows[0].forward.push(1);
    let outcome = tidegate_lab::run(&plan, &mut |_| true)?;
    let flow = &outcome.flows[0];
    let goodput = Throughput {
        bytes: flow.delivered,
        time: flow.end - flow.start,
    };
    let mbit = goodput.bits_per_second() / 1e6;
    println!(
        "{mbit:.2} Mbit/s, {} of {} packets dropped",
        flow.dropped, flow.sent_packets
    );
    assert!(mbit > 1.0 && mbit < 10.0);
    Ok(())
}
