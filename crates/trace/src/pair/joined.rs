//! Two captures joined: every packet of one with its partner in the other, and the clocks.

use std::collections::BTreeSet;

use super::clock::{Clocks, Point, SLACK, align, signed};
use super::gather::{Gathered, Stream, Wire};
use super::matching::{Ambiguous, Compared, Match, compare, resolve};
use super::record::Record;
use super::streams::{StreamPair, pairs};
use crate::read::Nanos;

/// No partner.
pub(crate) const ALONE: u32 = u32::MAX;
/// Every host takes packets with this much data (RFC 9293 §3.7.1). A capture with smaller ones only does not show how
/// large the others were.
const LEAST_FULL: u32 = 536;

/// How it was found out which place packets pass first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Packets of both directions show it, whatever the clocks' offset.
    RoundTrip,
    /// By clocks that other connections brought together.
    Clocks,
    /// Time to live falls on the way.
    Hops,
    /// More packets are missing at the second place than at the first.
    Losses,
    /// Nothing shows it: the first capture is taken for the first place.
    Assumed,
}

/// A stream that both captures hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared {
    pub pair: StreamPair,
    /// Whether it passes A first.
    pub to_b: bool,
    pub order: Order,
}

/// Both captures, packet by packet.
#[derive(Debug)]
pub(crate) struct Joined {
    pub a: Wire,
    pub b: Wire,
    pub shared: Vec<Shared>,
    /// Streams of connections that both hold under the same addresses or numbers, but with other data.
    pub unlike: usize,
    pub clocks: Option<Clocks>,
    /// Of each shared stream, packets that the second place saw more often than the first, in ascending order.
    pub duplicated: Vec<Vec<u32>>,
    /// For each record of A its partner in B, and the other way round.
    pub partner_of_a: Vec<u32>,
    pub partner_of_b: Vec<u32>,
}

/// Joins two captures.
pub(crate) fn join(a: Gathered, b: Gathered) -> Joined {
    let pairs = pairs(&a, &b);
    let (sizes_a, sizes_b) = sizes(&a, &b, &pairs);
    let (a, b) = (a.into_wire(&sizes_a), b.into_wire(&sizes_b));
    let mut compared: Vec<(StreamPair, Compared)> = pairs
        .iter()
        .map(|&pair| (pair, compare(&a, &b, pair)))
        .collect();
    leave_out_unlike(&a, &b, &mut compared);
    let unlike = pairs.len() - compared.len();
    let mut pairs: Vec<StreamPair> = Vec::with_capacity(compared.len());
    let mut matches: Vec<Vec<Match>> = Vec::with_capacity(compared.len());
    let mut ambiguous: Vec<Vec<Ambiguous>> = Vec::with_capacity(compared.len());
    for (pair, compared) in compared {
        pairs.push(pair);
        matches.push(compared.matches);
        ambiguous.push(compared.ambiguous);
    }
    let origin = Origin::of(&a, &b, &matches);
    let mut shared = ordered(&a, &b, &pairs, &matches);
    let clocks = clocks(&a, &b, &origin, &shared, &matches);
    if let Some(clocks) = clocks {
        order_the_rest(&a, &b, &clocks, &mut shared, &matches);
    }
    let mut joined = Joined {
        partner_of_a: vec![ALONE; a.records.len()],
        partner_of_b: vec![ALONE; b.records.len()],
        duplicated: Vec::with_capacity(shared.len()),
        a,
        b,
        shared,
        unlike,
        clocks,
    };
    for (i, mut matches) in matches.into_iter().enumerate() {
        let duplicated = joined.resolve(i, &ambiguous[i], &mut matches);
        joined.duplicated.push(duplicated);
        for found in matches {
            joined.partner_of_a[found.a as usize] = found.b;
            joined.partner_of_b[found.b as usize] = found.a;
        }
    }
    joined
}

impl Joined {
    /// The clocks, if they tell which packet came after which, and how long after.
    pub fn even_clocks(&self) -> Option<Clocks> {
        self.clocks.filter(|clocks| !clocks.uneven)
    }

