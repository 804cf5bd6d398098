//! Captures that arrive in folders: the kernel tells when a file is closed or moved in, inotify(7).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::input::{self, Input};

/// How often to look through the folders: other machines write to network file systems unseen by the kernel.
const SEARCH: Duration = Duration::from_secs(60);
/// How long to wait for events before the stop flag is checked again.
const POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Folders that are watched, with all folders in them.
struct Watch<'a> {
    events: OwnedFd,
    folders: HashMap<i32, PathBuf>,
    found: &'a Sender<Input>,
}

/// Sends the captures that arrive in the folders, each one when it is closed, until the stop flag is set. Captures
/// that are there already are sent again where something changed meanwhile: the dataset knows them.
pub fn watch(folders: &[PathBuf], found: &Sender<Input>, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut watch = Watch {
        events: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .context("cannot watch folders (inotify)")?,
        folders: HashMap::new(),
        found,
    };
    for folder in folders {
        watch
            .folder(folder)
            .with_context(|| format!("cannot watch {}", folder.display()))?;
        // What came between the first look and the watch.
        watch.send_all(folder);
    }
    let mut quiet = Quiet::default();
    let mut searched = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        watch.wait()?;
        if searched.elapsed() >= SEARCH {
            for input in quiet.search(folders) {
                let _ = found.send(input);
            }
            searched = Instant::now();
        }
    }
    Ok(())
}

impl Watch<'_> {
    /// Watches a folder and those in it. Links to folders are not followed.
    fn folder(&mut self, folder: &Path) -> rustix::io::Result<()> {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::CREATE
            | WatchFlags::ONLYDIR;
        let number = inotify::add_watch(&self.events, folder, flags)?;
        self.folders.insert(number, folder.to_owned());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // A folder that is removed meanwhile is no error.
                match self.folder(&entry.path()) {
                    Err(Errno::NOENT | Errno::ACCESS) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn send_all(&self, folder: &Path) {
        for input in input::in_folder(folder) {
            // The receiver outlives the watch.
            let _ = self.found.send(input);
        }
    }

    /// Waits a moment for events, and takes those that came.
    fn wait(&mut self) -> anyhow::Result<()> {
        let mut ready = [PollFd::new(&self.events, PollFlags::IN)];
        match poll(&mut ready, Some(&POLL)) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            other => other?,
        };
        let mut changes = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().to_vec());
                    changes.push((event.wd(), event.events(), name));
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        for (number, what, name) in changes {
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                // More happened than the kernel remembers.
                for folder in self.folders.values() {
                    self.send_all(folder);
                }
            } else if what.contains(ReadFlags::IGNORED) {
                self.folders.remove(&number);
            } else if let (Some(folder), Some(name)) = (self.folders.get(&number), name) {
                self.arrived(&folder.join(OsStr::from_bytes(&name)), what)?;
            }
        }
        Ok(())
    }

    fn arrived(&mut self, path: &Path, what: ReadFlags) -> anyhow::Result<()> {
        if what.contains(ReadFlags::ISDIR) {
            match self.folder(path) {
                Ok(()) => self.send_all(path),
                Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot watch {}", path.display()));
                }
            }
        } else if what.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO)
            && input::is_capture(path)
        {
            let _ = self.found.send(Input::file(path));
        }
        Ok(())
    }
}

type State = Option<(u64, i64, i64)>;

/// Captures as the last search found them.
#[derive(Default)]
struct Quiet {
    states: HashMap<String, (State, bool)>,
}

impl Quiet {
    /// The captures that changed at some time and have not changed since the search before.
    fn search(&mut self, folders: &[PathBuf]) -> Vec<Input> {
        let mut states = HashMap::new();
        let mut quiet = Vec::new();
        for input in folders.iter().flat_map(|folder| input::in_folder(folder)) {
            let (name, state) = (input.name.to_string(), input.state());
            let same = |before: &&(State, bool)| before.0 == state;
            let before = self.states.get(&name).filter(same);
            if before.is_some_and(|(_, sent)| !sent) {
                quiet.push(input);
            }
            states.insert(name, (state, before.is_some()));
        }
        self.states = states;
        quiet
    }
}
