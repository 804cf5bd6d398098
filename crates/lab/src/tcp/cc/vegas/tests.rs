use super::super::path::{Bottleneck, Path};
use super::*;
use crate::tcp::Algorithm;
use crate::{MILLISECOND, SECOND};

/// The smallest and the largest number of queued segments from a time on, in milliseconds, after
/// those of slow start are gone: one leaves each round trip.
fn settled(service: u64, rtt: u64, from: u64) -> (u64, u64, Path) {
    let link = Bottleneck::Link {
        service,
        queue: 10_000,
    };
    let mut path = Path::new(Algorithm::Vegas, link, rtt);
    let (mut least, mut most) = (u64::MAX, 0);
    path.run(80 * SECOND, |path| {
        if path.elapsed() > from {
            least = least.min(path.queued());
            most = most.max(path.queued());
        }
    });
    (least, most, path)
}

#[test]
fn a_few_segments_are_queued_and_the_link_is_full() {
    for (service, rtt, from) in [
        (MILLISECOND, 40 * MILLISECOND, 20_000),
        (MILLISECOND, 10 * MILLISECOND, 10_000),
        (240_000, 50 * MILLISECOND, 60_000),
    ] {
        let (least, most, path) = settled(service, rtt, from);
        assert!(
            least >= 1 && most <= 5,
            "{least}..{most}, two to four and one in service"
        );
        let sent = path.delivered * service;
        assert!(sent > 79 * SECOND, "{sent} ns of the link");
        assert_eq!(path.lost, 0);
    }
}

/// A round in which each segment of the window is acknowledged with this round trip.
fn round(vegas: &mut Vegas, window: &mut Window, una: &mut u64, rtt: u64) {
    let sent = *una + u64::from(window.cwnd);
    while *una < sent {
        *una += 1;
        let sample = AckSample {
            acked: 1,
            cwnd_limited: true,
            rtt: Some(rtt),
            snd_una: *una,
            snd_nxt: *una + u64::from(window.cwnd),
            ..AckSample::default()
        };
        vegas.on_acked(&sample);
        vegas.cong_avoid(&sample, window);
    }
}

fn open(cwnd: u32, ssthresh: u32) -> (Vegas, Window, u64) {
    let window = Window {
        cwnd,
        ssthresh,
        pacing_rate: None,
    };
    (Vegas::default(), window, 0)
}

#[test]
fn the_window_follows_what_is_queued() {
    let (mut vegas, mut window, mut una) = open(20, 10);
    let mut after = |rtt: u64, rounds: u32| {
        for _ in 0..rounds {
            round(&mut vegas, &mut window, &mut una, rtt * MILLISECOND);
        }
        i64::from(window.cwnd)
    };
    // About 20 segments, so 15 % above the base are three, 5 % are one, 40 % eight.
    after(100, 1);
    let before = after(115, 5);
    assert_eq!(after(115, 10), before);
    // Each of its rounds begins an acknowledgement later, so one may be missing.
    let before = after(105, 2);
    assert!((9..=10).contains(&(after(105, 10) - before)));
    let before = after(140, 2);
    assert!((9..=10).contains(&(before - after(140, 10))));
}

#[test]
fn slow_start_ends_at_what_the_path_holds() {
    let (mut vegas, mut window, mut una) = open(10, u32::MAX);
    for expected in [20, 40] {
        round(&mut vegas, &mut window, &mut una, 50 * MILLISECOND);
        assert_eq!(window.cwnd, expected);
    }
    // Twice the round trip: half of the window is in the queue.
    let mut largest = 0;
    while window.in_slow_start() {
        round(&mut vegas, &mut window, &mut una, 100 * MILLISECOND);
        largest = largest.max(window.cwnd);
    }
    assert_eq!(largest, 80);
    // It is noticed a few segments into the next round.
    assert!((40..=45).contains(&window.cwnd), "{}", window.cwnd);
}

#[test]
fn with_few_samples_or_losses_about_it_is_reno() {
    let ms = MILLISECOND;
    let (mut vegas, mut window, mut una) = open(20, 10);
    round(&mut vegas, &mut window, &mut una, 50 * ms);
    let before = window.cwnd;
    // Ten rounds of a queue of ten segments: Vegas would shrink, Reno grows by one in each.
    vegas.on_state(LossState::Disorder);
    for _ in 0..10 {
        round(&mut vegas, &mut window, &mut una, 100 * ms);
    }
    assert!(window.cwnd.abs_diff(before + 10) <= 1, "{}", window.cwnd);
    let before = window.cwnd;
    vegas.on_state(LossState::Open);
    for _ in 0..10 {
        round(&mut vegas, &mut window, &mut una, 100 * ms);
    }
    assert!(window.cwnd < before, "{}", window.cwnd);
    // A sample of one acknowledgement a round is not trusted.
    let before = window.cwnd;
    for _ in 0..10 {
        una += u64::from(window.cwnd);
        let sample = AckSample {
            acked: window.cwnd,
            cwnd_limited: true,
            rtt: Some(100 * ms),
            snd_una: una,
            snd_nxt: una + u64::from(window.cwnd),
            ..AckSample::default()
        };
        vegas.on_acked(&sample);
        vegas.cong_avoid(&sample, &mut window);
    }
    // A round ends behind its last segment, so not every acknowledgement ends one.
    let gained = window.cwnd - before;
    assert!((5..=10).contains(&gained), "{gained}");
}

#[test]
fn after_idling_the_base_is_measured_again() {
    let (mut vegas, mut window, mut una) = open(20, 10);
    round(&mut vegas, &mut window, &mut una, 50 * MILLISECOND);
    vegas.on_restart();
    let before = window.cwnd;
    for _ in 0..10 {
        round(&mut vegas, &mut window, &mut una, 100 * MILLISECOND);
    }
    assert!(window.cwnd > before, "100 ms is no queue any more");
}
