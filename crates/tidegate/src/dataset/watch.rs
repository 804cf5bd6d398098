//! Captures that arrive in folders: the kernel tells when a file is closed or moved in, inotify(7).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
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
    quiet: Quiet,
}

/// Sends the captures in the folders, and those that arrive there, each one when it is closed, until the stop flag is
/// set. A capture is sent again only if it changed.
pub fn watch(folders: &[PathBuf], found: &Sender<Input>, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut watch = Watch {
        events: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .context("cannot watch folders (inotify)")?,
        folders: HashMap::new(),
        found,
        quiet: Quiet::default(),
    };
    let mut roots: Vec<Root> = folders.iter().map(|folder| Root::new(folder)).collect();
    for folder in folders {
        watch
            .folder(folder)
            .with_context(|| format!("cannot watch {}", folder.display()))?;
        // Afterwards, so that nothing is missed in between.
        watch.send_all(folder);
    }
    let mut searched = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        watch.wait()?;
        for root in &mut roots {
            if root.is_new() {
                watch.again(root.path)?;
            }
        }
        if searched.elapsed() >= SEARCH {
            for input in watch.quiet.search(folders) {
                let _ = found.send(input);
            }
            searched = Instant::now();
        }
    }
    Ok(())
}

/// A folder that was named: it may be removed or unmounted, and come back.
struct Root<'a> {
    path: &'a Path,
    /// Its device and number there, while it is there.
    identity: Option<(u64, u64)>,
}

impl<'a> Root<'a> {
    fn new(path: &'a Path) -> Self {
        let identity = Self::identity(path);
        Self { path, identity }
    }

    fn identity(path: &Path) -> Option<(u64, u64)> {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        Some((meta.dev(), meta.ino()))
    }

    /// Whether another folder is at this place than before. Says so when the folder comes or goes.
    fn is_new(&mut self) -> bool {
        let now = Self::identity(self.path);
        if now == self.identity {
            return false;
        }
        let what = match (self.identity, now) {
            (_, None) => "this folder is gone: captures are taken again when it is back",
            (None, _) => "this folder is back",
            _ => "another folder is here now, and is followed",
        };
        eprintln!("tidegate: {}: {what}", input::display(self.path));
        self.identity = now;
        now.is_some()
    }
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

    /// Watches a folder at a place where another one was, and sends what is in it.
    fn again(&mut self, folder: &Path) -> anyhow::Result<()> {
        match self.folder(folder) {
            Ok(()) => self.send_all(folder),
            // It is gone again.
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot watch {}", folder.display()));
            }
        }
        Ok(())
    }

    fn send_all(&mut self, folder: &Path) {
        for input in input::in_folder(folder) {
            self.send(input);
        }
    }

    /// Sends a capture, unless it was sent as it is now.
    fn send(&mut self, input: Input) {
        if self.quiet.sends(&input) {
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
                let folders: Vec<PathBuf> = self.folders.values().cloned().collect();
                for folder in folders {
                    self.send_all(&folder);
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
            self.again(path)?;
        } else if what.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO)
            && input::is_capture(path)
        {
            self.send(Input::file(path));
        }
        Ok(())
    }
}

type State = Option<(u64, i64, i64)>;

/// Captures as they were found last, and whether they were sent like that.
#[derive(Default)]
struct Quiet {
    states: HashMap<String, (State, bool)>,
}

impl Quiet {
    /// Whether to send a capture now: not, if it was sent as it is now.
    fn sends(&mut self, input: &Input) -> bool {
        let now = (input.state(), true);
        self.states.insert(input.name.to_string(), now) != Some(now)
    }

    /// The captures that changed at some time and have not changed since the search before.
    fn search(&mut self, folders: &[PathBuf]) -> Vec<Input> {
        let mut states = HashMap::new();
        let mut quiet = Vec::new();
        for input in folders
            .iter()
            .filter(|folder| folder.is_dir())
            .flat_map(|folder| input::in_folder(folder))
        {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches find captures that other machines write, and send nothing twice.
    #[test]
    fn a_capture_is_sent_once_for_each_of_its_states() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            Input::file(&path)
        };
        let mut quiet = Quiet::default();
        let there = write("there.pcap", "1");
        assert!(quiet.sends(&there) && !quiet.sends(&there));
        for _ in 0..3 {
            assert!(quiet.search(&folders).is_empty());
        }
        // Nobody told of this one, nor of the change of the other one.
        write("remote.pcap", "1");
        write("there.pcap", "12");
        assert!(quiet.search(&folders).is_empty(), "it may still be written");
        let found = quiet.search(&folders);
        let names: Vec<_> = found.iter().map(|input| &*input.name).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(quiet.search(&folders).is_empty());
    }

    #[test]
    fn a_folder_that_goes_and_comes_back_is_new() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("captures");
        fs::create_dir(&path).unwrap();
        let mut root = Root::new(&path);
        assert!(!root.is_new());
        fs::remove_dir(&path).unwrap();
        assert!(!root.is_new() && !root.is_new());
        fs::create_dir(&path).unwrap();
        assert!(root.is_new() && !root.is_new());
    }
}
