//! The shares of subscribers beside those of a fluid that is shared by weighted max-min fairness.

use super::*;
use crate::{BurstControl, Decision, PacketMeta, PhantomQueues, PhantomQueuesConfig, PolicyTree};

const PACKET: u64 = 1500;
const MEGABIT: u64 = 1_000_000;
const MILLISECOND: Nanos = 1_000_000;

/// A subscriber that sends packets at a constant rate.
struct Sender {
    rate: u64,
    node: usize,
    demand: u64,
    limiter: PhantomQueues,
    next: Nanos,
    /// As far as the node knows; it began with any number.
    counter: u64,
    passed: u64,
}

struct Network {
    nodes: Vec<NetworkNode>,
    hierarchy: Hierarchy,
    senders: Vec<Sender>,
    now: Nanos,
}

impl Network {
    /// Capacities in Mbit/s with the nodes above, and subscribers: their plan's rate in Mbit/s and their node.
    fn new(nodes: &[(u64, Option<usize>)], subscribers: &[(u64, usize)]) -> Self {
        let mbit = |rate| Rate::from_bits_per_second(rate * MEGABIT);
        let nodes = nodes.iter().map(|&(capacity, above)| NetworkNode {
            capacity: mbit(capacity),
            above,
        });
        let nodes: Vec<_> = nodes.collect();
        let policy = PolicyTree::fair(16).unwrap();
        let sender = |(index, &(rate, node)): (usize, &(u64, usize))| {
            let config = PhantomQueuesConfig::new(&policy, mbit(rate), rate * 50_000).unwrap();
            let config = config.with_burst_control(BurstControl::Bucket);
            Sender {
                rate: rate * MEGABIT,
                node,
                demand: 0,
                limiter: PhantomQueues::new(&config, 0),
                next: index as u64 * 1000,
                counter: index as u64 * 2_654_435_761,
                passed: 0,
            }
        };
        Self {
            hierarchy: Hierarchy::new(&nodes).unwrap(),
            nodes,
            senders: subscribers.iter().enumerate().map(sender).collect(),
            now: 0,
        }
    }

    /// What subscribers send from now on, in Mbit/s.
    fn demand(&mut self, demands: &[u64]) {
        for (sender, demand) in self.senders.iter_mut().zip(demands) {
            sender.demand = demand * MEGABIT;
            sender.next = sender.next.max(self.now);
        }
    }

    /// Sends for a time. Returns the rates at which packets passed, in Mbit/s.
    fn run(&mut self, time: Nanos) -> Vec<f64> {
        let end = self.now + time;
        let sending = |sender: &&mut Sender| sender.demand > 0;
        while let Some(sender) = (self.senders.iter_mut())
            .filter(sending)
            .min_by_key(|sender| sender.next)
            .filter(|sender| sender.next < end)
        {
            let now = sender.next;
            sender.next += PACKET * 8_000_000_000 / sender.demand;
            sender
                .limiter
                .set_share(self.hierarchy.share(sender.node, now));
            let packet = PacketMeta {
                bytes: PACKET as u32,
                ..PacketMeta::default()
            };
            let decision = sender.limiter.offer(now, &packet);
            if let Some(used) = sender.limiter.take_used() {
                self.hierarchy.tell(sender.node, used);
            }
            if decision == Decision::Pass {
                let before = sender.counter;
                sender.counter += PACKET;
                sender.passed += PACKET;
                let grain = Hierarchy::grain(Rate::from_bits_per_second(sender.rate));
                let counted = Hierarchy::counted(before, sender.counter, grain);
                self.hierarchy.count(sender.node, counted);
            }
        }
        self.now = end;
        let rate =
            |sender: &mut Sender| std::mem::take(&mut sender.passed) as f64 * 8e3 / time as f64;
        self.senders.iter_mut().map(rate).collect()
    }

