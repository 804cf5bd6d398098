//! The link layers that captures are taken at.

use std::fmt;

/// A link-layer header type, by its number in the registry at
/// <https://www.tcpdump.org/linktypes.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// An interface that the capture does not describe.
    pub(super) const UNKNOWN: Self = Self(u16::MAX);
    /// BSD loopback: an address family in the capturing host's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet, with any tags.
    pub const ETHERNET: Self = Self(1);
    /// PPP as in RFC 1661, or in HDLC-like framing.
    pub const PPP: Self = Self(9);
    /// Raw IP, as OpenBSD's and old DLT numbers name it.
    pub const RAW_12: Self = Self(12);
    /// Raw IP, as BSD/OS numbers it.
    pub const RAW_14: Self = Self(14);
    /// PPP in HDLC-like framing, RFC 1662.
    pub const PPP_HDLC: Self = Self(50);
    /// PPPoE: the session header first, no Ethernet header.
    pub const PPP_ETHER: Self = Self(51);
    /// Raw IP, version 4 or 6.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: an address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// Whether there is a decoder for it.
    pub fn is_supported(self) -> bool {
        self.name().is_some()
    }

    /// What the registry calls a link layer without a decoder, if captures of it are not rare.
    fn foreign_name(self) -> Option<&'static str> {
        Some(match self.0 {
            105 => "IEEE 802.11",
            117 => "OpenBSD pflog",
            127 => "IEEE 802.11 with radiotap",
            147..=162 => "for private use",
            187 => "Bluetooth HCI H4",
            189 | 220 => "USB of Linux",
            192 => "PPI",
            195 | 230 => "IEEE 802.15.4",
            201 => "Bluetooth HCI H4 with direction",
            227 => "CAN of Linux",
            239 => "Linux nflog",
            249 => "USBPcap",
            251 => "Bluetooth Low Energy",
            253 => "Linux netlink",
            _ => return None,
        })
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NULL | Self::LOOP => "null/loopback",
            Self::ETHERNET => "Ethernet",
            Self::PPP | Self::PPP_HDLC => "PPP",
            Self::PPP_ETHER => "PPPoE",
            Self::RAW | Self::RAW_12 | Self::RAW_14 => "raw IP",
            Self::IPV4 => "raw IPv4",
            Self::IPV6 => "raw IPv6",
            Self::LINUX_SLL => "Linux cooked v1",
            Self::LINUX_SLL2 => "Linux cooked v2",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name().or_else(|| self.foreign_name()) {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
