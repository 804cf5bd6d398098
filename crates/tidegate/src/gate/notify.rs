//! Messages to the service manager, see sd_notify(3): each is a datagram to a socket that it names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state to the service manager, if it asked for that. A failure is only logged: the service
/// manager waits for nothing but `READY=1`, and reports that itself.
pub fn send(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        name => SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(name))),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot send to the service manager");
    }
}
