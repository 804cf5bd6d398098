//! The mistakes in a configuration, with their places: all of them, not only the first.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use tidegate_notation::{Mistake, Place, Position, clean, position};

/// A mistake: where it is, what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Where in the file.
    pub position: Option<Position>,
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
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        if !self.line.trim().is_empty() {
            write!(f, "\n  {}\n  {:>mark$}", self.line, "^", mark = self.mark)?;
        }
        Ok(())
    }
}

/// All mistakes in a configuration, in the order in which it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The first [`ConfigErrors::MOST`].
    pub problems: Vec<Problem>,
    /// The number of further mistakes.
    pub more: usize,
}

impl ConfigErrors {
    /// Most mistakes that are reported.
    pub const MOST: usize = 20;

    /// A mistake that is about a whole file.
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

/// A mistake, and the place of the text that it contradicts.
type Found = (Mistake, Option<Place>);

/// Collects mistakes.
#[derive(Debug, Default)]
pub(super) struct Sink {
    found: RefCell<Vec<Found>>,
    /// Number of mistakes beyond those that are kept.
    more: RefCell<usize>,
}

impl Sink {
    /// Further mistakes are only counted: a wrong column causes one in each of 100,000 lines.
    const KEPT: usize = 100;

    pub fn add(&self, mistake: Mistake) {
        self.add_with(|| (mistake, None));
    }

    /// Keeps the mistake, if there is one.
    pub fn note<T>(&self, read: Result<T, Mistake>) -> Option<T> {
        read.map_err(|mistake| self.add(mistake)).ok()
    }

    pub fn wrong(&self, place: Place, message: impl Into<String>) {
        self.add(Mistake::new(place, message));
    }

    /// Adds a mistake that takes some time to describe, and the place of the text that it contradicts.
    pub fn add_with(&self, describe: impl FnOnce() -> (Mistake, Option<Place>)) {
        let mut found = self.found.borrow_mut();
        if found.len() < Self::KEPT {
            found.push(describe());
        } else {
            *self.more.borrow_mut() += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// The mistakes that were found, with the lines of the files.
    pub fn into_errors(self, files: &[(PathBuf, String)]) -> ConfigErrors {
        let mut found = self.found.into_inner();
        found.sort_by_key(|(mistake, _)| mistake.place);
        found.dedup();
        let more = found.len().saturating_sub(ConfigErrors::MOST) + self.more.into_inner();
        found.truncate(ConfigErrors::MOST);
        let line = |place: Place| {
            let (file, text) = &files[place.text as usize];
            (file, text, position(text, place.byte))
        };
        let problem = |(mistake, other): Found| {
            let (file, text, position) = line(mistake.place);
            let mut message = mistake.message;
            if let Some((file, _, Position { line, .. })) = other.map(line) {
                message += &format!(", in {}:{line}", file.display());
            }
            let (shown, mark) = excerpt(text, position);
            Problem {
                file: file.clone(),
                position: Some(position),
                message: clean(&message),
                line: shown,
                mark,
            }
        };
        ConfigErrors {
            problems: found.into_iter().map(problem).collect(),
            more,
        }
    }
}

/// The line, or 100 characters of it around the column, and where the column is in that.
fn excerpt(text: &str, Position { line, column }: Position) -> (String, usize) {
    const WIDTH: usize = 100;
    let Some(full) = text.lines().nth(line - 1) else {
        return (String::new(), 1);
    };
    let skip = column.saturating_sub(WIDTH * 2 / 3);
    let shown: String = full.chars().skip(skip).take(WIDTH).collect();
    (clean(&shown.replace('\t', " ")), column - skip)
}
