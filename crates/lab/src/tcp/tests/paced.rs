//! Segments spread over time, a rate limit at the sender, and silence.

use tidegate_limiter::{Bytes, Nanos, Rate};

use super::pipe::{Pipe, RTT, clean, reno};
use crate::SECOND;
use crate::tcp::{Algorithm, TcpConfig};

/// [Flach16 §5.2.1]: the limit holds over every interval, to a packet, and the sender uses all of
/// it.
#[test]
fn a_rate_limit_holds_over_every_interval() {
    let rate = 3_000_000;
    let config = TcpConfig {
        rate_limit: Some(Rate::from_bits_per_second(rate)),
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 2_000_000, clean);
    let sent: Vec<(Nanos, u64)> = pipe
        .data()
        .map(|sent| (sent.at, u64::from(sent.segment.ip_bytes())))
        .collect();
    for (index, &(from, _)) in sent.iter().enumerate() {
        let mut bytes = 0;
        for &(at, length) in &sent[index..] {
            bytes += length;
            // Rounded to a nanosecond.
            let allowed = (at - from + 1) * rate / 8 / SECOND + 1500 + 1;
            assert!(bytes <= allowed, "{bytes} of {allowed} in {} ns", at - from);
        }
    }
    // From the second second on all of it is used.
    let (from, to) = (SECOND, 5 * SECOND);
    let bytes: u64 = sent
        .iter()
        .filter(|sent| (from..to).contains(&sent.0))
        .map(|sent| sent.1)
        .sum();
    assert!(
        bytes * 8 * SECOND / (to - from) > rate * 98 / 100,
        "{bytes}"
    );
}

/// Linux `SO_MAX_PACING_RATE`: a congestion control that paces by itself uses what the limit leaves it, less the little by which it
/// stays below what it measures.
#[test]
fn bbr_uses_its_rate_limit() {
    let rate = 3_000_000;
    for algorithm in [Algorithm::Bbr, Algorithm::Bbr3] {
        let config = TcpConfig {
            algorithm,
            rate_limit: Some(Rate::from_bits_per_second(rate)),
            ..reno()
        };
        let mut pipe = Pipe::new(&config, clean);
        pipe.server.write(0, Bytes::new(u64::MAX / 4));
        pipe.pass(SECOND);
        let before = pipe.client.received();
        pipe.pass(10 * SECOND);
        let part = (pipe.client.received() - before) as f64 * 8.0 / (10 * rate) as f64;
        // 40 bytes of a packet of 1,488 are headers, and more with options.
        assert!((0.92..0.975).contains(&part), "{algorithm:?}: {part}");
    }
}

/// Most segments that leave at one time, after slow start.
fn largest_burst(pacing: bool) -> usize {
    let config = TcpConfig {
        pacing,
        receive_window: 100 * 1448,
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 2000 * 1448, clean);
    let times: Vec<Nanos> = pipe
        .data()
        .map(|sent| sent.at)
        .filter(|&at| at > 8 * RTT)
        .collect();
    assert!(times.len() > 500);
    let bursts = times.chunk_by(|at, next| at == next);
    bursts.map(|burst| burst.len()).max().unwrap()
}

/// Linux: bursts of a 1024th of a second instead of the whole window. The window has grown to twice
/// the part that the receiver allows, and the rate is twice that: 7.8 segments.
#[test]
fn pacing_spreads_the_window_over_the_round_trip() {
    assert!(largest_burst(false) >= 50);
    assert!((2..=8).contains(&largest_burst(true)));
}

/// Linux `hystart_update`: pacing spreads a window over half a round trip, so acknowledgements that are spread as far do not
/// end the slow start of a paced sender on a path without a bottleneck.
#[test]
fn a_paced_cubic_does_not_leave_slow_start_by_its_own_pacing() {
    let config = TcpConfig {
        algorithm: Algorithm::Cubic,
        pacing: true,
        receive_window: 64 << 20,
        ..reno()
    };
    let mut pipe = Pipe::new(&config, clean);
    pipe.server.write(0, Bytes::new(u64::MAX / 4));
    pipe.pass(10 * RTT);
    let snapshot = pipe.server.snapshot();
    assert_eq!(snapshot.ssthresh, u32::MAX, "{snapshot:?}");
    assert!(snapshot.cwnd > 2000, "{snapshot:?}");
}