    /// Tells apart the alike packets of a shared stream. Returns those that were duplicated on the way.
    fn resolve(
        &self,
        stream: usize,
        ambiguous: &[Ambiguous],
        matches: &mut Vec<Match>,
    ) -> Vec<u32> {
        let shared = self.shared[stream];
        let (from, to) = if shared.to_b {
            (&self.a.records, &self.b.records)
        } else {
            (&self.b.records, &self.a.records)
        };
        let clocks = self.even_clocks();
        let floor = clocks.map_or(f64::NEG_INFINITY, |clocks| {
            clocks.offset_error.unwrap_or(0.0) - SLACK
        });
        let later = |from: &Record, to: &Record| match clocks {
            Some(clocks) if shared.to_b => clocks.later(from.at, to.at) - floor,
            Some(clocks) => -clocks.later(to.at, from.at) - floor,
            None => 0.0,
        };
        let each = ambiguous.iter();
        let mut duplicated: Vec<u32> = each
            .flat_map(|alike| resolve(alike, from, to, shared.to_b, later, matches))
            .collect();
        duplicated.sort_unstable();
        duplicated
    }
}

/// The payloads that each stream's super-packets are cut into. One capture may know what the other does not:
/// where it holds no super-packets, its largest packet is one.
fn sizes(a: &Gathered, b: &Gathered, pairs: &[StreamPair]) -> (Vec<u32>, Vec<u32>) {
    let alone = |capture: &Gathered| -> Vec<u32> {
        let streams = capture.streams.iter();
        streams.map(|stream| stream.full.max(1)).collect()
    };
    let (mut sizes_a, mut sizes_b) = (alone(a), alone(b));
    for pair in pairs {
        let of = |stream: &Stream| match (stream.full, stream.largest) {
            (0, _) => u32::MAX,
            (full, ..LEAST_FULL) => full,
            (full, largest) => full.min(largest),
        };
        let (x, y) = (&a.streams[pair.a as usize], &b.streams[pair.b as usize]);
        let size = of(x).min(of(y));
        sizes_a[pair.a as usize] = size;
        sizes_b[pair.b as usize] = size;
    }
    (sizes_a, sizes_b)
}

/// Leaves out connections of which both captures hold data of one side, and no packet of it is the same:
/// they are other ones, or their sequence numbers were rewritten on the way. All that could be said of them is
/// that everything was lost. What a network drops altogether is in one capture only.
fn leave_out_unlike(a: &Wire, b: &Wire, compared: &mut Vec<(StreamPair, Compared)>) {
    let has_data = |records: &[Record]| records.iter().any(|record| record.payload > 0);
    let unlike: BTreeSet<u32> = compared
        .iter()
        .filter(|(pair, compared)| {
            let alone = compared.matches.iter().map(|found| found.a);
            let alike = compared.ambiguous.iter().map(|alike| alike.a[0]);
            let mut shared = alone.chain(alike);
            has_data(a.of(pair.a))
                && has_data(b.of(pair.b))
                && !shared.any(|number| a.records[number as usize].payload > 0)
        })
        .map(|(pair, _)| pair.a)
        .collect();
    let is_unlike = |stream: u32| unlike.contains(&stream);
    compared.retain(|(pair, _)| {
        // What comes back acknowledges other numbers.
        let reverse = a.streams[pair.a as usize].reverse;
        !is_unlike(pair.a) && !reverse.is_some_and(is_unlike)
    });
}

/// Where points count from.
struct Origin {
    at: Nanos,
    later: f64,
}

impl Origin {
    fn of(a: &Wire, b: &Wire, matches: &[Vec<Match>]) -> Self {
        let first = matches.iter().flatten().next();
        first.map_or(Self { at: 0, later: 0.0 }, |found| {
            let at = a.records[found.a as usize].at;
            Self {
                at,
                later: signed(b.records[found.b as usize].at, at),
            }
        })
    }

    fn point(&self, a: &Record, b: &Record) -> Point {
        Point {
            at: signed(a.at, self.at),
            later: signed(b.at, a.at) - self.later,
        }
    }
}

