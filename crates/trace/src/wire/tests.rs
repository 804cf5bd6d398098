use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::read::Frame;
use crate::read::LinkType;
use crate::write::{Ends, TcpFrame};

mod links;
mod options;
mod tunnels;

fn client() -> SocketAddr {
    ([10, 0, 0, 1], 50_000).into()
}

fn server() -> SocketAddr {
    ([192, 0, 2, 7], 443).into()
}

fn six(last: u16, port: u16) -> SocketAddr {
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], port).into()
}

/// 100 bytes of the server's, numbered 7, with nothing special about them.
fn plain() -> TcpFrame {
    TcpFrame {
        seq: 7,
        ack: 9,
        window: 500,
        payload: 100,
        ip_id: 77,
        ..TcpFrame::new(Ends {
            src: server(),
            dst: client(),
        })
    }
}

fn plain6() -> TcpFrame {
    TcpFrame {
        src: six(1, 443),
        dst: six(2, 50_000),
        ..plain()
    }
}

fn encode(frame: &TcpFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

/// The IP packet of a frame without its Ethernet header.
fn ip(frame: &TcpFrame) -> Vec<u8> {
    encode(frame)[14..].to_vec()
}

fn decode_as(link: LinkType, data: &[u8], wire_len: usize) -> Result<Packet, Skip> {
    decode(&Frame {
        outbound: None,
        at: 5,
        link,
        data,
        wire_len: wire_len as u32,
    })
}

fn ethernet(data: &[u8]) -> Result<Packet, Skip> {
    decode_as(LinkType::ETHERNET, data, data.len())
}

/// An IP packet behind an Ethernet header.
fn framed(kind: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x22; 12];
    bytes.extend(kind.to_be_bytes());
    bytes.extend(rest);
    bytes
}

/// Checks that the packet is [`plain`]'s, and returns it.
#[track_caller]
fn is_plain(found: Result<Packet, Skip>) -> Packet {
    let packet = found.unwrap();
    assert_eq!((packet.seq, packet.ack, packet.payload), (7, 9, 100));
    assert_eq!((packet.src.port(), packet.dst.port()), (443, 50_000));
    assert_eq!((packet.at, packet.window), (5, 500));
    packet
}

#[test]
fn ipv4_over_ethernet() {
    let packet = is_plain(ethernet(&encode(&plain())));
    assert_eq!(packet.src, server().into());
    assert_eq!(packet.dst, client().into());
    assert_eq!((packet.ip_id, packet.headers, packet.framing), (77, 40, 18));
    assert_eq!(packet.flags, Flags(Flags::ACK));
    assert_eq!(packet.options, Options::default());
    assert_eq!(packet.src.to_string(), "192.0.2.7:443");
}

#[test]
fn ipv6_over_ethernet() {
    let packet = is_plain(ethernet(&encode(&plain6())));
    assert_eq!(packet.src, six(1, 443).into());
    assert_eq!((packet.ip_id, packet.headers, packet.framing), (0, 60, 18));
    assert_eq!(packet.src.to_string(), "[2001:db8::1]:443");
}

#[test]
fn all_flags() {
    for bits in 0..=255 {
        let frame = TcpFrame {
            flags: bits,
            ..plain()
        };
        assert_eq!(ethernet(&encode(&frame)).unwrap().flags, Flags(bits));
    }
}

#[test]
fn what_is_not_tcp_or_not_ip() {
    let mut bytes = encode(&plain());
    bytes[14 + 9] = 17;
    assert_eq!(ethernet(&bytes).unwrap_err(), Skip::NotTcp);
    let mut bytes = encode(&plain6());
    bytes[14 + 6] = 58;
    assert_eq!(ethernet(&bytes).unwrap_err(), Skip::NotTcp);
    assert_eq!(
        ethernet(&framed(0x0806, &[0; 46])).unwrap_err(),
        Skip::NotIp
    );
    // The type says IP, the version does not.
    assert_eq!(
        ethernet(&framed(0x0800, &[0x50; 46])).unwrap_err(),
        Skip::NotIp
    );
}

#[test]
fn ipv4_options_are_headers() {
    let mut bytes = ip(&plain());
    bytes.splice(20..20, [0x94, 4, 0, 0, 1, 1, 1, 0]);
    bytes[0] = 0x47;
    bytes[3] += 8;
    let packet = is_plain(ethernet(&framed(0x0800, &bytes)));
    assert_eq!(packet.headers, 48);
}

