//! The manifests near a file, which say whether it is a segment of adaptive video.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::adaptive::{Manifest, Segment};
use crate::server::disk::Wait;
use crate::server::files::{Folder, Identity, NoFile};

/// Folders above that of a segment where a manifest may be.
const LEVELS: usize = 4;
/// How long a folder's manifests hold before they are compared with the disk.
const FRESH: Duration = Duration::from_secs(1);
/// Folders whose manifests are remembered. When there are more, all are forgotten.
const MOST_FOLDERS: usize = 1_000;
/// Manifests of a folder.
const MOST_MANIFESTS: usize = 1_000;
/// Names of a folder that are looked at.
const MOST_NAMES: usize = 1_000_000;
/// Bytes of a manifest or playlist, and of all that belong to one manifest.
const MOST_TEXT: u64 = 4 << 20;
const MOST_TEXTS: u64 = 16 << 20;
/// Bytes that the manifests of a folder may need in memory, and those of all folders.
const MOST_IN_FOLDER: usize = 48 << 20;
const MOST_IN_ALL: usize = 64 << 20;

/// The manifests of all folders.
#[derive(Debug, Default)]
pub(super) struct Manifests(Mutex<HashMap<PathBuf, Near>>);

/// The manifests of a folder.
#[derive(Debug, Clone, Default)]
struct Near {
    shelf: Arc<Mutex<Shelf>>,
    weight: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    checked: Option<Instant>,
    /// The folder when its names were read.
    folder: Option<Identity>,
    manifests: Vec<Known>,
    /// There are more manifests than memory for them.
    is_full: bool,
}

/// A manifest, and the files that it was read from.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// The manifest and its playlists, each with what was there.
    sources: Vec<(PathBuf, Option<Identity>)>,
    /// `None` if it could not be read.
    manifest: Option<Manifest>,
}

/// A segment, and the manifest that knows it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::server) struct Found {
    pub manifest: PathBuf,
    pub segment: Segment,
}

impl Manifests {
    /// The segment that a path is. The first manifest that states a rate tells, the nearest folder first; otherwise the first one
    /// that knows how long the segment plays.
    ///
    /// # Errors
    /// `NotInMemory`, if the disk must be waited for.
    pub fn find(
        &self,
        folder: &Folder,
        path: &Path,
        length: u64,
        wait: Wait,
    ) -> Result<Option<Found>, NoFile> {
        let Some(name) = path.to_str() else {
            return Ok(None);
        };
        let mut unstated = None;
        for near in path.ancestors().skip(1).take(LEVELS) {
            let shelf = self.near(near);
            let mut shelf = match wait {
                // Who updates it holds it.
                Wait::Never => match shelf.try_lock() {
                    Ok(shelf) if shelf.is_fresh() => shelf,
                    _ => return Err(NoFile::NotInMemory),
                },
                Wait::ForDisk => lock(&shelf),
            };
            if wait == Wait::ForDisk && shelf.update(folder, near) {
                self.weigh(near, shelf.weight());
            }
            for known in &shelf.manifests {
                let segment = known
                    .manifest
                    .as_ref()
                    .and_then(|one| one.find(name, length));
                let Some(segment) = segment else {
                    continue;
                };
                let manifest = known.path.clone();
                let found = Found { manifest, segment };
                if found.segment.stated {
                    return Ok(Some(found));
                }
                unstated.get_or_insert(found);
            }
        }
        Ok(unstated)
    }

    fn near(&self, path: &Path) -> Arc<Mutex<Shelf>> {
        let mut all = lock(&self.0);
        if let Some(near) = all.get(path) {
            return Arc::clone(&near.shelf);
        }
        if all.len() >= MOST_FOLDERS {
            all.clear();
        }
        let near = all.entry(path.to_owned()).or_default();
        Arc::clone(&near.shelf)
    }

