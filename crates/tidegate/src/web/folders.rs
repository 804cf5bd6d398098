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
use crate::units::{count, plural};

/// Folders in folders that are looked into.
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

    /// The captures that are there now: their numbers, names and sizes. And in sentences, what was left out.
    pub fn list(&self) -> Value {
        let mut found = Found::default();
        for (number, (root, path)) in self.roots.iter().enumerate() {
            let mut way = (number, Vec::new());
            match root {
                Root::File(path) => {
                    let bytes = fs::metadata(path).map_or(0, |meta| meta.len());
                    let folder = found.folder();
                    found.add(folder, way, bytes);
                }
                Root::Folder(folder) => {
                    if let Err(error) = found.search(folder, &mut way) {
                        eprintln!("tidegate: {}: {error}", path.display());
                        found.unread += 1;
                    }
                }
            }
        }
        found.shorten();
        let left_out = found.left_out();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let captures = found.captures.into_iter().map(|(_, way, bytes)| {
            let name = self.name(&way);
            json!({ "number": known.number(way), "name": *name, "bytes": bytes })
        });
        json!({ "captures": captures.collect::<Value>(), "left_out": left_out })
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

/// What is found in folders.
#[derive(Default)]
struct Found {
    /// The number of its folder, how it is reached, and its size.
    captures: Vec<(usize, Way, u64)>,
    /// How many captures are in each folder.
    counts: Vec<usize>,
    /// Folders that are too deep to be looked into.
    too_deep: u64,
    /// Folders that cannot be read.
    unread: u64,
}

impl Found {
    /// The number of another folder.
    fn folder(&mut self) -> usize {
        self.counts.push(0);
        self.counts.len() - 1
    }

    fn add(&mut self, folder: usize, way: Way, bytes: u64) {
        self.counts[folder] += 1;
        self.captures.push((folder, way, bytes));
        // Of more captures than are listed, no more are held than are needed to choose among them.
        if self.captures.len() >= 2 * MOST {
            self.shorten();
        }
    }

    /// Keeps as many captures as are listed, of each folder as many as of any other: a large folder does not hide the others.
    fn shorten(&mut self) {
        let share = share(self.counts.clone(), MOST).max(1);
        let mut kept = vec![0; self.counts.len()];
        self.captures.retain(|(folder, ..)| {
            kept[*folder] += 1;
            kept[*folder] <= share
        });
        self.captures.truncate(MOST);
    }

    /// Adds the files in a folder and in the folders in it that are named like captures.
    fn search(&mut self, folder: &OwnedFd, way: &mut Way) -> io::Result<()> {
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(folder)? {
            names.push(name(entry?.file_name()).to_owned());
        }
        names.sort();
        let number = self.folder();
        for name in names {
            if name == "." || name == ".." {
                continue;
            }
            let Ok(status) = statat(folder, Path::new(&name), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            way.1.push(name.clone());
            match FileType::from_raw_mode(status.st_mode) {
                FileType::RegularFile if has_capture_name(Path::new(&name)) => {
                    let bytes = u64::try_from(status.st_size).unwrap_or(0);
                    self.add(number, way.clone(), bytes);
                }
                FileType::Directory if way.1.len() > DEEPEST => self.too_deep += 1,
                FileType::Directory => {
                    // A folder that cannot be read does not hide the others.
                    let inner = openat(folder, Path::new(&name), FOLDER, Mode::empty());
                    let inner = inner.map_err(io::Error::from);
                    if inner.and_then(|inner| self.search(&inner, way)).is_err() {
                        self.unread += 1;
                    }
                }
                _ => {}
            }
            way.1.pop();
        }
        Ok(())
    }

    /// What is not listed, and what a person can do about it.
    fn left_out(&self) -> Vec<String> {
        let unlisted = self.counts.iter().sum::<usize>() - self.captures.len();
        [
            (
                unlisted as u64,
                ["capture is", "captures are"],
                format!(
                    "not listed: the list has {} at most, of each folder as many as of any other. Name folders with fewer captures",
                    count(MOST as u64)
                ),
            ),
            (
                self.too_deep,
                ["folder is", "folders are"],
                format!("not looked into, below {DEEPEST} others. Name a folder that is nearer to the captures"),
            ),
            (
                self.unread,
                ["folder", "folders"],
                "cannot be read by this user".to_owned(),
            ),
        ]
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, [one, many], what)| format!("{} {what}.", plural(number, one, many)))
        .collect()
    }
}

/// The greatest number of captures that may be taken from each folder, if no more than `most` are taken together.
fn share(mut counts: Vec<usize>, most: usize) -> usize {
    counts.sort_unstable();
    let mut left = most;
    for (i, count) in counts.iter().enumerate() {
        let share = left / (counts.len() - i);
        if *count > share {
            return share;
        }
        left -= count;
    }
    usize::MAX
}

fn name(text: &CStr) -> &OsStr {
    OsStr::from_bytes(text.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_has_its_share_of_the_list() {
        for (counts, most, wanted) in [
            (vec![], 10, usize::MAX),
            (vec![5, 5], 10, usize::MAX),
            (vec![20, 1], 10, 9),
            (vec![1, 20, 7, 0], 10, 4),
            (vec![1; 20], 10, 0),
        ] {
            assert_eq!(share(counts.clone(), most), wanted, "{counts:?}");
        }
    }

    #[test]
    fn a_large_folder_does_not_hide_the_others() {
        let mut found = Found::default();
        for count in [3 * MOST, 1, 3 * MOST, 2] {
            let folder = found.folder();
            for i in 0..count {
                found.add(folder, (folder, vec![i.to_string().into()]), 0);
            }
        }
        found.shorten();
        let of = |folder| found.captures.iter().filter(|one| one.0 == folder).count();
        let half = (MOST - 3) / 2;
        assert_eq!([0, 1, 2, 3].map(of), [half, 1, half, 2]);
        assert!(found.captures.is_sorted_by_key(|one| one.0));
        let said = found.left_out();
        assert!(
            said.len() == 1 && said[0].contains("captures are not listed"),
            "{said:?}"
        );
    }

    #[test]
    fn more_folders_than_lines_have_one_line_each() {
        let mut found = Found::default();
        for folder in 0..3 * MOST {
            assert_eq!(found.folder(), folder);
            found.add(folder, (folder, Vec::new()), 0);
        }
        found.shorten();
        assert_eq!(found.captures.len(), MOST);
    }
}
