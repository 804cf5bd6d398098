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
use crate::entry::Held;
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
    /// It is in the dataset, or on its way into it.
    Known(Held),
    /// It is not: its rows go into the draft.
    New(Box<Draft<'a>>),
}

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
        let locked = File::create(&lock).map_err(Error::at(&lock))?;
        flock(&locked, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::Busy(root.to_owned()))?;
        if about.exists() {
            check(root, &staged::json(&about)?, settings)?;
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
        if let Err(held) = self.catalogue.reserve(&content) {
            return Ok(Claim::Known(held));
        }
        let draft = self.draft(content.id())?.of_files(content);
        Ok(Claim::New(Box::new(draft)))
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

fn check(root: &Path, about: &About, settings: &BTreeMap<String, String>) -> Result<(), Error> {
    if about.schema != VERSION {
        return Err(Error::Version {
            path: root.to_owned(),
            found: about.schema,
        });
    }
    let keys: BTreeSet<&String> = about.settings.keys().chain(settings.keys()).collect();
    let different = keys
        .into_iter()
        .filter(|key| about.settings.get(*key) != settings.get(*key));
    let different: Vec<&String> = different.collect();
    if !different.is_empty() {
        let words = |settings: &BTreeMap<String, String>| {
            let word = |key: &&String| match settings.get(*key) {
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
