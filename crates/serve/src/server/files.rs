//! The folder that is served: a request's path leads to an open file, and never out of the folder.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use prometheus_client::metrics::counter::Counter;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tidegate_limiter::Rate;

use super::conditional::Validators;
use super::disk::{self, Wait};
use super::mime;
use crate::media::Media;
use crate::percent;

mod manifests;
#[cfg(test)]
mod tests;
mod told;

pub(super) use manifests::Found;
use manifests::Manifests;
use told::Told;

/// Files whose rate is remembered. When there are more, all are forgotten.
const REMEMBERED: usize = 10_000;

/// The file of a folder that answers requests for the folder.
pub(super) const PAGE: &str = "index.html";

/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

/// A folder of videos.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    root: RwLock<OwnedFd>,
    /// The rate of videos that do not give one.
    rate: Option<Rate>,
    known: Mutex<HashMap<Identity, Option<Rate>>>,
    manifests: Manifests,
    /// Files with rates of which it was said that they have none.
    malformed: Told,
}

fn opened(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// One version of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

/// A file to be sent.
#[derive(Debug)]
pub(super) struct ServedFile {
    pub file: File,
    pub identity: Identity,
    pub length: u64,
    pub validators: Validators,
    /// The encoding rate; `None` is sent at full speed.
    pub rate: Option<Rate>,
    /// The segment of adaptive video that it is.
    pub segment: Option<Found>,
    /// Whether its name may be that of video or audio.
    pub may_be_media: bool,
}

/// The target of a path.
#[derive(Debug)]
pub(super) enum Target {
    File(Box<ServedFile>),
    /// A folder that has a page for this, [`PAGE`].
    Page(Box<ServedFile>),
    /// Any other folder, with the first names in it, and how many more there are: folders end in a slash.
    Folder(Vec<String>, usize),
}

/// Why a path leads to no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoFile {
    /// The target is not a path: 400.
    Bad,
    /// Nothing is there that may be served: 404.
    NotFound,
    /// It may not be read: 403.
    Forbidden,
    /// No more files can be open: 503.
    Busy,
    /// The disk failed: 500.
    Failed,
    /// The disk must be waited for to know it.
    NotInMemory,
}

