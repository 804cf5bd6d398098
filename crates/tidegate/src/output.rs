//! Output to standard output, or to a file that appears when it is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Stdout, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Something to write results to, and then to [`commit`](Output::commit).
pub enum Output {
    Stdout(BufWriter<Stdout>),
    File(BufWriter<File>, Unfinished),
}

/// A file that has no name yet, so that nothing remains of it if the program ends early. On file
/// systems without nameless files it has a temporary name.
pub struct Unfinished {
    path: PathBuf,
    named: Option<PathBuf>,
}

impl Output {
    pub fn stdout() -> Self {
        Self::Stdout(BufWriter::with_capacity(64 << 10, io::stdout()))
    }

    /// Output to a file that replaces an existing one when everything is written.
    pub fn file(path: &Path) -> anyhow::Result<Self> {
        let file = create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self::File(
            BufWriter::with_capacity(64 << 10, file.0),
            file.1,
        ))
    }

    /// Output to the file, or to standard output if none (or `-`) is named.
    pub fn to(path: Option<&Path>) -> anyhow::Result<Self> {
        match path {
            Some(path) if path.as_os_str() != "-" => Self::file(path),
            _ => Ok(Self::stdout()),
        }
    }

    /// Flushes the output, and gives a file its name.
    pub fn commit(mut self) -> anyhow::Result<()> {
        self.flush()?;
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(out, unfinished) => {
                let path = unfinished.path.clone();
                let place = || {
                    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
                    unfinished.place(&file)
                };
                place().with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

impl Output {
    /// An error of writing, with what could not be written.
    fn named(&self, error: &io::Error) -> io::Error {
        let place = match self {
            Self::Stdout(_) => "to standard output".to_owned(),
            Self::File(_, unfinished) => unfinished.path.display().to_string(),
        };
        io::Error::new(error.kind(), format!("cannot write {place}: {error}"))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File(out, _) => out.write(bytes),
        };
        written.map_err(|error| self.named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match self {
            Self::Stdout(out) => out.flush(),
            Self::File(out, _) => out.flush(),
        };
        flushed.map_err(|error| self.named(&error))
    }
}

fn create(path: &Path) -> io::Result<(File, Unfinished)> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // The target of a link is replaced, not the link. A target that is not a regular file in a
    // folder (a pipe, a device, an open file of another process) is written directly.
    let given = path;
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    // Also check the path as given: /dev/stdout resolves to a file that a shell may append to.
    let is_in = |root: &&str| given.starts_with(root) || path.starts_with(root);
    let special = ["/dev", "/proc"].iter().any(is_in);
    let dangling = real.is_err() && fs::symlink_metadata(path).is_ok();
    let mut unfinished = Unfinished {
        path: path.to_owned(),
        named: None,
    };
    if special || dangling || (path.exists() && !path.is_file()) {
        unfinished.named = Some(path.to_owned());
        let file = File::options().append(true).create(true).open(path)?;
        return Ok((file, unfinished));
    }
    let mode = Mode::from_raw_mode(0o666);
    let nameless = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(folder_of(path), nameless, mode) {
        Ok(file) => Ok((file.into(), unfinished)),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            let (file, name) = beside(path, |name| File::create_new(name))?;
            unfinished.named = Some(name);
            Ok((file, unfinished))
        }
        Err(error) => Err(error.into()),
    }
}

impl Unfinished {
    fn place(mut self, file: &File) -> io::Result<()> {
        if self.named.as_ref() == Some(&self.path) {
            self.named = None;
            return Ok(());
        }
        file.sync_data()?;
        if let Ok(old) = fs::metadata(&self.path) {
            // The new file keeps the permissions of the old one.
            file.set_permissions(old.permissions())?;
        }
        if self.named.is_none() {
            // A link cannot replace a file, but a rename can.
            let descriptor = format!(
                "/proc/self/fd/{}",
                rustix::fd::AsRawFd::as_raw_fd(&file.as_fd())
            );
            let link = |name: &Path| {
                rustix::fs::linkat(CWD, &descriptor, CWD, name, AtFlags::SYMLINK_FOLLOW)
                    .map_err(io::Error::from)
            };
            let ((), name) = beside(&self.path, link)?;
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
        if let Some(name) = self.named.take()
            && name != self.path
        {
            let _ = fs::remove_file(name);
        }
    }
}

/// Creates something under the first free name in the folder of the path.
fn beside<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    let stem = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    for i in 0..1000 {
        let name = path.with_file_name(format!(".{stem}.{}.{i}", std::process::id()));
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|made| (made, name)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether an error means that the reader of our output has gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let names = || fs::read_dir(folder.path()).expect("the folder").count();

        let mut output = Output::file(&path).expect("can be written");
        output.write_all(b"half").expect("written");
        drop(output);
        assert_eq!(names(), 0, "nothing is left of what was given up");

        fs::write(&path, "old").expect("written");
        let mut output = Output::file(&path).expect("can be written");
        output.write_all(b"new").expect("written");
        output.flush().expect("flushed");
        assert_eq!(
            fs::read(&path).expect("read"),
            b"old",
            "untouched until complete"
        );
        output.commit().expect("placed");
        assert_eq!(fs::read(&path).expect("read"), b"new");
        assert_eq!(names(), 1);
    }

    #[test]
    fn a_link_stays_and_so_do_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("rows.csv"), folder.path().join("link"));
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        symlink(&file, &link).expect("linked");
        let mut output = Output::file(&link).expect("can be written");
        output.write_all(b"new").expect("written");
        output.commit().expect("placed");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(&file).expect("read"), b"new");
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn says_what_cannot_be_written() {
        let error = Output::file(Path::new("/nonexistent/rows.csv"))
            .err()
            .expect("an error");
        assert!(format!("{error:#}").starts_with("cannot write /nonexistent/rows.csv: "));
    }
}
