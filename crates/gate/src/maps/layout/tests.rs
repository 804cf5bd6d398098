use super::*;

const SECOND: u64 = 1_000_000_000;

/// A limiter of 8 Mbit/s with a boost of 3 MB that had its latest packet after a second.
fn state(waits: u64, saved: u64) -> Vec<u8> {
    let mut state = Record::from(vec![0; limiter::SIZE_OF]);
    state.set(limiter::VERSION, 1);
    state.set(limiter::AT, SECOND);
    state.set(limiter::RATE, 8_000_000);
    state.set(limiter::BOOST, 3_000_000);
    state.set(limiter::SAVED, saved);
    state.set(share::LENGTH.within(limiter::SHARES, 0), waits);
    state.into_bytes()
}

#[test]
fn what_is_saved_grows_once_the_queues_are_served() {
    let at = |waits, saved, seconds| super::saved(&state(waits, saved), seconds * SECOND);
    assert_eq!(at(0, 500_000, 1), Some(500_000));
    assert_eq!(at(0, 500_000, 3), Some(2_500_000));
    assert_eq!(at(0, 500_000, 9), Some(3_000_000));
    // Two seconds of the rate wait: half of it is served, and then nothing is left of the rate.
    assert_eq!(at(2_000_000, 0, 2), Some(0));
    assert_eq!(at(2_000_000, 0, 4), Some(1_000_000));
    // What is saved serves what waits at once.
    assert_eq!(at(200_000, 500_000, 1), Some(300_000));
    // A clock that is behind the latest packet, as of a data path that has none.
    assert_eq!(at(0, 500_000, 0), Some(500_000));
}

#[test]
fn without_packets_or_a_boost_nothing_is_known_to_be_saved() {
    assert_eq!(saved(&vec![0; limiter::SIZE_OF], SECOND), None);
    let mut none = Record::from(state(0, 0));
    none.set(limiter::BOOST, 0);
    assert_eq!(saved(&none.into_bytes(), SECOND), None);
}
