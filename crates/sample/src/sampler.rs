//! From the ring to files.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tidegate_trace::read::{LinkType, Nanos};

use crate::choice::{By, Choice};
use crate::error::SampleError;
use crate::files::{self, Closed, Folder, Open, Origin, Rotation};
use crate::filter::Filter;
use crate::fraction::Fraction;
use crate::net::Network;
use crate::packet;
use crate::sys::{BLOCK, PacketSocket, Ring};

/// How long to wait for packets before flags and times are looked at.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// How long the kernel may need to hand over the last packets, at the end.
const LAST: Duration = Duration::from_millis(300);
/// A file ends this long after its time at the latest, if no packet comes.
const LATE: Nanos = 1_000_000_000;

/// ARPHRD_RAWIP of <linux/if_arp.h>, which modems have.
const RAW_IP: u16 = 519;

/// What to sample, and where to write it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The interface's name.
    pub interface: String,
    /// Where files are written.
    pub folder: PathBuf,
    /// What is sampled.
    pub choice: Choice,
    /// Networks of clients, for [`By::Client`].
    pub clients: Vec<Network>,
    /// When files end.
    pub rotation: Rotation,
    /// Memory for packets that are not written yet, in bytes.
    pub ring: u64,
    /// This host's name.
    pub host: String,
}

impl Options {
    /// All of this host, in files of 100 MB and 5 minutes, by way of 64 MiB of memory.
    pub fn new(interface: &str, folder: impl Into<PathBuf>, choice: Choice) -> Self {
        Self {
            interface: interface.to_owned(),
            folder: folder.into(),
            choice,
            clients: Vec::new(),
            rotation: Rotation {
                size: 100_000_000,
                every: Duration::from_secs(300),
            },
            ring: 64 << 20,
            host: Self::host_name(),
        }
    }

    /// The name by which the kernel knows this host.
    pub fn host_name() -> String {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    }
}

/// What happened, for people and programs that watch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A file is complete.
    Closed(Closed),
}

/// Everything for which a sampler needs rights: a socket that receives, and a filter in the kernel.
pub struct Source {
    socket: PacketSocket,
    ring: Ring,
    filter: Filter,
    link: LinkType,
    mtu: u32,
}

/// A sampler. It needs no rights but those of its files.
pub struct Sampler {
    source: Source,
    /// The block that the kernel hands over next.
    next: usize,
    files: Files,
}

/// The part of a sampler that writes.
struct Files {
    options: Options,
    origin: Origin,
    folder: Folder,
    open: Option<Open>,
    frame: Vec<u8>,
    /// Packets that passed the filter, and lost ones, since the last file was closed.
    accepted: u64,
    dropped: u64,
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
        let filter = Filter::load(&options.choice, link == LinkType::RAW, &options.clients)?;
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

impl Sampler {
    /// A sampler that writes what arrives from the source.
    ///
    /// # Errors
    /// The folder cannot be written, or another sampler writes to it.
    pub fn new(source: Source, options: Options) -> Result<Self, SampleError> {
        let origin = Origin {
            host: options.host.clone(),
            interface: options.interface.clone(),
            link: source.link,
        };
        let folder = Folder::open(&options.folder, &origin)?;
        Ok(Self {
            source,
            next: 0,
            files: Files {
                options,
                origin,
                folder,
                open: None,
                frame: Vec::new(),
                accepted: 0,
                dropped: 0,
            },
        })
    }

    /// Samples until the flag is set, and completes the last file then.
    ///
    /// # Errors
    /// A file cannot be written, or the interface is gone.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        while !stop.load(Ordering::Relaxed) {
            self.wait()?;
            self.take(report)?;
            self.files.rest(&self.source.socket, report)?;
        }
        // No more packets are accepted, and those that were are handed over when the timer of their block ends.
        let mut none = self.files.options.choice.clone();
        none.fraction = Fraction::NOTHING;
        self.source.filter.choose(&none);
        std::thread::sleep(LAST);
        self.take(report)?;
        self.files.close(&self.source.socket, report)
    }

    /// Waits a moment for packets.
    fn wait(&self) -> Result<(), SampleError> {
        let mut ready = [PollFd::new(
            &self.source.socket,
            PollFlags::IN | PollFlags::ERR,
        )];
        match poll(&mut ready, Some(&WAIT)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(SampleError::system("wait for packets")(error.into())),
        }
        if ready[0].revents().contains(PollFlags::ERR) {
            let what = format!("the interface {}", self.files.options.interface);
            let error = self
                .source
                .socket
                .error()
                .map_err(SampleError::system(&*what))?;
            return error.map_or(Ok(()), |error| Err(SampleError::system(what)(error)));
        }
        Ok(())
    }

    /// Takes the packets that the kernel handed over.
    fn take(&mut self, report: &mut dyn FnMut(Event)) -> Result<(), SampleError> {
        let Source {
            socket, ring, mtu, ..
        } = &mut self.source;
        // At most one round, so that flags are looked at even if packets come faster than they are written.
        for _ in 0..ring.blocks() {
            let Some(block) = ring.block(self.next) else {
                break;
            };
            for packet in packet::packets(block, *mtu) {
                self.files.write(&packet, socket, report)?;
            }
            ring.give_back(self.next);
            self.next = (self.next + 1) % ring.blocks();
        }
        Ok(())
    }
}

impl Files {
    fn write(
        &mut self,
        packet: &packet::Packet<'_>,
        socket: &PacketSocket,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        let rotation = self.options.rotation;
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.is_over(packet.at, rotation))
        {
            self.close(socket, report)?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let comment = self.comment();
                let open = Open::begin(&self.folder, &self.origin, rotation, &comment, packet.at)?;
                self.open.insert(open)
            }
        };
        let wire_len = packet.frame(&mut self.frame);
        open.write(packet.at, &self.frame, wire_len, packet.marks)
            .map_err(SampleError::write(&self.options.folder))
    }

    /// Ends a file whose time is over, if no packet did.
    fn rest(
        &mut self,
        socket: &PacketSocket,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        let before = files::now().saturating_sub(LATE);
        let rotation = self.options.rotation;
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.is_over(before, rotation))
        {
            self.close(socket, report)?;
        }
        Ok(())
    }

    fn close(
        &mut self,
        socket: &PacketSocket,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), SampleError> {
        let counts = socket
            .counts()
            .map_err(SampleError::system("read the kernel's counts"))?;
        self.accepted += u64::from(counts.0);
        self.dropped += u64::from(counts.1);
        if let Some(open) = self.open.take() {
            let closed = open.close(self.accepted, self.dropped)?;
            (self.accepted, self.dropped) = (0, 0);
            report(Event::Closed(closed));
        }
        Ok(())
    }

    /// What the header of a file says, as words that programs can split.
    fn comment(&self) -> String {
        let Choice { by, fraction, key } = &self.options.choice;
        let by = match by {
            By::Flow => "flow".to_owned(),
            By::Client(prefixes) => format!("client prefixes={prefixes}"),
        };
        format!(
            "tidegate sample: fraction={fraction} by={by} key={} host={} interface={}",
            key.name(),
            self.origin.host,
            self.origin.interface,
        )
    }
}
