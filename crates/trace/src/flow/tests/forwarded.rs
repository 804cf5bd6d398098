//! Packets without an IP identification that are captured before and behind a queue of a router or a bridge.

use super::faults::six;
use crate::read::Nanos;
use crate::testing::*;
use crate::wire::{Flags, Timestamps};
use crate::write::TcpFrame;

const MICROSECOND: Nanos = 1000;

/// What is captured, in any order.
struct Capture {
    talk: Talk,
    frames: Vec<(Nanos, TcpFrame)>,
    /// By how much the hop limit is lower behind the queue.
    lower: u8,
    timestamps: bool,
}

impl Capture {
    /// Without a handshake: only the later part of a connection was captured.
    fn later(lower: u8, timestamps: bool) -> Self {
        Self {
            talk: six(),
            frames: Vec::new(),
            lower,
            timestamps,
        }
    }

    /// With a SYN and a SYN-ACK, both of which were captured twice: `later` the second time.
    fn opened(lower: u8, timestamps: bool, later: Nanos) -> Self {
        let mut talk = Talk::new();
        talk.ends = six().ends;
        let syn = TcpFrame {
            seq: talk.isn[0],
            flags: Flags::SYN,
            mss: Some(MSS as u16),
            ..talk.asking(0, 0)
        };
        let answer = TcpFrame {
            seq: talk.isn[1],
            flags: Flags::SYN | Flags::ACK,
            mss: Some(MSS as u16),
            ..talk.data(0, 0)
        };
        let mut capture = Self {
            talk,
            frames: Vec::new(),
            lower,
            timestamps,
        };
        capture.twice(0, later, syn);
        capture.twice(MS, later, answer);
        let ask = capture.talk.asking(0, 100);
        capture.twice(3 * MS, later, ask);
        capture
    }

    /// A packet before the queue, with a clock of milliseconds.
    fn put(&mut self, at: Nanos, frame: TcpFrame) {
        let value = 77 + (at / MS) as u32;
        let timestamps = (self.timestamps && frame.timestamps.is_none())
            .then_some(Timestamps { value, echo: 5 })
            .or(frame.timestamps);
        self.frames.push((
            at,
            TcpFrame {
                timestamps,
                ..frame
            },
        ));
    }

    /// A packet before the queue, and behind it.
    fn twice(&mut self, at: Nanos, later: Nanos, frame: TcpFrame) {
        self.put(at, frame);
        let &(_, first) = self.frames.last().unwrap();
        let hops = first.hops - self.lower;
        self.frames.push((at + later, TcpFrame { hops, ..first }));
    }

    /// The n-th packet of the server.
    fn full(&mut self, n: u32) -> TcpFrame {
        // Timestamps take 12 bytes of the segment size.
        let size = if self.timestamps { MSS - 12 } else { MSS };
        self.talk.data(n * size, size)
    }

    /// A burst of the first packets, all of which wait for `later`.
    fn burst(&mut self, packets: u32, later: Nanos) {
        for n in 0..packets {
            let data = self.full(n);
            self.twice(10 * MS + Nanos::from(n) * MICROSECOND, later, data);
        }
    }

    /// How many packets the server sent, and how many of them again.
    #[track_caller]
    fn read(mut self) -> (usize, u64) {
        self.frames.sort_by_key(|&(at, _)| at);
        for (at, frame) in self.frames {
            self.talk.put(at, frame);
        }
        let found = self.talk.end();
        let kept = found.response();
        (kept.sent.len(), kept.metrics.retransmitted_packets)
    }
}

#[test]
fn behind_a_router_copies_have_a_lower_hop_limit() {
    for timestamps in [false, true] {
        for lower in [1, 2] {
            for (packets, later) in [(3, 49), (10, 2), (40, 20), (700, 20)] {
                let mut capture = Capture::opened(lower, timestamps, 2 * MS);
                capture.burst(packets, later * MS);
                assert_eq!(capture.read(), (packets as usize, 0), "{later} ms");
            }
        }
    }
}

