//! Where captures come from, and who watches long tasks.

use std::io::{self, Read};

/// Where the bytes of captures are.
pub trait Files: Sync {
    /// Opens a capture by its number.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>>;

    /// Whether reading should pause, for more of the file is on its way.
    fn pauses(&self) -> bool {
        false
    }

    /// A share of a long task is done. Answers whether somebody wants to see what there is up to now.
    fn progress(&self, share: f64) -> bool {
        let _ = share;
        false
    }

    /// Shows what there is up to now.
    fn show(&self, live: Live) {
        let _ = live;
    }
}

/// A simulation that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// Which one it is, how long it lasts, and its panels.
    pub told: String,
    /// The panels' curves, one panel after the other, each as in the answer to [`Request::Panel`](crate::request::Request::Panel).
    pub numbers: Vec<Vec<f64>>,
}
