use super::super::path::{Bottleneck, Path};
use super::*;
use crate::tcp::Algorithm;
use crate::{MILLISECOND, SECOND};

/// The least and the most segments queued, and the windows, from 10 s on.
fn settled(service: u64, rtt: u64) -> (u64, u64, Path) {
    let link = Bottleneck::Link {
        service,
        queue: 10_000,
    };
    let mut path = Path::new(Algorithm::Vegas, link, rtt);
    let (mut least, mut most) = (u64::MAX, 0);
    path.run(30 * SECOND, |path| {
        if path.elapsed() > 10_000 {
            least = least.min(path.queued());
            most = most.max(path.queued());
        }
    });
    (least, most, path)
}

#[test]
fn a_few_segments_are_queued_and_the_link_is_full() {
    for (service, rtt) in [
        (MILLISECOND, 40 * MILLISECOND),
        (MILLISECOND, 10 * MILLISECOND),
        (200_000, 50 * MILLISECOND),
    ] {
        let (least, most, path) = settled(service, rtt);
        // Two to four, of which the link sends one as the acknowledgement comes.
        assert!(least >= 1 && most <= 5, "{least}..{most}");
        let full = path.now / service;
        assert!(path.delivered * 100 > full * 90, "{}", path.delivered);
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
    let ms = MILLISECOND;
    let (mut vegas, mut window, mut una) = open(20, 10);
    // 20 segments and 10 % more than the base: two are queued, which is right.
    round(&mut vegas, &mut window, &mut una, 100 * ms);
    let base = window.cwnd;
    for (rtt, change) in [
        (112, 0),
        (112, 0),
        (140, -1),
        (140, -2),
        (103, -2),
        (103, -1),
    ] {
        round(&mut vegas, &mut window, &mut una, rtt * ms);
        assert!(
            (i64::from(window.cwnd) - i64::from(base) - change).abs() <= 1,
            "{rtt} ms: {} of {base}",
            window.cwnd
        );
    }
    let before = window.cwnd;
    for _ in 0..5 {
        round(&mut vegas, &mut window, &mut una, 140 * ms);
    }
    assert_eq!(
        window.cwnd,
        before - 4,
        "a segment less each round, one late"
    );
}

#[test]
fn slow_start_ends_at_what_the_path_holds() {
    let ms = MILLISECOND;
    let (mut vegas, mut window, mut una) = open(10, u32::MAX);
    round(&mut vegas, &mut window, &mut una, 50 * ms);
    assert_eq!(window.cwnd, 20);
    round(&mut vegas, &mut window, &mut una, 50 * ms);
    assert_eq!(window.cwnd, 40);
    // Twice the round trip: half of the window is in the queue.
    round(&mut vegas, &mut window, &mut una, 100 * ms);
    round(&mut vegas, &mut window, &mut una, 100 * ms);
    assert!(!window.in_slow_start());
    assert!((39..=42).contains(&window.cwnd), "{}", window.cwnd);
}

#[test]
fn with_few_samples_or_losses_about_it_is_reno() {
    let ms = MILLISECOND;
    let (mut vegas, mut window, mut una) = open(20, 10);
    round(&mut vegas, &mut window, &mut una, 50 * ms);
    let before = window.cwnd;
    // Ten rounds of a queue of ten segments: Vegas would shrink, Reno grows by one in each.
    vegas.on_state(State::Disorder);
    for _ in 0..10 {
        round(&mut vegas, &mut window, &mut una, 100 * ms);
    }
    assert!(window.cwnd.abs_diff(before + 10) <= 1, "{}", window.cwnd);
    let before = window.cwnd;
    vegas.on_state(State::Open);
    for _ in 0..10 {
        round(&mut vegas, &mut window, &mut una, 100 * ms);
    }
    assert!(window.cwnd < before, "{}", window.cwnd);
    // One acknowledgement each round is no sample to trust.
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
    assert!(window.cwnd.abs_diff(before + 10) <= 1, "{}", window.cwnd);
}

#[test]
fn after_idling_the_base_is_measured_anew() {
    let (mut vegas, mut window, mut una) = open(20, 10);
    round(&mut vegas, &mut window, &mut una, 50 * MILLISECOND);
    vegas.on_restart();
    let before = window.cwnd;
    for _ in 0..10 {
        round(&mut vegas, &mut window, &mut una, 100 * MILLISECOND);
    }
    assert!(window.cwnd > before, "100 ms is no queue any more");
}
