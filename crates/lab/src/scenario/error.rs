//! Mistakes in a scenario, with their places.

use std::fmt;

use tidegate_notation::{Mistake, Place, Position, clean, position};

/// A mistake in a scenario: where it is, what is wrong, and what to do. Printed as
/// `FILE:LINE:COLUMN: MESSAGE`, or with the wrong setting of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file's name as it was given, or the setting.
    pub file: String,
    /// Where in the file. `None` in settings.
    pub position: Option<Position>,
    /// What is wrong and what to do.
    pub message: String,
}

impl ScenarioError {
    pub(super) fn new(mistake: Mistake, file: &str, text: &str, settings: &[String]) -> Self {
        let (file, position) = match setting_of(mistake.place) {
            None => (file.to_owned(), Some(position(text, mistake.place.byte))),
            Some(number) => {
                let setting = settings.get(number).map_or("", String::as_str);
                (format!("--set {setting}"), None)
            }
        };
        Self {
            file,
            position,
            message: clean(&mistake.message),
        }
    }
}

/// The text of the setting of this number: the file is text 0.
pub(super) fn text_of(setting: usize) -> u32 {
    setting as u32 + 1
}

/// The number of the setting that a place is in; `None` in the file.
pub(super) fn setting_of(place: Place) -> Option<usize> {
    (place.text as usize).checked_sub(1)
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScenarioError {}
