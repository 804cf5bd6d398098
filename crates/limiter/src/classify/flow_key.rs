//! What identifies a flow, and its hash.

use std::net::IpAddr;

/// The headers by which packets are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address, IPv4 as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2).
    pub source: [u8; 16],
    /// Destination address, likewise.
    pub destination: [u8; 16],
    /// Source and destination port. None for protocols without ports, and for fragments other
    /// than the first, which do not carry them (RFC 791 §3.1, RFC 8200 §4.5). The fragments of a
    /// datagram share a queue only if the first is given without ports as well.
    pub ports: Option<(u16, u16)>,
    /// Transport protocol, by its IANA number.
    pub protocol: u8,
    /// Differentiated services code point; not part of the flow's identity.
    pub dscp: u8,
}

/// The secret with which flows are hashed: who does not know it cannot choose a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey(u64, u64);

impl HashKey {
    /// A key of two halves, from a source of randomness or a scenario's seed.
    pub const fn new(low: u64, high: u64) -> Self {
        Self(low, high)
    }
}

impl std::fmt::Debug for HashKey {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl FlowKey {
    /// The key of a packet, see the fields.
    pub fn new(
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        ports: Option<(u16, u16)>,
        dscp: u8,
    ) -> Self {
        Self {
            source: mapped(source),
            destination: mapped(destination),
            ports,
            protocol,
            dscp,
        }
    }

    /// The flow's hash: the low half of SipHash-1-3 over 37 bytes, which are both addresses, both
    /// ports (0 without) and the protocol, each as it stands in the packet.
    ///
    /// SipHash because it is keyed and made for short input from an adversary: what Linux takes
    /// for its flow hashes (as hsiphash), and Rust for its maps. It needs 64-bit additions,
    /// rotations and exclusive ors alone, which eBPF has, and 37 bytes are five words with the
    /// last one's top byte left for the length: eight rounds in all, without a loop.
    #[inline]
    pub fn hash(&self, key: HashKey) -> u32 {
        let word = |bytes: &[u8; 16], at: usize| {
            let half: [u8; 8] = std::array::from_fn(|byte| bytes[at + byte]);
            u64::from_le_bytes(half)
        };
        let (source, destination) = self.ports.unwrap_or((0, 0));
        // Ports are big-endian in the packet, and words little-endian for SipHash.
        let last = u64::from(source.swap_bytes())
            | u64::from(destination.swap_bytes()) << 16
            | u64::from(self.protocol) << 32
            | 37 << 56;
        let mut state = [
            key.0 ^ 0x736f_6d65_7073_6575,
            key.1 ^ 0x646f_7261_6e64_6f6d,
            key.0 ^ 0x6c79_6765_6e65_7261,
            key.1 ^ 0x7465_6462_7974_6573,
        ];
        let words = [
            word(&self.source, 0),
            word(&self.source, 8),
            word(&self.destination, 0),
            word(&self.destination, 8),
            last,
        ];
        for word in words {
            state[3] ^= word;
            round(&mut state);
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut state);
        }
        (state[0] ^ state[1] ^ state[2] ^ state[3]) as u32
    }
}

/// SipRound [Aumasson and Bernstein, SipHash, 2012, §2.1].
#[inline]
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

/// The 16 bytes of an address, IPv4 mapped into IPv6.
pub(super) fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
