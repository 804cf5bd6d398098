//! Tests that nodes of the network leave the same shares to limiters in the kernel as in the limiter crate.

use std::os::fd::AsRawFd;

use tidegate_limiter::{Hierarchy, NetworkNode, Share};

use super::*;

impl Reference {
    fn set_share(&mut self, share: Share) {
        match self {
            Self::Queues(queues) => queues.set_share(share),
            Self::Bucket(bucket) => bucket.set_share(share),
        }
    }

    /// What it tells the nodes above it after a packet, of which they counted these bytes.
    fn used(&mut self, counted: u64) -> Option<Share> {
        match self {
            Self::Queues(queues) if queues.knows_used() => queues.take_used(),
            _ => (counted > 0).then_some(Share::WHOLE),
        }
    }
}

/// A subscriber below a node.
struct Below {
    plan: Draft,
    classifier: Classifier,
    node: usize,
    seat: Seat,
    reference: Option<Reference>,
    changed: bool,
    /// Bytes that passed, from any number on.
    passed: u64,
}

/// Subscribers, the nodes above them, and a gate that has the same.
struct Network<'a> {
    gate: &'a mut Gate,
    hierarchy: Hierarchy,
    subscribers: Vec<Below>,
    program: std::os::fd::OwnedFd,
    /// The next number of a plan.
    next: u32,
    /// Packets, and those that were dropped, and the least share that was left to one.
    sent: (u64, u64, Share),
}

/// In the gate, the first node has this number.
const FIRST: usize = 2;

impl<'a> Network<'a> {
    fn new(gate: &'a mut Gate, nodes: &[NetworkNode], plans: Vec<(Draft, usize)>) -> Self {
        for (index, node) in nodes.iter().enumerate() {
            let above = node.above.map(|above| above + FIRST);
            let node = NetworkNode { above, ..*node };
            let number = (index + FIRST) as u32;
            gate.kernel().put_node(number, &node, true).unwrap();
        }
        let subscriber = |(limiter, (plan, node)): (usize, (Draft, usize))| Below {
            classifier: Pair::classifier(&plan),
            plan,
            node,
            seat: Seat {
                limiter: limiter as u32,
                ..Seat::default()
            },
            reference: None,
            changed: false,
            passed: limiter as u64 * 0x9e37_79b1,
        };
        let mut network = Self {
            program: gate.program("xdp_down"),
            gate,
            hierarchy: Hierarchy::new(nodes).unwrap(),
            subscribers: plans.into_iter().enumerate().map(subscriber).collect(),
            next: 0,
            sent: (0, 0, Share::WHOLE),
        };
        for number in 0..network.subscribers.len() {
            network.gate.kernel().forget(number as u32).unwrap();
            network.sit(number);
        }
        network
    }

    /// Puts a subscriber under its plan and node, under another number.
    fn sit(&mut self, number: usize) {
        let one = &mut self.subscribers[number];
        self.next = (self.next + 1) % 1000;
        one.seat.plan = self.next;
        one.seat.version += 1;
        one.changed = true;
        let plan = one.plan.plan().below((one.node + FIRST) as u32);
        let kernel = self.gate.kernel();
        kernel.put_plan(one.seat.plan, &plan).unwrap();
        let address = std::net::IpAddr::from([192, 0, 2, number as u8]);
        let matched = Match::Prefix(address.to_string().parse().unwrap());
        kernel
            .seat(Direction::Down, &[(matched, one.seat)])
            .unwrap();
    }

