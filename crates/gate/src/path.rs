//! What the gate needs of a data path: the kernel's, or one in memory.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use crate::table::{Attachment, Counters, Direction, LimiterState, Match, Plan, Seat, Settings};

/// What packets that were no subscriber's came to: names that do not change, and how many.
pub type Others = Vec<(&'static str, u64)>;

/// Why a data path would not do something: what, where, and what to do about it.
#[derive(Debug)]
pub struct PathError(pub Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<String> for PathError {
    fn from(message: String) -> Self {
        Self(message.into())
    }
}

/// Plans, seats and limiters that packets run through; it outlives the process.
///
/// All that changes it can be done twice with the result of once: after a crash the gate does again
/// what it may have done before.
pub trait DataPath: Sized {
    /// A new one, kept in this folder; fails if something is there.
    ///
    /// # Errors
    /// Whatever hinders it; nothing is left behind then.
    fn create(pins: &Path, settings: &Settings) -> Result<Self, PathError>;
    /// Takes over the one that is there.
    ///
    /// # Errors
    /// If there is none, or it is not whole.
    fn open(pins: &Path) -> Result<Self, PathError>;
    /// Whether anything is there.
    fn exists(pins: &Path) -> bool;
    /// Removes what is there, also if it is not whole.
    ///
    /// # Errors
    /// What could not be removed.
    fn clear(pins: &Path) -> Result<(), PathError>;
    /// Whether packets could be taken from this interface: it is there, and does what is asked.
    ///
    /// # Errors
    /// Why not.
    fn check(attachment: &Attachment) -> Result<(), PathError>;

    /// What holds for all packets.
    ///
    /// # Errors
    /// Whatever hinders it.
    fn set_settings(&mut self, settings: &Settings) -> Result<(), PathError>;
    /// Makes room for so many more plans: what only plans at other numbers than these need is given
    /// up, but for those that packets are led to.
    ///
    /// # Errors
    /// Whatever hinders it; that there is not enough is told by [`put_plan`](Self::put_plan).
    fn make_room(&mut self, plans: usize, kept: &dyn Fn(u32) -> bool) -> Result<(), PathError>;
    /// Puts a plan that no limiter runs under yet.
    ///
    /// # Errors
    /// If there is no room for it.
    fn put_plan(&mut self, number: u32, plan: &Plan) -> Result<(), PathError>;
    /// Leads packets to limiters; replaces where they were led.
    ///
    /// # Errors
    /// If there is no room.
    fn seat(&mut self, direction: Direction, seats: &[(Match, Seat)]) -> Result<(), PathError>;
    /// Packets that fit these are nobody's from now on; those that are so already are passed over.
    ///
    /// # Errors
    /// Whatever hinders it.
    fn unseat(&mut self, direction: Direction, matches: &[Match]) -> Result<(), PathError>;
    /// Makes room for the limiters of numbers below this.
    ///
    /// # Errors
    /// If there is no memory.
    fn reserve(&mut self, limiters: u32) -> Result<(), PathError>;
    /// Back to nothing, before the number is used again.
    ///
    /// # Errors
    /// Whatever hinders it.
    fn forget(&mut self, limiter: u32) -> Result<(), PathError>;
    /// A limiter as it is.
    ///
    /// # Errors
    /// Whatever hinders it.
    fn read(&self, limiter: u32) -> Result<LimiterState, PathError>;
    /// What limiters have counted, in the order of their numbers.
    ///
    /// # Errors
    /// Whatever hinders it.
    fn counters(&self, limiters: Range<u32>) -> Result<Vec<Counters>, PathError>;
    /// Packets of nobody, and those that were not understood.
    ///
    /// # Errors
    /// Whatever hinders it.
    fn unknown(&self) -> Result<Others, PathError>;
    /// Takes packets from here.
    ///
    /// # Errors
    /// If the interface is not there or would not have it.
    fn attach(&mut self, attachment: &Attachment) -> Result<(), PathError>;
    /// No longer; nothing if it is not attached.
    ///
    /// # Errors
    /// Whatever hinders it.
    fn detach(&mut self, attachment: &Attachment) -> Result<(), PathError>;
    /// Where packets are taken from now.
    fn attachments(&self) -> Vec<Attachment>;
    /// Detaches and leaves nothing behind.
    ///
    /// # Errors
    /// What could not be removed.
    fn remove(self) -> Result<(), PathError>;
}