#[test]
fn ipv4_fragments_are_skipped() {
    // More fragments, the last one, one in the middle; a TCP header or not.
    for flags in [[0x20, 0], [0, 100], [0x20, 100]] {
        let mut bytes = encode(&plain());
        bytes[20..22].copy_from_slice(&flags);
        assert_eq!(ethernet(&bytes).unwrap_err(), Skip::Fragment);
    }
    // May not be fragmented, and is not.
    let mut bytes = encode(&plain());
    bytes[20..22].copy_from_slice(&[0x40, 0]);
    is_plain(ethernet(&bytes));
}

#[test]
fn ipv4_headers_that_contradict_themselves() {
    let mut bytes = encode(&plain());
    bytes[14] = 0x44;
    assert_eq!(ethernet(&bytes).unwrap_err(), Skip::Malformed);
    let mut bytes = encode(&plain());
    bytes[16..18].copy_from_slice(&[0, 19]);
    assert_eq!(ethernet(&bytes).unwrap_err(), Skip::Malformed);
}

/// An IPv6 packet with these extension headers before TCP, each complete but for the first byte.
fn extended(headers: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = ip(&plain6());
    let mut all = Vec::new();
    for (i, (_, body)) in headers.iter().enumerate() {
        all.push(headers.get(i + 1).map_or(6, |next| next.0));
        all.extend(*body);
    }
    bytes[6] = headers[0].0;
    bytes[5] += all.len() as u8;
    bytes.splice(40..40, all);
    framed(0x86dd, &bytes)
}

