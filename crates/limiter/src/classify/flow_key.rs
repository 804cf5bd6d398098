//! What identifies a flow, and its hash.

use std::net::IpAddr;

/// The headers that identify a packet's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address, IPv4 as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2).
    pub source: [u8; 16],
    /// Destination address, likewise.
    pub destination: [u8; 16],
    /// None for protocols without ports, and for fragments other
    /// than the first, which do not carry them (RFC 791 §3.1, RFC 8200 §4.5). The fragments of a
    /// datagram share a queue only if the first is given without ports as well.
    pub ports: Option<Ports>,
    /// Transport protocol, by its IANA number.
    pub protocol: u8,
    /// Differentiated services code point; not part of the flow's identity.
    pub dscp: u8,
}

/// The ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ports {
    /// The sender's.
    pub source: u16,
    /// The receiver's.
    pub destination: u16,
}

/// The headers that identify a packet's flow, as its packet has them: a [`FlowKey`] is made from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Transport protocol, by its IANA number.
    pub protocol: u8,
    /// See [`FlowKey::ports`].
    pub ports: Option<Ports>,
    /// Differentiated services code point.
    pub dscp: u8,
}

impl From<Headers> for FlowKey {
    #[inline]
    fn from(headers: Headers) -> Self {
        Self {
            source: mapped(headers.source),
            destination: mapped(headers.destination),
            ports: headers.ports,
            protocol: headers.protocol,
            dscp: headers.dscp,
        }
    }
}

/// The secret with which flows are hashed. A sender that does not know it cannot choose its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u64; 11]);

impl HashKey {
    /// A key of 16 bytes, from a source of randomness or a scenario's seed. They are drawn out
    /// to a word to begin with and an odd one for each part of a flow, by SplitMix64 [Steele, Lea
    /// and Flood, Fast splittable pseudorandom number generators, 2014].
    pub const fn from_bytes(secret: [u8; 16]) -> Self {
        let secret = u128::from_le_bytes(secret);
        let (low, high) = (secret as u64, (secret >> 64) as u64);
        let mut state = low ^ high.rotate_left(32);
        let mut words = [0; 11];
        let mut at = 0;
        while at < words.len() {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = state;
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            words[at] = word ^ word >> 31 | (at > 0) as u64;
            if at == 5 {
                state ^= high;
            }
            at += 1;
        }
        Self(words)
    }

    /// The words of [`FlowKey::hash`], for data paths that do not run this code. Secret as well.
    pub const fn words(&self) -> &[u64; 11] {
        &self.0
    }
}

impl std::fmt::Debug for HashKey {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl FlowKey {
    /// The flow's hash, of both addresses, both ports (0 without) and the protocol.
    ///
    /// These are ten numbers of 32 bits (four for an address), each times a secret odd word of 64
    /// bits; the sum, and one word more, goes through MurmurHash3's finalizer, of which the low
    /// half is taken. Two flows have the same sum for one key in 2^32 at most [Carter and Wegman,
    /// Universal classes of hash functions, 1979; Lemire and Kaser, Strongly universal string
    /// hashing is fast, 2014]; the finalizer, which can be undone, then spreads sums that are
    /// close. SipHash would also hide its key from someone who sees hashes. But hashes are never shown, and SipHash
    /// costs more than all that a limiter does: eight rounds that wait for each other, where
    /// these products do not, neither here nor in eBPF.
    #[inline]
    pub fn hash(&self, key: HashKey) -> u32 {
        let Ports {
            source,
            destination,
        } = self.ports.unwrap_or_default();
        // As they stand in the packet, read as a little-endian number.
        let ports = u32::from(source.swap_bytes()) | u32::from(destination.swap_bytes()) << 16;
        let [k0, s0, s1, s2, s3, d0, d1, d2, d3, p0, p1] = key.0;
        let [a, b, c, d] = words(&self.source);
        let [e, f, g, h] = words(&self.destination);
        let sum = k0
            .wrapping_add(s0.wrapping_mul(a))
            .wrapping_add(s1.wrapping_mul(b))
            .wrapping_add(s2.wrapping_mul(c))
            .wrapping_add(s3.wrapping_mul(d))
            .wrapping_add(d0.wrapping_mul(e))
            .wrapping_add(d1.wrapping_mul(f))
            .wrapping_add(d2.wrapping_mul(g))
            .wrapping_add(d3.wrapping_mul(h))
            .wrapping_add(p0.wrapping_mul(u64::from(ports)))
            .wrapping_add(p1.wrapping_mul(u64::from(self.protocol)));
        finish(sum) as u32
    }

    /// The hash of the source address alone, or of the destination address.
    #[inline]
    pub fn host_hash(&self, key: HashKey, source: bool) -> u32 {
        let [k0, s0, s1, s2, s3, ..] = key.0;
        let [a, b, c, d] = words(if source {
            &self.source
        } else {
            &self.destination
        });
        let sum = k0
            .wrapping_add(s0.wrapping_mul(a))
            .wrapping_add(s1.wrapping_mul(b))
            .wrapping_add(s2.wrapping_mul(c))
            .wrapping_add(s3.wrapping_mul(d));
        finish(sum) as u32
    }
}

/// An address as four numbers, little-endian.
#[inline]
fn words(address: &[u8; 16]) -> [u64; 4] {
    let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| address[at + byte]));
    [0, 4, 8, 12].map(|at| u64::from(number(at)))
}

/// MurmurHash3's finalizer for 64 bits (Appleby, in the public domain).
#[inline]
fn finish(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// The 16 bytes of an address, IPv4 mapped into IPv6.
pub(super) fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
