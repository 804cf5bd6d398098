//! The gate in front of the kernel's TCP (iperf3), in network namespaces, over a link with delay.
//!
//! There are a server, a bridge with the gate, and a client. The tests measure bytes at the client's device
//! and at its applications, and compare them with the gate's counters.

use std::thread;
use std::time::Duration;

use super::support::{
    BRIDGE, Counted, Findings, Gate, alone, has_iperf, jain, measured, median, permitted,
};
use tidegate_lab::MILLISECOND;
use tidegate_testbed::iperf::{self, Bulk, Received};
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::namespace::DeviceCounters;
use tidegate_testbed::site::{LinkPosition, Site};

/// The same with this hook.
fn bridge(hook: &str) -> String {
    BRIDGE.replace("side", &format!("hook = \"{hook}\"\nside"))
}

/// Time until senders reach their shares.
const START_UP: Duration = Duration::from_secs(5);
/// Time of the measurement.
pub const MEASURED: Duration = Duration::from_secs(10);
/// Longer than both.
pub const WHOLE: Duration = Duration::from_secs(17);
/// Time for which flows of lower priority are alone. A class behind a busy one gets nothing, not even the
/// first packets of a new connection.
const AHEAD: Duration = Duration::from_secs(2);

/// A link of 10 ms, or of 20 ms and 50 ms for clients whose address ends in 128 to 191, or 192 to 255.
pub fn round_trips() -> LinkPlan {
    let way = |prefix: &str, ms: u64| (prefix.parse().unwrap(), ms * MILLISECOND);
    LinkPlan {
        round_trips: vec![
            way("192.0.2.128/26", 20),
            way("192.0.2.192/26", 50),
            way("::/0", 10),
        ],
        ..LinkPlan::default()
    }
}

/// A measurement of 10 s: the gate's counters and the client's device before and after.
pub struct Window {
    gate: [Counted; 2],
    device: [DeviceCounters; 2],
}

/// Runs these transfers, and measures them when they have started up.
pub fn observe(site: &Site, gate: &Gate<'_>, bulks: &[Bulk]) -> (Window, Vec<Received>) {
    let transfers = iperf::start(site, bulks).unwrap();
    thread::sleep(START_UP);
    let count = || (gate.status(), site.client.counters("eth0").unwrap());
    let before = count();
    thread::sleep(MEASURED);
    let after = count();
    let window = Window {
        gate: [before.0, after.0],
        device: [before.1, after.1],
    };
    (window, transfers.finish().unwrap())
}

impl Window {
    /// The rate that passed to a subscriber, in bit/s.
    pub fn rate(&self, subscriber: &str) -> f64 {
        self.gate[1].rate_since(&self.gate[0], subscriber, "down")
    }

    /// Dropped packets of those that came for a subscriber.
    pub fn drops(&self, subscriber: &str) -> f64 {
        let [passed, dropped] = ["passed_packets", "excess_packets"].map(|counter| {
            let [before, after] = [0, 1].map(|at| self.gate[at].of(subscriber, "down", counter));
            (after - before) as f64
        });
        dropped / (passed + dropped)
    }

    /// Packets of a subscriber that were marked as congested.
    pub fn marks(&self, subscriber: &str) -> u64 {
        let [before, after] =
            [0, 1].map(|at| self.gate[at].of(subscriber, "down", "marked_packets"));
        after - before
    }

    /// Bytes of all these by the gate's counters, as a share of the bytes at the client's device.
    pub fn agreement(&self, subscribers: &[&str]) -> f64 {
        let sum: f64 = subscribers.iter().map(|name| self.rate(name)).sum();
        let bytes = self.device[1].received_bytes - self.device[0].received_bytes;
        let elapsed = self.gate[1].at - self.gate[0].at;
        sum / (bytes as f64 * 8.0 / elapsed.as_secs_f64())
    }
}

/// Bytes of each connection of some transfers in each second of the window.
pub fn windows(received: &[Received], bulks: std::ops::Range<usize>) -> Vec<Vec<f64>> {
    let (first, count) = (START_UP.as_secs() as usize, MEASURED.as_secs() as usize);
    let of = received.iter().filter(|one| bulks.contains(&one.bulk));
    let of: Vec<_> = of.collect();
    (first..first + count)
        .map(|second| of.iter().map(|one| one.seconds[second]).collect())
        .collect()
}

/// Bytes of all transfers in the window.
fn sum(received: &[Received], bulks: std::ops::Range<usize>) -> f64 {
    windows(received, bulks).into_iter().flatten().sum()
}

/// A plan with a class for each of these last bytes of the client's address, in order.
pub fn by_address(hosts: &[u8], plan: &str) -> String {
    let rules = hosts.iter().enumerate().map(|(class, host)| {
        format!("[[plan.{plan}.rule]]\nclass = {class}\nlocal = \"192.0.2.{host}\"\n")
    });
    rules.collect()
}

