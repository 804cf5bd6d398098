//! The filter in the kernel: loading it, and changing which flows it takes.

use std::ffi::OsStr;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{
    ErrorKind, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintCallback, PrintLevel,
};

use crate::choice::{By, Choice};
use crate::error::SampleError;
use crate::key::WORDS;
use crate::net::{Network, Prefixes};
use crate::sys::Shared;

static SOCKET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sample.bpf.o"));
static HOOK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hook.bpf.o"));

/// `struct rule` of `bpf/sample.h`.
#[repr(C)]
struct Rule {
    words: [u64; WORDS],
    limit: u64,
}

/// `struct settings` of `bpf/sample.h`.
#[repr(C)]
struct Settings {
    rules: [Rule; 2],
    mask6: [u64; 2],
    mask4: u32,
    used: u32,
    by: u32,
    raw: u32,
    networks: u32,
    tunnels: u32,
    bridged: u32,
}

/// What runs in the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Code {
    /// The filter of a packet socket.
    Socket,
    /// Programs for the hooks of traffic control, with a ring of this many bytes.
    Hook { ring: u32 },
}

/// What the packets are like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packets {
    /// They begin with IP.
    pub raw: bool,
    /// Those in tunnels are looked at.
    pub tunnels: bool,
    /// They pass a port of a bridge.
    pub bridged: bool,
}

/// Which flows the programs in the kernel take.
#[derive(Debug)]
pub(crate) struct Filter {
    settings: Shared,
    used: usize,
}

impl Filter {
    /// Loads the programs. In `networks` are addresses of clients.
    pub(crate) fn load(
        code: Code,
        choice: &Choice,
        networks: &[Network],
        packets: Packets,
    ) -> Result<(Self, Object), SampleError> {
        let heard = Heard::listen();
        Self::load_quietly(code, choice, networks, packets).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => SampleError::Rights("load the filter".to_owned()),
            _ => SampleError::Filter(format!("{error:#} {}", heard.words())),
        })
    }

    fn load_quietly(
        code: Code,
        choice: &Choice,
        networks: &[Network],
        packets: Packets,
    ) -> Result<(Self, Object), libbpf_rs::Error> {
        let mut builder = ObjectBuilder::default();
        let object = match code {
            Code::Socket => builder.open_memory(SOCKET)?,
            Code::Hook { ring } => {
                let mut object = builder.open_memory(HOOK)?;
                for mut map in object.maps_mut().filter(|map| map.name() == "records") {
                    map.set_max_entries(ring)?;
                }
                object
            }
        };
        let object = object.load()?;
        let settings = found(&object, "settings_map")?;
        assert_eq!(settings.value_size() as usize, size_of::<Settings>());
        let trie = found(&object, "networks")?;
        for network in networks {
            let (bits, address) = network.mapped();
            let key = [&bits.to_ne_bytes()[..], &address].concat();
            trie.update(&key, &[1], MapFlags::ANY)?;
        }
        let mut this = Self {
            settings: Shared::map(settings.as_fd(), size_of::<Settings>())?,
            used: 1,
        };
        this.describe(choice, networks.len() as u32, packets);
        this.choose(choice);
        Ok((this, object))
    }

    /// Writes what does not change while the filter runs.
    fn describe(&mut self, choice: &Choice, networks: u32, packets: Packets) {
        let (by, prefixes) = match choice.by {
            By::Flow => (0, Prefixes { v4: 32, v6: 128 }),
            By::Client(prefixes) => (1, prefixes),
        };
        let mask6 = prefixes.mask6().to_be_bytes();
        let [high, low] = [&mask6[..8], &mask6[8..]].map(|half| u64::from_ne_bytes(eight(half)));
        let to = &mut self.settings;
        to.write64(offset_of!(Settings, mask6), high);
        to.write64(offset_of!(Settings, mask6) + 8, low);
        to.write32(offset_of!(Settings, mask4), prefixes.mask4());
        to.write32(offset_of!(Settings, by), by);
        to.write32(offset_of!(Settings, raw), packets.raw.into());
        to.write32(offset_of!(Settings, networks), networks);
        to.write32(offset_of!(Settings, tunnels), packets.tunnels.into());
        to.write32(offset_of!(Settings, bridged), packets.bridged.into());
    }

    /// Changes the share and the key. Each packet meets either the choice before or this one.
    pub(crate) fn choose(&mut self, choice: &Choice) {
        let next = self.used ^ 1;
        let rule = offset_of!(Settings, rules) + next * size_of::<Rule>();
        let to = &mut self.settings;
        for (at, word) in choice.key.for_flows().into_iter().enumerate() {
            to.write64(rule + offset_of!(Rule, words) + 8 * at, word);
        }
        to.write64(rule + offset_of!(Rule, limit), choice.fraction.limit());
        to.write32(offset_of!(Settings, used), next as u32);
        self.used = next;
    }
}

/// The first eight bytes.
fn eight(bytes: &[u8]) -> [u8; 8] {
    let mut all = [0; 8];
    all.copy_from_slice(&bytes[..8]);
    all
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{what} of the filter"))
}

fn found(object: &Object, name: &str) -> io::Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    let found = found.ok_or_else(|| missing(name))?;
    MapHandle::try_from(&found).map_err(io::Error::other)
}

/// A map of a loaded object.
pub(crate) fn map(object: &Object, name: &str) -> io::Result<OwnedFd> {
    found(object, name)?.as_fd().try_clone_to_owned()
}

/// A program of a loaded object.
pub(crate) fn program(object: &Object, name: &str) -> io::Result<OwnedFd> {
    let found = object.progs().find(|program| program.name() == name);
    found
        .ok_or_else(|| missing(name))?
        .as_fd()
        .try_clone_to_owned()
}

/// Keeps what libbpf would print. Only one thread loads at a time, since it prints through one function.
struct Heard {
    before: Option<(PrintLevel, PrintCallback)>,
    _alone: MutexGuard<'static, ()>,
}

static LOADING: Mutex<()> = Mutex::new(());
static HEARD: Mutex<String> = Mutex::new(String::new());
/// Bytes that are kept of it.
const MOST_HEARD: usize = 1 << 16;

impl Heard {
    fn listen() -> Self {
        let alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        HEARD.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let keep: PrintCallback = |_, words| {
            let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.len() + words.len() < MOST_HEARD {
                heard.push_str(&words);
            }
        };
        Self {
            before: libbpf_rs::set_print(Some((PrintLevel::Warn, keep))),
            _alone: alone,
        }
    }

    fn words(&self) -> String {
        let heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
        heard.trim().to_owned()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        libbpf_rs::set_print(self.before);
    }
}
