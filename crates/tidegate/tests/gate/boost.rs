//! A larger burst after a rest, with the kernel's TCP.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use super::support::{BRIDGE, Findings, Gate, alone, has_iperf, measured, permitted};
use super::tcp::{findings, round_trips};
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::site::{LinkPosition, Site};

const MEGABYTE: f64 = 1e6;

/// Ten megabytes pass at once, and what was left unused since passes at once after a rest. Between, the rate holds.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_boost_passes_at_once_and_comes_back_after_a_rest() {
    let _alone = alone();
    let test = "a_boost_passes_at_once_and_comes_back_after_a_rest";
    if !has_iperf(test) {
        return;
    }
    let configuration = format!(
        "{BRIDGE}
        [plan.home]
        down = \"20mbit\"
        boost = \"10MB\"
        [[subscriber]]
        name = \"alice\"
        plan = \"home\"
        addresses = \"192.0.2.16\""
    );
    measured(|| {
        let site = permitted(test, Site::new(&round_trips(), LinkPosition::Core))?;
        let gate = Gate::new(&site.middle, &configuration);
        gate.run("up FILE");
        let before = gate.status();
        let to = site.client_address(16).unwrap();
        let transfer = |seconds| {
            let bulk = Bulk::new(to, "cubic", Duration::from_secs(seconds));
            let received = iperf::start(&site, &[bulk]).unwrap().finish().unwrap();
            received[0].seconds.clone()
        };
        let saved = || {
            let alice = gate.run("status alice --json");
            let alice: serde_json::Value = serde_json::from_str(&alice).unwrap();
            let boost = &alice["down"]["boost"];
            assert_eq!(boost["most_bytes"], 10_000_000, "{alice}");
            boost["saved_bytes"].as_f64().unwrap() / MEGABYTE
        };
        let fresh = saved();
        let first = transfer(8);
        let spent = saved();
        // A home is never quite silent: a small packet every 100 ms.
        let small = site.server.enter(|| UdpSocket::bind("0.0.0.0:0"));
        let small = small.unwrap().unwrap();
        for _ in 0..30 {
            let _ = small.send_to(&[0; 100], (to, 9));
            thread::sleep(Duration::from_millis(100));
        }
        let rested = saved();
        let second = transfer(4);
        let after = gate.status();
        let mut found: Findings = findings(&site);
        found.within("MB saved at first", fresh, 10.0, 10.0);
        found.within("MB saved after a transfer", spent, 0.0, 2.0);
        // Three seconds of the rate come to 7.5 MB, of which the queues had some to serve first.
        found.within("MB saved after a rest of three", rested, 4.0, 10.0);
        // Goodput is 1448 of 1514 bytes.
        let early: f64 = first[..2].iter().sum::<f64>() / MEGABYTE;
        found.within("MB in the first two seconds", early, 9.5, 15.5);
        let late: f64 = first[4..8].iter().sum::<f64>() * 8.0 / 4.0 / MEGABYTE;
        found.within("Mbit/s when nothing is saved", late, 17.0, 20.7);
        let again: f64 = second[..2].iter().sum::<f64>() / MEGABYTE;
        found.within("MB in two seconds after a rest of three", again, 9.5, 15.5);
        // The rate, the boost, and a burst of 0.267 s at most.
        let passed = after.of("alice", "down", "passed_bytes") as f64;
        let elapsed = (after.at - before.at).as_secs_f64();
        let most = 2.5 * elapsed + 10.0 + 0.7;
        found.within(
            "MB that passed, of the bound",
            passed / MEGABYTE / most,
            0.5,
            1.0,
        );
        gate.run("down");
        Some(found)
    });
}
