//! Marks in place of drops, with the kernel's senders.

use std::ops::Range;
use std::process::Command;

use super::support::{
    BRIDGE, Findings, Gate, alone, has_iperf, jain, measured, median, permitted, skip,
};
use super::tcp::{WHOLE, findings, observe, queue_each, round_trips, windows};
use tidegate_testbed::iperf::Bulk;
use tidegate_testbed::namespace::Namespace;
use tidegate_testbed::site::{LinkPosition, Site};

/// Eight connections of CUBIC at 20 Mbit/s and 20 ms.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn marks_replace_drops_of_the_kernel_s_senders() {
    let test = "marks_replace_drops_of_the_kernel_s_senders";
    marks_replace_drops(test, 20, 129..137, &["cubic"]);
}

/// Four connections at 10 Mbit/s and 10 ms, which a machine keeps up with that is emulated (packaging/old-kernels); and with
/// DCTCP, where the kernel has it.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn marks_replace_drops_on_a_slow_line() {
    let test = "marks_replace_drops_on_a_slow_line";
    let algorithms: &[_] = match has_dctcp() {
        true => &["cubic", "dctcp"],
        false => {
            skip(test, "not with DCTCP, which this kernel does not have");
            &["cubic"]
        }
    };
    marks_replace_drops(test, 10, 17..21, algorithms);
}

/// Connections of each of these get the same rate and shares with ECN as CUBIC without, and hardly any packet is dropped.
fn marks_replace_drops(test: &str, mbit: u32, hosts: Range<u8>, algorithms: &[&'static str]) {
    let _alone = alone();
    if !has_iperf(test) {
        return;
    }
    let with = algorithms.iter().map(|&algorithm| (algorithm, true));
    let cases: Vec<_> = [("cubic", false)].into_iter().chain(with).collect();
    let hosts: Vec<u8> = hosts.collect();
    let queues = queue_each(&format!("{mbit}mbit"), &hosts);
    let configuration = format!("{BRIDGE}\n{queues}");
    measured(|| {
        let mut found = Findings::default();
        let mut without = 0.0;
        for &(algorithm, ecn) in &cases {
            let site = permitted(test, Site::new(&round_trips(), LinkPosition::Core))?;
            set_ecn(&site.server, ecn);
            set_ecn(&site.client, ecn);
            let gate = Gate::new(&site.middle, &configuration);
            gate.run("up FILE");
            let to = |&host| Bulk::new(site.client_address(host).unwrap(), algorithm, WHOLE);
            let bulks: Vec<_> = hosts.iter().map(to).collect();
            let (window, received) = observe(&site, &gate, &bulks);
            let this = findings(&site);
            found.wrong.extend(this.wrong);
            found.late = found.late.max(this.late);
            let of = format!("{algorithm} with ECN {ecn}");
            let drops = window.drops("alice") * 100.0;
            let (least, most) = if ecn { (0.0, 0.1) } else { (1.0, 20.0) };
            found.within(&format!("drops of {of}, %"), drops, least, most);
            let marks = window.marks("alice");
            found.ensure((marks > 0) == ecn, || {
                format!("{marks} marks are counted of {of}")
            });
            let indices = windows(&received, 0..hosts.len());
            let indices = indices.iter().map(|shares| jain(shares)).collect();
            let index = format!("Jain's index of {of}, median");
            found.within(&index, median(indices), 0.95, 1.0);
            let rate = window.rate("alice") / 1e6 / f64::from(mbit);
            if ecn {
                let ratio = format!("rate of {of} over that without");
                found.within(&ratio, rate / without, 0.98, 1.02);
            } else {
                found.within(&format!("rate of {of}"), rate, 0.97, 1.03);
                without = rate;
            }
            gate.run("down");
        }
        Some(found)
    });
}

/// Whether the kernel has DCTCP, and its module is loaded if it is one.
fn has_dctcp() -> bool {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    names.is_ok_and(|names| names.split_whitespace().any(|name| name == "dctcp"))
}

/// Lets TCP in a namespace ask for ECN, or not.
fn set_ecn(space: &Namespace, ecn: bool) {
    let script = format!("echo {} >/proc/sys/net/ipv4/tcp_ecn", u8::from(ecn));
    let output = space
        .output(Command::new("sh").arg("-c").arg(script))
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