/// RFC 5681 §4.1: after silence the window begins again as it was at first.
#[test]
fn silence_shrinks_the_window() {
    let mut pipe = Pipe::new(&reno(), clean);
    pipe.server.write(0, Bytes::new(500 * 1448));
    pipe.pass(SECOND);
    assert_eq!(pipe.client.received(), 500 * 1448);
    let before = pipe.server.snapshot();
    assert!(before.cwnd > 100);
    pipe.pass(10 * SECOND);
    pipe.server.write(pipe.now, Bytes::new(500 * 1448));
    let after = pipe.server.snapshot();
    assert_eq!(after.cwnd, 10);
    let start = pipe.now;
    pipe.pass(RTT / 2);
    assert_eq!(pipe.data().filter(|sent| sent.at >= start).count(), 10);
}

/// RFC 7661: a window that is not in use does not grow.
#[test]
fn an_unused_window_does_not_grow() {
    let mut pipe = Pipe::new(&reno(), clean);
    pipe.pass(RTT * 2);
    for _ in 0..100 {
        pipe.server.write(pipe.now, Bytes::new(2 * 1448));
        pipe.pass(RTT);
    }
    assert_eq!(pipe.client.received(), 200 * 1448);
    assert_eq!(pipe.server.snapshot().cwnd, 10);
}

/// Linux `snd_cwnd_clamp`: the window shrinks to the bound within a round trip and stays there.
/// Without the bound it grows as at the beginning, because the threshold was removed with the
/// bound.
#[test]
fn a_bound_holds_the_window_until_it_is_lifted() {
    let mut pipe = Pipe::new(&reno(), clean);
    pipe.server.write(0, Bytes::new(u64::MAX / 4));
    pipe.pass(8 * RTT);
    assert!(pipe.server.snapshot().cwnd > 100);
    pipe.server.clamp(Some(20));
    pipe.pass(2 * RTT);
    for _ in 0..10 {
        pipe.pass(RTT);
        let snapshot = pipe.server.snapshot();
        assert_eq!((snapshot.cwnd, snapshot.ssthresh), (20, 20));
        assert!(snapshot.in_flight <= 20);
    }
    // A wider one is reached at once, because it is also the threshold.
    pipe.server.clamp(Some(40));
    pipe.pass(2 * RTT);
    assert_eq!(pipe.server.snapshot().cwnd, 40);
    pipe.server.clamp(None);
    pipe.pass(2 * RTT);
    assert!(pipe.server.snapshot().cwnd >= 4 * 40 - 8);
}

/// Linux `SO_MAX_PACING_RATE`: this is the rate, for any width of the window.
#[test]
fn pacing_can_be_bounded_to_a_rate() {
    let mut pipe = Pipe::new(&reno(), clean);
    pipe.server.write(0, Bytes::new(u64::MAX / 4));
    pipe.pass(8 * RTT);
    pipe.server.pace(500_000);
    pipe.pass(2 * SECOND);
    let before = pipe.client.received();
    pipe.pass(4 * SECOND);
    let rate = (pipe.client.received() - before) / 4;
    assert!((490_000..=505_000).contains(&rate), "{rate}");
}

/// Linux `tcp_slow_start_after_idle` off: silence does not shrink the window.
#[test]
fn silence_may_leave_the_window() {
    let config = TcpConfig {
        slow_start_after_idle: false,
        ..reno()
    };
    let mut pipe = Pipe::new(&config, clean);
    pipe.server.write(0, Bytes::new(500 * 1448));
    pipe.pass(10 * SECOND);
    let before = pipe.server.snapshot().cwnd;
    assert!(before > 100);
    pipe.server.write(pipe.now, Bytes::new(500 * 1448));
    assert_eq!(pipe.server.snapshot().cwnd, before);
}
