//! The files of the state: `state.json` is the whole state, `journal` has the live changes since,
//! `next.json` is the state that a running change leads to, and `undo.json` is a change that is being
//! undone. Each is written before the data path is touched. So it is known at any time what may
//! have been done to the data path, and it is done again after a crash.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::GateError;
use crate::limits::Limits;
use crate::state::{GateState, Member};

pub(super) const STATE: &str = "state.json";
pub(super) const NEXT: &str = "next.json";
pub(super) const UNDO: &str = "undo.json";
pub(super) const JOURNAL: &str = "journal";
const LOCK: &str = "lock";

/// One line of the journal: subscribers as they are from now on, and the plans that they need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Serial of the state that it belongs to.
    pub serial: u64,
    pub name: String,
    pub member: Member,
    /// Those that lose addresses to it, or get them from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<(String, Member)>,
    pub plans: Vec<(u32, Limits)>,
}

/// A change that failed: the data path may be anywhere between the two states.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Undo {
    /// The state that the change led to.
    pub from: GateState,
    /// The state to return to.
    pub to: GateState,
}

/// The content of the files.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// The state as it was written whole.
    pub written: Option<GateState>,
    /// The state with the journal.
    pub current: Option<GateState>,
    /// Number of lines of the journal.
    pub entries: usize,
    /// Bytes of these lines. Later bytes were not begun, or belong to an older state.
    pub length: u64,
    /// The state that an unfinished change led to.
    pub next: Option<GateState>,
    /// A change that failed and was not undone. It takes precedence over the others.
    pub undo: Option<Undo>,
}

impl Loaded {
    /// The state that the gate is in or will be in.
    pub fn known(&self) -> Option<&GateState> {
        let undo = self.undo.as_ref().map(|undo| &undo.to);
        undo.or(self.next.as_ref()).or(self.current.as_ref())
    }
}

/// The state folder, locked as long as this lives.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    lock: File,
    journal: Option<File>,
}

impl Drop for Store {
    /// Closing the file is not enough: a child that another thread has just forked holds it too, until it runs its program.
    fn drop(&mut self) {
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Store {
    /// Locks the folder, and creates it if necessary.
    pub fn open(folder: &Path) -> Result<Self, GateError> {
        let failed = |source| GateError::State {
            path: folder.to_owned(),
            source,
        };
        if !folder.is_dir() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(folder).map_err(failed)?;
        }
        // Other users who could write there could set any limits, or redirect our files by links.
        let metadata = folder.metadata().map_err(failed)?;
        check_owner(metadata.uid(), rustix::process::geteuid().as_raw()).map_err(failed)?;
        if metadata.mode() & 0o022 != 0 {
            let message = "other users may write in this folder: run `chmod 700` on it, or choose another folder";
            return Err(failed(io::Error::other(message)));
        }
        let path = folder.join(LOCK);
        // The last holder may have removed the file just now. Then this file is not the one that other
        // processes see.
        for _ in 0..8 {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut lock = private(&mut options).open(&path).map_err(failed)?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = (&mut lock).take(20).read_to_string(&mut holder);
                    return Err(GateError::Busy {
                        folder: folder.to_owned(),
                        process: holder.trim().parse().ok(),
                    });
                }
                Err(error) => return Err(failed(error.into())),
            }
            let locked = lock.metadata().map_err(failed)?;
            let seen = fs::metadata(&path);
            if seen.is_ok_and(|seen| (seen.dev(), seen.ino()) == (locked.dev(), locked.ino())) {
                lock.set_len(0).map_err(failed)?;
                writeln!(lock, "{}", std::process::id()).map_err(failed)?;
                return Ok(Self {
                    folder: folder.to_owned(),
                    lock,
                    journal: None,
                });
            }
        }
        Err(failed(io::Error::other(
            "the lock file is removed again and again by other processes: try again later",
        )))
    }

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the files.
    pub fn load(&self) -> Result<Loaded, GateError> {
        load(&self.folder)
    }

    /// Writes the state that a change leads to, before the change is made.
    pub fn begin(&mut self, next: &GateState) -> Result<(), GateError> {
        self.write(NEXT, next)
    }

    /// Writes that a change failed, before it is undone.
    pub fn begin_undo(&mut self, undo: &Undo) -> Result<(), GateError> {
        self.write(UNDO, undo)
    }

    /// The change is undone: the state to return to is the state now. May be done twice.
    pub fn commit_undo(&mut self, undo: &Undo) -> Result<(), GateError> {
        self.write(STATE, &undo.to)?;
        self.journal = None;
        remove(&self.folder.join(NEXT))?;
        remove(&self.folder.join(JOURNAL))?;
        // The change must be removed from the disk before `undo.json` is.
        self.sync().map_err(|source| GateError::State {
            path: self.folder.clone(),
            source,
        })?;
        remove(&self.folder.join(UNDO))
    }

    /// The change is made: its state is the state now.
    pub fn commit(&mut self) -> Result<(), GateError> {
        let to = self.folder.join(STATE);
        let renamed = fs::rename(self.folder.join(NEXT), &to);
        renamed
            .and_then(|()| self.sync())
            .map_err(|source| GateError::State { path: to, source })?;
        // The journal belongs to an older serial now.
        self.journal = None;
        remove(&self.folder.join(JOURNAL))
    }

    /// Writes a line of the journal, before the data path is changed.
    pub fn append(&mut self, entry: &Entry) -> Result<(), GateError> {
        let path = self.folder.join(JOURNAL);
        let failed = |source| GateError::State {
            path: path.clone(),
            source,
        };
        let mut line = serde_json::to_vec(entry).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        if self.journal.is_none() {
            let mut options = OpenOptions::new();
            let file = private(options.append(true).create(true)).open(&path);
            self.journal = Some(file.map_err(failed)?);
        }
        let Some(file) = &mut self.journal else {
            return Ok(());
        };
        let before = file.metadata().map_err(failed)?.len();
        let written = file.write_all(&line).and_then(|()| file.sync_data());
        written.map_err(|error| {
            // A partial line would hide those that follow.
            let _ = file.set_len(before);
            failed(error)
        })
    }

    /// Cuts off the bytes after the journal's complete lines: they would hide later lines.
    pub fn trim(&mut self, length: u64) -> Result<(), GateError> {
        let path = self.folder.join(JOURNAL);
        let file = match private(OpenOptions::new().write(true)).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other,
        };
        file.and_then(|file| file.set_len(length).and_then(|()| file.sync_all()))
            .map_err(|source| GateError::State { path, source })
    }

    /// Removes the files, and the folder if it is empty then.
    pub fn clear(&mut self) -> Result<(), GateError> {
        self.journal = None;
        let temporary = [NEXT, UNDO, STATE].map(|name| format!("{name}.new"));
        let names = [NEXT, UNDO, STATE, JOURNAL, LOCK];
        for name in temporary.iter().map(String::as_str).chain(names) {
            remove(&self.folder.join(name))?;
        }
        // Other files, such as a socket, keep the folder; and it may not be ours to remove.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// Replaces a file so that the old or the new one is complete at any time.
    fn write(&self, name: &str, state: &impl Serialize) -> Result<(), GateError> {
        let path = self.folder.join(name);
        let temporary = self.folder.join(format!("{name}.new"));
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            private(options.write(true).create(true).truncate(true));
            let mut file = BufWriter::new(options.open(&temporary)?);
            serde_json::to_writer(&mut file, state)?;
            file.flush()?;
            file.get_ref().sync_all()?;
            fs::rename(&temporary, &path)?;
            self.sync()
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&temporary);
            GateError::State { path, source }
        })
    }

    /// Brings the names of files to the disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

