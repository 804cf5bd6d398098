//! The gate under load during reloads, live changes and the death of the daemon.

use std::thread;
use std::time::Duration;

use super::support::{BRIDGE, Findings, Gate, alone, has_iperf, measured, permitted};
use tidegate_lab::MILLISECOND;
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::site::{LinkPosition, Site};

/// A subscriber with 30 Mbit/s, and this number of others, whose rates depend on the version.
fn configuration(others: u32, version: u32) -> String {
    let others = (0..others).map(|i| {
        let rate = 1 + (i + version) % 5;
        format!(
            "[[subscriber]]\nname = \"other-{i}\"\ndown = \"{rate}mbit\"\naddresses = \"10.0.0.{i}\"\n"
        )
    });
    format!(
        "{BRIDGE}
        [plan.home]
        down = \"30mbit\"
        up = \"10mbit\"
        [[subscriber]]
        name = \"alice\"
        plan = \"home\"
        addresses = \"192.0.2.16\"
        {}",
        others.collect::<String>()
    )
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn neither_reloads_nor_a_killed_daemon_lose_a_packet_or_the_limit() {
    let _alone = alone();
    let test = "neither_reloads_nor_a_killed_daemon_lose_a_packet_or_the_limit";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let plan = LinkPlan {
            round_trips: vec![("192.0.2.0/24".parse().unwrap(), 20 * MILLISECOND)],
            ..LinkPlan::default()
        };
        let site = permitted(test, Site::new(&plan, LinkPosition::Core))?;
        let to = site.client_address(16).unwrap();
        let gate = Gate::new(&site.middle, &configuration(3, 0));
        let mut daemon = gate.daemon();
        let count = || {
            let wan = site.middle.counters("wan").unwrap();
            let client = site.client.counters("eth0").unwrap();
            let passed = gate.status();
            (wan, client, passed)
        };
        let start = count();
        let mut bulk = Bulk::new(to, "cubic", Duration::from_secs(20));
        bulk.connections = 4;
        let transfers = iperf::start(&site, &[bulk]).unwrap();
        thread::sleep(Duration::from_secs(4));

        // Other subscribers come, go and change, and files with errors are rejected.
        let mut last = 0;
        for version in 1..15 {
            gate.write(&configuration(1 + version % 7, version));
            gate.run("reload");
            gate.write(&configuration(2, version).replace("10mbit", "10 furlongs"));
            assert!(!gate.try_run("reload").status.success());
            let passed = gate.status().of("alice", "down", "passed_bytes");
            assert!(passed >= last, "reset from {last} to {passed}");
            last = passed;
        }
        let mut found = Findings::default();

        // The limits stay in force without a daemon.
        let before = gate.status();
        daemon.child().kill().unwrap();
        daemon.child().wait().unwrap();
        thread::sleep(Duration::from_secs(5));
        let after = gate.status();
        let rate = after.rate_since(&before, "alice", "down") / 1e6;
        found.within("rate without a daemon, Mbit/s", rate, 29.1, 30.9);

        // The next daemon takes the gate over and changes it live.
        let daemon = gate.daemon();
        let taken = gate.status().of("alice", "down", "passed_bytes");
        let least = after.of("alice", "down", "passed_bytes");
        assert!(taken >= least, "reset from {least} to {taken}");
        gate.run("set alice --down 15mbit");
        thread::sleep(Duration::from_secs(2));
        let before = gate.status();
        thread::sleep(Duration::from_secs(4));
        let rate = gate.status().rate_since(&before, "alice", "down") / 1e6;
        found.within("rate when set live, Mbit/s", rate, 14.55, 15.45);
        transfers.finish().unwrap();
        // Packets on their way arrive.
        thread::sleep(Duration::from_millis(300));

        let end = count();
        let came = end.0.received_packets - start.0.received_packets;
        let left = end.1.received_packets - start.1.received_packets;
        let dropped = end.2.of("alice", "down", "excess_packets")
            - start.2.of("alice", "down", "excess_packets");
        assert!(dropped > 0);
        // The bridge itself sends a packet now and then, to ask for neighbours.
        let more = (left + dropped).checked_sub(came);
        found.ensure(more.is_some_and(|more| more <= 3), || {
            format!("of {came} packets {left} left and {dropped} were dropped: some are lost")
        });
        let report = site.link.report().unwrap();
        found.late = report.lateness.p99;
        found.ensure(report.strays == 0, || format!("{} strays", report.strays));

        // The gate is removed.
        drop(daemon);
        gate.run("down");
        assert!(!gate.try_run("status").status.success());
        for device in ["wan", "lan"] {
            for hook in ["ingress", "egress"] {
                let words = format!("filter show dev {device} {hook}");
                assert_eq!(site.middle.run("tc", &words).unwrap(), "");
            }
        }
        for folder in ["/sys/fs/bpf", "/run"] {
            let there = site
                .middle
                .run("find", &format!("{folder} -name *tidegate*"));
            assert_eq!(there.unwrap(), "", "{folder}");
        }
        Some(found)
    });
}
