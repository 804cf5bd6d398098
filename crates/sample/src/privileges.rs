//! Gives up privileges, when the socket is open and the filter is loaded.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// Gives up all capabilities of the calling thread, and of threads that it starts afterwards, for good.
///
/// # Errors
/// The kernel's error, if it forbids even that.
pub fn drop_privileges() -> io::Result<()> {
    // Programs that are started later do not get the capabilities back.
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, sets)?;
    Ok(())
}
