use std::time::Duration;

use super::{LinkPosition, Site};
use crate::iperf::{self, Bulk};
use crate::link::LinkPlan;
use crate::testing::{alone, permitted};
use tidegate_lab::MILLISECOND;

/// Three seconds of one connection; bytes at the IP layer and packets that the bridge got.
fn transfer(test: &str, place: LinkPosition, v6: bool) -> Option<(f64, u64)> {
    let plan = LinkPlan {
        round_trips: vec![("::/0".parse().unwrap(), 10 * MILLISECOND)],
        ..LinkPlan::default()
    };
    let site = permitted(test, Site::new(&plan, place))?.unwrap();
    let to = if v6 {
        site.client_address6(0x10).unwrap()
    } else {
        site.client_address(16).unwrap()
    };
    // Slower than the capacity of the link on a busy machine.
    let tbf = "qdisc add dev eth0 root tbf rate 50mbit burst 64kb limit 200kb";
    site.server.run("tc", tbf).unwrap();
    let bulk = Bulk::new(to, "cubic", Duration::from_secs(3));
    let received = iperf::run(&site, &[bulk]).unwrap();
    let [received] = &received[..] else {
        panic!("{received:?}");
    };
    // Where the last packets come late, there is a fourth, short one.
    assert!(received.seconds.len() >= 3, "{received:?}");
    let report = site.link.report().unwrap();
    // A machine that is busy with other tests may sometimes be late.
    assert!(report.strays < 10, "{} strays", report.strays);
    let rate = received.seconds[..3].iter().sum::<f64>() * 8.0 / 3.0;
    Some((rate, site.middle.counters("wan").unwrap().received_packets))
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_middle_gets_packets_as_on_a_wire_or_super_packets() {
    let _alone = alone();
    let test = "the_middle_gets_packets_as_on_a_wire_or_super_packets";
    let Some((rate, packets)) = transfer(test, LinkPosition::Core, false) else {
        return;
    };
    assert!((35e6..50e6).contains(&rate), "{rate}");
    let data = (rate * 3.0 / 8.0 / 1448.0) as u64;
    assert!(packets >= data, "{packets} packets, {data} segments");
    let (rate, packets) = transfer(test, LinkPosition::Access, true).unwrap();
    assert!((35e6..50e6).contains(&rate), "{rate}");
    let data = (rate * 3.0 / 8.0 / 1428.0) as u64;
    assert!(packets < data / 2, "{packets} packets, {data} segments");
}
