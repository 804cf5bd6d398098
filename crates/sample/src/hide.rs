//! Replaces addresses in frames, and removes what else would tell them.

use std::net::IpAddr;

use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire::ip_start;

use crate::address::Mapping;

const TCP: u8 = 6;
/// Extension headers of IPv6, RFC 8200 and others.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;
/// As many as the filter follows.
const MOST_EXTENSIONS: usize = 8;
/// Options of TCP that tell nothing of a client: segment size, window scale, selective acknowledgements, timestamps, and the counters of
/// accurate ECN (RFC 9768). Others may: Multipath TCP has addresses (RFC 8684 §3.4.1), load balancers write their clients' into options
/// of their own (RFC 7974 lists some), and a cookie of TCP Fast Open is always the same for a client (RFC 7413).
const HARMLESS: [u8; 7] = [2, 3, 4, 5, 8, 172, 174];

/// Replaces the addresses of a frame with what the mapping gives. Also removes MAC addresses, options of IP, options of TCP that may tell
/// of a client, and the TCP checksum, which is computed over addresses. Returns whether that was possible. If not, the frame must not be
/// written.
pub(crate) fn hide(link: LinkType, frame: &mut [u8], mapping: &mut Mapping) -> bool {
    if matches!(mapping, Mapping::Keep) {
        return true;
    }
    let whole = Frame {
        outbound: None,
        at: 0,
        link,
        data: frame,
        wire_len: u32::try_from(frame.len()).unwrap_or(u32::MAX),
    };
    let Some(start) = ip_start(&whole) else {
        return false;
    };
    if link == LinkType::ETHERNET {
        frame[..12].fill(0);
    }
    let ip = &mut frame[start..];
    let tcp = match ip.first().map(|first| first >> 4) {
        Some(4) => hide_ipv4(ip, mapping),
        Some(6) => hide_ipv6(ip, mapping),
        _ => None,
    };
    tcp.is_some_and(|tcp| hide_tcp(&mut ip[tcp..]))
}

/// Returns where TCP begins.
fn hide_ipv4(ip: &mut [u8], mapping: &mut Mapping) -> Option<usize> {
    let header = usize::from(ip.first()? & 15) * 4;
    if header < 20 || ip.len() < header || ip[9] != TCP {
        return None;
    }
    for at in [12, 16] {
        let address: [u8; 4] = ip[at..at + 4].try_into().ok()?;
        let IpAddr::V4(address) = mapping.of(address.into()) else {
            return None;
        };
        ip[at..at + 4].copy_from_slice(&address.octets());
    }
    // Record route, source routes and timestamps hold addresses. Zeros end the list of options.
    ip[20..header].fill(0);
    ip[10..12].fill(0);
    let mut sum: u32 = ip[..header]
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    // RFC 1071. At most 30 words: two folds are enough.
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
    Some(header)
}

