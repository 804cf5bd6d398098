//! The folder of a sampler: names, files that appear when they are complete, and room for more.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, OFlags, flock};
use tidegate_trace::read::Nanos;

use crate::error::SampleError;

/// What the names of complete files end with.
const COMPLETE: &str = ".pcapng.zst";
/// What the names of others end with. They also begin with a dot.
const PART: &str = ".part";
/// What the name of a file ends with while it is recovered.
const AGAIN: &str = ".again";

/// Clocks differ by less.
const A_DAY: Duration = Duration::from_secs(86_400);

/// A folder with the files of one interface of one host.
#[derive(Debug, Clone)]
pub(crate) struct Folder(Arc<Place>);

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// What all names begin with.
    stem: String,
    /// Files that were removed to make room, until somebody asks.
    removed: Mutex<Vec<PathBuf>>,
    _lock: File,
}

impl Folder {
    /// Takes the folder for this process.
    pub fn open(path: &Path, host: &str, interface: &str) -> Result<Self, SampleError> {
        let folders = DirBuilder::new().recursive(true).mode(0o750).create(path);
        folders.map_err(SampleError::write(path))?;
        let stem = format!("{}-{}", plain(host), plain(interface));
        let lock = path.join(format!(".{stem}.lock"));
        // What a link points to must not be touched.
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = options.open(&lock).map_err(SampleError::write(&lock))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| SampleError::Busy(path.to_owned()))?;
        let this = Self(Arc::new(Place {
            path: path.to_owned(),
            stem,
            removed: Mutex::default(),
            _lock: file,
        }));
        // A process may be killed while it recovers a file.
        let left = this.list(|name| name.starts_with('.') && name.ends_with(AGAIN));
        for part in left.map_err(SampleError::write(path))? {
            fs::remove_file(&part).map_err(SampleError::write(&part))?;
        }
        Ok(this)
    }

    /// Files that a process that was killed did not complete.
    pub fn left(&self) -> io::Result<Vec<PathBuf>> {
        self.list(|name| name.starts_with('.') && name.ends_with(PART))
    }

    /// Begins a file that gets the name of one that was left. Not, if there is a complete one of this name.
    pub fn again(&self, left: &Path) -> io::Result<Option<Part>> {
        let name = left.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_start_matches('.').trim_end_matches(PART);
        let complete = self.0.path.join(format!("{name}{COMPLETE}"));
        if complete.exists() {
            return Ok(None);
        }
        let aside = self.0.path.join(format!(".{name}{AGAIN}"));
        Ok(Some(Part {
            folder: self.clone(),
            file: self.with_room(|| create(&aside))?,
            aside: Some(aside),
            complete,
            bytes: 0,
        }))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The files of this sampler whose names are wanted, sorted: names hold times.
    fn list(&self, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.0.path)?
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let rest = name.trim_start_matches('.').strip_prefix(&self.0.stem);
                // Interfaces such as eth0 and eth0-1 are apart by the time, which begins with a digit.
                rest.is_some_and(is_time) && wanted(&name)
            })
            .map(|entry| entry.path())
            .collect();
        files.sort_unstable();
        Ok(files)
    }

    /// Complete files, the oldest first. What has a time to come is from a clock that was ahead: it must not outlive all that is sampled
    /// until then.
    pub fn complete(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = self.list(|name| !name.starts_with('.') && name.ends_with(COMPLETE))?;
        let soon = time_in_name(SystemTime::now() + A_DAY);
        let soon = format!("{}-{soon}", self.0.stem);
        let past = files.partition_point(|file| {
            let name = file.file_name().unwrap_or_default();
            *name.to_string_lossy() < *soon
        });
        files.rotate_left(past);
        Ok(files)
    }

    /// Begins a file whose first packet was captured at this time.
    pub fn begin(&self, at: Nanos) -> Result<Part, SampleError> {
        let Place { path, stem, .. } = &*self.0;
        let time = time_in_name(UNIX_EPOCH + Duration::from_nanos(at));
        let name = (0..)
            .map(|number| match number {
                0 => format!("{stem}-{time}"),
                number => format!("{stem}-{time}-{number}"),
            })
            .find(|name| !path.join(format!("{name}{COMPLETE}")).exists())
            .unwrap_or_default();
        let aside = path.join(format!(".{name}{PART}"));
        let file = self.with_room(|| create(&aside));
        let file = file.map_err(SampleError::write(&aside))?;
        Ok(Part {
            folder: self.clone(),
            file,
            aside: Some(aside),
            complete: path.join(format!("{name}{COMPLETE}")),
            bytes: 0,
        })
    }

    /// Removes the oldest files until all together have at most so many bytes.
    pub fn keep(&self, bytes: u64) -> io::Result<()> {
        let sizes: Vec<(PathBuf, u64)> = self
            .complete()?
            .into_iter()
            // A file that somebody took meanwhile is no error.
            .filter_map(|path| Some((fs::metadata(&path).ok()?.len(), path)))
            .map(|(size, path)| (path, size))
            .collect();
        let mut all: u64 = sizes.iter().map(|(_, size)| size).sum();
        for (path, size) in sizes {
            if all <= bytes {
                break;
            }
            self.remove(path)?;
            all -= size;
        }
        Ok(())
    }

    /// Tries this, and while it finds the disk full, again without the oldest file.
    fn with_room<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if is_full(&error) && self.remove_oldest()? => {}
                other => return other,
            }
        }
    }

    /// Removes the oldest complete file, if there is one.
    fn remove_oldest(&self) -> io::Result<bool> {
        match self.complete()?.into_iter().next() {
            Some(oldest) => self.remove(oldest).map(|()| true),
            None => Ok(false),
        }
    }

    fn remove(&self, path: PathBuf) -> io::Result<()> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let mut removed = self
                    .0
                    .removed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                removed.push(path);
                Ok(())
            }
        }
    }

    /// Files that were removed to make room, since the last call.
    pub fn removed(&self) -> Vec<PathBuf> {
        let mut removed = self
            .0
            .removed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *removed)
    }
}

