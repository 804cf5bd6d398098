use std::collections::BTreeMap;
use std::process::Command;

use tidegate_trace::read::Capture;
use tidegate_trace::wire::{Flags, Packet as Read, Skip, decode};

use tidegate_limiter::PolicerConfig;

use super::*;
use crate::plan::{ElementKind, ElementPlan, Plan};
use crate::sim::run;
use crate::sim::testing::*;
use crate::{MILLISECOND, SECOND};

fn tap(name: &str, file: PathBuf) -> ElementPlan {
    let snaplen = 96;
    element(name, ElementKind::Tap { file, snaplen })
}

/// Two transfers and datagrams through a policer, with a tap at the server and one at the client.
fn policed(dir: &Path) -> Plan {
    let policer = ElementKind::Limiter {
        config: PolicerConfig::new(rate(5_000_000), 30_000).unwrap().into(),
        classes: None,
        overhead: 14,
    };
    let elements = vec![
        tap("server", dir.join("server.pcap")),
        element("policer", policer),
        tap("client", dir.join("client.pcap")),
    ];
    let flows = vec![bulk(Some(3_000_000)), bulk(None), datagrams(500_000, 300)];
    let mut plan = plan(elements, flows);
    for flow in &mut plan.flows {
        flow.back = vec![2, 0];
    }
    plan.flows[1].dscp = 10;
    plan.duration = 5 * SECOND;
    plan
}

/// All TCP packets of a capture, and the number of others.
fn read(file: PathBuf) -> (Vec<Read>, usize) {
    let mut capture = Capture::new(File::open(file).unwrap()).unwrap();
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
    let dir = tempfile::tempdir().unwrap();
    let got = run(&policed(dir.path()), &mut |_| true).unwrap();
    let (server, server_udp) = read(dir.path().join("server.pcap"));
    let (client, client_udp) = read(dir.path().join("client.pcap"));
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
        // The drops of the policer are what is missing at the client, but for what is under way.
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
    let mut plan = policed(dir.path());
    for element in &mut plan.elements {
        if let ElementKind::Tap { snaplen, .. } = &mut element.kind {
            *snaplen = 65_535;
        }
    }
    let got = run(&plan, &mut |_| true).unwrap();
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
            // 1 is good; datagrams have no TCP checksum, segments none of UDP.
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
            // tshark guesses, the lab knows: some it takes for data that came late.
            let told: u64 = got.flows.iter().map(|flow| flow.retransmitted).sum();
            let near = again.abs_diff(told) <= told / 10;
            assert!(near, "tshark finds {again} of {told} retransmissions");
        }
    }
}

#[test]
fn captures_are_complete_or_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let plan = policed(dir.path());
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let mut seen = 0;
    let ended = run(&plan, &mut |_| {
        seen = files();
        false
    });
    assert!(matches!(ended, Err(RunError::Interrupted)));
    assert_eq!((seen, files()), (2, 0));

    let nowhere = policed(&dir.path().join("no/such/folder"));
    let error = run(&nowhere, &mut |_| true).unwrap_err();
    // The reason is in it: with the source, whoever tells the whole chain would tell it twice.
    assert!(std::error::Error::source(&error).is_none());
    let error = error.to_string();
    assert!(error.contains("no/such/folder/server.pcap"), "{error}");

    let bytes = || std::fs::read(dir.path().join("server.pcap")).unwrap();
    run(&plan, &mut |_| true).unwrap();
    let first = bytes();
    run(&plan, &mut |_| true).unwrap();
    assert_eq!(first, bytes(), "byte for byte");
    assert_eq!(files(), 2);
}
