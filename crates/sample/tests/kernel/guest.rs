//! Super-packets as virtual machines send them: with a header for the kernel that says how to cut them, and not how often.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::path::Path;

use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};
use tidegate_sample::{Options, Place};
use tidegate_trace::write::{Ends, TcpFrame};

use crate::{Failure, at_both_places, choice, pair, sampled};

at_both_places!(super_packets_of_virtual_machines_are_marked);

const PAYLOAD: u32 = 4000;
const MSS: u16 = 1000;
/// The headers of Ethernet, IPv4 and TCP.
const HEADERS: u16 = 54;
/// The option of <linux/if_packet.h> by which a program sends as a virtual machine does.
const PACKET_VNET_HDR: libc::c_int = 15;

/// A packet socket of an interface that sends as a virtual machine does.
fn guest(interface: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    let on: libc::c_int = 1;
    // SAFETY: the option is a number that lives until the call returns.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_VNET_HDR,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    let name = std::ffi::CString::new(interface)?;
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage has room for every address, and the name ends with a zero.
    let address = unsafe {
        let link = storage.view_as::<libc::sockaddr_ll>();
        link.sll_family = libc::AF_PACKET as u16;
        link.sll_protocol = (libc::ETH_P_IP as u16).to_be();
        link.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    socket.bind(&address)?;
    Ok(socket)
}

/// A frame behind the header of virtio's network devices (virtio 1.2 §5.1.6), with the size of the pieces, or of one packet.
fn sent(payload: u32, pieces: Option<u16>) -> Vec<u8> {
    const NEEDS_CHECKSUM: u8 = 1;
    const TCP_IPV4: u8 = 1;
    let mut frame = Vec::new();
    TcpFrame {
        payload,
        ..TcpFrame::new(Ends {
            src: ([192, 0, 2, 1], 1000).into(),
            dst: ([192, 0, 2, 2], 2000).into(),
        })
    }
    .encode(&mut frame);
    let kind = pieces.map_or(0, |_| TCP_IPV4);
    let mut sent = vec![NEEDS_CHECKSUM, kind];
    // Where headers end, the size of pieces, where the TCP header begins, and where in it the checksum is.
    for number in [HEADERS, pieces.unwrap_or(0), 34, 16] {
        sent.extend(number.to_ne_bytes());
    }
    sent.extend(frame);
    sent
}

/// Of each packet of a file: its length on the wire, and whether it is marked as a super-packet.
fn marks(file: &Path) -> Result<Vec<(u32, bool)>, Failure> {
    let bytes = zstd::decode_all(File::open(file)?)?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        if word(at) == 6 {
            let options = at + 28 + (word(at + 20) as usize).next_multiple_of(4);
            // The flags are the only option, of code 2 and 4 bytes.
            let flags = match word(options) {
                0x0004_0002 => word(options + 4),
                _ => 0,
            };
            found.push((word(at + 24), flags >> 11 & 1 == 1));
        }
        at += length;
    }
    Ok(found)
}

fn super_packets_of_virtual_machines_are_marked(place: Place) -> Result<(), Failure> {
    let Some((server, _client)) = pair("super_packets_of_virtual_machines_are_marked")? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let mut options = Options::new("inside", folder.path(), choice(1.0));
    options.place = place;
    let (files, _) = sampled(&server, options, || {
        let send = || {
            let guest = guest("inside")?;
            guest.send(&sent(PAYLOAD, Some(MSS)))?;
            guest.send(&sent(100, None))
        };
        server.enter(send).expect("the namespace").expect("sent");
    });
    let headers = u32::from(HEADERS);
    let expected = [(headers + PAYLOAD, true), (headers + 100, false)];
    assert_eq!(marks(&files[0])?, expected);
    Ok(())
}
