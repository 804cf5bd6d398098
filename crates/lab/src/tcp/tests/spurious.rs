//! Unnecessary retransmissions, and their consequences.

use tidegate_limiter::Bytes;

use super::pipe::{DELAY, Pipe, RTT, reno};
use crate::tcp::Segment;
use crate::tcp::cc::LossState;
use crate::{MILLISECOND, SECOND};

fn index(segment: &Segment) -> u64 {
    segment.seq.saturating_sub(1) / 1448
}

/// RFC 8985 §6.2: once reordering was seen, RACK waits a quarter of the round trip for it.
#[test]
fn learns_to_wait_for_reordered_segments() {
    // Every 50th segment comes 10 ms late: less than a quarter of the round trip of 50 ms.
    let fate = |data, _, segment: &Segment, _| {
        let late = data && segment.payload > 0 && index(segment) % 50 == 49;
        vec![if late {
            DELAY + 10 * MILLISECOND
        } else {
            DELAY
        }]
    };
    let pipe = Pipe::transfer(&reno(), 3000 * 1448, fate);
    let again = pipe.again();
    // The first one is taken for a loss, which later proves wrong.
    assert!((1..=3).contains(&again.len()), "{}", again.len());
    let counts = pipe.server.snapshot().counts;
    assert!(counts.undone >= 1);
    assert_eq!(counts.timeouts, 0);
}

/// RFC 2883 and 3708: a reported duplicate of the only retransmission undoes the reduction, if
/// timestamps cannot.
#[test]
fn a_reported_duplicate_takes_the_reduction_back() {
    let config = crate::tcp::TcpConfig {
        timestamps: false,
        ..reno()
    };
    let late = |data, _, segment: &Segment, _| {
        let late = data && segment.payload > 0 && !segment.again && index(segment) == 40;
        vec![if late {
            DELAY + 30 * MILLISECOND
        } else {
            DELAY
        }]
    };
    let mut pipe = Pipe::new(&config, late);
    pipe.server.write(0, Bytes::new(4000 * 1448));
    pipe.run(SECOND, |pipe| {
        pipe.server.snapshot().state == LossState::Recovery
    });
    let before = pipe.server.snapshot();
    pipe.run(SECOND, |pipe| pipe.server.snapshot().counts.undone > 0);
    let after = pipe.server.snapshot();
    assert_eq!(pipe.again().len(), 1);
    assert!(before.ssthresh < u32::MAX);
    assert_eq!(after.ssthresh, u32::MAX);
    // RFC 2883 §4: the duplicate is the first range, and below the acknowledgement.
    let reported = pipe.acks().any(|sent| {
        let range = sent.segment.sacks.ranges().next();
        range.is_some_and(|range| range.end <= sent.segment.ack && (range.start - 1) / 1448 == 40)
    });
    assert!(reported);
}

/// RFC 3522: with timestamps the first acknowledgement that echoes the original is enough.
#[test]
fn timestamps_take_the_reduction_back_at_once() {
    let late = |data, _, segment: &Segment, _| {
        let late = data && segment.payload > 0 && !segment.again && index(segment) == 40;
        vec![if late {
            DELAY + 30 * MILLISECOND
        } else {
            DELAY
        }]
    };
    let mut pipe = Pipe::new(&reno(), late);
    pipe.server.write(0, Bytes::new(4000 * 1448));
    pipe.run(SECOND, |pipe| pipe.server.snapshot().counts.undone > 0);
    let again = pipe.again();
    assert_eq!(again.len(), 1);
    // Before an answer to the retransmission is possible.
    assert!(pipe.now < again[0].at + RTT, "{} {}", pipe.now, again[0].at);
    assert_eq!(pipe.server.snapshot().ssthresh, u32::MAX);
}

/// RFC 5682: the path stalls for half a second and then delivers everything. The timeout was
/// unnecessary, and the window is restored: by timestamps, or by F-RTO alone. (With RACK but
/// without timestamps, the acknowledgement of the original counts as that of the retransmission,
/// here as in Linux, and recovery follows.)
#[test]
fn a_stall_is_not_taken_for_losses() {
    for timestamps in [true, false] {
        let config = crate::tcp::TcpConfig {
            timestamps,
            rack: timestamps,
            ..reno()
        };
        let stall = 300 * MILLISECOND..900 * MILLISECOND;
        let fate = |_, _, _: &Segment, now| {
            let until = if stall.contains(&now) {
                stall.end - now
            } else {
                0
            };
            vec![until + DELAY]
        };
        let mut pipe = Pipe::new(&config, fate);
        pipe.server.write(0, Bytes::new(1 << 30));
        pipe.run(SECOND, |pipe| pipe.server.snapshot().counts.timeouts > 0);
        assert_eq!(pipe.server.snapshot().state, LossState::Loss);
        pipe.run(3 * SECOND, |pipe| pipe.server.snapshot().counts.undone > 0);
        assert!(
            pipe.server.snapshot().ssthresh > 1000,
            "timestamps {timestamps}"
        );
        assert!(
            pipe.again().len() <= 4,
            "timestamps {timestamps}: {}",
            pipe.again().len()
        );
    }
}
