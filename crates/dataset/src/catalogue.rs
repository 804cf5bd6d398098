//! Which captures are in a dataset, and which are on their way.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::content::{Content, Lengths, Piece};
use crate::entry::{Entry, Held, Overlap, Refused};
use crate::error::Error;
use crate::staged::Places;

/// The captures of a dataset.
pub(crate) struct Catalogue {
    places: Places,
    known: Mutex<Known>,
    /// Captures are committed one after the other: each one sees those before it. These are committed, and could not be moved to
    /// their places yet.
    commits: Mutex<VecDeque<(PathBuf, Entry)>>,
}

/// What is in the dataset, and what is on its way.
#[derive(Default)]
struct Known {
    entries: HashMap<String, Entry>,
    /// The captures that a piece is of, by its length and hash.
    captures: HashMap<(u64, String), HashSet<String>>,
    /// The captures that have a piece with this head.
    heads: HashMap<String, HashSet<String>>,
    lengths: Lengths,
    /// Those whose files are not all there, because somebody removed some.
    lost: HashSet<String>,
    drafts: HashSet<String>,
    /// Of rows that are of no file: when they came to their places, and their bytes. Those that were asked for.
    sizes: HashMap<String, (SystemTime, u64)>,
}

impl Catalogue {
    pub(crate) fn read(places: Places) -> Result<Self, Error> {
        let mut known = Known::default();
        for entry in places.entries()? {
            let lost = !entry.pieces.is_empty() && !places.has_files(&entry);
            let id = entry.id.clone();
            known.add(entry);
            if lost {
                known.lost.insert(id);
            }
        }
        Ok(Self {
            places,
            known: Mutex::new(known),
            commits: Mutex::default(),
        })
    }

    pub(crate) fn captures(&self) -> usize {
        self.known().entries.len()
    }

    /// The lengths that a file with this head may have had when it was added before.
    pub(crate) fn lengths(&self, head: &str) -> BTreeSet<u64> {
        self.known().lengths.of(head)
    }

    /// Reserves a capture, unless it is in the dataset, whole or in part, or on its way.
    pub(crate) fn reserve(&self, content: &Content) -> Result<(), Refused> {
        let mut known = self.known();
        if let Some(held) = known.holds(content) {
            return Err(Refused::Known(held));
        }
        if let Some(overlap) = known.overlaps(content) {
            return Err(Refused::Overlaps(overlap));
        }
        match known.drafts.insert(content.id()) {
            true => Ok(()),
            false => Err(Refused::Drafted),
        }
    }

    pub(crate) fn is_drafted(&self, capture: &str) -> bool {
        self.known().drafts.contains(capture)
    }

    /// Reserves rows that are of no file. Not, if there are rows of this name.
    pub(crate) fn reserve_live(&self, capture: &str) -> bool {
        let mut known = self.known();
        !known.entries.contains_key(capture) && known.drafts.insert(capture.to_owned())
    }

    /// Gives up what was reserved.
    pub(crate) fn release(&self, capture: &str) {
        self.known().drafts.remove(capture);
    }

    /// Where the files of a capture are while it is analysed.
    pub(crate) fn folder(&self, capture: &str) -> PathBuf {
        self.places.staged.join(capture)
    }

    /// Commits a capture, unless one that holds it was committed meanwhile: then it says which.
    pub(crate) fn commit(
        &self,
        folder: &Path,
        mut entry: Entry,
        content: Option<Content>,
    ) -> Result<Option<Held>, Error> {
        let mut commits = self.commits();
        if let Some(content) = content {
            let known = self.known();
            if let Some(held) = known.holds(&content) {
                return Ok(Some(held));
            }
            entry.replaces = known.contained_in(&content);
            entry.pieces = content.pieces;
        }
        let committed = self.places.commit(folder, &entry)?;
        self.known().add(entry.clone());
        commits.push_back((committed, entry));
        self.place(&mut commits).map(|()| None)
    }

    /// Moves to their places what was committed and could not be moved then.
    pub(crate) fn place_rest(&self) -> Result<(), Error> {
        self.place(&mut self.commits())
    }

    /// In their order: one may replace another.
    fn place(&self, commits: &mut VecDeque<(PathBuf, Entry)>) -> Result<(), Error> {
        while let Some((committed, entry)) = commits.front() {
            let placed = self.places.place(committed, entry);
            placed.map_err(|error| Error::Unplaced(Box::new(error)))?;
            commits.pop_front();
        }
        Ok(())
    }

    /// Removes the oldest rows that are of no file, until all such take so many bytes at most. Those of the latest capture stay.
    /// Returns of how many captures they were.
    pub(crate) fn keep(&self, most: u64) -> Result<u64, Error> {
        let commits = self.commits();
        // Of rows that are not at their places, nothing is known yet.
        if !commits.is_empty() {
            return Ok(0);
        }
        let mut known = self.known();
        let mut oldest = known.live(&self.places)?;
        let mut bytes: u64 = oldest.iter().map(|old| old.bytes).sum();
        oldest.sort_unstable();
        oldest.pop();
        let mut removed = 0;
        for old in oldest {
            if bytes <= most {
                break;
            }
            if let Some(entry) = known.entries.get(&old.id) {
                self.places.remove(entry)?;
            }
            known.entries.remove(&old.id);
            known.sizes.remove(&old.id);
            bytes -= old.bytes;
            removed += 1;
        }
        Ok(removed)
    }

