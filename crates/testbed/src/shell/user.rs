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
use socket2::{Domain, Protocol, Socket, Type};

use super::{Shell, ip, names};
use crate::TestbedError;

/// Capabilities that opening a shell takes: CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN.
const NEEDED: u64 = 1 << 12 | 1 << 13 | 1 << 21;
/// Waits until the namespaces are there. It ends when its standard input does.
const HELPER: &str = "read -r _ && exec slirp4netns --configure --exit-fd=3 --ready-fd=4 \"$1\" tap0 3<&0 4>&1 >/dev/null";
/// The exit code of a POSIX shell that does not find a command.
const NOT_FOUND: i32 = 127;
/// Most bytes that are kept of what slirp4netns says: its last words.
const WORDS: usize = 4096;
/// What slirp4netns leads to this machine's loopback addresses, and to its servers for names.
const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);

/// Why nothing outside is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no command slirp4netns.
    Missing,
    /// The command failed, and said this last.
    Failed(String),
}

/// Whether this process may open shells by itself.
pub fn may_open_shells() -> bool {
    has_capabilities() && owns_network()
}

/// Whether this process has the capabilities, in its namespace of users.
fn has_capabilities() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|set| set & NEEDED == NEEDED)
}

/// Whether its capabilities hold in its network, as they do not where only the namespace of users is new (`unshare --map-root-user`). The kernel
/// asks the namespace of users that the network belongs to, for raw sockets too (user_namespaces(7)).
fn owns_network() -> bool {
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4));
    !raw.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Namespaces of a user. The way outside ends when this is dropped.
#[derive(Debug)]
pub struct UserNamespaces {
    /// Without it, nothing outside is reached. Closing it ends the helper.
    way: Option<ChildStdin>,
    obstacle: Option<Obstacle>,
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
            .stderr(Stdio::piped())
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
        let words = helper.stderr.take().map(listen);
        let way = ready(&mut helper);
        let obstacle = way.is_none().then(|| obstacle(&mut helper, words));
        Ok(Self {
            helper: way.is_some().then_some(helper),
            way,
            obstacle,
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

    /// Why nothing outside is reached, if that is so.
    pub fn obstacle(&self) -> Option<&Obstacle> {
        self.obstacle.as_ref()
    }

    /// The address at which servers on this machine are reached, at its loopback addresses.
    pub fn machine(&self) -> Option<IpAddr> {
        self.way.as_ref().map(|_| MACHINE.into())
    }

    /// The text of the shell's `/etc/resolv.conf`, if that of the machine names a server that is not reached, or none.
    pub fn names(&self) -> Option<String> {
        let (text, machine) = (names::file()?, self.machine()?);
        // slirp4netns answers only for servers of the file.
        let address = match names::has_servers(&text) {
            true => NAMES.into(),
            false => machine,
        };
        // It asks servers at the machine's other addresses as the machine itself does.
        names::rewritten(&text, &[], address)
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

/// Lets the helper go on. The pipe that ends it, once it has set up its device.
fn ready(helper: &mut Child) -> Option<ChildStdin> {
    let mut stdin = helper.stdin.take()?;
    let stdout = helper.stdout.as_mut()?;
    // If slirp4netns is missing or fails, the pipes end.
    let is_ready = stdin.write_all(b"\n").is_ok() && stdout.read_exact(&mut [0]).is_ok();
    is_ready.then_some(stdin)
}

/// Reads to the end, for a program may not go on while a pipe is full, and returns what came last.
fn listen(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut last = Vec::new();
        let mut buffer = [0; WORDS];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            last.extend_from_slice(&buffer[..bytes]);
            last.drain(..last.len().saturating_sub(WORDS));
        }
        String::from_utf8_lossy(&last).into_owned()
    })
}

/// Why a helper has ended. `words` are what it wrote to standard error.
fn obstacle(helper: &mut Child, words: Option<JoinHandle<String>>) -> Obstacle {
    let status = helper.wait();
    if status
        .as_ref()
        .is_ok_and(|status| status.code() == Some(NOT_FOUND))
    {
        return Obstacle::Missing;
    }
    let words = words.and_then(|words| words.join().ok());
    let words = words.unwrap_or_default();
    let last = words.lines().map(str::trim).rfind(|line| !line.is_empty());
    Obstacle::Failed(match (last, status) {
        (Some(line), _) => line.to_owned(),
        (None, Ok(status)) => status.to_string(),
        (None, Err(error)) => error.to_string(),
    })
}
