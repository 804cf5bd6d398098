//! Interfaces whose packets a process takes by DPDK's packet sockets. It has a socket with the name of the interface, which a network
//! namespace has once, and which the kernel closes with the process.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The name of the socket for an interface, in the abstract namespace (unix(7)).
pub(crate) fn name(interface: &str) -> String {
    format!("tidegate/dpdk/{interface}")
}

/// What is known of the process that has an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The number of the process.
    pub process: u32,
    /// Its user.
    pub user: u32,
}

/// The process that has an interface. Processes of other containers are not seen.
pub(crate) fn owner(interface: &str) -> Option<Owner> {
    let name = name(interface);
    let sockets = fs::read_to_string("/proc/net/unix").ok()?;
    let mut lines = sockets.lines().map(str::split_whitespace);
    // Num RefCount Protocol Flags Type St Inode Path
    let inode = lines.find_map(|words| {
        let words: Vec<&str> = words.collect();
        (words.get(7)?.strip_prefix('@')? == name).then_some(words[6])
    })?;
    let socket = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        let has =
            files.any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == &*socket));
        let user = entry.metadata().ok()?.uid();
        has.then_some(Owner { process, user })
    })
}
