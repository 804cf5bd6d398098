//! The choice at the hooks of traffic control.
#![allow(unsafe_code)]

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::Object;
use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};
use tidegate_trace::read::Nanos;
use tidegate_trace::write::pcapng::Marks;

use crate::error::SampleError;
use crate::filter;
use crate::load::Fill;
use crate::packet::Packet;
use crate::records::Records;
use crate::sys::{Interface, Shared};

/// How long packets wait in the ring, unless it fills: they do not wake this process.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Records that are taken before their places are given back.
const AT_ONCE: usize = 1024;

/// `struct record` of `bpf/sample.h`, without the packet's bytes.
#[repr(C)]
struct Record {
    at: u64,
    wire: u32,
    kept: u32,
    tag_type: u16,
    tag: u16,
    marks: u32,
}

/// Its marks.
const OUTBOUND: u32 = 1;
const INBOUND: u32 = 2;
const SUPER_PACKET: u32 = 4;
const TAGGED: u32 = 8;

/// `struct counts` of `bpf/sample.h`.
#[repr(C)]
struct Counts {
    accepted: u64,
    lost: u64,
}

/// Programs at the two hooks of an interface, and the ring that they fill.
#[derive(Debug)]
pub(crate) struct Hook {
    /// Of packets that arrive, and of those that leave. The programs are there as long as these.
    links: Vec<OwnedFd>,
    records: Records,
    counts: Shared,
    /// What was counted at the last look.
    counted: [u64; 2],
    woken: OwnedFd,
}

impl Hook {
    /// Links the programs of a loaded object to the interface.
    pub(crate) fn open(
        object: &Object,
        interface: &Interface,
        ring: u32,
    ) -> Result<Self, SampleError> {
        let kernel = |step: &'static str| SampleError::system(step);
        let map = |name| filter::map(object, name).map_err(kernel("find the filter's maps"));
        let records = Records::map(map("records")?, ring).map_err(kernel("map the ring"))?;
        let counts = map("counts_map")?;
        let counts = Shared::map(counts.as_fd(), size_of::<Counts>());
        let counts = counts.map_err(kernel("map the filter's counts"))?;
        let woken = epoll::create(epoll::CreateFlags::CLOEXEC)
            .and_then(|woken| {
                // Only when the kernel wakes: the ring is seldom empty.
                let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
                epoll::add(&woken, &records, epoll::EventData::new_u64(0), flags)?;
                Ok(woken)
            })
            .map_err(|error| kernel("wait for the ring")(error.into()))?;
        let linked = |name, place| {
            let program = filter::program(object, name).map_err(kernel("find the filter"))?;
            link(program.as_fd(), interface.index, place).map_err(|error| {
                match error.raw_os_error() {
                    Some(libc::EINVAL) => SampleError::OldKernel,
                    _ => kernel("link the filter to traffic control")(error),
                }
            })
        };
        let mut links = vec![linked("arrives", libbpf_sys::BPF_TCX_INGRESS)?];
        if !interface.is_loopback() {
            links.push(linked("leaves", libbpf_sys::BPF_TCX_EGRESS)?);
        }
        Ok(Self {
            links,
            records,
            counts,
            counted: [0; 2],
            woken,
        })
    }

    /// Waits until the kernel wakes, or for a moment.
    pub(crate) fn wait(&self, interface: &str) -> Result<(), SampleError> {
        let mut events = Vec::with_capacity(1);
        let waited = epoll::wait(
            &self.woken,
            rustix::buffer::spare_capacity(&mut events),
            Some(&WAIT),
        );
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(SampleError::system("wait for packets")(error.into())),
        }
        let there = is_linked(self.links[0].as_fd());
        match there.map_err(SampleError::system("ask for the interface"))? {
            true => Ok(()),
            false => Err(SampleError::Gone(interface.to_owned())),
        }
    }

    /// Packets that were sampled, and how many of them were lost because the ring was full, since the last call.
    pub(crate) fn counts(&mut self) -> (u32, u32) {
        let offsets = [offset_of!(Counts, accepted), offset_of!(Counts, lost)];
        let now = offsets.map(|offset| self.counts.read64(offset));
        let before = std::mem::replace(&mut self.counted, now);
        let more = |place: usize| {
            u32::try_from(now[place].wrapping_sub(before[place])).unwrap_or(u32::MAX)
        };
        (more(0), more(1))
    }

    pub(crate) fn fill(&self) -> Fill {
        Fill {
            waiting: self.records.waiting(),
            whole: self.records.size(),
            lost: 0,
        }
    }

    /// Hands on some of the packets that wait. Returns how much of the ring they took.
    pub(crate) fn take(
        &mut self,
        mut each: impl FnMut(&Packet<'_>) -> Result<(), SampleError>,
    ) -> Result<usize, SampleError> {
        let before = self.records.waiting();
        let booted = booted();
        for _ in 0..AT_ONCE {
            let Some(record) = self.records.next() else {
                break;
            };
            if let Some(packet) = packet(record, booted) {
                each(&packet)?;
            }
        }
        self.records.give_back();
        Ok(before.saturating_sub(self.records.waiting()))
    }
}

