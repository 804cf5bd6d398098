use std::sync::Arc;

use proptest::prelude::*;

use crate::policy::{Kind, PolicyTree, Program};
use crate::shaper::Shaper;
use crate::shaper::tests::{Event, Packet, arrivals, config, meta, onto, policies, released, run};

mod fluid;

/// Bit/s at which a byte takes a microsecond.
const RATE: u64 = 8_000_000;
const LARGEST: u32 = 1500;

/// The order in which packets leave that all are there from the start, as queue numbers.
fn order(policy: PolicyTree, packets: &[(u16, u32)]) -> Vec<u16> {
    let mut shaper = Shaper::new(&config(&policy, RATE, 0), 0);
    let arrivals = packets.iter().map(|&(queue, bytes)| Packet {
        at: 0,
        queue,
        bytes,
    });
    let events = run(&mut shaper, &arrivals.collect::<Vec<_>>(), || 0);
    released(&events)
        .iter()
        .map(|packet| packet.queue)
        .collect()
}

fn each(queues: &[u16], count: usize, bytes: u32) -> Vec<(u16, u32)> {
    let packets = queues.iter().flat_map(|&queue| vec![(queue, bytes); count]);
    packets.collect()
}

#[test]
fn one_queue_is_first_in_first_out() {
    let mut shaper = Shaper::new(&config(&PolicyTree::queue(), RATE, u64::MAX), 0);
    for number in 0..10 {
        shaper.offer(0, &meta(0, 100), number).unwrap();
    }
    let all: Vec<_> = std::iter::from_fn(|| shaper.poll_release(0)).collect();
    assert_eq!(all, (0..10).collect::<Vec<_>>());
}

#[test]
fn weights_are_packets_a_turn() {
    let policy = PolicyTree::weighted(vec![
        (2, PolicyTree::queue()),
        (6, PolicyTree::queue()),
        (4, PolicyTree::queue()),
    ]);
    let order = order(policy.unwrap(), &each(&[0, 1, 2], 6, 1000));
    assert_eq!(
        order,
        [0, 1, 1, 1, 2, 2, 0, 1, 1, 1, 2, 2, 0, 2, 2, 0, 0, 0]
    );
}

/// Worked out by hand, with a quantum of 600 bytes, the largest packet. Queue 0: 600 leaves no
/// credit. Queue 1 has 600: 400, 200 left, 400 overdraws by 200. So in its second turn it has 400,
/// one packet; in its third 600 again.
#[test]
fn what_is_overdrawn_is_missing_in_the_next_turn() {
    let mut packets = each(&[0], 4, 600);
    packets.extend(each(&[1], 6, 400));
    let order = order(PolicyTree::fair(2).unwrap(), &packets);
    assert_eq!(order, [0, 1, 1, 0, 1, 0, 1, 1, 0, 1]);
}

#[test]
fn the_first_class_goes_first_at_every_moment() {
    let policy = PolicyTree::priority(vec![
        PolicyTree::queue(),
        PolicyTree::fair(2).unwrap(),
        PolicyTree::queue(),
    ]);
    let mut packets = each(&[3, 2, 1], 2, 500);
    packets.extend(each(&[0], 2, 500));
    assert_eq!(order(policy.unwrap(), &packets), [0, 0, 2, 1, 2, 1, 3, 3]);
}

/// More classes than bits in a word.
#[test]
fn hundreds_of_priorities_are_kept() {
    let policy = PolicyTree::priority(vec![PolicyTree::queue(); 500]).unwrap();
    let numbers: Vec<u16> = (0..500).map(|number| (number * 7) % 500).collect();
    let order = order(policy, &each(&numbers, 1, 100));
    assert_eq!(order, (0..500).collect::<Vec<_>>());
}

/// A class of its own with two queues gets the share of one, and a priority below a weight only
/// orders what is within its share.
#[test]
fn classes_share_within_their_own_share() {
    let policy = PolicyTree::weighted(vec![
        (1, PolicyTree::fair(2).unwrap()),
        (
            2,
            PolicyTree::priority(vec![PolicyTree::queue(), PolicyTree::queue()]).unwrap(),
        ),
    ]);
    let order = order(policy.unwrap(), &each(&[0, 1, 3, 2], 4, 1000));
    assert_eq!(order, [0, 2, 2, 1, 2, 2, 0, 3, 3, 1, 3, 3, 0, 1, 0, 1]);
}

/// A queue that empties with every packet, in the moment in which its credit is all but used up,
/// gets no more than its share: debts outlast an empty queue.
#[test]
fn emptying_at_the_right_time_gains_nothing() {
    let program = Arc::new(Program::new(&PolicyTree::fair(2).unwrap()));
    let mut shaper = Shaper::new(&config(program, RATE, 0), 0);
    let (mut now, mut bytes) = (0, [0u64; 2]);
    for _ in 0..50 {
        shaper.offer(0, &meta(0, 1500), (0, 1500)).unwrap();
    }
    for _ in 0..2000 {
        if shaper.backlog(0).packets < 10 {
            shaper.offer(now, &meta(0, 1500), (0, 1500)).unwrap();
        }
        if shaper.backlog(1).packets == 0 {
            shaper.offer(now, &meta(1, 1499), (1, 1499)).unwrap();
            shaper.offer(now, &meta(1, 1500), (1, 1500)).unwrap();
        }
        now = shaper.poll_timeout().unwrap().max(now);
        let (queue, size) = shaper.poll_release(now).unwrap();
        bytes[queue] += size;
    }
    let [honest, sly] = bytes;
    assert!(honest.abs_diff(sly) <= 2 * 1500 + 1500, "{honest} {sly}");
}

