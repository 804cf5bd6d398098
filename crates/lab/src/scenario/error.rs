//! What is wrong with a scenario, and where.

use std::fmt;

use tidegate_notation::{clean, position};

use super::tree::Place;

/// What is wrong, at a place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    pub place: Place,
    pub message: String,
}

impl Problem {
    pub fn new(place: Place, message: String) -> Self {
        Self { place, message }
    }
}

/// What is wrong with a scenario: where, what, and what to do. Printed as `FILE:LINE:COLUMN:
/// MESSAGE`, or with the setting of the command line that is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file's name as it was given, or the setting.
    pub file: String,
    /// Line and column, from 1; columns count characters. `None` in settings.
    pub position: Option<(usize, usize)>,
    /// What is wrong and what to do.
    pub message: String,
}

impl ScenarioError {
    pub(super) fn new(problem: Problem, file: &str, text: &str, settings: &[String]) -> Self {
        let (file, position) = match problem.place {
            Place::File(at) => (file.to_owned(), Some(position(text, at))),
            Place::Setting(number) => {
                let setting = settings.get(number).map_or("", String::as_str);
                (format!("--set {setting}"), None)
            }
        };
        Self {
            file,
            position,
            message: clean(&problem.message),
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScenarioError {}