const HOP_BY_HOP: (u8, &[u8]) = (0, &[0, 1, 4, 0, 0, 0, 0]);
const ROUTING: (u8, &[u8]) = (43, &[1, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
const DESTINATION: (u8, &[u8]) = (60, &[0, 1, 4, 0, 0, 0, 0]);
const ATOMIC: (u8, &[u8]) = (44, &[0, 0, 0, 1, 2, 3, 4]);

#[test]
fn ipv6_extension_headers() {
    let authentication: &[u8] = &{
        // Length in words of 4 bytes without the first two: 24 bytes.
        let mut body = [0; 23];
        body[0] = 4;
        body
    };
    let authentication = (51, authentication);
    for (headers, length) in [
        (&[HOP_BY_HOP][..], 8),
        (&[ROUTING], 16),
        (&[DESTINATION], 8),
        (&[authentication], 24),
        (&[ATOMIC], 8),
        (
            &[HOP_BY_HOP, DESTINATION, ROUTING, ATOMIC, authentication],
            64,
        ),
    ] {
        let packet = is_plain(ethernet(&extended(headers)));
        assert_eq!(packet.headers, 60 + length);
    }
}

#[test]
fn ipv6_fragments_are_skipped() {
    for field in [[0, 1], [0, 8], [0x10, 1]] {
        let header = [0, field[0], field[1], 1, 2, 3, 4];
        let bytes = extended(&[(44, &header)]);
        assert_eq!(ethernet(&bytes).unwrap_err(), Skip::Fragment);
    }
}

#[test]
fn ipv6_with_endless_extension_headers_is_malformed() {
    assert_eq!(
        ethernet(&extended(&[DESTINATION; 15])).map(|packet| packet.payload),
        Ok(100)
    );
    assert_eq!(
        ethernet(&extended(&[DESTINATION; 16])).unwrap_err(),
        Skip::Malformed
    );
}

#[test]
fn super_packets_without_a_length() {
    // BIG TCP: the frame's length is the only one, and the capture kept a part.
    for frame in [plain(), plain6()] {
        let frame = TcpFrame {
            payload: 200_000,
            snaplen: 128,
            ..frame
        };
        let mut bytes = Vec::new();
        let wire_len = frame.encode(&mut bytes);
        assert_eq!(bytes.len(), 128);
        let packet = decode_as(LinkType::ETHERNET, &bytes, wire_len as usize).unwrap();
        assert_eq!(packet.payload, 200_000);
    }
}

#[test]
fn a_super_packet_with_a_length_is_what_it_says() {
    let frame = TcpFrame {
        payload: 65_160,
        snaplen: 96,
        ..plain()
    };
    let mut bytes = Vec::new();
    let wire_len = frame.encode(&mut bytes);
    let packet = decode_as(LinkType::ETHERNET, &bytes, wire_len as usize).unwrap();
    assert_eq!(packet.payload, 65_160);
}

#[test]
fn ipv6_jumbo_payload() {
    let length = 8 + 20 + 300_000u32;
    let mut jumbo = vec![0, 0xc2, 4];
    jumbo.extend(length.to_be_bytes());
    let mut bytes = extended(&[(0, &jumbo)]);
    bytes[18..20].copy_from_slice(&[0, 0]);
    let wire_len = 14 + 40 + length as usize;
    let packet = decode_as(LinkType::ETHERNET, &bytes, wire_len).unwrap();
    assert_eq!(packet.payload, 300_000);
    assert_eq!(packet.headers, 68);
}

/// An IP length beyond the frame's on the wire is a part of a packet, or a lie.
#[test]
fn what_claims_more_than_the_frame_holds_is_malformed_unless_its_header_is_sound() {
    let mut bytes = Vec::new();
    let wire_len = plain().encode(&mut bytes) as usize;
    assert!(decode_as(LinkType::ETHERNET, &bytes, wire_len).is_ok());
    bytes[16..18].copy_from_slice(&65_000u16.to_be_bytes());
    let found = decode_as(LinkType::ETHERNET, &bytes, wire_len);
    assert_eq!(found.unwrap_err(), Skip::Malformed);
    // A checksum that is left to the network card says nothing.
    bytes[24..26].fill(0);
    let found = decode_as(LinkType::ETHERNET, &bytes, wire_len).unwrap();
    assert_eq!((found.payload, found.sliced), (65_000 - 40, true));
}

/// A tap or a mirror keeps the first bytes, and the capture takes that for the whole.
#[test]
fn a_frame_that_was_cut_before_it_was_captured_has_the_length_of_its_header() {
    for (frame, headers) in [(plain(), 54), (plain6(), 74)] {
        let frame = TcpFrame {
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            ..frame
        };
        let bytes = encode(&frame);
        let options = headers + 12;
        for kept in options..options + 100 {
            let packet = is_plain(ethernet(&bytes[..kept]));
            assert!(packet.sliced && !packet.options.cut, "{kept} bytes");
        }
        assert!(!is_plain(ethernet(&bytes)).sliced);
        // Without the whole header of TCP it is no packet.
        for kept in headers - 6..options {
            assert_eq!(
                ethernet(&bytes[..kept]).unwrap_err(),
                Skip::Malformed,
                "{kept} bytes"
            );
        }
    }
}

#[test]
fn what_claims_more_than_any_super_packet_is_malformed() {
    let frame = TcpFrame {
        payload: 2 << 20,
        snaplen: 96,
        ..plain()
    };
    let mut bytes = Vec::new();
    let wire_len = frame.encode(&mut bytes);
    let found = decode_as(LinkType::ETHERNET, &bytes, wire_len as usize);
    assert_eq!(found.unwrap_err(), Skip::Malformed);
}

#[test]
fn ethernets_padding_is_no_payload() {
    for (frame, headers) in [(plain(), 40), (plain6(), 60)] {
        for payload in [0, 1] {
            let mut bytes = encode(&TcpFrame { payload, ..frame });
            bytes.resize(bytes.len() + 20, 0xee);
            let packet = ethernet(&bytes).unwrap();
            assert_eq!((packet.payload, packet.headers), (payload, headers));
        }
    }
}

#[test]
fn a_snapshot_that_ends_before_the_flags_is_cut() {
    for frame in [plain(), plain6()] {
        let bytes = encode(&frame);
        let flags = bytes.len() - 100 - 20 + 14;
        for end in 0..flags {
            let found = decode_as(LinkType::ETHERNET, &bytes[..end], bytes.len());
            assert_eq!(found.unwrap_err(), Skip::Cut, "{end}");
        }
        // The window may be missing; then it is taken for open.
        let found = decode_as(LinkType::ETHERNET, &bytes[..flags], bytes.len()).unwrap();
        assert_eq!((found.payload, found.window), (100, u16::MAX));
        is_plain(decode_as(
            LinkType::ETHERNET,
            &bytes[..flags + 2],
            bytes.len(),
        ));
    }
}

#[test]
fn a_tcp_header_that_contradicts_itself() {
    for offset in [0, 4] {
        let mut bytes = encode(&plain());
        bytes[14 + 20 + 12] = offset << 4;
        assert_eq!(ethernet(&bytes).unwrap_err(), Skip::Malformed);
    }
    // A header longer than the packet.
    let mut bytes = encode(&TcpFrame {
        payload: 0,
        ..plain()
    });
    bytes[14 + 20 + 12] = 6 << 4;
    assert_eq!(ethernet(&bytes).unwrap_err(), Skip::Malformed);
}

/// The Internet checksum of correct bytes, their checksum field included, is 0.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn what_the_writer_writes_has_sound_checksums() {
    let full = TcpFrame {
        payload: 1001,
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        sacks: Sacks::new([1..2, 3..4]),
        ..plain()
    };
    let bytes = ip(&full);
    assert_eq!(checksum(&[&bytes[..20]]), 0);
    let length = (bytes.len() - 20) as u16;
    let pseudo = [&bytes[12..20], &[0, 6][..], &length.to_be_bytes()].concat();
    assert_eq!(checksum(&[&pseudo, &bytes[20..]]), 0);
    let bytes = ip(&TcpFrame {
        src: six(1, 443),
        dst: six(2, 50_000),
        ..full
    });
    let length = (bytes.len() - 40) as u32;
    let pseudo = [&bytes[8..40], &length.to_be_bytes()[..], &[0, 0, 0, 6]].concat();
    assert_eq!(checksum(&[&pseudo, &bytes[40..]]), 0);
}

#[test]
#[should_panic = "IPv4"]
fn the_writer_refuses_mixed_versions() {
    encode(&TcpFrame::new(Ends {
        src: client(),
        dst: six(1, 1),
    }));
}

const LINKS: [u16; 14] = [0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 229, 276, 147];

proptest! {
    #[test]
    fn any_bytes_decode_or_not(
        link in prop::sample::select(&LINKS[..]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        more in 0usize..100_000,
    ) {
        let _ = decode_as(LinkType(link), &bytes, bytes.len() + more);
    }

    /// Nearly sound frames: a few bytes changed, and cut anywhere.
    #[test]
    fn any_damage_decodes_or_not(
        v6: bool,
        vlan: Option<u16>,
        changes in prop::collection::vec((0usize..120, any::<u8>()), 0..6),
        end in 0usize..200,
        blocks in prop::collection::vec(any::<(u32, u32)>(), 0..5),
    ) {
        let frame = TcpFrame {
            vlan,
            sacks: Sacks::new(blocks.iter().map(|&(start, end)| start..end)),
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            ..if v6 { plain6() } else { plain() }
        };
        let mut bytes = encode(&frame);
        let n = bytes.len();
        for (place, value) in changes {
            bytes[place % n] = value;
        }
        let wire_len = bytes.len();
        bytes.truncate(end);
        let _ = decode_as(LinkType::ETHERNET, &bytes, wire_len);
    }

    /// What is written is what is read.
    #[test]
    fn the_writers_fields_come_back(
        (v6, vlan) in any::<(bool, Option<u16>)>(),
        (seq, ack, window, flags) in any::<(u32, u32, u16, u8)>(),
        payload in 0u32..300_000,
        (ip_id, hops) in any::<(u16, u8)>(),
        (mss, window_scale, sack_permitted) in any::<(Option<u16>, Option<u8>, bool)>(),
        timestamps in any::<Option<[u32; 2]>>(),
        blocks in prop::collection::vec(any::<(u32, u32)>(), 0..6),
        snaplen in 100usize..400,
    ) {
        let timestamps = timestamps.map(|[value, echo]| Timestamps { value, echo });
        let frame = TcpFrame {
            seq, ack, window, flags, payload, ip_id, hops, vlan, mss, window_scale,
            sack_permitted, timestamps, sacks: Sacks::new(blocks.iter().map(|&(start, end)| start..end)), snaplen,
            ..if v6 { plain6() } else { plain() }
        };
        let mut bytes = Vec::new();
        let wire_len = frame.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), snaplen.min(wire_len as usize));
        let packet = decode_as(LinkType::ETHERNET, &bytes, wire_len as usize).unwrap();
        prop_assert_eq!((packet.seq, packet.ack, packet.window), (seq, ack, window));
        prop_assert_eq!((packet.flags, packet.payload), (Flags(flags), payload));
        prop_assert_eq!((packet.ip_id, packet.hops), (if v6 { 0 } else { ip_id }, hops));
        if packet.options.cut {
            return Ok(());
        }
        prop_assert_eq!(packet.options.mss, mss);
        prop_assert_eq!(packet.options.window_scale, window_scale);
        prop_assert_eq!(packet.options.timestamps, timestamps);
        let found = packet.options.sacks.blocks();
        let kept = Sacks::new(blocks.iter().take(found.len()).map(|&(start, end)| start..end));
        prop_assert_eq!(packet.options.sacks, kept);
        // All that the header has space for.
        let least = if timestamps.is_none() && mss.is_none() { 3 } else { 2 };
        prop_assert!(found.len() >= blocks.len().min(least));
    }
}
