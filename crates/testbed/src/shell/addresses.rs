//! The numbers of shells, and the addresses that follow from them.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

use nix::sys::socket::{getsockopt, sockopt::IpMtu};

/// What devices of shells are called, before their numbers.
const NAME: &str = "tg";
/// Most shells in a namespace: as many as there are networks of IPv6.
const MOST: u32 = 1 << 16;
/// Length of the shells' networks.
pub(super) const BITS: u8 = 30;
/// The same for IPv6.
pub(super) const BITS6: u8 = 64;

/// The addresses of a shell: a network of two hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Addresses {
    /// The name of both devices.
    pub(super) name: String,
    /// Of the device outside.
    pub(super) gateway: Ipv4Addr,
    /// Of the device in the shell.
    pub(super) shell: Ipv4Addr,
    pub(super) gateway6: Ipv6Addr,
    pub(super) shell6: Ipv6Addr,
    /// Whether the network outside has IPv6.
    pub(super) has_six: bool,
    /// Most bytes of a packet.
    pub(super) mtu: u16,
}

impl Addresses {
    /// The addresses of the shell of this number.
    pub(super) fn new(number: u32, mtu: u16) -> Self {
        // Shared address space, RFC 6598: neither public nor in use in private networks.
        let base = u32::from(Ipv4Addr::new(100, 64, 0, 0)) + 4 * number;
        // Unique local addresses, RFC 4193; the digits after fd are "tideg".
        let six = |host| {
            let subnet = number as u16;
            Ipv6Addr::new(0xfd74, 0x6964, 0x6567, subnet, 0, 0, 0, host)
        };
        Self {
            name: format!("{NAME}{number}"),
            gateway: (base + 1).into(),
            shell: (base + 2).into(),
            gateway6: six(1),
            shell6: six(2),
            has_six: true,
            mtu,
        }
    }
}

/// Numbers that no shell has yet. `devices` has the form of `/proc/net/dev`. Numbers above all present ones come
/// first, so that shells within shells have other addresses than those around them.
pub(super) fn unused(devices: &str) -> impl Iterator<Item = u32> {
    let names = devices.lines().filter_map(|line| line.split_once(':'));
    let numbers = names.filter_map(|(name, _)| name.trim().strip_prefix(NAME)?.parse::<u32>().ok());
    let first = numbers.max().map_or(0, |number| number.saturating_add(1));
    (first..MOST).chain(0..first.min(MOST))
}

/// Most bytes of packets on the way outside.
pub(super) fn mtu() -> u16 {
    let ask = || {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        // Nothing is sent. It is an address for documentation (RFC 5737): the default route leads there.
        socket.connect("198.51.100.1:9").ok()?;
        getsockopt(&socket, IpMtu).ok()
    };
    // At least what IPv6 needs, at most what the forwarding thread takes.
    ask().unwrap_or(1500).clamp(1280, 9000) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_above_those_in_use() {
        let devices = "Inter-| Receive\n face |bytes\n    lo: 1\n  tg0: 1 2\n tg7: 3\ntgx: 4\n";
        assert_eq!(unused(devices).take(2).collect::<Vec<_>>(), [8, 9]);
        assert_eq!(unused("lo: 1").next(), Some(0));
        let full = "tg65535: 1";
        assert_eq!(unused(full).next(), Some(0));
        assert_eq!(unused("tg4294967295: 1").count(), 1 << 16);
    }

    #[test]
    fn each_number_has_addresses_of_its_own() {
        let (first, last) = (Addresses::new(0, 1500), Addresses::new(MOST - 1, 1500));
        assert_eq!(first.gateway.to_string(), "100.64.0.1");
        assert_eq!(first.shell.to_string(), "100.64.0.2");
        assert_eq!(last.shell.to_string(), "100.67.255.254");
        assert_eq!(last.shell6.to_string(), "fd74:6964:6567:ffff::2");
    }
}