/// A subscriber whose plan has this rate and a queue for each of these last bytes of the client's address.
pub fn queue_each(rate: &str, hosts: &[u8]) -> String {
    format!(
        "[plan.fair]
        down = \"{rate}\"
        policy = {{ weighted = [{}] }}
        {}
        [[subscriber]]
        name = \"alice\"
        plan = \"fair\"
        addresses = \"192.0.2.0/24\"",
        vec!["[1, \"queue\"]"; hosts.len()].join(", "),
        by_address(hosts, "fair"),
    )
}

/// The findings of a link that must not have lost packets itself.
pub fn findings(site: &Site) -> Findings {
    let report = site.link.report().unwrap();
    let mut findings = Findings {
        late: report.lateness.p99,
        ..Findings::default()
    };
    findings.ensure(report.strays == 0, || {
        format!("{} packets were lost beside the gate", report.strays)
    });
    findings
}

/// Six connections of three congestion controls over two round-trip times share fairly, each alone
/// in its queue; and the sum is the plan's rate.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn mixed_senders_share_fairly_at_the_rate() {
    share_fairly(
        "mixed_senders_share_fairly_at_the_rate",
        LinkPosition::Core,
        "tc",
    );
}

/// The same with XDP in the driver of a veth device. Its peer sends super-packets, which the kernel splits
/// before the program.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn mixed_senders_share_fairly_at_native_xdp() {
    share_fairly(
        "mixed_senders_share_fairly_at_native_xdp",
        LinkPosition::Access,
        "xdp",
    );
}

/// The same with XDP after the driver of a TAP device.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn mixed_senders_share_fairly_at_generic_xdp() {
    let test = "mixed_senders_share_fairly_at_generic_xdp";
    share_fairly(test, LinkPosition::Core, "xdp-generic");
}

fn share_fairly(test: &str, place: LinkPosition, hook: &str) {
    let _alone = alone();
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = permitted(test, Site::new(&round_trips(), place))?;
        let hosts = [129, 130, 131, 193, 194, 195];
        let configuration = format!("{}\n{}", bridge(hook), queue_each("30mbit", &hosts));
        let gate = Gate::new(&site.middle, &configuration);
        gate.run("up FILE");
        let algorithms = ["reno", "cubic", "bbr"].into_iter().cycle();
        let bulks: Vec<_> = (hosts.into_iter().zip(algorithms))
            .map(|(host, algorithm)| {
                Bulk::new(site.client_address(host).unwrap(), algorithm, WHOLE)
            })
            .collect();
        let (window, received) = observe(&site, &gate, &bulks);
        let mut found = findings(&site);
        found.within("rate, Mbit/s", window.rate("alice") / 1e6, 29.1, 30.9);
        found.within("gate's count", window.agreement(&["alice"]), 0.995, 1.005);
        // The gate saw packets as on a wire.
        let came = site.middle.counters("wan").unwrap();
        let size = came.received_bytes as f64 / came.received_packets as f64;
        found.within("bytes of a packet at the gate", size, 60.0, 1514.0);
        let indices = windows(&received, 0..6);
        let indices = indices.iter().map(|shares| jain(shares)).collect();
        found.within("Jain's index, median", median(indices), 0.95, 1.0);
        // Goodput follows from the rate: 1448 bytes of 1514.
        let goodput = sum(&received, 0..6) * 8.0 / MEASURED.as_secs_f64();
        let most = window.rate("alice") * 1448.0 / 1514.0;
        found.within("goodput of the possible", goodput / most, 0.95, 1.005);
        Some(found)
    });
}

