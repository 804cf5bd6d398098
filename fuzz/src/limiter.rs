//! Limiters, with any policy and any packets.

use std::sync::Arc;

use tidegate_limiter::{
    BurstControl, Decision, PacketMeta, PhantomQueuesConfig, PolicyTree, SizedPhantomQueues,
};

/// Phantom queues: a policy, a rate and a size, then packets. No queue holds more than its size,
/// and all together what they were given less the rate, to the byte.
pub fn phantom(data: &[u8]) {
    let Some((head, mut rest)) = data.split_first_chunk::<12>() else {
        return;
    };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let mut shape = word(0);
    let mut policy = PolicyTree::queue();
    while shape > 0 {
        let weight = shape >> 3 & 15;
        let part = PolicyTree::fair((shape >> 7 & 3) as u16 + 1).expect("few queues");
        let next = match shape & 3 {
            0 => PolicyTree::priority(vec![part, policy]),
            1 => PolicyTree::priority(vec![policy, part]),
            _ => PolicyTree::weighted(vec![(weight + 1, part), (1, policy)]),
        };
        let Ok(next) = next else {
            return;
        };
        policy = next;
        shape >>= 9;
    }
    let control = (head[11] & 1 == 1).then(BurstControl::default);
    let rate = tidegate_limiter::Rate::from_bits_per_second(u64::from(word(4)) << (head[10] & 7));
    let size = u64::from(word(8) & 0xffff) + 1;
    let Ok(mut config) = PhantomQueuesConfig::new(&policy, rate, size) else {
        return;
    };
    if let Some(control) = control {
        config = config.with_burst_control(control);
    }
    let program = Arc::clone(config.program());
    let Ok(mut limiter) = SizedPhantomQueues::<32, 8>::new(&config, 0) else {
        return;
    };
    let mut now = 0u64;
    while let Some((packet, more)) = rest.split_first_chunk::<6>() {
        rest = more;
        // From nothing to years, in steps that the input's few bits reach.
        now = now.saturating_add(u64::from(packet[0]) << (packet[1] & 63));
        let meta = PacketMeta {
            bytes: u32::from(u16::from_le_bytes([packet[2], packet[3]])),
            queue: u16::from(packet[4]) % program.queues() as u16,
            ..PacketMeta::default()
        };
        let before = limiter.backlog();
        let decision = limiter.offer(now, &meta);
        if control.is_none() {
            let added = if decision == Decision::Pass {
                meta.bytes
            } else {
                0
            };
            assert!(limiter.backlog() <= before + u64::from(added));
        }
        let held: u64 = limiter
            .occupancy(now)
            .map(|fill| {
                assert!(fill.magic <= fill.bytes && fill.bytes <= size);
                fill.bytes
            })
            .sum();
        assert!(limiter.backlog() <= held);
    }
}
