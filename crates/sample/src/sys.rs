//! Calls of the kernel for which no library has a safe interface: packet sockets, and memory that is shared with the kernel.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{c_int, c_void, socklen_t};

/// The size of a block in bytes. The kernel hands over ten a second even if few packets come, so smaller blocks give more time until the
/// ring is full: 51 s with 64 MiB.
pub(crate) const BLOCK: usize = 1 << 17;
/// Milliseconds after which the kernel hands over a block that is not full.
const RETIRE: u32 = 100;
/// The third version of packet rings.
const TPACKET_V3: c_int = 2;
/// In the header of a block: where its status is. <linux/if_packet.h>
const STATUS: usize = 8;

fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// What the kernel says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its number.
    pub index: i32,
    /// Its link layer, ARPHRD of <linux/if_arp.h>.
    pub link: u16,
    /// Its longest packet in bytes, from the IP header on.
    pub mtu: u32,
}

impl Interface {
    /// Whether all that leaves arrives again. There packets are taken when they arrive, so that none is taken twice.
    pub(crate) fn is_loopback(&self) -> bool {
        self.link == libc::ARPHRD_LOOPBACK
    }
}

/// A socket that receives nothing yet.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// A socket for packets, or one that can only be asked for interfaces, which anybody may make.
    pub(crate) fn new(packets: bool) -> io::Result<Self> {
        let (family, kind) = match packets {
            true => (libc::AF_PACKET, libc::SOCK_RAW),
            false => (libc::AF_INET, libc::SOCK_DGRAM),
        };
        // Protocol 0: no packet arrives before the socket is bound.
        // SAFETY: no memory is passed.
        let fd = checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// What the kernel says of the interface with this name; `None` if there is none.
    pub(crate) fn interface(&self, name: &str) -> io::Result<Option<Interface>> {
        let Ok(name) = CString::new(name) else {
            return Ok(None);
        };
        // SAFETY: the name ends with a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Ok(None);
        }
        // SAFETY: all zeros are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let bytes = name.as_bytes();
        if bytes.len() >= request.ifr_name.len() {
            return Ok(None);
        }
        for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
            *to = *from as _;
        }
        let fd = self.0.as_raw_fd();
        // SAFETY: the request lives through the calls, and each call fills the field of the union that is read.
        let (link, mtu) = unsafe {
            checked(libc::ioctl(fd, libc::SIOCGIFHWADDR as _, &mut request))?;
            let link = request.ifr_ifru.ifru_hwaddr.sa_family;
            checked(libc::ioctl(fd, libc::SIOCGIFMTU as _, &mut request))?;
            (link, request.ifr_ifru.ifru_mtu)
        };
        Ok(Some(Interface {
            index: index as i32,
            link,
            mtu: u32::try_from(mtu).unwrap_or(0),
        }))
    }

    /// Whether there still is an interface with this number where the socket is.
    pub(crate) fn has(&self, interface: i32) -> io::Result<bool> {
        // SAFETY: all zeros are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = interface;
        // SAFETY: the request lives through the call, which reads the number and writes a name.
        let asked =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFNAME as _, &mut request) };
        match checked(asked) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let size = size_of::<T>() as socklen_t;
        let value = ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the kernel reads `size` bytes of the value, which lives through the call.
        checked(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value, size) })?;
        Ok(())
    }

    /// Packets that leave are not received.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        // PACKET_IGNORE_OUTGOING of <linux/if_packet.h>, since Linux 4.20.
        const IGNORE_OUTGOING: c_int = 23;
        self.set(libc::SOL_PACKET, IGNORE_OUTGOING, &1)
    }

    /// Only packets that the program accepts arrive, and as many of their bytes as it says.
    pub(crate) fn filter(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &program.as_raw_fd())
    }

    /// Makes a ring of this many blocks. Packets come through it from now on.
    pub(crate) fn ring(&self, blocks: u32) -> io::Result<Ring> {
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V3)?;
        // struct tpacket_req3: sizes and numbers of blocks and frames, the timer, and two fields that are not used. The
        // size of frames only has to divide that of blocks: frames of this version have any length.
        let frame = 2048;
        let request: [u32; 7] = [
            BLOCK as u32,
            blocks,
            frame,
            BLOCK as u32 / frame * blocks,
            RETIRE,
            0,
            0,
        ];
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let length = BLOCK * blocks as usize;
        let memory = Memory::map(self.0.as_fd(), length, 0, Access::Write)?;
        Ok(Ring(memory))
    }

    /// Receives the packets of an interface from now on.
    pub(crate) fn bind(&self, interface: i32) -> io::Result<()> {
        // SAFETY: all zeros are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface;
        let size = size_of::<libc::sockaddr_ll>() as socklen_t;
        let address = ptr::from_ref(&address).cast();
        // SAFETY: the address lives through the call, and has this size.
        checked(unsafe { libc::bind(self.0.as_raw_fd(), address, size) })?;
        Ok(())
    }

    /// Packets that passed the filter, and how many of them were lost because the ring was full, since the last call.
    pub(crate) fn counts(&self) -> io::Result<(u32, u32)> {
        // struct tpacket_stats_v3: packets with those lost, lost packets, how often the ring was full.
        let mut counts = [0u32; 3];
        self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut counts)?;
        Ok((counts[0], counts[1]))
    }

    /// The error that waits at the socket, such as that the interface went down.
    pub(crate) fn error(&self) -> io::Result<Option<io::Error>> {
        let mut number = [0u32; 1];
        self.get(libc::SOL_SOCKET, libc::SO_ERROR, &mut number)?;
        Ok((number[0] != 0).then(|| io::Error::from_raw_os_error(number[0] as i32)))
    }

    fn get<const N: usize>(
        &self,
        level: c_int,
        option: c_int,
        to: &mut [u32; N],
    ) -> io::Result<()> {
        let mut size = size_of::<[u32; N]>() as socklen_t;
        let to = to.as_mut_ptr().cast::<c_void>();
        // SAFETY: the kernel writes at most `size` bytes there.
        checked(unsafe { libc::getsockopt(self.0.as_raw_fd(), level, option, to, &mut size) })?;
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What this process does with memory of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Memory that the kernel shares.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is mapped for the whole process, and stays where it is.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps this many bytes from this offset on.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        length: usize,
        offset: usize,
        access: Access,
    ) -> io::Result<Self> {
        let access = match access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        let (none, shared) = (ptr::null_mut(), libc::MAP_SHARED);
        // SAFETY: the kernel chooses an address where nothing is.
        let start =
            unsafe { libc::mmap(none, length, access, shared, fd.as_raw_fd(), offset as _) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Blocks of packets, which belong to the kernel or to this process by turns.
#[derive(Debug)]
pub(crate) struct Ring(Memory);

impl Ring {
    pub(crate) fn blocks(&self) -> usize {
        self.0.length / BLOCK
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        assert!(block < self.blocks());
        // SAFETY: the status is inside the ring and aligned, as blocks are aligned to pages.
        unsafe { &*self.0.start().add(block * BLOCK + STATUS).cast() }
    }

    /// Whether the block is full, or its time is over, so that it belongs to this process.
    pub(crate) fn is_ready(&self, block: usize) -> bool {
        self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The bytes of a block, if it is ready. The kernel does not write to it until it is given back.
    pub(crate) fn block(&mut self, block: usize) -> Option<&[u8]> {
        if !self.is_ready(block) {
            return None;
        }
        // SAFETY: the block is inside the ring and belongs to this process. It can be given back only through `&mut self`,
        // when nobody holds these bytes any more.
        Some(unsafe { slice::from_raw_parts(self.0.start().add(block * BLOCK), BLOCK) })
    }

    /// Gives a block back to the kernel.
    pub(crate) fn give_back(&mut self, block: usize) {
        self.status(block)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// The first value of a map that is an array, in memory that the kernel shares.
#[derive(Debug)]
pub(crate) struct Shared(Memory);

impl Shared {
    /// Maps the value, which has this many bytes.
    pub(crate) fn map(array: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        Memory::map(array, length, 0, Access::Write).map(Self)
    }

    /// Changes a number in the value. The filter sees changes in their order.
    pub(crate) fn write32(&mut self, offset: usize, number: u32) {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.0.length);
        // SAFETY: the number is inside the value and aligned, as the value begins a page.
        let place = unsafe { &*self.0.start().add(offset).cast::<AtomicU32>() };
        place.store(number, Ordering::SeqCst);
    }

    /// The same for a number of 64 bits.
    pub(crate) fn write64(&mut self, offset: usize, number: u64) {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.0.length);
        // SAFETY: the number is inside the value and aligned, as the value begins a page.
        let place = unsafe { &*self.0.start().add(offset).cast::<AtomicU64>() };
        place.store(number, Ordering::SeqCst);
    }

    /// A number of 64 bits in it.
    pub(crate) fn read64(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.0.length);
        // SAFETY: the number is inside the value and aligned, as the value begins a page.
        let place = unsafe { &*self.0.start().add(offset).cast::<AtomicU64>() };
        place.load(Ordering::Relaxed)
    }
}
