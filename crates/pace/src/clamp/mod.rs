//! The kernel's side: loading it, attaching it to a cgroup, and talking to it.

pub(crate) mod cgroup;
pub(crate) mod wire;

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{ErrorExt, MapCore, MapFlags, MapHandle, ObjectBuilder, PrintCallback, PrintLevel};
use socket2::{Domain, Socket, Type};

use self::wire::{CHANGE, FREE, LEVEL, REMOVE, REMOVED, Record, Request, SET};
use crate::socket;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pace.bpf.o"));

/// The programs, attached for as long as this lives: the kernel detaches them when the last file
/// descriptor of their links is closed, also when the process is killed.
#[derive(Debug)]
pub(crate) struct Clamp {
    sockets: MapHandle,
    /// The number by which the programs tell requests of this library from those of others.
    pub(crate) owner: u64,
    _links: Vec<OwnedFd>,
    pub(crate) programs: Vec<u32>,
}

impl Clamp {
    pub(crate) fn attach(cgroup: &Path) -> Result<Self, libbpf_rs::Error> {
        let heard = Heard::listen();
        Self::attach_quietly(cgroup).map_err(|error| match heard.words() {
            words if words.is_empty() => error,
            words => error.context(words),
        })
    }

    fn attach_quietly(cgroup: &Path) -> Result<Self, libbpf_rs::Error> {
        let folder = File::open(cgroup)
            .map_err(libbpf_rs::Error::from)
            .with_context(|| format!("cgroup {}", cgroup.display()))?;
        let mut object = ObjectBuilder::default().open_memory(OBJECT)?;
        let owner = RandomState::new().hash_one(());
        let constants = object
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(".rodata"));
        match constants {
            Some(mut constants) => constants.set_initial_value(&owner.to_ne_bytes())?,
            None => return Err(io::Error::other("no constants in the program").into()),
        }
        let object = object.load()?;
        let map = object
            .maps()
            .find(|map| map.name() == OsStr::new("sockets"));
        let Some(map) = map else {
            return Err(io::Error::other("no map `sockets` in the program").into());
        };
        let sockets = MapHandle::try_from(&map)?;
        debug_assert_eq!(sockets.value_size() as usize, size_of::<Record>());
        let mut links = vec![];
        let mut programs = vec![];
        for program in object.progs_mut() {
            let link = program
                .attach_cgroup(folder.as_raw_fd())
                .with_context(|| format!("cgroup {}", cgroup.display()))?;
            // A duplicate, because libbpf's descriptor may not live long enough.
            links.push(link.as_fd().try_clone_to_owned()?);
            programs.extend(program_id(program.as_fd()));
        }
        Ok(Self {
            sockets,
            owner,
            _links: links,
            programs,
        })
    }

    /// Whether sockets can be paced, tried on one that is not connected. The answer is yes if this cannot be tried,
    /// because the process is in another cgroup.
    pub(crate) fn works(&self) -> bool {
        let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, None) else {
            return true;
        };
        let request = Request {
            owner: self.owner,
            rate: 1,
            credit: 0,
            headroom: 1000,
            floor: 1,
            flags: 0,
            queued: 0,
        };
        let tried = self.set(socket.as_fd(), &request);
        !tried.is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP))
    }

    pub(crate) fn set(&self, socket: BorrowedFd<'_>, request: &Request) -> io::Result<()> {
        socket::set_option(socket, LEVEL, SET, &request.bytes())
    }

    /// An error of `ENOENT` if it is not paced.
    pub(crate) fn change(&self, socket: BorrowedFd<'_>, request: &Request) -> io::Result<()> {
        socket::set_option(socket, LEVEL, CHANGE, &request.bytes())
    }

    pub(crate) fn remove(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        socket::set_option(socket, LEVEL, REMOVE, &self.owner.to_ne_bytes())
    }

    /// Removes the clamp at once. The programs are about to go, and could not do it step by step.
    pub(crate) fn free(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        socket::set_option(socket, LEVEL, FREE, &self.owner.to_ne_bytes())
    }

    /// The kernel's record of a socket; `None` if it is not paced.
    pub(crate) fn record(&self, socket: BorrowedFd<'_>) -> io::Result<Option<Record>> {
        let value = self.value(socket)?;
        let record = value
            .as_deref()
            .and_then(|value| value.first_chunk())
            .map(|bytes| Record::read(*bytes));
        Ok(record.filter(|record| record.state != REMOVED))
    }

    /// Whether a socket has a clamp of these programs, even one that is being removed.
    pub(crate) fn holds(&self, socket: BorrowedFd<'_>) -> bool {
        self.value(socket).is_ok_and(|value| value.is_some())
    }

    fn value(&self, socket: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let value = self.sockets.lookup(&key, MapFlags::ANY);
        // The error of libbpf-rs hides the kernel's number. What is no open socket gets it from another call.
        value.map_err(|error| match socket::cookie(socket) {
            Err(refused) => refused,
            Ok(_) => io::Error::other(error),
        })
    }
}

fn program_id(program: BorrowedFd<'_>) -> Option<u32> {
    let info =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).ok()?;
    let id = info
        .lines()
        .find_map(|line| line.strip_prefix("prog_id:"))?;
    id.trim().parse().ok()
}

/// Messages of libbpf while something is loaded. The error message quotes them, because they contain those of
/// the verifier.
struct Heard {
    before: Option<(PrintLevel, PrintCallback)>,
    _alone: MutexGuard<'static, ()>,
}

/// Only one thread loads at a time, since libbpf prints through one function.
static LOADING: Mutex<()> = Mutex::new(());
static HEARD: Mutex<String> = Mutex::new(String::new());

impl Heard {
    fn listen() -> Self {
        let alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        HEARD.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let keep: PrintCallback = |_, words| {
            let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.len() + words.len() < 1 << 16 {
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
