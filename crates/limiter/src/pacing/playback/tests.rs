use super::*;

const SECOND: u64 = 1_000_000_000;

/// 1 Mbit/s: a second of video has 125,000 bytes. Begins with 2 s, goes on with 4 s.
const A_SECOND: Bytes = Bytes::new(125_000);

fn seconds(count: u64) -> Bytes {
    Bytes::new(count * A_SECOND.get())
}

fn player(length: Option<Bytes>) -> Playback {
    let settings = Settings {
        rate: "1mbit".parse().unwrap(),
        start: 2 * SECOND,
        restart: 4 * SECOND,
        length: length.map(Bytes::get),
    };
    Playback::new(settings, 10 * SECOND)
}

fn stall(start: u64, end: Option<u64>) -> Stall {
    Stall {
        start: start * SECOND,
        end: end.map(|end| end * SECOND),
    }
}

#[test]
fn playing_begins_with_enough_and_stops_when_empty() {
    let mut player = player(None);
    player.arrived(11 * SECOND, A_SECOND);
    assert_eq!(player.viewing(12 * SECOND).join, None);
    player.arrived(13 * SECOND, A_SECOND);
    assert_eq!(player.runs_out(), Some(15 * SECOND));
    assert_eq!(player.buffered(14 * SECOND), SECOND);
    assert!(player.stalls().is_empty());
    // Empty from 15 s on; three seconds of video are too few to go on, four are enough.
    player.arrived(17 * SECOND, seconds(3));
    assert_eq!(player.stalls(), [stall(15, None)]);
    player.arrived(20 * SECOND, A_SECOND);
    assert_eq!(player.stalls(), [stall(15, Some(20))]);
    let viewing = player.viewing(22 * SECOND);
    assert_eq!(viewing.join, Some(3 * SECOND));
    assert_eq!((viewing.rebufferings, viewing.stalled), (1, 5 * SECOND));
    assert_eq!(viewing.played, 4 * SECOND);
    assert_eq!(viewing.duration, 12 * SECOND);
    assert_eq!(viewing.frequency(), 1.0 / 12.0);
}

#[test]
fn a_stall_that_does_not_end_counts_until_the_time_of_asking() {
    let mut player = player(None);
    player.arrived(10 * SECOND, seconds(2));
    let viewing = player.viewing(19 * SECOND);
    assert_eq!(player.stalls(), [stall(12, None)]);
    assert_eq!((viewing.rebufferings, viewing.stalled), (1, 7 * SECOND));
}

#[test]
fn what_arrives_as_the_buffer_runs_empty_is_too_late_and_a_moment_before_is_not() {
    let mut late = player(None);
    late.arrived(10 * SECOND, seconds(2));
    late.arrived(12 * SECOND, seconds(4));
    assert_eq!(late.stalls(), [stall(12, Some(12))]);
    let mut early = player(None);
    early.arrived(10 * SECOND, seconds(2));
    early.arrived(12 * SECOND - 1, seconds(4));
    assert!(early.stalls().is_empty());
}

#[test]
fn the_end_of_the_video_is_no_stall() {
    // The second half is shorter than what playing goes on with.
    let mut player = player(Some(seconds(3)));
    player.arrived(10 * SECOND, seconds(2));
    player.arrived(14 * SECOND, A_SECOND);
    assert_eq!(player.stalls(), [stall(12, Some(14))]);
    assert!(!player.ended(15 * SECOND - 1));
    let viewing = player.viewing(99 * SECOND);
    assert!(player.ended(99 * SECOND));
    assert_eq!((viewing.rebufferings, viewing.played), (1, 3 * SECOND));
    assert_eq!(viewing.duration, 5 * SECOND);
}

#[test]
fn a_video_shorter_than_the_threshold_is_played_when_it_is_complete() {
    let mut known = player(Some(A_SECOND));
    known.arrived(11 * SECOND, A_SECOND);
    assert_eq!(known.viewing(20 * SECOND).join, Some(SECOND));
    let mut finished = player(None);
    finished.arrived(11 * SECOND, A_SECOND);
    finished.finish(12 * SECOND);
    let viewing = finished.viewing(20 * SECOND);
    assert_eq!((viewing.join, viewing.rebufferings), (Some(2 * SECOND), 0));
    assert_eq!(viewing.played, SECOND);
}

#[test]
fn nothing_at_all_is_seen_of_nothing() {
    let mut empty = player(Some(Bytes::new(0)));
    empty.finish(11 * SECOND);
    let viewing = empty.viewing(12 * SECOND);
    assert_eq!((viewing.join, viewing.played), (None, 0));
    let mut never = player(None);
    assert_eq!(never.viewing(10 * SECOND).frequency(), 0.0);
}

#[test]
fn without_thresholds_it_plays_at_the_first_byte() {
    let settings = Settings {
        rate: "1mbit".parse().unwrap(),
        start: 0,
        restart: 0,
        length: None,
    };
    let mut player = Playback::new(settings, 0);
    assert_eq!(player.viewing(SECOND).join, None);
    player.arrived(2 * SECOND, A_SECOND);
    assert_eq!(player.viewing(2 * SECOND).join, Some(2 * SECOND));
    player.arrived(4 * SECOND, A_SECOND);
    assert_eq!(player.stalls(), [stall(3, Some(4))]);
}

#[test]
fn extremes_neither_overflow_nor_go_back() {
    let settings = Settings {
        rate: "1bit".parse().unwrap(),
        start: u64::MAX,
        restart: u64::MAX,
        length: Some(u64::MAX),
    };
    let mut player = Playback::new(settings, 5);
    player.arrived(u64::MAX, Bytes::new(u64::MAX));
    player.arrived(0, Bytes::new(u64::MAX));
    let viewing = player.viewing(3);
    assert_eq!(viewing.rebufferings, 0);
    assert_eq!(viewing.duration, u64::MAX - 5);
}
