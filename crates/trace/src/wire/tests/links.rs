use super::*;

#[test]
fn vlan_tags() {
    let packet = is_plain(ethernet(&encode(&TcpFrame {
        vlan: Some(100),
        ..plain()
    })));
    assert_eq!(packet.framing, 22);
    // Stacked: 802.1ad, and two of the types used before it.
    for outer in [0x88a8u16, 0x9100, 0x9200] {
        let inner = encode(&TcpFrame {
            vlan: Some(100),
            ..plain6()
        });
        let rest = [&[0, 5], &inner[12..]].concat();
        let packet = is_plain(ethernet(&framed(outer, &rest)));
        assert_eq!(packet.framing, 26);
    }
}

#[test]
fn endless_tags_are_malformed() {
    let tags = [0, 1, 0x81, 0].repeat(40);
    assert_eq!(
        ethernet(&framed(0x8100, &tags)).unwrap_err(),
        Skip::Malformed
    );
}

/// MPLS labels, the last with the bottom-of-stack bit.
fn labels(n: usize) -> Vec<u8> {
    let mut labels = [0, 1, 0x40, 64].repeat(n);
    labels[4 * n - 2] |= 1;
    labels
}

#[test]
fn mpls_labels() {
    for kind in [0x8847, 0x8848] {
        for n in [1, 2] {
            for frame in [plain(), plain6()] {
                let rest = [labels(n), ip(&frame)].concat();
                let packet = is_plain(ethernet(&framed(kind, &rest)));
                assert_eq!(usize::from(packet.framing), 18 + 4 * n);
            }
        }
    }
}

#[test]
fn mpls_pseudowire_of_ethernet() {
    let rest = [labels(2), vec![0; 4], encode(&plain())].concat();
    let packet = is_plain(ethernet(&framed(0x8847, &rest)));
    assert_eq!(packet.framing, 18 + 8 + 4 + 14);
    // One inside another is not followed, however deep.
    let rest = [labels(1), vec![0; 4], framed(0x8847, &rest)].concat();
    assert_eq!(ethernet(&framed(0x8847, &rest)).unwrap_err(), Skip::NotIp);
}

/// Nothing but the address of a host begins the frame: it may look like a version of IP, or like a control word.
#[test]
fn mpls_pseudowire_without_a_control_word() {
    for first in (0..=255).filter(|&first| first != 0x45) {
        for frame in [
            plain(),
            plain6(),
            TcpFrame {
                vlan: Some(7),
                ..plain()
            },
        ] {
            let mut bytes = encode(&frame);
            bytes[..6].copy_from_slice(&[first, 0x1b, 0x21, 7, 8, 9]);
            let rest = [labels(2), bytes].concat();
            let tag = if frame.vlan.is_some() { 4 } else { 0 };
            let packet = is_plain(ethernet(&framed(0x8847, &rest)));
            assert_eq!(usize::from(packet.framing), 18 + 8 + 14 + tag, "{first:x}");
        }
    }
    // One inside another is not followed, and no way through them is tried twice.
    let mut rest = encode(&plain());
    for _ in 0..40 {
        rest = [
            labels(1),
            vec![0; 12],
            vec![0x81, 0, 0, 1],
            framed(0x8847, &rest)[12..].to_vec(),
        ]
        .concat();
    }
    assert_eq!(ethernet(&framed(0x8847, &rest)).unwrap_err(), Skip::NotIp);
}

#[test]
fn mpls_of_something_else() {
    let rest = [labels(1), vec![0x10; 40]].concat();
    assert_eq!(ethernet(&framed(0x8847, &rest)).unwrap_err(), Skip::NotIp);
    // Labels without an end.
    let rest = [0, 1, 0x40, 64].repeat(40);
    assert_eq!(
        ethernet(&framed(0x8847, &rest)).unwrap_err(),
        Skip::Malformed
    );
}