#[test]
fn long_transfers_are_found_twice_to_their_end() {
    for (lower, timestamps) in [(1, false), (1, true), (0, true)] {
        let mut capture = Capture::opened(lower, timestamps, MS);
        for n in 0..5000 {
            let data = capture.full(n);
            capture.twice(10 * MS + u64::from(n) * 100 * MICROSECOND, 20 * MS, data);
        }
        assert_eq!(capture.read(), (5000, 0));
    }
}

#[test]
fn copies_come_within_50_ms() {
    for timestamps in [false, true] {
        let mut capture = Capture::opened(1, timestamps, 2 * MS);
        capture.burst(10, 51 * MS);
        assert_eq!(capture.read(), (20, 10));
    }
}

#[test]
fn behind_two_routers_a_packet_comes_three_times() {
    for timestamps in [false, true] {
        let mut capture = Capture::opened(1, timestamps, MS);
        for n in 0..40 {
            let at = 10 * MS + Nanos::from(n) * MICROSECOND;
            let data = capture.full(n);
            capture.twice(at, 2 * MS, data);
            let &(_, second) = capture.frames.last().unwrap();
            capture
                .frames
                .push((at + 5 * MS, TcpFrame { hops: 62, ..second }));
        }
        assert_eq!(capture.read(), (40, 0));
    }
}

/// Without the handshake, timestamps tell at once, and otherwise that most packets come twice.
#[test]
fn copies_are_found_amid_a_connection_too() {
    for (timestamps, repeated) in [(true, 0), (false, 7)] {
        let mut capture = Capture::later(1, timestamps);
        for n in 0..100 {
            let data = capture.full(n);
            capture.twice((10 + 2 * u64::from(n)) * MS, 5 * MS, data);
        }
        assert_eq!(capture.read(), (100 + repeated, repeated as u64));
    }
}

#[test]
fn what_the_queue_drops_is_sent_again() {
    for timestamps in [false, true] {
        for lower in [0, 1] {
            if lower == 0 && !timestamps {
                continue;
            }
            let mut capture = Capture::opened(lower, timestamps, MS);
            for n in 0..40 {
                let at = (10 + u64::from(n)) * MS;
                let data = capture.full(n);
                if n % 10 == 5 {
                    capture.put(at, data);
                    capture.twice(at + 30 * MS, 3 * MS, data);
                } else {
                    capture.twice(at, 3 * MS, data);
                }
            }
            assert_eq!(capture.read(), (44, 4), "{timestamps} {lower}");
        }
    }
}

/// Once each, and some again on a path that is longer by a router: with a newer timestamp, or none.
#[test]
fn what_is_sent_again_on_a_longer_path_is_no_copy() {
    for timestamps in [false, true] {
        let mut capture = Capture::later(0, timestamps);
        for n in 0..200 {
            let at = (10 + u64::from(n)) * MS;
            let data = capture.full(n);
            capture.put(at, data);
            if n % 5 == 2 {
                capture.put(at + 20 * MS, TcpFrame { hops: 63, ..data });
            }
        }
        assert_eq!(capture.read(), (240, 40));
    }
}

/// Packets take one of two paths in turn, and those that are lost take the other one.
#[test]
fn paths_of_different_lengths_make_no_copies() {
    let mut capture = Capture::later(0, false);
    for n in 0..3000 {
        let at = 10 * MS + u64::from(n) * 100 * MICROSECOND;
        let hops = 64 - (n % 2) as u8;
        let data = TcpFrame {
            hops,
            ..capture.full(n)
        };
        capture.put(at, data);
        if n % 4 == 2 {
            capture.put(at + 20 * MS, TcpFrame { hops: 63, ..data });
        }
    }
    assert_eq!(capture.read(), (3750, 750));
}

