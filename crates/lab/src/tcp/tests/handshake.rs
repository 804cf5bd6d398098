//! What a lost or repeated SYN tells of the path.

use tidegate_limiter::{Bytes, Nanos};

use super::pipe::{DELAY, Pipe, RTT};
use crate::tcp::{Segment, TcpConfig};
use crate::{MILLISECOND, SECOND};

/// A connection whose client's first SYNs are lost, or the server's, as many as these. Its first SYN is late, so that the
/// second comes before the server repeats its answer. The first data is lost.
fn after(
    lost: [u64; 2],
    timestamps: bool,
) -> Pipe<impl FnMut(bool, u64, &Segment, Nanos) -> Vec<Nanos>> {
    let config = TcpConfig {
        timestamps,
        // Without tail loss probes.
        rack: false,
        ..TcpConfig::default()
    };
    let mut pipe = Pipe::new(&config, move |data, number, segment, _| {
        let is_lost = segment.payload > 0 && !segment.again;
        match is_lost || number < lost[usize::from(data)] {
            true => vec![],
            false => vec![
                DELAY
                    + if (data, number) == (false, 0) {
                        2 * RTT
                    } else {
                        0
                    },
            ],
        }
    });
    pipe.server.write(0, Bytes::new(1448));
    pipe.run(60 * SECOND, |pipe| pipe.server.established());
    pipe
}

/// The first retransmission timeout of the server's data.
fn timeout<F: FnMut(bool, u64, &Segment, Nanos) -> Vec<Nanos>>(pipe: &mut Pipe<F>) -> Nanos {
    pipe.run(60 * SECOND, |pipe| pipe.server.acked() > 0);
    pipe.again()[0].at - pipe.data().next().unwrap().at
}

/// RFC 6298 §3: what was sent twice gives no sample. The timer can cause that, and so can a SYN that the client repeats.
/// §5.7: the timeout is then 3 s as data begins, in Linux too (`tcp_init_metrics`).
#[test]
fn a_repeated_syn_gives_no_sample_and_a_timeout_of_three_seconds() {
    for lost in [1, 2] {
        let mut pipe = after([0, lost], false);
        assert_eq!(pipe.server.snapshot().srtt, None);
        assert_eq!(timeout(&mut pipe), 3 * SECOND);
    }
    // The client repeated its SYN, the server did not.
    let mut pipe = after([1, 0], false);
    assert_eq!(pipe.client.snapshot().srtt, None);
    assert_eq!(pipe.server.snapshot().srtt, Some(RTT));
    assert!(timeout(&mut pipe) < SECOND);
}

/// RFC 7323 §4: the echo tells which of the two was answered.
#[test]
fn timestamps_measure_a_repeated_syn() {
    for lost in [[0, 1], [1, 0], [0, 2], [2, 0]] {
        let mut pipe = after(lost, true);
        let got = pipe.server.snapshot().srtt.unwrap();
        assert!(got.abs_diff(RTT) <= MILLISECOND, "{lost:?}: {got}");
        let got = pipe.client.snapshot().srtt.unwrap();
        // The server's second answer echoes the first SYN, as in Linux: that one was answered.
        let expected = if lost[0] > 0 { RTT } else { SECOND + 2 * RTT };
        assert!(
            got.abs_diff(expected) <= 2 * RTT + MILLISECOND,
            "{lost:?}: {got}"
        );
        assert!(timeout(&mut pipe) < SECOND, "{lost:?}");
    }
}
