//! Captures to read: files, standard input, and what folders hold.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
pub use tidegate_trace::folder::is_capture;
use tidegate_trace::folder::{Unreadable, captures_in};
use tidegate_trace::read::{Capture, Nanos};

use crate::cli::UsageError;

/// One capture to be read.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its name in reports.
    pub name: Arc<str>,
    path: Option<PathBuf>,
    /// Why it cannot be read, where that is known.
    problem: Option<String>,
    /// Bytes in the file, where that is known.
    pub length: u64,
    /// The captures that this one is made of, in their order, if it is in pieces.
    pieces: Vec<Input>,
    /// Whether to wait at the file's end for more, until the stop flag is set.
    pub follow: bool,
}

impl Input {
    pub fn file(path: &Path) -> Self {
        Self {
            name: display(path),
            problem: None,
            length: fs::metadata(path).map_or(0, |meta| meta.len()),
            path: Some(path.to_owned()),
            pieces: Vec::new(),
            follow: false,
        }
    }

    pub fn stdin() -> Self {
        Self {
            name: "-".into(),
            path: None,
            problem: None,
            length: 0,
            pieces: Vec::new(),
            follow: false,
        }
    }

    /// One capture of several, in the order of their first packets. Those that have none, or cannot be
    /// read, come first.
    pub fn joined(mut pieces: Vec<Self>) -> Self {
        if pieces.len() < 2 {
            return pieces.pop().unwrap_or_else(Self::stdin);
        }
        pieces.sort_by_cached_key(Self::first_packet);
        let (first, last) = (&pieces[0].name, &pieces[pieces.len() - 1].name);
        Self {
            name: format!("{first} to {last}").into(),
            path: None,
            problem: None,
            length: pieces.iter().map(|piece| piece.length).sum(),
            pieces,
            follow: false,
        }
    }

    /// When its first packet was captured, if that can be found out without using it up.
    fn first_packet(&self) -> Option<Nanos> {
        let path = self.path.as_deref().filter(|_| !self.is_read_once())?;
        let mut capture = Capture::new(File::open(path).ok()?).ok()?;
        Some(capture.frame().ok()??.at)
    }

    /// What it is made of.
    pub fn pieces(&self) -> &[Self] {
        match self.pieces.is_empty() {
            true => std::slice::from_ref(self),
            false => &self.pieces,
        }
    }

    /// A path that was named, but holds nothing to read.
    fn broken(path: &Path, problem: String) -> Self {
        Self {
            problem: Some(problem),
            length: 0,
            ..Self::file(path)
        }
    }

    /// The file or the folder, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub fn is_stdin(&self) -> bool {
        self.path.is_none() && self.pieces.is_empty()
    }

    /// Whether it can be read only once: standard input, or a pipe that has a name.
    pub fn is_read_once(&self) -> bool {
        let path = |piece: &Self| {
            let path = piece.path.as_deref();
            path.is_none_or(|path| path.exists() && !path.is_file() && !path.is_dir())
        };
        self.pieces().iter().any(path)
    }

    /// Whether writing to the path would write over it.
    pub fn is_same(&self, path: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        let is_it = |piece: &Self| {
            let this = piece.path.as_deref().and_then(identity);
            this.is_some() && !piece.is_read_once() && this == identity(path)
        };
        self.pieces().iter().any(is_it)
    }

    /// What is wrong with a piece, in words that name it unless it is the whole capture.
    pub fn problem_of(&self, piece: &Arc<str>, error: &dyn std::fmt::Display) -> String {
        if *piece == self.name {
            error.to_string()
        } else {
            format!("{piece}: {error}")
        }
    }

    /// Its length and when it was last written, where it is a file.
    pub fn state(&self) -> Option<(u64, i64, i64)> {
        let meta = fs::metadata(self.path.as_deref()?).ok()?;
        Some((meta.len(), meta.mtime(), meta.mtime_nsec()))
    }

    /// Opens it; the progress bar counts its bytes.
    pub fn open(
        &self,
        bar: &ProgressBar,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<impl Read + Send + 'static> {
        if let Some(problem) = &self.problem {
            return Err(io::Error::other(problem.clone()));
        }
        let file = match &self.path {
            // The descriptor itself: what std buffers, poll would not see.
            None => File::from(io::stdin().as_fd().try_clone_to_owned()?),
            Some(path) => File::open(path)?,
        };
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(Counted {
            file,
            can_be_silent: self.is_read_once(),
            grows: self.follow && !self.is_read_once(),
            bar: bar.clone(),
            stop: Arc::clone(stop),
        })
    }
}

