//! Which captures are in a dataset, and which are on their way.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::content::{Content, Lengths, Piece};
use crate::entry::Entry;
use crate::error::Error;
use crate::staged::Places;

/// The captures of a dataset.
pub(crate) struct Catalogue {
    places: Places,
    known: Mutex<Known>,
}

/// What is in the dataset, and what is on its way.
#[derive(Default)]
struct Known {
    entries: HashMap<String, Entry>,
    /// The captures that a piece is of, by its length and hash.
    captures: HashMap<(u64, String), HashSet<String>>,
    lengths: Lengths,
    drafts: HashSet<String>,
}

impl Catalogue {
    pub(crate) fn read(places: Places) -> Result<Self, Error> {
        let mut known = Known::default();
        for entry in places.entries()? {
            known.add(entry);
        }
        Ok(Self {
            places,
            known: Mutex::new(known),
        })
    }

    pub(crate) fn captures(&self) -> usize {
        self.known().entries.len()
    }

    /// The lengths that a file with this head may have had when it was added before.
    pub(crate) fn lengths(&self, head: &str) -> Vec<u64> {
        self.known().lengths.of(head)
    }

    /// Reserves a capture, and names those that it replaces. Nothing, if it is known or on its way.
    pub(crate) fn reserve(&self, content: &Content) -> Option<Vec<String>> {
        let mut known = self.known();
        let free = !known.holds(content) && known.drafts.insert(content.id());
        free.then(|| known.contained_in(content))
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

    pub(crate) fn commit(&self, folder: &Path, entry: Entry) -> Result<(), Error> {
        self.places.commit(folder, &entry)?;
        self.known().add(entry);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn add(&mut self, entry: Entry) {
        for old in &entry.replaces {
            self.entries.remove(old);
        }
        for piece in &entry.pieces {
            self.lengths.add(piece);
            let key = (piece.bytes, piece.sha256.clone());
            self.captures
                .entry(key)
                .or_default()
                .insert(entry.id.clone());
        }
        self.entries.insert(entry.id.clone(), entry);
    }

    /// The captures that a piece is of.
    fn with<'a>(&'a self, key: &(u64, String)) -> impl Iterator<Item = &'a Entry> + 'a {
        let ids = self.captures.get(key).into_iter().flatten();
        ids.filter_map(|id| self.entries.get(id))
    }

    /// Whether one capture of the dataset has all the pieces.
    fn holds(&self, content: &Content) -> bool {
        let keys: Vec<_> = content
            .pieces
            .iter()
            .map(|piece| (piece.bytes, piece.sha256.clone()))
            .collect();
        let Some(first) = keys.first() else {
            return false;
        };
        let has = |entry: &Entry, key: &(u64, String)| {
            let same = |piece: &Piece| (piece.bytes, &piece.sha256) == (key.0, &key.1);
            entry.pieces.iter().any(same)
        };
        self.with(first)
            .any(|entry| keys.iter().all(|key| has(entry, key)))
    }

    /// The captures whose pieces are all in this one, or are beginnings of its pieces.
    fn contained_in(&self, content: &Content) -> Vec<String> {
        let mut keys = content.beginnings.clone();
        keys.extend(
            content
                .pieces
                .iter()
                .map(|piece| (piece.bytes, piece.sha256.clone())),
        );
        let inside = |entry: &&Entry| {
            let mut pieces = entry.pieces.iter();
            pieces.all(|piece| keys.contains(&(piece.bytes, piece.sha256.clone())))
        };
        let found = keys.iter().flat_map(|key| self.with(key)).filter(inside);
        let mut ids: Vec<String> = found.map(|entry| entry.id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
