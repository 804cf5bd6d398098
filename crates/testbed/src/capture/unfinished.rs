//! Files that have no name until they are complete, so that nothing remains of them even if the program is killed. On file
//! systems without nameless files they have a temporary name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file that is not complete yet. If this is dropped before, nothing of it remains.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    /// Its temporary name, if it has one.
    named: Option<PathBuf>,
}

impl Unfinished {
    /// A new file, which is to be called so when it is complete.
    ///
    /// # Errors
    /// If its folder takes no file.
    pub fn create(path: &Path) -> io::Result<(File, Self)> {
        let (file, named) = match nameless(path)? {
            Some(file) => (file, None),
            None => {
                let (file, name) = beside(path, |name| File::create_new(name))?;
                (file, Some(name))
            }
        };
        let path = path.to_owned();
        Ok((file, Self { path, named }))
    }

    /// Gives it its name, which another file may have had so far.
    ///
    /// # Errors
    /// If the name cannot be had. Then the file goes with this.
    pub fn place(&mut self, file: &File) -> io::Result<()> {
        if self.named.is_none() {
            // A link cannot replace a file, but a rename can.
            let ((), name) = beside(&self.path, |name| link(file, name))?;
            self.named = Some(name);
        }
        if let Some(name) = &self.named {
            fs::rename(name, &self.path)?;
        }
        self.named = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(name) = self.named.take() {
            let _ = fs::remove_file(name);
        }
    }
}

/// Makes something under the first name beside this one that is free. So programs that write the same file at the same
/// time do not write into each other's.
fn beside<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    let stem = path.file_name().unwrap_or_default().to_string_lossy();
    for i in 0..1000 {
        let name = path.with_file_name(format!(".{stem}.{}.{i}", std::process::id()));
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|made| (made, name)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A file in the path's folder; `None` if the file system has no nameless ones.
#[cfg(target_os = "linux")]
fn nameless(path: &Path) -> io::Result<Option<File>> {
    use nix::errno::Errno;
    use nix::fcntl::{OFlag, open};
    use nix::sys::stat::Mode;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(0o666);
    match open(folder.unwrap_or(Path::new(".")), flags, mode) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use nix::fcntl::{AT_FDCWD, AtFlags};
    use std::os::fd::AsRawFd;
    // open(2): how a nameless file gets a name without a capability.
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let follow = AtFlags::AT_SYMLINK_FOLLOW;
    nix::unistd::linkat(AT_FDCWD, descriptor.as_str(), AT_FDCWD, name, follow)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    // There are no nameless files.
    Err(io::ErrorKind::Unsupported.into())
}
