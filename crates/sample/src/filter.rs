//! The filter in the kernel: loading it, and changing which flows it takes.

use std::ffi::OsStr;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{
    ErrorKind, MapCore, MapFlags, MapHandle, ObjectBuilder, PrintCallback, PrintLevel,
};

use crate::choice::{By, Choice};
use crate::error::SampleError;
use crate::net::{Network, Prefixes};
use crate::sys::Shared;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sample.bpf.o"));

/// `struct rule` of `bpf/sample.h`.
#[repr(C)]
struct Rule {
    key: [u64; 2],
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
}

/// The program in the kernel, for as long as this lives or a socket has it.
#[derive(Debug)]
pub(crate) struct Filter {
    program: OwnedFd,
    settings: Shared,
    used: usize,
}

impl Filter {
    /// Loads the filter. `raw` says that frames begin with IP; in `networks` are addresses of clients; `tunnels` says whether
    /// packets in tunnels are looked at.
    pub(crate) fn load(
        choice: &Choice,
        raw: bool,
        networks: &[Network],
        tunnels: bool,
    ) -> Result<Self, SampleError> {
        let heard = Heard::listen();
        Self::load_quietly(choice, raw, networks, tunnels).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => SampleError::Rights("load the filter".to_owned()),
            _ => SampleError::Filter(format!("{error:#} {}", heard.words())),
        })
    }

    fn load_quietly(
        choice: &Choice,
        raw: bool,
        networks: &[Network],
        tunnels: bool,
    ) -> Result<Self, libbpf_rs::Error> {
        let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
        let missing = |what| libbpf_rs::Error::from(io::Error::new(io::ErrorKind::NotFound, what));
        let map = |name: &str| {
            let found = object.maps().find(|map| map.name() == OsStr::new(name));
            MapHandle::try_from(&found.ok_or_else(|| missing("a map of the filter"))?)
        };
        let settings = map("settings_map")?;
        assert_eq!(settings.value_size() as usize, size_of::<Settings>());
        let trie = map("networks")?;
        for network in networks {
            let (bits, address) = network.mapped();
            let key = [&bits.to_ne_bytes()[..], &address].concat();
            trie.update(&key, &[1], MapFlags::ANY)?;
        }
        let program = object.progs().next().ok_or_else(|| missing("the filter"))?;
        let mut this = Self {
            program: program.as_fd().try_clone_to_owned()?,
            settings: Shared::map(settings.as_fd(), size_of::<Settings>())?,
            used: 1,
        };
        this.describe(choice, raw, networks.len() as u32);
        let to = offset_of!(Settings, tunnels);
        this.settings.write32(to, u32::from(tunnels));
        this.choose(choice);
        Ok(this)
    }

    /// Writes what does not change while the filter runs.
    fn describe(&mut self, choice: &Choice, raw: bool, networks: u32) {
        let (by, prefixes) = match choice.by {
            By::Flow => (0, Prefixes { v4: 32, v6: 128 }),
            By::Client(prefixes) => (1, prefixes),
        };
        let mask6 = prefixes.mask6().to_be_bytes();
        let [high, low] = [&mask6[..8], &mask6[8..]].map(|half| u64::from_ne_bytes(eight(half)));
        let to = &mut self.settings;
        to.write64(offset_of!(Settings, mask6), high);
        to.write64(offset_of!(Settings, mask6) + 8, low);
        to.write32(offset_of!(Settings, mask4), prefixes.mask4().to_be());
        to.write32(offset_of!(Settings, by), by);
        to.write32(offset_of!(Settings, raw), u32::from(raw));
        to.write32(offset_of!(Settings, networks), networks);
    }

    /// Changes the share and the key. Each packet meets either the choice before or this one.
    pub(crate) fn choose(&mut self, choice: &Choice) {
        let key = choice.key.for_flows();
        let [low, high] = [&key[..8], &key[8..]].map(|half| u64::from_le_bytes(eight(half)));
        let next = self.used ^ 1;
        let rule = offset_of!(Settings, rules) + next * size_of::<Rule>();
        let to = &mut self.settings;
        to.write64(rule + offset_of!(Rule, key), low);
        to.write64(rule + offset_of!(Rule, key) + 8, high);
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

impl AsFd for Filter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
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
