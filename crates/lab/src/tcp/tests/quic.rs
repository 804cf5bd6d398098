//! QUIC's loss recovery: what RFC 9002 asks for.

use tidegate_limiter::Bytes;

use super::pipe::{DELAY, Pipe, RTT, losing, reno};
use crate::tcp::cc::LossState;
use crate::tcp::{Recovery, TcpConfig};
use crate::{MILLISECOND, SECOND};

fn quic() -> TcpConfig {
    TcpConfig {
        recovery: Recovery::Quic,
        // `max_ack_delay`, RFC 9000 §18.2.
        delayed_ack: 25 * MILLISECOND,
        ..reno()
    }
}

/// §6.1.1: three later packets show it, a round trip after it was sent. §7.3.1: the window is halved, at once.
#[test]
fn three_later_packets_show_a_loss() {
    let pipe = Pipe::transfer(&quic(), 150 * 1448, losing(&[20]));
    let lost = *pipe.data().find(|sent| sent.dropped).unwrap();
    let again = pipe.again();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].segment.seq, lost.segment.seq);
    assert_eq!(again[0].at, lost.at + RTT);
    let counts = pipe.server.snapshot().counts;
    assert_eq!((counts.lost, counts.recoveries, counts.probes), (1, 1, 0));
}

/// §6.1.2: with one later packet it takes 9/8 of the round trip.
#[test]
fn the_time_threshold_shows_a_loss_with_fewer_later_packets() {
    let pipe = Pipe::transfer(&quic(), 30 * 1448, losing(&[28]));
    let lost = pipe.data().find(|sent| sent.dropped).unwrap();
    let again = pipe.again();
    assert_eq!(again.len(), 1);
    let wait = again[0].at - lost.at;
    assert!(
        (RTT * 9 / 8..RTT * 9 / 8 + 4 * MILLISECOND).contains(&wait),
        "{wait}"
    );
    assert_eq!(pipe.server.snapshot().counts.probes, 0);
}

/// §6.2.1 and §6.2.4: smoothed + max(4 rttvar, 1 ms) + max_ack_delay after the last packet, two packets leave. §7.5: they
/// say nothing of congestion until one of them is acknowledged.
#[test]
fn a_probe_timeout_repairs_the_tail() {
    let mut pipe = Pipe::new(&quic(), losing(&[28, 29]));
    pipe.server.write(0, Bytes::new(30 * 1448));
    pipe.server.close(0);
    pipe.run(SECOND, |pipe| pipe.again().len() == 2);
    let before = pipe.server.snapshot();
    let last = pipe.data().rfind(|sent| sent.dropped).unwrap().at;
    let again = pipe.again();
    assert_eq!(again[0].at, again[1].at);
    let seqs = [again[0].segment.seq, again[1].segment.seq];
    assert_eq!(seqs, [1 + 28 * 1448, 1 + 29 * 1448], "the oldest first");
    // Six samples of the same round trip follow that of the handshake, so that 4 rttvar has shrunk from two round trips.
    let wait = again[0].at - last;
    assert!((RTT + 26 * MILLISECOND..4 * RTT).contains(&wait), "{wait}");
    assert_eq!(
        (before.state, before.counts.recoveries),
        (LossState::Open, 0)
    );
    pipe.run(SECOND, |pipe| pipe.server.finished());
    let after = pipe.server.snapshot();
    assert_eq!((after.counts.recoveries, after.counts.timeouts), (1, 0));
    assert_eq!(after.ssthresh, before.cwnd / 2);
}

/// §7.3.2: one reduction for what was in flight, and no growth until something that was sent later is acknowledged.
#[test]
fn losses_of_a_flight_count_once() {
    let pipe = Pipe::transfer(&quic(), 300 * 1448, losing(&[40, 50, 55, 60]));
    let counts = pipe.server.snapshot().counts;
    assert_eq!((counts.lost, counts.recoveries), (4, 1));
    assert_eq!(pipe.again().len(), 4);
}

#[test]
fn the_window_is_halved_as_recovery_begins() {
    let mut pipe = Pipe::new(&quic(), losing(&[40]));
    pipe.server.write(0, Bytes::new(300 * 1448));
    let mut before = 0;
    pipe.run(SECOND, |pipe| {
        let now = pipe.server.snapshot();
        if now.state != LossState::Recovery {
            before = now.cwnd;
        }
        now.state == LossState::Recovery
    });
    let now = pipe.server.snapshot();
    assert_eq!(now.cwnd, now.ssthresh);
    assert!(
        (before / 2..=before / 2 + 2).contains(&now.cwnd),
        "{before}, {}",
        now.cwnd
    );
    let reduced = now.cwnd;
    pipe.run(SECOND, |pipe| {
        pipe.server.snapshot().state == LossState::Open
    });
    assert!(
        pipe.server.snapshot().cwnd <= reduced + 1,
        "it did not grow in recovery"
    );
}

/// §7.6: where everything is lost for longer than three probe timeouts, it begins again with two packets. Each probe
/// timeout waits twice as long as the one before, §6.2.1.
#[test]
fn persistent_congestion_begins_again() {
    let outage = 400 * MILLISECOND..5 * SECOND;
    let mut pipe = Pipe::new(&quic(), move |data, _, _, now| {
        if data && outage.contains(&now) {
            return vec![];
        }
        vec![DELAY]
    });
    pipe.server.write(0, Bytes::new(100_000 * 1448));
    pipe.run(20 * SECOND, |pipe| {
        pipe.server.snapshot().counts.timeouts > 0
    });
    assert!(pipe.now > 5 * SECOND, "{}", pipe.now);
    let now = pipe.server.snapshot();
    assert_eq!((now.cwnd, now.counts.timeouts), (2, 1));
    // Nothing is acknowledged any more from 450 ms on.
    let late = pipe
        .data()
        .map(|sent| sent.at)
        .filter(|&at| at > 500 * MILLISECOND);
    let mut probes: Vec<_> = late.collect();
    probes.dedup();
    let waits: Vec<_> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for pair in waits[..3].windows(2) {
        assert_eq!(pair[1], 2 * pair[0], "{waits:?}");
    }
    pipe.run(30 * SECOND, |pipe| pipe.server.snapshot().cwnd > 100);
}

/// §6.1.1: reordering by two packets is no loss.
#[test]
fn a_packet_may_be_overtaken_by_two() {
    let pipe = Pipe::transfer(&quic(), 150 * 1448, |data, _, segment, _| {
        let index = segment.seq.saturating_sub(1) / 1448;
        let late = match index {
            100 if data => 1_000,
            103.. if data => 2_000,
            _ => 0,
        };
        vec![DELAY + late]
    });
    assert_eq!(pipe.again().len(), 0);
}
