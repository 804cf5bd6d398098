//! QUIC's loss recovery: what RFC 9002 asks for.

use tidegate_limiter::Bytes;

use super::pipe::{DELAY, Pipe, RTT, clean, losing, reno};
use crate::tcp::cc::LossState;
use crate::tcp::{Algorithm, Recovery, TcpConfig};
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

/// §7.3.2: what was sent before the recovery never reduces the window again. The loss of the last packet before it shows
/// only after the repair of the first has ended the recovery.
#[test]
fn a_loss_of_the_same_flight_that_shows_late_reduces_nothing() {
    let pipe = Pipe::transfer(&quic(), 300 * 1448, losing(&[40]));
    let before: Vec<_> = pipe.data().take_while(|sent| !sent.segment.again).collect();
    let last = before.last().unwrap().segment.seq;
    let pipe = Pipe::transfer(&quic(), 300 * 1448, |data, _, segment, _| {
        let lost = [1 + 40 * 1448, last].contains(&segment.seq);
        match data && lost && !segment.again {
            true => vec![],
            false => vec![DELAY],
        }
    });
    let again = pipe.again();
    assert_eq!(again.len(), 2);
    assert!(again[1].at > again[0].at + RTT, "after the recovery");
    let counts = pipe.server.snapshot().counts;
    assert_eq!((counts.lost, counts.recoveries), (2, 1));
}

/// §7.1: a mark reduces the window once in a round trip. RFC 3168 §6.1.2 and §6.1.3: the receiver echoes it until a segment
/// says so. The retransmission that leaves before that segment says nothing, so its acknowledgement echoes the same mark.
#[test]
fn a_mark_reduces_the_window_once() {
    for lost in [&[][..], &[120]] {
        let config = TcpConfig {
            ecn: true,
            ..quic()
        };
        let mut pipe = Pipe::new(&config, losing(lost));
        pipe.marked = 100..110;
        pipe.server.write(0, Bytes::new(600 * 1448));
        pipe.server.close(0);
        pipe.run(60 * SECOND, |pipe| pipe.server.finished());
        let counts = pipe.server.snapshot().counts;
        assert_eq!((counts.reduced, counts.recoveries), (1, 0), "{lost:?}");
        assert_eq!(pipe.again().len(), lost.len());
        let told: Vec<_> = pipe.data().filter(|sent| sent.segment.cwr).collect();
        assert_eq!(told.len(), 1, "{lost:?}");
        if let Some(again) = pipe.again().first() {
            let order = |seq| pipe.data().position(|sent| sent.segment.seq == seq);
            let first = pipe.data().position(|sent| sent.segment.again);
            assert!(first < order(told[0].segment.seq), "{again:?}");
        }
        let heard = told[0].at + DELAY;
        let mut echoes = pipe.acks().filter(|sent| sent.segment.ece);
        assert!(echoes.all(|sent| sent.at <= heard), "{lost:?}");
    }
}

/// RFC 8257 §3.3 and RFC 9331 §4.3: DCTCP and Prague answer marks by their share, and only losses by half.
#[test]
fn a_mark_is_no_loss_for_algorithms_that_count_marks() {
    for algorithm in [Algorithm::Dctcp, Algorithm::Prague] {
        let config = TcpConfig {
            algorithm,
            slow_start_threshold: Some(20),
            ..quic()
        };
        let mut pipe = Pipe::new(&config, clean);
        pipe.marked = 1500..1501;
        pipe.server.write(0, Bytes::new(3000 * 1448));
        pipe.server.close(0);
        let mut before = 0;
        pipe.run(60 * SECOND, |pipe| {
            let now = pipe.server.snapshot();
            if now.state == LossState::Open {
                before = now.cwnd;
            }
            now.state != LossState::Open
        });
        let now = pipe.server.snapshot();
        assert_eq!(now.state, LossState::Cwr, "{algorithm:?}");
        // After 40 round trips without marks, the share of DCTCP is below a tenth. That of Prague begins with the mark.
        if algorithm == Algorithm::Dctcp {
            assert!(now.cwnd > before * 9 / 10, "{before}, {}", now.cwnd);
        }
        pipe.run(60 * SECOND, |pipe| pipe.server.finished());
        let counts = pipe.server.snapshot().counts;
        assert_eq!((counts.reduced, counts.recoveries), (1, 0));
    }
}
