//! Answers to marks, RFC 3168 and RFC 8257.

use tidegate_limiter::{Bytes, Ecn};

use super::pipe::{Pipe, clean, losing, reno};
use crate::tcp::{Algorithm, Segment, TcpConfig};

fn ecn() -> TcpConfig {
    TcpConfig {
        ecn: true,
        ..reno()
    }
}

/// A transfer of 600 segments, of which some are marked.
fn transfer(
    config: &TcpConfig,
    marked: std::ops::Range<u64>,
) -> Pipe<impl FnMut(bool, u64, &Segment, u64) -> Vec<u64> + use<>> {
    let mut pipe = Pipe::new(config, clean);
    pipe.marked = marked;
    pipe.server.write(0, Bytes::new(600 * 1448));
    pipe.server.close(0);
    pipe.run(60_000_000_000, |pipe| pipe.server.finished());
    pipe
}

/// RFC 3168 §6.1.1, §6.1.4 and §6.1.5: who may have the ECN field.
#[test]
fn both_ends_agree_and_only_new_data_is_capable() {
    let pipe = transfer(&ecn(), 0..0);
    let flags = |sent: &super::pipe::Sent| (sent.segment.ece, sent.segment.cwr);
    assert_eq!(
        [flags(&pipe.log[0]), flags(&pipe.log[1])],
        [(true, true), (true, false)]
    );
    for sent in &pipe.log {
        let expected = match sent.data && sent.segment.payload > 0 {
            true => Ecn::Ect0,
            false => Ecn::NotEct,
        };
        assert_eq!(sent.segment.ecn, expected, "{sent:?}");
    }
    let plain = transfer(&reno(), 0..600);
    assert!(
        plain
            .log
            .iter()
            .all(|sent| sent.segment.ecn == Ecn::NotEct && !sent.segment.ece)
    );

    let mut lossy = Pipe::new(&ecn(), losing(&[20]));
    lossy.server.write(0, Bytes::new(100 * 1448));
    lossy.pass(10_000_000_000);
    let again = lossy.again();
    assert_eq!((again.len(), again[0].segment.ecn), (1, Ecn::NotEct));
}

/// RFC 3168 §6.1.2 and §6.1.3: a mark halves the window once in a round trip, and is echoed until the sender says so.
#[test]
fn a_mark_halves_the_window_once_and_nothing_is_sent_again() {
    // A part of the fourth round trip, whose window has 80 segments.
    let pipe = transfer(&ecn(), 100..130);
    let counts = pipe.server.snapshot().counts;
    assert_eq!(
        (counts.reduced, counts.retransmitted, counts.lost),
        (1, 0, 0)
    );
    let cwr: Vec<_> = pipe.data().filter(|sent| sent.segment.cwr).collect();
    assert_eq!(cwr.len(), 1);
    let heard = cwr[0].at + super::pipe::DELAY;
    let echoes: Vec<_> = pipe.acks().filter(|sent| sent.segment.ece).collect();
    assert!(echoes.len() > 10);
    assert!(echoes.iter().all(|sent| sent.at <= heard));
    // All acknowledgements from the first marked segment on.
    let from = echoes[0].at;
    assert!(
        pipe.acks()
            .filter(|sent| sent.at > from && sent.at < heard)
            .all(|sent| sent.segment.ece)
    );
    let window = pipe.server.snapshot().ssthresh;
    assert!((40..=70).contains(&window), "{window}");
}

#[test]
fn marks_in_two_round_trips_reduce_the_window_twice() {
    let pipe = transfer(&ecn(), 60..300);
    assert!(pipe.server.snapshot().counts.reduced >= 2);
}

/// RFC 8257 §3.2: each acknowledgement has the state of the segments that it acknowledges.
#[test]
fn dctcp_hears_of_each_mark() {
    let config = TcpConfig {
        algorithm: Algorithm::Dctcp,
        ..TcpConfig::default()
    };
    let pipe = transfer(&config, 101..104);
    let (mut before, mut marked) = (1, 0);
    for sent in pipe.acks() {
        if sent.segment.ece {
            marked += sent.segment.ack - before;
        }
        before = before.max(sent.segment.ack);
    }
    assert_eq!(marked, 3 * 1448);
    assert!(pipe.log.iter().all(|sent| sent.segment.ecn.is_capable()));
}

/// RFC 9768 §3.2.2: the counter is one of packets, also where the receiver's host merges them.
#[test]
fn accurate_ecn_counts_every_mark_of_merged_packets() {
    let config = TcpConfig {
        algorithm: Algorithm::Prague,
        gro: 50_000,
        ..TcpConfig::default()
    };
    // The first window leaves at once, and comes as five pairs.
    let pipe = transfer(&config, 0..10);
    let last = pipe.log.iter().rfind(|sent| !sent.data).unwrap();
    assert_eq!(last.segment.ace(), (5 + 10) % 8);
}

/// RFC 9768 §3.1 and §3.2: the handshake of accurate ECN, and the counter, which knows each mark.
#[test]
fn accurate_ecn_counts_every_mark() {
    let config = TcpConfig {
        algorithm: Algorithm::Prague,
        ..TcpConfig::default()
    };
    let flags = |segment: &Segment| (segment.ae, segment.cwr, segment.ece);
    for marked in [0..0, 100..101, 100..113] {
        let count = marked.end - marked.start;
        let pipe = transfer(&config, marked);
        let (syn, answer) = (&pipe.log[0].segment, &pipe.log[1].segment);
        assert_eq!(flags(syn), (true, true, true));
        assert_eq!(flags(answer), (false, true, true), "ECT(1) arrived");
        assert!(pipe.log.iter().all(|sent| sent.segment.ecn == Ecn::Ect1));
        let last = pipe.log.iter().rfind(|sent| !sent.data).unwrap();
        assert_eq!(last.segment.ace(), (5 + count) % 8);
        let counts = pipe.server.snapshot().counts;
        assert_eq!(counts.reduced, u64::from(count > 0));
        assert_eq!(counts.retransmitted, 0);
    }
}