/// The other path is longer, and nothing has come twice before. A middlebox has answered first.
#[test]
fn a_window_that_is_lost_and_sent_again_on_a_longer_path_is_no_copy() {
    let mut capture = Capture::later(0, false);
    let first = TcpFrame {
        hops: 255,
        ..capture.talk.data(0, 0)
    };
    capture.put(5 * MS, first);
    for n in 0..40 {
        let data = capture.full(n);
        let at = 10 * MS + u64::from(n) * MICROSECOND;
        capture.put(at, data);
        if n < 10 {
            capture.put(at + 30 * MS, TcpFrame { hops: 63, ..data });
        }
    }
    assert_eq!(capture.read(), (50, 10));
}

#[test]
fn behind_a_bridge_timestamps_and_the_handshake_tell_copies() {
    for later in [MS, 20 * MS] {
        let mut capture = Capture::opened(0, true, MS);
        capture.burst(40, later);
        assert_eq!(capture.read(), (40, 0));
    }
    // Without a handshake, or timestamps, they may have been sent again.
    let mut capture = Capture::later(0, true);
    capture.burst(40, 20 * MS);
    assert_eq!(capture.read(), (80, 40));
    let mut capture = Capture::opened(0, false, MS);
    capture.burst(40, 20 * MS);
    assert_eq!(capture.read(), (80, 40));
}

/// On a local network a packet is sent again in the same millisecond. Later packets and their copies have come in between.
#[test]
fn behind_a_bridge_what_is_sent_again_comes_out_of_order() {
    let mut capture = Capture::opened(0, true, 10 * MICROSECOND);
    for n in 0..40 {
        let at = (10 + u64::from(n / 4)) * MS + u64::from(n % 4) * 100 * MICROSECOND;
        let data = capture.full(n);
        if n % 4 == 0 {
            capture.put(at, data);
            capture.twice(at + 600 * MICROSECOND, 10 * MICROSECOND, data);
        } else {
            capture.twice(at, 10 * MICROSECOND, data);
        }
    }
    assert_eq!(capture.read(), (50, 10));
}

/// A packet of a clock that stands still, or has long ticks, may be sent again with the same timestamp.
#[test]
fn the_same_timestamp_alone_is_no_sign_of_a_copy() {
    for (value, hops) in [(0, 63), (0, 64), (9, 64)] {
        let mut capture = Capture::later(0, true);
        for n in 0..40 {
            let at = (10 + u64::from(n)) * MS;
            let data = TcpFrame {
                timestamps: Some(Timestamps { value, echo: 5 }),
                // From then on, packets are remembered.
                hops: if n == 0 { 60 } else { 64 },
                ..capture.full(n)
            };
            capture.put(at, data);
            if n % 10 == 5 {
                capture.put(at + 30 * MS, TcpFrame { hops, ..data });
            }
        }
        assert_eq!(capture.read(), (44, 4));
    }
}

#[test]
fn acknowledgements_come_twice_too() {
    let read = |twice: bool| {
        let mut capture = Capture::opened(1, false, MS);
        for n in 0..50 {
            let at = (10 + u64::from(n)) * MS;
            let data = capture.full(n);
            let ack = capture.talk.acking(nth(n + 1));
            match twice {
                true => {
                    capture.twice(at, 10 * MS, data);
                    capture.twice(at + 20 * MS, 15 * MS, ack);
                }
                false => {
                    capture.put(at, data);
                    capture.put(at + 20 * MS, ack);
                }
            }
        }
        capture.frames.sort_by_key(|&(at, _)| at);
        for (at, frame) in capture.frames {
            capture.talk.put(at, frame);
        }
        capture.talk.end()
    };
    let (once, twice) = (read(false), read(true));
    assert_eq!(twice.response().sent, once.response().sent);
    assert_eq!(twice.response().metrics, once.response().metrics);
    assert_eq!(
        twice.requests()[0].tally.packets,
        once.requests()[0].tally.packets
    );
}
