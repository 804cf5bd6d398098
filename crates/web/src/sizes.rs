//! How deep to make a limiter's bucket or queue.

use serde_json::{Value, json};
use tidegate_limiter::{Rate, sizing};

/// Bytes of a full packet.
const MSS: u32 = 1500;
/// A longer round trip is no longer one of a network.
const LONGEST_S: f64 = 60.0;

/// Depths for a limiter of this kind in bytes, and what each is good for; none for kinds of which the sources say nothing.
pub fn sizes(kind: &str, bps: u64, rtt_s: f64) -> Value {
    let rate = Rate::from_bits_per_second(bps);
    // A number that is not one becomes 0.
    let rtt = (rtt_s.clamp(0.0, LONGEST_S) * 1e9) as u64;
    let path = sizing::Path { rtt, mss: MSS };
    let whole = (sizing::correct_rate(rate, path), "a flow reaches the rate");
    let sizes = match kind {
        "policer" => vec![
            (sizing::policer_burst(rate, rtt), "videos play well"),
            whole,
        ],
        "fair-policer" | "pqp" => vec![whole],
        "bc-pqp" | "bc-pqp-paper" => vec![(
            sizing::phantom_queue(rate, path),
            "flows reach the rate, and bursts are bounded all the same",
        )],
        "shaper" => vec![(sizing::bdp(rate, rtt), "the bandwidth-delay product")],
        _ => Vec::new(),
    };
    let sizes = sizes
        .iter()
        .map(|(bytes, good)| json!({ "bytes": bytes, "for": good }));
    sizes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [BCPQP §3.5, figure 2]: 579 kB by the formula for 10 Mbit/s and 100 ms. [Flach16 §5.1.1]: 32 kB at 500 kbit/s.
    #[test]
    fn depths_are_those_of_the_papers() {
        let bytes = |found: &Value, place: usize| found[place]["bytes"].as_u64();
        let policer = sizes("policer", 10_000_000, 0.1);
        assert_eq!(bytes(&policer, 0), Some(125_000));
        assert!(bytes(&policer, 1).is_some_and(|bytes| bytes / 1000 == 578));
        assert_eq!(bytes(&sizes("policer", 500_000, 0.1), 0), Some(32_000));
        let phantom = bytes(&sizes("bc-pqp", 10_000_000, 0.1), 0);
        assert_eq!(phantom, bytes(&policer, 1).map(|bytes| 10 * bytes));
        assert_eq!(sizes("trtcm", 10_000_000, 0.1), json!([]));
        for rtt_s in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(sizes("shaper", u64::MAX, rtt_s).is_array());
        }
    }
}
