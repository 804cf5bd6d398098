//! Where packets come from, and the filter in the kernel.

use std::os::fd::AsFd;
use std::path::Path;

use tidegate_trace::read::LinkType;

use crate::address::Addresses;
use crate::error::SampleError;
use crate::filter::{self, Code, Filter, Packets};
use crate::hook::Hook;
use crate::listen::Listener;
use crate::load::Fill;
use crate::options::Options;
use crate::packet::Packet;
use crate::place::Place;
use crate::sys::{BLOCK, PacketSocket};

/// ARPHRD_RAWIP of <linux/if_arp.h>, which modems have.
const RAW_IP: u16 = 519;

/// Everything for which a sampler needs rights: the way by which packets come, and a filter in the kernel.
pub struct Source {
    pub(crate) tap: Tap,
    pub(crate) filter: Filter,
    pub(crate) link: LinkType,
}

/// The way by which packets come.
pub(crate) enum Tap {
    Listener(Listener),
    Hook(Hook),
}

impl Source {
    /// Loads the filter, and receives packets from now on.
    ///
    /// # Errors
    /// A right, the interface or a feature of the kernel is missing.
    pub fn open(options: &Options) -> Result<Self, SampleError> {
        let socket = PacketSocket::new(options.place == Place::Socket)
            .map_err(SampleError::system("open a socket"))?;
        let name = &options.interface;
        let found = socket.interface(name);
        let found = found.map_err(SampleError::system(format!("ask for {name}")))?;
        let interface = found.ok_or_else(|| SampleError::NoInterface(name.clone()))?;
        let link = match interface.link {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::ETHERNET,
            libc::ARPHRD_NONE | RAW_IP => LinkType::RAW,
            other => return Err(SampleError::LinkLayer(name.clone(), other)),
        };
        let packets = Packets {
            raw: link == LinkType::RAW,
            // Packets in tunnels have more addresses than are hidden.
            tunnels: options.addresses == Addresses::Keep,
            bridged: is_bridged(name),
        };
        let ring = options.ring.min(Options::MOST_RING);
        let load = |code| Filter::load(code, &options.choice, &options.clients, packets);
        let (filter, tap) = match options.place {
            Place::Socket => {
                let (filter, object) = load(Code::Socket)?;
                let program = filter::program(&object, "sample")
                    .map_err(SampleError::system("find the filter"))?;
                let attached = socket.filter(program.as_fd());
                attached.map_err(SampleError::system("attach the filter"))?;
                if interface.is_loopback() {
                    let ignored = socket.ignore_outgoing();
                    ignored.map_err(SampleError::system("leave out what leaves"))?;
                }
                let blocks = (ring / BLOCK as u64).max(2) as u32;
                let ring = socket.ring(blocks);
                let ring = ring.map_err(SampleError::system("make the ring"))?;
                let bound = socket.bind(interface.index);
                bound.map_err(SampleError::system(format!("bind to {name}")))?;
                let listener = Listener::new(socket, ring, interface);
                (filter, Tap::Listener(listener))
            }
            Place::TrafficControl => {
                // The kernel takes powers of two.
                let ring = 1 << ring.max(1 << 20).ilog2();
                let (filter, object) = load(Code::Hook { ring })?;
                let hook = Hook::open(&object, &interface, ring)?;
                (filter, Tap::Hook(hook))
            }
        };
        Ok(Self { tap, filter, link })
    }
}

/// Whether the interface is a port of a bridge. Without /sys this is not known, and it counts as none.
fn is_bridged(interface: &str) -> bool {
    let about = Path::new("/sys/class/net").join(interface);
    about.join("brport").exists()
}

impl Tap {
    /// Waits a moment for packets.
    pub(crate) fn wait(&self, interface: &str) -> Result<(), SampleError> {
        match self {
            Self::Listener(listener) => listener.wait(interface),
            Self::Hook(hook) => hook.wait(interface),
        }
    }

    /// Sampled packets, and how many of them were lost because the ring was full, since the last call.
    pub(crate) fn counts(&mut self) -> Result<(u32, u32), SampleError> {
        match self {
            Self::Listener(listener) => listener.counts(),
            Self::Hook(hook) => Ok(hook.counts()),
        }
    }

    /// How full the ring is. What was lost is not known here.
    pub(crate) fn fill(&self) -> Fill {
        match self {
            Self::Listener(listener) => listener.fill(),
            Self::Hook(hook) => hook.fill(),
        }
    }

    /// Hands on some of the packets that wait. Returns how much of the ring they took.
    pub(crate) fn take(
        &mut self,
        each: impl FnMut(&Packet<'_>) -> Result<(), SampleError>,
    ) -> Result<usize, SampleError> {
        match self {
            Self::Listener(listener) => listener.take(each),
            Self::Hook(hook) => hook.take(each),
        }
    }
}