    /// Offers a packet to both. Returns whether they decide the same.
    fn offer(&mut self, now: Nanos, number: usize, flow: u16, bytes: u16) -> bool {
        let one = &mut self.subscribers[number];
        let share = self.hierarchy.share(one.node, now);
        let new = || Reference::new(&one.plan, now);
        let reference = one.reference.get_or_insert_with(new);
        reference.set_share(share);
        if std::mem::take(&mut one.changed) {
            reference.set(&one.plan, now);
        }
        let headers = Headers {
            source: "198.51.100.1".parse().unwrap(),
            destination: [192, 0, 2, number as u8].into(),
            protocol: 17,
            ports: Some(Ports {
                source: flow,
                destination: 443,
            }),
            dscp: 0,
        };
        let packet = one.classifier.classify(&headers.into(), u32::from(bytes));
        let expected = reference.offer(now, &packet);
        let mut counted = 0;
        if expected == Decision::Pass {
            let before = one.passed;
            one.passed += u64::from(bytes);
            counted = Hierarchy::counted(before, one.passed, Hierarchy::grain(one.plan.rate));
            self.hierarchy.count(one.node, counted);
        }
        if let Some(used) = reference.used(counted) {
            self.hierarchy.tell(one.node, used);
        }
        let frame = frame([192, 0, 2, number as u8], flow, bytes);
        let kernel = self.gate.kernel();
        kernel
            .update("test_time", &0u32.to_ne_bytes(), &now.to_ne_bytes())
            .unwrap();
        let (verdict, _) = sys::test_run(self.program.as_raw_fd(), &frame, 1).unwrap();
        self.sent.0 += 1;
        self.sent.1 += u64::from(verdict == 1);
        self.sent.2 = self.sent.2.min(share);
        (verdict == 1) == (expected == Decision::Drop)
    }
}

/// Nodes below one another, whose capacities are below the sum of the rates, most of them.
fn draw_nodes(random: &mut Pcg64, rate: u64) -> Vec<NetworkNode> {
    let count = random.random_range(1..=6);
    let node = |index: usize| NetworkNode {
        capacity: Rate::from_bits_per_second((rate / random.random_range(1..20)).max(8_000)),
        above: (index > 0).then(|| random.random_range(0..index)),
    };
    (0..count).map(node).collect()
}

#[test]
fn nodes_leave_the_same_shares_as_the_reference() {
    let Some(mut gate) = gate("nodes_leave_the_same_shares_as_the_reference") else {
        return;
    };
    let (mut sent, mut dropped, mut full) = (0, 0, 0);
    for seed in 800..840 {
        let mut random = Pcg64::seed_from_u64(seed);
        // Slow enough for many looks.
        let rate = random.random_range(500_000..20_000_000);
        let nodes = draw_nodes(&mut random, rate);
        let plans = (0..random.random_range(1..=5)).map(|number| {
            let rate = Rate::from_bits_per_second(rate / random.random_range(1..=4));
            let policy = match seed % 2 {
                0 => PolicyTree::fair(16).unwrap(),
                _ => draw_policy(&mut random),
            };
            let size = draw_size(&mut random, rate).min(1 << 30);
            let means = match number {
                4 => Means::Policer { burst: size },
                _ => Means::PhantomQueues {
                    size,
                    control: draw_control(&mut random),
                },
            };
            let mut plan = Draft {
                rate,
                boost: draw_boost(&mut random, rate),
                ..draft(means, &policy)
            };
            plan.rules = match means {
                Means::PhantomQueues { .. } => spread(&plan.program),
                _ => Vec::new(),
            };
            (plan, random.random_range(0..nodes.len()))
        });
        let plans: Vec<_> = plans.collect();
        let mut network = Network::new(&mut gate, &nodes, plans);
        let count = network.subscribers.len();
        let mut sequence = Sequence::new(&mut random, seed, rate * 4);
        for packet in 0..3_000 {
            if seed % 4 > 1 && random.random_ratio(1, 300) {
                let number = random.random_range(0..count);
                let one = &mut network.subscribers[number];
                one.node = random.random_range(0..nodes.len());
                one.plan.rate = Rate::from_bits_per_second(rate / random.random_range(1..=4));
                network.sit(number);
            }
            let (now, flow, bytes) = sequence.next();
            let number = random.random_range(0..count);
            assert!(
                network.offer(now, number, flow, bytes),
                "seed {seed}, packet {packet}: {:?} at {now}, flow {flow}, {bytes} bytes",
                network.subscribers[number].plan,
            );
        }
        sent += network.sent.0;
        dropped += network.sent.1;
        full += u64::from(network.sent.2 < Share::WHOLE);
    }
    assert!(
        dropped * 20 > sent && dropped * 20 < sent * 19,
        "{dropped} of {sent}"
    );
    assert!(full > 20, "{full} of 40 networks had a full node");
}
