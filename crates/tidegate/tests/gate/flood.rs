//! A sender that answers to drops beside a flood of many flows that do not, in network namespaces.

use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::support::{BRIDGE, Findings, Gate, alone, has_iperf, measured, permitted};
use tidegate_lab::MILLISECOND;
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::namespace::Namespace;
use tidegate_testbed::site::{LinkPosition, Site};

/// The plan in Mbit/s.
const PLAN: f64 = 20.0;
/// Flows of the flood.
const FLOWS: usize = 256;
/// Datagrams a second of all flows together: three times the plan.
const DATAGRAMS: f64 = 5_000.0;
/// Time until senders reach their shares, and of the measurement.
const SECONDS: [usize; 2] = [10, 8];

/// Sends datagrams of 1,500 bytes to a host, in turn from each of the flood's ports, until `stop` is set.
fn flood(server: &Namespace, to: IpAddr, stop: &AtomicBool) {
    server
        .enter(|| {
            let socket = |_| {
                let socket = UdpSocket::bind((Site::SERVER, 0)).unwrap();
                socket.connect((to, 9)).unwrap();
                socket
            };
            let sockets: Vec<_> = (0..FLOWS).map(socket).collect();
            let began = Instant::now();
            for (number, socket) in sockets.iter().cycle().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let due = Duration::from_secs_f64(number as f64 / DATAGRAMS);
                if let Some(early) = due.checked_sub(began.elapsed()) {
                    thread::sleep(early);
                }
                // The receiver answers that it has no such port.
                let _ = socket.send(&[0; 1_472]);
            }
        })
        .unwrap();
}

/// The goodput of a connection of CUBIC to a host beside the flood of another or the same one, as a part of the plan.
/// The flood begins `ahead` of it, or it is there first.
fn part(site: &Site, policy: &str, hosts: [u8; 2], ahead: bool) -> f64 {
    let [flooded, to] = hosts.map(|host| IpAddr::from([192, 0, 2, host]));
    let configuration = format!(
        "{BRIDGE}
        [plan.home]
        down = \"{PLAN}mbit\"
        policy = {policy}
        [[subscriber]]
        name = \"alice\"
        plan = \"home\"
        addresses = \"192.0.2.16/28\""
    );
    let gate = Gate::new(&site.middle, &configuration);
    gate.run("up FILE");
    let (stop, wait) = (AtomicBool::new(false), Duration::from_secs(2));
    let lasting = Duration::from_secs((SECONDS[0] + SECONDS[1]) as u64 + 2);
    let received = thread::scope(|scope| {
        let begin = || scope.spawn(|| flood(&site.server, flooded, &stop));
        if ahead {
            begin();
            thread::sleep(wait);
        }
        let transfers = iperf::start(site, &[Bulk::new(to, "cubic", lasting)]).unwrap();
        if !ahead {
            thread::sleep(wait);
            begin();
        }
        let received = transfers.finish();
        stop.store(true, Ordering::Relaxed);
        received.unwrap()
    });
    gate.run("down");
    let seconds = &received[0].seconds[SECONDS[0]..][..SECONDS[1]];
    seconds.iter().sum::<f64>() * 8.0 / 1e6 / SECONDS[1] as f64 / PLAN
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_flood_leaves_other_senders_their_part() {
    let _alone = alone();
    let test = "a_flood_leaves_other_senders_their_part";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = permitted(
            test,
            Site::new(
                &LinkPlan {
                    round_trips: vec![("::/0".parse().unwrap(), 10 * MILLISECOND)],
                    ..LinkPlan::default()
                },
                LinkPosition::Core,
            ),
        )?;
        for host in [16, 17] {
            site.client_address(host).unwrap();
        }
        let mut found = Findings::default();
        let by_host = "{ hosts = [4, 4] }";
        let cases = [
            (by_host, 17, 0.4),
            (by_host, 16, 0.05),
            ("{ fair = 16 }", 16, 0.05),
        ];
        for (policy, to, least) in cases {
            for ahead in [false, true] {
                let part = part(&site, policy, [16, to], ahead);
                let what = format!("{policy}, flood to 16, ahead: {ahead}, TCP to {to}");
                found.within(&what, part, least, 1.0);
            }
        }
        found.late = site.link.report().unwrap().lateness.p99;
        Some(found)
    });
}
