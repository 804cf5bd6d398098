//! Which addresses are one client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many leading bits of an address tell one client from another.
///
/// A household has one address of IPv4, and a whole prefix of IPv6. Only who took the capture knows how long
/// that is. Unless a capture says it, each address is a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clients {
    v4: Option<u8>,
    v6: Option<u8>,
}

impl Default for Clients {
    /// Each address is a client.
    fn default() -> Self {
        Self::new(Self::ADDRESSES, Self::ADDRESSES)
    }
}

impl Clients {
    /// All bits of an address, of IPv4 and of IPv6.
    pub const ADDRESSES: (u8, u8) = (32, 128);

    /// Addresses with the same bits in front are one client; of IPv4 and of IPv6. Of addresses, so many bits are kept: where these
    /// are fewer, several clients look like one.
    pub fn new(bits: (u8, u8), kept: (u8, u8)) -> Self {
        let known = |bits: u8, kept: u8| (bits <= kept).then_some(bits);
        Self {
            v4: known(bits.0.min(32), kept.0),
            v6: known(bits.1.min(128), kept.1),
        }
    }

    /// The client that an address belongs to: its prefix, with zeros behind it. `None` where clients cannot be told apart.
    pub fn of(self, address: IpAddr) -> Option<IpAddr> {
        match address {
            IpAddr::V4(address) => {
                let behind = u32::MAX.checked_shr(self.v4?.into()).unwrap_or(0);
                Some(Ipv4Addr::from_bits(address.to_bits() & !behind).into())
            }
            IpAddr::V6(address) => {
                let behind = u128::MAX.checked_shr(self.v6?.into()).unwrap_or(0);
                Some(Ipv6Addr::from_bits(address.to_bits() & !behind).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clients: Clients, address: &str) -> Option<String> {
        let address = address.parse().expect("an address");
        clients.of(address).map(|client| client.to_string())
    }

    #[test]
    fn an_address_belongs_to_its_prefix() {
        for (bits, v4, v6) in [
            ((32, 128), "192.0.2.77", "2001:db8:1:2ff::3"),
            ((24, 56), "192.0.2.0", "2001:db8:1:200::"),
            ((0, 0), "0.0.0.0", "::"),
            ((255, 255), "192.0.2.77", "2001:db8:1:2ff::3"),
        ] {
            let clients = Clients::new(bits, Clients::ADDRESSES);
            assert_eq!(of(clients, "192.0.2.77").as_deref(), Some(v4));
            assert_eq!(of(clients, "2001:db8:1:2ff::3").as_deref(), Some(v6));
        }
    }

    #[test]
    fn clients_of_cut_addresses_are_told_apart_by_what_is_kept_alone() {
        let cut = Clients::new((32, 56), (24, 56));
        assert_eq!(of(cut, "192.0.2.0"), None);
        let client = of(cut, "2001:db8:1:200::");
        assert_eq!(client.as_deref(), Some("2001:db8:1:200::"));
    }
}
