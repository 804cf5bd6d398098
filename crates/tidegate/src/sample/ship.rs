//! Moves complete files elsewhere: to another folder, such as a mount, or to an S3 store.

#[cfg(feature = "s3")]
mod s3;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use tidegate_sample::Counters;

use crate::cli::UsageError;
use crate::cli::sample::To;

/// Files that could not be moved are tried again after this time, or when another one arrives.
const AGAIN: Duration = Duration::from_secs(10);

/// A thread that moves files, so that a slow folder or store does not hold up the sampler.
pub struct Ship {
    files: Sender<PathBuf>,
    /// Returns how many files were not moved.
    thread: JoinHandle<u64>,
}

/// Where files are moved to.
enum Place {
    Folder(Target),
    #[cfg(feature = "s3")]
    S3(s3::Bucket),
}

impl Place {
    fn new(to: &To) -> anyhow::Result<Self> {
        match to {
            To::Folder(path) => Ok(Self::Folder(Target::new(path)?)),
            #[cfg(feature = "s3")]
            To::S3 { bucket, prefix } => Ok(Self::S3(s3::Bucket::new(bucket, prefix)?)),
            #[cfg(not(feature = "s3"))]
            To::S3 { .. } => Err(UsageError(
                "this program was built without S3 stores: build it with the feature s3".to_owned(),
            )
            .into()),
        }
    }

    /// Copies a file under its name, which appears when it is complete, and removes the file.
    fn ship(&self, file: &Path) -> io::Result<()> {
        match self {
            Self::Folder(to) => copy(file, to.folder()?)?,
            #[cfg(feature = "s3")]
            Self::S3(bucket) => bucket.put(file)?,
        }
        fs::remove_file(file)
    }
}

/// A folder that files are moved to. It is not made: a name that is mistyped, or whose file system is not mounted, would
/// lead all files to a disk that is not meant for them.
#[derive(Debug)]
struct Target {
    folder: PathBuf,
    /// Where the file system that it is on is mounted, unless that is the root.
    mount: Option<PathBuf>,
}

impl Target {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        if !folder.is_dir() {
            let text = format!(
                "--to: there is no folder {}: mount what belongs there, or make it with mkdir",
                folder.display()
            );
            return Err(UsageError(text).into());
        }
        let whole = fs::canonicalize(folder)
            .with_context(|| format!("cannot move files to {}", folder.display()))?;
        Ok(Self {
            folder: folder.to_owned(),
            mount: whole
                .ancestors()
                .find(|path| is_mount(path))
                .map(Path::to_owned),
        })
    }

    /// The folder, if it is still on the file system that it was on.
    fn folder(&self) -> io::Result<&Path> {
        match self.mount.as_deref().filter(|mount| !is_mount(mount)) {
            Some(mount) => {
                let text = format!("{} is no longer mounted", mount.display());
                Err(io::Error::other(text))
            }
            None => Ok(&self.folder),
        }
    }
}

/// Whether another file system begins here than above.
fn is_mount(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|meta| meta.dev());
    let above = path.parent().and_then(device);
    above.is_some() && device(path).is_some_and(|device| Some(device) != above)
}

/// Whether two names lead to one folder, be it by a link or because one is mounted at both.
fn are_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let one = identity(one);
    one.is_some() && one == identity(other)
}

/// Checks a place for the files of a folder before anything is sampled.
///
/// # Errors
/// There is no such folder, or it is the one that files come from.
pub fn check(to: &To, from: &Path) -> anyhow::Result<()> {
    let To::Folder(folder) = to else {
        return Ok(());
    };
    Target::new(folder)?;
    // A folder that is not there yet is made later, and is another one than this.
    if are_same(from, folder) {
        let text = format!(
            "--to: {} is the folder of --out, {}: name another folder, or leave out --to",
            folder.display(),
            from.display()
        );
        return Err(UsageError(text).into());
    }
    Ok(())
}

impl Ship {
    /// Begins with the files that are there already.
    pub fn start(to: &To, waiting: Vec<PathBuf>, counters: Arc<Counters>) -> anyhow::Result<Self> {
        let place = Place::new(to)?;
        let to = to.to_string();
        let (files, arriving) = channel();
        let thread = thread::Builder::new()
            .name("ship".to_owned())
            .spawn(move || work(&place, &to, waiting.into(), &arriving, &counters))
            .context("cannot start the thread that ships files")?;
        Ok(Self { files, thread })
    }

    /// Moves a file, soon.
    pub fn send(&self, file: PathBuf) {
        // The thread outlives this.
        let _ = self.files.send(file);
    }

    /// Waits until every file was moved, or could not be moved. Returns how many could not.
    pub fn end(self) -> u64 {
        drop(self.files);
        // It does not panic, and if it did, the files are still here.
        self.thread.join().unwrap_or_default()
    }
}