/// The time of day when the machine started, if no clock was set since.
fn booted() -> Nanos {
    let now = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
    };
    now(ClockId::Realtime).saturating_sub(now(ClockId::Monotonic))
}

/// The packet of a record. One without bytes could not be read by the program.
fn packet(record: &[u8], booted: Nanos) -> Option<Packet<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_ne_bytes(*record.get(at..)?.first_chunk()?));
    let at = u64::from_ne_bytes(*record.get(offset_of!(Record, at)..)?.first_chunk()?);
    let marks = word(offset_of!(Record, marks))?;
    let kept = word(offset_of!(Record, kept))? as usize;
    let tag = [
        half(offset_of!(Record, tag_type))?,
        half(offset_of!(Record, tag))?,
    ];
    Some(Packet {
        at: booted + at,
        bytes: record
            .get(size_of::<Record>()..)?
            .get(..kept)
            .filter(|bytes| !bytes.is_empty())?,
        wire_len: word(offset_of!(Record, wire))?,
        tag: (marks & TAGGED != 0).then_some(tag),
        marks: Marks {
            outbound: match marks & (OUTBOUND | INBOUND) {
                OUTBOUND => Some(true),
                INBOUND => Some(false),
                _ => None,
            },
            // These hooks do not say it.
            checksum_not_ready: false,
            super_packet: marks & SUPER_PACKET != 0,
        },
    })
}

/// Links a program before all others, which might drop packets or let them pass for good.
fn link(program: BorrowedFd<'_>, interface: i32, place: u32) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: the options live through the call; all else are numbers.
    let link =
        unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), interface, place, &options) };
    match link {
        // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(link) }),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Whether the interface of a link is still there.
fn is_linked(link: BorrowedFd<'_>) -> io::Result<bool> {
    let mut found = libbpf_sys::bpf_link_info::default();
    let mut size = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: the kernel writes at most `size` bytes there. All of its numbers are valid, also where it writes none.
    unsafe {
        let error = libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut found, &mut size);
        match error {
            0 => Ok(found.__bindgen_anon_1.tcx.ifindex != 0),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_short_ones_are_left_out() {
        let mut record = vec![0; size_of::<Record>()];
        record[offset_of!(Record, at)] = 7;
        record[offset_of!(Record, wire)] = 100;
        record[offset_of!(Record, kept)] = 3;
        record[offset_of!(Record, marks)] = (OUTBOUND | SUPER_PACKET) as u8;
        assert_eq!(packet(&record, 1_000), None);
        record.extend([1, 2, 3, 0, 0]);
        let found = packet(&record, 1_000).unwrap();
        assert_eq!((found.at, found.wire_len, found.tag), (1_007, 100, None));
        assert_eq!(found.bytes, [1, 2, 3]);
        assert_eq!(found.marks.outbound, Some(true));
        assert!(found.marks.super_packet);
        record[offset_of!(Record, marks)] = TAGGED as u8;
        record[offset_of!(Record, tag)] = 5;
        let found = packet(&record, 0).unwrap();
        assert_eq!((found.tag, found.marks.outbound), (Some([0, 5]), None));
        record[offset_of!(Record, kept)] = 0;
        assert_eq!(packet(&record, 0), None);
        assert_eq!(packet(&record[..10], 0), None);
    }
}
