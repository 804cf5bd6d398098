//! Moves complete files to another folder, such as a mount of a store.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::Context;

/// A thread that moves files, so that a slow folder does not hold up the sampler.
pub struct Ship {
    files: Sender<PathBuf>,
    thread: JoinHandle<()>,
}

impl Ship {
    /// Begins with the files that are there already.
    pub fn start(to: &Path, waiting: Vec<PathBuf>) -> anyhow::Result<Self> {
        fs::create_dir_all(to).with_context(|| format!("cannot write to {}", to.display()))?;
        let to = to.to_owned();
        let (files, arriving) = channel();
        let thread = thread::Builder::new()
            .name("ship".to_owned())
            .spawn(move || work(&to, waiting.into(), &arriving))
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

/// Tries to move the files that wait, and again when another one arrives.
fn work(to: &Path, mut waiting: VecDeque<PathBuf>, arriving: &Receiver<PathBuf>) {
    let mut failing = false;
    loop {
        while let Some(file) = waiting.front() {
            match ship(file, to) {
                Ok(()) => failing = false,
                // The sampler has removed it to make room.
                Err(_) if !file.exists() => {}
                Err(error) => {
                    if !failing {
                        eprintln!(
                            "tidegate: cannot move {} to {}: {error}. Files stay here, and are moved with a later one",
                            file.display(),
                            to.display()
                        );
                    }
                    failing = true;
                    break;
                }
            }
            waiting.pop_front();
        }
        match arriving.recv() {
            Ok(file) => waiting.push_back(file),
            Err(_) => return,
        }
    }
}

/// Copies a file under another name, gives the copy its name, and removes the file.
fn ship(file: &Path, to: &Path) -> io::Result<()> {
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
    })?;
    fs::remove_file(file)
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
        let ship = Ship::start(&to, vec![file("a"), gone]).unwrap();
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
        assert!(super::ship(&file, &to).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
        assert!(Ship::start(&to, Vec::new()).is_err());
    }
}
