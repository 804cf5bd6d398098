use tidegate_limiter::{Decision, Marking, PolicerConfig, SingleRateBursts, SingleRateConfig};

use super::*;
use crate::plan::ElementPlan;
use crate::tcp::Segment;

/// A limiter alone in a plan with one slot and without flows.
fn limiter(config: LimiterConfig, overhead: u32) -> Limiter {
    let plan = crate::testing::plan(
        vec![ElementPlan {
            name: "limit".into(),
            kind: ElementKind::Limiter {
                config,
                classes: None,
                overhead,
            },
        }],
        vec![crate::testing::datagrams(1_000_000, 1000)],
    );
    let wires: Arc<[_]> = Arc::new([Wire::new(&plan, 0)]);
    Limiter::new(&plan, 0, &wires).unwrap()
}

#[test]
fn the_overhead_is_charged() {
    let config = PolicerConfig::new("8mbit".parse().unwrap(), 10_000).unwrap();
    for (overhead, passed) in [(0, 10), (14, 9), (250, 8)] {
        let mut limiter = limiter(config.clone().into(), overhead);
        let mut packets = Packets::default();
        let count = (0..20)
            .filter(|_| {
                let id = packets.insert(Packet::new(0, true, 1000, Segment::default()));
                limiter.offer(0, id, &mut packets).is_some()
            })
            .count();
        assert_eq!(count, passed);
        let missing = passed as u64 * u64::from(1000 + overhead);
        assert_eq!(limiter.sample(0).queues, [missing]);
        // 1 byte each microsecond.
        assert_eq!(limiter.sample(1_000_000).queues, [missing - 1000]);
    }
}

#[test]
fn colours_are_marked_or_dropped() {
    let bursts = SingleRateBursts {
        committed: 2000,
        excess: 3000,
    };
    let marking = Marking {
        green: Decision::Pass,
        yellow: Decision::Mark(12),
        red: Decision::Drop,
    };
    let config = SingleRateConfig::new("8kbit".parse().unwrap(), bursts, marking).unwrap();
    let mut limiter = limiter(config.into(), 0);
    let mut packets = Packets::default();
    let fates: Vec<_> = (0..6)
        .map(|_| {
            let id = packets.insert(Packet::new(0, true, 1000, Segment::default()));
            let passed = limiter.offer(0, id, &mut packets);
            passed.map(|id| packets.get(id).dscp)
        })
        .collect();
    let expected = [Some(0), Some(0), Some(12), Some(12), Some(12), None];
    assert_eq!(fates, expected);
    assert_eq!(limiter.sample(0).queues, [5000]);
}
