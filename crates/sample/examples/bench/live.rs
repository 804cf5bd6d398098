//! Packets that the kernel makes by itself.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libbpf_sys::{bpf_prog_load, bpf_prog_test_run_opts, bpf_test_run_opts};

/// Frames that the kernel handles at once.
const BATCH: u32 = 64;

/// Of [`Flows::Few`].
const FEW: u16 = 256;

/// From how many ports.
#[derive(Clone, Copy)]
pub enum Flows {
    /// 65,536.
    Many,
    /// [`few_ports`].
    Few,
}

/// The ports of [`Flows::Few`], in the order of the network: the kernel writes them with the lowest byte first.
pub fn few_ports() -> impl Iterator<Item = u16> {
    (0..FEW).map(u16::swap_bytes)
}

/// A frame that arrives at an interface as often as wanted, each time from another port.
pub struct Packets {
    arrives: i32,
    frame: Vec<u8>,
    /// For many flows and for few.
    make: [OwnedFd; 2],
    /// Drops the packets, or sends them away.
    _end: OwnedFd,
}

impl Packets {
    /// Packets that arrive at one interface of this namespace, and leave through the other one, if it is another one.
    pub fn new(arrives: &str, leaves: &str, frame: &[u8]) -> io::Result<Self> {
        let (from, to) = (number(arrives)?, number(leaves)?);
        let mut frame = frame.to_vec();
        frame[..6].copy_from_slice(&mac(arrives)?);
        let make = |ports: i32| load(libbpf_sys::BPF_PROG_TYPE_XDP, &make(ports));
        let make = [make(0xffff)?, make(i32::from(FEW) - 1)?];
        let drop = [instruction(0xb7, 0, 0, 0, 2), EXIT];
        let redirect = [
            instruction(0xb7, 1, 0, 0, to),
            instruction(0xb7, 2, 0, 0, 0),
            instruction(0x85, 0, 0, 0, 23),
            EXIT,
        ];
        let end: &[u64] = if from == to { &drop } else { &redirect };
        let end = load(libbpf_sys::BPF_PROG_TYPE_SCHED_CLS, end)?;
        Ok(Self {
            arrives: from,
            frame,
            make,
            _end: attach(&end, from, false)?,
        })
    }

    /// Makes this number of packets, and returns when all have gone. The thread must be in the interfaces' namespace.
    pub fn send(&self, packets: u32, flows: Flows) -> io::Result<()> {
        let make = &self.make[flows as usize];
        let mut context = libbpf_sys::xdp_md {
            data_end: self.frame.len() as u32,
            ingress_ifindex: self.arrives as u32,
            ..Default::default()
        };
        let mut options = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as _,
            data_in: self.frame.as_ptr().cast(),
            data_size_in: self.frame.len() as u32,
            ctx_in: ptr::from_mut(&mut context).cast(),
            ctx_size_in: size_of::<libbpf_sys::xdp_md>() as u32,
            repeat: packets as i32,
            flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: BATCH,
            ..Default::default()
        };
        // SAFETY: the frame, the context and the options live through the call.
        let error = unsafe { bpf_prog_test_run_opts(make.as_raw_fd(), &mut options) };
        match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

/// A program of traffic control that does nothing, before all others, until the result is dropped.
pub fn passing(interface: &str, leaves: bool) -> io::Result<OwnedFd> {
    let next = [instruction(0xb7, 0, 0, 0, -1), EXIT];
    let program = load(libbpf_sys::BPF_PROG_TYPE_SCHED_CLS, &next)?;
    attach(&program, number(interface)?, leaves)
}

/// Attaches a program of traffic control to packets that arrive or leave.
fn attach(program: &OwnedFd, interface: i32, leaves: bool) -> io::Result<OwnedFd> {
    let place = match leaves {
        true => libbpf_sys::BPF_TCX_EGRESS,
        false => libbpf_sys::BPF_TCX_INGRESS,
    };
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    let program = program.as_raw_fd();
    // SAFETY: the options live through the call, and the rest are numbers.
    owned(unsafe { libbpf_sys::bpf_link_create(program, interface, place, &options) })
}

/// The number of an interface of this namespace.
fn number(name: &str) -> io::Result<i32> {
    let name = CString::new(name)?;
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    i32::try_from(index).map_err(io::Error::other)
}

/// A program of XDP that writes a random port into the frame and hands it on: hardly two of a batch are of one flow. Ports have the
/// bits of this mask.
fn make(ports: i32) -> [u64; 10] {
    [
        // r6 = context->data, r2 = context->data_end
        instruction(0x61, 6, 1, 0, 0),
        instruction(0x61, 2, 1, 4, 0),
        // if r6 + 54 > r2, leave it
        instruction(0xbf, 3, 6, 0, 0),
        instruction(0x07, 3, 0, 0, 54),
        instruction(0x2d, 3, 2, 3, 0),
        // *(u16 *)(r6 + 34) = bpf_get_prandom_u32() & ports
        instruction(0x85, 0, 0, 0, 7),
        instruction(0x57, 0, 0, 0, ports),
        instruction(0x6b, 6, 0, 34, 0),
        // return XDP_PASS
        instruction(0xb7, 0, 0, 0, 2),
        EXIT,
    ]
}

const EXIT: u64 = instruction(0x95, 0, 0, 0, 0);

/// `struct bpf_insn` of <linux/bpf.h>, on a machine with the lowest byte first.
const fn instruction(code: u8, to: u8, from: u8, off: i16, imm: i32) -> u64 {
    let registers = to | from << 4;
    code as u64 | (registers as u64) << 8 | (off as u16 as u64) << 16 | (imm as u32 as u64) << 32
}

fn load(kind: u32, instructions: &[u64]) -> io::Result<OwnedFd> {
    // SAFETY: the instructions and texts live through the call, and there are no options.
    owned(unsafe {
        bpf_prog_load(
            kind,
            c"bench".as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr().cast(),
            instructions.len() as _,
            ptr::null_mut(),
        )
    })
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    match fd {
        // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// The address of an interface of this namespace.
fn mac(interface: &str) -> io::Result<[u8; 6]> {
    // /sys shows the interfaces of the namespace in which it was mounted, `ip` those of this one.
    let output = std::process::Command::new("ip")
        .args(["-o", "link", "show", interface])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text
        .split_whitespace()
        .skip_while(|word| *word != "link/ether");
    let bytes: Vec<u8> = words
        .skip(1)
        .flat_map(|word| word.split(':'))
        .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
        .take(6)
        .collect();
    bytes.try_into().map_err(|_| io::Error::other("no address"))
}
