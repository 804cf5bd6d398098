//! The room that matches take in the maps of a data path.

use std::collections::BTreeSet;

use crate::limits::{MAX_LENGTHS, MAX_PREFIXES, MAX_TAGS};
use crate::table::Match;

/// Where IPv4 is in IPv6, `::ffff:0:0` (RFC 4291 §2.5.5.2).
const IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];

/// The kind of match for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are more of these than this number.
    Count(&'static str, usize),
    /// These have more different lengths than [`MAX_LENGTHS`].
    Lengths(&'static str),
}

/// The matches of one direction. Both directions have the same.
#[derive(Debug, Default, Clone)]
pub(crate) struct Room {
    /// Lengths of prefixes in use, of IPv6 and IPv4.
    lengths: [BTreeSet<u32>; 2],
    /// Number of matches: IPv6, IPv4, tags.
    counts: [usize; 3],
}

impl Room {
    /// Adds a match that is not there yet. Returns the kind of room that it exceeds, if it is the
    /// first to exceed it.
    pub fn add(&mut self, what: &Match) -> Option<Full> {
        match what {
            Match::Prefix(prefix) if prefix.is_ipv4() => self.prefix(1, prefix.bits()),
            Match::Prefix(prefix) => {
                let six = self.prefix(0, prefix.bits());
                // Packets of IPv4 look for it among the prefixes of IPv4.
                let four = prefix.contains(IPV4);
                let four = four.then(|| self.prefix(1, prefix.bits())).flatten();
                six.or(four)
            }
            _ => self.count(2),
        }
    }

    fn count(&mut self, kind: usize) -> Option<Full> {
        let (name, most) = [
            ("IPv6 prefixes", MAX_PREFIXES),
            ("IPv4 prefixes", MAX_PREFIXES),
            ("tags and sessions", MAX_TAGS),
        ][kind];
        self.counts[kind] += 1;
        (self.counts[kind] == most + 1).then_some(Full::Count(name, most))
    }

    fn prefix(&mut self, kind: usize, bits: u32) -> Option<Full> {
        let name = ["IPv6 prefixes", "IPv4 prefixes"][kind];
        let count = self.count(kind);
        let new = self.lengths[kind].insert(bits);
        let full = new && self.lengths[kind].len() == MAX_LENGTHS + 1;
        count.or(full.then_some(Full::Lengths(name)))
    }
}
