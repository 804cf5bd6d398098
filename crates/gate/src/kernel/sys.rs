//! Calls of the kernel that libbpf-rs has no safe interface for.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use libbpf_rs::{AsRawLibbpf, MapHandle, OpenObject};
use nix::libc;

/// An error of libbpf: a negative number of errno.
fn checked(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(result)
}

fn owned(result: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Loads the types of the programs' maps into the kernel. Returns their descriptor, and the numbers of the
/// key and value types of a page of limiters. They are loaded again because the kernel opens loaded types
/// only by number, which needs CAP_SYS_ADMIN.
pub(super) fn types(object: &OpenObject) -> io::Result<(OwnedFd, [u32; 2])> {
    let object = object.as_libbpf_object();
    // SAFETY: the types are the object's, which outlives this function, as their bytes are theirs.
    unsafe {
        let types = libbpf_sys::bpf_object__btf(object.as_ptr());
        if types.is_null() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let number = |name: &CStr, kind| {
            checked(libbpf_sys::btf__find_by_name_kind(
                types,
                name.as_ptr(),
                kind,
            ))
        };
        let key = number(c"unsigned int", libbpf_sys::BTF_KIND_INT)?;
        let value = number(c"limiter", libbpf_sys::BTF_KIND_STRUCT)?;
        let mut size = 0;
        let bytes = libbpf_sys::btf__raw_data(types, &mut size);
        let loaded = owned(libbpf_sys::bpf_btf_load(
            bytes,
            size.into(),
            ptr::null_mut(),
        ))?;
        Ok((loaded, [key as u32, value as u32]))
    }
}

/// The time of the kernel's programs (`bpf_ktime_get_ns`), in nanoseconds.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives through the call, which writes it. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A map as a value of another map.
pub(super) fn number_of(map: &MapHandle) -> [u8; 4] {
    map.as_fd().as_raw_fd().to_ne_bytes()
}

/// Where a program can be linked to an interface.
#[derive(Debug, Clone, Copy)]
pub(super) enum LinkTarget {
    TcxIngress,
    TcxEgress,
    XdpNative,
    XdpGeneric,
}

/// Links a program to an interface by its number.
pub(super) fn link(
    program: BorrowedFd<'_>,
    interface: u32,
    place: LinkTarget,
) -> io::Result<OwnedFd> {
    let (kind, flags) = match place {
        LinkTarget::TcxIngress => (libbpf_sys::BPF_TCX_INGRESS, 0),
        LinkTarget::TcxEgress => (libbpf_sys::BPF_TCX_EGRESS, 0),
        LinkTarget::XdpNative => (libbpf_sys::BPF_XDP, libbpf_sys::XDP_FLAGS_DRV_MODE),
        LinkTarget::XdpGeneric => (libbpf_sys::BPF_XDP, libbpf_sys::XDP_FLAGS_SKB_MODE),
    };
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags,
        ..Default::default()
    };
    // SAFETY: the options live through the call; all else are numbers.
    owned(unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), interface as i32, kind, &options)
    })
}

/// Has another program take the packets of a link, from one packet to the next.
pub(super) fn replace(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are descriptors that live through the call, and it needs no options.
    let result =
        unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), ptr::null()) };
    checked(result).map(drop)
}

/// The numbers of the programs that are attached to an interface by tcx: none if the kernel has no tcx.
pub(super) fn attached(interface: u32, place: LinkTarget) -> Vec<u32> {
    let kind = match place {
        LinkTarget::TcxIngress => libbpf_sys::BPF_TCX_INGRESS,
        LinkTarget::TcxEgress => libbpf_sys::BPF_TCX_EGRESS,
        LinkTarget::XdpNative | LinkTarget::XdpGeneric => return Vec::new(),
    };
    // The kernel has at most 64 programs at a place.
    let mut numbers = vec![0; 64];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as _,
        prog_ids: numbers.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = numbers.len() as u32;
    // SAFETY: the numbers and options live through the call, which writes at most as many as was said.
    let found = unsafe { libbpf_sys::bpf_prog_query_opts(interface as i32, kind, &mut options) };
    // SAFETY: both fields of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count };
    numbers.truncate(if found < 0 { 0 } else { count as usize });
    numbers
}

/// Pins the object of a descriptor.
pub(super) fn pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is a string that ends, and lives through the call.
    checked(unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), path.as_ptr()) }).map(drop)
}

fn hook_of(interface: u32) -> libbpf_sys::bpf_tc_hook {
    libbpf_sys::bpf_tc_hook {
        sz: size_of::<libbpf_sys::bpf_tc_hook>() as _,
        ifindex: interface as i32,
        attach_point: libbpf_sys::BPF_TC_INGRESS | libbpf_sys::BPF_TC_EGRESS,
        ..Default::default()
    }
}

/// Adds the queueing discipline that filters need to an interface. Returns whether it had none.
pub(super) fn make_clsact(interface: u32) -> io::Result<bool> {
    // SAFETY: the description lives through the call.
    match checked(unsafe { libbpf_sys::bpf_tc_hook_create(&mut hook_of(interface)) }) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
        result => result.map(|_| true),
    }
}

/// Removes the queueing discipline.
pub(super) fn remove_clsact(interface: u32) -> io::Result<()> {
    // SAFETY: the description lives through the call.
    checked(unsafe { libbpf_sys::bpf_tc_hook_destroy(&mut hook_of(interface)) }).map(drop)
}

mod request {
    nix::ioctl_readwrite_bad!(hardware, nix::libc::SIOCGIFHWADDR, nix::libc::ifreq);
}

/// Whether packets of an interface begin with an Ethernet header. It asks the network namespace of this
/// process; sysfs may be about another one.
pub(super) fn is_ethernet(interface: &str) -> io::Result<bool> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zeros is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request is one that this call fills; it then holds a hardware address.
    let kind = unsafe {
        request::hardware(socket.as_raw_fd(), &mut request)?;
        request.ifr_ifru.ifru_hwaddr.sa_family
    };
    Ok(kind == libc::ARPHRD_ETHER || kind == libc::ARPHRD_LOOPBACK)
}

/// Runs a program on a frame, `repeat` times. Returns the last verdict and the frame after it.
#[cfg(test)]
pub(super) fn test_run(program: i32, frame: &[u8], repeat: i32) -> io::Result<(u32, Vec<u8>)> {
    test_run_as(program, frame, repeat, None)
}

/// The same at tc. A test may set some of the values that the kernel knows of a packet: the words
/// of `struct __sk_buff` (linux/bpf.h), from its first one on.
#[cfg(test)]
pub(super) fn test_run_as(
    program: i32,
    frame: &[u8],
    repeat: i32,
    context: Option<&[u32]>,
) -> io::Result<(u32, Vec<u8>)> {
    let mut after = vec![0u8; frame.len()];
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: after.as_mut_ptr().cast(),
        data_size_out: after.len() as u32,
        repeat,
        ..Default::default()
    };
    if let Some(context) = context {
        options.ctx_in = context.as_ptr().cast();
        options.ctx_size_in = size_of_val(context) as u32;
    }
    // SAFETY: the buffers are as long as is said, and live through the call as the options do.
    checked(unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &mut options) })?;
    Ok((options.retval, after))
}
