use super::super::path::{Bottleneck, Path};
use super::*;
use crate::tcp::Algorithm;
use crate::{MILLISECOND, SECOND};

fn window(cwnd: u32, ssthresh: u32) -> Window {
    Window {
        cwnd,
        ssthresh,
        pacing_rate: None,
    }
}

fn ack(acked: u32) -> AckSample {
    AckSample {
        acked,
        cwnd_limited: true,
        ..AckSample::default()
    }
}

/// A round trip: the whole window is acknowledged, this many segments at once.
fn round(reno: &mut Reno, window: &mut Window, at_once: u32) {
    let mut left = window.cwnd;
    while left > 0 {
        let acked = at_once.min(left);
        reno.cong_avoid(&ack(acked), window);
        left -= acked;
    }
}

#[test]
fn slow_start_doubles_each_round_up_to_the_threshold() {
    for at_once in [1, 2, 7] {
        let (mut reno, mut window) = (Reno::default(), window(10, 100));
        for expected in [20, 40, 80] {
            round(&mut reno, &mut window, at_once);
            assert_eq!(window.cwnd, expected);
        }
        round(&mut reno, &mut window, at_once);
        assert_eq!(window.cwnd, 100, "what is left above does not suffice yet");
    }
}

#[test]
fn a_stretched_acknowledgement_goes_over_the_threshold_by_avoidance() {
    let (mut reno, mut window) = (Reno::default(), window(8, 10));
    // Two take it to 10. Of the other 22, each ten add one.
    reno.cong_avoid(&ack(24), &mut window);
    assert_eq!((window.cwnd, reno.credit), (12, 2));
}

#[test]
fn avoidance_adds_a_segment_each_round() {
    for at_once in [1, 2, 5] {
        let (mut reno, mut window) = (Reno::default(), window(40, 20));
        for _ in 0..60 {
            round(&mut reno, &mut window, at_once);
        }
        assert!(window.cwnd.abs_diff(100) <= 1, "{}", window.cwnd);
    }
}

#[test]
fn a_window_not_in_use_does_not_grow() {
    let (mut reno, mut window) = (Reno::default(), window(8, 10));
    let idle = AckSample {
        cwnd_limited: false,
        ..ack(4)
    };
    reno.cong_avoid(&idle, &mut window);
    assert_eq!(window.cwnd, 8);
}

#[test]
fn a_needless_reduction_is_undone() {
    let (mut reno, mut window) = (Reno::default(), window(31, 20));
    window.ssthresh = reno.ssthresh(&window);
    assert_eq!(window.ssthresh, 15);
    window.cwnd = 15;
    assert_eq!(reno.undo(&window), 31);
    window.cwnd = 3;
    assert_eq!(reno.ssthresh(&window), 2, "never below two");
}

/// The sawtooth: with a queue that holds q and a path that holds p, the window swings between
/// (p + q)/2 and p + q, growing by one each round trip.
#[test]
fn behind_a_queue_it_is_a_sawtooth() {
    let link = Bottleneck::Link {
        service: MILLISECOND,
        queue: 20,
    };
    let mut path = Path::new(Algorithm::Reno, link, 40 * MILLISECOND);
    let (mut windows, mut growing) = (Vec::new(), Vec::new());
    path.run(60 * SECOND, |path| {
        if path.elapsed() > 20_000 && path.state == LossState::Open {
            windows.push(path.window.cwnd);
        }
        growing.push((path.elapsed(), path.window.cwnd));
    });
    let (least, most) = (windows.iter().min().unwrap(), windows.iter().max().unwrap());
    assert!(most.abs_diff(62) <= 2, "{most}");
    assert!(least.abs_diff(31) <= 1, "{least}");
    // The time between losses is that of 31 round trips of between 41 and 61 ms.
    let drops: Vec<u64> = growing
        .windows(2)
        .filter(|pair| pair[1].1 < pair[0].1 && pair[0].0 > 20_000)
        .map(|pair| pair[1].0)
        .collect();
    let period = (drops[drops.len() - 1] - drops[0]) / (drops.len() as u64 - 1);
    assert!((31 * 41..31 * 61).contains(&period), "{period}");
    assert!(path.delivered > 54_000, "{}", path.delivered);
}
