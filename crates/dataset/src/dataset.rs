//! The dataset as a folder, and how a capture is added to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tidegate_table::{Column, Row};
use tidegate_trace::rows::SegmentRow;

use crate::catalogue::Catalogue;
use crate::content::{self, Content};
use crate::draft::Draft;
use crate::entry::{Held, Overlap, Refused};
use crate::error::{Error, VERSION};
use crate::origin::Origin;
use crate::staged::{self, Places};

/// A dataset that this process may write.
pub struct Dataset {
    catalogue: Catalogue,
    /// Its lock keeps other writers out.
    _lock: File,
}

/// Whether a capture is to be analysed.
pub enum Claim<'a> {
    /// It is in the dataset.
    Known(Held),
    /// It is on its way into the dataset, under this name. Claim it again when it [is no longer](Dataset::is_drafted): then it is
    /// known, or was given up.
    Drafted(String),
    /// Some of its pieces are in the dataset, as pieces of a capture that has others too.
    Overlaps(Overlap),
    /// It is not: its rows go into the draft.
    New(Box<Draft<'a>>),
}

/// Settings that earlier programs did not record, and what they were unless the user changed them.
const UNRECORDED: [(&str, &str); 1] = [("--max-flows", "500000")];

/// What `dataset.json` holds.
#[derive(Serialize, Deserialize)]
struct About {
    schema: u32,
    settings: BTreeMap<String, String>,
    columns: Vec<AboutColumn>,
}

/// What `dataset.json` says of a column.
#[derive(Serialize, Deserialize)]
struct AboutColumn {
    name: String,
    unit: String,
    meaning: String,
}

impl Dataset {
    /// Opens a dataset, or begins one in a folder that is empty or not there. Finishes what an earlier process
    /// committed. All captures of a dataset are analysed with the same `settings`.
    ///
    /// # Errors
    /// The folder cannot be written, another process writes it, or it holds something else: another schema,
    /// other settings, no dataset.
    pub fn open(root: &Path, settings: &BTreeMap<String, String>) -> Result<Self, Error> {
        let places = Places::new(root);
        let about = root.join("dataset.json");
        let lock = root.join("lock");
        let mut present = match fs::read_dir(root) {
            Ok(list) => list.flatten().map(|entry| entry.file_name()).collect(),
            Err(_) => Vec::new(),
        };
        // A process that was killed at the very beginning leaves these.
        present.retain(|name| name != "lock" && name != "dataset.new");
        if !present.is_empty() && !about.exists() {
            return Err(Error::NotADataset(root.to_owned()));
        }
        staged::folder(root)?;
        let locked = staged::lock(&lock).map_err(Error::at(&lock))?;
        flock(&locked, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::Busy(root.to_owned()))?;
        if about.exists() {
            check(root, &described(&about)?, settings)?;
        }
        // Columns that came since the dataset was begun are described too.
        let text = serde_json::to_vec_pretty(&About::new(settings));
        let text = text.map_err(|error| Error::at(&about)(error.into()))?;
        if fs::read(&about).ok().as_deref() != Some(&text) {
            staged::whole(&about, &text)?;
        }
        for folder in [&places.captures, &places.segments, &places.staged] {
            staged::folder(folder)?;
        }
        places.recover()?;
        Ok(Self {
            catalogue: Catalogue::read(places)?,
            _lock: locked,
        })
    }

    /// How many captures are in the dataset.
    pub fn captures(&self) -> usize {
        self.catalogue.captures()
    }

