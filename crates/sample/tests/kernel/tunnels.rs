//! Packets in tunnels.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};

use tidegate_sample::{Addresses, Options, Place};
use tidegate_trace::read::Capture;
use tidegate_trace::wire::decode;
use tidegate_trace::write::Ends;

use crate::{Failure, at_both_places, choice, framed, namespace, sampled};

at_both_places!(packets_in_tunnels_are_sampled_by_the_flow_inside);

/// A packet of UDP to this port, without its payload's length and checksum, which nobody reads.
fn udp_to(port: u16, then: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xc0, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(then);
    bytes
}

/// The packet from IP on, or the whole frame, behind headers of a tunnel.
fn carried(protocol: u8, between: &[u8], inner: &[u8], outer_v6: bool) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let length = (between.len() + inner.len()) as u16;
    if outer_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([0x20; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((length + 20).to_be_bytes());
        frame.extend([
            0, 0, 0x40, 0, 64, protocol, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2,
        ]);
    }
    frame.extend(between);
    frame.extend(inner);
    frame
}

/// The flow inside is what is sampled, as `tidegate detect` reads it.
fn packets_in_tunnels_are_sampled_by_the_flow_inside(place: Place) -> Result<(), Failure> {
    let test = "packets_in_tunnels_are_sampled_by_the_flow_inside";
    let Some(space) = namespace(test)? else {
        return Ok(());
    };
    let port = space.port("tap")?;
    let folder = tempfile::tempdir()?;
    let vxlan: &[u8] = &[8, 0, 0, 0, 0, 0, 9, 0];
    let gtp: &[u8] = &[0x30, 255, 0, 0, 0, 0, 0, 1];
    // With a sequence number, and one extension header of four bytes.
    let long_gtp: &[u8] = &[0x36, 255, 0, 0, 0, 0, 0, 1, 0, 7, 0, 0x85, 1, 9, 9, 0];
    let geneve: &[u8] = &[1, 0, 0x65, 0x58, 0, 0, 9, 0, 1, 2, 3, 0];
    let choice = choice(0.5);
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for (number, from) in ["192.0.2.1", "2001:db8::1"]
        .into_iter()
        .cycle()
        .take(60)
        .enumerate()
    {
        let from: IpAddr = from.parse()?;
        let ends = Ends {
            src: SocketAddr::new(from, 1000 + number as u16),
            dst: SocketAddr::new(from, 2000),
        };
        let (inner, headers) = framed(ends, Some(1460), &[]);
        let ip = &inner[14..];
        let (own, gre): (u8, &[u8]) = match from.is_ipv4() {
            true => (4, &[0, 0, 8, 0]),
            false => (
                41,
                &[0xb0, 0, 0x86, 0xdd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            ),
        };
        for outer_v6 in [false, true] {
            for frame in [
                carried(own, &[], ip, outer_v6),
                carried(47, gre, ip, outer_v6),
                carried(47, &[0, 0, 0x65, 0x58], &inner, outer_v6),
                carried(17, &udp_to(4789, vxlan), &inner, outer_v6),
                carried(17, &udp_to(6081, geneve), &inner, outer_v6),
                carried(17, &udp_to(2152, gtp), ip, outer_v6),
                carried(17, &udp_to(2152, long_gtp), ip, outer_v6),
            ] {
                if choice.takes_flow(ends.src, ends.dst) {
                    // All but the payload.
                    let kept = frame.len() - (inner.len() - headers);
                    expected.push((frame[..kept].to_vec(), ends.src));
                }
                frames.push(frame);
            }
        }
    }
    assert!((100..740).contains(&expected.len()), "{}", expected.len());
    let options = Options {
        place,
        ..Options::new("tap", folder.path(), choice)
    };
    let (files, lost) = sampled(&space, options, || {
        // What is no tunnel, or lies, disturbs nothing.
        port.send(&carried(17, &udp_to(4789, &[0; 8]), &frames[0], false))
            .expect("sent");
        port.send(&carried(47, &[0x40, 0, 8, 0], &frames[0][14..], false))
            .expect("sent");
        for frame in &frames {
            port.send(frame).expect("sent");
        }
    });
    assert_eq!(lost, 0);
    let mut capture = Capture::new(File::open(&files[0])?)?;
    for (bytes, src) in &expected {
        let found = capture.frame()?.expect("a frame");
        assert_eq!(found.data, bytes);
        let packet = decode(&found).expect("a TCP packet");
        assert_eq!(SocketAddr::new(packet.src.ip(), packet.src.port()), *src);
    }
    assert!(capture.frame()?.is_none());

    // Addresses in tunnels would not all be hidden.
    let hidden = Options {
        addresses: Addresses::Pseudonym,
        place,
        ..Options::new("tap", folder.path().join("hidden"), crate::choice(1.0))
    };
    let (files, _) = sampled(&space, hidden, || {
        for frame in &frames {
            port.send(frame).expect("sent");
        }
    });
    assert!(files.is_empty());
    Ok(())
}
