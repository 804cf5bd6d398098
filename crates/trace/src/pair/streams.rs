//! Which stream of one capture is which of the other, through address translation too.
//!
//! Sequence numbers begin at random, so a packet's number and length name it well enough even
//! where addresses, ports, identifications and options were rewritten. Streams that share the most
//! packets belong together.

use std::collections::BTreeMap;

use super::gather::Gathered;
use super::record::Record;
use crate::wire::Flags;

/// Shared packets without which streams between other endpoints are not taken for the same.
const LEAST_SHARED: u32 = 3;

/// A stream as both captures number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamPair {
    pub a: u32,
    pub b: u32,
}

/// The streams that both captures hold, by their numbers in the first.
pub(crate) fn pairs(a: &Gathered, b: &Gathered) -> Vec<StreamPair> {
    let mut votes: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let (prints_a, prints_b) = (prints(a), prints(b));
    let (mut i, mut j) = (0, 0);
    while let (Some(&(print_a, stream_a)), Some(&(print_b, stream_b))) =
        (prints_a.get(i), prints_b.get(j))
    {
        match print_a.cmp(&print_b) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                *votes.entry((stream_a, stream_b)).or_default() += 1;
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    let same = |a_number: u32, b_number: u32| {
        let (x, y) = (&a.streams[a_number as usize], &b.streams[b_number as usize]);
        (x.src, x.dst) == (y.src, y.dst)
    };
    let mut ranked: Vec<(bool, u32, StreamPair)> = votes
        .into_iter()
        .map(|((a, b), shared)| (same(a, b), shared, StreamPair { a, b }))
        .filter(|&(same, shared, pair)| {
            let fewest = a.streams[pair.a as usize]
                .packets
                .min(b.streams[pair.b as usize].packets);
            same || shared >= LEAST_SHARED || u64::from(shared) == fewest
        })
        .collect();
    ranked.sort_by(|x, y| (y.1, y.0, x.2).cmp(&(x.1, x.0, y.2)));
    let mut found = Found {
        of_a: vec![None; a.streams.len()],
        of_b: vec![None; b.streams.len()],
    };
    for (_, _, pair) in ranked {
        if found.join(pair) {
            // What goes one way comes back on the other.
            let (Some(back_a), Some(back_b)) = (
                a.streams[pair.a as usize].reverse,
                b.streams[pair.b as usize].reverse,
            ) else {
                continue;
            };
            found.join(StreamPair {
                a: back_a,
                b: back_b,
            });
        }
    }
    let pairs = found.of_a.into_iter().enumerate();
    pairs
        .filter_map(|(a, b)| Some(StreamPair { a: a as u32, b: b? }))
        .collect()
}

struct Found {
    of_a: Vec<Option<u32>>,
    of_b: Vec<Option<u32>>,
}

impl Found {
    /// Joins two streams, unless one of them has another partner.
    fn join(&mut self, pair: StreamPair) -> bool {
        let (a, b) = (pair.a as usize, pair.b as usize);
        let free = self.of_a[a].is_none() && self.of_b[b].is_none();
        if free {
            self.of_a[a] = Some(pair.b);
            self.of_b[b] = Some(pair.a);
        }
        free
    }
}

/// What names each packet whatever a network does to it, with its stream; sorted, each once. Of a
/// super-packet it is the first wire packet's, and of any packet only its beginning.
fn prints(capture: &Gathered) -> Vec<(u64, u32)> {
    let mut prints: Vec<(u64, u32)> = capture
        .records
        .iter()
        .map(|record| (print(record), record.stream))
        .collect();
    prints.sort_unstable();
    prints.dedup();
    prints
}

fn print(record: &Record) -> u64 {
    let kind =
        u32::from(record.flags.0 & (Flags::SYN | Flags::RST)) << 1 | u32::from(record.payload > 0);
    let number = if record.payload > 0 {
        kind
    } else {
        kind ^ record.ack
    };
    u64::from(record.seq) << 32 | u64::from(number)
}
