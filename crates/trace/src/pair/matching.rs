//! Which packet of one capture is which of the other: each transmission and its own arrival.
//!
//! Packets are alike if they carry the same sequence numbers with the same timestamp; bare
//! acknowledgements also the same number, window and echo. Nearly all are alike to one packet only.
//! Those that are not (retransmissions within a tick of the sender's clock, or without timestamps)
//! are distinguished by their IP identification, and then by time: a packet arrives after it was sent.

use std::collections::BTreeSet;
use std::ops::Range;

use super::gather::Wire;
use super::record::Record;
use super::streams::StreamPair;
use crate::wire::Flags;

/// A packet as both captures number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub a: u32,
    pub b: u32,
}

/// Packets that are alike, some of which are still to be distinguished.
#[derive(Debug, Clone)]
pub(crate) struct Ambiguous {
    /// In both captures, in the order of their times.
    pub a: Vec<u32>,
    pub b: Vec<u32>,
}

/// The packets of a stream, compared.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub matches: Vec<Match>,
    pub ambiguous: Vec<Ambiguous>,
}

type Key = (u32, u32, u32, u64);

/// Compares the packets of a stream.
pub(crate) fn compare(a: &Wire, b: &Wire, pair: StreamPair) -> Compared {
    let timestamps = a.streams[pair.a as usize].timestamps && b.streams[pair.b as usize].timestamps;
    let (keys_a, keys_b) = (
        keys(a, a.range(pair.a), timestamps),
        keys(b, b.range(pair.b), timestamps),
    );
    let mut compared = Compared::default();
    let (mut i, mut j) = (0, 0);
    while i < keys_a.len() && j < keys_b.len() {
        let (key_a, key_b) = (keys_a[i].0, keys_b[j].0);
        if key_a < key_b {
            i += run(&keys_a[i..]);
        } else if key_b < key_a {
            j += run(&keys_b[j..]);
        } else {
            let (n, m) = (run(&keys_a[i..]), run(&keys_b[j..]));
            let numbers = |keys: &[(Key, u32)]| keys.iter().map(|&(_, number)| number).collect();
            if n == 1 && m == 1 {
                let (a, b) = (keys_a[i].1, keys_b[j].1);
                compared.matches.push(Match { a, b });
            } else {
                compared.ambiguous.push(Ambiguous {
                    a: numbers(&keys_a[i..i + n]),
                    b: numbers(&keys_b[j..j + m]),
                });
            }
            (i, j) = (i + n, j + m);
        }
    }
    compared
}

/// How many keys at the beginning are the same.
fn run(keys: &[(Key, u32)]) -> usize {
    let first = keys.first().map(|key| key.0);
    keys.iter().take_while(|key| Some(key.0) == first).count()
}

/// Keys with the records' numbers, sorted; of equal keys the earlier record first.
fn keys(wire: &Wire, range: Range<usize>, timestamps: bool) -> Vec<(Key, u32)> {
    let records = &wire.records[range.clone()];
    let mut keys: Vec<(Key, u32)> = range
        .zip(records)
        .map(|(number, record)| (key(record, timestamps), number as u32))
        .collect();
    keys.sort_unstable();
    keys
}

fn key(record: &Record, timestamps: bool) -> Key {
    let kind = record.flags.0 & (Flags::SYN | Flags::FIN | Flags::RST);
    let window = u32::from(record.window);
    let says = match record.payload {
        // Without timestamps in one of the captures, which a snapshot length may have cut, other options may
        // be missing there too.
        0 if timestamps => u64::from(record.ack) << 32 | u64::from(record.says ^ window),
        0 => u64::from(record.ack) << 32 | u64::from(window),
        _ => 0,
    };
    let tsval = if timestamps { record.tsval } else { 0 };
    (
        record.seq,
        record.payload << 8 | u32::from(kind),
        tsval,
        says,
    )
}

/// Tells alike packets apart, given the records and how much later than possible `b` would be if
/// it were the arrival of `a`, in nanoseconds: negative where it is too early. Returns the arrivals that are
/// left: packets that were duplicated on the way.
pub(crate) fn resolve(
    alike: &Ambiguous,
    from: &[Record],
    to: &[Record],
    a_is_from: bool,
    later: impl Fn(&Record, &Record) -> f64,
    matches: &mut Vec<Match>,
) -> Vec<u32> {
    let before = matches.len();
    let (mut sent, mut arrived) = if a_is_from {
        (alike.a.clone(), alike.b.clone())
    } else {
        (alike.b.clone(), alike.a.clone())
    };
    let mut found = |from: u32, to: u32| {
        matches.push(if a_is_from {
            Match { a: from, b: to }
        } else {
            Match { a: to, b: from }
        });
    };
    // First those whose identification only one packet has on either side.
    let id = |records: &[Record], number: u32| records[number as usize].ip_id;
    let ids = sorted(&sent, |number| id(from, number));
    let ids_there = sorted(&arrived, |number| id(to, number));
    let (mut gone, mut gone_there) = (BTreeSet::new(), BTreeSet::new());
    for &(ip_id, number) in &ids {
        if let (Some(only), Some(there)) = (one(&ids, ip_id), one(&ids_there, ip_id))
            && ip_id != 0
            && only == number
            && later(&from[number as usize], &to[there as usize]) >= 0.0
        {
            found(number, there);
            gone.insert(number);
            gone_there.insert(there);
        }
    }
    sent.retain(|number| !gone.contains(number));
    arrived.retain(|number| !gone_there.contains(number));
    // The first of several copies is the packet itself.
    if arrived.len() > sent.len() {
        arrived.retain(|&number| !to[number as usize].copy);
    } else if sent.len() > arrived.len() {
        sent.retain(|&number| !from[number as usize].copy);
    }
    // Then by time, from the last on: the latest transmission that an arrival can be of.
    while let Some(number) = arrived.pop() {
        let there = &to[number as usize];
        while let Some(candidate) = sent.pop() {
            if later(&from[candidate as usize], there) >= 0.0 {
                found(candidate, number);
                break;
            }
        }
    }
    let found = matches[before..].iter();
    let found: BTreeSet<u32> = found
        .map(|found| if a_is_from { found.b } else { found.a })
        .collect();
    let all = if a_is_from { &alike.b } else { &alike.a };
    all.iter()
        .copied()
        .filter(|number| !found.contains(number))
        .collect()
}

fn sorted(numbers: &[u32], id: impl Fn(u32) -> u16) -> Vec<(u16, u32)> {
    let mut ids: Vec<(u16, u32)> = numbers.iter().map(|&number| (id(number), number)).collect();
    ids.sort_unstable();
    ids
}

/// The only number with an identification.
fn one(ids: &[(u16, u32)], id: u16) -> Option<u32> {
    let at = ids.partition_point(|entry| entry.0 < id);
    match ids.get(at..) {
        Some([(found, number), rest @ ..]) if *found == id => rest
            .first()
            .is_none_or(|next| next.0 != id)
            .then_some(*number),
        _ => None,
    }
}
