//! The interface between the gate and a data path.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use tidegate_limiter::{Nanos, NetworkNode, Scheme};

use crate::flow::Flow;
use crate::line::{Line, Lines};
use crate::table::{
    Attachment, Counters, Hook, LimiterState, Match, NodeState, PerDirection, Plan, Seat, Settings,
};

/// Numbers of packets that no limiter saw, by the name of the reason.
pub type Others = Vec<(&'static str, u64)>;

/// Why a data path refused: what, where, and what to do.
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

/// What came of the programs of another version of tidegate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// The names of those that were replaced.
    pub replaced: Vec<String>,
    /// The names of those that stay in force, each with the reason.
    pub kept: Vec<String>,
}

/// What a limiter knows, for the other gate of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The limiter's number.
    pub limiter: u32,
    /// The version of the plan that it follows. The first packet after a change of its plan lets it follow the new one.
    pub version: u32,
    /// The time of its latest packet, by the clock of the data path.
    pub at: Nanos,
    /// Its memory.
    pub state: Vec<u8>,
}

/// Plans, seats and limiters that packets pass. Mostly they outlive the process.
///
/// Every change can be made twice with the same result: after a crash the gate repeats changes that it
/// may have made before.
pub trait DataPath: Sized {
    /// Whether the limits stay in force when the process ends.
    const OUTLIVES_PROCESS: bool = true;

