//! Output to standard output, or to a file that appears when it is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate_testbed::Unfinished;

/// Something to write results to, and then to [`commit`](Output::commit).
pub enum Output {
    Stdout(BufWriter<Stdout>),
    File(BufWriter<File>, Target),
}

/// Where a file of results is to be.
pub struct Target {
    path: PathBuf,
    /// `None`: it is written directly.
    unfinished: Option<Unfinished>,
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
            Self::File(out, mut target) => {
                let place = || {
                    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
                    target.place(&file)
                };
                let placed = place();
                placed.with_context(|| format!("cannot write {}", target.path.display()))
            }
        }
    }
}

impl Output {
    /// An error of writing, with what could not be written.
    fn named(&self, error: &io::Error) -> io::Error {
        let place = match self {
            Self::Stdout(_) => "to standard output".to_owned(),
            Self::File(_, target) => target.path.display().to_string(),
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

fn create(path: &Path) -> io::Result<(File, Target)> {
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
    let (file, unfinished) = if special || dangling || (path.exists() && !path.is_file()) {
        (File::options().append(true).create(true).open(path)?, None)
    } else {
        let (file, unfinished) = Unfinished::create(path)?;
        (file, Some(unfinished))
    };
    let path = path.to_owned();
    Ok((file, Target { path, unfinished }))
}

impl Target {
    fn place(&mut self, file: &File) -> io::Result<()> {
        let Some(unfinished) = &mut self.unfinished else {
            return Ok(());
        };
        file.sync_data()?;
        if let Ok(old) = fs::metadata(&self.path) {
            // The new file keeps the permissions of the old one.
            file.set_permissions(old.permissions())?;
        }
        unfinished.place(file)
    }
}

/// Whether an error means that the reader of our output has gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let written = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        // What fails to write JSON does not name the error that it had as its cause.
        let json = cause.downcast_ref::<serde_json::Error>();
        let kind = written.or_else(|| json.and_then(serde_json::Error::io_error_kind));
        kind == Some(io::ErrorKind::BrokenPipe)
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
    fn a_reader_that_has_gone_is_known_by_any_writer() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let plain = Gone.write_all(b"1").expect_err("gone");
        let json = serde_json::to_writer(Gone, &1).expect_err("gone");
        assert!(is_broken_pipe(&plain.into()));
        assert!(is_broken_pipe(&anyhow::Error::from(json).context("rows")));
        let wrong = serde_json::from_str::<u8>("x").expect_err("no number");
        assert!(!is_broken_pipe(&wrong.into()));
    }

    #[test]
    fn says_what_cannot_be_written() {
        let error = Output::file(Path::new("/nonexistent/rows.csv"))
            .err()
            .expect("an error");
        assert!(format!("{error:#}").starts_with("cannot write /nonexistent/rows.csv: "));
    }
}
