//! The privileges that nobody needs who has opened all that he needs.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

#[cfg(test)]
mod tests;

/// Gives up all capabilities, for good, of the calling thread and of those that it starts from then on; the kernel knows them by thread.
///
/// # Errors
///
/// What the kernel says, if it forbids even that.
pub fn drop_privileges() -> io::Result<()> {
    // Programs that are started do not get back what was given up.
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
