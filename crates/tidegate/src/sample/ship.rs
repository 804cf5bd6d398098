//! Moves complete files elsewhere: to another folder, such as a mount, or to an S3 store.

#[cfg(feature = "s3")]
mod s3;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;

use crate::cli::sample::To;

/// Files that could not be moved are tried again after this time, or when another one arrives.
const AGAIN: Duration = Duration::from_secs(10);

/// A thread that moves files, so that a slow folder or store does not hold up the sampler.
pub struct Ship {
    files: Sender<PathBuf>,
    thread: JoinHandle<()>,
}

/// Where files are moved to.
enum Place {
    Folder(PathBuf),
    #[cfg(feature = "s3")]
    S3(s3::Bucket),
}

impl Place {
    fn new(to: &To) -> anyhow::Result<Self> {
        match to {
            To::Folder(path) => {
                fs::create_dir_all(path)
                    .with_context(|| format!("cannot write to {}", path.display()))?;
                Ok(Self::Folder(path.clone()))
            }
            #[cfg(feature = "s3")]
            To::S3 { bucket, prefix } => Ok(Self::S3(s3::Bucket::new(bucket, prefix)?)),
            #[cfg(not(feature = "s3"))]
            To::S3 { .. } => Err(crate::cli::UsageError(
                "this program was built without S3 stores: build it with the feature s3".to_owned(),
            )
            .into()),
        }
    }

    /// Copies a file under its name, which appears when it is complete, and removes the file.
    fn ship(&self, file: &Path) -> io::Result<()> {
        match self {
            Self::Folder(to) => copy(file, to)?,
            #[cfg(feature = "s3")]
            Self::S3(bucket) => bucket.put(file)?,
        }
        fs::remove_file(file)
    }
}

impl Ship {
    /// Begins with the files that are there already.
    pub fn start(to: &To, waiting: Vec<PathBuf>) -> anyhow::Result<Self> {
        let place = Place::new(to)?;
        let to = to.to_string();
        let (files, arriving) = channel();
        let thread = thread::Builder::new()
            .name("ship".to_owned())
            .spawn(move || work(&place, &to, waiting.into(), &arriving))
            .context("cannot start the thread that ships files")?;
        Ok(Self { files, thread })
    }

    /// Moves a file, soon.
    pub fn send(&self, file: PathBuf) {
        // The thread outlives this.
        let _ = self.files.send(file);
    }

    /// Waits until every file was moved, or could not be moved.
    pub fn end(self) {
        drop(self.files);
        // It does not panic, and if it did, the files are still here.
        let _ = self.thread.join();
    }
}

/// Tries to move the files that wait, and again after a while, or when another one arrives.
fn work(place: &Place, to: &str, mut waiting: VecDeque<PathBuf>, arriving: &Receiver<PathBuf>) {
    let mut failing = false;
    loop {
        while let Some(file) = waiting.front() {
            match place.ship(file) {
                Ok(()) => {
                    if failing {
                        eprintln!("tidegate: files are moved to {to} again");
                    }
                    failing = false;
                }
                // The sampler has removed it to make room.
                Err(_) if !file.exists() => {}
                Err(error) => {
                    if !failing {
                        eprintln!(
                            "tidegate: cannot move {} to {to}: {error}. Files stay here, and are moved later",
                            file.display()
                        );
                    }
                    failing = true;
                    // Names of files that were removed to make room must not pile up.
                    waiting.retain(|file| file.exists());
                    break;
                }
            }
            waiting.pop_front();
        }
        let arrived = match failing {
            true => arriving.recv_timeout(AGAIN),
            false => arriving.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match arrived {
            Ok(file) => waiting.push_back(file),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // All that came meanwhile: a store that is away is not asked for each of them.
        waiting.extend(arriving.try_iter());
    }
}

/// Copies a file under another name, and gives the copy its name.
fn copy(file: &Path, to: &Path) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let aside = to.join(format!(".{}.part", name.to_string_lossy()));
    let copy = || {
        fs::copy(file, &aside)?;
        File::open(&aside)?.sync_all()?;
        fs::rename(&aside, to.join(name))?;
        File::open(to)?.sync_all()
    };
    copy().inspect_err(|_| {
        let _ = fs::remove_file(&aside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_moved_and_those_that_are_gone_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = root.path().join(name);
            fs::write(&path, name).unwrap();
            path
        };
        let to = root.path().join("to");
        let gone = root.path().join("gone");
        let ship = Ship::start(&To::Folder(to.clone()), vec![file("a"), gone]).unwrap();
        ship.send(file("b"));
        ship.send(file("c"));
        ship.end();
        let mut names: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(fs::read_to_string(to.join("c")).unwrap(), "c");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_moved_stays_in_whole() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a");
        fs::write(&file, "a").unwrap();
        let to = root.path().join("to");
        fs::write(&to, "no folder").unwrap();
        assert!(Place::Folder(to.clone()).ship(&file).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
        assert!(Ship::start(&To::Folder(to), Vec::new()).is_err());
    }
}
