//! Captures of the same transfer at the sender, at the receiver, and between the bottleneck and the receiver: the annotator's result
//! at the receiver is compared with the packets that the sender sent.

#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use tidegate_lab::capture::InMemory;
use tidegate_lab::experiment::{Settings, simulate};
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_trace::annotate::{Metrics, Transfer, TransferSummary, Vantage};
use tidegate_trace::detect::{Cause, Judgement};
use tidegate_trace::read::{Capture, LinkType, Nanos};
use tidegate_trace::wire::decode;
use tidegate_trace::write::{PcapWriter, Resolution};
use tidegate_trace::{Options, Sink, analyse};

/// The transfer with the most packets, and its verdict.
#[derive(Default)]
struct Longest(Option<TransferSummary>, Option<Judgement>);

impl Sink for Longest {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        let longest = self.0.map_or(0, |longest| longest.metrics.data_packets);
        if metrics.data_packets > longest {
            self.0 = Some(TransferSummary::new(transfer, metrics));
        }
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if self.0.is_some_and(|longest| longest.id == transfer.id) {
            self.1 = Some(judgement);
        }
    }
}

/// What the server and the client see of a download of 6 MB over 40 ms through these elements.
fn both(element: &str, cc: &str) -> [TransferSummary; 2] {
    judged(element, cc).map(|(summary, _)| summary)
}

/// The same with the verdicts.
fn judged(element: &str, cc: &str) -> [(TransferSummary, Cause); 2] {
    captured(element, cc).map(judge)
}

/// The causes that captures at the server, between bottleneck and client, and at the client tell of a download with more keys.
fn causes(element: &str, cc: &str, keys: &str) -> [Cause; 3] {
    everywhere(element, cc, keys).map(|capture| judge(capture).1)
}

/// The longest transfer of a capture, and its verdict.
fn judge(capture: Vec<u8>) -> (TransferSummary, Cause) {
    let mut longest = Longest::default();
    analyse(Cursor::new(capture), Options::default(), &mut longest)
        .whole()
        .unwrap();
    (longest.0.unwrap(), longest.1.unwrap().cause)
}

/// The captures of this download at the server and at the client.
fn captured(element: &str, cc: &str) -> [Vec<u8>; 2] {
    let [server, _, client] = everywhere(element, cc, "");
    [server, client]
}

/// These, and one behind the bottleneck in the middle of the path.
fn everywhere(element: &str, cc: &str, keys: &str) -> [Vec<u8>; 3] {
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
        name = "middle"
        kind = "tap"

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
        path = ["server", "gate", "line", "middle", "there", "client"]
        back = ["client", "middle", "back", "server"]
        {keys}
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
        look: None,
    };
    simulate(&groups[0].plan, "", settings).unwrap().unwrap();
    let captures = captures.into_captures();
    ["server.pcap", "middle.pcap", "client.pcap"].map(|name| captures[name].clone())
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

/// Of what is lost at the end of a flight, or lost again when it is sent again, a receiver sees nothing. Both are
/// rare where many packets are in flight.
#[test]
fn a_receiver_sees_most_losses_behind_policers_and_some_of_the_policers() {
    let (mut lost, mut seen) = ([0; 2], [0; 2]);
    let mut found = 0;
    for rate in [1, 5, 20] {
        for burst in [8, 32, 100, 500] {
            for cc in ["cubic", "reno", "bbr"] {
                let element =
                    format!("kind = \"policer\"\nrate = \"{rate}mbit\"\nburst = \"{burst}kB\"");
                let [(sender, _), (receiver, cause)] = judged(&element, cc);
                let counts = [sender, receiver].map(|summary| summary.metrics.lost_packets);
                let few_in_flight = usize::from(rate == 1);
                lost[few_in_flight] += counts[0];
                seen[few_in_flight] += counts[1];
                assert!(counts[1] * 2 >= counts[0], "{element} {cc}: {counts:?}");
                assert!(
                    matches!(cause, Cause::Policer | Cause::Unclear),
                    "{element} {cc}: {cause}"
                );
                found += usize::from(cause == Cause::Policer);
            }
        }
    }
    assert!(near(lost[0], seen[0], 0.01), "{lost:?} {seen:?}");
    assert!(near(lost[1], seen[1], 0.2), "{lost:?} {seen:?}");
    assert!(found >= 9, "{found} of 36");
}

/// A larger window would make the queue longer, and the transfer no faster. At the client the round trips do not tell how
/// long packets waited on the way.
#[test]
fn a_window_that_a_queue_fills_does_not_limit_the_transfer() {
    let element = "kind = \"link\"\nrate = \"5mbit\"\nqueue = \"4MB\"";
    for cc in ["cubic", "reno", "vegas"] {
        for window in ["60kB", "150kB", "600kB"] {
            let keys = format!("receive-window = \"{window}\"");
            let [server, _, client] = causes(element, cc, &keys);
            assert_eq!(server, Cause::Queue, "{cc} {window}");
            assert_ne!(client, Cause::ReceiveWindow, "{cc} {window}");
        }
    }
    // What does not fill the line is limited by the window.
    let element = "kind = \"link\"\nrate = \"20mbit\"\nqueue = \"4MB\"";
    let [server, ..] = causes(element, "cubic", "receive-window = \"30kB\"");
    assert_eq!(server, Cause::ReceiveWindow);
}

