//! Which flows, or which clients, are sampled: what the filter in the kernel decides, for other programs and tests.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher13;

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
        let mut ends = [one, other].map(|end| (octets(end.ip()), end.port()));
        ends.sort_unstable();
        let [low, high] = ends;
        let ports = [low.1, high.1].map(u16::to_be_bytes);
        self.takes([&low.0, &high.0, ports.as_flattened(), &[6]])
    }

    /// Whether the flows of a client are sampled, with [`By::Client`].
    pub fn takes_client(&self, client: IpAddr) -> bool {
        let masked = match self.by {
            By::Flow => client,
            By::Client(prefixes) => prefixes.cut(client),
        };
        self.takes([&octets(masked)])
    }

    /// Whether the hash of the bytes is below the limit. It is SipHash-1-3.
    fn takes<const N: usize>(&self, parts: [&[u8]; N]) -> bool {
        let mut hasher = SipHasher13::new_with_key(&self.key.for_flows());
        hasher.write(&parts.concat());
        self.fraction.takes(hasher.finish())
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
