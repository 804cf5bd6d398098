//! Two machines of one household behind its policer, as a sampler captures them.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::net::SocketAddr;

use crate::annotate::TransferSummary;
use crate::detect::{Basis, Cause, Judgement};
use crate::read::Nanos;
use crate::testing::{MS, MSS, START, pcapng};
use crate::wire::{Flags, Sacks};
use crate::write::pcapng::Marks;
use crate::write::{Ends, TcpFrame};
use crate::{Options, Sink, analyse};

const ROUND_TRIP: Nanos = 40 * MS;
/// Of the policer, in bit/s and bytes.
const RATE: f64 = 4e6;
const DEPTH: f64 = 40e3;

/// Drops packets for which there are no tokens.
struct Policer {
    level: f64,
    last: Nanos,
}

impl Policer {
    fn passes(&mut self, at: Nanos, bytes: f64) -> bool {
        let more = (at - self.last) as f64 / 1e9 * RATE / 8.0;
        self.level = (self.level + more).min(DEPTH);
        self.last = at;
        let passes = self.level >= bytes;
        if passes {
            self.level -= bytes;
        }
        passes
    }
}

/// A download, packet by packet. It sends a burst each round, and those that were lost again in the next one.
struct Download {
    ends: Ends,
    next: u32,
    again: Vec<u32>,
    window: u32,
    /// Packets that arrived behind one that did not, and the first one that did not.
    received: BTreeSet<u32>,
    missing: u32,
}

impl Download {
    fn new(client: &str, port: u16) -> Self {
        let client = SocketAddr::new(client.parse().expect("an address"), port);
        let server = "[2001:db8:ffff::443]:443".parse().expect("an address");
        Self {
            ends: Ends {
                src: server,
                dst: client,
            },
            next: 0,
            again: Vec::new(),
            window: 4,
            received: BTreeSet::new(),
            missing: 0,
        }
    }

    fn answer(&self) -> TcpFrame {
        let Ends { src, dst } = self.ends;
        TcpFrame::new(Ends { src: dst, dst: src })
    }

    fn open(&self, at: Nanos, frames: &mut Vec<(Nanos, TcpFrame)>) {
        let syn = |flags, frame| TcpFrame {
            flags,
            mss: Some(MSS as u16),
            window_scale: Some(7),
            sack_permitted: true,
            ..frame
        };
        let accepted = TcpFrame {
            ack: 1,
            ..syn(Flags::SYN | Flags::ACK, TcpFrame::new(self.ends))
        };
        let request = TcpFrame {
            seq: 1,
            ack: 1,
            payload: 100,
            ..self.answer()
        };
        frames.push((at, syn(Flags::SYN, self.answer())));
        frames.push((at + 1, accepted));
        frames.push((at + ROUND_TRIP, request));
    }

    /// A burst, and the acknowledgements of what arrives.
    fn round(&mut self, at: Nanos, policer: &mut Policer, frames: &mut Vec<(Nanos, TcpFrame)>) {
        let mut numbers = std::mem::take(&mut self.again);
        while (numbers.len() as u32) < self.window {
            numbers.push(self.next);
            self.next += 1;
        }
        let mut at = at;
        for number in numbers {
            // Not in step, as no sender is.
            at += MS / 50 + Nanos::from(number.wrapping_mul(2_654_435_761) >> 20);
            let data = TcpFrame {
                seq: 1 + number * MSS,
                ack: 101,
                payload: MSS,
                ..TcpFrame::new(self.ends)
            };
            frames.push((at, data));
            if policer.passes(at, f64::from(MSS + 78)) {
                frames.push((at + ROUND_TRIP, self.acknowledge(number)));
            } else {
                self.again.push(number);
            }
        }
        self.window = match self.again.is_empty() {
            true => self.window + 2,
            false => (self.window / 2).max(2),
        };
    }

    fn acknowledge(&mut self, number: u32) -> TcpFrame {
        self.received.insert(number);
        while self.received.remove(&self.missing) {
            self.missing += 1;
        }
        let byte = |number: u32| 1 + number * MSS;
        let mut ranges: Vec<std::ops::Range<u32>> = Vec::new();
        for &number in &self.received {
            match ranges.last_mut() {
                Some(range) if range.end == byte(number) => range.end += MSS,
                _ => ranges.push(byte(number)..byte(number + 1)),
            }
        }
        TcpFrame {
            seq: 101,
            ack: byte(self.missing),
            sacks: Sacks::new(ranges.into_iter().take(3)),
            ..self.answer()
        }
    }
}