#[test]
fn behind_the_bottleneck_nothing_else_is_taken_for_a_policer() {
    for element in [
        "kind = \"loss\"\nprobability = 0.004",
        "kind = \"loss\"\nprobability = 0.02\nburst = 4",
        "kind = \"link\"\nrate = \"5mbit\"\nqueue = \"40kB\"",
        "kind = \"link\"\nrate = \"20mbit\"\nqueue = \"150kB\"",
        "kind = \"link\"\nrate = \"20mbit\"\nqueue = \"codel\"",
        "kind = \"link\"\nrate = \"5mbit\"\nqueue = \"pie\"",
        "kind = \"link\"\nrate = \"20mbit\"\nqueue = { kind = \"red\", limit = \"200kB\" }",
    ] {
        for cc in ["cubic", "reno", "bbr"] {
            let [_, behind @ ..] = causes(element, cc, "");
            for cause in behind {
                assert_ne!(cause, Cause::Policer, "{element} {cc}");
            }
        }
    }
}

/// Senders write into their packets when they sent them. Without that, most of these verdicts are unclear.
#[test]
fn by_the_clocks_of_senders_a_receiver_tells_causes_that_it_does_not_tell_without() {
    let shaper = "kind = \"shaper\"\npolicy = \"queue\"\nrate = \"5mbit\"\nqueue = \"150kB\"\nburst = \"1MB\"";
    let codel = "kind = \"link\"\nrate = \"20mbit\"\nqueue = \"codel\"";
    let queue = "kind = \"link\"\nrate = \"5mbit\"\nqueue = \"40kB\"";
    let loss = "kind = \"loss\"\nprobability = 0.004";
    let policer = "kind = \"policer\"\nrate = \"5mbit\"\nburst = \"100kB\"";
    let (mut told, mut told_without) = (0, 0);
    for (element, truth) in [
        (shaper, Cause::ShaperBurst),
        (codel, Cause::Aqm),
        (queue, Cause::Queue),
        (loss, Cause::RandomLoss),
        (policer, Cause::Policer),
    ] {
        for cc in ["cubic", "reno", "bbr"] {
            let [.., client] = causes(element, cc, "");
            let [.., without] = causes(element, cc, "timestamps = false");
            println!("{truth} {cc}: {client}, without timestamps {without}");
            told += usize::from(client == truth);
            told_without += usize::from(without == truth);
        }
    }
    assert!(told >= 11, "{told} of 15");
    assert!(told_without < told, "{told_without} without timestamps");
}

/// A queue without losses shows in the middle by how long packets took from the sender; the receiver's window by what the sender
/// knew when it sent.
#[test]
fn a_queue_and_a_receive_window_show_anywhere() {
    let queue = "kind = \"link\"\nrate = \"5mbit\"\nqueue = \"10000 packets\"";
    let window = "receive-window = \"64kB\"";
    let fast = "kind = \"link\"\nrate = \"100mbit\"";
    for cc in ["cubic", "bbr"] {
        assert_eq!(causes(queue, cc, ""), [Cause::Queue; 3], "{cc}");
        assert_eq!(causes(fast, cc, window), [Cause::ReceiveWindow; 3], "{cc}");
    }
}

/// An end answers a packet in less than this, in nanoseconds.
const ANSWER: Nanos = 50_000;

/// The capture as another capture queue would have it, in which answers come 3 µs before the packets that they
/// answer: acknowledgements before data, or data before the acknowledgements that let them go.
fn answers_first(capture: Vec<u8>, answers_are_data: bool) -> Vec<u8> {
    let mut capture = Capture::new(Cursor::new(capture)).unwrap();
    let mut frames: Vec<(Nanos, Vec<u8>, u32)> = Vec::new();
    let mut last = [0; 2];
    while let Some(frame) = capture.frame().unwrap() {
        let packet = decode(&frame).unwrap();
        let is_data = packet.payload > 0;
        let asked = last[usize::from(!is_data)];
        let mut at = frame.at;
        if is_data == answers_are_data && asked != 0 && at - asked < ANSWER {
            at = asked - 3_000;
        }
        last[usize::from(is_data)] = frame.at;
        frames.push((at, frame.data.to_vec(), frame.wire_len));
    }
    frames.sort_by_key(|frame| frame.0);
    let mut writer = PcapWriter::new(Vec::new(), LinkType::ETHERNET, Resolution::Nanos).unwrap();
    for (at, bytes, wire_len) in frames {
        writer.frame(at, &bytes, wire_len).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn the_order_in_which_a_host_captures_both_directions_does_not_matter() {
    for cc in ["cubic", "bbr"] {
        let captures = captured("kind = \"policer\"\nrate = \"5mbit\"\nburst = \"32kB\"", cc);
        for (capture, answers_are_data) in captures.into_iter().zip([true, false]) {
            let (before, cause) = judge(capture.clone());
            let swapped = answers_first(capture.clone(), answers_are_data);
            assert_ne!(capture, swapped);
            let (after, cause_after) = judge(swapped);
            assert_eq!(cause, cause_after);
            assert_eq!(before.path.vantage(), after.path.vantage());
            let [a, b] = [before, after].map(|summary| summary.metrics);
            assert_eq!(a.lost_packets, b.lost_packets);
            assert_eq!(a.retransmitted_packets, b.retransmitted_packets);
            let [a, b] = [a, b].map(|metrics| metrics.rtt.unwrap().median);
            assert!(a.abs_diff(b) <= 10_000, "{a} {b}");
        }
    }
}
