//! Address prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses that begin alike. IPv4 is part of IPv6 as `::ffff:0:0/96` (RFC 4291 §2.5.5.2), so
/// `::/0` is all addresses of both, and `0.0.0.0/0` all of IPv4.
///
/// Parsed from an address, a slash and a number of bits, or an address alone: `192.0.2.0/24`,
/// `2001:db8::/32`, `192.0.2.7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Prefix {
    address: u128,
    mask: u128,
}

/// Why a text is no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// No address, or no number, where there has to be one.
    #[error("'{0}' is no prefix: write an address and bits, such as 192.0.2.0/24 or 2001:db8::/32")]
    Syntax(String),
    /// More bits than the address has.
    #[error("'{0}' has too many bits: at most 32 for IPv4, 128 for IPv6")]
    Length(String),
    /// The address has bits beyond those that count: one of the two is a mistake.
    #[error("'{text}' has bits set beyond its length: did you mean {meant}?")]
    Beyond {
        /// What was written.
        text: String,
        /// The prefix that those bits belong to.
        meant: String,
    },
}

impl Prefix {
    /// All addresses, of IPv6 and IPv4.
    pub const ALL: Self = Self {
        address: 0,
        mask: 0,
    };

    /// Its first address; one of IPv4 is mapped into IPv6.
    pub const fn address(&self) -> u128 {
        self.address
    }

    /// How many bits count, from 0 to 128, of addresses in that form: 120 for a /24 of IPv4.
    pub const fn bits(&self) -> u32 {
        self.mask.leading_ones()
    }

    /// The bits of an address that count, if it is this number of them.
    ///
    /// # Panics
    /// If there are more than 128.
    pub const fn mask(bits: u32) -> u128 {
        match u128::MAX.checked_shl(128 - bits) {
            Some(mask) => mask,
            None => 0,
        }
    }

    /// Whether all its addresses are IPv4's.
    pub const fn is_ipv4(&self) -> bool {
        self.bits() >= 96 && self.address >> 32 == 0xffff
    }

    /// Whether the address begins with it.
    #[inline]
    pub fn contains(&self, address: [u8; 16]) -> bool {
        (u128::from_be_bytes(address) ^ self.address) & self.mask == 0
    }
}

impl fmt::Display for Prefix {
    /// As it is parsed; addresses of IPv4 in its notation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.address);
        match address.to_ipv4_mapped() {
            Some(address) if self.bits() >= 96 => write!(f, "{address}/{}", self.bits() - 96),
            _ => write!(f, "{address}/{}", self.bits()),
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let syntax = || PrefixError::Syntax(text.into());
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| syntax())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits: u32 = match bits {
            Some(bits) => bits.parse().map_err(|_| syntax())?,
            None => width,
        };
        if bits > width {
            return Err(PrefixError::Length(text.into()));
        }
        let mask = Self::mask(128 - width + bits);
        let mapped = u128::from_be_bytes(super::mapped(address));
        if mapped & !mask != 0 {
            let kept = mapped & mask;
            let meant = match address {
                IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from_bits(kept as u32)),
                IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from_bits(kept)),
            };
            let meant = format!("{meant}/{bits}");
            return Err(PrefixError::Beyond {
                text: text.into(),
                meant,
            });
        }
        Ok(Self {
            address: mapped,
            mask,
        })
    }
}
