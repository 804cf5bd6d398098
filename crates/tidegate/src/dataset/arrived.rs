//! A capture that arrived in a folder. It may be renamed, removed or opened for others while it is analysed.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::input::{self, Input};

/// A file that stays open, so that it can be read whatever happens to its name.
pub struct Arrived {
    file: File,
    path: PathBuf,
}

impl Arrived {
    /// Opens a capture, unless it is a folder that could not be read. From then on, the input is what is open.
    pub fn open(input: &mut Input) -> io::Result<Option<Self>> {
        let Some(path) = input.path().filter(|path| !path.is_dir()) else {
            return Ok(None);
        };
        let (file, path) = (File::open(path)?, path.to_owned());
        let name = Arc::clone(&input.name);
        let arrived = Self { file, path };
        // Through this link, the kernel opens the same file again. proc(5)
        *input = Input::file(&arrived.link());
        input.name = name;
        Ok(Some(arrived))
    }

    fn link(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// What it is called by now: programs that copy files write them under another name first.
    pub fn name(&self) -> Arc<str> {
        let link = fs::read_link(self.link());
        let name = link.as_deref().ok().and_then(Path::file_name);
        let identity = |meta: Metadata| (meta.dev(), meta.ino());
        let this = self.file.metadata().map(identity).ok();
        let is_it = |path: &PathBuf| fs::metadata(path).map(identity).ok() == this;
        let renamed = name.map(|name| self.path.with_file_name(name));
        let is_renamed = !is_it(&self.path) && renamed.as_ref().is_some_and(is_it);
        let renamed = renamed.filter(|_| is_renamed);
        input::display(renamed.as_deref().unwrap_or(&self.path))
    }
}

/// Captures that the system did not let this process read.
#[derive(Default)]
pub struct Unread(Mutex<HashMap<PathBuf, Failure>>);

enum Failure {
    Open,
    /// The file as it was then.
    Read(State),
}

/// The length and the number of a file, and when its content and its attributes changed.
type State = Option<(u64, u64, [i64; 4])>;

fn state(path: &Path) -> State {
    let meta = fs::metadata(path).ok()?;
    let changed = [
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ];
    Some((meta.len(), meta.ino(), changed))
}

impl Unread {
    pub fn could_not_open(&self, path: &Path) {
        self.failures().insert(path.to_owned(), Failure::Open);
    }

    pub fn could_not_read(&self, arrived: &Arrived) {
        let failure = Failure::Read(state(&arrived.path));
        self.failures().insert(arrived.path.clone(), failure);
    }

    /// Takes a capture out. Returns whether it could not be read.
    pub fn take(&self, path: &Path) -> bool {
        self.failures().remove(path).is_some()
    }

    /// Takes those out that may be read now. The others stay, unless they are gone.
    pub fn again(&self) -> Vec<PathBuf> {
        let mut failures = self.failures();
        failures.retain(|path, _| path.exists());
        let may_be_read = |path: &PathBuf, failure: &mut Failure| match failure {
            Failure::Open => File::open(path).is_ok(),
            Failure::Read(before) => state(path) != *before,
        };
        let taken = failures.extract_if(may_be_read);
        taken.map(|(path, _)| path).collect()
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<PathBuf, Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::AtomicBool;

    use indicatif::ProgressBar;

    use super::*;

    /// As rsync does it.
    #[test]
    fn a_capture_that_is_renamed_or_removed_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at(".a.pcap.AbCdEf"), "text").unwrap();
        let mut input = Input::file(&at(".a.pcap.AbCdEf"));
        let arrived = Arrived::open(&mut input).unwrap().unwrap();
        let state = input.state();
        assert!(state.is_some());
        assert_eq!(arrived.name(), input.name);
        fs::rename(at(".a.pcap.AbCdEf"), at("a.pcap")).unwrap();
        assert_eq!(arrived.name(), input::display(&at("a.pcap")));
        fs::remove_file(at("a.pcap")).unwrap();
        assert_eq!(arrived.name(), input.name);
        // Another file of this name is not this one.
        fs::write(at(".a.pcap.AbCdEf"), "other").unwrap();
        assert_eq!(input.state(), state);
        let mut text = String::new();
        let stop = Arc::new(AtomicBool::new(false));
        let mut file = input.open(&ProgressBar::hidden(), &stop).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn what_could_not_be_read_is_tried_again_when_it_may_be_possible() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let unread = Unread::default();
        unread.could_not_open(&path);
        assert!(
            unread.again().is_empty() && !unread.take(&path),
            "it is gone"
        );
        fs::write(&path, "text").unwrap();
        unread.could_not_open(&path);
        assert_eq!(unread.again(), std::slice::from_ref(&path));
        assert!(unread.again().is_empty());
        let arrived = Arrived::open(&mut Input::file(&path)).unwrap().unwrap();
        unread.could_not_read(&arrived);
        assert!(unread.again().is_empty(), "nothing changed");
        // The same length at the same time, in another file.
        let other = folder.path().join("b");
        fs::write(&other, "next").unwrap();
        let times =
            fs::FileTimes::new().set_modified(fs::metadata(&path).unwrap().modified().unwrap());
        File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_times(times)
            .unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(unread.again(), std::slice::from_ref(&path));
    }
}
