//! The mistakes in a configuration, with their places: all of them, not only the first.

use std::cell::{Cell, RefCell};
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
    /// Lines that may be written there; empty if the message says enough.
    example: &'static str,
}

impl Problem {
    /// Place and message, without the line.
    pub fn in_short(&self) -> String {
        let file = clean(&self.file.to_string_lossy());
        match self.position {
            Some(Position { line, column }) => format!("{file}:{line}:{column}: {}", self.message),
            None => format!("{file}: {}", self.message),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_short())?;
        if !self.line.trim().is_empty() {
            write!(f, "\n  {}\n  {:>mark$}", self.line, "^", mark = self.mark)?;
        }
        let mut example = self.example.lines();
        example.try_for_each(|line| write!(f, "\n  {line}"))
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
                example: "",
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

/// Lines of CSV files that were skipped, since their file is read leniently.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Number of lines.
    pub lines: usize,
    /// Their mistakes: the first 100.
    pub problems: Vec<Problem>,
}

/// A mistake that was found.
#[derive(Debug, PartialEq)]
struct Found {
    mistake: Mistake,
    /// The place of the text that it contradicts.
    other: Option<Place>,
    /// See [`Problem::example`].
    example: &'static str,
}

/// Collects mistakes.
#[derive(Debug, Default)]
pub(super) struct Sink {
    found: RefCell<Vec<Found>>,
    /// Number of mistakes beyond those that are kept.
    more: Cell<usize>,
    /// Whether mistakes are about lines that can be skipped.
    lenient: Cell<bool>,
    skipped: RefCell<Vec<Found>>,
    /// Number of lines that were skipped.
    lines: Cell<usize>,
    /// Number of mistakes of both kinds.
    count: Cell<usize>,
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
        self.count.set(self.count.get() + 1);
        let lenient = self.lenient.get();
        let list = if lenient { &self.skipped } else { &self.found };
        let mut list = list.borrow_mut();
        if list.len() < Self::KEPT {
            let (mistake, other) = describe();
            list.push(Found {
                mistake,
                other,
                example: "",
            });
        } else if !lenient {
            self.more.set(self.more.get() + 1);
        }
    }

    /// Adds that a file is empty, and what may be in it.
    pub fn empty(&self, place: Place, message: &str, example: &'static str) {
        self.count.set(self.count.get() + 1);
        self.found.borrow_mut().push(Found {
            mistake: Mistake::new(place, message),
            other: None,
            example,
        });
    }

    /// From now on, mistakes are about lines that can be skipped, or are not.
    pub fn set_lenient(&self, lenient: bool) {
        self.lenient.set(lenient);
    }

    /// Whether mistakes are about lines that can be skipped.
    pub fn is_lenient(&self) -> bool {
        self.lenient.get()
    }

    /// Number of mistakes so far.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// Counts a line that is skipped.
    pub fn skip(&self) {
        self.lines.set(self.lines.get() + 1);
    }

    /// The lines that were skipped, with those of the files.
    pub fn skipped(&self, files: &[(PathBuf, String)]) -> Skipped {
        Skipped {
            lines: self.lines.get(),
            problems: problems(self.skipped.take(), files),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// The mistakes that were found in what has no places.
    pub fn into_messages(self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for Found { mistake, .. } in self.found.into_inner() {
            let message = clean(&mistake.message);
            if !found.contains(&message) {
                found.push(message);
            }
        }
        found.truncate(ConfigErrors::MOST);
        found
    }

    /// The mistakes that were found, with the lines of the files.
    pub fn into_errors(self, files: &[(PathBuf, String)]) -> ConfigErrors {
        let mut found: Vec<Found> = Vec::new();
        // Those of a plan are found once for each direction.
        for one in self.found.into_inner() {
            if !found.contains(&one) {
                found.push(one);
            }
        }
        found.sort_by_key(|found| found.mistake.place);
        let more = found.len().saturating_sub(ConfigErrors::MOST) + self.more.get();
        found.truncate(ConfigErrors::MOST);
        ConfigErrors {
            problems: problems(found, files),
            more,
        }
    }
}

/// Mistakes with the lines of the files.
fn problems(found: Vec<Found>, files: &[(PathBuf, String)]) -> Vec<Problem> {
    let line = |place: Place| {
        let (file, text) = &files[place.text as usize];
        (file, text, position(text, place.byte))
    };
    let problem = |found: Found| {
        let Found {
            mistake,
            other,
            example,
        } = found;
        let (file, text, position) = line(mistake.place);
        let mut message = mistake.message;
        if let Some((file, _, Position { line, .. })) = other.map(line) {
            message += &format!(", in {}:{line}", file.display());
        }
        let (shown, mark) = match example {
            "" => excerpt(text, position),
            _ => (String::new(), 1),
        };
        Problem {
            file: file.clone(),
            position: Some(position),
            message: clean(&message),
            line: shown,
            mark,
            example,
        }
    };
    found.into_iter().map(problem).collect()
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
