//! RFC 3168 §6.1.2: answers to echoed marks.

use super::*;

/// An acknowledgement from before the last one says nothing of marks: Linux takes only its ranges (`old_ack` in `tcp_ack`).
#[test]
fn an_old_acknowledgement_echoes_no_mark() {
    for recovery in [Recovery::Conservative, Recovery::Quic] {
        let config = TcpConfig {
            ecn: true,
            recovery,
            ..TcpConfig::default()
        };
        let (mut bench, _) = Bench::new(&config, 10, 40);
        bench.now += RTT;
        bench.ack(2, &[]);
        let mut echo = Segment {
            ack: u64::from(MSS) + FIRST,
            window: 1 << 30,
            ece: true,
            ..Segment::default()
        };
        echo.sacks.push(3001..4001);
        bench.sender.take_ack(bench.now, &echo);
        assert_eq!(bench.sender.counts.reduced, 0, "{recovery:?}");
        assert_eq!(bench.sender.board.sacked_out, 1);
        // The present one does.
        echo.ack = 2 * u64::from(MSS) + FIRST;
        bench.sender.take_ack(bench.now, &echo);
        assert_eq!(bench.sender.counts.reduced, 1, "{recovery:?}");
    }
}
