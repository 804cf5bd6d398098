//! How addresses are written: as they are, cut, or as pseudonyms.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

use crate::key::Key;
use crate::net::Prefixes;

/// Pseudonyms that are remembered: about 5 MB.
const REMEMBERED: usize = 1 << 16;

/// The form of addresses in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Addresses {
    /// As they are.
    #[default]
    Keep,
    /// With zeros behind a prefix.
    Prefix(Prefixes),
    /// Encrypted, so that addresses with the same prefix have pseudonyms with the same prefix (Crypto-PAn).
    Pseudonym,
}

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("prefix", lengths)) => lengths.parse().map(Self::Prefix),
            None if text == "keep" => Ok(Self::Keep),
            None if text == "pseudonym" => Ok(Self::Pseudonym),
            _ => Err(format!(
                "'{text}' is not a form of addresses: write keep, pseudonym, or prefix:24,48 with the bits that are kept \
                 of IPv4 and of IPv6"
            )),
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Prefix(prefixes) => write!(f, "prefix:{prefixes}"),
            Self::Pseudonym => f.write_str("pseudonym"),
        }
    }
}

/// Changes addresses to their form.
pub(crate) enum Mapping {
    Keep,
    Prefix(Prefixes),
    Pseudonym(Box<Pseudonyms>),
}

impl Mapping {
    pub fn new(form: Addresses, key: &Key) -> Self {
        match form {
            Addresses::Keep => Self::Keep,
            Addresses::Prefix(prefixes) => Self::Prefix(prefixes),
            Addresses::Pseudonym => Self::Pseudonym(Box::new(Pseudonyms::new(key))),
        }
    }

    pub fn of(&mut self, address: IpAddr) -> IpAddr {
        match self {
            Self::Keep => address,
            Self::Prefix(prefixes) => prefixes.cut(address),
            Self::Pseudonym(pseudonyms) => pseudonyms.of(address),
        }
    }
}

/// Crypto-PAn: Xu, Fan, Ammar and Moon, Prefix-Preserving IP Address Anonymization, ICNP 2002. Each bit is inverted or not, as
/// the encryption of all bits before it says. The form for IPv6 is the one of all implementations that have it.
pub(crate) struct Pseudonyms {
    cipher: Aes128,
    pad: u128,
    known: HashMap<IpAddr, IpAddr>,
}

impl Pseudonyms {
    fn new(key: &Key) -> Self {
        let (cipher, pad) = key.for_addresses();
        let cipher = Aes128::new(&cipher.into());
        let mut block = pad.into();
        cipher.encrypt_block(&mut block);
        Self {
            pad: u128::from_be_bytes(block.into()),
            cipher,
            known: HashMap::new(),
        }
    }

    fn of(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        let pseudonym: IpAddr = match address {
            IpAddr::V4(address) => {
                let first = u128::from(u32::from(address)) << 96;
                Ipv4Addr::from((self.encrypt(first, 32) >> 96) as u32).into()
            }
            IpAddr::V6(address) => Ipv6Addr::from(self.encrypt(u128::from(address), 128)).into(),
        };
        if self.known.len() == REMEMBERED {
            self.known.clear();
        }
        self.known.insert(address, pseudonym);
        pseudonym
    }

    /// The pseudonym of an address of so many bits, which are the first ones of the number.
    fn encrypt(&self, address: u128, bits: u32) -> u128 {
        (0..bits).fold(address, |pseudonym, bit| {
            let after = u128::MAX >> bit;
            let mut block = (address & !after | self.pad & after).to_be_bytes().into();
            self.cipher.encrypt_block(&mut block);
            let first: [u8; 16] = block.into();
            pseudonym ^ u128::from(first[0] >> 7) << (127 - bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of the sample in the authors' distribution.
    const KEY: [u8; 32] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131,
        121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ];

    /// Addresses of the authors' sample trace, and of IPv6 those that other implementations test.
    const PUBLISHED: [(&str, &str); 20] = [
        ("128.11.68.132", "135.242.180.132"),
        ("129.118.74.4", "134.136.186.123"),
        ("130.132.252.244", "133.68.164.234"),
        ("141.223.7.43", "141.167.8.160"),
        ("141.233.145.108", "141.129.237.235"),
        ("152.163.225.39", "151.140.114.167"),
        ("156.29.3.236", "147.225.12.42"),
        ("165.247.96.84", "162.9.99.234"),
        ("166.107.77.190", "160.132.178.185"),
        ("192.102.249.13", "252.138.62.131"),
        ("192.215.32.125", "252.43.47.189"),
        ("24.94.26.44", "100.88.228.35"),
        ("4.3.88.225", "124.60.155.63"),
        ("63.195.241.44", "95.179.238.44"),
        ("64.39.15.238", "0.219.7.41"),
        ("::1", "78ff:f001:9fc0:20df:8380:b1f1:704:ed"),
        ("::2", "78ff:f001:9fc0:20df:8380:b1f1:704:ef"),
        ("::ffff", "78ff:f001:9fc0:20df:8380:b1f1:704:f838"),
        ("2001:db8::1", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e"),
        ("2001:db8::2", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c"),
    ];

    #[test]
    fn pseudonyms_are_the_published_ones() {
        let mut pseudonyms = Mapping::new(Addresses::Pseudonym, &Key::from_bytes(KEY));
        // Twice: the second time from memory.
        for (address, pseudonym) in PUBLISHED.iter().chain(&PUBLISHED) {
            let found = pseudonyms.of(address.parse().unwrap());
            assert_eq!(found.to_string(), *pseudonym, "{address}");
        }
    }

    #[test]
    fn memory_is_bounded_and_prefixes_are_preserved() {
        let mut pseudonyms = Pseudonyms::new(&Key::from_bytes(KEY));
        let address = |number: u32| IpAddr::from(Ipv4Addr::from(number));
        let network = pseudonyms.of(address(0x0a01_0203));
        for number in 0..REMEMBERED as u32 + 10 {
            pseudonyms.of(address(number));
        }
        assert!(pseudonyms.known.len() <= REMEMBERED);
        assert_eq!(pseudonyms.of(address(0x0a01_0203)), network);
        let (IpAddr::V4(one), IpAddr::V4(other)) = (network, pseudonyms.of(address(0x0a01_02ff)))
        else {
            panic!("not IPv4");
        };
        assert_eq!(one.octets()[..3], other.octets()[..3]);
        assert_ne!(one.octets()[3] >> 7, other.octets()[3] >> 7);
    }

    #[test]
    fn forms_are_read() {
        for form in ["keep", "prefix:24,48", "pseudonym"] {
            assert_eq!(form.parse::<Addresses>().unwrap().to_string(), form);
        }
        for wrong in ["", "prefix", "prefix:33,48", "keep:1", "Keep"] {
            assert!(wrong.parse::<Addresses>().is_err(), "{wrong}");
        }
    }
}
