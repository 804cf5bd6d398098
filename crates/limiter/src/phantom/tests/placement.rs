//! Flows in the queues of a class.

use super::super::{BurstControl, PaperControl, PhantomQueuesConfig, SizedPhantomQueues};
use crate::{Classifier, Decision, HashKey, Headers, PolicyTree, Ports, Program, Rate};

/// Bytes accepted of each of `flows` flows from the third second on of ten seconds in which each sends at
/// this rate in Mbit/s, at 20 Mbit/s together.
fn accepted(draw: u8, flows: &[u64], control: BurstControl) -> Vec<f64> {
    let policy = PolicyTree::fair(16).unwrap();
    let rate = Rate::from_bits_per_second(20_000_000);
    let config = PhantomQueuesConfig::new(&policy, rate, 300_000).unwrap();
    let config = config.with_burst_control(control);
    let hash = HashKey::from_bytes([draw; 16]);
    let classifier = Classifier::new(&Program::new(&policy), Vec::new(), None, hash).unwrap();
    let mut limiter = SizedPhantomQueues::<16, 1>::new(&config, 0).unwrap();
    let mut next: Vec<u64> = (0..flows.len() as u64).collect();
    let mut accepted = vec![0.0; flows.len()];
    loop {
        let (flow, &now) = next.iter().enumerate().min_by_key(|&(_, now)| now).unwrap();
        if now >= 10_000_000_000 {
            return accepted;
        }
        next[flow] += 1500 * 8 * 1000 / flows[flow];
        let headers = Headers {
            source: "198.51.100.7".parse().unwrap(),
            destination: "192.0.2.1".parse().unwrap(),
            protocol: 17,
            ports: Some(Ports {
                source: 443,
                destination: 50_000 + flow as u16,
            }),
            dscp: 0,
        };
        let packet = classifier.classify(&headers.into(), 1500);
        if limiter.offer(now, &packet) == Decision::Pass && now >= 3_000_000_000 {
            accepted[flow] += 1500.0;
        }
    }
}

/// How many of 100 draws of the hash keep each of six busy flows within 10 % of its share.
fn fair_draws(control: BurstControl) -> usize {
    let is_fair = |&draw: &u8| {
        let got = accepted(draw, &[8, 10, 12, 14, 16, 20], control);
        let share = 20e6 / 8.0 * 7.0 / 6.0;
        got.iter().all(|&bytes| (bytes / share - 1.0).abs() <= 0.1)
    };
    (0..100).filter(is_fair).count()
}

#[test]
fn six_busy_flows_have_a_queue_each() {
    let placed = fair_draws(BurstControl::Bucket);
    assert!(placed >= 95, "{placed}");
    // By hash alone it is (15·14·13·12·11) / 16^5 = 34 of 100.
    let hashed = fair_draws(BurstControl::Paper(PaperControl::DEFAULT));
    assert!((20..50).contains(&hashed), "{hashed}");
}

/// The part of the rate that a sender gets from the tenth to the thirtieth second. It sends at `mbit` Mbit/s until a packet is
/// dropped, and goes on a second later. Beside it, 256 flows send three times the rate of 20 Mbit/s to this host, or
/// to its own.
fn beside_flood(draw: u8, policy: &PolicyTree, (flooded, mbit): (u8, u64)) -> f64 {
    let rate = Rate::from_bits_per_second(20_000_000);
    let config = PhantomQueuesConfig::new(policy, rate, 300_000).unwrap();
    let config = config.with_burst_control(BurstControl::Bucket);
    let hash = HashKey::from_bytes([draw; 16]);
    let classifier = Classifier::new(&Program::new(policy), Vec::new(), None, hash).unwrap();
    let mut limiter = SizedPhantomQueues::<16, 5>::new(&config, 0).unwrap();
    let mut offer = |now, host: u8, port| {
        let headers = Headers {
            source: "198.51.100.7".parse().unwrap(),
            destination: [192, 0, 2, host].into(),
            protocol: 17,
            ports: Some(Ports {
                source: 443,
                destination: port,
            }),
            dscp: 0,
        };
        let packet = classifier.classify(&headers.into(), 1500);
        limiter.offer(now, &packet) == Decision::Pass
    };
    let (mut next, mut bytes) = (5_000_000_000, 0);
    for number in 0..150_000 {
        let now = number * 200_000;
        while next <= now {
            let passes = offer(next, 1, 1);
            let counts = passes && next >= 10_000_000_000;
            bytes += if counts { 1500 } else { 0 };
            next += if passes {
                12_000_000 / mbit
            } else {
                1_000_000_000
            };
        }
        offer(now, flooded, 50_000 + (number % 256) as u16);
    }
    bytes as f64 * 8.0 / (20.0 * 20e6)
}

#[test]
fn a_flood_leaves_a_sender_that_waits_its_part() {
    let hosts = PolicyTree::hosts(4, 4).unwrap();
    for (policy, flood, least) in [
        (PolicyTree::fair(16).unwrap(), (1, 2), 0.05),
        (hosts.clone(), (1, 2), 0.05),
        (hosts, (2, 9), 0.4),
    ] {
        let part = |draw| beside_flood(draw, &policy, flood);
        let parts: Vec<f64> = (0..20).map(part).collect();
        let enough = parts.iter().filter(|&&part| part >= least).count();
        assert!(enough >= 19, "{policy:?}, {flood:?}: {parts:?}");
    }
}
