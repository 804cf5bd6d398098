//! The captures in the folders that were named on the command line, and nothing else.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use serde_json::{Value, json};
use tidegate_trace::folder::has_capture_name;

use crate::input::display;

/// Folders in folders, at most.
const DEEPEST: usize = 16;
/// Captures that are listed.
const MOST: usize = 20_000;

/// What was named on the command line.
enum Root {
    Folder(OwnedFd),
    /// With all links resolved.
    File(PathBuf),
}

/// A capture: the number of its root, and the names on the way from there to it.
type Way = (usize, Vec<OsString>);

/// Captures are named by numbers, so that a request cannot name a path.
pub struct Folders {
    roots: Vec<(Root, PathBuf)>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    ways: Vec<Way>,
    numbers: BTreeMap<Way, u32>,
}

impl Folders {
    /// The folders and captures at these paths.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn open(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let root = |path: &PathBuf| {
            let root = if path.is_dir() {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                openat(CWD, path, flags, Mode::empty())
                    .map(Root::Folder)
                    .map_err(io::Error::from)
            } else {
                fs::canonicalize(path).map(Root::File)
            };
            let root = root.with_context(|| format!("cannot open {}", path.display()))?;
            Ok((root, path.clone()))
        };
        Ok(Self {
            roots: paths.iter().map(root).collect::<anyhow::Result<_>>()?,
            known: Mutex::default(),
        })
    }

    /// The captures that are there now: their numbers, names and sizes.
    pub fn list(&self) -> Value {
        let mut found: Vec<(Way, u64)> = Vec::new();
        for (number, (root, path)) in self.roots.iter().enumerate() {
            match root {
                Root::File(path) => {
                    let bytes = fs::metadata(path).map_or(0, |meta| meta.len());
                    found.push(((number, Vec::new()), bytes));
                }
                Root::Folder(folder) => {
                    let mut way = (number, Vec::new());
                    if let Err(error) = search(folder, &mut way, &mut found) {
                        eprintln!("tidegate: {}: {error}", path.display());
                    }
                }
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let captures = found.into_iter().map(|(way, bytes)| {
            let name = self.name(&way);
            json!({ "number": known.number(way), "name": *name, "bytes": bytes })
        });
        captures.collect()
    }

    fn name(&self, (root, names): &Way) -> std::sync::Arc<str> {
        let mut path = self.roots[*root].1.clone();
        path.extend(names);
        display(&path)
    }

    /// Opens a capture that was listed. Links that lead elsewhere are not followed, even if they were made since.
    pub fn capture(&self, number: u32) -> io::Result<File> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let way = known.ways.get(number as usize).cloned();
        drop(known);
        let (root, names) = way.ok_or_else(|| io::Error::other("there is no such capture"))?;
        let file = match &self.roots[root].0 {
            Root::File(path) => openat(CWD, path, FILE, Mode::empty())?,
            Root::Folder(folder) => {
                let (last, folders) = names
                    .split_last()
                    .ok_or_else(|| io::Error::other("this is a folder"))?;
                let mut inner = folder.try_clone()?;
                for name in folders {
                    inner = openat(&inner, Path::new(name), FOLDER, Mode::empty())?;
                }
                openat(&inner, Path::new(last), FILE, Mode::empty())?
            }
        };
        // A pipe or a device could keep the server waiting for ever.
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("this is not a file"));
        }
        Ok(file.into())
    }
}

const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const FOLDER: OFlags = FILE.union(OFlags::DIRECTORY);

impl Known {
    fn number(&mut self, way: Way) -> u32 {
        let next = self.ways.len() as u32;
        let number = *self.numbers.entry(way.clone()).or_insert(next);
        if number == next {
            self.ways.push(way);
        }
        number
    }
}

/// Adds the files in a folder and in the folders in it that are named like captures.
fn search(folder: &OwnedFd, way: &mut Way, found: &mut Vec<(Way, u64)>) -> io::Result<()> {
    let mut names: Vec<OsString> = Vec::new();
    for entry in Dir::read_from(folder)? {
        names.push(name(entry?.file_name()).to_owned());
    }
    names.sort();
    for name in names {
        if name == "." || name == ".." || found.len() >= MOST {
            continue;
        }
        let Ok(status) = statat(folder, Path::new(&name), AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        way.1.push(name.clone());
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile if has_capture_name(Path::new(&name)) => {
                found.push((way.clone(), u64::try_from(status.st_size).unwrap_or(0)));
            }
            FileType::Directory if way.1.len() < DEEPEST => {
                // A folder that cannot be read does not hide the others.
                let inner = openat(folder, Path::new(&name), FOLDER, Mode::empty());
                let _ = inner.map(|inner| search(&inner, way, found));
            }
            _ => {}
        }
        way.1.pop();
    }
    Ok(())
}

fn name(text: &CStr) -> &OsStr {
    OsStr::from_bytes(text.to_bytes())
}
