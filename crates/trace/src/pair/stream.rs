//! A stream that both captures hold, followed from the first place to the second.

use std::ops::Range;

use super::clock::Clocks;
use super::gather::Wire;
use super::joined::{ALONE, Joined, Order};
use super::passage::{Elsewhere, Fate, Passage, Walk};
use super::record::Record;
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
    /// Records of the second place that were duplicated on the way, in ascending order.
    duplicated: &'a [u32],
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
    let unseen: Vec<usize> = places.unseen().collect();
    let (records, mut own) = places.passages(number, &unseen);
    places.leave_out_last(&mut own);
    let elsewhere = places.walk(&records, &mut own);
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
        unseen: unseen.len() as u64,
        duplicated: places.duplicated.len() as u64,
        overtaken: places.overtaken(),
        transit: Transit::of(own.iter().filter_map(Passage::transit).collect()),
        elsewhere,
    };
    let counted = |p: &&Passage| p.seen && p.fate != Fate::Uncovered;
    for passage in own.iter().filter(counted) {
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
            duplicated: &joined.duplicated[index],
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

    /// A stream's records at the first place, without those that its capture holds twice and that have no partner.
    fn once(&self, stream: u32) -> impl Iterator<Item = usize> + use<'a> {
        let (records, partner) = (&self.first.records, self.partner);
        let range = self.first.range(stream);
        range.filter(|&number| !(records[number].copy && partner[number] == ALONE))
    }

    /// Its packets, without what needs acknowledgements, and the record of each: of the first place, or of the second one for those
    /// that the first capture does not hold.
    fn passages(&self, stream: u32, unseen: &[usize]) -> (Vec<&'a Record>, Vec<Passage>) {
        let range = self.first.range(self.streams[0]);
        let between = between_partners(range.clone(), self.partner);
        let mut unseen = self.departures(unseen).into_iter().peekable();
        let mut records = Vec::with_capacity(range.len());
        let mut passages = Vec::with_capacity(range.len());
        let mut add = |at: Nanos, record: &'a Record, known: Option<Fate>| {
            records.push(record);
            passages.push(Passage {
                at,
                seen: known.is_some(),
                stream,
                link_bytes: record.link_bytes(),
                ip_bytes: record.ip_bytes(),
                payload: record.payload,
                in_flight: 0,
                in_burst: 0,
                fate: known.unwrap_or(Fate::Passed(None)),
            });
        };
        for number in self.once(self.streams[0]) {
            let record = &self.first.records[number];
            while let Some((at, there)) = unseen.next_if(|unseen| unseen.0 < record.at) {
                add(at, there, None);
            }
            add(record.at, record, Some(self.fate(number, &between)));
        }
        for (at, there) in unseen {
            add(at, there, None);
        }
        (records, passages)
    }

    /// What became of a record of the first place, as the second one's capture alone tells. `between` is what that covers, where no
    /// clock tells.
    fn fate(&self, number: usize, between: &Range<usize>) -> Fate {
        let record = &self.first.records[number];
        let partner = self.partner[number];
        if partner != ALONE {
            let there = self.second.records[partner as usize].at;
            return Fate::Passed(self.transit(record.at, there));
        }
        let covered = self.second.counts.span.unwrap_or_default();
        let inside = match self.clocks {
            Some(clocks) => holds(covered, arrival(&clocks, self.to_b, record.at)),
            None => between.contains(&number),
        };
        if inside { Fate::Lost } else { Fate::Uncovered }
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

    /// Completes the passages of these records by what comes back to the first place.
    fn walk(&self, records: &[&Record], passages: &mut [Passage]) -> Elsewhere {
        let reverse = self.first.streams[self.streams[0] as usize].reverse;
        let back = reverse.into_iter().flat_map(|reverse| self.once(reverse));
        let back = back.map(|number| &self.first.records[number]);
        let mut back = back.peekable();
        let mut walk = Walk::default();
        for (number, record) in records.iter().enumerate() {
            let at = passages[number].at;
            while let Some(heard) = back.next_if(|heard| heard.at < at) {
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

    /// Records of the second place that the first capture does not hold, though it covers their time.
    fn unseen(&self) -> impl Iterator<Item = usize> {
        let covered = self.first.counts.span.unwrap_or_default();
        let range = self.second.range(self.streams[1]);
        let between = between_partners(range.clone(), self.partner_there);
        range.filter(move |&number| {
            let record = &self.second.records[number];
            let alone = self.partner_there[number] == ALONE && !record.copy;
            alone
                && self.duplicated.binary_search(&(number as u32)).is_err()
                && match self.clocks {
                    Some(clocks) => holds(covered, departure(&clocks, self.to_b, record.at)),
                    None => between.contains(&number),
                }
        })
    }

    /// When these records of the second place passed the first one, which did not capture them: as long before as the packet that arrived
    /// last before them. None where most packets are such ones: then they are not the same packets at both places, as behind a
    /// middlebox that divides them anew.
    fn departures(&self, unseen: &[usize]) -> Vec<(Nanos, &'a Record)> {
        let (first, second) = (&self.first.records, &self.second.records);
        let range = self.second.range(self.streams[1]);
        let both = range.filter_map(|number| match self.partner_there[number] {
            ALONE => None,
            partner => Some((number, first[partner as usize].at, second[number].at)),
        });
        if unseen.len() > both.clone().count() {
            return Vec::new();
        }
        let mut later = both.peekable();
        let mut beside = later.peek().copied();
        let mut departures = Vec::with_capacity(unseen.len());
        for &number in unseen {
            while let Some(before) = later.next_if(|both| both.0 < number) {
                beside = Some(before);
            }
            if let Some((_, at, there)) = beside {
                let record = &second[number];
                let at = at.saturating_add(record.at.saturating_sub(there));
                departures.push((at.saturating_sub(there.saturating_sub(record.at)), record));
            }
        }
        departures.sort_by_key(|departure| departure.0);
        departures
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
