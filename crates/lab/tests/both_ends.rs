//! Captures of the same transfer at the sender and at the receiver: the annotator's result at the
//! receiver is compared with the packets that the sender sent.

#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use tidegate_lab::capture::InMemory;
use tidegate_lab::experiment::{Settings, simulate};
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_trace::annotate::{Metrics, Transfer, TransferSummary, Vantage};
use tidegate_trace::{Options, Sink, analyse};

/// The transfer with the most packets.
#[derive(Default)]
struct Longest(Option<TransferSummary>);

impl Sink for Longest {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        let longest = self.0.map_or(0, |longest| longest.metrics.data_packets);
        if metrics.data_packets > longest {
            self.0 = Some(TransferSummary::new(transfer, metrics));
        }
    }
}

/// A download of 6 MB over 40 ms through these elements, captured at the server and at the client.
fn both(element: &str, cc: &str) -> [TransferSummary; 2] {
    let scenario = format!(
        r#"
        title = "Taps at both ends"
        duration = "60s"

        [[element]]
        name = "server"
        kind = "tap"

        [[element]]
        name = "gate"
        {element}

        [[element]]
        name = "line"
        kind = "link"
        rate = "50mbit"

        [[element]]
        name = "there"
        kind = "delay"
        delay = "20ms"

        [[element]]
        name = "client"
        kind = "tap"

        [[element]]
        name = "back"
        kind = "delay"
        delay = "20ms"

        [[flow]]
        name = "download"
        cc = "{cc}"
        rtt = "10us"
        traffic = {{ kind = "bulk", size = "6MB" }}
        path = ["server", "gate", "line", "there", "client"]
        back = ["client", "back", "server"]
        "#
    );
    let scenario = Scenario::parse(&scenario).unwrap();
    let groups = scenario
        .groups(Run {
            point: 0,
            seed: scenario.seeds()[0],
            taps: true,
        })
        .unwrap();
    let captures = InMemory::default();
    let settings = Settings {
        jobs: 1,
        captures: Some(&captures),
        stop: None,
        progress: None,
    };
    simulate(&groups[0].plan, "", settings).unwrap().unwrap();
    let captures = captures.into_captures();
    ["server.pcap", "client.pcap"].map(|name| {
        let mut longest = Longest::default();
        let capture = Cursor::new(captures[name].clone());
        analyse(capture, Options::default(), &mut longest)
            .whole()
            .unwrap();
        longest.0.unwrap()
    })
}

/// Whether two figures differ by at most this part of the first.
fn near(a: u64, b: u64, part: f64) -> bool {
    a.abs_diff(b) as f64 <= a as f64 * part
}

#[test]
fn the_receiver_sees_the_losses_and_round_trips_of_the_sender() {
    for (element, cc) in [
        ("kind = \"loss\"\nprobability = 0.02", "cubic"),
        ("kind = \"loss\"\nprobability = 0.02\nburst = 4", "reno"),
        ("kind = \"loss\"\nprobability = 0.17", "bbr"),
        (
            "kind = \"policer\"\nrate = \"5mbit\"\nburst = \"32kB\"",
            "bbr",
        ),
        (
            "kind = \"reorder\"\nprobability = 0.01\nby = \"2ms\"",
            "cubic",
        ),
    ] {
        let [sender, receiver] = both(element, cc);
        assert_eq!(sender.path.vantage(), Vantage::Sender);
        assert_eq!(receiver.path.vantage(), Vantage::Receiver);
        let [a, b] = [sender.metrics, receiver.metrics];
        let counts = (a.lost_packets, b.lost_packets);
        assert!(near(counts.0, counts.1, 0.05), "{element}: {counts:?}");
        let [least, least_there] = [a, b].map(|metrics| metrics.rtt.unwrap().min);
        assert!(near(least, least_there, 0.01), "{element}");
        let [median, median_there] = [a, b].map(|metrics| metrics.rtt.unwrap().median);
        assert!(near(median, median_there, 0.1), "{element}");
    }
}