    fn commits(&self) -> MutexGuard<'_, VecDeque<(PathBuf, Entry)>> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rows that are of no file, in the order in which they are removed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Live {
    /// The first hour of which there are rows.
    hour: Option<String>,
    came: SystemTime,
    id: String,
    bytes: u64,
}

impl Known {
    /// All rows that are of no file.
    fn live(&mut self, places: &Places) -> Result<Vec<Live>, Error> {
        let mut found = Vec::new();
        for (id, entry) in &self.entries {
            if entry.live.is_none() {
                continue;
            }
            let (came, bytes) = match self.sizes.get(id) {
                Some(size) => *size,
                None => places.size(entry)?,
            };
            self.sizes.insert(id.clone(), (came, bytes));
            found.push(Live {
                hour: entry.partitions.iter().min().cloned(),
                came,
                id: id.clone(),
                bytes,
            });
        }
        Ok(found)
    }

    fn add(&mut self, entry: Entry) {
        for old in &entry.replaces {
            self.entries.remove(old);
        }
        self.lost.remove(&entry.id);
        for piece in &entry.pieces {
            self.lengths.add(piece);
            let id = || entry.id.clone();
            self.captures.entry(piece.key()).or_default().insert(id());
            let head = self.heads.entry(piece.head.clone());
            head.or_default().insert(id());
        }
        self.entries.insert(entry.id.clone(), entry);
    }

    fn entries<'a>(
        &'a self,
        ids: Option<&'a HashSet<String>>,
    ) -> impl Iterator<Item = &'a Entry> + 'a {
        let ids = ids.into_iter().flatten();
        ids.filter_map(|id| self.entries.get(id))
    }

    /// The captures that have a piece with this head.
    fn begun_like<'a>(&'a self, piece: &Piece) -> impl Iterator<Item = &'a Entry> + 'a {
        self.entries(self.heads.get(&piece.head))
    }

    /// A capture of the dataset that has all the pieces, or pieces that begin like them. Not one whose files are lost, if the
    /// pieces are all of it: it can be added again.
    fn holds(&self, content: &Content) -> Option<Held> {
        let same = |a: &Piece, b: &Piece| (a.bytes, &a.sha256) == (b.bytes, &b.sha256);
        let has = |entry: &Entry, piece: &Piece| {
            let mut pieces = entry.pieces.iter();
            pieces.any(|its| same(piece, its) || piece.is_beginning_of(its))
        };
        let pieces = &content.pieces;
        let mut entries = self.begun_like(pieces.first()?);
        let restores = |entry: &Entry| {
            self.lost.contains(&entry.id) && entry.pieces.iter().all(|piece| content.has(piece))
        };
        let entry = entries
            .find(|entry| pieces.iter().all(|piece| has(entry, piece)) && !restores(entry))?;
        let whole = |piece: &Piece| entry.pieces.iter().any(|its| same(piece, its));
        let cut = pieces.iter().find(|piece| !whole(piece));
        let longer = cut.and_then(|cut| {
            let mut pieces = entry.pieces.iter();
            pieces.find(|its| cut.is_beginning_of(its))
        });
        Some(Held {
            problems: entry.report.problems.clone(),
            longer: longer.map(|piece| piece.name.clone()),
            given: entry.report.given.clone(),
        })
    }

    /// A capture of the dataset that has some of the pieces, or beginnings of them, and others that are not here.
    fn overlaps(&self, content: &Content) -> Option<Overlap> {
        let replaced = self.contained_in(content);
        for piece in content.pieces.iter().filter(|piece| !piece.is_short()) {
            let common = |entry: &&Entry| {
                let mut pieces = entry.pieces.iter().filter(|its| !its.is_short());
                !replaced.contains(&entry.id)
                    && pieces.any(|its| {
                        (its.head == piece.head && content.has(its)) || piece.is_beginning_of(its)
                    })
            };
            if let Some(entry) = self.begun_like(piece).find(common) {
                return Some(Overlap {
                    piece: piece.name.clone(),
                    other: entry.pieces.iter().map(|its| its.name.clone()).collect(),
                });
            }
        }
        None
    }

    /// The captures whose pieces are all in this one, or are beginnings of its pieces.
    fn contained_in(&self, content: &Content) -> Vec<String> {
        let mut keys = content.beginnings.clone();
        keys.extend(content.pieces.iter().map(Piece::key));
        let inside = |entry: &&Entry| {
            // Any capture may begin with a header that no packet follows.
            let is_header = entry.rows == 0
                && entry.report.packets == 0
                && entry.pieces.iter().all(Piece::is_short);
            !is_header && entry.pieces.iter().all(|piece| content.has(piece))
        };
        let found = keys.iter().map(|key| self.captures.get(key));
        let found = found.flat_map(|ids| self.entries(ids));
        let like = content
            .pieces
            .iter()
            .flat_map(|piece| self.begun_like(piece));
        let mut ids: Vec<String> = found
            .chain(like)
            .filter(inside)
            .map(|entry| entry.id.clone())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
