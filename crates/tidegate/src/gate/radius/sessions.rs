//! Which session an address belongs to, so that a late packet of an earlier one changes nothing.
//!
//! An access server sends a packet of accounting again until it is answered (RFC 2866, section 2), and it may send those of a new session
//! meanwhile.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_gate::radius::Kind;
use tidegate_gate::table::Match;

/// Addresses whose sessions are known. With more of them, all are forgotten, and packets count as they come.
const MOST: usize = 1 << 20;

/// What is known since the daemon began.
#[derive(Debug, Clone, Default)]
pub struct Sessions(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    by: HashMap<Match, Sides>,
    /// Sessions are compared by the hash of their names.
    hash: RandomState,
}

/// The sessions of an address.
#[derive(Debug, Clone, Copy, Default)]
struct Sides {
    /// The one that it belongs to.
    now: Option<u64>,
    /// The last one that ended.
    ended: Option<u64>,
}

impl Sessions {
    /// Of the addresses in a request of accounting those that it speaks of now. A session that ended does not go on, and the end of one session
    /// is not that of another one.
    pub fn current(&self, kind: Kind, session: Option<&[u8]>, matches: &[Match]) -> Vec<Match> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = session else {
            return matches.to_vec();
        };
        let session = known.hash.hash_one(session);
        let is_current = |what: &&Match| {
            let sides = known.by.get(*what).copied().unwrap_or_default();
            match kind {
                Kind::GoesOn => sides.ended != Some(session),
                Kind::End => sides.now.is_none_or(|now| now == session),
                _ => true,
            }
        };
        let current = matches.iter().filter(is_current).copied().collect();
        if known.by.len() + matches.len() > MOST {
            known.by.clear();
        }
        for what in matches {
            let sides = known.by.entry(*what).or_default();
            match kind {
                // Access servers may begin with the same numbers again.
                Kind::Begin => {
                    sides.now = Some(session);
                    sides.ended = sides.ended.filter(|&ended| ended != session);
                }
                Kind::GoesOn if sides.ended != Some(session) => sides.now = Some(session),
                Kind::End => {
                    sides.now = sides.now.filter(|&now| now != session);
                    sides.ended = Some(session);
                }
                _ => {}
            }
        }
        current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a packet with this status of a session speaks of, of 192.0.2.7.
    fn says(sessions: &Sessions, kind: Kind, session: Option<&str>) -> bool {
        let matches = ["192.0.2.7".parse().expect("an address")];
        let current = sessions.current(kind, session.map(str::as_bytes), &matches);
        assert!(current.is_empty() || current == matches);
        !current.is_empty()
    }

    #[test]
    fn late_packets_of_an_earlier_session_change_nothing() {
        use Kind::{Begin, End, GoesOn};
        let sessions = Sessions::default();
        let says = |kind, session| says(&sessions, kind, Some(session));
        // Nothing is known yet, as after a restart of the daemon.
        assert!(says(End, "0"));
        assert!(says(Begin, "1") && says(GoesOn, "1"));
        // The next one begins before the first one ends.
        assert!(says(Begin, "2"));
        assert!(!says(End, "1"));
        assert!(!says(GoesOn, "1"));
        assert!(says(GoesOn, "2") && says(End, "2"));
        // It was answered, but the answer was lost.
        assert!(says(End, "2"));
        assert!(!says(GoesOn, "2"));
        // A beginning that was lost.
        assert!(says(GoesOn, "3") && says(End, "3"));
        // Numbers begin again.
        assert!(says(Begin, "3") && says(GoesOn, "3") && says(End, "3"));
    }

    #[test]
    fn sessions_without_names_count_as_they_come() {
        let sessions = Sessions::default();
        assert!(says(&sessions, Kind::Begin, Some("1")));
        for kind in [Kind::End, Kind::GoesOn, Kind::End] {
            assert!(says(&sessions, kind, None));
        }
    }
}
