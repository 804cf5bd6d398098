//! What the service manager is told: sd_notify(3), which is a datagram to a socket it names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager, if there is one that asked. What goes wrong is no harm: it waits for
/// nothing but `READY=1`, and says so itself.
pub fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        name => SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(name))),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
