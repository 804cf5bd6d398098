//! Receivers judged apart: where each has a limiter, all of them together fit none.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::fit::LEAST_LOSSES;
use super::passage::Passage;
use super::stream::{StreamReport, Transit};
use super::verdict::{Between, Fits};

/// Receivers that are judged apart: those with the most losses.
const MOST: usize = 16;

/// What goes one way to one receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The receiver's address as the second place on the way sees it.
    pub receiver: IpAddr,
    /// What explains losses and transit times.
    pub fits: Fits,
    /// What is between the places.
    pub verdict: Between,
}

/// The address of a stream's receiver behind all translation between the places.
pub(crate) fn receiver(stream: &StreamReport) -> IpAddr {
    let ends = if stream.to_b {
        stream.at_b
    } else {
        stream.at_a
    };
    ends[1].ip()
}

/// Judges receivers apart, those with the most losses first. None, if there is only one or if that explains
/// nothing either.
pub(crate) fn groups(
    passages: &[Passage],
    streams: &[StreamReport],
    judge: impl Fn(&[Passage], Option<Transit>) -> Fits,
) -> Vec<Group> {
    let mut lost: BTreeMap<IpAddr, u64> = BTreeMap::new();
    for stream in streams {
        *lost.entry(receiver(stream)).or_default() += stream.lost;
    }
    if lost.len() < 2 {
        return Vec::new();
    }
    let mut most: Vec<(IpAddr, u64)> = lost.into_iter().collect();
    most.retain(|(_, lost)| *lost >= LEAST_LOSSES as u64);
    most.sort_by_key(|&(address, lost)| (std::cmp::Reverse(lost), address));
    most.truncate(MOST);
    let groups: Vec<Group> = most
        .into_iter()
        .map(|(address, _)| {
            let to_it = |passage: &&Passage| receiver(&streams[passage.stream as usize]) == address;
            let own: Vec<Passage> = passages.iter().filter(to_it).copied().collect();
            let transit = Transit::of(own.iter().filter_map(Passage::transit).collect());
            let fits = judge(&own, transit);
            Group {
                receiver: address,
                verdict: fits.verdict(),
                fits,
            }
        })
        .collect();
    let explains = |group: &Group| group.fits.explaining_bucket().is_some();
    if groups.iter().any(explains) {
        groups
    } else {
        Vec::new()
    }
}
