//! The numbers of shells, and the addresses that follow from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{SockaddrStorage, getsockopt, sockopt::IpMtu};

use super::names::servers;

/// What devices of shells are called, before their numbers.
const NAME: &str = "tg";
/// Most shells in a namespace: as many as there are networks of IPv6.
const MOST: u32 = 1 << 16;
/// Length of the shells' networks.
pub(super) const BITS: u8 = 30;
/// The same for IPv6.
pub(super) const BITS6: u8 = 64;

/// The networks of IPv6 of which shells have one each. Programs choose between IPv6 and IPv4 by the address that packets would have
/// (RFC 6724 §6): from a unique local one they would go to servers by IPv4, even where this machine takes IPv6. So shells have addresses
/// for tests there (RFC 5180 §8), which have the label of global ones.
const BENCHMARKS: [u16; 3] = [0x2001, 2, 0];
/// Unique local addresses (RFC 4193), where there is no way outside by IPv6: so that programs take IPv4. The digits after fd are "tideg".
const LOCAL: [u16; 3] = [0xfd74, 0x6964, 0x6567];

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

/// Networks of IPv4 that something else has: the first and the last address of each.
#[derive(Debug, Default)]
pub(super) struct Taken(Vec<(u32, u32)>);

impl Taken {
    /// Those of the machine's devices, but for other shells', and its servers for names. `resolv` is the text of `/etc/resolv.conf`.
    pub(super) fn here(resolv: &str) -> Self {
        let mut all = Vec::new();
        for one in getifaddrs().into_iter().flatten() {
            let address = |storage: Option<SockaddrStorage>| Some(storage?.as_sockaddr_in()?.ip());
            let (Some(ip), mask) = (address(one.address), address(one.netmask)) else {
                continue;
            };
            let number = one.interface_name.strip_prefix(NAME);
            if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
                continue;
            }
            let mask = mask.map_or(u32::MAX, u32::from);
            all.push((u32::from(ip) & mask, u32::from(ip) | !mask));
        }
        all.extend(servers(resolv).filter_map(|server| match server {
            IpAddr::V4(ip) => Some((ip.into(), ip.into())),
            IpAddr::V6(_) => None,
        }));
        Self(all)
    }

    /// Whether one of them has an address among those of a network with this length of its prefix.
    fn meets(&self, network: Ipv4Addr, bits: u8) -> bool {
        let first = u32::from(network);
        let last = first | u32::MAX >> bits;
        self.0.iter().any(|&(from, to)| from <= last && to >= first)
    }
}

impl Addresses {
    /// The addresses of the shell of this number, unless something else has them.
    pub(super) fn free(number: u32, way: &Way, taken: &Taken) -> Option<Self> {
        // Shared address space, RFC 6598: neither public nor in use in private networks. If this machine has an address of it, as behind a
        // provider's translation or in an overlay, rules for all of it are likely. The other one is for tests, RFC 2544.
        let shared = (Ipv4Addr::new(100, 64, 0, 0), 10);
        let (block, bits) = match taken.meets(shared.0, shared.1) {
            false => shared,
            true => (Ipv4Addr::new(198, 18, 0, 0), 15),
        };
        let base = u32::from(block) + 4 * number % (1 << (32 - bits));
        (!taken.meets(base.into(), BITS)).then(|| Self::new(number, base, way))
    }

    fn new(number: u32, base: u32, way: &Way) -> Self {
        let [a, b, c] = match way.has_six {
            true => BENCHMARKS,
            false => LOCAL,
        };
        let six = |host| Ipv6Addr::new(a, b, c, number as u16, 0, 0, 0, host);
        Self {
            name: format!("{NAME}{number}"),
            gateway: (base + 1).into(),
            shell: (base + 2).into(),
            gateway6: six(1),
            shell6: six(2),
            has_six: true,
            mtu: way.mtu,
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

/// The way outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// Most bytes of packets.
    pub(super) mtu: u16,
    /// Whether global addresses of IPv6 are reached from one of this machine.
    has_six: bool,
}

impl Way {
    /// That of this machine.
    pub(super) fn here() -> Self {
        // Nothing is sent. These are addresses for documentation (RFC 5737, RFC 3849): the default route leads there.
        let connect = |from: &str, to: &str| {
            let socket = UdpSocket::bind(from).ok()?;
            socket.connect(to).ok().map(|()| socket)
        };
        let four = connect("0.0.0.0:0", "198.51.100.1:9");
        let mtu = four.and_then(|socket| getsockopt(&socket, IpMtu).ok());
        let six = connect("[::]:0", "[2001:db8::1]:9");
        let own = six.and_then(|socket| socket.local_addr().ok());
        Self {
            // At least what IPv6 needs, at most what the forwarding thread takes.
            mtu: mtu.unwrap_or(1500).clamp(1280, 9000) as u16,
            has_six: own.is_some_and(|own| match own.ip() {
                IpAddr::V6(own) => !own.is_unique_local() && !own.is_unicast_link_local(),
                IpAddr::V4(_) => false,
            }),
        }
    }

    /// One of usual packets.
    #[cfg(test)]
    pub(super) fn usual(has_six: bool) -> Self {
        let mtu = 1500;
        Self { mtu, has_six }
    }
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
        let with = |number, way| Addresses::free(number, &way, &Taken::default()).unwrap();
        let free = |number| with(number, Way::usual(false));
        let (first, last) = (free(0), free(MOST - 1));
        assert_eq!(first.gateway.to_string(), "100.64.0.1");
        assert_eq!(first.shell.to_string(), "100.64.0.2");
        assert_eq!(last.shell.to_string(), "100.67.255.254");
        assert_eq!(last.shell6.to_string(), "fd74:6964:6567:ffff::2");
        let global = with(MOST - 1, Way::usual(true));
        assert_eq!(global.shell6.to_string(), "2001:2:0:ffff::2");
    }

    #[test]
    fn addresses_that_something_else_has_are_left_out() {
        let free = |number, resolv: &str| {
            let free = Addresses::free(number, &Way::usual(true), &Taken::here(resolv));
            free.map(|one| one.shell.to_string())
        };
        assert_eq!(free(1, "").as_deref(), Some("100.64.0.6"));
        // The gateway of a shell around this one, or a provider's server.
        for server in ["100.64.0.1", "100.100.100.100"] {
            let resolv = format!("nameserver {server}\n");
            assert_eq!(free(0, &resolv).as_deref(), Some("198.18.0.2"));
            assert_eq!(free(MOST - 1, &resolv).as_deref(), Some("198.19.255.254"));
            let both = format!("{resolv}nameserver 198.18.0.5\n");
            assert_eq!(free(1, &both), None);
            assert_eq!(free(2, &both).as_deref(), Some("198.18.0.10"));
        }
    }
}
