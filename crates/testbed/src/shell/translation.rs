//! Packets of a shell get this machine's address outside, and replies find back: a table of nftables for each family.
//!
//! The tables belong to one socket (`flags owner`): the kernel removes them when the process that holds it ends. This
//! process is `nft -i`, which reads commands until this process ends or closes the pipe.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::addresses::Addresses;
use crate::TestbedError;

/// A word that is no command: nft complains about it at once, while it keeps other answers in a buffer.
const END: &str = "tidegate-end";

/// The rules, while it lives.
#[derive(Debug)]
pub(super) struct Translation {
    /// Waits for the end of nft.
    watcher: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
    /// Closing it ends the process.
    stdin: Option<ChildStdin>,
    /// It stays open: nft would end if it could not write to it.
    stderr: Option<BufReader<ChildStderr>>,
}

/// Without rules, packets would leave with the shell's address: a shell whose nft was killed ends.
#[derive(Debug)]
enum State {
    /// The first process of the shell, once there is one.
    Open(Option<Pid>),
    /// The end of nft is wanted, or it came too early.
    Closed,
}

impl Translation {
    /// Rules for the packets of these addresses.
    pub(super) fn new(addresses: &Addresses) -> Result<Self, TestbedError> {
        let failed = |error: io::Error| {
            let cause = match error.kind() {
                io::ErrorKind::NotFound => "the command is missing: install nftables".to_owned(),
                _ => format!("it gives no answer ({error})"),
            };
            TestbedError::Command("nft -i".into(), cause)
        };
        let mut nft = super::tool("nft")
            .arg("-i")
            // It would keep a history of commands there.
            .env("HOME", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C in the terminal is meant for the program in the shell.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (stdin, stderr) = (nft.stdin.take(), nft.stderr.take());
        let state = Arc::new(Mutex::new(State::Open(None)));
        let watched = Arc::clone(&state);
        let watcher = thread::spawn(move || {
            let _ = nft.wait();
            let mut state = watched.lock().unwrap_or_else(PoisonError::into_inner);
            if let State::Open(Some(first)) = *state {
                // It may just have ended.
                let _ = kill(first, Signal::SIGKILL);
            }
            *state = State::Closed;
        });
        let mut this = Self {
            watcher: Some(watcher),
            state,
            stdin,
            stderr: stderr.map(BufReader::new),
        };
        let (Some(stdin), Some(stderr)) = (&mut this.stdin, &mut this.stderr) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let text = rules(addresses) + END + "\n";
        stdin.write_all(text.as_bytes()).map_err(failed)?;
        match complaints(stderr).map_err(failed)? {
            None => Ok(this),
            Some(said) if said.contains("Operation not permitted") => Err(TestbedError::Rights {
                what: "make a table of nftables",
            }),
            Some(said) => Err(TestbedError::Command("nft -i".into(), said)),
        }
    }

    /// From now on, this process is killed when nft ends early.
    pub(super) fn guard(&self, first: u32) -> Result<(), TestbedError> {
        let first = Pid::from_raw(first as i32);
        match &mut *self.lock() {
            State::Open(guarded) => {
                *guarded = Some(first);
                Ok(())
            }
            State::Closed => {
                let _ = kill(first, Signal::SIGKILL);
                Err(TestbedError::Command(
                    "nft -i".into(),
                    "it has ended".into(),
                ))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        *self.lock() = State::Closed;
        drop(self.stdin.take());
        // The tables are gone when the process is.
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// What nft says about the commands before [`END`].
fn complaints(stderr: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut said = Vec::new();
    for line in stderr.lines() {
        let line = line?;
        if line.contains(END) {
            // The complaint about this word itself.
            said.pop();
            let said = said.join(" ");
            return Ok((!said.is_empty()).then_some(said));
        }
        said.push(line);
    }
    let ended = format!("it ended: {}", said.join(" "));
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, ended))
}

/// The commands that make the tables.
fn rules(addresses: &Addresses) -> String {
    let name = &addresses.name;
    let mut text = family("ip", name, &addresses.shell.to_string());
    if addresses.has_six {
        text += &family("ip6", name, &addresses.shell6.to_string());
    }
    text
}

fn family(family: &str, name: &str, shell: &str) -> String {
    let table = format!("{family} tidegate-{name}");
    // Replies have the shell's address again after the priority of dstnat. A copy goes to the device, and the
    // packet ends here, because only a router would forward it. Packets that nobody asked for are left alone.
    let reply = format!("{family} daddr {shell} ct state established,related");
    // This machine knows the shell's address, so its programs see it.
    format!(
        "add table {table} {{ flags owner; }}
add chain {table} replies {{ type filter hook prerouting priority -50; }}
add chain {table} requests {{ type nat hook postrouting priority 100; }}
add rule {table} replies {reply} dup to {shell} device \"{name}\"
add rule {table} replies {reply} drop
add rule {table} requests {family} saddr {shell} fib daddr type != local masquerade
"
    )
}
