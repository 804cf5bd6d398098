//! What libbpf-rs has no safe way for.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::{MapHandle, MapInfo};
use nix::libc;

use super::KernelError;

/// An error of libbpf: a negative number of errno.
fn checked(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(result)
}

fn owned(result: i32) -> io::Result<OwnedFd> {
    // SAFETY: the number is one that the kernel just gave out, and nobody else's.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A page of limiters like the first.
pub(super) fn page_like(pages: &[MapHandle]) -> Result<MapHandle, KernelError> {
    let refused = |source: io::Error| KernelError::map("limiters", libbpf_rs::Error::from(source));
    let first = pages
        .first()
        .ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
    let info = MapInfo::new(first.as_fd())
        .map_err(|source| KernelError::map("limiters", source))?
        .info;
    // SAFETY: the call takes a number and gives one.
    let btf = owned(unsafe { libbpf_sys::bpf_btf_get_fd_by_id(info.btf_id) }).map_err(refused)?;
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        btf_fd: btf.as_raw_fd() as u32,
        btf_key_type_id: info.btf_key_type_id,
        btf_value_type_id: info.btf_value_type_id,
        map_flags: info.map_flags,
        ..Default::default()
    };
    // SAFETY: the name is a string that ends, the options live through the call.
    let created = unsafe {
        libbpf_sys::bpf_map_create(
            info.type_,
            c"limiters".as_ptr(),
            info.key_size,
            info.value_size,
            info.max_entries,
            &options,
        )
    };
    let page = owned(created).map_err(refused)?;
    let id = MapInfo::new(page.as_fd())
        .map_err(|source| KernelError::map("limiters", source))?
        .info
        .id;
    MapHandle::from_map_id(id).map_err(|source| KernelError::map("limiters", source))
}

/// A map as another one's value.
pub(super) fn number_of(map: &MapHandle) -> [u8; 4] {
    map.as_fd().as_raw_fd().to_ne_bytes()
}

/// Where a program can be linked to an interface.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    TcxIngress,
    TcxEgress,
    XdpNative,
    XdpGeneric,
}

/// Links a program to an interface by its number.
pub(super) fn link(program: BorrowedFd<'_>, interface: u32, place: Place) -> io::Result<OwnedFd> {
    let (kind, flags) = match place {
        Place::TcxIngress => (libbpf_sys::BPF_TCX_INGRESS, 0),
        Place::TcxEgress => (libbpf_sys::BPF_TCX_EGRESS, 0),
        Place::XdpNative => (libbpf_sys::BPF_XDP, libbpf_sys::XDP_FLAGS_DRV_MODE),
        Place::XdpGeneric => (libbpf_sys::BPF_XDP, libbpf_sys::XDP_FLAGS_SKB_MODE),
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

/// Pins what a descriptor stands for.
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

/// Gives an interface the queueing discipline that filters hang on. Returns whether it had none.
pub(super) fn make_clsact(interface: u32) -> io::Result<bool> {
    // SAFETY: the description lives through the call.
    match checked(unsafe { libbpf_sys::bpf_tc_hook_create(&mut hook_of(interface)) }) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
        result => result.map(|_| true),
    }
}

/// Takes it off again.
pub(super) fn remove_clsact(interface: u32) -> io::Result<()> {
    // SAFETY: the description lives through the call.
    checked(unsafe { libbpf_sys::bpf_tc_hook_destroy(&mut hook_of(interface)) }).map(drop)
}

mod request {
    nix::ioctl_readwrite_bad!(hardware, nix::libc::SIOCGIFHWADDR, nix::libc::ifreq);
}

/// Whether packets of an interface begin with a header of Ethernet. In the caller's network
/// namespace, which sysfs may not be of.
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

/// Runs a program on a frame, many times if it is to be so. Returns what it decided at last, and the
/// frame as it is then.
#[cfg(test)]
pub(super) fn test_run(program: i32, frame: &[u8], repeat: i32) -> io::Result<(u32, Vec<u8>)> {
    test_run_as(program, frame, repeat, None)
}

/// The same at tc, where a test may say some of what the kernel knows of a packet: the words of
/// `struct __sk_buff` (linux/bpf.h), from its first one on.
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
