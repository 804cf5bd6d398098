//! The manifests near a file, which say whether it is a segment of adaptive video.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;

use super::told::Told;
use crate::adaptive::{Manifest, Segment};
use crate::server::disk::Wait;
use crate::server::files::{Folder, Identity, NoFile};

#[cfg(test)]
mod tests;

/// Folders above that of a segment where a manifest may be.
const LEVELS: usize = 4;
/// How long a folder's manifests hold before they are compared with the disk.
const FRESH: Duration = Duration::from_secs(1);
/// Folders whose manifests are remembered. When there are more, the one that was used longest ago is forgotten.
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
pub(super) struct Manifests {
    shelves: Mutex<Shelves>,
    /// Folders of which it was said that some of their manifests are left out.
    told: Told,
    /// How many they are.
    pub overfull: Counter,
}

/// Folders, and when each of them was used.
#[derive(Debug, Default)]
struct Shelves {
    near: HashMap<PathBuf, Near>,
    /// Counts uses.
    now: u64,
}

/// The manifests of a folder.
#[derive(Debug, Default)]
struct Near {
    shelf: Arc<Mutex<Shelf>>,
    weight: usize,
    used: u64,
}

#[derive(Debug, Default)]
struct Shelf {
    checked: Option<Instant>,
    /// The folder when its names were read.
    folder: Option<Identity>,
    manifests: Vec<Known>,
    /// There are more manifests than memory for them.
    is_full: bool,
    /// There are more manifests than are looked at.
    is_cut: bool,
}

/// A manifest, and the files that it was read from.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// The manifest and its playlists, each with what was there.
    sources: Vec<(PathBuf, Option<Identity>)>,
    /// `None` if it could not be read, or is not needed.
    manifest: Option<Manifest>,
    /// Another manifest of the folder knows all of its segments.
    is_covered: bool,
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
                lock(&self.shelves).weigh(near, shelf.weight());
            }
            if shelf.is_full || shelf.is_cut {
                self.tell(near);
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
        lock(&self.shelves).near(path)
    }

    /// Says once of a folder that some of its manifests are left out.
    fn tell(&self, path: &Path) {
        if !self.told.is_first(path) {
            return;
        }
        self.overfull.inc();
        tracing::warn!(
            "/{}: this folder has more than {MOST_MANIFESTS} manifests, or they need more than {} MiB of memory. The segments of the \
             others are not paced by them: put the videos into several folders",
            path.display(),
            MOST_IN_FOLDER >> 20
        );
    }
}

impl Shelves {
    fn near(&mut self, path: &Path) -> Arc<Mutex<Shelf>> {
        self.now += 1;
        if !self.near.contains_key(path) {
            if self.near.len() >= MOST_FOLDERS {
                self.forget(|_| true);
            }
            self.near.insert(path.to_owned(), Near::default());
        }
        let near = self.near.get_mut(path);
        near.map(|near| {
            near.used = self.now;
            Arc::clone(&near.shelf)
        })
        .unwrap_or_default()
    }

    /// Notes what a folder needs. When all need too much, those that were used longest ago are forgotten.
    fn weigh(&mut self, path: &Path, weight: usize) {
        if let Some(near) = self.near.get_mut(path) {
            near.weight = weight;
        }
        let mut all: usize = self.near.values().map(|near| near.weight).sum();
        while all > MOST_IN_ALL
            && let Some(less) = self.forget(|near| near.weight > 0)
        {
            all -= less;
        }
    }

    /// Forgets the folder of those that was used longest ago. Returns what it needed.
    fn forget(&mut self, of: impl Fn(&Near) -> bool) -> Option<usize> {
        let all = self.near.iter().filter(|(_, near)| of(near));
        let (path, _) = all.min_by_key(|(_, near)| near.used)?;
        let path = path.clone();
        self.near.remove(&path).map(|near| near.weight)
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
            false => {
                let mut paths = named(folder, path);
                self.is_cut = paths.len() > MOST_MANIFESTS;
                paths.truncate(MOST_MANIFESTS);
                paths
            }
        };
        let kept = std::mem::take(&mut self.manifests).into_iter();
        let mut kept: HashMap<_, _> = kept.map(|known| (known.path.clone(), known)).collect();
        (self.folder, self.is_full) = (identity, false);
        // Playlists of which another manifest knows all segments.
        let mut covered = HashSet::new();
        let (mut unread, mut unneeded) = (Vec::new(), Vec::new());
        for path in paths {
            match kept.remove(&path) {
                Some(known) if known.is_covered => unneeded.push(path),
                Some(known) if known.is_current(folder) => self.add(known, &mut covered),
                _ => unread.push(path),
            }
        }
        let mut changed = false;
        // What was not needed is again if no manifest names it any more.
        for path in unread.into_iter().chain(unneeded) {
            let known = match covered.contains(&path) {
                true => Known::covered(path),
                false => {
                    changed = true;
                    Known::read(folder, path)
                }
            };
            self.add(known, &mut covered);
            if self.weight() > MOST_IN_FOLDER {
                self.manifests.pop();
                self.is_full = true;
                break;
            }
        }
        self.manifests.sort_by(|a, b| a.path.cmp(&b.path));
        // Only now: what takes longer than a while to compare would never count as compared.
        self.checked = Some(Instant::now());
        changed
    }

    /// Adds a manifest. The playlists that it covers are not kept for themselves.
    fn add(&mut self, known: Known, covered: &mut HashSet<PathBuf>) {
        let names = known.manifest.iter().flat_map(Manifest::playlists);
        let before = covered.len();
        covered.extend(names.map(PathBuf::from));
        self.manifests.push(known);
        if covered.len() > before {
            let all = self.manifests.iter_mut();
            for known in all.filter(|known| covered.contains(&known.path)) {
                *known = Known::covered(std::mem::take(&mut known.path));
            }
        }
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
            is_covered: false,
        }
    }

    /// A playlist that is not needed, because another manifest knows all of its segments.
    fn covered(path: PathBuf) -> Self {
        Self {
            path,
            sources: Vec::new(),
            manifest: None,
            is_covered: true,
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

/// The paths of a folder's manifests, in order. There may be more than are looked at.
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
        .map(|name| path.join(OsString::from_vec(name)))
        .collect();
    paths.sort();
    paths
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
