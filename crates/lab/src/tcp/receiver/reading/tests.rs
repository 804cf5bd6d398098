#![allow(clippy::unwrap_used)]

use tidegate_limiter::Rate;

use super::*;
use crate::MILLISECOND;

/// 80 kbit/s in blocks of 2000 bytes: one each 200 ms. A window of 4000 bytes.
fn slow() -> Reading {
    let mut reading = Reading::new(&TcpConfig {
        receive_window: 4000,
        mss: 1000,
        read_rate: Some(Rate::from_bits_per_second(80_000)),
        read_block: 2000,
        ..TcpConfig::default()
    });
    reading.establish(1);
    reading
}

#[test]
fn the_window_closes_until_the_application_reads() {
    let mut reading = slow();
    let announced: Vec<u32> = (1..=4)
        .map(|segments| {
            let next = 1 + segments * 1000;
            reading.come(0, next);
            reading.announce(next)
        })
        .collect();
    assert_eq!(announced, [3000, 2000, 1000, 0]);
    assert_eq!(reading.edge(4001), 4001);
    assert_eq!(reading.next_timeout(), Some(200 * MILLISECOND));
    assert!(!reading.on_timeout(199 * MILLISECOND, 4001));
    // The peer believes that nothing may come, so it learns of the 2000 bytes that are free.
    assert!(reading.on_timeout(200 * MILLISECOND, 4001));
    assert_eq!(reading.announce(4001), 2000);
    // The peer knows of 2000 bytes and 4000 are free.
    assert!(reading.on_timeout(400 * MILLISECOND, 4001));
    assert_eq!(reading.announce(4001), 4000);
    // All is read.
    assert_eq!(reading.next_timeout(), None);
}

#[test]
fn the_window_does_not_open_by_less_than_a_segment() {
    let mut reading = slow();
    reading.come(0, 4001);
    assert_eq!(reading.announce(4001), 0);
    reading.pace = Some((999, MILLISECOND));
    assert!(!reading.on_timeout(200 * MILLISECOND, 4001));
    assert_eq!(reading.announce(4001), 0);
    assert!(reading.on_timeout(201 * MILLISECOND, 4001));
    assert_eq!(reading.announce(4001), 1998);
}

#[test]
fn an_application_that_reads_at_once_leaves_the_window_open() {
    let mut reading = Reading::new(&TcpConfig::default());
    reading.establish(1);
    reading.come(0, 1_000_001);
    assert_eq!(reading.next_timeout(), None);
    assert_eq!(
        reading.announce(1_000_001),
        TcpConfig::default().receive_window
    );
}
