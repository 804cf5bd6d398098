use super::*;

/// A packet with this protocol over IPv4 and over IPv6, behind Ethernet.
fn carried(protocol: u8, rest: &[u8]) -> [Vec<u8>; 2] {
    let mut v4 = vec![0x45, 0];
    v4.extend((20 + rest.len() as u16).to_be_bytes());
    v4.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    v4.extend([10, 9, 9, 1, 10, 9, 9, 2]);
    v4.extend(rest);
    let mut v6 = vec![0x60, 0, 0, 0];
    v6.extend((rest.len() as u16).to_be_bytes());
    v6.extend([protocol, 64]);
    v6.extend([0xfd; 32]);
    v6.extend(rest);
    [framed(0x0800, &v4), framed(0x86dd, &v6)]
}

fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xc0, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend((8 + rest.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(rest);
    bytes
}

/// Checks that [`plain`] is found behind this header, whichever IP is outside and inside, with so
/// many bytes around it besides the outer IP header.
#[track_caller]
fn holds(protocol: u8, header: &[u8], inner: fn(&TcpFrame) -> Vec<u8>, around: usize) {
    for frame in [plain(), plain6()] {
        let rest = [header, &inner(&frame)].concat();
        let outer = carried(protocol, &rest);
        for (outer, ip) in outer.iter().zip([20, 40]) {
            let packet = is_plain(ethernet(outer));
            assert_eq!(packet.src, frame.src.into());
            assert_eq!(usize::from(packet.framing), 18 + ip + around);
            // Cut anywhere, it is cut or found, and nothing else.
            for kept in 0..outer.len() {
                match decode_as(LinkType::ETHERNET, &outer[..kept], outer.len()) {
                    Ok(packet) => assert_eq!((packet.seq, packet.payload), (7, 100)),
                    Err(skip) => assert_eq!(skip, Skip::Cut, "{kept} bytes"),
                }
            }
        }
    }
}

/// Of either version, by the type that Ethernet and GRE give it.
fn kind(frame: &TcpFrame) -> u16 {
    if frame.src.is_ipv4() { 0x0800 } else { 0x86dd }
}

#[test]
fn ip_in_ip() {
    holds(4, &[], ip, 0);
    holds(41, &[], ip, 0);
}

#[test]
fn gre_with_and_without_options() {
    let typed = |frame: &TcpFrame| [&kind(frame).to_be_bytes()[..], &ip(frame)].concat();
    holds(47, &[0, 0], typed, 4);
    // Checksum, key and sequence number.
    let all = |frame: &TcpFrame| [&kind(frame).to_be_bytes()[..], &[7; 12], &ip(frame)].concat();
    holds(47, &[0xb0, 0], all, 16);
    // A bridged Ethernet frame.
    holds(47, &[0, 0, 0x65, 0x58], encode, 4 + 14);
    // PPTP: key, sequence number and acknowledgement number, then PPP.
    let pptp = [
        &[0x30, 0x81, 0x88, 0x0b][..],
        &[1; 12],
        &[0xff, 3, 0, 0x21],
        &ip(&plain()),
    ]
    .concat();
    let [outer, _] = carried(47, &pptp);
    assert_eq!(is_plain(ethernet(&outer)).framing, 18 + 20 + 16 + 4);
}

#[test]
fn mirrored_frames_have_their_first_framing() {
    let type_1 = [0, 0, 0x88, 0xbe].to_vec();
    let type_2 = [&[0x10, 0, 0x88, 0xbe][..], &[1; 4], &[0x10; 8]].concat();
    let type_3 = [&[0x10, 0, 0x22, 0xeb][..], &[1; 4], &[0x20; 12]].concat();
    let with_subheader = [&type_3[..19], &[1], &[5; 8]].concat();
    for header in [type_1, type_2, type_3, with_subheader] {
        for outer in carried(47, &[&header[..], &encode(&plain())].concat()) {
            assert_eq!(is_plain(ethernet(&outer)).framing, 18);
        }
    }
}

#[test]
fn vxlan_and_geneve() {
    for port in [4789u16, 8472] {
        let vxlan = |frame: &TcpFrame| [&[8, 0, 0, 0, 0, 0, 5, 0][..], &encode(frame)].concat();
        for outer in carried(17, &udp(port, &vxlan(&plain()))) {
            is_plain(ethernet(&outer));
        }
    }
    // The other flags are reserved and ignored [RFC 7348 §5]: the Group Policy extension sets the first.
    for flags in [0x88u8, 0xff] {
        let vxlan = [&[flags, 0, 0, 7, 0, 0, 5, 0][..], &encode(&plain())].concat();
        for outer in carried(17, &udp(4789, &vxlan)) {
            is_plain(ethernet(&outer));
        }
    }
    let without = [&[0xf7, 0, 0, 0, 0, 0, 5, 0][..], &encode(&plain())].concat();
    for outer in carried(17, &udp(4789, &without)) {
        assert_eq!(ethernet(&outer).unwrap_err(), Skip::NotTcp);
    }
    let geneve = |frame: &TcpFrame| {
        // With one option of 4 bytes.
        let head = [2, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 1, 0x80, 1, 9, 9, 9, 9];
        udp(6081, &[&head[..], &encode(frame)].concat())
    };
    holds(17, &[], geneve, 8 + 16 + 14);
    let of_ip = |frame: &TcpFrame| {
        let [high, low] = kind(frame).to_be_bytes();
        udp(
            6081,
            &[&[0, 0, high, low, 0, 0, 5, 0][..], &ip(frame)].concat(),
        )
    };
    holds(17, &[], of_ip, 8 + 8);
}

#[test]
fn gtp_u() {
    let bare = |frame: &TcpFrame| {
        udp(
            2152,
            &[&[0x30, 255, 0, 0, 0, 0, 0, 1][..], &ip(frame)].concat(),
        )
    };
    holds(17, &[], bare, 8 + 8);
    // A PDU session container, as between a 5G base station and its core.
    let extended = |frame: &TcpFrame| {
        let head = [0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0x10, 1, 0];
        udp(2152, &[&head[..], &ip(frame)].concat())
    };
    holds(17, &[], extended, 8 + 16);
    // An echo request, and an extension header without length.
    for (rest, skip) in [
        ([0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], Skip::NotTcp),
        (
            [0x34, 255, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x85, 0, 0],
            Skip::Malformed,
        ),
    ] {
        for outer in carried(17, &udp(2152, &rest)) {
            assert_eq!(ethernet(&outer).unwrap_err(), skip);
        }
    }
}

#[test]
fn tunnels_in_tunnels_end() {
    let mut packet = ip(&plain());
    for depth in 1..=8 {
        let [v4, _] = carried(4, &packet);
        let found = ethernet(&v4);
        if depth <= 4 {
            is_plain(found);
        } else {
            assert_eq!(found.unwrap_err(), Skip::Malformed);
        }
        packet = v4[14..].to_vec();
    }
}

#[test]
fn other_datagrams_are_not_tcp() {
    for rest in [
        udp(53, &[8; 40]),
        udp(4789, &[0; 40]),
        udp(6081, &[0xff; 40]),
    ] {
        for outer in carried(17, &rest) {
            assert_eq!(ethernet(&outer).unwrap_err(), Skip::NotTcp);
        }
    }
}

/// A tunnel's packet in two fragments: the first has the headers of the packet inside, with its length.
#[test]
fn the_first_fragment_of_a_tunnels_packet_gives_the_packet_inside() {
    let gtp = |frame: &TcpFrame| {
        let head = [0x30, 255, 0, 0, 0, 0, 0, 1];
        udp(2152, &[&head[..], &ip(frame)].concat())
    };
    for (protocol, rest) in [(17, gtp(&plain())), (4, ip(&plain())), (41, ip(&plain6()))] {
        let end = rest.len() - 40;
        for (field, first) in [(0x2000u16, true), (0x2001, false), (1, false)] {
            let [mut v4, _] = carried(protocol, &rest[..end]);
            v4[20..22].copy_from_slice(&field.to_be_bytes());
            // In IPv6 the offset is higher by three bits, which say whether there are more.
            let [offset, more] = [field << 3, field >> 13];
            let mut header = vec![protocol, 0];
            header.extend((offset | more).to_be_bytes());
            header.extend([0; 4]);
            let [_, v6] = carried(44, &[&header[..], &rest[..end]].concat());
            for outer in [v4, v6] {
                let found = ethernet(&outer);
                match first {
                    true => assert!(!is_plain(found).sliced),
                    false => assert_eq!(found.unwrap_err(), Skip::NotTcp),
                }
            }
        }
    }
}

#[test]
fn what_a_tunnel_carries_may_have_been_cut_by_a_mirror() {
    // As AWS does it: the copy's tunnel is whole, and the packet inside is not.
    let cut = [&[8, 0, 0, 0, 0, 0, 5, 0][..], &encode(&plain())[..64]].concat();
    for outer in carried(17, &udp(4789, &cut)) {
        assert!(is_plain(ethernet(&outer)).sliced);
    }
    // Or the frame with the tunnel is cut.
    let [outer, _] = carried(4, &ip(&plain()));
    for outer in carried(4, &outer[14..]) {
        let end = outer.len() - 90;
        assert!(is_plain(ethernet(&outer[..end])).sliced);
    }
}

#[test]
fn authentication_headers_are_skipped() {
    let authentication = |next: u8| [&[next, 4][..], &[0; 22]].concat();
    let tcp = ip(&plain())[20..].to_vec();
    for outer in carried(51, &[authentication(6), tcp].concat()) {
        let packet = is_plain(ethernet(&outer));
        let ip = if outer[12] == 8 { 20 } else { 40 };
        assert_eq!(usize::from(packet.headers), ip + 24 + 20);
        for kept in 0..outer.len() {
            if let Err(skip) = decode_as(LinkType::ETHERNET, &outer[..kept], outer.len()) {
                assert_eq!(skip, Skip::Cut, "{kept} bytes");
            }
        }
    }
    for outer in carried(51, &[authentication(4), ip(&plain())].concat()) {
        is_plain(ethernet(&outer));
    }
    for outer in carried(51, &[authentication(17), vec![0; 8]].concat()) {
        assert_eq!(ethernet(&outer).unwrap_err(), Skip::NotTcp);
    }
}
