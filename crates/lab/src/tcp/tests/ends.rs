//! Limits at both ends: a receiver that reads slowly, a send buffer, and a threshold known beforehand.

use tidegate_limiter::{Bytes, Nanos, Rate};

use super::pipe::{Pipe, RTT, clean, reno};
use crate::SECOND;
use crate::tcp::{Segment, TcpConfig};

/// 1 Mbit/s in blocks of 20 kB, one each 160 ms. The window of 40 kB closes, probes do not end that, and
/// what arrives is what was read.
#[test]
fn a_slow_reader_closes_the_window() {
    let config = TcpConfig {
        receive_window: 40_000,
        read_rate: Some(Rate::from_bits_per_second(1_000_000)),
        read_block: 20_000,
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 1_000_000, clean);
    let closed = pipe.acks().filter(|sent| sent.segment.window < 1448);
    assert!(closed.count() >= 20);
    // All but the window must have been read.
    let expected = 960_000 * 8 * SECOND / 1_000_000;
    assert!(
        (expected..expected + SECOND).contains(&pipe.now),
        "{} ns",
        pipe.now
    );
    assert!(pipe.again().is_empty());
}

/// RFC 9293 §3.8.6.1: the interval between probes of a closed window grows exponentially, though each is answered
/// (`icsk_backoff`). It begins again when the window opens.
#[test]
fn probes_of_a_closed_window_become_rare() {
    let config = TcpConfig {
        receive_window: 40_000,
        // A block each 20 s.
        read_rate: Some(Rate::from_bits_per_second(8_000)),
        read_block: 20_000,
        ..reno()
    };
    let mut pipe = Pipe::new(&config, clean);
    pipe.server.write(0, Bytes::new(1_000_000));
    pipe.pass(38 * SECOND);
    let probes = pipe.log.iter().filter(|sent| {
        let segment = &sent.segment;
        sent.data && segment.payload == 0 && !segment.syn && sent.at > SECOND
    });
    let probes: Vec<Nanos> = probes.map(|sent| sent.at).collect();
    let opened = pipe.data().find(|sent| sent.at > 10 * SECOND).unwrap().at;
    for period in [
        &probes[..],
        &probes[probes.partition_point(|&at| at < opened)..],
    ] {
        let waits: Vec<_> = period.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for pair in waits[..3].windows(2) {
            assert!(pair[1] * 2 > pair[0] * 3, "{waits:?}");
        }
    }
    assert!(probes.len() < 20, "{}", probes.len());
}

/// What is sent and not acknowledged never exceeds the buffer, and a buffer a round trip is sent at most.
#[test]
fn a_send_buffer_bounds_what_is_in_flight() {
    let config = TcpConfig {
        send_buffer: Some(30_000),
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 600_000, clean);
    let (mut acked, mut sent) = (1, 1);
    let mut log = pipe.log.iter().peekable();
    while let Some(entry) = log.next() {
        if entry.data {
            sent = sent.max(entry.segment.end());
        }
        // An acknowledgement counts when it has come.
        let now = log.peek().map_or(pipe.now, |next| next.at);
        let come = pipe.acks().take_while(|ack| ack.at + RTT / 2 <= now);
        acked = come.map(|ack| ack.segment.ack).max().unwrap_or(acked);
        assert!(sent <= acked + 30_000 + 1, "{sent} {acked}");
    }
    let least = 600_000 / 30_000 * RTT;
    assert!((least..2 * least).contains(&pipe.now), "{}", pipe.now);
}

/// From the threshold on the window grows by a segment a round trip.
#[test]
fn a_known_threshold_ends_slow_start_before_anything_is_lost() {
    let config = TcpConfig {
        slow_start_threshold: Some(20),
        ..reno()
    };
    let pipe = Pipe::transfer(&config, 300 * 1448, clean);
    let mut rounds = [0; 20];
    for sent in pipe.data() {
        rounds[((sent.at as Nanos) / RTT) as usize] += 1;
    }
    assert_eq!(rounds[..5], [0, 10, 20, 21, 22]);
}

/// RFC 5961 §5.2: an acknowledgement of data that was not sent, or of data older than a window, is answered, and nothing
/// else in the segment counts.
#[test]
fn what_acknowledges_too_much_or_too_little_is_answered() {
    let config = TcpConfig {
        receive_window: 40_000,
        ..reno()
    };
    let mut pipe = Pipe::new(&config, clean);
    pipe.server.write(0, Bytes::new(100_000));
    pipe.run(SECOND, |pipe| pipe.server.acked() == 100_000);
    let last = pipe.acks().last().expect("an acknowledgement").segment;
    let answer = |pipe: &mut Pipe<_>, ack| {
        let segment = Segment {
            ack,
            payload: 1000,
            window: 20_000,
            ..last
        };
        pipe.server.on_segment(pipe.now, &segment);
        let answer = pipe.server.poll_transmit(pipe.now);
        (
            answer.map(|answer| (answer.payload, answer.ack)),
            pipe.server.received(),
        )
    };
    assert_eq!(answer(&mut pipe, 200_001), (Some((0, 1)), 0));
    assert_eq!(answer(&mut pipe, 0), (Some((0, 1)), 0));
    assert_eq!(answer(&mut pipe, 100_001).1, 1000);
}