/// A reader that moves the progress bar.
struct Counted {
    file: File,
    can_be_silent: bool,
    /// More may come behind the end.
    grows: bool,
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

/// How long to wait for a silent pipe, or behind the end of a growing file, before the stop flag is checked again.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl Counted {
    /// Waits for something to read; returns `false` if the stop flag was set meanwhile.
    fn wait(&self) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: POLL_INTERVAL.subsec_nanos().into(),
        };
        while !self.stop.load(Ordering::Relaxed) {
            let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut ready, Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.can_be_silent && !self.wait()? {
            return Ok(0);
        }
        loop {
            let count = self.file.read(buffer)?;
            self.bar.inc(count as u64);
            if count > 0 || !self.grows || self.stop.load(Ordering::Relaxed) {
                return Ok(count);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The captures that the arguments name. Folders are searched; a file that is named is read
/// with any name.
pub fn find(arguments: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    if arguments.is_empty() {
        if io::stdin().is_terminal() {
            let message = "no capture given: name files or folders, or pipe a capture in \
                           (see tidegate detect --help)";
            return Err(UsageError(message.to_owned()).into());
        }
        return Ok(vec![Input::stdin()]);
    }
    let mut found = Vec::new();
    for path in arguments {
        if path.as_os_str() == "-" {
            if found.iter().any(Input::is_stdin) {
                let message = "standard input can be read only once".to_owned();
                return Err(UsageError(message).into());
            }
            found.push(Input::stdin());
        } else if path.is_dir() {
            let before = found.len();
            search(path, &mut found);
            if found.len() == before {
                let problem = "no captures in this folder: none of its files is named .pcap, .pcapng, .cap or .dmp \
                     (optionally followed by .gz, .xz or .zst), and none begins like a capture";
                found.push(Input::broken(path, problem.to_owned()));
            }
        } else {
            found.push(Input::file(path));
        }
    }
    Ok(found)
}

/// The one capture that the arguments name: in pieces, if they are to be joined.
///
/// # Errors
/// They name several captures, or a folder of captures that are not to be joined.
pub fn single(arguments: &[PathBuf], join: bool) -> anyhow::Result<Input> {
    match arguments {
        _ if join => Ok(Input::joined(find(arguments)?)),
        [only] if only.as_os_str() == "-" => Ok(Input::stdin()),
        [only] if only.is_dir() => {
            let message = format!(
                "{}: is a directory: name a capture in it, or add --join if they are the pieces of one",
                display(only)
            );
            Err(UsageError(message).into())
        }
        [only] => Ok(Input::file(only)),
        several => {
            let message = format!(
                "{} captures are named: name one, or add --join if they are the pieces of one",
                several.len()
            );
            Err(UsageError(message).into())
        }
    }
}

/// Refuses an output that would overwrite a capture.
pub fn refuse_overwriting(inputs: &[Input], output: Option<&Path>) -> anyhow::Result<()> {
    let Some(output) = output else { return Ok(()) };
    match inputs.iter().find(|input| input.is_same(output)) {
        Some(input) => {
            let message = format!(
                "{}: cannot be the output, since it is read as a capture: name another file with --output",
                input.name
            );
            Err(UsageError(message).into())
        }
        None => Ok(()),
    }
}

/// The captures in a folder and the folders in it, as they are now.
pub fn in_folder(folder: &Path) -> Vec<Input> {
    let mut found = Vec::new();
    search(folder, &mut found);
    found
}

/// Adds the captures in a folder and the folders in it.
fn search(folder: &Path, found: &mut Vec<Input>) {
    let input = |capture: Result<PathBuf, Unreadable>| match capture {
        Ok(path) => Input::file(&path),
        Err(problem) => Input::broken(&problem.folder, problem.error.to_string()),
    };
    found.extend(captures_in(folder).into_iter().map(input));
}

/// A path for people, without control characters: a file's name must not control the terminal.
pub fn display(path: &Path) -> Arc<str> {
    let name = path.to_string_lossy();
    name.chars()
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect::<String>()
        .into()
}
