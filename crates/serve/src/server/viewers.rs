//! The start-up phases of viewers of adaptive video. A viewer fetches a track as many segments, often by several connections; the
//! start-up belongs to all of them.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// Sessions that are remembered.
const MOST: usize = 100_000;
/// A session is forgotten when it was idle for this time, or for up to twice as long.
const IDLE: Duration = Duration::from_secs(300);
/// A viewer who asks for what is further than this from the furthest place has jumped.
const JUMP: Duration = Duration::from_secs(30);

/// The viewers' sessions.
#[derive(Debug)]
pub(super) struct Viewers {
    start_up: Duration,
    /// Has a random key, so that clients cannot choose sessions that collide.
    hasher: RandomState,
    sessions: Mutex<Sessions>,
}

/// Sessions that were used lately, and those that were not used since then. When the first are many or old, they become the second,
/// and the second are forgotten: so those that are idle longest go first, at a constant cost.
#[derive(Debug)]
struct Sessions {
    recent: HashMap<Key, Session>,
    older: HashMap<Key, Session>,
    since: Instant,
}

/// A viewer's track of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

#[derive(Debug, Clone, Copy)]
struct Session {
    /// Video that may still be sent at full speed.
    credit: Duration,
    /// How far the viewer came.
    furthest: Option<Duration>,
    /// How often it started up.
    starts: u32,
    /// When there were tokens for what the last response sent after its start-up, until the next response takes this over.
    paid: Option<Instant>,
}

/// Credit that a response took, and gives back when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loan {
    key: Key,
    starts: u32,
    /// Video that may be sent at full speed.
    pub credit: Duration,
    /// When there were tokens for what the session was sent before.
    pub paid: Option<Instant>,
    place: Option<Duration>,
}

/// What became of a response that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// Video that was sent, and that could have been sent at full speed and was not.
    pub sent: Duration,
    pub unused: Duration,
    /// When there were tokens for what was sent.
    pub paid: Option<Instant>,
}

impl Viewers {
    /// No sessions yet; `start_up` is the video of each that is sent at full speed.
    pub fn new(start_up: Duration) -> Self {
        Self {
            start_up,
            hasher: RandomState::new(),
            sessions: Mutex::new(Sessions {
                recent: HashMap::new(),
                older: HashMap::new(),
                since: Instant::now(),
            }),
        }
    }

    /// The key of what identifies a session.
    pub fn key(&self, identity: impl Hash) -> Key {
        Key(self.hasher.hash_one(identity))
    }

    /// A response with video from `place` begins, and takes up to `wanted` of the session's credit. The session starts up again if
    /// its viewer has jumped, or `waits`.
    pub fn lend(&self, key: Key, place: Option<Duration>, waits: bool, wanted: Duration) -> Loan {
        let mut sessions = self.sessions();
        let session = sessions.recall(key, self.start_up);
        let jumped = place
            .zip(session.furthest)
            .is_some_and(|(place, furthest)| place.abs_diff(furthest) > JUMP);
        if jumped || waits {
            session.credit = self.start_up;
            session.starts = session.starts.wrapping_add(1);
            session.furthest = None;
            session.paid = None;
        }
        session.furthest = place.max(session.furthest);
        let credit = session.credit.min(wanted);
        session.credit -= credit;
        Loan {
            key,
            starts: session.starts,
            credit,
            paid: session.paid.take(),
            place,
        }
    }

    /// A response ended.
    pub fn give_back(&self, loan: Loan, ended: Ended) {
        let Ended { sent, unused, paid } = ended;
        let mut sessions = self.sessions();
        let session = sessions.recall(loan.key, self.start_up);
        // What a viewer left behind by a jump counts no more.
        if session.starts != loan.starts {
            return;
        }
        session.credit = self.start_up.min(session.credit.saturating_add(unused));
        let reached = loan.place.map(|place| place.saturating_add(sent));
        session.furthest = reached.max(session.furthest);
        session.paid = session.paid.max(paid);
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    /// A session, which is new if it is not known.
    fn recall(&mut self, key: Key, start_up: Duration) -> &mut Session {
        let idle = self.since.elapsed();
        if idle >= IDLE || self.recent.len() >= MOST / 2 {
            self.older = std::mem::take(&mut self.recent);
            self.since = Instant::now();
        }
        if idle >= 2 * IDLE {
            self.older.clear();
        }
        let older = &mut self.older;
        self.recent.entry(key).or_insert_with(|| {
            let new = Session {
                credit: start_up,
                furthest: None,
                starts: 0,
                paid: None,
            };
            older.remove(&key).unwrap_or(new)
        })
    }
}
