use super::*;
use crate::{PhantomQueuesConfig, PolicerConfig, PolicyTree, Rate, ShaperConfig};

const RATE: Rate = Rate::from_bits_per_second(8_000_000);

fn meta(queue: u16) -> PacketMeta {
    PacketMeta {
        bytes: 1000,
        queue,
        ..PacketMeta::default()
    }
}

#[test]
fn a_shaper_keeps_packets_and_others_answer_at_once() {
    let config = ShaperConfig::new(&PolicyTree::queue(), RATE).unwrap();
    let config = LimiterConfig::Shaper(config.with_queue_packets(1).unwrap());
    let mut shaper = Limiter::new(&config, 0);
    assert_eq!(shaper.offer(0, &meta(0), 'a'), Fate::Wait);
    assert_eq!(shaper.offer(0, &meta(0), 'b'), Fate::Drop('b'));
    assert_eq!(shaper.occupancy(0).queues, [1000]);
    assert_eq!(shaper.poll_release(0), Some('a'));
    assert_eq!(shaper.poll_timeout(), None);
    let mut none = Limiter::new(&LimiterConfig::Unlimited, 0);
    assert_eq!(none.offer(0, &meta(0), 'c'), Fate::Pass('c'));
    assert_eq!(none.poll_release(0), None);
}

#[test]
fn occupancy_is_what_is_missing_or_held() {
    let config = PolicerConfig::new(RATE, 3000).unwrap();
    let mut policer = Limiter::new(&LimiterConfig::Policer(config), 0);
    policer.offer(0, &meta(0), ());
    assert_eq!(policer.occupancy(0).queues, [1000]);
    assert_eq!(policer.occupancy(500_000).queues, [500]);
    // Of every size that the type has.
    for (queues, shares) in [(16, 1), (60, 1), (1000, 1), (8, 8)] {
        let fair = PolicyTree::fair(queues).unwrap();
        let policy = match shares {
            1 => fair,
            parts => PolicyTree::priority(vec![fair; parts]).unwrap(),
        };
        let config = PhantomQueuesConfig::new(&policy, RATE, 10_000).unwrap();
        let last = config.program().queues() as u16 - 1;
        let mut phantom = Limiter::new(&LimiterConfig::PhantomQueues(config), 0);
        assert_eq!(phantom.offer(0, &meta(last), 'a'), Fate::Pass('a'));
        let occupancy = phantom.occupancy(0);
        assert_eq!(occupancy.queues.len(), usize::from(last) + 1);
        assert_eq!(occupancy.queues[usize::from(last)], 1000);
        assert_eq!(occupancy.magic, vec![0; usize::from(last) + 1]);
    }
}
