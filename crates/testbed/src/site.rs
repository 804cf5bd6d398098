//! A small provider's network: a server, a machine in the middle that may limit, a client, and a
//! link with delay between two of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::TestbedError;
use crate::link::{Ends, Link, LinkPlan};
use crate::namespace::Namespace;

#[cfg(test)]
mod tests;

/// The place of the link. It decides whether the machine in the middle sees packets as on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPosition {
    /// Between the server and the middle, which gets packets as they were on the link.
    Core,
    /// Between the middle and the client: the server is on a veth device, so the middle gets
    /// super-packets (GSO) of up to 64 kB.
    Access,
}

/// A server, a bridge in the middle, and a client, each in a separate namespace.
///
/// The server is 192.0.2.1 and 2001:db8::1; the client gets addresses of the same networks by
/// [`client_address`](Self::client_address). Both have a device `eth0`; the bridge `br0` has the
/// ports `wan`, to the server, and `lan`, to the client.
#[derive(Debug)]
pub struct Site {
    /// The sender of packets.
    pub server: Namespace,
    /// The bridge.
    pub middle: Namespace,
    /// The receiver of packets.
    pub client: Namespace,
    /// The link; forward is toward the client.
    pub link: Link,
}

impl Site {
    /// The server's address.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    /// The server's address, IPv6.
    pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    /// Arguments of `tidegate gate run` on DPDK. The daemon takes the devices of the middle by packet sockets, and needs two cores and
    /// no hugepages. The core for packets sleeps when nothing comes. Nothing takes over the devices if the daemon is killed.
    pub const ON_DPDK: [&str; 7] = [
        "--dpdk",
        "wan=net_af_packet0,iface=wan",
        "--dpdk",
        "lan=net_af_packet1,iface=lan",
        "--eal",
        "--no-huge -m 512 -l 0,1 --log-level=error",
        "--no-wire",
    ];

    /// Builds the site.
    ///
    /// # Errors
    /// If rights are missing, the plan contradicts itself, or the system refuses anything.
    pub fn new(plan: &LinkPlan, position: LinkPosition) -> Result<Self, TestbedError> {
        let [server, middle, client] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        let link = match position {
            LinkPosition::Core => {
                middle.veth("lan", &client, "eth0")?;
                Link::new(
                    Ends {
                        near: server.port("eth0")?,
                        far: middle.port("wan")?,
                    },
                    plan,
                )?
            }
            LinkPosition::Access => {
                middle.veth("wan", &server, "eth0")?;
                Link::new(
                    Ends {
                        near: middle.port("lan")?,
                        far: client.port("eth0")?,
                    },
                    plan,
                )?
            }
        };
        middle.bridge("br0", &["wan", "lan"])?;
        server.address("eth0", Self::SERVER.into(), 24)?;
        server.address("eth0", Self::SERVER6.into(), 64)?;
        // iperf3 chooses an algorithm when the connection is there already. A connection that began with
        // BBR, which may be this machine's default, stays paced then, whatever is chosen for it.
        server.ip("-4 route change 192.0.2.0/24 dev eth0 congctl cubic")?;
        server.ip("-6 route change 2001:db8::/64 dev eth0 metric 256 congctl cubic")?;
        Ok(Self {
            server,
            middle,
            client,
            link,
        })
    }

    /// Leaves both devices of the middle to DPDK: it is a bridge no longer, and forwards nothing by itself.
    ///
    /// # Errors
    /// If `ethtool` is missing, or the system refuses anything.
    pub fn leave_to_dpdk(&self) -> Result<(), TestbedError> {
        for device in ["wan", "lan"] {
            self.middle
                .ip(&format!("link set {device} nomaster promisc on"))?;
        }
        // A packet socket would get packets of this machine without checksums, and larger than on a wire.
        for (host, device) in [(&self.client, "eth0"), (&self.middle, "lan")] {
            host.run(
                "ethtool",
                &format!("-K {device} tx off tso off gso off gro off"),
            )?;
        }
        Ok(())
    }

    /// Gives the client another address, 192.0.2.`host`.
    ///
    /// # Errors
    /// If the client has it already.
    pub fn client_address(&self, host: u8) -> Result<IpAddr, TestbedError> {
        let address = Ipv4Addr::new(192, 0, 2, host).into();
        self.client.address("eth0", address, 24)?;
        Ok(address)
    }

    /// Gives the client another address, 2001:db8::`host`.
    ///
    /// # Errors
    /// If the client has it already.
    pub fn client_address6(&self, host: u16) -> Result<IpAddr, TestbedError> {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into();
        self.client.address("eth0", address, 64)?;
        Ok(address)
    }
}
