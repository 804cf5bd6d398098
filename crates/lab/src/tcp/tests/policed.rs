//! Behind a token bucket that drops, [Flach16 §4.4, §5.2.2].

use tidegate_limiter::{Meter, Nanos, Rate};

use super::pipe::{DELAY, Pipe, reno};
use crate::SECOND;
use crate::tcp::{Recovery, Segment, TcpConfig};

/// A policer on the way to the client.
fn policer(rate: u64, bucket: u64) -> impl FnMut(bool, u64, &Segment, Nanos) -> Vec<Nanos> {
    let mut meter = Meter::new(Rate::from_bits_per_second(rate), 0);
    let mut tokens = bucket;
    move |data, _, segment, now| {
        if !data {
            return vec![DELAY];
        }
        tokens = (tokens + meter.advance(now)).min(bucket);
        let bytes = u64::from(segment.ip_bytes());
        if bytes > tokens {
            return vec![];
        }
        tokens -= bytes;
        vec![DELAY]
    }
}

/// Share of data segments lost, and goodput over the rate.
fn outcome(config: &TcpConfig, rate: u64, bucket: u64, bytes: u64) -> (f64, f64) {
    let pipe = Pipe::transfer(config, bytes, policer(rate, bucket));
    let sent = pipe.data().count() as f64;
    let lost = pipe.data().filter(|sent| sent.dropped).count() as f64;
    let goodput = bytes as f64 * 8.0 / (pipe.now as f64 / SECOND as f64);
    (lost / sent, goodput / rate as f64)
}

/// The rate is nearly used, and the losses of slow start are repaired.
#[test]
fn a_policer_holds_its_rate_and_lets_transfers_end() {
    let (lost, goodput) = outcome(&reno(), 5_000_000, 60_000, 10_000_000);
    // 52 bytes of 1500 are headers; retransmissions that are dropped cost nothing but time.
    assert!((0.7..0.97).contains(&goodput), "{goodput}");
    assert!(lost > 0.005 && lost < 0.1, "{lost}");
}

/// [Flach16 §5.2.2]: slow start in recovery sends at twice the policer's rate, so that
/// retransmissions are lost again. Packet conservation loses less. The difference is largest in a
/// short transfer, after its bucket was full.
#[test]
fn conservation_loses_less_than_slow_start_in_recovery() {
    for (rate, bucket) in [(2_000_000, 30_000), (5_000_000, 100_000)] {
        let [(conservative, _), (slow_start, _)] = [Recovery::Conservative, Recovery::SlowStart]
            .map(|recovery| {
                let config = TcpConfig {
                    recovery,
                    ..TcpConfig::default()
                };
                outcome(&config, rate, bucket, 1_000_000)
            });
        assert!(
            conservative < 0.95 * slow_start,
            "{rate}: {conservative} {slow_start}"
        );
    }
}

/// [Flach16 §4.4]: a small bucket empties within a burst of the initial window, and the rest of the
/// burst is lost. The losses are still repaired in time.
#[test]
fn a_bucket_smaller_than_the_initial_window_delays_but_does_not_stop() {
    let pipe = Pipe::transfer(&reno(), 60_000, policer(500_000, 8_000));
    let first = pipe.data().take(10).filter(|sent| sent.dropped).count();
    assert_eq!(first, 5, "five full packets of 1500 bytes fit");
    assert!(pipe.now < 4 * SECOND, "{}", pipe.now);
}