/// Options for files of the state: only the owner reads them, and symbolic links are not followed.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
}

/// Checks that the owner of a folder is the user of this process, or root.
fn check_owner(owner: u32, user: u32) -> io::Result<()> {
    if owner == user || owner == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "this folder belongs to user {owner}, who may change everything in it: run `chown {user}` on \
         it, or choose another folder"
    )))
}

fn remove(path: &Path) -> Result<(), GateError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GateError::State {
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}

/// Reads the files of a folder. Another process may write them at the same time: each is read whole
/// or not at all.
pub(super) fn load(folder: &Path) -> Result<Loaded, GateError> {
    let written = read(&folder.join(STATE))?;
    let next = read(&folder.join(NEXT))?;
    let undo = read_undo(&folder.join(UNDO))?;
    let mut loaded = Loaded {
        current: written.clone(),
        written,
        entries: 0,
        length: 0,
        next,
        undo,
    };
    let Some(state) = &mut loaded.current else {
        return Ok(loaded);
    };
    let path = folder.join(JOURNAL);
    let failed = |source| GateError::State {
        path: path.clone(),
        source,
    };
    let file = match private(OpenOptions::new().read(true)).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(loaded),
        Err(error) => return Err(failed(error)),
    };
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = file.read_until(b'\n', &mut line).map_err(failed)?;
        // An incomplete line was not acted on.
        if line.pop() != Some(b'\n') {
            break;
        }
        let Ok(entry) = serde_json::from_slice::<Entry>(&line) else {
            break;
        };
        if entry.serial != state.serial {
            break;
        }
        for (number, limits) in entry.plans {
            state.plans.put(number, limits.into());
        }
        state.members.insert(entry.name, entry.member);
        state.members.extend(entry.others);
        loaded.entries += 1;
        loaded.length += length as u64;
    }
    state.index();
    Ok(loaded)
}

fn read(path: &Path) -> Result<Option<GateState>, GateError> {
    let mut state: Option<GateState> = read_json(path)?;
    if let Some(state) = &mut state {
        check(path, state)?;
    }
    Ok(state)
}

fn read_undo(path: &Path) -> Result<Option<Undo>, GateError> {
    let mut undo: Option<Undo> = read_json(path)?;
    if let Some(undo) = &mut undo {
        check(path, &mut undo.from)?;
        check(path, &mut undo.to)?;
    }
    Ok(undo)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, GateError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(GateError::State {
                path: path.to_owned(),
                source,
            });
        }
    };
    let read = serde_json::from_slice(&text);
    read.map(Some)
        .map_err(|error| corrupt(path, error.to_string()))
}

/// Checks the format, and computes what the file leaves out.
fn check(path: &Path, state: &mut GateState) -> Result<(), GateError> {
    if state.format != GateState::FORMAT {
        let found = state.format;
        let message = format!(
            "it has format {found}, and this version of tidegate reads format {}",
            GateState::FORMAT
        );
        return Err(corrupt(path, message));
    }
    state.index();
    Ok(())
}

fn corrupt(path: &Path, message: String) -> GateError {
    GateError::Corrupt {
        path: path.to_owned(),
        message,
    }
}
