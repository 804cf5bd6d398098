//! Subscribers below nodes of a network, with real senders: they share a full node by their rates, and hold its capacity.

#![allow(clippy::unwrap_used)]

use tidegate_lab::examples::EXAMPLES;
use tidegate_lab::plan::Plan;
use tidegate_lab::scenario::{Run, Scenario};

/// The plan of a scenario whose aggregates are simulated together.
fn together(text: &str, seed: u64) -> Plan {
    let scenario = Scenario::parse(text).unwrap();
    let run = Run {
        point: 0,
        seed,
        taps: false,
    };
    let mut groups = scenario.groups(run).unwrap();
    assert_eq!(groups.len(), 1);
    groups.remove(0).plan
}

/// Subscribers with their plans in Mbit/s, and their nodes.
fn plan(subscribers: &[(u64, usize)], nodes: &[(u64, Option<usize>)], flows: &str) -> Plan {
    let mut text = String::from("duration = \"40s\"\nwindow = \"100ms\"\n");
    for (number, (capacity, above)) in nodes.iter().enumerate() {
        text += &format!("[[node]]\nname = \"n{number}\"\nrate = \"{capacity}mbit\"\n");
        if let Some(above) = above {
            text += &format!("parent = \"n{above}\"\n");
        }
    }
    for (number, (rate, node)) in subscribers.iter().enumerate() {
        text += &format!(
            "[[aggregate]]\nname = \"s{number}\"\n\
             [[element]]\nname = \"gate{number}\"\nkind = \"bc-pqp\"\nrate = \"{rate}mbit\"\nnode = \"n{node}\"\n"
        );
    }
    together(&(text + flows), 1)
}

/// The flows of a subscriber.
fn flows(number: usize, count: usize, keys: &str) -> String {
    format!(
        "[[flow]]\nname = \"f{number}\"\ncount = {count}\naggregate = \"s{number}\"\nrtt = \"10ms..60ms\"\n\
         path = [\"gate{number}\"]\n{keys}\n"
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

/// The site that the gate's test has with the kernel's TCP (`subscribers_of_full_nodes_share_by_their_plans`).
#[test]
fn the_example_shares_as_the_gate_in_the_kernel_does() {
    let (_, text) = EXAMPLES.iter().find(|(name, _)| *name == "nodes").unwrap();
    let text = text.replacen("duration", "window = \"100ms\"\nduration", 1);
    // Means of several draws of starts and round trips.
    let mut found = [vec![0.0; 4], vec![0.0; 4]];
    for seed in 1..=8 {
        let drawn = rates(&together(&text, seed), &[(5, 12), (18, 36)]);
        for (sums, (drawn, _)) in found.iter_mut().zip(drawn) {
            sums.iter_mut()
                .zip(drawn)
                .for_each(|(sum, rate)| *sum += rate / 8.0);
        }
    }
    // The site is full, and its access points are not.
    let level = 50.0 / 90.0;
    let wanted = [40.0 * level, 20.0 * level, 30.0 * level];
    holds(&found[0][..3], &wanted, 0.03, 0.02);
    assert!(found[0][3] < 1e-9, "{found:?}");
    // Another one comes: its access point is full, and what that leaves of the site goes to the other.
    let (east, west) = (28.0 / 60.0, 22.0 / 90.0);
    let wanted = [40.0 * east, 20.0 * east, 30.0 * west, 60.0 * west];
    holds(&found[1], &wanted, 0.05, 0.025);
}