fn hide_ipv6(ip: &mut [u8], mapping: &mut Mapping) -> Option<usize> {
    if ip.len() < 40 {
        return None;
    }
    for at in [8, 24] {
        let address: [u8; 16] = ip[at..at + 16].try_into().ok()?;
        let IpAddr::V6(address) = mapping.of(address.into()) else {
            return None;
        };
        ip[at..at + 16].copy_from_slice(&address.octets());
    }
    let (mut next, mut at) = (ip[6], 40);
    for _ in 0..MOST_EXTENSIONS {
        let head: [u8; 4] = match next {
            TCP => return Some(at),
            HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP
            | SHIM6 => ip.get(at..at + 4)?.try_into().ok()?,
            _ => return None,
        };
        let units = usize::from(head[1]);
        let size = match next {
            FRAGMENT => 8,
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        let body = ip.get_mut(at + 2..at + size)?;
        // The length of a jumbogram (RFC 2675 §2), which the kernel's own large segments have, tells nobody.
        let jumbogram = next == HOP_BY_HOP && size == 8 && head[2..] == [0xc2, 4];
        if next != FRAGMENT && !jumbogram {
            body.fill(0);
        }
        at += size;
        next = head[0];
    }
    None
}

fn hide_tcp(tcp: &mut [u8]) -> bool {
    if tcp.len() < 20 {
        return false;
    }
    tcp[16..18].fill(0);
    let header = (usize::from(tcp[12] >> 4) * 4).clamp(20, tcp.len());
    let mut options = &mut tcp[20..header];
    while let [kind, rest @ ..] = options {
        let length = match (*kind, rest.first()) {
            // The end of the list. The filter keeps what is behind it, so it must tell nothing.
            (0, _) => {
                rest.fill(0);
                return true;
            }
            (1, _) => 1,
            (_, Some(length)) => usize::from(*length),
            (_, None) => 0,
        };
        if length == 0 || length > options.len() || (length == 1 && options[0] != 1) {
            // Nobody can say what this is.
            options.fill(0);
            return true;
        }
        let (option, behind) = options.split_at_mut(length);
        if !HARMLESS.contains(&option[0]) {
            option.fill(1);
        }
        options = behind;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Addresses;
    use crate::key::Key;
    use tidegate_trace::wire::{Timestamps, decode};
    use tidegate_trace::write::{Ends, TcpFrame};

    fn frame(src: &str, dst: &str) -> Vec<u8> {
        let ends = Ends {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
        };
        let mut frame = Vec::new();
        let packet = TcpFrame {
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            vlan: Some(5),
            seq: 77,
            ..TcpFrame::new(ends)
        };
        packet.encode(&mut frame);
        frame
    }

    fn prefix() -> Mapping {
        Mapping::new("prefix:24,48".parse().unwrap(), &Key::from_bytes([0; 32]))
    }

    fn as_frame(data: &[u8]) -> Frame<'_> {
        Frame {
            outbound: None,
            at: 0,
            link: LinkType::ETHERNET,
            data,
            wire_len: data.len() as u32,
        }
    }

    #[test]
    fn options_of_tcp_that_may_tell_of_a_client_are_hidden() {
        // A load balancer's, a cookie of TCP Fast Open, a segment size and timestamps.
        let options = [
            254, 8, 0xc0, 0, 192, 0, 2, 1, 34, 4, 7, 7, 2, 4, 5, 180, 8, 10, 0, 0, 0, 1, 0, 0, 0,
            2, 1, 1,
        ];
        let mut tcp = vec![0; 20];
        tcp[12] = 12 << 4;
        tcp.extend(options);
        assert!(hide_tcp(&mut tcp));
        assert_eq!(tcp[20..32], [1; 12]);
        assert_eq!(tcp[32..], options[12..]);
    }

    #[test]
    fn addresses_are_replaced_and_all_else_stays() {
        for (src, dst, hidden) in [
            (
                "192.0.2.77:1000",
                "198.51.100.88:443",
                ["192.0.2.0", "198.51.100.0"],
            ),
            (
                "[2001:db8:1:2::3]:1000",
                "[2001:db8:9:8::7]:443",
                ["2001:db8:1::", "2001:db8:9::"],
            ),
        ] {
            let before = frame(src, dst);
            let mut after = before.clone();
            assert!(hide(LinkType::ETHERNET, &mut after, &mut prefix()));
            let (old, new) = (
                decode(&as_frame(&before)).unwrap(),
                decode(&as_frame(&after)).unwrap(),
            );
            assert_eq!(
                [new.src.ip(), new.dst.ip()].map(|ip| ip.to_string()),
                hidden
            );
            assert_eq!((new.seq, new.src.port()), (old.seq, old.src.port()));
            assert_eq!(new.options.timestamps, old.options.timestamps);
            assert_eq!(after[..12], [0; 12]);
            assert_eq!(after.len(), before.len());
            // The sum over an IPv4 header with its checksum has all bits set, RFC 1071.
            if hidden[0].contains('.') {
                let words = after[18..38].chunks(2);
                let sum: u32 = words
                    .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
                    .sum();
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            }
            let mut kept = before.clone();
            let mut keep = Mapping::new(Addresses::Keep, &Key::from_bytes([0; 32]));
            assert!(hide(LinkType::ETHERNET, &mut kept, &mut keep));
            assert_eq!(kept, before);
        }
    }

    #[test]
    fn options_that_hold_addresses_are_removed() {
        let address = [198, 51, 100, 88];
        let mut bytes = frame("192.0.2.77:1000", "198.51.100.88:443");
        // A record route of 8 bytes, and ADD_ADDR of Multipath TCP in the place of the timestamps.
        let tcp = 14 + 4 + 20;
        bytes[tcp + 20..tcp + 32]
            .copy_from_slice(&[30, 8, 0x30, 1, 198, 51, 100, 88, 0, 198, 51, 100]);
        bytes.splice(tcp..tcp, [7, 7, 4, 198, 51, 100, 88, 0]);
        bytes[18] = 0x47;
        assert!(hide(LinkType::ETHERNET, &mut bytes, &mut prefix()));
        assert!(!bytes.windows(4).any(|window| window == address));
        let tcp = tcp + 8;
        assert_eq!(
            bytes[tcp + 20..tcp + 32],
            [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]
        );
    }

    #[test]
    fn routes_of_ipv6_are_removed_and_jumbograms_stay() {
        let mut bytes = frame("[2001:db8:1:2::3]:1000", "[2001:db8:9:8::7]:443");
        let jumbo = [ROUTING, 0, 0xc2, 4, 0, 1, 0, 0];
        let mut route = [7; 24];
        (route[0], route[1]) = (TCP, 2);
        bytes[18 + 6] = HOP_BY_HOP;
        bytes.splice(58..58, jumbo.into_iter().chain(route));
        assert!(hide(LinkType::ETHERNET, &mut bytes, &mut prefix()));
        assert_eq!(bytes[58..66], jumbo);
        assert_eq!(bytes[66..68], [TCP, 2]);
        assert_eq!(bytes[68..90], [0; 22]);
    }

    #[test]
    fn what_is_cut_or_wrong_is_hidden_or_refused() {
        let whole = [
            frame("192.0.2.77:1000", "192.0.2.77:443"),
            frame("[2001:db8:1:2::3]:1000", "[2001:db8:1:2::3]:443"),
        ];
        for bytes in &whole {
            for length in 0..bytes.len() {
                let mut cut = bytes[..length].to_vec();
                let hidden = hide(LinkType::ETHERNET, &mut cut, &mut prefix());
                let (address4, address6) = ([192, 0, 2, 77], [0, 1, 0, 2, 0, 0]);
                let tells = cut.windows(4).any(|window| window == address4)
                    || cut.windows(6).any(|window| window == address6);
                assert!(!hidden || !tells, "{length}");
            }
            for at in 12..bytes.len() {
                for value in [0, 1, 0x45, 0x60, 0xf0, 0xff] {
                    let mut wrong = bytes.clone();
                    wrong[at] = value;
                    hide(LinkType::ETHERNET, &mut wrong, &mut prefix());
                    hide(LinkType::RAW, &mut wrong, &mut prefix());
                }
            }
        }
    }
}