    /// Creates a data path that is pinned in this folder.
    ///
    /// # Errors
    /// If something is there already, or it cannot be created. Nothing is left behind then.
    fn create(pins: &Path, settings: &Settings) -> Result<Self, PathError>;
    /// Opens the data path in this folder.
    ///
    /// # Errors
    /// If there is none, or it is incomplete.
    fn open(pins: &Path) -> Result<Self, PathError>;
    /// Checks that this process would see a data path there. A command that does not must change nothing.
    ///
    /// # Errors
    /// If it is in another mount namespace than the data path would be.
    fn sees(_pins: &Path) -> Result<(), PathError> {
        Ok(())
    }
    /// Where this data path takes the packets that the file takes at this hook.
    fn hook(hook: Hook) -> Hook {
        hook
    }
    /// The network namespace whose interfaces this process would attach to, if there can be several.
    fn network() -> Option<u64> {
        None
    }
    /// Replaces programs that another version of tidegate has left in force by those of this version. Packets are limited all
    /// the time.
    fn renew(&mut self) -> Renewal {
        Renewal::default()
    }
    /// The names of such programs that are in force now.
    fn outdated(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// The gate in this folder, in messages.
    fn place(pins: &Path) -> String {
        format!("gate at {}", pins.display())
    }
    /// Whether a data path is there.
    fn exists(pins: &Path) -> bool;
    /// Removes the data path in this folder, even if it is incomplete.
    ///
    /// # Errors
    /// If something could not be removed. The rest is removed.
    fn clear(pins: &Path) -> Result<(), PathError>;
    /// Checks that the gate could attach to this interface.
    ///
    /// # Errors
    /// If the interface does not exist or does not support the hook.
    fn check(attachment: &Attachment) -> Result<(), PathError>;

    /// Whether it has limiters of this scheme.
    fn has(_scheme: Scheme) -> bool {
        true
    }

    /// Changes the settings for all packets.
    ///
    /// # Errors
    /// If they cannot be written.
    fn set_settings(&mut self, settings: &Settings) -> Result<(), PathError>;
    /// Makes room for this number of further plans. May forget plans that are neither `kept` nor
    /// assigned to packets.
    ///
    /// # Errors
    /// If the data path cannot be read. If the room does not suffice, [`put_plan`](Self::put_plan) fails.
    fn make_room(&mut self, plans: usize, kept: &dyn Fn(u32) -> bool) -> Result<(), PathError>;
    /// Stores a plan at a number that no limiter runs under.
    ///
    /// # Errors
    /// If there is no room for it.
    fn put_plan(&mut self, number: u32, plan: &Plan) -> Result<(), PathError>;
    /// Stores a node of the network at a number from 1 on; the node above it is another number. A `fresh` node has
    /// seen no packet, another one keeps what it knows.
    ///
    /// # Errors
    /// If there is no room for it.
    fn put_node(&mut self, number: u32, node: &NetworkNode, fresh: bool) -> Result<(), PathError>;
    /// What a node knows.
    ///
    /// # Errors
    /// If it cannot be read.
    fn node(&self, number: u32) -> Result<NodeState, PathError>;
    /// Checks that there is room for matches that nobody has, beside all that are assigned.
    ///
    /// # Errors
    /// If there is none.
    fn fits(&self, _more: &[Match]) -> Result<(), PathError> {
        Ok(())
    }
    /// Assigns packets to limiters, in place of earlier assignments.
    ///
    /// # Errors
    /// If there is no room.
    fn seat(&mut self, seats: &[(Match, PerDirection<Seat>)]) -> Result<(), PathError>;
    /// Removes assignments in both directions. Matches without one are ignored.
    ///
    /// # Errors
    /// If they cannot be removed.
    fn unseat(&mut self, matches: &[Match]) -> Result<(), PathError>;
    /// Makes room for limiters with numbers below this.
    ///
    /// # Errors
    /// If there is no memory.
    fn reserve(&mut self, limiters: u32) -> Result<(), PathError>;
    /// Resets a limiter, before its number is used again.
    ///
    /// # Errors
    /// If there is no such limiter.
    fn forget(&mut self, limiter: u32) -> Result<(), PathError>;
    /// The counters and queues of a limiter.
    ///
    /// # Errors
    /// If there is no such limiter.
    fn read(&self, limiter: u32) -> Result<LimiterState, PathError>;
    /// The limiters that had packets since a time of its clock, for the other gate of a pair. None if it cannot tell.
    ///
    /// # Errors
    /// If they cannot be read.
    fn export(&self, _limiters: Range<u32>, _since: Nanos) -> Result<Vec<Remembered>, PathError> {
        Ok(Vec::new())
    }
    /// Lets a limiter under a plan of this number and version go on where that of another gate is, if that had its latest
    /// packet later, at this time. The counters stay. Returns whether it does.
    ///
    /// # Errors
    /// If there is no such limiter.
    fn import(
        &mut self,
        _limiter: u32,
        _plan: (u32, u32),
        _state: &[u8],
        _at: Nanos,
    ) -> Result<bool, PathError> {
        Ok(false)
    }
    /// The present time of its clock.
    fn now(&self) -> Nanos {
        0
    }
    /// The counters of limiters, in the order of their numbers.
    ///
    /// # Errors
    /// If they cannot be read.
    fn counters(&self, limiters: Range<u32>) -> Result<Vec<Counters>, PathError>;
    /// What the lines of subscribers feel; `None` if nothing is watched.
    ///
    /// # Errors
    /// If it cannot be read.
    fn lines(&self) -> Result<Option<Lines>, PathError> {
        Ok(None)
    }
    /// What the line of a subscriber feels, by half the number of its limiters; `None` if it is not known.
    ///
    /// # Errors
    /// If it cannot be read.
    fn line(&self, _subscriber: u32) -> Result<Option<Line>, PathError> {
        Ok(None)
    }
    /// The watched flows of a subscriber, by the same number; `None` if nothing is watched.
    ///
    /// # Errors
    /// If they cannot be read.
    fn flows(&self, _subscriber: u32) -> Result<Option<Vec<Flow>>, PathError> {
        Ok(None)
    }
    /// Packets that no limiter saw: they match no subscriber, or are malformed.
    ///
    /// # Errors
    /// If they cannot be read.
    fn unknown(&self) -> Result<Others, PathError>;
    /// Begins what takes long and these attachments will need, beside the steps before them. If it fails, attaching reports it.
    fn prepare(&mut self, _attachments: &[Attachment]) {}
    /// Does what takes long before an interface is detached that this attachment is to replace, so that packets pass unlimited for
    /// as short as possible.
    ///
    /// # Errors
    /// If attaching would fail.
    fn ready(&mut self, _attachment: &Attachment) -> Result<(), PathError> {
        Ok(())
    }
    /// Attaches to an interface.
    ///
    /// # Errors
    /// If the interface does not exist or refuses.
    fn attach(&mut self, attachment: &Attachment) -> Result<(), PathError>;
    /// Detaches from an interface. Does nothing if it is not attached.
    ///
    /// # Errors
    /// If the interface refuses.
    fn detach(&mut self, attachment: &Attachment) -> Result<(), PathError>;
    /// The interfaces that are attached now, under the names that they were attached by.
    fn attachments(&self) -> Vec<Attachment>;
    /// The present name of the interface of an attachment, if the interface was renamed since.
    fn renamed(&self, attachment: &Attachment) -> Option<String>;
    /// Whether the device that is this attachment's interface has a link; `None` if the kernel has the interface, which tells it.
    fn link(&self, _attachment: &Attachment) -> Option<bool> {
        None
    }
    /// Detaches from all interfaces and removes everything.
    ///
    /// # Errors
    /// If something could not be removed. The rest is removed.
    fn remove(self) -> Result<(), PathError>;
}
