//! A stream that both captures hold, followed from the first place to the second.

use std::ops::Range;

use super::clock::Clocks;
use super::gather::Wire;
use super::joined::{ALONE, Joined, Order};
use super::passage::{Elsewhere, Fate, Passage, Walk};
use crate::flow::Span;
use crate::read::Nanos;
use crate::wire::Endpoint;

/// What both captures show of one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamReport {
    /// Sender and receiver as the first capture names them.
    pub at_a: [Endpoint; 2],
    /// The same as the second capture names them.
    pub at_b: [Endpoint; 2],
    /// Whether its packets pass A first.
    pub to_b: bool,
    /// How that was found out.
    pub order: Order,
    /// When its first packet passed the first place, by that place's clock.
    pub first_sent: Nanos,
    /// When its last packet did.
    pub last_sent: Nanos,
    /// Packets that the first place saw while the second one was watched.
    pub packets: u64,
    /// Of these, packets with data.
    pub data_packets: u64,
    /// Payload bytes of these.
    pub payload_bytes: u64,
    /// Data packets lost between the places.
    pub lost: u64,
    /// Packets without data lost between them.
    pub lost_bare: u64,
    /// Data packets that the second capture missed, though they were there.
    pub missed: u64,
    /// Packets of the second place that the first capture does not hold, and that are no duplicates.
    pub unseen: u64,
    /// Packets that came twice at the second place and once at the first.
    pub duplicated: u64,
    /// Packets that another one overtook between the places.
    pub overtaken: u64,
    /// Least, median and 99th percentile of transit times, in nanoseconds; `None` without packets.
    pub transit: Option<Transit>,
    /// What retransmissions show of losses elsewhere.
    pub elsewhere: Elsewhere,
}

impl StreamReport {
    /// Data packets lost between the places, of all.
    pub fn loss_rate(&self) -> f64 {
        self.lost as f64 / self.data_packets.max(1) as f64
    }
}

/// Times between the places, in nanoseconds by the aligned clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transit {
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub most: f64,
}

impl Transit {
    /// Of times in any order; `None` without any.
    pub(crate) fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        (!times.is_empty()).then(|| Self {
            least: at(0.0),
            median: at(0.5),
            p99: at(0.99),
            most: at(1.0),
        })
    }
}

/// The captures as a stream passes them.
struct Places<'a> {
    first: &'a Wire,
    second: &'a Wire,
    partner: &'a [u32],
    partner_there: &'a [u32],
    streams: [u32; 2],
    to_b: bool,
    /// `None` where they do not tell when a packet was at the other place.
    clocks: Option<Clocks>,
}

/// By how much longer than the longest the last packets may have waited.
const LONGER: f64 = 1.25;

/// Follows a shared stream: appends its packets to `passages`, numbered `number`.
pub(crate) fn follow(
    joined: &Joined,
    index: usize,
    number: u32,
    passages: &mut Vec<Passage>,
) -> StreamReport {
    let shared = joined.shared[index];
    let (x, y) = (
        &joined.a.streams[shared.pair.a as usize],
        &joined.b.streams[shared.pair.b as usize],
    );
    let places = Places::of(joined, index);
    let mut own = places.passages(number);
    places.leave_out_last(&mut own);
    let elsewhere = places.walk(&mut own);
    let mut report = StreamReport {
        at_a: [x.src, x.dst],
        at_b: [y.src, y.dst],
        to_b: shared.to_b,
        order: shared.order,
        first_sent: own.iter().map(|p| p.at).min().unwrap_or(0),
        last_sent: own.iter().map(|p| p.at).max().unwrap_or(0),
        packets: 0,
        data_packets: 0,
        payload_bytes: 0,
        lost: 0,
        lost_bare: 0,
        missed: 0,
        unseen: 0,
        duplicated: joined.duplicated[index],
        overtaken: places.overtaken(),
        transit: Transit::of(own.iter().filter_map(Passage::transit).collect()),
        elsewhere,
    };
    for passage in own.iter().filter(|p| p.fate != Fate::Uncovered) {
        let data = u64::from(passage.payload > 0);
        report.packets += 1;
        report.data_packets += data;
        report.payload_bytes += u64::from(passage.payload);
        match passage.fate {
            Fate::Lost if data == 1 => report.lost += 1,
            Fate::Lost => report.lost_bare += 1,
            Fate::Missed => report.missed += data,
            Fate::Passed(_) | Fate::Uncovered => {}
        }
    }
    report.unseen = places.extra().saturating_sub(report.duplicated);
    passages.extend(own);
    report
}

impl<'a> Places<'a> {
    fn of(joined: &'a Joined, index: usize) -> Self {
        let shared = joined.shared[index];
        let places = Self {
            first: &joined.a,
            second: &joined.b,
            partner: &joined.partner_of_a,
            partner_there: &joined.partner_of_b,
            streams: [shared.pair.a, shared.pair.b],
            to_b: shared.to_b,
            clocks: joined.even_clocks(),
        };
        if shared.to_b {
            return places;
        }
        Self {
            first: places.second,
            second: places.first,
            partner: places.partner_there,
            partner_there: places.partner,
            streams: [shared.pair.b, shared.pair.a],
            ..places
        }
    }

