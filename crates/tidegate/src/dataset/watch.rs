//! Captures that arrive in folders: the kernel tells when a file is closed or moved in, inotify(7).

use std::collections::{HashMap, HashSet};
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

use super::arrived::Unread;
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
    /// Those that were named, …
    roots: &'a [PathBuf],
    /// … and all that are watched.
    folders: HashMap<i32, PathBuf>,
    found: &'a Sender<Input>,
    unread: &'a Unread,
    quiet: Quiet,
    /// Why folders are not watched, once each.
    told: HashSet<Errno>,
}

/// Sends the captures in the folders, and those that arrive there, each one when it is closed, until the stop flag is
/// set. A capture is sent again only if it changed, or could not be read.
pub fn watch(
    folders: &[PathBuf],
    found: &Sender<Input>,
    unread: &Unread,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut watch = Watch {
        events: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .context("cannot watch folders (inotify)")?,
        roots: folders,
        folders: HashMap::new(),
        found,
        unread,
        quiet: Quiet::default(),
        told: HashSet::new(),
    };
    let mut roots: Vec<Root> = folders.iter().map(|folder| Root::new(folder)).collect();
    for folder in folders {
        watch.folder(folder).with_context(|| cannot_watch(folder))?;
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
            for path in unread.again() {
                let _ = found.send(Input::file(&path));
            }
            searched = Instant::now();
        }
    }
    Ok(())
}

fn cannot_watch(folder: &Path) -> String {
    format!("cannot watch {}", input::display(folder))
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
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let number = inotify::add_watch(&self.events, folder, flags)?;
        self.folders.insert(number, folder.to_owned());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.subfolder(&entry.path());
            }
        }
        Ok(())
    }

    /// The same of a folder in one that is watched. If it cannot be watched, searches find what is in it.
    fn subfolder(&mut self, folder: &Path) {
        let Err(error) = self.folder(folder) else {
            return;
        };
        // A folder that is removed meanwhile is no error, and the search reports one that cannot be read.
        let expected = matches!(error, Errno::NOENT | Errno::ACCESS | Errno::NOTDIR);
        if expected || !self.told.insert(error) {
            return;
        }
        let why = match error {
            Errno::NOSPC => {
                "the system watches no more folders, see fs.inotify.max_user_watches".to_owned()
            }
            other => other.to_string(),
        };
        let seconds = 2 * SEARCH.as_secs();
        eprintln!(
            "tidegate: {}: {why}; captures in this folder and others like it are found by searches, after up to {seconds} s",
            cannot_watch(folder)
        );
    }

    /// Watches a folder at a place where another one was, and sends what is in it.
    fn again(&mut self, folder: &Path) -> anyhow::Result<()> {
        match self.folder(folder) {
            Ok(()) => self.send_all(folder),
            // It is gone again.
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {}
            Err(error) => return Err(error).with_context(|| cannot_watch(folder)),
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
                // More happened than the kernel remembers: folders may have come too.
                for folder in self.roots {
                    self.again(folder)?;
                }
            } else if what.contains(ReadFlags::IGNORED) {
                self.folders.remove(&number);
            } else if let (Some(folder), Some(name)) = (self.folders.get(&number), name) {
                self.arrived(&folder.join(OsStr::from_bytes(&name)), what);
            }
        }
        Ok(())
    }

    fn arrived(&mut self, path: &Path, what: ReadFlags) {
        let come = ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO;
        if what.contains(ReadFlags::ISDIR) {
            if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                self.subfolder(path);
                if path.is_dir() {
                    self.send_all(path);
                }
            }
        } else if what.contains(ReadFlags::ATTRIB) {
            // Of others, it may be the mode of a file that is still written.
            if self.unread.take(path) {
                let _ = self.found.send(Input::file(path));
            }
        } else if (what.intersects(come) || is_link(path)) && input::is_capture(path) {
            self.send(Input::file(path));
        }
    }
}

/// Whether a file is complete when it appears: it is a link, or another name of a file.
fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink() || meta.nlink() > 1)
}

/// The length of a file, when it was written last, and its number.
type State = Option<(u64, i64, i64, u64)>;

fn state(input: &Input) -> State {
    let meta = fs::metadata(input.path()?).ok()?;
    Some((meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino()))
}

/// Captures as they were found last, and whether they were sent like that.
#[derive(Default)]
struct Quiet {
    states: HashMap<PathBuf, (State, bool)>,
}

