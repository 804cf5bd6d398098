//! Which addresses are reached from a shell.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// The addresses of the calling thread's network. Packets to them do not leave the machine, so they keep the shell's address as their source.
pub(super) fn own() -> Vec<IpAddr> {
    let ip = |address: SockaddrStorage| match address.as_sockaddr_in() {
        Some(four) => Some(four.ip().into()),
        None => Some(address.as_sockaddr_in6()?.ip().into()),
    };
    let all = getifaddrs().into_iter().flatten();
    all.filter_map(|one| ip(one.address?)).collect()
}

/// Whether packets to this address go beyond the network of their sender, and to one receiver.
pub(super) fn travels(to: IpAddr) -> bool {
    let alone = to.is_multicast() || to.is_unspecified() || to.is_loopback();
    !alone
        && match to {
            IpAddr::V4(to) => !to.is_broadcast() && !to.is_link_local(),
            IpAddr::V6(to) => !to.is_unicast_link_local(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packets_to_one_receiver_beyond_the_neighbours_travel() {
        for there in [
            "192.0.2.1",
            "100.64.0.1",
            "10.0.0.1",
            "2001:db8::1",
            "fd00::1",
        ] {
            assert!(travels(there.parse().unwrap()), "{there}");
        }
        for here in [
            "127.0.0.53",
            "::1",
            "224.0.0.251",
            "ff02::2",
            "fe80::1",
            "169.254.0.1",
            "255.255.255.255",
            "0.0.0.0",
            "::",
        ] {
            assert!(!travels(here.parse().unwrap()), "{here}");
        }
    }
}
