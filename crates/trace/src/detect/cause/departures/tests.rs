//! Trains that agree, and trains that do not.

use super::*;
use crate::annotate::Capacity;

/// The rate of trains, where a transfer got 1 Mbit/s of payload in full packets.
fn found(bps: f64, lower_bps: f64, trains: usize) -> Option<Estimate> {
    let metrics = Metrics {
        delivered_bytes: 1_000_000,
        duration: 8_000_000_000,
        capacity: Some(Capacity {
            bps,
            lower_bps,
            trains,
        }),
        ..Metrics::default()
    };
    let tally = Tally {
        payload_bytes: 1448,
        ip_bytes: 1500,
        link_bytes: 1518,
        ..Tally::default()
    };
    rate(&metrics, &tally, AGREE)
}

#[test]
fn a_rate_is_that_of_trains_which_agree() {
    let rate = found(1.1e6, 1.1e6, 20).expect("trains that agree");
    assert_eq!(rate.value.round(), 1_153_177.0);
    assert!((rate.high / rate.value - 1.03).abs() < 1e-9);
    // The interval is wider where they differ.
    let rate = found(1.1e6, 1e6, 20).expect("trains that nearly agree");
    assert!((rate.low / rate.value - 0.92).abs() < 1e-9);
    // Others' packets among them, few trains, and trains of a burst that the link did not carry for long.
    for (bps, lower_bps, trains) in [(1.1e6, 0.9e6, 20), (1.1e6, 1.1e6, 7), (1.7e6, 1.7e6, 20)] {
        assert_eq!(found(bps, lower_bps, trains), None);
    }
    // Many that are the same tell the link's rate also where the sender did not keep the queue filled.
    let rate = found(2e6, 1.99e6, 30).expect("trains that are the same");
    assert_eq!(rate.value.round(), 2_096_685.0);
    for (bps, lower_bps, trains) in [(2e6, 1.95e6, 30), (2e6, 2e6, 29), (0.9e6, 0.9e6, 30)] {
        assert_eq!(found(bps, lower_bps, trains), None);
    }
}

fn fitted() -> Limit {
    Limit {
        rate_bps: Estimate {
            value: 2e6,
            low: 2e6 - 1e3,
            high: 2e6 + 200e3,
        },
        layer: Layer::Link,
        depth_bytes: Some(Estimate {
            value: 100e3,
            low: 90e3,
            high: 110e3,
        }),
        burst: None,
    }
}

#[test]
fn a_fitted_rate_is_not_said_to_be_exact() {
    let widened = fitted_without_trains(fitted());
    assert_eq!((widened.low, widened.high), (1.94e6, 2.2e6));
}

#[test]
fn the_size_goes_with_the_rate_that_it_was_fitted_with() {
    let size = |rate| {
        let size = fitted_size(fitted(), rate)?;
        Some([size.low, size.high].map(|bytes| bytes.round() as u64))
    };
    // Of the rate that was fitted, of one that is twice as high, and of half of it: and a packet.
    assert_eq!(size(2e6), Some([88_482, 111_518]));
    assert_eq!(size(4e6), Some([43_482, 111_518]));
    assert_eq!(size(1e6), Some([88_482, 221_518]));
}
