use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tidegate_trace::read::Capture;
use tidegate_trace::wire::{Flags, Packet as Read, Skip, decode};

use tidegate_limiter::PolicerConfig;

use super::*;
use crate::experiment::{Settings, simulate};
use crate::outcome::Outcome;
use crate::plan::{ElementKind, ElementPlan, Plan};
use crate::testing::*;
use crate::{MILLISECOND, SECOND};

fn tap(name: &str) -> ElementPlan {
    element(name, ElementKind::Tap { snaplen: 96 })
}

/// Two transfers and datagrams through a policer, with a tap at the server and one at the client.
fn policed() -> Plan {
    let policer = ElementKind::Limiter {
        config: PolicerConfig::new(rate(5_000_000), 30_000).unwrap().into(),
        classes: None,
        overhead: 14,
    };
    let elements = vec![tap("server"), element("policer", policer), tap("client")];
    let flows = vec![bulk(Some(3_000_000)), bulk(None), datagrams(500_000, 300)];
    let mut plan = plan(elements, flows);
    for flow in &mut plan.flows {
        flow.back = vec![2, 0];
    }
    plan.flows[1].dscp = 10;
    plan.duration = 5 * SECOND;
    plan
}

/// The outcome of a plan, and its captures.
fn captured(plan: &Plan) -> (Outcome, BTreeMap<String, Vec<u8>>) {
    let captures = InMemory::default();
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let settings = Settings {
        jobs: 1,
        captures: Some(&captures),
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    let (outcome, names) = simulate(plan, "", settings).unwrap().unwrap();
    assert_eq!(names, ["server.pcap", "client.pcap"]);
    (outcome, captures.into_captures())
}

/// All TCP packets of a capture, and the number of others.
fn read(capture: &[u8]) -> (Vec<Read>, usize) {
    let mut capture = Capture::new(std::io::Cursor::new(capture.to_vec())).unwrap();
    let (mut packets, mut others) = (Vec::new(), 0);
    while let Some(frame) = capture.frame().unwrap() {
        match decode(&frame) {
            Ok(packet) => packets.push(packet),
            Err(Skip::NotTcp) => others += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    (packets, others)
}

#[test]
fn captures_tell_what_happened() {
    let (got, captures) = captured(&policed());
    let (server, server_udp) = read(&captures["server.pcap"]);
    let (client, client_udp) = read(&captures["client.pcap"]);
    assert_eq!(got.elements[0].packets as usize, server.len() + server_udp);
    assert_eq!(got.elements[2].packets as usize, client.len() + client_udp);
    assert_eq!(got.flows[2].sent_packets as usize, server_udp);

    for (index, flow) in got.flows[..2].iter().enumerate() {
        let address = std::net::IpAddr::from([10, 128, 0, index as u8 + 1]);
        let data = |packets: &[Read]| -> Vec<Read> {
            let of = packets.iter().filter(|packet| packet.dst.ip() == address);
            of.filter(|packet| packet.payload > 0).copied().collect()
        };
        let (sent, passed) = (data(&server), data(&client));
        assert_eq!(sent.len() as u64, flow.sent_packets);
        // The packets that are missing at the client are the drops of the policer, and those under
        // way.
        let missing = sent.len() as u64 - passed.len() as u64 - flow.dropped;
        assert!(missing < 100, "{missing}");
        // Sequence numbers sent twice are the retransmissions.
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        sent.iter()
            .for_each(|packet| *times.entry(packet.seq).or_default() += 1);
        let again: u64 = times.values().map(|times| times - 1).sum();
        assert!(again > 0 && again.abs_diff(flow.retransmitted) <= again / 20);
    }
    // The handshake, at the server: SYN after half a round trip, its answer, and a round trip later
    // the acknowledgement.
    let of_first: Vec<_> = (server.iter())
        .filter(|packet| packet.src.port() == 10_000 || packet.dst.port() == 10_000)
        .collect();
    let [syn, answer, ack, first] = of_first[..4] else {
        panic!()
    };
    assert_eq!((syn.flags, answer.flags), (Flags(2), Flags(0x12)));
    assert_eq!(syn.options.mss, Some(1460));
    assert_eq!(syn.options.window_scale, Some(7));
    assert!(syn.options.timestamps.is_some());
    assert_eq!(answer.ack, syn.seq.wrapping_add(1));
    assert_eq!((ack.seq, ack.ack), (answer.ack, answer.seq.wrapping_add(1)));
    assert_eq!(first.seq, ack.ack);
    assert_eq!(answer.at, syn.at);
    assert_eq!(ack.at, answer.at + 20 * MILLISECOND);
    assert!(
        server
            .iter()
            .any(|packet| !packet.options.sacks.blocks().is_empty())
    );
    let isn = |packets: &[Read]| {
        packets
            .iter()
            .find(|packet| packet.flags == Flags(2))
            .map(|syn| syn.seq)
    };
    assert!(isn(&server).is_some_and(|isn| isn > 0));
}

#[test]
fn tshark_finds_nothing_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = policed();
    for element in &mut plan.elements {
        if let ElementKind::Tap { snaplen } = &mut element.kind {
            *snaplen = 65_535;
        }
    }
    let (got, captures) = captured(&plan);
    for (file, bytes) in &captures {
        std::fs::write(dir.path().join(file), bytes).unwrap();
    }
    for (index, file) in [(0, "server.pcap"), (2, "client.pcap")] {
        const FIELDS: [&str; 7] = [
            "ip.checksum.status",
            "tcp.checksum.status",
            "udp.checksum.status",
            "ip.dsfield.dscp",
            "tcp.analysis.retransmission",
            "tcp.analysis.out_of_order",
            "_ws.malformed",
        ];
        let mut tshark = Command::new("tshark");
        tshark.args(["-o", "ip.check_checksum:TRUE"]);
        tshark.args(["-o", "tcp.check_checksum:TRUE"]);
        tshark.args(["-o", "udp.check_checksum:TRUE", "-T", "fields"]);
        tshark.args(FIELDS.iter().flat_map(|field| ["-e", field]));
        let Ok(output) = tshark.arg("-r").arg(dir.path().join(file)).output() else {
            println!("skipped: tshark is not installed");
            return;
        };
        let (mut packets, mut marked, mut again) = (0, 0, 0);
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [ip, tcp, udp, dscp, retransmission, out_of_order, malformed] = fields[..] else {
                panic!("{line}")
            };
            // A valid checksum is 1; datagrams have no TCP checksum, and segments have none of UDP.
            assert!(
                ip == "1" && matches!((tcp, udp), ("1", "") | ("", "1")),
                "{line}"
            );
            assert_eq!(malformed, "", "{line}");
            packets += 1;
            marked += u64::from(dscp == "10");
            again += u64::from(retransmission == "1" || out_of_order == "1");
        }
        assert_eq!(packets, got.elements[index].packets);
        assert!(marked > got.flows[1].sent_packets / 2, "{marked}");
        if index == 0 {
            // tshark guesses, but the lab knows: tshark takes some retransmissions for data that
            // came late.
            let counted: u64 = got.flows.iter().map(|flow| flow.retransmitted).sum();
            let near = again.abs_diff(counted) <= counted / 10;
            assert!(near, "tshark finds {again} of {counted} retransmissions");
        }
    }
}

#[test]
fn a_plan_gives_the_same_captures_byte_for_byte() {
    assert_eq!(captured(&policed()).1, captured(&policed()).1);
}

#[test]
fn interrupted_captures_are_not_complete() {
    let captures = InMemory::default();
    let (stop, progress) = (AtomicBool::new(true), AtomicU64::new(0));
    let settings = Settings {
        jobs: 1,
        captures: Some(&captures),
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    assert_eq!(simulate(&policed(), "", settings).unwrap(), None);
    assert_eq!(captures.into_captures().len(), 0);
}
