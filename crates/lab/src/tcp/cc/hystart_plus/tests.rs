use super::super::path::{Bottleneck, Path};
use super::super::reno::Reno;
use super::*;
use crate::SECOND;
use crate::tcp::Algorithm;

/// A round of ten acknowledgements with a round trip in milliseconds; returns by how much the window grew.
fn round(plus: &mut HyStartPlus, window: &mut Window, number: &mut u64, rtt: Nanos) -> u32 {
    let before = window.cwnd;
    *number += 10;
    for ack in 0..10 {
        let sample = AckSample {
            acked: 1,
            snd_una: *number - 10 + ack,
            snd_nxt: *number,
            rtt: Some(rtt * MILLISECOND),
            ..AckSample::default()
        };
        plus.on_acked(&sample, window);
        if window.in_slow_start() {
            plus.grow(1, window);
        }
    }
    window.cwnd - before
}

fn start() -> (HyStartPlus, Window, u64) {
    let window = Window {
        cwnd: 10,
        ssthresh: u32::MAX,
        pacing_rate: None,
    };
    (HyStartPlus::new(false), window, 0)
}

/// §4.2: from the eighth round trip on that is an eighth longer than those of the round before, the window grows by a
/// quarter, and slow start ends after five rounds of that, the first of which was begun.
#[test]
fn it_slows_down_and_ends_if_round_trips_stay_long() {
    let (mut plus, mut window, mut number) = start();
    let mut growth = |rtt, window: &mut Window| round(&mut plus, window, &mut number, rtt);
    assert_eq!(growth(80, &mut window), 10);
    assert_eq!(growth(89, &mut window), 10, "9 ms are less than an eighth");
    // 101 - 89 = 12 ms: seven segments before it shows, and three at a quarter.
    assert_eq!(growth(101, &mut window), 7);
    let mut rounds = 0;
    while window.in_slow_start() {
        let growth = growth(101, &mut window);
        assert!(
            (2..=3).contains(&growth) || !window.in_slow_start(),
            "{growth}"
        );
        rounds += 1;
    }
    assert_eq!(rounds, 5);
    assert_eq!(window.ssthresh, window.cwnd);
}

/// §4.2: if round trips fall below those with which it slowed down, slow start continues.
#[test]
fn it_continues_if_the_rise_was_jitter() {
    let (mut plus, mut window, mut number) = start();
    for rtt in [80, 101, 101] {
        round(&mut plus, &mut window, &mut number, rtt);
    }
    assert!(plus.baseline.is_some());
    // Seven at a quarter, after a rest of up to three, and then three.
    let growth = round(&mut plus, &mut window, &mut number, 80);
    assert!((4..=5).contains(&growth), "{growth}");
    assert!(plus.baseline.is_none() && window.ssthresh == u32::MAX);
    assert_eq!(round(&mut plus, &mut window, &mut number, 80), 10);
}

/// §4.3: an eighth of the round trip, at least 4 ms and at most 16 ms, and seen in eight round trips.
#[test]
fn the_rise_is_an_eighth_within_bounds_and_seen_eight_times() {
    for (last, longest, enough) in [(8, 11, 12), (40, 44, 45), (120, 134, 135), (200, 215, 216)] {
        for (rtt, slows) in [(longest, false), (enough, true)] {
            let (mut plus, mut window, mut number) = start();
            round(&mut plus, &mut window, &mut number, last);
            round(&mut plus, &mut window, &mut number, rtt);
            assert_eq!(plus.baseline.is_some(), slows, "{last} ms, then {rtt} ms");
        }
    }
    let (mut plus, mut window, mut number) = start();
    round(&mut plus, &mut window, &mut number, 80);
    for seen in 1..=8 {
        let sample = AckSample {
            snd_una: number,
            snd_nxt: number + 10,
            rtt: Some(100 * MILLISECOND),
            ..AckSample::default()
        };
        plus.on_acked(&sample, &mut window);
        assert_eq!(plus.baseline.is_some(), seen == 8, "{seen}");
    }
}

/// §4.3: only the first slow start of a connection. With a threshold, the window grows as without HyStart++.
#[test]
fn later_slow_starts_are_as_without_it() {
    let mut reno = Reno::default();
    reno.use_hystart_plus(false);
    let (_, mut window, _) = start();
    window.ssthresh = 100;
    assert_eq!(reno.slow_start(40, &mut window), 0);
    assert_eq!(window.cwnd, 50);
}

/// §4.3: without pacing an acknowledgement lets the window grow by eight segments at most.
#[test]
fn one_acknowledgement_counts_for_eight_segments() {
    for (paced, grown) in [(false, 8), (true, 40)] {
        let (_, mut window, _) = start();
        HyStartPlus::new(paced).grow(40, &mut window);
        assert_eq!(window.cwnd, 10 + grown);
    }
}

/// On a path whose queue holds a round trip, slow start ends with a window of losses. HyStart++ loses less, and delivers
/// as much.
#[test]
fn fewer_segments_are_lost_at_the_end_of_slow_start() {
    let run = |plus: bool| {
        let link = Bottleneck::Link {
            service: 100_000,
            queue: 500,
        };
        let mut path = Path::new(Algorithm::Reno, link, 50 * MILLISECOND);
        if plus {
            path.cc.use_hystart_plus(false);
        }
        path.run(3 * SECOND, |_| {});
        (path.lost, path.delivered)
    };
    let ((lost, delivered), (lost_plus, delivered_plus)) = (run(false), run(true));
    assert!(lost_plus * 2 < lost, "{lost_plus} of {lost}");
    assert!(
        delivered_plus * 20 > delivered * 19,
        "{delivered_plus} of {delivered}"
    );
}