/// Finds out for each stream which place it passes first.
///
/// Where both directions of a connection were captured, neighbours in time show it: whatever the
/// clocks, B sees packets from A later, by A's measure, than those that it sends to A.
fn ordered(a: &Wire, b: &Wire, pairs: &[StreamPair], matches: &[Vec<Match>]) -> Vec<Shared> {
    let number: std::collections::BTreeMap<u32, usize> = pairs
        .iter()
        .enumerate()
        .map(|(i, pair)| (pair.a, i))
        .collect();
    let mut shared: Vec<Shared> = pairs
        .iter()
        .map(|&pair| Shared {
            pair,
            to_b: true,
            order: Order::Assumed,
        })
        .collect();
    for (i, pair) in pairs.iter().enumerate() {
        let reverse = a.streams[pair.a as usize].reverse;
        let reverse = reverse.and_then(|reverse| number.get(&reverse).copied());
        if let Some(j) = reverse.filter(|&j| j > i)
            && let Some(to_b) = passes_a_first(a, b, &matches[i], &matches[j])
        {
            (shared[i].to_b, shared[i].order) = (to_b, Order::RoundTrip);
            (shared[j].to_b, shared[j].order) = (!to_b, Order::RoundTrip);
        }
    }
    for (shared, matches) in shared.iter_mut().zip(matches) {
        if shared.order == Order::Assumed
            && let Some((to_b, order)) = without_return(a, b, shared.pair, matches)
        {
            (shared.to_b, shared.order) = (to_b, order);
        }
    }
    shared
}

/// Whether a stream passes A first, by its packets and those that come back.
fn passes_a_first(a: &Wire, b: &Wire, there: &[Match], back: &[Match]) -> Option<bool> {
    let difference = |found: &Match, way: i8| {
        let (x, y) = (&a.records[found.a as usize], &b.records[found.b as usize]);
        (x.at, signed(y.at, x.at), way)
    };
    let mut all: Vec<(Nanos, f64, i8)> = there.iter().map(|found| difference(found, 1)).collect();
    all.extend(back.iter().map(|found| difference(found, -1)));
    all.sort_by_key(|difference| difference.0);
    let votes: i64 = all
        .windows(2)
        .filter(|pair| pair[0].2 != pair[1].2)
        .map(|pair| {
            let later = (pair[1].1 - pair[0].1) * f64::from(pair[1].2);
            i64::from(later > 0.0) - i64::from(later < 0.0)
        })
        .sum();
    (votes != 0).then_some(votes > 0)
}

/// The same of a stream whose other direction was not captured.
fn without_return(
    a: &Wire,
    b: &Wire,
    pair: StreamPair,
    matches: &[Match],
) -> Option<(bool, Order)> {
    let fallen: i64 = matches
        .iter()
        .map(|found| {
            let (x, y) = (&a.records[found.a as usize], &b.records[found.b as usize]);
            i64::from(x.hops) - i64::from(y.hops)
        })
        .sum();
    if fallen != 0 {
        return Some((fallen > 0, Order::Hops));
    }
    let (x, y) = (a.range(pair.a).len(), b.range(pair.b).len());
    (x != y).then_some((x > y, Order::Losses))
}

fn clocks(
    a: &Wire,
    b: &Wire,
    origin: &Origin,
    shared: &[Shared],
    matches: &[Vec<Match>],
) -> Option<Clocks> {
    // Connections seen both ways decide, if there are any: the others' order may be wrong.
    let sure = shared.iter().any(|one| one.order == Order::RoundTrip);
    let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
    for (one, matches) in shared.iter().zip(matches) {
        if sure && one.order != Order::RoundTrip {
            continue;
        }
        let points = if one.to_b { &mut to_b } else { &mut to_a };
        points.extend(
            matches.iter().map(|found| {
                origin.point(&a.records[found.a as usize], &b.records[found.b as usize])
            }),
        );
    }
    align(origin.at, origin.later, &to_b, &to_a)
}

/// Orders the streams that were seen one way only, by clocks that others brought together.
fn order_the_rest(
    a: &Wire,
    b: &Wire,
    clocks: &Clocks,
    shared: &mut [Shared],
    matches: &[Vec<Match>],
) {
    if clocks
        .least_round_trip()
        .is_none_or(|least| least <= 2.0 * SLACK)
    {
        return;
    }
    for (one, matches) in shared.iter_mut().zip(matches) {
        if one.order == Order::RoundTrip {
            continue;
        }
        let (mut before, mut behind) = (0, 0);
        for found in matches {
            let (x, y) = (&a.records[found.a as usize], &b.records[found.b as usize]);
            if clocks.later(x.at, y.at) > 0.0 {
                behind += 1;
            } else {
                before += 1;
            }
        }
        if behind != before {
            (one.to_b, one.order) = (behind > before, Order::Clocks);
        }
    }
}
