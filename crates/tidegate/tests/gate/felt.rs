//! What the gate says that a line feels, beside what the senders' kernel says of its connections.

use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::support::{BRIDGE, Findings, Gate, alone, has_iperf, measured, permitted};
use tidegate_lab::MILLISECOND;
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::site::{LinkPosition, Site};

/// Of the link, there and back.
const ROUND_TRIP: u64 = 40;
/// Connections of the download.
const CONNECTIONS: usize = 4;
/// How long it lasts.
const LASTS: Duration = Duration::from_secs(10);

/// The median of smoothed round trips that the server's kernel has of its connections, in milliseconds.
fn round_trip(site: &Site) -> f64 {
    let output = site.server.output(Command::new("ss").args(["-tinH"]));
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let words = text.split_whitespace();
    let trips = words.filter_map(|word| word.strip_prefix("rtt:")?.split('/').next()?.parse().ok());
    super::support::median(trips.collect())
}

/// A link with this round trip.
pub fn link() -> LinkPlan {
    LinkPlan {
        round_trips: vec![("::/0".parse().unwrap(), ROUND_TRIP * MILLISECOND)],
        ..LinkPlan::default()
    }
}

/// Of a gate that watches.
pub fn watching() -> String {
    format!(
        "{BRIDGE}
        [watch]
        [plan.home]
        down = \"20mbit\"
        up = \"5mbit\"
        [[subscriber]]
        name = \"alice\"
        plan = \"home\"
        addresses = \"192.0.2.16\""
    )
}

/// A download through a gate that is up and watches, with the link on one side of it.
pub fn download(site: &Site, position: LinkPosition, gate: &Gate<'_>, found: &mut Findings) {
    let to = site.client_address(16).unwrap();
    let bulk = Bulk {
        connections: CONNECTIONS as u32,
        ..Bulk::new(to, "cubic", LASTS)
    };
    let transfers = iperf::start(site, &[bulk]).unwrap();
    thread::sleep(LASTS - Duration::from_secs(3));
    let sender = round_trip(site);
    let flows = gate.run("flows alice --over 500ms");
    let json: Value = serde_json::from_str(&gate.run("flows alice --json")).unwrap();
    let received = transfers.finish().unwrap();
    let status = gate.run("status alice");
    let alice: Value = serde_json::from_str(&gate.run("status alice --json")).unwrap();
    eprintln!("{flows}{status}");

    let line = &alice["line"];
    let trip = |side: &str| line[side]["p50_ms"].as_f64().unwrap();
    let (near, far) = match position {
        LinkPosition::Access => ("core", "access"),
        LinkPosition::Core => ("access", "core"),
    };
    let least = ROUND_TRIP as f64 - 1.0;
    found.within(
        "what the sender's kernel measures",
        sender,
        least,
        least + 15.0,
    );
    found.within(
        &format!("round trips, {far}, of it"),
        trip(far) / sender,
        0.85,
        1.15,
    );
    // Few packets with data go to the network, and their receivers may wait before they answer.
    found.within(&format!("round trips, {near}"), trip(near), 0.0, 5.0);
    found.within("score", line["score"].as_f64().unwrap(), 1.0, 100.0);

    let again = line["down"]["again"].as_f64().unwrap();
    let sent: u64 = received.iter().map(|one| one.retransmitted).sum();
    found.within(
        "segments sent again, of those that the sender counts",
        again / sent as f64,
        0.95,
        1.05,
    );

    let list = json["flows"].as_array().unwrap();
    let large = |flow: &&Value| flow["down"]["passed_bytes"].as_u64().unwrap() > 1_000_000;
    found.within(
        "connections",
        list.iter().filter(large).count() as f64,
        4.0,
        4.0,
    );
    let shown = flows
        .lines()
        .filter(|line| line.contains("192.0.2.16:"))
        .count();
    found.ensure(shown >= CONNECTIONS && flows.contains("ACCESS"), || {
        flows.clone()
    });
    let excess: u64 = list
        .iter()
        .map(|flow| flow["down"]["excess_packets"].as_u64().unwrap())
        .sum();
    let counted = alice["down"]["excess_packets"].as_u64().unwrap();
    // The flows were read first.
    found.ensure((1..=counted).contains(&excess), || {
        format!("{excess} dropped, of {counted}")
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn round_trips_and_repetitions_are_those_of_the_senders_kernel() {
    let _alone = alone();
    let test = "round_trips_and_repetitions_are_those_of_the_senders_kernel";
    if !has_iperf(test) {
        return;
    }
    for position in [LinkPosition::Access, LinkPosition::Core] {
        measured(|| {
            let site = permitted(test, Site::new(&link(), position))?;
            let mut found = Findings::default();
            let gate = Gate::new(&site.middle, &watching());
            gate.run("up FILE");
            download(&site, position, &gate, &mut found);
            gate.run("down");
            found.late = site.link.report().unwrap().lateness.p99;
            Some(found)
        });
    }
}
