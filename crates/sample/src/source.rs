//! Where packets come from: a socket, its ring, and the filter in the kernel.

use std::os::fd::AsFd;

use tidegate_trace::read::LinkType;

use crate::address::Addresses;
use crate::error::SampleError;
use crate::filter::Filter;
use crate::options::Options;
use crate::sys::{BLOCK, PacketSocket, Ring};

/// ARPHRD_RAWIP of <linux/if_arp.h>, which modems have.
const RAW_IP: u16 = 519;

/// Everything for which a sampler needs rights: a socket that receives, and a filter in the kernel.
pub struct Source {
    pub(crate) socket: PacketSocket,
    pub(crate) ring: Ring,
    pub(crate) filter: Filter,
    pub(crate) link: LinkType,
    pub(crate) mtu: u32,
}

impl Source {
    /// Opens the socket, loads the filter, and receives packets from now on.
    ///
    /// # Errors
    /// A right, the interface or a feature of the kernel is missing.
    pub fn open(options: &Options) -> Result<Self, SampleError> {
        let socket = PacketSocket::new().map_err(SampleError::system("open a packet socket"))?;
        let name = &options.interface;
        let found = socket.interface(name);
        let found = found.map_err(SampleError::system(format!("ask for {name}")))?;
        let interface = found.ok_or_else(|| SampleError::NoInterface(name.clone()))?;
        let link = match interface.link {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::ETHERNET,
            libc::ARPHRD_NONE | RAW_IP => LinkType::RAW,
            other => return Err(SampleError::LinkLayer(name.clone(), other)),
        };
        let raw = link == LinkType::RAW;
        // Packets in tunnels have more addresses than are hidden.
        let tunnels = options.addresses == Addresses::Keep;
        let filter = Filter::load(&options.choice, raw, &options.clients, tunnels)?;
        let attached = socket.filter(filter.as_fd());
        attached.map_err(SampleError::system("attach the filter"))?;
        let blocks = (options.ring / BLOCK as u64).clamp(2, 1 << 14) as u32;
        let ring = socket.ring(blocks);
        let ring = ring.map_err(SampleError::system("make the ring"))?;
        let bound = socket.bind(interface.index);
        bound.map_err(SampleError::system(format!("bind to {name}")))?;
        Ok(Self {
            socket,
            ring,
            filter,
            link,
            mtu: interface.mtu,
        })
    }
}