/// Packets above the MTU, as offloads make them, only make turns longer.
#[test]
fn super_packets_get_no_more_than_others() {
    let mut packets = each(&[0], 2000, 1500);
    packets.extend(each(&[1], 50, 65_000));
    let program = Arc::new(Program::new(&PolicyTree::fair(2).unwrap()));
    let mut shaper = Shaper::new(&config(program, RATE, u64::MAX), 0);
    for &(queue, bytes) in &packets {
        shaper
            .offer(0, &meta(queue, bytes), (queue, bytes))
            .unwrap();
    }
    let mut bytes = [0i64; 2];
    while shaper.backlog(0).packets > 0 && shaper.backlog(1).packets > 0 {
        let (queue, size) = shaper.poll_release(0).unwrap();
        bytes[usize::from(queue)] += i64::from(size);
        assert!((bytes[0] - bytes[1]).abs() <= 3 * 65_000, "{bytes:?}");
    }
}

/// The fairness measure of [Shreedhar95]: between any two children of a node, over any
/// interval in which both have packets all the time, in bytes per weight, at most a turn's worth
/// and a packet of each.
struct Measure<'a> {
    program: &'a Program,
    held: Vec<u32>,
    sent: Vec<u64>,
    /// Highest and lowest difference since both have packets, of pairs in order.
    range: Vec<Option<(f64, f64)>>,
}

impl<'a> Measure<'a> {
    fn new(program: &'a Program) -> Self {
        let nodes = program.nodes().len();
        Self {
            program,
            held: vec![0; nodes],
            sent: vec![0; nodes],
            range: vec![None; nodes * nodes],
        }
    }

    fn see(&mut self, event: Event) {
        let (Event::Accepted(packet) | Event::Released(packet)) = event else {
            return;
        };
        let mut number = self.program.leaf(packet.queue);
        loop {
            if matches!(event, Event::Accepted(_)) {
                self.held[number] += 1;
            } else {
                self.held[number] -= 1;
                self.sent[number] += u64::from(packet.bytes);
            }
            if number == 0 {
                break;
            }
            number = usize::from(self.program.nodes()[number].parent);
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let nodes = self.program.nodes();
        for node in nodes.iter().filter(|node| node.kind == Kind::Weighted) {
            let weight = |child: usize| f64::from(nodes[child].weight);
            let least = node.children().map(weight).fold(f64::INFINITY, f64::min);
            for a in node.children() {
                for b in a + 1..node.children().end {
                    let range = &mut self.range[a * nodes.len() + b];
                    if self.held[a] == 0 || self.held[b] == 0 {
                        *range = None;
                        continue;
                    }
                    let ahead = self.sent[a] as f64 / weight(a) - self.sent[b] as f64 / weight(b);
                    let (low, high) = range.unwrap_or((ahead, ahead));
                    let (low, high) = (low.min(ahead), high.max(ahead));
                    *range = Some((low, high));
                    let turns = 1.0 / least + 1.0 / weight(a) + 1.0 / weight(b);
                    let bound = f64::from(LARGEST) * turns + 1e-3;
                    prop_assert!(high - low <= bound, "{} of {}", high - low, bound);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_fairness_measure_of_every_pair_is_bounded(
        policy in policies(),
        arrivals in arrivals(),
    ) {
        let program = Arc::new(Program::new(&policy));
        let mut arrivals = onto(&program, arrivals);
        // Quanta grow with the largest packet, so that comes first.
        arrivals[0].bytes = LARGEST;
        let mut shaper = Shaper::new(&config(program.clone(), RATE, 0), 0);
        let mut measure = Measure::new(&program);
        for event in run(&mut shaper, &arrivals, || 0) {
            measure.see(event);
            measure.check()?;
        }
    }

    /// Of two classes, the later one never sends while the earlier one has packets, unless it is
    /// another's turn above both.
    #[test]
    fn priority_is_strict_at_every_node(policy in policies(), arrivals in arrivals()) {
        let program = Arc::new(Program::new(&policy));
        let mut shaper = Shaper::new(&config(program.clone(), RATE, 3000), 0);
        let mut measure = Measure::new(&program);
        for event in run(&mut shaper, &onto(&program, arrivals), || 0) {
            if let Event::Released(packet) = event {
                let mut number = program.leaf(packet.queue);
                while number != 0 {
                    let parent = program.nodes()[usize::from(program.nodes()[number].parent)];
                    if parent.kind == Kind::Priority {
                        let earlier = parent.children().start..number;
                        prop_assert!(earlier.clone().all(|other| measure.held[other] == 0));
                    }
                    number = usize::from(program.nodes()[number].parent);
                }
            }
            measure.see(event);
        }
    }
}
