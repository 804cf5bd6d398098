//! Transfers over a path that loses nothing.

use tidegate_limiter::Bytes;

use super::pipe::{DELAY, Pipe, RTT, clean, reno};
use crate::tcp::{Algorithm, Segment, TcpConfig};
use crate::{MILLISECOND, SECOND};

/// RFC 6928 and 5681: 10 segments, then twice as many every round trip, because every segment is
/// acknowledged at once at first, and two by two later without loss of growth (RFC 3465).
#[test]
fn slow_start_doubles_every_round_trip() {
    let pipe = Pipe::transfer(&reno(), 150 * 1448, clean);
    // The handshake takes a round trip, and the first segments arrive with the ACK of it.
    let mut rounds = [0; 5];
    for sent in pipe.data() {
        rounds[(sent.at / RTT) as usize] += 1;
    }
    assert_eq!(rounds, [0, 10, 20, 40, 80]);
    assert!(pipe.again().is_empty());
    // 1.5 of them for the handshake, and four with data.
    assert_eq!(pipe.now, 5 * RTT + DELAY);
}

#[test]
fn acknowledges_every_second_segment_after_the_first_sixteen() {
    let config = TcpConfig {
        receive_window: 65_535,
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 1000 * 1448, clean);
    let acks = pipe.acks().count();
    // The handshake's, 16 at once, then every second segment, and the odd ones at the ends of
    // bursts. A small window has many of these.
    assert!((1 + 16 + 492..650).contains(&acks), "{acks}");
}

/// Linux: acknowledges each segment while the window grows, which is three quarters of slow start.
#[test]
fn acknowledges_each_segment_by_which_the_window_grows() {
    let pipe = Pipe::transfer(&reno(), 1000 * 1448, clean);
    let acks = pipe.acks().count();
    assert!((800..950).contains(&acks), "{acks}");
}

/// As captures of Linux 6.18 show, at 10 Mbit/s and 40 ms: HyStart takes those acknowledgements for
/// a train, and ends slow start with 57 to 60 segments in flight.
#[test]
fn a_growing_window_lets_hystart_see_the_train() {
    let config = TcpConfig {
        algorithm: Algorithm::Cubic,
        ..TcpConfig::default()
    };
    let mut free: u64 = 0;
    let link = move |data: bool, _: u64, segment: &Segment, now: u64| {
        if !data || segment.payload == 0 {
            return vec![20 * MILLISECOND];
        }
        free = now.max(free) + 1_200_000;
        vec![free - now + 20 * MILLISECOND]
    };
    let mut pipe = Pipe::new(&config, link);
    pipe.server.write(0, Bytes::new(1000 * 1448));
    pipe.run(SECOND, |pipe| pipe.server.snapshot().ssthresh < u32::MAX);
    let ssthresh = pipe.server.snapshot().ssthresh;
    assert!((56..=61).contains(&ssthresh), "{ssthresh}");
}

#[test]
fn measures_the_round_trip() {
    let pipe = Pipe::transfer(&reno(), 500 * 1448, clean);
    assert!(pipe.rtts.len() > 100);
    for rtt in &pipe.rtts {
        // A lone segment waits for its acknowledgement.
        assert!((RTT..=RTT + 40 * MILLISECOND).contains(rtt), "{rtt}");
    }
}

#[test]
fn keeps_within_a_small_receive_window() {
    let config = TcpConfig {
        receive_window: 64_000,
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 4_000_000, clean);
    // The pipe checks the edge. This test checks the rate: one window every round trip, in whole
    // segments.
    let rounds = 4_000_000 / (64_000 / 1448 * 1448);
    let time = pipe.now / RTT;
    assert!((rounds..rounds + 8).contains(&time), "{time} for {rounds}");
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut lost = 0;
    let pipe = Pipe::transfer(&reno(), 1000, |data, number, _, _| {
        if !data && number == 0 {
            lost += 1;
            return vec![];
        }
        vec![DELAY]
    });
    assert_eq!(pipe.log[1].at, SECOND);
    assert!(pipe.log[1].segment.syn && pipe.log[1].segment.again);
    assert_eq!(pipe.now, SECOND + 2 * RTT + DELAY);
}