    /// The rates of a fluid, in Mbit/s: all subscribers' parts of their rates rise together, until each meets its
    /// demand or a full node.
    fn fluid(&self) -> Vec<f64> {
        let above = |node: usize| std::iter::successors(Some(node), |&node| self.nodes[node].above);
        let mut rates: Vec<Option<f64>> = vec![None; self.senders.len()];
        let most = |sender: &Sender| (sender.demand as f64).min(sender.rate as f64);
        let mut level: f64 = 0.0;
        while rates.contains(&None) {
            // The level at which the next subscriber stops, and why.
            let mut next = f64::INFINITY;
            for (sender, rate) in self.senders.iter().zip(&rates) {
                if rate.is_none() {
                    next = next.min(most(sender) / sender.rate as f64);
                }
            }
            let mut full = Vec::new();
            for (number, node) in self.nodes.iter().enumerate() {
                let (mut taken, mut weight) = (0.0, 0.0);
                for (sender, rate) in self.senders.iter().zip(&rates) {
                    if above(sender.node).any(|node| node == number) {
                        taken += rate.unwrap_or(0.0);
                        weight += if rate.is_none() {
                            sender.rate as f64
                        } else {
                            0.0
                        };
                    }
                }
                let level = (node.capacity.bits_per_second() as f64 - taken) / weight;
                if weight > 0.0 && level <= next {
                    if level < next {
                        full.clear();
                    }
                    next = level;
                    full.push(number);
                }
            }
            level = level.max(next);
            for (sender, rate) in self.senders.iter().zip(&mut rates) {
                let stops = most(sender) <= level * sender.rate as f64 * (1.0 + 1e-9)
                    || above(sender.node).any(|node| full.contains(&node));
                if rate.is_none() && stops {
                    *rate = Some((level * sender.rate as f64).min(most(sender)));
                }
            }
        }
        rates
            .into_iter()
            .map(|rate| rate.unwrap_or(0.0) / 1e6)
            .collect()
    }

    /// Runs for a while, and then compares the rates of a second with those of the fluid.
    fn settles(&mut self, within: Nanos, error: f64) {
        self.run(within);
        let (found, wanted) = (self.run(1000 * MILLISECOND), self.fluid());
        for (number, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let off = (found - wanted).abs();
            assert!(
                off <= error * wanted + 0.02,
                "subscriber {number}: {found:.2} and not {wanted:.2} Mbit/s"
            );
        }
    }
}

#[test]
fn a_share_is_exact_and_never_too_much() {
    for number in [0, 1, 12_345, (1 << 43) - 1, 1 << 49, u64::MAX] {
        assert_eq!(Share::WHOLE.of(number), number);
        for share in [1, 77, 1 << 19, (1 << 20) - 1] {
            let wanted = (u128::from(number) * u128::from(share)) >> 20;
            assert_eq!(u128::from(Share(share).of(number)), wanted);
        }
    }
    assert_eq!(
        Share(1)
            .rate(Rate::from_bits_per_second(8_000))
            .bits_per_second(),
        1
    );
}

#[test]
fn what_limiters_count_adds_up() {
    for grain in 0..=14 {
        let (mut passed, mut counted) = (0, 0);
        for bytes in [40, 1500, 65_535, 9000, 1] {
            counted += Hierarchy::counted(passed, passed + bytes, grain);
            passed += bytes;
            assert!(counted <= passed && passed - counted < 1 << grain);
        }
    }
}

#[test]
fn nodes_without_a_way_up_are_refused() {
    let capacity = Rate::from_bits_per_second(MEGABIT);
    let node = |above| NetworkNode { capacity, above };
    let refused = |nodes: &[NetworkNode]| Hierarchy::new(nodes).is_err();
    assert!(refused(&[node(Some(0))]));
    assert!(refused(&[node(Some(1)), node(Some(0))]));
    assert!(refused(&[node(Some(7))]));
    let chain = |length| (0..length).map(|index: usize| node(index.checked_sub(1)));
    assert!(!refused(&chain(Hierarchy::LEVELS).collect::<Vec<_>>()));
    assert!(refused(&chain(Hierarchy::LEVELS + 1).collect::<Vec<_>>()));
    assert!(refused(&[NetworkNode {
        capacity: Rate::from_bits_per_second(1),
        above: None
    }]));
}

#[test]
fn subscribers_of_a_full_node_share_by_their_rates() {
    let mut network = Network::new(&[(30, None)], &[(10, 0), (20, 0), (40, 0)]);
    network.demand(&[20, 40, 80]);
    network.settles(3000 * MILLISECOND, 0.03);
}

#[test]
fn the_rest_of_a_subscriber_goes_to_the_others() {
    let mut network = Network::new(&[(30, None)], &[(20, 0), (20, 0), (20, 0)]);
    network.demand(&[40, 3, 40]);
    network.settles(3000 * MILLISECOND, 0.03);
    // One leaves, one comes back.
    network.demand(&[0, 40, 40]);
    network.settles(3000 * MILLISECOND, 0.03);
    network.demand(&[40, 40, 40]);
    network.settles(3000 * MILLISECOND, 0.03);
}

#[test]
fn a_node_that_is_not_full_limits_nobody() {
    let mut network = Network::new(&[(100, None)], &[(20, 0), (20, 0)]);
    network.demand(&[40, 15]);
    network.settles(500 * MILLISECOND, 0.01);
    assert_eq!(network.hierarchy.share(0, network.now), Share::WHOLE);
}