impl Quiet {
    /// Whether to send a capture now: not, if it was sent as it is now.
    fn sends(&mut self, input: &Input) -> bool {
        let now = (state(input), true);
        let path = input.path().map_or_else(PathBuf::new, Path::to_owned);
        self.states.insert(path, now) != Some(now)
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
            let Some(path) = input.path().map(Path::to_owned) else {
                continue;
            };
            let state = state(&input);
            let same = |before: &&(State, bool)| before.0 == state;
            let before = self.states.get(&path).filter(same);
            if before.is_some_and(|(_, sent)| !sent) {
                quiet.push(input);
            }
            states.insert(path, (state, before.is_some()));
        }
        self.states = states;
        quiet
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::mpsc::{Receiver, channel};

    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    use super::*;

    /// A watch of these folders that has begun, and what it sends.
    fn begun(roots: &[PathBuf], test: impl FnOnce(&mut Watch<'_>, &Receiver<Input>)) {
        let (found, sent) = channel();
        let mut watch = Watch {
            events: inotify::init(CreateFlags::NONBLOCK).unwrap(),
            roots,
            folders: HashMap::new(),
            found: &found,
            unread: &Unread::default(),
            quiet: Quiet::default(),
            told: HashSet::new(),
        };
        for root in roots {
            watch.folder(root).unwrap();
        }
        test(&mut watch, &sent);
    }

    fn names(sent: &Receiver<Input>) -> Vec<String> {
        let name = |input: Input| {
            input
                .path()
                .unwrap()
                .file_name()
                .unwrap()
                .display()
                .to_string()
        };
        let mut names: Vec<_> = sent.try_iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn links_are_complete_and_rights_may_come_later() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        let aside = outside.path().join("aside.pcap");
        fs::write(&aside, "text").unwrap();
        fs::write(at("open.pcap"), "text").unwrap();
        begun(&[folder.path().to_owned()], |watch, sent| {
            fs::hard_link(&aside, at("hard.pcap")).unwrap();
            symlink(&aside, at("soft.pcap")).unwrap();
            let _written = fs::File::create(at("written.pcap")).unwrap();
            watch.wait().unwrap();
            assert_eq!(names(sent), ["hard.pcap", "soft.pcap"]);
            let change = || {
                let mode = fs::Permissions::from_mode(0o640);
                fs::set_permissions(at("open.pcap"), mode).unwrap();
            };
            change();
            watch.wait().unwrap();
            assert!(names(sent).is_empty(), "it was not closed to anybody");
            watch.unread.could_not_open(&at("open.pcap"));
            change();
            watch.wait().unwrap();
            assert_eq!(names(sent), ["open.pcap"]);
        });
    }

    #[test]
    fn after_an_overflow_new_folders_are_watched() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let names_of_two = ["a", "b"].map(at);
        for name in &names_of_two {
            fs::write(name, "no capture").unwrap();
        }
        begun(&[folder.path().to_owned()], |watch, sent| {
            let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
            let limit: usize = limit.trim().parse().unwrap();
            // The kernel merges equal events that follow each other.
            for name in names_of_two.iter().cycle().take(limit + 1) {
                fs::set_permissions(name, fs::Permissions::from_mode(0o600)).unwrap();
            }
            fs::create_dir(at("new")).unwrap();
            fs::write(at("new/a.pcap"), "text").unwrap();
            watch.wait().unwrap();
            assert_eq!(names(sent), ["a.pcap"]);
            fs::write(at("new/b.pcap"), "text").unwrap();
            watch.wait().unwrap();
            assert_eq!(names(sent), ["b.pcap"]);
        });
    }

    /// The path of the deepest folder is too long for the kernel.
    #[test]
    fn a_folder_in_it_that_cannot_be_watched_ends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut above = openat(CWD, folder.path(), flags, Mode::empty()).unwrap();
        let name = "d".repeat(250);
        for _ in 0..20 {
            mkdirat(&above, &name[..], Mode::RWXU).unwrap();
            above = openat(&above, &name[..], flags, Mode::empty()).unwrap();
        }
        begun(&[folder.path().to_owned()], |watch, sent| {
            assert!(watch.told.contains(&Errno::NAMETOOLONG));
            fs::write(folder.path().join("a.pcap"), "text").unwrap();
            watch.wait().unwrap();
            assert_eq!(names(sent), ["a.pcap"]);
        });
    }

    #[test]
    fn names_that_look_alike_are_different() {
        let folder = tempfile::tempdir().unwrap();
        let mut quiet = Quiet::default();
        for byte in [0x80, 0x81] {
            let name = OsString::from_vec([b"a", &[byte][..], b".pcap"].concat());
            let path = folder.path().join(name);
            assert!(quiet.sends(&Input::file(&path)));
        }
    }

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
