//! The gate on DPDK in front of the kernel's TCP: between two devices of a namespace, which DPDK takes by packet
//! sockets (af_packet). The machine in the middle is a bridge no longer.

use std::time::{Duration, Instant};

use super::felt::{download, link, watching};
use super::support::{BRIDGE, Findings, Gate, alone, has_iperf, jain, measured, permitted};
use super::tcp::{WHOLE, findings, observe, queue_each, round_trips, windows};
use tidegate_testbed::iperf::Bulk;
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::namespace::Process;
use tidegate_testbed::site::{LinkPosition, Site};

/// A site whose middle forwards nothing by itself.
fn site(test: &str, link: &LinkPlan) -> Option<Site> {
    let site = permitted(test, Site::new(link, LinkPosition::Core))?;
    site.leave_to_dpdk().unwrap();
    Some(site)
}

/// Interrupts a daemon, and waits until it has ended well.
fn interrupt(mut daemon: Process, gate: &Gate<'_>) {
    daemon.interrupt().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let status = loop {
        match daemon.child().try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < end, "it runs on: {}", gate.log()),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let log = gate.log();
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains("the ports are closed"), "{log}");
}

/// Six connections of three congestion controls over two round-trip times share the rate.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn mixed_senders_share_fairly_on_dpdk() {
    let _alone = alone();
    let test = "mixed_senders_share_fairly_on_dpdk";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = site(test, &round_trips())?;
        let hosts = [129, 130, 131, 193, 194, 195];
        let configuration = |rate: &str| format!("{BRIDGE}\n{}", queue_each(rate, &hosts));
        let gate = Gate::new(&site.middle, &configuration("30mbit"));
        let daemon = gate.daemon_with(&Site::ON_DPDK);
        let algorithms = ["reno", "cubic", "bbr"].into_iter().cycle();
        let bulks: Vec<_> = (hosts.into_iter().zip(algorithms))
            .map(|(host, algorithm)| {
                Bulk::new(site.client_address(host).unwrap(), algorithm, WHOLE)
            })
            .collect();
        let (window, received) = observe(&site, &gate, &bulks);
        let mut found = findings(&site);
        found.within("rate, Mbit/s", window.rate("alice") / 1e6, 29.7, 30.3);
        found.within("gate's count", window.agreement(&["alice"]), 0.995, 1.005);
        let seconds = windows(&received, 0..6);
        let sums: Vec<f64> = (0..hosts.len())
            .map(|flow| seconds.iter().map(|second| second[flow]).sum())
            .collect();
        found.within("Jain's index of 10 s", jain(&sums), 0.99, 1.0);
        // The whole file, and one subscriber, live.
        gate.write(&configuration("20mbit"));
        let said = gate.run("reload");
        assert!(
            said.starts_with("0 added, 0 removed, 1 with other limits"),
            "{said}"
        );
        assert!(gate.run("status alice").contains("20.0 Mbit/s"));
        gate.run("set alice --down 10mbit");
        assert!(gate.run("status alice").contains("10.0 Mbit/s"));
        interrupt(daemon, &gate);
        assert!(!gate.try_run("status").status.success());
        Some(found)
    });
}

/// What lines feel, beside what the senders' kernel says of its connections.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn round_trips_on_dpdk_are_those_of_the_senders_kernel() {
    let _alone = alone();
    let test = "round_trips_on_dpdk_are_those_of_the_senders_kernel";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = site(test, &link())?;
        let mut found = Findings::default();
        let gate = Gate::new(&site.middle, &watching());
        let daemon = gate.daemon_with(&Site::ON_DPDK);
        download(&site, LinkPosition::Core, &gate, &mut found);
        interrupt(daemon, &gate);
        found.late = site.link.report().unwrap().lateness.p99;
        Some(found)
    });
}
