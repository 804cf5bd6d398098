//! How losses are found and repaired.

use tidegate_limiter::Bytes;

use super::pipe::{DELAY, Pipe, RTT, losing, reno};
use crate::tcp::cc::LossState;
use crate::tcp::{Segment, TcpConfig};
use crate::{MILLISECOND, SECOND};

fn index(segment: &Segment) -> u64 {
    (segment.seq - 1) / 1448
}

/// RFC 8985 with three segments above it: a round trip after it was sent, without a wait for
/// reordering.
#[test]
fn a_single_loss_is_repaired_after_a_round_trip() {
    let pipe = Pipe::transfer(&reno(), 150 * 1448, losing(&[20]));
    let lost = *pipe.data().find(|sent| sent.dropped).unwrap();
    let again = pipe.again();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].segment.seq, lost.segment.seq);
    assert_eq!(again[0].at, lost.at + RTT);
    let counts = pipe.server.snapshot().counts;
    assert_eq!((counts.lost, counts.recoveries, counts.timeouts), (1, 1, 0));
    assert_eq!(counts.undone, 0);
}

/// RFC 6675 with three duplicates, and RFC 6582 without selective acknowledgements, find it too.
#[test]
fn older_loss_detection_repairs_it_as_well() {
    for sack in [true, false] {
        let config = TcpConfig {
            sack,
            rack: false,
            ..reno()
        };
        let pipe = Pipe::transfer(&config, 150 * 1448, losing(&[20, 23]));
        let again = pipe.again();
        assert_eq!(again.len(), 2, "sack {sack}");
        let first = pipe.data().find(|sent| sent.dropped).unwrap();
        assert_eq!(again[0].at, first.at + RTT, "sack {sack}");
        // NewReno needs a round trip for each loss.
        let wait = if sack { 0 } else { RTT };
        assert!(again[1].at >= again[0].at + wait, "sack {sack}");
        assert_eq!(pipe.server.snapshot().counts.timeouts, 0);
    }
}

/// RFC 8985 §7.2: two round trips after the last segment; the probe's acknowledgement then shows
/// that the one before is lost.
#[test]
fn the_tail_is_probed_before_the_timeout() {
    let pipe = Pipe::transfer(&reno(), 30 * 1448, losing(&[28, 29]));
    let again = pipe.again();
    let last = pipe.data().rfind(|sent| sent.dropped).unwrap();
    assert_eq!(again.len(), 2);
    assert_eq!(index(&again[0].segment), 29);
    // Two round trips and 2 ms from the acknowledgement of all others, a round trip later.
    let wait = again[0].at - last.at - RTT;
    assert!(
        (2 * RTT..2 * RTT + 10 * MILLISECOND).contains(&wait),
        "{wait}"
    );
    assert_eq!(index(&again[1].segment), 28);
    // Only one segment is above it, so it waits a quarter of the round trip for reordering.
    let wait = again[1].at - again[0].at;
    assert!(
        (RTT..=RTT + RTT / 4 + 2 * MILLISECOND).contains(&wait),
        "{wait}"
    );
    let counts = pipe.server.snapshot().counts;
    assert_eq!((counts.probes, counts.timeouts), (1, 0));
}

/// A probe that repairs the loss alone is still a sign of congestion: RFC 8985 §7.4.
#[test]
fn a_loss_that_only_the_probe_repairs_reduces_the_window() {
    let mut pipe = Pipe::new(&reno(), losing(&[29]));
    pipe.server.write(0, Bytes::new(30 * 1448));
    pipe.pass(SECOND);
    assert_eq!(pipe.client.received(), 30 * 1448);
    pipe.server.write(pipe.now, Bytes::new(10 * 1448));
    pipe.pass(SECOND);
    assert_eq!(pipe.again().len(), 1);
    let snapshot = pipe.server.snapshot();
    assert_eq!(snapshot.counts.probes, 1);
    assert!(snapshot.ssthresh < u32::MAX);
    assert_eq!(snapshot.state, LossState::Open);
}

