//! Gives up privileges. A server needs none once it has opened its sockets and files.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

#[cfg(test)]
mod tests;

/// Gives up all capabilities of the calling thread, and of threads that it starts afterwards, for good. The kernel counts them per thread, so each thread has to call this.
///
/// # Errors
///
/// The kernel's error, if it forbids even that.
pub fn drop_privileges() -> io::Result<()> {
    // Programs that are started later do not get the capabilities back.
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    Ok(())
}
