//! Which flows, or which clients, are sampled: what the filter in the kernel decides, for other programs and tests.

use std::net::{IpAddr, SocketAddr};

use crate::fraction::Fraction;
use crate::key::Key;
use crate::net::Prefixes;

/// What is sampled as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A connection, in both directions.
    Flow,
    /// All connections of a client, where addresses with the same prefix are one client.
    Client(Prefixes),
}

/// A share of flows or clients, and the key that chooses them.
///
/// ```
/// use tidegate_sample::{By, Choice, Fraction, Key};
///
/// let choice = Choice { by: By::Flow, fraction: Fraction::new(0.5).unwrap(), key: Key::from_bytes([7; 32]) };
/// let server = "198.51.100.1:443".parse()?;
/// let sampled = (0..1000).filter(|port| choice.takes_flow(([192, 0, 2, 1], *port).into(), server)).count();
/// assert!((400..600).contains(&sampled));
/// // Both directions alike.
/// let client = "192.0.2.1:50000".parse()?;
/// assert_eq!(choice.takes_flow(client, server), choice.takes_flow(server, client));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What is sampled as a whole.
    pub by: By,
    /// How much of it.
    pub fraction: Fraction,
    /// What chooses.
    pub key: Key,
}

impl Choice {
    /// Whether a TCP connection between these ends is sampled, with [`By::Flow`].
    pub fn takes_flow(&self, one: SocketAddr, other: SocketAddr) -> bool {
        let mut ends = [one, other].map(|end| (numbers(end.ip()), end.port()));
        ends.sort_unstable();
        let [(low, low_port), (high, high_port)] = ends;
        let ports = u32::from(low_port) << 16 | u32::from(high_port);
        self.takes(&[&low[..], &high, &[ports]].concat())
    }

    /// Whether the flows of a client are sampled, with [`By::Client`].
    pub fn takes_client(&self, client: IpAddr) -> bool {
        let masked = match self.by {
            By::Flow => client,
            By::Client(prefixes) => prefixes.cut(client),
        };
        self.takes(&numbers(masked))
    }

    /// Whether the hash of the numbers is below the limit. `bpf/hash.h` says why it is this one.
    fn takes(&self, numbers: &[u32]) -> bool {
        let words = self.key.for_flows();
        let products = words[1..].iter().zip(numbers);
        let sum = products.fold(words[0], |sum, (word, number)| {
            sum.wrapping_add(word.wrapping_mul(u64::from(*number)))
        });
        self.fraction.takes(scattered((sum >> 32) as u32))
    }
}

/// An address in numbers of 32 bits: one or four.
fn numbers(address: IpAddr) -> Vec<u32> {
    match address {
        IpAddr::V4(address) => vec![address.to_bits()],
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            [96, 64, 32, 0].map(|by| (bits >> by) as u32).to_vec()
        }
    }
}

/// MurmurHash3's finalizer for 32 bits (Appleby, in the public domain).
fn scattered(mut hash: u32) -> u32 {
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const SHARE: f64 = 0.25;

    /// Flows of one client with ports that follow each other, and of neighbours with one port, under many keys.
    fn taken(flow: impl Fn(u16) -> SocketAddr) -> Vec<Vec<bool>> {
        let server = "[2001:db8::443]:443".parse().unwrap();
        let keys = (0..64).map(|byte| Key::from_bytes([byte; 32]));
        keys.map(|key| {
            let choice = Choice {
                by: By::Flow,
                fraction: Fraction::new(SHARE).unwrap(),
                key,
            };
            (0..1000)
                .map(|at| choice.takes_flow(flow(at), server))
                .collect()
        })
        .collect()
    }

    #[test]
    fn flows_that_are_alike_are_sampled_as_often_as_asked_and_independently() {
        let ports = taken(|at| (Ipv6Addr::from_bits(7), 32_768 + at).into());
        let neighbours = taken(|at| (Ipv6Addr::from_bits(u128::from(at)), 50_000).into());
        for keys in [ports, neighbours] {
            let share = |of: &dyn Fn(&[bool]) -> bool| {
                let all = keys.iter().flat_map(|flows| flows.windows(2));
                all.clone().filter(|pair| of(pair)).count() as f64 / all.count() as f64
            };
            // 64,000 draws: four standard deviations are 0.007 and 0.004.
            let one = share(&|pair| pair[0]);
            let both = share(&|pair| pair[0] && pair[1]);
            assert!((one - SHARE).abs() < 0.007, "{one}");
            assert!((both - SHARE * SHARE).abs() < 0.004, "{both}");
            // No key takes all flows that are alike, or none.
            for flows in &keys {
                let share = flows.iter().filter(|taken| **taken).count() as f64 / 1000.0;
                assert!((share - SHARE).abs() < 0.07, "{share}");
            }
        }
    }
}