/// Tries to move the files that wait, and again after a while, or when another one arrives. Returns how many are left.
fn work(
    place: &Place,
    to: &str,
    mut waiting: VecDeque<PathBuf>,
    arriving: &Receiver<PathBuf>,
    counters: &Counters,
) -> u64 {
    let mut failing = false;
    loop {
        let mut in_succession = 0;
        for _ in 0..waiting.len() {
            let Some(file) = waiting.pop_front() else {
                break;
            };
            match place.ship(&file) {
                Ok(()) => in_succession = 0,
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
                    // One file that cannot be moved must not hold up the others.
                    waiting.push_back(file);
                    in_succession += 1;
                }
            }
            // The place is away, not one file bad.
            if in_succession == 2 {
                // Names of files that were removed to make room must not pile up.
                waiting.retain(|file| file.exists());
                break;
            }
        }
        if failing && waiting.is_empty() {
            eprintln!("tidegate: files are moved to {to} again");
            failing = false;
        }
        counters
            .unmoved
            .store(waiting.len() as u64, Ordering::Relaxed);
        let arrived = match failing {
            true => arriving.recv_timeout(AGAIN),
            false => arriving.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = VecDeque::new();
        match arrived {
            Ok(file) => next.push_back(file),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return waiting.iter().filter(|file| file.exists()).count() as u64;
            }
        }
        // All that came meanwhile: a store that is away is not asked for each of them. Those that failed come last.
        next.extend(arriving.try_iter());
        next.append(&mut waiting);
        waiting = next;
    }
}

/// Copies a file under another name, and gives the copy its name. Not to the folder where it is: there the copy would take the
/// file's name, and who removes the file then would remove the copy.
fn copy(file: &Path, to: &Path) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let beside = format!(".{}.part", name.to_string_lossy());
    let aside = to.join(&beside);
    let copy = || {
        File::create(&aside)?;
        // This knows the folder whatever leads to it, such as a mount over the network, which has other numbers.
        if file.with_file_name(&beside).exists() {
            return Err(io::Error::other("it is the folder where the file is"));
        }
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
        let missing = Ship::start(&To::Folder(to.clone()), Vec::new(), Arc::default());
        assert!(missing.is_err() && !to.exists());
        fs::create_dir(&to).unwrap();
        let gone = root.path().join("gone");
        let ship = Ship::start(
            &To::Folder(to.clone()),
            vec![file("a"), gone],
            Arc::default(),
        )
        .unwrap();
        ship.send(file("b"));
        ship.send(file("c"));
        assert_eq!(ship.end(), 0);
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
    fn files_are_not_moved_to_the_folder_where_they_are() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let link = root.path().join("link");
        fs::create_dir(&out).unwrap();
        std::os::unix::fs::symlink(&out, &link).unwrap();
        let file = out.join("a");
        fs::write(&file, "a").unwrap();
        for to in [&out, &link, &out.join("../out")] {
            let to = To::Folder(to.clone());
            let refused = check(&to, &out).unwrap_err();
            assert!(refused.is::<UsageError>(), "{refused}");
            assert!(refused.to_string().contains("the folder of --out"));
            // It may become the same later, such as by a mount.
            assert!(Place::new(&to).unwrap().ship(&file).is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), "a");
            assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        }
        check(&To::Folder(out), &root.path().join("new")).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_moved_does_not_hold_up_others() {
        let root = tempfile::tempdir().unwrap();
        let (out, to) = (root.path().join("out"), root.path().join("to"));
        fs::create_dir(&out).unwrap();
        fs::create_dir(&to).unwrap();
        let names: Vec<String> = (0..6).map(|name| name.to_string()).collect();
        let files: Vec<PathBuf> = names.iter().map(|name| out.join(name)).collect();
        files.iter().for_each(|file| fs::write(file, "a").unwrap());
        // A folder of its name is in the way.
        let bad = |name: &str| fs::create_dir(to.join(name)).unwrap();
        ["0", "2"].into_iter().for_each(bad);
        let counters = Arc::new(Counters::default());
        let ship = Ship::start(
            &To::Folder(to.clone()),
            files.clone(),
            Arc::clone(&counters),
        );
        assert_eq!(ship.unwrap().end(), 2);
        assert_eq!(counters.unmoved.load(Ordering::Relaxed), 2);
        let left = || names.iter().filter(|name| out.join(name).exists());
        assert_eq!(left().collect::<Vec<_>>(), ["0", "2"]);
        // Two in succession end a round. The next one begins with what came.
        fs::write(&files[1], "a").unwrap();
        let waiting = vec![files[0].clone(), files[2].clone()];
        let ship = Ship::start(&To::Folder(to.clone()), waiting, Arc::default()).unwrap();
        ship.send(files[1].clone());
        assert_eq!(ship.end(), 2);
        assert_eq!(left().collect::<Vec<_>>(), ["0", "2"]);
    }

    #[test]
    fn what_cannot_be_moved_stays_in_whole() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a");
        fs::write(&file, "a").unwrap();
        let to = root.path().join("to");
        fs::write(&to, "no folder").unwrap();
        let moved = |mount: Option<&Path>, folder: &Path| {
            let (folder, mount) = (folder.to_owned(), mount.map(Path::to_owned));
            Place::Folder(Target { folder, mount }).ship(&file)
        };
        assert!(moved(None, &to).is_err());
        // As after umount: the folder below the mount would take the files.
        let unmounted = moved(Some(root.path()), root.path()).unwrap_err();
        assert!(
            unmounted.to_string().contains("no longer mounted"),
            "{unmounted}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
        assert!(is_mount(Path::new("/proc")) && !is_mount(Path::new("/")));
        assert!(Ship::start(&To::Folder(to), Vec::new(), Arc::default()).is_err());
    }
}