/// RFC 6298: no acknowledgement at all. The timeout is 200 ms more than the round trip, and
/// doubles each time.
#[test]
fn a_lost_window_waits_for_the_timeout() {
    let pipe = Pipe::transfer(&reno(), 10 * 1448, |data, _, segment, now| {
        if data && segment.payload > 0 && now < SECOND {
            return vec![];
        }
        vec![DELAY]
    });
    let start = pipe.data().next().unwrap().at;
    let firsts: Vec<_> = pipe
        .data()
        .filter(|sent| sent.segment.seq == 1)
        .map(|sent| sent.at)
        .collect();
    let rto = RTT + 200 * MILLISECOND;
    // The probe is sent before; the timeout counts from it.
    let probe = pipe.again()[0];
    assert_eq!(index(&probe.segment), 9);
    // Due 102 ms after 75 ms, which is 26 ticks of 4 ms after the 18th, and one more.
    assert_eq!((start, 2 * RTT), (75 * MILLISECOND, 100 * MILLISECOND));
    assert_eq!(probe.at, 45 * 4 * MILLISECOND);
    assert_eq!(firsts[1], probe.at + rto);
    assert_eq!(firsts[2], firsts[1] + 2 * rto);
    let counts = pipe.server.snapshot().counts;
    assert_eq!(firsts[3], firsts[2] + 4 * rto);
    assert_eq!((counts.timeouts, counts.probes), (3, 1));
}

/// After a timeout the window begins at one segment and doubles (RFC 5681 §3.1).
#[test]
fn slow_start_follows_a_timeout() {
    let mut pipe = Pipe::new(&reno(), |data, _, segment: &Segment, now| {
        if data && segment.payload > 0 && now < 400 * MILLISECOND {
            return vec![];
        }
        vec![DELAY]
    });
    pipe.server.write(0, Bytes::new(40 * 1448));
    pipe.server.close(0);
    pipe.run(10 * SECOND, |pipe| {
        pipe.server.snapshot().counts.timeouts == 1
    });
    let snapshot = pipe.server.snapshot();
    assert_eq!(
        (snapshot.cwnd, snapshot.in_flight, snapshot.ssthresh),
        (1, 1, 5)
    );
    assert_eq!(snapshot.state, LossState::Loss);
    pipe.run(10 * SECOND, |pipe| pipe.server.finished());
    assert_eq!(pipe.server.snapshot().counts.timeouts, 1);
}

/// RFC 8985: retransmissions are judged by time as well, so one that is lost needs no timeout.
#[test]
fn a_lost_retransmission_is_found_by_time() {
    let mut copies = 0;
    let fate = move |data, _, segment: &Segment, _| {
        if data && segment.payload > 0 && index(segment) == 20 {
            copies += 1;
            if copies <= 3 {
                return vec![];
            }
        }
        vec![DELAY]
    };
    let pipe = Pipe::transfer(&reno(), 1000 * 1448, fate);
    let again = pipe.again();
    assert_eq!(again.len(), 3);
    for pair in again.windows(2) {
        let wait = pair[1].at - pair[0].at;
        assert!((RTT..RTT + RTT / 2).contains(&wait), "{wait}");
    }
    assert_eq!(pipe.server.snapshot().counts.timeouts, 0);
}

/// RFC 6937: while losses are repaired, no more is sent than was delivered once the window is below
/// the threshold. The exception is an acknowledgement that advances without new losses.
#[test]
fn conserves_packets_while_losses_are_repaired() {
    // Only every fourth segment of a window of 80 arrives.
    let fate = |data, _, segment: &Segment, _| {
        let lost = data && segment.payload > 0 && !segment.again;
        let index = segment.seq.saturating_sub(1) / 1448;
        if lost && (70..150).contains(&index) && !index.is_multiple_of(4) {
            return vec![];
        }
        vec![DELAY]
    };
    let pipe = Pipe::transfer(&reno(), 400 * 1448, fate);
    let first = pipe.again()[0].at;
    // In the first round trip of the recovery nothing advances: one for each of 20 delivered
    // segments, and the first retransmission, which is sent at once.
    let sent = pipe
        .data()
        .filter(|sent| (first..first + RTT).contains(&sent.at))
        .count();
    assert!((15..=22).contains(&sent), "{sent}");
    assert_eq!(pipe.server.snapshot().counts.timeouts, 0);
    assert_eq!(pipe.server.snapshot().counts.lost, 60);
}

/// RFC 9293 §3.8.6.1: a window that is too small is probed, and does not end the transfer.
#[test]
fn probes_a_closed_window() {
    let config = TcpConfig {
        receive_window: 1000,
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 5000, super::pipe::clean);
    assert!(pipe.data().all(|sent| sent.segment.payload <= 1000));
}