#[test]
fn nodes_at_every_depth_hold_their_capacity() {
    // A backhaul, two sites, three access points, and one below another.
    let nodes = [
        (60, None),
        (50, Some(0)),
        (30, Some(0)),
        (12, Some(1)),
        (100, Some(1)),
        (20, Some(2)),
        (5, Some(3)),
    ];
    let subscribers = [
        (10, 3),
        (20, 3),
        (10, 6),
        (50, 4),
        (100, 4),
        (20, 5),
        (40, 5),
        (20, 2),
        (10, 0),
    ];
    let mut network = Network::new(&nodes, &subscribers);
    network.demand(&[200; 9]);
    network.settles(3000 * MILLISECOND, 0.05);
    network.demand(&[2, 30, 1, 100, 0, 200, 10, 5, 3]);
    network.settles(3000 * MILLISECOND, 0.05);
}

#[test]
fn a_full_node_is_found_in_half_a_second_and_holds_its_capacity() {
    // Eight times the capacity, and one and a half times.
    for (demand, found) in [(100, 8), (19, 10)] {
        let mut network = Network::new(&[(100, None)], &[(50, 0); 8]);
        network.demand(&[demand; 8]);
        let windows: Vec<f64> = (0..120)
            .map(|_| network.run(50 * MILLISECOND).iter().sum())
            .collect();
        // At first each subscriber has its rate, and the burst that it has without nodes too.
        assert!(windows[0] > 130.0, "{windows:.1?}");
        assert!(
            windows[found..].iter().all(|rate| *rate < 106.0),
            "{windows:.1?}"
        );
        // The excess is made up for, and then the node is full.
        let sum: f64 = windows[found..60].iter().sum::<f64>() / (60 - found) as f64;
        assert!(sum < 97.0, "{sum:.1}, {windows:.1?}");
        let sum: f64 = windows[60..].iter().sum::<f64>() / 60.0;
        assert!((97.0..101.0).contains(&sum), "{sum:.1}, {windows:.1?}");
    }
}

#[test]
fn a_share_comes_back_when_subscribers_leave() {
    let mut network = Network::new(&[(100, None)], &[(100, 0); 20]);
    network.demand(&[200; 20]);
    network.settles(4000 * MILLISECOND, 0.05);
    let mut alone = [0; 20];
    alone[7] = 200;
    network.demand(&alone);
    // From a twentieth to all.
    network.settles(2000 * MILLISECOND, 0.02);
}

#[test]
fn after_a_pause_a_node_forgets_its_debt() {
    let mut network = Network::new(&[(10, None)], &[(100, 0)]);
    network.demand(&[200]);
    network.run(200 * MILLISECOND);
    network.demand(&[0]);
    network.run(3600 * SECOND);
    network.demand(&[9]);
    let rates = network.run(1000 * MILLISECOND);
    assert!(rates[0] > 8.5, "{rates:.2?}");
}

/// Subscribers that use a small part of their plans, and a little more than the capacity together.
#[test]
fn a_mild_overload_ends_though_shares_have_far_to_fall() {
    for (demand, subscribers) in [(3, 40), (6, 20), (12, 10), (20, 10), (19, 8)] {
        let mut network = Network::new(&[(100, None)], &vec![(100, 0); subscribers]);
        network.demand(&vec![demand; subscribers]);
        let windows: Vec<f64> = (0..120)
            .map(|_| network.run(50 * MILLISECOND).iter().sum())
            .collect();
        let late = windows[10..].iter().any(|rate| *rate > 106.0);
        assert!(!late, "{demand} of 100: {windows:.1?}");
        let mean = windows[60..].iter().sum::<f64>() / 60.0;
        assert!((98.0..101.0).contains(&mean), "{mean:.1}, {windows:.1?}");
    }
}

/// One that does not say what it uses may use all, so the share falls step by step.
#[test]
fn limiters_that_cannot_say_what_they_use_are_not_cut() {
    let mut network = Network::new(&[(100, None)], &[(100, 0), (100, 0)]);
    network.demand(&[2, 0]);
    network.run(300 * MILLISECOND);
    let mut hierarchy = network.hierarchy.clone();
    for look in 6..10 {
        hierarchy.tell(0, Share::WHOLE);
        hierarchy.count(0, 100_000_000 / 8 / 20 * 5 / 4);
        hierarchy.share(0, (look + 1) * LOOK + 1);
    }
    assert!(hierarchy.nodes[0].share.ratio() > 0.5, "{hierarchy:?}");
}
