use std::net::SocketAddr;

use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire::{self, Flags, Packet, Sacks};
use tidegate_trace::write::{Ends, TcpFrame};

use super::Watch;

const MS: u64 = 1_000_000;
/// Chosen so that the data passes the end of 32 bits.
const ISN: u32 = u32::MAX - 2000;

fn packet(at: u64, frame: impl FnOnce(TcpFrame) -> TcpFrame) -> Packet {
    let [server, client] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 5001)));
    let mut data = Vec::new();
    let wire_len = frame(TcpFrame::new(Ends {
        src: server,
        dst: client,
    }))
    .encode(&mut data);
    let frame = Frame {
        outbound: None,
        at,
        link: LinkType::ETHERNET,
        data: &data,
        wire_len,
    };
    wire::decode(&frame).unwrap()
}

fn begun() -> Watch {
    let mut watch = Watch::default();
    let flags = Flags::SYN | Flags::ACK;
    watch.sent(&packet(0, |frame| TcpFrame {
        seq: ISN,
        flags,
        ..frame
    }));
    watch
}

/// 1000 bytes from this offset of the data.
fn send(watch: &mut Watch, at: u64, offset: u32) -> bool {
    let seq = ISN.wrapping_add(1 + offset);
    watch.sent(&packet(at * MS, |frame| TcpFrame {
        seq,
        payload: 1000,
        ..frame
    }))
}

/// The round-trip time in milliseconds that results.
fn acknowledge(watch: &mut Watch, at: u64, offset: u32, sacks: &[(u32, u32)]) -> Option<u64> {
    let number = |offset| ISN.wrapping_add(1 + offset);
    let sacks = (sacks.iter()).map(|&(start, end)| number(start)..number(end));
    let (ack, sacks) = (number(offset), Sacks::new(sacks));
    let packet = packet(at * MS, |frame| TcpFrame {
        ack,
        sacks,
        ..frame
    });
    watch.acknowledged(at * MS, &packet).map(|rtt| rtt / MS)
}

#[test]
fn an_acknowledgement_times_the_latest_it_is_of() {
    let mut watch = begun();
    assert!(!send(&mut watch, 1, 0));
    assert!(!send(&mut watch, 3, 1000));
    assert_eq!(acknowledge(&mut watch, 23, 2000, &[]), Some(20));
}

#[test]
fn what_was_sent_twice_times_nothing() {
    let mut watch = begun();
    for i in 0..4 {
        send(&mut watch, u64::from(i), i * 1000);
    }
    // The second packet is lost. The data after it is timed when it is selectively acknowledged,
    // and not again when the hole is filled.
    assert_eq!(acknowledge(&mut watch, 20, 1000, &[]), Some(20));
    assert_eq!(acknowledge(&mut watch, 22, 1000, &[(2000, 3000)]), Some(20));
    assert_eq!(acknowledge(&mut watch, 25, 1000, &[(2000, 4000)]), Some(22));
    assert!(send(&mut watch, 30, 1000));
    assert_eq!(acknowledge(&mut watch, 50, 4000, &[]), None);
    // Later data is timed again; a duplicate acknowledgement is not.
    assert!(!send(&mut watch, 60, 4000));
    assert_eq!(acknowledge(&mut watch, 81, 5000, &[(1000, 2000)]), Some(21));
    assert_eq!(acknowledge(&mut watch, 82, 5000, &[]), None);
}

#[test]
fn a_packet_cut_in_another_way_counts_as_sent_again() {
    let mut watch = begun();
    send(&mut watch, 1, 0);
    // Half of it old, half new: neither half can be timed.
    assert!(send(&mut watch, 2, 500));
    assert_eq!(acknowledge(&mut watch, 20, 1500, &[]), None);
}
