//! Two captures: from bytes to what is between them.

use std::sync::Arc;

use tidegate_trace::pair::{Diagnosis, Fate, Gathered, Passage, Way};
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::rows::PairRow;

use super::capture::raw_ip;

/// Packets that are kept of a capture: few, so that the bound bites.
const MOST: usize = 2_000;

/// Two captures: a byte of settings, then records of 10 bytes. The first of each says which of the captures
/// hold the packet, and what happened to it between; the second how long it took; the others are a packet.
pub fn pair(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let origin = if choice & 4 != 0 { u32::MAX - 3000 } else { 77 };
    let unit = if choice & 8 != 0 { 50_000_000 } else { 30_000 };
    // Clocks that are a second or a year apart, and drift.
    let apart: u64 = if choice & 1 != 0 {
        1_000_000_000
    } else {
        31_536_000_000_000_000
    };
    let drift = u64::from(choice >> 5) * 40;
    let (mut a, mut b) = (Gathered::new(MOST), Gathered::new(MOST));
    let start = 1_500_000_000_000_000_000u64;
    let (mut at, mut packets) = (start, [0, 0]);
    for record in data.chunks_exact(10) {
        let (what, took) = (record[0], u64::from(record[1]));
        let packet = &record[2..];
        at += u64::from(packet[0] & 0x3f) * unit;
        let bytes = raw_ip(packet, origin, choice);
        let there = at + apart + (at - start) / 1_000_000 * drift;
        let way = took * 20_000;
        let there = if what & 4 != 0 {
            there - way
        } else {
            there + way
        };
        if what & 1 == 0 {
            put(&mut a, at, &bytes, bytes.len());
            packets[0] += 1;
        }
        if what & 2 == 0 {
            let length = bytes.len();
            put(&mut b, there, &changed(bytes, what), length);
            packets[1] += 1;
        }
    }
    for (capture, packets) in [&a, &b].into_iter().zip(packets) {
        let counts = capture.counts();
        assert_eq!((counts.frames, counts.tcp), (packets, packets));
        assert!(counts.not_kept <= counts.tcp && counts.copies <= counts.tcp);
    }
    check(&Diagnosis::new(a, b));
}

fn put(capture: &mut Gathered, at: u64, bytes: &[u8], length: usize) {
    capture.frame(&Frame {
        outbound: None,
        at,
        link: LinkType::RAW,
        data: bytes,
        wire_len: length as u32,
    });
}

/// The packet as another place may see it.
fn changed(mut bytes: Vec<u8>, what: u8) -> Vec<u8> {
    if what & 8 != 0 {
        // Translated, a hop further.
        bytes[8] -= 1;
        bytes[12..16].copy_from_slice(&[203, 0, 113, 9]);
    }
    if what & 16 != 0 {
        bytes[1] ^= 3;
        bytes[5] = bytes[5].wrapping_add(1);
    }
    if what & 32 != 0 {
        // Cut by a snapshot length.
        bytes.truncate(54);
    }
    bytes
}

fn check(found: &Diagnosis) {
    if let Some(clocks) = found.clocks {
        assert!(clocks.offset.is_finite() && clocks.drift.abs() <= 1e-3);
        assert!(clocks.offset_error.is_none_or(|error| error >= 0.0));
    }
    for way in &found.ways {
        check_way(way);
    }
    let streams: usize = found.ways.iter().map(|way| way.streams.len()).sum();
    let files = [Arc::from("a"), Arc::from("b")];
    assert_eq!(PairRow::of(&files, found).count(), streams);
}

fn check_way(way: &Way) {
    let sum = |count: fn(&tidegate_trace::pair::StreamReport) -> u64| way.sum(count);
    let with = |is: fn(&Passage) -> bool| way.passages.iter().filter(|p| is(p)).count() as u64;
    assert_eq!(
        sum(|s| s.packets),
        with(|p| p.seen && p.fate != Fate::Uncovered)
    );
    assert_eq!(sum(|s| s.lost + s.lost_bare), with(Passage::lost));
    assert_eq!(
        sum(|s| s.missed),
        with(|p| p.fate == Fate::Missed && p.payload > 0)
    );
    assert!(way.passages.is_sorted_by_key(|passage| passage.at));
    assert!(!way.verdict.name().is_empty());
    if let Some(transit) = way.transit {
        let times = [transit.least, transit.median, transit.p99, transit.most];
        assert!(times.is_sorted() && times.iter().all(|time| time.is_finite()));
    }
    if let Some(fit) = &way.fits.bucket {
        assert!(fit.bucket.rate > 0.0 && fit.bucket.depth > 0.0);
        assert!(fit.rate.low <= fit.rate.high && fit.depth.low <= fit.depth.high);
        assert!(way.as_queue(&fit.bucket).all(|(_, wait)| wait >= 0.0));
    }
    if let Some(queue) = &way.fits.waiting {
        assert!(queue.rate > 0.0 && queue.backlog >= 0.0 && queue.explained <= 1.0);
    }
}