/// A time as it is in the names of files: `20261123T190500.123456Z`.
fn time_in_name(time: SystemTime) -> String {
    let time = humantime::format_rfc3339_micros(time).to_string();
    time.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

/// A new file for packets, which are not for everybody.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o640);
    options.open(path)
}

/// Whether an error says that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), QuotaExceeded | StorageFull)
}

/// Whether this is the rest of a file's name behind host and interface: `-20261123T190500.123456Z…`.
fn is_time(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    bytes.len() > 10
        && bytes[0] == b'-'
        && bytes[1..9].iter().all(u8::is_ascii_digit)
        && bytes[9] == b'T'
}

/// A name without characters that are special in names of files.
fn plain(name: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
        true => c,
        false => '_',
    };
    name.chars().map(plain).collect()
}

/// A file that is not complete. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Part {
    folder: Folder,
    file: File,
    /// Its name until it is complete.
    aside: Option<PathBuf>,
    complete: PathBuf,
    bytes: u64,
}

impl Write for Part {
    /// Writes, and removes the oldest files if the disk is full.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { folder, file, .. } = self;
        let written = folder.with_room(|| file.write(bytes))?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Part {
    /// Bytes that were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The name that it will have.
    pub fn path(&self) -> &Path {
        &self.complete
    }

    /// Gives the file its name, when its bytes are on the disk.
    pub fn complete(mut self) -> io::Result<(PathBuf, u64)> {
        if let Err(error) = self.file.sync_all() {
            // The kernel gives up bytes that it could not write, and the next call would not tell that they are missing. So this
            // file is lost. There is room for the next one.
            if is_full(&error) {
                // What cannot be removed now is tried again by the next file.
                let _ = self.folder.remove_oldest();
            }
            return Err(error);
        }
        if let Some(aside) = &self.aside {
            self.folder
                .with_room(|| fs::rename(aside, &self.complete))?;
        }
        self.aside = None;
        File::open(self.folder.path())?.sync_all()?;
        Ok((self.complete.clone(), self.bytes))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            let _ = fs::remove_file(aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_a_link_empties_no_file() {
        let root = tempfile::tempdir().unwrap();
        let precious = root.path().join("precious");
        fs::write(&precious, "text").unwrap();
        let link = root.path().join(".web1-eth0.lock");
        std::os::unix::fs::symlink(&precious, link).unwrap();
        assert!(Folder::open(root.path(), "web1", "eth0").is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "text");
    }

    #[test]
    fn the_oldest_files_go_first_and_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path(), "web1", "eth0").unwrap();
        let mut files = Vec::new();
        for at in [3_000_000_000, 1_000_000_000, 2_000_000_000, 2_000_000_000] {
            let mut part = folder.begin(at).unwrap();
            part.write_all(&[0; 100]).unwrap();
            let (path, bytes) = part.complete().unwrap();
            assert_eq!(bytes, 100);
            files.push(path);
        }
        let others = [
            "web1-eth0.pcapng.zst",
            "web1-eth0-1-19700101T000000.000000Z.pcapng.zst",
            "notes",
        ];
        for name in others {
            fs::write(root.path().join(name), [0; 1000]).unwrap();
        }
        drop(folder.begin(4_000_000_000).unwrap());
        folder.keep(250).unwrap();
        assert_eq!(folder.removed(), [files[1].clone(), files[3].clone()]);
        assert!(folder.removed().is_empty());
        assert!(files[0].exists() && files[2].exists());
        assert!(others.iter().all(|name| root.path().join(name).exists()));
        assert_eq!(
            fs::read_dir(root.path()).unwrap().count(),
            2 + others.len() + 1
        );
    }

    #[test]
    fn files_of_a_clock_that_was_ahead_go_first() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path(), "web1", "eth0").unwrap();
        let ahead = SystemTime::now() + 2 * A_DAY;
        let ahead = ahead.duration_since(UNIX_EPOCH).unwrap().as_nanos() as Nanos;
        for at in [1, 2, ahead] {
            folder.begin(at).unwrap().complete().unwrap();
        }
        let first = folder.complete().unwrap()[0].clone();
        let name = format!(
            "web1-eth0-{}{COMPLETE}",
            time_in_name(UNIX_EPOCH + Duration::from_nanos(ahead))
        );
        assert_eq!(first, root.path().join(name));
    }

    #[test]
    fn what_finds_the_disk_full_is_tried_without_the_oldest_file_until_none_is_left() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path(), "web1", "eth0").unwrap();
        for at in 0..3 {
            folder.begin(at).unwrap().complete().unwrap();
        }
        let full = || Err::<(), _>(io::ErrorKind::StorageFull.into());
        let mut tries = 0;
        let second = folder.with_room(|| {
            tries += 1;
            if tries == 1 { full() } else { Ok(()) }
        });
        second.unwrap();
        assert_eq!(folder.removed().len(), 1);
        let wrong = folder.with_room(|| Err::<(), _>(io::ErrorKind::NotFound.into()));
        assert_eq!(wrong.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(folder.removed().is_empty());
        assert!(is_full(&folder.with_room(full).unwrap_err()));
        assert_eq!(folder.removed().len(), 2);
    }
}
