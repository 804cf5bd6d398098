//! Networks of addresses, and prefixes of clients.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// How many leading bits of an address count, in each version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixes {
    /// Of IPv4, at most 32.
    pub v4: u8,
    /// Of IPv6, at most 128.
    pub v6: u8,
}

impl Prefixes {
    /// The mask of IPv4.
    pub(crate) fn mask4(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0)
    }

    /// The mask of IPv6.
    pub(crate) fn mask6(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0)
    }

    /// The address with zeros behind its prefix.
    pub fn cut(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & self.mask4()).into(),
            IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & self.mask6()).into(),
        }
    }
}

impl FromStr for Prefixes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' are not two lengths of prefixes: write the one of IPv4 and the one of IPv6, such as 24,48"
            )
        };
        let (v4, v6) = text.split_once(',').ok_or_else(wrong)?;
        let bits = |text: &str, most: u8| text.trim().parse().ok().filter(|bits| *bits <= most);
        match (bits(v4, 32), bits(v6, 128)) {
            (Some(v4), Some(v6)) => Ok(Self { v4, v6 }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.v4, self.v6)
    }
}

/// A network, such as `192.0.2.0/24`. An address alone is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// As the filter's map holds it: the length of the prefix and the address, with IPv4 mapped into IPv6.
    pub(crate) fn mapped(self) -> (u32, [u8; 16]) {
        match self.address {
            IpAddr::V4(address) => (96 + u32::from(self.bits), address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => (u32::from(self.bits), address.octets()),
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is not a network: write one such as 192.0.2.0/24 or 2001:db8::/32")
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most),
            None => Some(most),
        };
        let bits = bits.ok_or_else(wrong)?;
        let network = Prefixes { v4: bits, v6: bits }.cut(address);
        match network == address {
            true => Ok(Self { address, bits }),
            false => Err(format!(
                "'{text}' has bits set beyond its length: did you mean {network}/{bits}?"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_cut() {
        let prefixes: Prefixes = "24,48".parse().unwrap();
        assert_eq!(
            prefixes.cut("192.0.2.77".parse().unwrap()).to_string(),
            "192.0.2.0"
        );
        let cut = prefixes.cut("2001:db8:1:2::3".parse().unwrap());
        assert_eq!(cut.to_string(), "2001:db8:1::");
        let none: Prefixes = "0,0".parse().unwrap();
        assert_eq!(
            none.cut("192.0.2.77".parse().unwrap()).to_string(),
            "0.0.0.0"
        );
        for wrong in ["", "24", "33,48", "24,129", "a,b", "24,48,1", "-1,2"] {
            assert!(wrong.parse::<Prefixes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_are_read() {
        let network: Network = "192.0.2.0/24".parse().unwrap();
        assert_eq!(network.mapped().0, 120);
        assert_eq!(network.mapped().1[10..14], [0xff, 0xff, 192, 0]);
        assert_eq!("2001:db8::1".parse::<Network>().unwrap().mapped().0, 128);
        for wrong in ["", "192.0.2.0/33", "::/129", "x/8", "192.0.2.0/"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        let meant = |text: &str| text.parse::<Network>().unwrap_err();
        assert_eq!(
            meant("10.0.0.1/8"),
            "'10.0.0.1/8' has bits set beyond its length: did you mean 10.0.0.0/8?"
        );
        assert!(meant("2001:db8::1/64").ends_with("did you mean 2001:db8::/64?"));
        assert!("0.0.0.0/0".parse::<Network>().is_ok());
    }
}
