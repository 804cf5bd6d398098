//! What a router says of a packet that it cannot send: ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443).

use std::net::Ipv6Addr;

use nix::errno::Errno;

use super::addresses::Addresses;

const ICMP: u8 = 1;
const ICMP6: u8 = 58;
/// Bytes of a refused packet that its refusal has. With them, an answer of IPv6 has at most 1280 bytes (RFC 4443 §3.1), and
/// one of IPv4 at most 576 (RFC 1812 §4.3.2.3).
const QUOTED: usize = 576 - 28;
/// What every way of IPv6 carries (RFC 8200 §5).
const LEAST_MTU: u32 = 1280;

/// The answer to a packet that the kernel refused for this reason, from the gateway. `None` if there must be none (RFC 1122
/// §3.2.2): about answers, and about all but the first fragment.
pub(super) fn refusal(packet: &[u8], cause: Errno, addresses: &Addresses) -> Option<Vec<u8>> {
    match packet.first()? >> 4 {
        4 => refusal4(packet, cause, addresses),
        6 => refusal6(packet, cause, addresses),
        _ => None,
    }
}

fn refusal4(packet: &[u8], cause: Errno, addresses: &Addresses) -> Option<Vec<u8>> {
    let (code, mtu) = match cause {
        Errno::ENETUNREACH | Errno::ENETDOWN => (0, 0),
        Errno::EHOSTUNREACH => (1, 0),
        // The kernel does not say how long the packet may be. Nearly every way carries this.
        Errno::EMSGSIZE => (4, LEAST_MTU),
        Errno::EACCES | Errno::EPERM => (13, 0),
        _ => return None,
    };
    let header = usize::from(packet[0] & 15) * 4;
    let is_first = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff == 0;
    let is_answer =
        *packet.get(9)? == ICMP && !matches!(packet.get(header), Some(0 | 8 | 13 | 15 | 17));
    if packet.len() < header.max(20) || !is_first || is_answer {
        return None;
    }
    let quoted = &packet[..packet.len().min(QUOTED)];
    let message = message(3, code, mtu, quoted, 0);
    let length = (20 + message.len()) as u16;
    let mut answer = vec![0x45, 0xc0, 0, 0, 0, 0, 0x40, 0, 64, ICMP, 0, 0];
    answer[2..4].copy_from_slice(&length.to_be_bytes());
    answer.extend(addresses.gateway.octets());
    answer.extend(addresses.shell.octets());
    let check = !sum(0, &answer);
    answer[10..12].copy_from_slice(&check.to_be_bytes());
    answer.extend(message);
    Some(answer)
}

fn refusal6(packet: &[u8], cause: Errno, addresses: &Addresses) -> Option<Vec<u8>> {
    let (kind, code, mtu) = match cause {
        Errno::ENETUNREACH | Errno::ENETDOWN => (1, 0, 0),
        Errno::EHOSTUNREACH => (1, 3, 0),
        Errno::EMSGSIZE => (2, 0, LEAST_MTU),
        Errno::EACCES | Errno::EPERM => (1, 1, 0),
        _ => return None,
    };
    // Messages with a type below 128 are errors.
    let is_answer = *packet.get(6)? == ICMP6 && packet.get(40).is_none_or(|&kind| kind < 128);
    if packet.len() < 40 || is_answer {
        return None;
    }
    let quoted = &packet[..packet.len().min(QUOTED)];
    let (from, to): (Ipv6Addr, Ipv6Addr) = (addresses.gateway6, addresses.shell6);
    let length = (8 + quoted.len()) as u16;
    // RFC 8200 §8.1: the addresses, the length and the protocol count.
    let pseudo = sum(sum(length + u16::from(ICMP6), &from.octets()), &to.octets());
    let mut answer = vec![0x60, 0, 0, 0, 0, 0, ICMP6, 64];
    answer[4..6].copy_from_slice(&length.to_be_bytes());
    answer.extend(from.octets());
    answer.extend(to.octets());
    answer.extend(message(kind, code, mtu, quoted, pseudo));
    Some(answer)
}

/// Type, code, checksum, a field, and the packet that it is about.
fn message(kind: u8, code: u8, field: u32, quoted: &[u8], pseudo: u16) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(field.to_be_bytes());
    message.extend(quoted);
    let check = !sum(pseudo, &message);
    message[2..4].copy_from_slice(&check.to_be_bytes());
    message
}

/// The Internet checksum's sum (RFC 1071), from a sum so far.
fn sum(before: u16, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let mut sum: u32 = u32::from(before) + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn addresses() -> Addresses {
        let way = crate::shell::Way::usual(true);
        Addresses::free(3, &way, &crate::shell::Taken::default()).unwrap()
    }

    fn packet4(protocol: u8, kind: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, protocol, 0, 0];
        packet.extend(addresses().shell.octets());
        packet.extend(Ipv4Addr::new(192, 0, 2, 1).octets());
        packet.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        packet
    }

    #[test]
    fn a_packet_without_a_route_is_answered_with_right_checksums() {
        let packet = packet4(17, 0);
        let answer = refusal(&packet, Errno::ENETUNREACH, &addresses()).unwrap();
        assert_eq!(answer.len(), 20 + 8 + packet.len());
        assert_eq!(answer[20..22], [3, 0]);
        assert_eq!(answer[28..], packet[..]);
        assert_eq!(
            (sum(0, &answer[..20]), sum(0, &answer[20..])),
            (0xffff, 0xffff)
        );
        assert_eq!(answer[16..20], addresses().shell.octets());

        let mut six = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        six.extend(addresses().shell6.octets());
        six.extend(Ipv6Addr::LOCALHOST.octets());
        six.extend([0; 8]);
        let answer = refusal(&six, Errno::EMSGSIZE, &addresses()).unwrap();
        assert_eq!((answer[40], answer[44..48].to_vec()), (2, vec![0, 0, 5, 0]));
        let length = (answer.len() - 40) as u16;
        let pseudo = sum(
            sum(length + u16::from(ICMP6), &answer[8..24]),
            &answer[24..40],
        );
        assert_eq!(sum(pseudo, &answer[40..]), 0xffff);
    }

    #[test]
    fn answers_and_later_fragments_are_not_answered() {
        let all = |packet: &[u8]| refusal(packet, Errno::EHOSTUNREACH, &addresses());
        assert!(all(&packet4(ICMP, 8)).is_some());
        assert!(all(&packet4(ICMP, 3)).is_none());
        let mut fragment = packet4(17, 0);
        fragment[7] = 1;
        assert!(all(&fragment).is_none());
        assert!(refusal(&packet4(17, 0), Errno::EINVAL, &addresses()).is_none());
        // No cut packet panics.
        for version in [0x45, 0x4f, 0x60] {
            let mut packet = [version; 60];
            packet[9] = ICMP;
            for length in 0..60 {
                let _ = all(&packet[..length]);
            }
        }
    }
}