    /// Its packets, without what needs acknowledgements.
    fn passages(&self, stream: u32) -> Vec<Passage> {
        let range = self.first.range(self.streams[0]);
        let between = between_partners(range.clone(), self.partner);
        let covered = self.second.counts.span.unwrap_or_default();
        range
            .map(|number| {
                let record = &self.first.records[number];
                let partner = self.partner[number];
                let fate = if partner == ALONE {
                    let inside = match self.clocks {
                        Some(clocks) => holds(covered, arrival(&clocks, self.to_b, record.at)),
                        None => between.contains(&number),
                    };
                    if inside { Fate::Lost } else { Fate::Uncovered }
                } else {
                    let there = self.second.records[partner as usize].at;
                    Fate::Passed(self.transit(record.at, there))
                };
                Passage {
                    at: record.at,
                    stream,
                    link_bytes: record.link_bytes(),
                    ip_bytes: record.ip_bytes(),
                    payload: record.payload,
                    in_flight: 0,
                    in_burst: 0,
                    fate,
                }
            })
            .collect()
    }

    /// What left last and did not arrive may have waited in a queue when the second capture ended.
    fn leave_out_last(&self, passages: &mut [Passage]) {
        let Some(clocks) = self.clocks else {
            return;
        };
        let least = clocks.offset_error.unwrap_or(0.0);
        let times = passages.iter().filter_map(Passage::transit);
        let longest = times.fold(least, f64::max);
        // The queue may have been longer still.
        let later = (longest - least) * LONGER;
        let end = self.second.counts.span.unwrap_or_default().last as f64;
        let last = passages.iter_mut().rev();
        for passage in last.take_while(|passage| !passage.passed()) {
            if arrival(&clocks, self.to_b, passage.at) + later >= end {
                passage.fate = Fate::Uncovered;
            }
        }
    }

    /// Completes the passages by what comes back to the first place.
    fn walk(&self, passages: &mut [Passage]) -> Elsewhere {
        let sent = self.first.of(self.streams[0]);
        let reverse = self.first.streams[self.streams[0] as usize].reverse;
        let back = reverse.map_or(&[][..], |reverse| self.first.of(reverse));
        let mut back = back.iter().peekable();
        let mut walk = Walk::default();
        for (number, record) in sent.iter().enumerate() {
            while let Some(heard) = back.next_if(|heard| heard.at < record.at) {
                walk.hears(heard, passages);
            }
            passages[number].in_flight = walk.sends(record, number, passages);
        }
        for heard in back {
            walk.hears(heard, passages);
        }
        walk.elsewhere
    }

    /// Packets that arrive behind one that was sent later.
    fn overtaken(&self) -> u64 {
        let mut latest = None;
        let partners = self.partner[self.first.range(self.streams[0])].iter();
        partners
            .filter(|&&partner| partner != ALONE)
            .filter(|&&partner| {
                let overtaken = latest.is_some_and(|latest| partner < latest);
                latest = latest.max(Some(partner));
                overtaken
            })
            .count() as u64
    }

    /// Packets of the second place that the first capture does not hold, duplicates included.
    fn extra(&self) -> u64 {
        let covered = self.first.counts.span.unwrap_or_default();
        let alone = self.second.range(self.streams[1]);
        let between = between_partners(alone.clone(), self.partner_there);
        let alone = alone.filter(|&number| self.partner_there[number] == ALONE);
        alone
            .filter(|&number| match self.clocks {
                Some(clocks) => {
                    let at = self.second.records[number].at;
                    holds(covered, departure(&clocks, self.to_b, at))
                }
                None => between.contains(&number),
            })
            .count() as u64
    }

    /// The time on the way, from the first place to the second.
    fn transit(&self, at: Nanos, there: Nanos) -> Option<f64> {
        let clocks = self.clocks?;
        Some(match self.to_b {
            true => clocks.later(at, there),
            false => -clocks.later(there, at),
        })
    }
}

fn holds(span: Span, at: f64) -> bool {
    (span.first as f64..=span.last as f64).contains(&at)
}

/// The records from the first with a partner to the last: where no clock tells when the other capture was
/// taken, it was taken between these.
fn between_partners(range: Range<usize>, partner: &[u32]) -> Range<usize> {
    let mut found = range.filter(|&number| partner[number] != ALONE);
    let first = found.next();
    first.map_or(0..0, |first| first..found.next_back().unwrap_or(first) + 1)
}

/// When the second place would see a packet at the earliest, by its clock.
fn arrival(clocks: &Clocks, to_b: bool, at: Nanos) -> f64 {
    let least = clocks.offset_error.unwrap_or(0.0);
    at as f64
        + least
        + match to_b {
            true => clocks.offset_at(at),
            false => -clocks.offset_at_b(at),
        }
}

/// When the first place must have seen a packet at the latest, by its clock.
fn departure(clocks: &Clocks, to_b: bool, there: Nanos) -> f64 {
    let least = clocks.offset_error.unwrap_or(0.0);
    there as f64 - least
        + match to_b {
            true => -clocks.offset_at_b(there),
            false => clocks.offset_at(there),
        }
}
