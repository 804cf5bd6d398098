//! Packets in a block of the ring.

use tidegate_trace::read::Nanos;
use tidegate_trace::write::pcapng::Marks;

/// Offsets in a block's header, `struct tpacket_block_desc` of <linux/if_packet.h>.
const PACKETS: usize = 12;
const FIRST: usize = 16;
/// The length of a packet's header, `struct tpacket3_hdr`, behind which the address of the link layer is.
const HEADER: usize = 48;
/// Where that address, `struct sockaddr_ll`, says what kind of packet it is: `sll_pkttype`.
const KIND: usize = 10;
/// TP_STATUS_GSO_TCP, which Linux 6.0 added: a super-packet.
const SUPER_PACKET: u32 = 1 << 8;
/// 802.1Q, where the kernel does not name the type of a tag.
const VLAN: u16 = 0x8100;
/// The longest of the headers that the filter keeps, and more.
const MOST: usize = 1 << 16;

/// A sampled packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub at: Nanos,
    /// Its headers. A VLAN tag that the kernel took out is missing.
    pub bytes: &'a [u8],
    /// Its length on the wire, without that tag.
    pub wire_len: u32,
    /// The tag that the kernel took out: its type and what it says.
    pub tag: Option<[u16; 2]>,
    pub marks: Marks,
}

/// The packets of a block, in their order. Offsets that lead out of the block end it.
pub(crate) fn packets(block: &[u8], mtu: u32) -> impl Iterator<Item = Packet<'_>> {
    let count = word32(block, PACKETS).unwrap_or(0);
    let mut at = word32(block, FIRST).unwrap_or(0) as usize;
    let mut left = count;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        left -= 1;
        let (next, packet) = packet(block.get(at..)?, mtu)?;
        at += next;
        if next == 0 {
            left = 0;
        }
        Some(packet)
    })
}

fn packet(head: &[u8], mtu: u32) -> Option<(usize, Packet<'_>)> {
    let [next, seconds, nanos, kept, wire_len, status] =
        [0, 4, 8, 12, 16, 20].map(|offset| word32(head, offset));
    let start = usize::from(word16(head, 24)?);
    let network = usize::from(word16(head, 26)?);
    let (status, wire_len) = (status?, wire_len?);
    let kept = (kept? as usize).min(MOST);
    let bytes = head.get(start..start + kept)?;
    let has = |bit: u32| status & bit != 0;
    let tag = has(libc::TP_STATUS_VLAN_VALID).then(|| {
        let kind = match has(libc::TP_STATUS_VLAN_TPID_VALID) {
            true => word16(head, 36).unwrap_or(VLAN),
            false => VLAN,
        };
        [kind, word32(head, 32).unwrap_or(0) as u16]
    });
    let before_ip = network.saturating_sub(start) as u32;
    let marks = Marks {
        outbound: match *head.get(HEADER + KIND)? {
            libc::PACKET_OUTGOING => Some(true),
            libc::PACKET_OTHERHOST => None,
            _ => Some(false),
        },
        checksum_not_ready: has(libc::TP_STATUS_CSUMNOTREADY),
        // Older kernels do not say it, but no other packet is longer than the interface allows. Tags may be behind the
        // Ethernet header.
        super_packet: has(SUPER_PACKET)
            || (mtu > 0 && wire_len.saturating_sub(before_ip) > mtu.saturating_add(2 * 4)),
    };
    let at = Nanos::from(seconds?) * 1_000_000_000 + Nanos::from(nanos?);
    let packet = Packet {
        at,
        bytes,
        wire_len,
        tag,
        marks,
    };
    Some((next? as usize, packet))
}

impl Packet<'_> {
    /// The frame as it is on the wire, as far as it was kept, and its length there.
    pub(crate) fn frame(&self, to: &mut Vec<u8>) -> u32 {
        to.clear();
        match self.tag {
            // Behind the two MAC addresses.
            Some(tag) if self.bytes.len() >= 12 => {
                to.extend_from_slice(&self.bytes[..12]);
                to.extend_from_slice(tag.map(u16::to_be_bytes).as_flattened());
                to.extend_from_slice(&self.bytes[12..]);
                self.wire_len.saturating_add(4)
            }
            _ => {
                to.extend_from_slice(self.bytes);
                self.wire_len
            }
        }
    }
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes([bytes[0], bytes[1]]))
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(packets: u32, first: u32) -> Vec<u8> {
        let mut block = vec![0; 256];
        block[PACKETS..PACKETS + 4].copy_from_slice(&packets.to_ne_bytes());
        block[FIRST..FIRST + 4].copy_from_slice(&first.to_ne_bytes());
        block
    }

    #[test]
    fn a_tag_goes_back_to_its_place() {
        let mut block = block(1, 48);
        let mut put = |at: usize, bytes: &[u8]| {
            block[48 + at..48 + at + bytes.len()].copy_from_slice(bytes);
        };
        let status = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        for (at, word) in [
            (4, 7),
            (8, 9),
            (12, 20),
            (16, 100),
            (20, status),
            (32, 0x0123),
        ] {
            put(at, &u32::to_ne_bytes(word));
        }
        for (at, word) in [(24, 80u16), (26, 94), (36, 0x88a8)] {
            put(at, &word.to_ne_bytes());
        }
        put(HEADER + KIND, &[libc::PACKET_OUTGOING]);
        put(80, &[1; 12]);
        put(92, &[2; 8]);
        let found: Vec<_> = packets(&block, 1500).collect();
        let [packet] = found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(packet.at, 7_000_000_009);
        assert_eq!(packet.marks.outbound, Some(true));
        assert!(!packet.marks.super_packet);
        let mut frame = Vec::new();
        assert_eq!(packet.frame(&mut frame), 104);
        assert_eq!(frame[10..20], [1, 1, 0x88, 0xa8, 0x01, 0x23, 2, 2, 2, 2]);
        // What is longer than the interface allows was not one packet.
        assert!(packets(&block, 70).next().unwrap().marks.super_packet);
    }

    #[test]
    fn offsets_out_of_the_block_end_it() {
        for (count, first) in [(5, u32::MAX), (u32::MAX, 250), (3, 200)] {
            assert!(packets(&block(count, first), 1500).count() <= 1);
        }
        assert_eq!(packets(&[], 1500).count(), 0);
    }
}
