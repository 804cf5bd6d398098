//! Subscribers below nodes of a network, with real senders: they share a full node by their rates, and hold its capacity.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use tidegate_lab::plan::{CustomLimiter, ElementKind, Plan};
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_limiter::{
    Class, Decision, Hierarchy, LimiterConfig, Nanos, NetworkNode, PacketMeta, PhantomQueues,
    PhantomQueuesConfig, Police, Rate,
};

/// A subscriber's limiter below a node.
#[derive(Debug)]
struct Below {
    network: Arc<Mutex<Hierarchy>>,
    node: usize,
    limiter: PhantomQueues,
    grain: u32,
    passed: u64,
}

impl Below {
    fn new(config: &PhantomQueuesConfig, network: &Arc<Mutex<Hierarchy>>, node: usize) -> Self {
        Self {
            network: Arc::clone(network),
            node,
            limiter: PhantomQueues::new(config, 0),
            grain: Hierarchy::grain(config.rate()),
            passed: config.rate().bits_per_second(),
        }
    }
}

impl Police for Below {
    fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let mut network = self.network.lock().unwrap();
        self.limiter.set_share(network.share(self.node, now));
        let class = Class {
            first: 0,
            queues: 16,
            hosts: 0,
        };
        let queue = ((u64::from(packet.flow) * 16) >> 32) as u16;
        let decision = self.limiter.offer(
            now,
            &PacketMeta {
                queue,
                class,
                ..*packet
            },
        );
        if decision != Decision::Drop {
            let before = self.passed;
            self.passed += u64::from(packet.bytes);
            let counted = Hierarchy::counted(before, self.passed, self.grain);
            network.count(self.node, counted);
        }
        decision
    }
}

/// Subscribers with their plans in Mbit/s, and their nodes.
fn plan(subscribers: &[(u64, usize)], nodes: &[(u64, Option<usize>)], flows: &str) -> Plan {
    let mut text = String::from(
        "duration = \"40s\"\nwindow = \"100ms\"\n\
         [[element]]\nname = \"backbone\"\nkind = \"link\"\nrate = \"2gbit\"\nqueue = \"10MB\"\nshared = true\n",
    );
    for (number, (rate, _)) in subscribers.iter().enumerate() {
        text += &format!(
            "[[aggregate]]\nname = \"s{number}\"\n\
             [[element]]\nname = \"gate{number}\"\nkind = \"bc-pqp\"\nrate = \"{rate}mbit\"\n"
        );
    }
    text += flows;
    let scenario = Scenario::parse(text.as_str()).unwrap();
    let run = Run {
        point: 0,
        seed: 1,
        taps: false,
    };
    let mut groups = scenario.groups(run).unwrap();
    assert_eq!(groups.len(), 1);
    let mut plan = groups.remove(0).plan;
    let nodes = nodes.iter().map(|&(capacity, above)| NetworkNode {
        capacity: Rate::from_bits_per_second(capacity * 1_000_000),
        above,
    });
    let network = Hierarchy::new(&nodes.collect::<Vec<_>>()).unwrap();
    let network = Arc::new(Mutex::new(network));
    for element in &mut plan.elements {
        let ElementKind::Limiter {
            config: LimiterConfig::PhantomQueues(config),
            ..
        } = &element.kind
        else {
            continue;
        };
        let number = element
            .name
            .trim_start_matches(|c: char| !c.is_ascii_digit());
        let number: usize = number
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let (config, network, node) = (config.clone(), Arc::clone(&network), subscribers[number].1);
        element.kind = ElementKind::Custom {
            limiter: CustomLimiter::new("below", move || {
                Box::new(Below::new(&config, &network, node))
            }),
            overhead: 0,
        };
    }
    plan
}

/// The flows of a subscriber.
fn flows(number: usize, count: usize, keys: &str) -> String {
    format!(
        "[[flow]]\nname = \"f{number}\"\ncount = {count}\naggregate = \"s{number}\"\nrtt = \"10ms..60ms\"\n\
         path = [\"backbone\", \"gate{number}\"]\n{keys}\n"
    )
}

/// The rates of the subscribers in Mbit/s, from one time to another, in seconds; and the largest rate of all together
/// in 100 ms.
fn rates(plan: &Plan, spans: &[(usize, usize)]) -> Vec<(Vec<f64>, f64)> {
    let outcome = tidegate_lab::run(plan, &mut |_| true).unwrap();
    let mut aggregates: Vec<_> = outcome.aggregates.iter().collect();
    aggregates.sort_by_key(|aggregate| aggregate.name.clone());
    let spans = spans.iter().map(|&(from, to)| {
        let rate = |windows: &[u64]| windows.iter().sum::<u64>() as f64 * 8e-6 / (to - from) as f64;
        let each = aggregates
            .iter()
            .map(|one| rate(&one.windows[10 * from..10 * to]))
            .collect();
        let all = |window: usize| {
            aggregates
                .iter()
                .map(|one| one.windows[window])
                .sum::<u64>()
        };
        let most = (10 * from..10 * to).map(all).max().unwrap_or(0);
        (each, most as f64 * 8e-5)
    });
    let spans = spans.collect();
    println!("{spans:.2?}");
    spans
}

/// Checks rates and their sum, each with a part by which they may differ.
fn holds(found: &[f64], wanted: &[f64], each: f64, all: f64) {
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(
            (found / wanted - 1.0).abs() < each,
            "{found:.2} of {wanted:.2}"
        );
    }
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    let (found, wanted) = (sum(found), sum(wanted));
    assert!(
        (found / wanted - 1.0).abs() < all,
        "{found:.2} of {wanted:.2}"
    );
}

#[test]
fn subscribers_of_a_full_site_share_by_their_plans() {
    let subscribers = [(10, 0), (20, 0), (40, 0)];
    let all = [
        flows(0, 4, "cc = \"cubic\""),
        flows(1, 4, "cc = [\"reno\", \"cubic\"]"),
        flows(2, 4, "cc = [\"cubic\", \"bbr\"]"),
    ];
    let plan = plan(&subscribers, &[(35, None)], &all.concat());
    let found = rates(&plan, &[(5, 40)]).remove(0);
    holds(&found.0, &[5.0, 10.0, 20.0], 0.05, 0.04);
}

#[test]
fn what_some_leave_goes_to_the_others_at_two_levels() {
    // Two access points below a site. The first subscriber of each sends all the time.
    let nodes = [(60, None), (30, Some(0)), (50, Some(0))];
    let subscribers = [(20, 1), (20, 1), (40, 2), (40, 2)];
    let late = "start = \"15s\"\ntraffic = { kind = \"udp\", rate = \"50mbit\", stop = \"30s\" }";
    let all = [
        flows(0, 4, ""),
        flows(1, 1, late),
        flows(2, 4, ""),
        flows(3, 1, late),
    ];
    let plan = plan(&subscribers, &nodes, &all.concat());
    let found = rates(&plan, &[(4, 15), (18, 30), (33, 40)]);
    // 20 and 40 alone fill the site just. Together: a third of the site's 60 to the first access point, by plans.
    holds(&found[0].0[..1], &[20.0], 0.06, 0.06);
    holds(&found[0].0[2..3], &[40.0], 0.06, 0.06);
    holds(&found[1].0, &[10.0, 10.0, 20.0, 20.0], 0.08, 0.05);
    holds(&found[2].0[..1], &[20.0], 0.08, 0.08);
    holds(&found[2].0[2..3], &[40.0], 0.08, 0.08);
}
