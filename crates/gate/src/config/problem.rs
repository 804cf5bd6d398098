//! What is wrong with a configuration, and where: all of it, not only the first.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use tidegate_notation::clean;

/// Where something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Number of the file, in the order in which they were read.
    pub file: u32,
    pub at: At,
}

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum At {
    /// At this byte.
    Byte(usize),
    /// In this line and column, from 1.
    Line(usize, usize),
}

/// Something that is wrong: where, what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Line and column, from 1; columns count characters.
    pub position: Option<(usize, usize)>,
    /// What is wrong and what to do.
    pub message: String,
    /// The line as it was written, shortened if it is long; empty if there is none.
    pub line: String,
    /// The column in `line`, from 1.
    mark: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", clean(&self.file.to_string_lossy()))?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        if !self.line.trim().is_empty() {
            write!(f, "\n  {}\n  {:>mark$}", self.line, "^", mark = self.mark)?;
        }
        Ok(())
    }
}

/// All that is wrong with a configuration, in the order in which it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The first [`ConfigErrors::MOST`].
    pub problems: Vec<Problem>,
    /// How many there are besides.
    pub more: usize,
}

impl ConfigErrors {
    /// As many are told.
    pub const MOST: usize = 20;

    /// One that is about a whole file.
    pub(super) fn of_file(file: &Path, message: String) -> Self {
        Self {
            problems: vec![Problem {
                file: file.to_owned(),
                position: None,
                message: clean(&message),
                line: String::new(),
                mark: 1,
            }],
            more: 0,
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        match self.more {
            0 => Ok(()),
            1 => write!(f, "\nand 1 error more"),
            more => write!(f, "\nand {more} errors more"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// Something that is wrong: its place, what it is, and the place of what it is at odds with.
type Found = (Place, String, Option<Place>);

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(super) struct Sink {
    found: RefCell<Vec<Found>>,
    /// Beyond those that are kept.
    more: RefCell<usize>,
}

impl Sink {
    /// No file is read for more: what a wrong column does to 100,000 lines need not be kept.
    const KEPT: usize = 100;

    pub fn wrong(&self, place: Place, message: impl Into<String>) {
        self.wrong_with(place, || (message.into(), None));
    }

    /// The same with a place that takes some time to find.
    pub fn wrong_at(&self, place: impl FnOnce() -> Place, message: impl Into<String>) {
        if self.found.borrow().len() < Self::KEPT {
            self.wrong(place(), message);
        } else {
            *self.more.borrow_mut() += 1;
        }
    }

    /// The same with a message that takes some time to make, and another place that it ends with.
    pub fn wrong_with(&self, place: Place, tell: impl FnOnce() -> (String, Option<Place>)) {
        let mut found = self.found.borrow_mut();
        if found.len() < Self::KEPT {
            let (message, other) = tell();
            found.push((place, message, other));
        } else {
            *self.more.borrow_mut() += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// What was found, with the lines of the files.
    pub fn into_errors(self, files: &[(PathBuf, String)]) -> ConfigErrors {
        let mut found = self.found.into_inner();
        found.sort_by_key(|(place, ..)| *place);
        found.dedup();
        let more = found.len().saturating_sub(ConfigErrors::MOST) + self.more.into_inner();
        found.truncate(ConfigErrors::MOST);
        let tell = |(place, mut message, other): Found| {
            let (file, text) = &files[place.file as usize];
            let (line, column) = position(text, place.at);
            if let Some(other) = other {
                let (file, text) = &files[other.file as usize];
                let (line, _) = position(text, other.at);
                message += &format!(", in {}:{line}", file.display());
            }
            let (shown, mark) = excerpt(text, line, column);
            Problem {
                file: file.clone(),
                position: Some((line, column)),
                message: clean(&message),
                line: shown,
                mark,
            }
        };
        ConfigErrors {
            problems: found.into_iter().map(tell).collect(),
            more,
        }
    }
}

/// Line and column of a place.
fn position(text: &str, at: At) -> (usize, usize) {
    match at {
        At::Line(line, column) => (line, column),
        At::Byte(at) => tidegate_notation::position(text, at),
    }
}

/// The line, or 100 characters of it around the column, and where the column is in that.
fn excerpt(text: &str, line: usize, column: usize) -> (String, usize) {
    const WIDTH: usize = 100;
    let Some(full) = text.lines().nth(line - 1) else {
        return (String::new(), 1);
    };
    let skip = column.saturating_sub(WIDTH * 2 / 3);
    let shown: String = full.chars().skip(skip).take(WIDTH).collect();
    (clean(&shown.replace('\t', " ")), column - skip)
}
