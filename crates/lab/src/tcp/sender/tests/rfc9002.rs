//! RFC 9002 §5: round trips of QUIC.

use super::*;

/// §5.1: an acknowledgement gives one sample, of the last packet that it acknowledges, if that was not acknowledged
/// before. The probe timeout shows it: 4 rttvar begin with two round trips, and shrink by a quarter with each sample.
#[test]
fn an_acknowledgement_gives_one_sample() {
    let config = TcpConfig {
        recovery: Recovery::Quic,
        delayed_ack: 25 * MILLISECOND,
        ..TcpConfig::default()
    };
    let (mut bench, sent) = Bench::new(&config, 10, 100);
    assert_eq!(sent.len(), 10);
    let period = |bench: &Bench| bench.sender.next_timeout().unwrap() - bench.now;
    assert_eq!(period(&bench), 3 * RTT + 25 * MILLISECOND);
    bench.now += RTT;
    assert!(!bench.ack(9, &[]).is_empty());
    assert_eq!(period(&bench), RTT + 3 * RTT / 2 + 25 * MILLISECOND);
}