/// A capture of downloads to these addresses through one policer, with this comment.
fn capture(clients: [&str; 2], comment: &str) -> Vec<u8> {
    let mut downloads = [
        Download::new(clients[0], 50_000),
        Download::new(clients[1], 50_001),
    ];
    let mut policer = Policer {
        level: DEPTH,
        last: START,
    };
    let mut frames = Vec::new();
    for round in 0..300 {
        for (download, nth) in downloads.iter_mut().zip(0..) {
            let at = START + round * ROUND_TRIP + nth * ROUND_TRIP / 2;
            match round {
                0 => download.open(at, &mut frames),
                1 => {}
                _ => download.round(at, &mut policer, &mut frames),
            }
        }
    }
    frames.sort_by_key(|(at, _)| *at);
    let mut out = pcapng(comment);
    let mut bytes = Vec::new();
    for (at, frame) in frames {
        let wire_len = frame.encode(&mut bytes);
        let marks = Marks {
            outbound: Some(frame.src.port() == 443),
            ..Marks::default()
        };
        out.frame(at, &bytes, wire_len, marks).expect("memory");
    }
    out.into_inner()
}

#[derive(Default)]
struct Downloads(Vec<Judgement>);

impl Sink for Downloads {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if !transfer.id.from_client {
            self.0.push(judgement);
        }
    }
}

/// What is said of both downloads, with this in the header of the capture behind the share.
fn judged(clients: [&str; 2], words: &str) -> Vec<Judgement> {
    let comment = match words {
        "" => String::new(),
        words => format!("tidegate sample: fraction=0.01 {words} key=1c8a07e2"),
    };
    let mut found = Downloads::default();
    let capture = Cursor::new(capture(clients, &comment));
    let outcome = analyse(capture, Options::default(), &mut found);
    assert_eq!((outcome.error, found.0.len()), (None, 2));
    found.0
}

const HOUSEHOLD: [&str; 2] = ["2001:db8:1:200::1", "2001:db8:1:2ff::9"];

#[test]
fn a_household_that_was_sampled_as_a_whole_is_judged_as_a_whole() {
    for judgement in judged(HOUSEHOLD, "by=client prefixes=32,56 addresses=keep") {
        assert_eq!(judgement.cause, Cause::Policer, "{}", judgement.reason);
        let found = (judgement.basis, judgement.shared);
        assert_eq!(found, (Basis::Client, Some(true)));
        let rate = judgement.limit.and_then(|limit| limit.rate_bps.interval());
        let rate = rate.expect("an interval");
        assert!(rate.contains(&RATE), "{rate:?}");
    }
    // Prefix-preserving pseudonyms are prefixes too.
    let pseudonyms = "by=client prefixes=32,56 addresses=pseudonym";
    let shared = judged(HOUSEHOLD, pseudonyms)
        .iter()
        .all(|judgement| judgement.shared == Some(true));
    assert!(shared);
}

#[test]
fn unless_a_capture_says_more_each_address_is_a_client() {
    for words in [
        "",
        "by=flow addresses=keep",
        "by=client prefixes=32,64 addresses=keep",
        "by=client prefixes=x addresses=keep",
    ] {
        for judgement in judged(HOUSEHOLD, words) {
            let found = (judgement.cause, judgement.basis, judgement.shared);
            assert_ne!(
                found,
                (Cause::Policer, Basis::Client, Some(true)),
                "{words}"
            );
        }
    }
}

/// Behind the bits that are kept there are other households.
#[test]
fn cut_addresses_that_are_alike_are_not_taken_for_one_client() {
    let cut = ["2001:db8:1::"; 2];
    for words in ["by=client prefixes=32,56", "by=flow"] {
        for judgement in judged(cut, &format!("{words} addresses=prefix:24,48")) {
            assert_eq!(judgement.basis, Basis::Connection, "{words}");
        }
    }
    for judgement in judged(cut, "by=client prefixes=32,48 addresses=prefix:24,48") {
        assert_eq!(judgement.basis, Basis::Client);
    }
}
