//! Shells of users without rights: namespaces of the user, in which shells are opened as by root.
//!
//! What is outside is reached through slirp4netns: a program of the user that stands at the end of a TAP device, and opens the
//! connections again outside. So TCP ends there: behind a limiter the sender is slirp4netns, not the server. Servers in a shell
//! that surrounds another one are real senders.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

use super::{Shell, ip, names};
use crate::TestbedError;

/// Capabilities that opening a shell takes: CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN.
const NEEDED: u64 = 1 << 12 | 1 << 13 | 1 << 21;
/// Waits until the namespaces are there. It ends when its standard input does.
const HELPER: &str = "read -r _ && exec slirp4netns --configure --exit-fd=3 --ready-fd=4 \"$1\" tap0 3<&0 4>&1 >/dev/null 2>&1";
/// What slirp4netns leads to this machine's loopback addresses, and to its servers for names.
const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);

/// Whether this process may open shells by itself.
pub fn may_open_shells() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|set| set & NEEDED == NEEDED)
}

/// Namespaces of a user. The way outside ends when this is dropped.
#[derive(Debug)]
pub struct UserNamespaces {
    /// Without it, nothing outside is reached. Closing it ends the helper.
    way: Option<ChildStdin>,
    helper: Option<Child>,
    /// Waits for the end of the helper, once a shell needs it.
    watcher: Option<JoinHandle<()>>,
}

impl UserNamespaces {
    /// Moves this process into new ones, for users, network and mounts. It must be the process's only thread.
    ///
    /// # Errors
    /// If the system lets users have no namespaces, or refuses anything else.
    pub fn enter() -> Result<Self, TestbedError> {
        let me = fs::metadata("/proc/self").map_err(TestbedError::system("look up the user"))?;
        let helper = Command::new("sh")
            .args(["-c", HELPER, "sh", &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal is meant for the program in the shell.
            .process_group(0)
            .spawn();
        let mut helper = helper.map_err(TestbedError::system("start sh"))?;
        let kinds = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
        unshare(kinds).map_err(|error| match error {
            Errno::EPERM | Errno::ENOSPC | Errno::EUSERS => TestbedError::UserNamespaces,
            error => TestbedError::system("make namespaces of a user")(error.into()),
        })?;
        let map = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
        // Without the right to set groups, a user may map only the user's group (user_namespaces(7)).
        map("setgroups", "deny".into())
            .and_then(|()| map("uid_map", format!("0 {} 1", me.uid())))
            .and_then(|()| map("gid_map", format!("0 {} 1", me.gid())))
            .map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => TestbedError::UserNamespaces,
                _ => TestbedError::system("map the user into a namespace")(error),
            })?;
        ip("link set lo up\n")?;
        let is_ready = ready(&mut helper);
        let way = helper.stdin.take().filter(|_| is_ready);
        if !is_ready {
            let _ = helper.wait();
        }
        Ok(Self {
            way,
            helper: is_ready.then_some(helper),
            watcher: None,
        })
    }

    /// From now on, the program in this shell is killed when the way outside ends early.
    pub fn watch(&mut self, shell: &Shell) {
        if let Some(mut helper) = self.helper.take() {
            let guard = shell.guard.clone();
            self.watcher = Some(thread::spawn(move || {
                let _ = helper.wait();
                guard.lose("slirp4netns");
            }));
        }
    }

    /// Whether anything outside is reached.
    pub fn has_way_outside(&self) -> bool {
        self.way.is_some()
    }

    /// The address at which servers on this machine are reached, at its loopback addresses.
    pub fn machine(&self) -> Option<IpAddr> {
        self.way.as_ref().map(|_| MACHINE.into())
    }

    /// The address at which names are looked up, if `/etc/resolv.conf` names a server that is not reached.
    pub fn names(&self) -> Option<IpAddr> {
        let text = fs::read_to_string(names::FILE).unwrap_or_default();
        names::unreached(&text)
            .and(self.machine())
            .map(|_| NAMES.into())
    }
}

impl Drop for UserNamespaces {
    fn drop(&mut self) {
        drop(self.way.take());
        if let Some(mut helper) = self.helper.take() {
            let _ = helper.wait();
        }
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// Lets the helper go on. Whether it has set up its device.
fn ready(helper: &mut Child) -> bool {
    let (Some(stdin), Some(stdout)) = (&mut helper.stdin, &mut helper.stdout) else {
        return false;
    };
    // If slirp4netns is missing, the shell has ended, and the pipes with it.
    stdin.write_all(b"\n").is_ok() && stdout.read_exact(&mut [0]).is_ok()
}
