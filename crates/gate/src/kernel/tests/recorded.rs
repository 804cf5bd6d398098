//! Tests that the programs and the limiter crate decide in the same way about recorded packets: at
//! the times at which they were captured, with their headers and lengths.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use tidegate_limiter::{Classifier, Decision, Headers, Ports, Rule};
use tidegate_trace::read::{Capture, LinkType};
use tidegate_trace::wire::{self, Packet};

use super::same::Reference;
use super::*;

/// Longer than a test at tc allows: a packet must fit into a page together with the data around it.
const LARGE: usize = 3_000;

/// The packets of a capture as `trace` parses them, and their frames in full length.
struct Recording {
    packets: Vec<(Packet, Vec<u8>)>,
    /// Bytes from the IP header on.
    bytes: u64,
}

impl Recording {
    fn read(path: &Path) -> Self {
        let mut capture = Capture::new(File::open(path).unwrap()).unwrap();
        let (mut packets, mut bytes) = (Vec::new(), 0);
        while let Some(frame) = capture.frame().unwrap() {
            assert_eq!(frame.link, LinkType::ETHERNET, "{}", path.display());
            let Ok(packet) = wire::decode(&frame) else {
                continue;
            };
            bytes += u64::from(length(&packet));
            let mut whole = frame.data.to_vec();
            whole.resize(frame.wire_len as usize, 0);
            packets.push((packet, whole));
        }
        Self { packets, bytes }
    }

    /// Bit/s from the first packet to the last.
    fn rate(&self) -> u64 {
        let (first, last) = (
            self.packets[0].0.at,
            self.packets[self.packets.len() - 1].0.at,
        );
        (u128::from(self.bytes) * 8_000_000_000 / u128::from(last - first)) as u64
    }
}

/// Bytes from the IP header on, by its headers.
fn length(packet: &Packet) -> u32 {
    u32::from(packet.headers) + packet.payload
}

/// Sends a recording through both. Returns how many of its packets were dropped.
fn compare(gate: &mut Gate, recording: &Recording, plan: &Draft, version: u32) -> u64 {
    let (tc, xdp): (OwnedFd, OwnedFd) = (gate.program("tc_down"), gate.program("xdp_down"));
    // One limiter has the packets of all addresses.
    let everybody = ["0.0.0.0/0", "::/0"].map(|text| {
        let seat = Seat {
            limiter: 0,
            plan: version,
            version,
            ..Seat::default()
        };
        (Match::Prefix(text.parse().unwrap()), seat)
    });
    let kernel = gate.kernel();
    kernel.put_plan(version, &plan.plan()).unwrap();
    kernel.forget(0).unwrap();
    kernel.seat(Direction::Down, &everybody).unwrap();
    let rules = plan.rules.clone();
    let key = settings().hash;
    let classifier = Classifier::new(&plan.program, rules, plan.default_class, key).unwrap();
    let mut reference = Reference::new(plan, recording.packets[0].0.at);
    let mut expected = Counters::default();
    for (number, (packet, frame)) in recording.packets.iter().enumerate() {
        let (source, destination) = (packet.src, packet.dst);
        let headers = Headers {
            source: source.ip(),
            destination: destination.ip(),
            protocol: 6,
            ports: Some(Ports {
                source: source.port(),
                destination: destination.port(),
            }),
            dscp: 0,
        };
        let meta = classifier.classify(&headers.into(), length(packet));
        let passes = reference.offer(packet.at, &meta) == Decision::Pass;
        let (packets, bytes) = match passes {
            true => (&mut expected.passed_packets, &mut expected.passed_bytes),
            false => (&mut expected.excess_packets, &mut expected.excess_bytes),
        };
        *packets += 1;
        *bytes += u64::from(length(packet));
        kernel
            .update("test_time", &0u32.to_ne_bytes(), &packet.at.to_ne_bytes())
            .unwrap();
        let passed = match frame.len() > LARGE {
            true => run(&xdp, frame) != 1,
            false => run(&tc, frame) != 2,
        };
        assert_eq!(
            passed, passes,
            "packet {number}, {} under {:?}: {packet:?}",
            plan.rate, plan.means
        );
    }
    assert_eq!(kernel.read(0).unwrap().counters, expected);
    expected.excess_packets
}

/// All means, at rates that are too low for it by half and nearly enough.
fn compare_all(gate: &mut Gate, path: &Path) {
    let recording = Recording::read(path);
    let count = recording.packets.len() as u64;
    assert!(count > 100, "{count} packets in {}", path.display());
    let fair = PolicyTree::fair(16).unwrap();
    // Clients that the server answers, and others. The rate is shared by weight, and within a class
    // by flow.
    let parts = vec![(5, PolicyTree::fair(8).unwrap()), (1, PolicyTree::queue())];
    let nested = PolicyTree::weighted(parts).unwrap();
    let server = Rule {
        source_ports: 1..=9_999,
        ..Rule::default()
    };
    let mut version = 0;
    for percent in [50, 90] {
        let rate = recording.rate() * percent / 100;
        let size = (rate / 80).max(3_000); // 100 ms
        let control = Some(BurstControl::default());
        for (means, policy) in [
            (Means::Policer { burst: size }, &fair),
            (Means::PhantomQueues { size, control }, &fair),
            (Means::PhantomQueues { size, control }, &nested),
            (
                Means::PhantomQueues {
                    size,
                    control: None,
                },
                &fair,
            ),
            (
                Means::PhantomQueues {
                    size,
                    control: None,
                },
                &nested,
            ),
        ] {
            let mut plan = draft(means, policy);
            plan.rate = Rate::from_bits_per_second(rate);
            if std::ptr::eq(policy, &nested) {
                plan.rules = vec![server.clone()];
            }
            version += 1;
            let dropped = compare(gate, &recording, &plan, version);
            assert!(
                (1..count).contains(&dropped) && (percent > 50 || dropped > count / 20),
                "{dropped} of {count} of {}, {} under {:?}",
                path.display(),
                plan.rate,
                plan.means
            );
        }
    }
}

#[test]
fn recorded_packets_are_decided_as_by_the_reference() {
    let Some(mut gate) = gate("recorded_packets_are_decided_as_by_the_reference") else {
        return;
    };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    for name in ["policed-1500kbit", "shaped-1500kbit"] {
        compare_all(
            &mut gate,
            &corpus.join(name).join(format!("{name}.pcap.xz")),
        );
    }
}

#[test]
fn a_large_recording_is_decided_as_by_the_reference() {
    let test = "a_large_recording_is_decided_as_by_the_reference";
    let Some(traces) = std::env::var_os("TIDEGATE_TRACES") else {
        let mut stderr = std::io::stderr();
        writeln!(stderr, "skipped {test}: TIDEGATE_TRACES is not set").unwrap();
        return;
    };
    let Some(mut gate) = gate(test) else { return };
    // The largest recording: several connections, and a limiter that they shared.
    let folder = std::fs::read_dir(Path::new(&traces).join("usc")).unwrap();
    let captures = folder.map(|entry| entry.unwrap()).filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().ends_with(".pcap.xz")
    });
    let largest = captures.max_by_key(|entry| entry.metadata().unwrap().len());
    compare_all(&mut gate, &largest.unwrap().path());
}