/// Subscribers side by side, each with another policy, and one by its IPv6 prefix.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn each_subscriber_has_its_rate_and_policy() {
    let _alone = alone();
    let test = "each_subscriber_has_its_rate_and_policy";
    if !has_iperf(test) {
        return;
    }
    let nested = [
        "[3, { weighted = [[2, \"queue\"], [1, \"queue\"]] }]",
        "[1, { priority = [\"queue\", \"queue\"] }]",
    ];
    let configuration = format!(
        "{BRIDGE}
        [plan.weights]
        down = \"14mbit\"
        policy = {{ weighted = [[4, \"queue\"], [2, \"queue\"], [1, \"queue\"]] }}
        {}
        [plan.priority]
        down = \"8mbit\"
        policy = {{ priority = [\"queue\", \"queue\"] }}
        default-class = 1
        [[plan.priority.rule]]
        class = 0
        local = \"192.0.2.32\"
        [plan.nested]
        down = \"16mbit\"
        policy = {{ weighted = [{}] }}
        {}
        [plan.six]
        down = \"6mbit\"
        [[subscriber]]
        name = \"weights\"
        plan = \"weights\"
        addresses = [\"192.0.2.16/28\"]
        [[subscriber]]
        name = \"priority\"
        plan = \"priority\"
        addresses = [\"192.0.2.32\", \"192.0.2.33\"]
        [[subscriber]]
        name = \"nested\"
        plan = \"nested\"
        addresses = [\"192.0.2.64/28\"]
        [[subscriber]]
        name = \"six\"
        plan = \"six\"
        addresses = [\"2001:db8::/64\"]",
        by_address(&[16, 17, 18], "weights"),
        nested.join(", "),
        by_address(&[64, 65, 66, 67], "nested"),
    );
    measured(|| {
        let site = permitted(test, Site::new(&round_trips(), LinkPosition::Core))?;
        let gate = Gate::new(&site.middle, &configuration);
        gate.run("up FILE");
        let to = |host| site.client_address(host).unwrap();
        let bulk = |to, algorithm| Bulk::new(to, algorithm, WHOLE);
        let later = |to, algorithm| Bulk {
            after: AHEAD,
            ..bulk(to, algorithm)
        };
        let bulks = [
            bulk(to(16), "cubic"),
            bulk(to(17), "reno"),
            bulk(to(18), "bbr"),
            later(to(32), "cubic"),
            bulk(to(33), "cubic"),
            bulk(to(64), "cubic"),
            bulk(to(65), "bbr"),
            later(to(66), "cubic"),
            bulk(to(67), "reno"),
            bulk(site.client_address6(0x10).unwrap(), "cubic"),
        ];
        let (window, received) = observe(&site, &gate, &bulks);
        let mut found = findings(&site);
        let names = ["weights", "priority", "nested", "six"];
        for (name, rate) in names.into_iter().zip([14.0, 8.0, 16.0, 6.0]) {
            let measured = window.rate(name) / 1e6 / rate;
            found.within(&format!("rate of {name}"), measured, 0.97, 1.03);
        }
        found.within("gate's count", window.agreement(&names), 0.995, 1.005);
        // Flows of lower priority were served while no other class was busy.
        let ahead = AHEAD.as_secs() as usize;
        for connection in received.iter().filter(|one| [4, 8].contains(&one.bulk)) {
            let early: f64 = connection.seconds[..ahead].iter().sum();
            let what = format!("lower priority, Mbit/s when alone, {}", connection.bulk);
            found.within(&what, early * 8.0 / AHEAD.as_secs_f64() / 1e6, 0.25, 20.0);
        }
        let got: Vec<f64> = (0..bulks.len()).map(|i| sum(&received, i..i + 1)).collect();
        let mut share = |what: &str, part: f64, whole: &[usize], expected: f64| {
            let whole: f64 = whole.iter().map(|&i| got[i]).sum();
            found.within(what, part / whole / expected, 0.9, 1.1);
        };
        share("weight 4", got[0], &[0, 1, 2], 4.0 / 7.0);
        share("weight 2", got[1], &[0, 1, 2], 2.0 / 7.0);
        share("weight 1", got[2], &[0, 1, 2], 1.0 / 7.0);
        share("priority", got[3], &[3, 4], 1.0);
        let all = [5, 6, 7, 8];
        share("nested, 3 of 4", got[5] + got[6], &all, 0.75);
        share("nested, 2 of 3", got[5], &[5, 6], 2.0 / 3.0);
        share("nested, priority", got[7], &[7, 8], 1.0);
        if !found.wrong.is_empty() {
            for name in names {
                eprintln!("{}", gate.run(&format!("status {name}")));
            }
        }
        gate.run("down");
        Some(found)
    });
}

/// Super-packets are charged as the packets that they become on the wire.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn super_packets_are_charged_as_on_the_wire() {
    let _alone = alone();
    let test = "super_packets_are_charged_as_on_the_wire";
    if !has_iperf(test) {
        return;
    }
    let configuration = format!(
        "{BRIDGE}
        [[subscriber]]
        name = \"alice\"
        down = \"30mbit\"
        addresses = \"192.0.2.16\""
    );
    measured(|| {
        let site = permitted(test, Site::new(&round_trips(), LinkPosition::Access))?;
        let gate = Gate::new(&site.middle, &configuration);
        gate.run("up FILE");
        let to = site.client_address(16).unwrap();
        let (window, received) = observe(&site, &gate, &[Bulk::new(to, "cubic", WHOLE)]);
        let mut found = findings(&site);
        // There were super-packets.
        let came = site.middle.counters("wan").unwrap();
        let size = came.received_bytes as f64 / came.received_packets as f64;
        found.within("bytes of a packet at the gate", size, 1600.0, 65e3);
        found.within("rate, Mbit/s", window.rate("alice") / 1e6, 29.1, 30.9);
        // The client's device counts packets as on the wire.
        found.within("gate's count", window.agreement(&["alice"]), 0.99, 1.01);
        let goodput = sum(&received, 0..1) * 8.0 / MEASURED.as_secs_f64() / 1e6;
        found.within("goodput, Mbit/s", goodput, 27.0, 29.6);
        Some(found)
    });
}
