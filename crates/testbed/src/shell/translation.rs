//! Packets of a shell get this machine's address outside, and replies find back: a table of nftables for each family.
//!
//! The tables belong to one socket (`flags owner`): the kernel removes them when the process that holds it ends. This
//! process is `nft -i`, which reads commands until this process ends or closes the pipe.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, Stdio};
use std::thread::{self, JoinHandle};

use super::addresses::Addresses;
use super::guard::Guard;
use crate::TestbedError;

/// A word that is no command: nft complains about it at once, while it keeps other answers in a buffer.
const END: &str = "tidegate-end";
/// What holds the tables.
const COMMAND: &str = "nft -i";

/// The rules, while it lives.
#[derive(Debug)]
pub(super) struct Translation {
    /// Waits for the end of nft.
    watcher: Option<JoinHandle<()>>,
    guard: Guard,
    /// Closing it ends the process.
    stdin: Option<ChildStdin>,
    /// It stays open: nft would end if it could not write to it.
    stderr: Option<BufReader<ChildStderr>>,
}

impl Translation {
    /// Rules for the packets of these addresses. Without them, packets would leave with the shell's address, so the guard
    /// hears when they end.
    pub(super) fn new(addresses: &Addresses, guard: Guard) -> Result<Self, TestbedError> {
        let failed = |error: io::Error| {
            let cause = match error.kind() {
                io::ErrorKind::NotFound => "the command is missing: install nftables".to_owned(),
                _ => format!("it gives no answer ({error})"),
            };
            TestbedError::Command(COMMAND.into(), cause)
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
        let watching = guard.clone();
        let watcher = thread::spawn(move || {
            let _ = nft.wait();
            watching.lose(COMMAND);
        });
        let mut this = Self {
            watcher: Some(watcher),
            guard,
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
            Some(said) => Err(TestbedError::Command(COMMAND.into(), said)),
        }
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        self.guard.close();
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
