//! Subscribers below nodes of a network whose capacities are less than the sum of plans, with the kernel's TCP.

use std::thread;
use std::time::Duration;

use super::support::{BRIDGE, Counted, Findings, Gate, alone, has_iperf, measured, permitted};
use super::tcp::{findings, round_trips};
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::site::{LinkPosition, Site};

const SECOND: Duration = Duration::from_secs(1);

/// A site with two access points, and the subscribers there.
fn network(site: &str) -> String {
    let subscribers = [
        ("ann", "east", 40, 129),
        ("bob", "east", 20, 130),
        ("cat", "west", 30, 131),
        ("dan", "west", 60, 132),
    ];
    let subscribers = subscribers.map(|(name, parent, rate, host)| {
        format!(
            "[[subscriber]]\nname = \"{name}\"\nparent = \"{parent}\"\ndown = \"{rate}mbit\"\n\
             addresses = \"192.0.2.{host}\"\n"
        )
    });
    format!(
        "{BRIDGE}
        [[node]]\nname = \"site\"\nrate = \"{site}\"
        [[node]]\nname = \"east\"\nparent = \"site\"\nrate = \"36mbit\"
        [[node]]\nname = \"west\"\nparent = \"site\"\nrate = \"22mbit\"
        {}",
        subscribers.concat()
    )
}

/// Whether a node is full.
fn is_full(counted: &Counted, node: &str) -> bool {
    let nodes = counted.status["status"]["nodes"].as_array().unwrap();
    let found = nodes.iter().find(|found| found["name"] == node).unwrap();
    found["down"]["full"].as_bool().unwrap()
}

/// Compares what passed in some seconds with Mbit/s by names.
fn compare(
    found: &mut Findings,
    gate: &Gate<'_>,
    time: Duration,
    wanted: &[(&str, f64)],
) -> Counted {
    let before = gate.status();
    thread::sleep(time);
    let after = gate.status();
    let rate = |name: &str| after.rate_since(&before, name, "down") / 1e6;
    for &(name, wanted) in wanted {
        let what = format!("rate of {name}, Mbit/s");
        found.within(&what, rate(name), 0.9 * wanted, 1.1 * wanted);
    }
    let sum: f64 = wanted.iter().map(|(name, _)| rate(name)).sum();
    let all: f64 = wanted.iter().map(|(_, wanted)| wanted).sum();
    found.within("all, Mbit/s", sum, 0.95 * all, 1.03 * all);
    after
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn subscribers_of_full_nodes_share_by_their_plans() {
    let _alone = alone();
    let test = "subscribers_of_full_nodes_share_by_their_plans";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = permitted(test, Site::new(&round_trips(), LinkPosition::Core))?;
        // Nothing runs but the kernel's programs: no daemon.
        let gate = Gate::new(&site.middle, &network("50mbit"));
        gate.run("up FILE");
        let bulk = |host, algorithm, after: u32, lasting: u32| Bulk {
            connections: 4,
            after: after * SECOND,
            ..Bulk::new(
                site.client_address(host).unwrap(),
                algorithm,
                lasting * SECOND,
            )
        };
        let bulks = [
            bulk(129, "cubic", 0, 36),
            bulk(130, "reno", 0, 36),
            bulk(131, "cubic", 0, 36),
            bulk(132, "cubic", 13, 23),
        ];
        let transfers = iperf::start(&site, &bulks).unwrap();
        let mut found = findings(&site);
        thread::sleep(5 * SECOND);
        // The site is full, and its access points are not.
        let level = 50.0 / 90.0;
        let wanted = [
            ("ann", 40.0 * level),
            ("bob", 20.0 * level),
            ("cat", 30.0 * level),
        ];
        let after = compare(&mut found, &gate, 7 * SECOND, &wanted);
        found.ensure(is_full(&after, "site"), || "the site is not full".into());
        thread::sleep(6 * SECOND);
        // Another one comes: its access point is full, and what that leaves of the site goes to the other.
        let (east, west) = (28.0 / 60.0, 22.0 / 90.0);
        let wanted = |east: f64| {
            let rates = [40.0 * east, 20.0 * east, 30.0 * west, 60.0 * west];
            ["ann", "bob", "cat", "dan"]
                .into_iter()
                .zip(rates)
                .collect::<Vec<_>>()
        };
        let after = compare(&mut found, &gate, 7 * SECOND, &wanted(east));
        found.ensure(is_full(&after, "west"), || "west is not full".into());
        // Less capacity, without a break: counters go on.
        gate.write(&network("40mbit"));
        let said = gate.run("reload");
        found.ensure(said.contains("nodes of the network changed"), || {
            said.clone()
        });
        found.ensure(said.contains("4 unchanged"), || said.clone());
        let counted = gate.status();
        let kept = |name| {
            counted.of(name, "down", "passed_bytes") >= after.of(name, "down", "passed_bytes")
        };
        found.ensure(["ann", "dan"].into_iter().all(kept), || {
            "counters fell".into()
        });
        thread::sleep(2 * SECOND);
        compare(&mut found, &gate, 6 * SECOND, &wanted(18.0 / 60.0));
        transfers.finish().unwrap();
        found.late = findings(&site).late;
        Some(found)
    });
}