    /// Notes what a folder needs. When all need too much, all are forgotten.
    fn weigh(&self, path: &Path, weight: usize) {
        let mut all = lock(&self.0);
        if let Some(near) = all.get_mut(path) {
            near.weight = weight;
        }
        if all.values().map(|near| near.weight).sum::<usize>() > MOST_IN_ALL {
            all.clear();
        }
    }
}

impl Shelf {
    /// Whether the manifests were compared with the disk just now.
    fn is_fresh(&self) -> bool {
        self.checked.is_some_and(|at| at.elapsed() < FRESH)
    }

    /// Compares the manifests with the disk if that was not done just now. Returns whether a manifest was read.
    fn update(&mut self, folder: &Folder, path: &Path) -> bool {
        if self.is_fresh() {
            return false;
        }
        let identity = folder.identity(path);
        // A full shelf lacks manifests.
        let same = identity.is_some() && identity == self.folder && !self.is_full;
        let paths = match same {
            true => self
                .manifests
                .iter()
                .map(|known| known.path.clone())
                .collect(),
            false => named(folder, path),
        };
        let kept = std::mem::take(&mut self.manifests).into_iter();
        let mut kept: HashMap<_, _> = kept.map(|known| (known.path.clone(), known)).collect();
        (self.folder, self.is_full) = (identity, false);
        let (mut weight, mut changed) = (0, false);
        for path in paths {
            let old = kept.remove(&path);
            let known = match old.filter(|known| known.is_current(folder)) {
                Some(known) => known,
                None => {
                    changed = true;
                    Known::read(folder, path)
                }
            };
            weight += known.weight();
            if weight > MOST_IN_FOLDER {
                self.is_full = true;
                break;
            }
            self.manifests.push(known);
        }
        // Only now: what takes longer than a while to compare would never count as compared.
        self.checked = Some(Instant::now());
        changed
    }

    fn weight(&self) -> usize {
        self.manifests.iter().map(Known::weight).sum()
    }
}

impl Known {
    fn read(folder: &Folder, path: PathBuf) -> Self {
        let (mut sources, mut left) = (Vec::new(), MOST_TEXTS);
        let mut read = |path: &Path| {
            let (text, identity) = text(folder, path, left.min(MOST_TEXT)).unzip();
            sources.push((path.to_owned(), identity));
            left -= text.as_ref().map_or(0, |text: &Vec<u8>| text.len() as u64);
            text
        };
        let manifest = read(&path)
            .and_then(|text| Manifest::read(path.to_str()?, &text, |other| read(Path::new(other))));
        Self {
            path,
            sources,
            manifest,
        }
    }

    fn is_current(&self, folder: &Folder) -> bool {
        let mut sources = self.sources.iter();
        sources.all(|(path, identity)| folder.identity(path) == *identity)
    }

    fn weight(&self) -> usize {
        self.manifest.as_ref().map_or(0, Manifest::weight)
    }
}

/// The text of a file that is not longer than `most`.
fn text(folder: &Folder, path: &Path, most: u64) -> Option<(Vec<u8>, Identity)> {
    let file = folder.beneath(path, Wait::ForDisk).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > most {
        return None;
    }
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text).ok()?;
    Some((text, Identity::of(&metadata)))
}

/// The paths of a folder's manifests, in order.
fn named(folder: &Folder, path: &Path) -> Vec<PathBuf> {
    let entries = folder.beneath(path, Wait::ForDisk);
    let entries = entries.ok().map(rustix::fs::Dir::read_from);
    let Some(Ok(entries)) = entries else {
        return Vec::new();
    };
    let names = entries.filter_map(Result::ok).take(MOST_NAMES);
    let is_manifest = |name: &[u8]| {
        let text = std::str::from_utf8(name);
        name[0] != b'.' && text.is_ok_and(Manifest::is_named)
    };
    let mut paths: Vec<PathBuf> = names
        .map(|entry| entry.file_name().to_bytes().to_vec())
        .filter(|name| is_manifest(name))
        .take(MOST_MANIFESTS)
        .map(|name| path.join(OsString::from_vec(name)))
        .collect();
    paths.sort();
    paths
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