impl Folder {
    /// Opens a folder; `rate` is for videos that do not give one.
    pub fn open(path: &Path, rate: Option<Rate>) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            root: RwLock::new(opened(path)?),
            rate,
            known: Mutex::default(),
            manifests: Manifests::default(),
            malformed: Told::default(),
        })
    }

    /// Opens what is at the folder's path now, for requests from now on: it may be a link that leads elsewhere than before.
    ///
    /// # Errors
    /// If it cannot be opened. The folder stays what it was.
    pub fn reopen(&self) -> io::Result<()> {
        let new = opened(&self.path)?;
        *self.root.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Opens the target of a request's path.
    pub fn find(&self, path: &Path, list: bool, wait: Wait) -> Result<Target, NoFile> {
        let file = self.beneath(path, wait)?;
        let metadata = file.metadata().map_err(|_| NoFile::Failed)?;
        if metadata.is_dir() {
            let page = path.join(PAGE);
            return match self.beneath(&page, wait).and_then(|file| {
                let metadata = file.metadata().map_err(|_| NoFile::Failed)?;
                self.served(&page, (file, &metadata), wait)
            }) {
                Ok(page) => Ok(Target::Page(Box::new(page))),
                Err(NoFile::NotFound) if list && wait == Wait::Never => Err(NoFile::NotInMemory),
                Err(NoFile::NotFound) if list => self.names(path),
                Err(missing) => Err(missing),
            };
        }
        self.served(path, (file, &metadata), wait)
            .map(|file| Target::File(Box::new(file)))
    }

    /// An open file as it is sent.
    fn served(
        &self,
        path: &Path,
        (file, metadata): (File, &Metadata),
        wait: Wait,
    ) -> Result<ServedFile, NoFile> {
        // No pipes, no devices.
        if !metadata.is_file() {
            return Err(NoFile::NotFound);
        }
        let identity = Identity::of(metadata);
        let may_be_media = mime::may_be_media(path);
        let mut segment = match may_be_media {
            true => self.manifests.find(self, path, metadata.len(), wait)?,
            false => None,
        };
        // The file beside it is read each time, so that it can be changed.
        let rate = match (self.beside(path, wait)?, &mut segment) {
            (Some(rate), segment) => {
                if let Some(found) = segment {
                    (found.segment.rate, found.segment.next) = (rate, rate);
                }
                Some(rate)
            }
            (None, Some(found)) => Some(found.segment.rate),
            (None, None) => self
                .probed(&file, identity, wait)?
                .or(self.rate.filter(|_| may_be_media)),
        };
        Ok(ServedFile {
            file,
            identity,
            length: metadata.len(),
            validators: identity.validators(),
            rate,
            segment,
            may_be_media,
        })
    }

    /// What is at a path now.
    fn identity(&self, path: &Path) -> Option<Identity> {
        let metadata = self.beneath(path, Wait::ForDisk).ok()?.metadata().ok()?;
        Some(Identity::of(&metadata))
    }

    /// Opens a path in the folder. The kernel ensures that no link leads out of it.
    fn beneath(&self, path: &Path, wait: Wait) -> Result<File, NoFile> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        // A pipe without a writer must not block the server.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let (inside, tries) = match wait {
            Wait::Never => (inside | ResolveFlags::CACHED, 1),
            Wait::ForDisk => (inside, 4),
        };
        let root = self.root.read().unwrap_or_else(PoisonError::into_inner);
        // EAGAIN: something was renamed meanwhile, or is not in memory (openat2(2)). EINVAL: before Linux 5.12.
        for _ in 0..tries {
            match rustix::fs::openat2(&*root, path, flags, Mode::empty(), inside) {
                Ok(file) => return Ok(file.into()),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::INVAL) if wait == Wait::Never => {}
                Err(Errno::ACCESS | Errno::PERM) => return Err(NoFile::Forbidden),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => return Err(NoFile::Busy),
                Err(Errno::IO | Errno::NOSYS) => return Err(NoFile::Failed),
                Err(_) => return Err(NoFile::NotFound),
            }
        }
        Err(match wait {
            Wait::Never => NoFile::NotInMemory,
            Wait::ForDisk => NoFile::NotFound,
        })
    }

    /// The names in a folder that can be requested, in order.
    fn names(&self, path: &Path) -> Result<Target, NoFile> {
        const MOST: usize = 10_000;
        let folder = self.beneath(path, Wait::ForDisk)?;
        let entries = rustix::fs::Dir::read_from(folder).map_err(|_| NoFile::Failed)?;
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let mut name = entry.file_name().to_str().ok()?.to_owned();
                if entry.file_type() == rustix::fs::FileType::Directory {
                    name.push('/');
                }
                (!name.starts_with('.')).then_some(name)
            })
            .collect();
        names.sort();
        let more = names.len().saturating_sub(MOST);
        names.truncate(MOST);
        Ok(Target::Folder(names, more))
    }

    /// The encoding rate that a video's headers give, which is remembered.
    fn probed(&self, file: &File, identity: Identity, wait: Wait) -> Result<Option<Rate>, NoFile> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rate) = known().get(&identity) {
            return Ok(*rate);
        }
        if wait == Wait::Never {
            return Err(NoFile::NotInMemory);
        }
        let rate = Media::probe(file).ok().map(|media| media.rate());
        let mut known = known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(identity, rate);
        Ok(rate)
    }

    /// The encoding rate in the file beside it, `NAME.rate`.
    fn beside(&self, path: &Path, wait: Wait) -> Result<Option<Rate>, NoFile> {
        const MOST: usize = 64;
        let mut name = path.as_os_str().to_owned();
        name.push(".rate");
        let file = match self.beneath(Path::new(&name), wait) {
            Ok(file) => file,
            Err(NoFile::NotInMemory) => return Err(NoFile::NotInMemory),
            Err(_) => return Ok(None),
        };
        let text = match wait {
            Wait::Never => disk::read_now(&file, 0, MOST).ok_or(NoFile::NotInMemory)?,
            Wait::ForDisk => {
                let mut text = Vec::new();
                if file.take(MOST as u64).read_to_end(&mut text).is_err() {
                    return Ok(None);
                }
                text.into()
            }
        };
        let text = String::from_utf8_lossy(&text);
        let rate = text.parse::<Rate>().ok();
        let rate = rate.filter(|rate| rate.bits_per_second() > 0);
        if rate.is_none() && self.malformed.is_first(Path::new(&name)) {
            let (name, text) = (Path::new(&name).display(), text.trim().escape_debug());
            tracing::warn!("/{name}: '{text}' is not a rate, write 1.5mbit");
        }
        Ok(rate)
    }

    /// How many folders have more manifests than are remembered.
    pub fn overfull(&self) -> &Counter {
        &self.manifests.overfull
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// The time of the change counts nanoseconds, so that the tag is strong if the file system's clock counts them too.
    /// Copies of a file that keep this time have the same tag, so that several servers agree.
    fn validators(&self) -> Validators {
        let (seconds, nanos) = self.modified;
        // Dates of HTTP have four digits for the year. Later times are written as the last one.
        let since = Duration::from_secs(seconds.clamp(0, LAST_SECOND).unsigned_abs());
        Validators {
            etag: format!("\"{seconds:x}.{nanos:x}-{:x}\"", self.length),
            modified: SystemTime::UNIX_EPOCH + since,
        }
    }
}

/// The path in the folder that a request's target names: decoded, without parts that lead up or are hidden.
pub(super) fn path_of(target: &str) -> Result<PathBuf, NoFile> {
    let encoded = target.strip_prefix('/').ok_or(NoFile::Bad)?;
    let mut path = PathBuf::new();
    for part in encoded.split('/') {
        let part = percent::decoded(part).ok_or(NoFile::Bad)?;
        if part.contains(&b'/') || part.contains(&0) {
            return Err(NoFile::Bad);
        }
        if part.is_empty() {
            continue;
        }
        // Hidden files, and `.` and `..`.
        if part[0] == b'.' {
            return Err(NoFile::NotFound);
        }
        path.push(OsString::from_vec(part));
    }
    let inside = |part| matches!(part, Component::Normal(_));
    if path.components().all(inside) {
        Ok(path)
    } else {
        Err(NoFile::NotFound)
    }
}