    /// Reads the files of a capture through, in their order, to find out whether it is known.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn identify<R: Read>(
        &self,
        files: impl IntoIterator<Item = (impl AsRef<str>, R)>,
    ) -> std::io::Result<Content> {
        let mut content = Content {
            pieces: Vec::new(),
            beginnings: Default::default(),
            compared: Default::default(),
        };
        for (name, file) in files {
            let lengths = |head: &str| {
                let lengths = self.catalogue.lengths(head);
                content.compared.extend(&lengths);
                lengths
            };
            let (piece, beginnings) = content::read(name.as_ref(), file, lengths)?;
            content.pieces.push(piece);
            content.beginnings.extend(beginnings);
        }
        Ok(content)
    }

    /// Begins to add a capture, unless the dataset holds it, or a capture that begins like it. Captures that it contains,
    /// since its files have grown or more files belong to it, will be replaced.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn claim(&self, content: Content) -> Result<Claim<'_>, Error> {
        Ok(match self.catalogue.reserve(&content) {
            Ok(()) => Claim::New(Box::new(self.draft(content.id())?.of_files(content))),
            Err(Refused::Known(held)) => Claim::Known(held),
            Err(Refused::Drafted) => Claim::Drafted(content.id()),
            Err(Refused::Overlaps(overlap)) => Claim::Overlaps(overlap),
        })
    }

    /// Whether a capture is on its way into the dataset.
    pub fn is_drafted(&self, capture: &str) -> bool {
        self.catalogue.is_drafted(capture)
    }

    /// Moves captures to their places that are committed, but could not be moved then ([`Error::Unplaced`]). Each commit tries
    /// it too.
    ///
    /// # Errors
    /// They still cannot be moved.
    pub fn place(&self) -> Result<(), Error> {
        self.catalogue.place_rest()
    }

    /// Removes the oldest rows that are of no file, such as those of [live](Self::live) traffic, until all such take so many bytes at
    /// most. The latest ones stay in any case. Returns of how many captures they were.
    ///
    /// # Errors
    /// Some cannot be removed.
    pub fn keep(&self, most: u64) -> Result<u64, Error> {
        self.catalogue.keep(most)
    }

    /// Begins to add rows that are of no file, such as those of a period of live traffic. The name says what they are of. It
    /// should be used once. If it was used before, a number is added.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn live(&self, name: &str) -> Result<Draft<'_>, Error> {
        let mut unique = name.to_owned();
        let mut number = 1;
        while !self.catalogue.reserve_live(&content::name_id(&unique)) {
            number += 1;
            unique = format!("{name}, {number}");
        }
        Ok(self.draft(content::name_id(&unique))?.of_live(&unique))
    }

    fn draft(&self, capture: String) -> Result<Draft<'_>, Error> {
        Draft::new(&self.catalogue, capture.clone())
            .inspect_err(|_| self.catalogue.release(&capture))
    }
}

impl About {
    fn new(settings: &BTreeMap<String, String>) -> Self {
        fn columns<R: Row>() -> impl Iterator<Item = AboutColumn> {
            let about = |column: &Column<R>| AboutColumn {
                name: column.name.to_owned(),
                unit: column.unit.to_owned(),
                meaning: column.doc.to_owned(),
            };
            R::columns().iter().map(about)
        }
        Self {
            schema: VERSION,
            settings: settings.clone(),
            columns: columns::<SegmentRow>().chain(columns::<Origin>()).collect(),
        }
    }
}

/// What `dataset.json` says.
fn described(path: &Path) -> Result<About, Error> {
    staged::json(path).map_err(|error| match error {
        Error::Damaged { path, reason } => {
            let reason = format!(
                "this description of the dataset is damaged ({reason}): put the dataset.json of a dataset with the same settings in \
                 its place. The same options make one when they add any capture to a new folder"
            );
            Error::Damaged { path, reason }
        }
        other => other,
    })
}

fn check(root: &Path, about: &About, settings: &BTreeMap<String, String>) -> Result<(), Error> {
    if about.schema != VERSION {
        return Err(Error::Version {
            path: root.to_owned(),
            found: about.schema,
        });
    }
    let keys: BTreeSet<&String> = about.settings.keys().chain(settings.keys()).collect();
    let value = |settings: &BTreeMap<String, String>, key: &str| {
        let unrecorded = UNRECORDED.iter().find(|(name, _)| *name == key);
        let unrecorded = || unrecorded.map(|(_, value)| (*value).to_owned());
        settings.get(key).cloned().or_else(unrecorded)
    };
    let different = keys
        .into_iter()
        .filter(|key| value(&about.settings, key) != value(settings, key));
    let different: Vec<&String> = different.collect();
    if !different.is_empty() {
        let words = |settings: &BTreeMap<String, String>| {
            let word = |key: &&String| match value(settings, key) {
                Some(value) => format!("{key} = {value}"),
                None => format!("no {key}"),
            };
            different.iter().map(word).collect::<Vec<_>>().join(", ")
        };
        return Err(Error::Settings {
            path: root.to_owned(),
            found: words(&about.settings),
            wanted: words(settings),
        });
    }
    Ok(())
}
