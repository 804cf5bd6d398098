//! What a sampler is asked for, and what it tells.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_trace::read::Clients;

use crate::address::Addresses;
use crate::choice::{By, Choice};
use crate::error::SampleError;
use crate::files::{Closed, Rotation};
use crate::fraction::Fraction;
use crate::key::KeyError;
use crate::net::Network;
use crate::place::Place;

/// What to sample, and where to write it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The interface's name.
    pub interface: String,
    /// Where files are written.
    pub folder: PathBuf,
    /// What is sampled.
    pub choice: Choice,
    /// Networks of clients, for [`By::Client`](crate::By::Client).
    pub clients: Vec<Network>,
    /// When files end.
    pub rotation: Rotation,
    /// How addresses are written.
    pub addresses: Addresses,
    /// The file that the key came from, which is read again when asked for.
    pub key_file: Option<PathBuf>,
    /// Most bytes of all complete files together: the oldest are removed. `None`: as many as the disk holds.
    pub keep: Option<u64>,
    /// Memory for packets that are not written yet, in bytes. At most [`Self::MOST_RING`] is taken.
    pub ring: u64,
    /// Where in the kernel packets are looked at.
    pub place: Place,
    /// This host's name.
    pub host: String,
}

impl Options {
    /// The most memory for packets that are not written yet, in bytes: the kernel takes all of it at once, whether packets come or
    /// not.
    pub const MOST_RING: u64 = 1 << 30;

    /// All of this host, in files of 100 MB and 5 minutes, by way of 64 MiB of memory.
    pub fn new(interface: &str, folder: impl Into<PathBuf>, choice: Choice) -> Self {
        Self {
            interface: interface.to_owned(),
            folder: folder.into(),
            choice,
            clients: Vec::new(),
            rotation: Rotation {
                size: 100_000_000,
                every: Duration::from_secs(300),
            },
            addresses: Addresses::Keep,
            key_file: None,
            keep: None,
            ring: 64 << 20,
            place: Place::Socket,
            host: Self::host_name(),
        }
    }

    /// Which addresses are one client in what is sampled, as readers take it from the header of a file.
    pub fn told_apart(&self) -> Clients {
        let bits = match self.choice.by {
            By::Flow => Clients::ADDRESSES,
            By::Client(prefixes) => (prefixes.v4, prefixes.v6),
        };
        let kept = match self.addresses {
            Addresses::Keep | Addresses::Pseudonym => Clients::ADDRESSES,
            Addresses::Prefix(prefixes) => (prefixes.v4, prefixes.v6),
        };
        Clients::new(bits, kept)
    }

    /// The name by which the kernel knows this host.
    pub fn host_name() -> String {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    }
}

/// What happened, for people and programs that watch.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A file is complete.
    Closed(Closed),
    /// This share is sampled from now on: less than before, because packets came faster than they were written, or
    /// more again.
    Share {
        /// The share until now.
        before: Fraction,
        /// The share from now on.
        now: Fraction,
    },
    /// An earlier process was killed: its last file was completed, as far as it had been written.
    Recovered {
        /// Where it is.
        path: PathBuf,
        /// Packets in it.
        packets: u64,
    },
    /// The same was tried without success. It is tried again at the next start.
    NotRecovered {
        /// The file that is not complete.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// Files were removed to make room, the oldest first.
    Removed(Vec<PathBuf>),
    /// Packets were not written, because the disk is full and nothing can be removed.
    Discarded {
        /// How many.
        packets: u64,
        /// Why.
        reason: SampleError,
    },
    /// The key was read again. Its name.
    Key(String),
    /// It could not be read, and the key before stays.
    KeyKept(KeyError),
}