#[test]
fn pppoe_session() {
    let header = [0x11, 0, 0, 1, 0, 142];
    for (protocol, frame) in [(0x0021u16, plain()), (0x0057, plain6())] {
        let rest = [&header[..], &protocol.to_be_bytes(), &ip(&frame)].concat();
        let packet = is_plain(ethernet(&framed(0x8864, &rest)));
        assert_eq!(packet.framing, 26);
        // Without Ethernet, as link type 51.
        is_plain(decode_as(LinkType::PPP_ETHER, &rest, rest.len()));
    }
    // Discovery has another type, and link control another protocol.
    assert_eq!(
        ethernet(&framed(0x8863, &[0; 40])).unwrap_err(),
        Skip::NotIp
    );
    let rest = [&header[..], &[0xc0, 0x21], &[0; 40]].concat();
    assert_eq!(ethernet(&framed(0x8864, &rest)).unwrap_err(), Skip::NotIp);
}

#[test]
fn linux_cooked_captures() {
    for (kind, frame) in [(0x0800u16, plain()), (0x86dd, plain6())] {
        let one = [&[0; 14][..], &kind.to_be_bytes(), &ip(&frame)].concat();
        let packet = is_plain(decode_as(LinkType::LINUX_SLL, &one, one.len()));
        assert_eq!(packet.framing, 18);
        let two = [&kind.to_be_bytes()[..], &[0; 18], &ip(&frame)].concat();
        let packet = is_plain(decode_as(LinkType::LINUX_SLL2, &two, two.len()));
        assert_eq!(packet.framing, 18);
    }
    // With a tag behind it.
    let tagged = encode(&TcpFrame {
        vlan: Some(3),
        ..plain()
    });
    let one = [&[0; 14][..], &tagged[12..]].concat();
    let packet = is_plain(decode_as(LinkType::LINUX_SLL, &one, one.len()));
    assert_eq!(packet.framing, 22);
}

#[test]
fn raw_ip() {
    for link in [101, 12, 14, 228, 229] {
        for frame in [plain(), plain6()] {
            let bytes = ip(&frame);
            let packet = is_plain(decode_as(LinkType(link), &bytes, bytes.len()));
            // Ethernet's is assumed where the link layer is not known.
            assert_eq!(packet.framing, 18);
        }
    }
}

#[test]
fn loopback_in_either_byte_order() {
    for link in [LinkType::NULL, LinkType::LOOP] {
        for family in [10u32, 24, 28, 30] {
            for word in [family.to_le_bytes(), family.to_be_bytes()] {
                let bytes = [&word[..], &ip(&plain6())].concat();
                is_plain(decode_as(link, &bytes, bytes.len()));
            }
        }
        for word in [2u32.to_le_bytes(), 2u32.to_be_bytes()] {
            let bytes = [&word[..], &ip(&plain())].concat();
            is_plain(decode_as(link, &bytes, bytes.len()));
        }
        let bytes = [&[7, 0, 0, 0][..], &ip(&plain())].concat();
        let found = decode_as(link, &bytes, bytes.len());
        assert_eq!(found.unwrap_err(), Skip::NotIp);
    }
}

#[test]
fn ppp_with_and_without_address_and_with_a_compressed_protocol() {
    let heads: [(&[u8], TcpFrame, u16); 6] = [
        (&[0xff, 3, 0, 0x21], plain(), 7),
        (&[0xff, 3, 0, 0x57], plain6(), 7),
        (&[0, 0x21], plain(), 5),
        (&[0, 0x57], plain6(), 5),
        (&[0x21], plain(), 4),
        (&[0xff, 3, 0x57], plain6(), 6),
    ];
    for (head, frame, framing) in heads {
        let bytes = [head, &ip(&frame)].concat();
        for link in [LinkType::PPP, LinkType::PPP_HDLC] {
            let packet = is_plain(decode_as(link, &bytes, bytes.len()));
            assert_eq!(packet.framing, framing);
        }
    }
}

#[test]
fn mpls_over_ppp() {
    let bytes = [vec![0xff, 3, 2, 0x81], labels(1), ip(&plain())].concat();
    is_plain(decode_as(LinkType::PPP, &bytes, bytes.len()));
}

#[test]
fn ieee_802_3_with_snap() {
    let bytes = ip(&plain());
    let rest = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &bytes].concat();
    let packet = is_plain(ethernet(&framed(rest.len() as u16, &rest)));
    assert_eq!(packet.framing, 26);
    // Spanning tree: a length as well, but no SNAP.
    let rest = [&[0x42, 0x42, 3][..], &[0; 40]].concat();
    assert_eq!(ethernet(&framed(38, &rest)).unwrap_err(), Skip::NotIp);
}
