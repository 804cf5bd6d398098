//! RFC 8985 §3.4: P0 to P3 are sent, and all but P0 are lost, as is P1 when it is sent again.

use super::*;

#[test]
fn the_example_of_fast_recovery() {
    // P1 and P2 leave together because of the window: PRR-SSRB's in this test.
    let config = TcpConfig {
        recovery: Recovery::SlowStart,
        timestamps: false,
        ..TcpConfig::default()
    };
    let (mut bench, sent) = Bench::new(&config, 10, 4);
    assert_eq!(sent, new(0..4));
    // 2.
    bench.now += RTT;
    assert_eq!(bench.ack(1, &[]), []);
    // 3: the probe is sent two round trips later, plus 2 ms and the delay of ticks of 4 ms.
    let acked = bench.now;
    assert_eq!(bench.time_out(), [(3, true)]);
    let wait = bench.now - acked;
    assert!(
        (2 * RTT..2 * RTT + 10 * MILLISECOND).contains(&wait),
        "{wait}"
    );
    // 4 and 5.
    bench.now += RTT;
    assert_eq!(bench.ack(1, &[(3, 4)]), [(1, true), (2, true)]);
    assert_eq!(bench.sender.counts.lost, 2);
    // 6 and 7.
    bench.now += RTT;
    assert_eq!(bench.ack(1, &[(2, 4)]), [(1, true)]);
    assert_eq!(bench.sender.counts.lost, 3);
    // 8.
    bench.now += RTT;
    assert_eq!(bench.ack(4, &[]), []);
    assert_eq!(bench.sender.state, LossState::Open);
    assert_eq!(
        (bench.sender.counts.probes, bench.sender.counts.timeouts),
        (1, 0)
    );
}
