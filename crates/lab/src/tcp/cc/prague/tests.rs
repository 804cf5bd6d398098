use super::*;

fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: cwnd,
        pacing_rate: None,
    }
}

/// Round trips of this length, in which this share of packets is marked. Each packet is acknowledged.
fn rounds(prague: &mut Prague, window: &mut Window, rtt: Nanos, (count, share): (u64, f64)) {
    let mut due = 0.0;
    for _ in 0..count {
        let now = prague.round_end * SECOND + rtt;
        let cwnd = window.cwnd;
        let mut reduced = false;
        for packet in 0..cwnd {
            due += share;
            let marked = u32::from(due >= 1.0);
            due -= f64::from(marked);
            let sample = AckSample {
                acked: 1,
                marked,
                cwnd_limited: true,
                srtt: Some(rtt),
                snd_una: if packet == 0 { prague.round_end } else { 0 },
                snd_nxt: prague.round_end + 1,
                ..AckSample::default()
            };
            if marked > 0 && !std::mem::replace(&mut reduced, true) {
                prague.on_state(now, LossState::Cwr, window);
            }
            prague.control(now, &sample, window);
        }
    }
}

/// Draft §2.4.2: α = (1 − g)·α + g·F with g = 1/16, from the first mark on.
#[test]
fn the_share_is_averaged_once_there_are_marks() {
    let mut prague = Prague::new(1448);
    let all = f64::from(ONE as i32) * 16.0;
    let mut window = window(100);
    prague.delivered = 100;
    prague.end_round(0, &window);
    assert_eq!(prague.share as f64 / all, 1.0);
    let mut alpha = 1.0;
    for marked in [10, 0, 50, 100, 0, 0] {
        (prague.delivered, prague.marked, prague.is_marked) = (100, marked, true);
        prague.end_round(0, &window);
        alpha += (marked as f64 / 100.0 - alpha) / 16.0;
        let found = prague.share as f64 / all;
        assert!((found - alpha).abs() < 1e-5, "{found} instead of {alpha}");
    }
    // The reduction is half of that.
    prague.carry = 0;
    prague.on_state(SECOND, LossState::Cwr, &mut window);
    let reduction = -prague.carry as f64 / ONE as f64;
    assert!((reduction - 50.0 * alpha).abs() < 1e-3, "{reduction}");
}

#[test]
fn it_grows_by_a_segment_in_a_round_trip_and_by_less_at_short_ones() {
    for (rtt, rounds_before, growth) in
        [(10, 0, 20.0), (10, TRANSITION, 3.2), (50, TRANSITION, 20.0)]
    {
        let mut prague = Prague::new(1448);
        let mut window = window(100);
        prague.rounds = rounds_before;
        rounds(&mut prague, &mut window, rtt * MILLISECOND, (20, 0.0));
        let grown = f64::from(window.cwnd) - 100.0 + prague.carry as f64 / ONE as f64;
        assert!((grown - growth).abs() < 0.2, "{rtt} ms: {grown}");
    }
}

#[test]
fn losses_halve_the_window() {
    let mut prague = Prague::new(1448);
    let mut window = window(100);
    prague.on_state(0, LossState::Recovery, &mut window);
    rounds(&mut prague, &mut window, 50 * MILLISECOND, (1, 0.0));
    assert_eq!((window.cwnd, window.ssthresh), (50, 50));
    assert_eq!(prague.undo(&window), 100);
}

/// [DePriester] and others: two marks in each round trip in balance, so the window is 2 over the share of marks.
#[test]
fn two_marks_in_a_round_trip_keep_the_window() {
    for share in [0.02, 0.05] {
        let mut prague = Prague::new(1448);
        let mut window = window(100);
        (prague.share, prague.is_marked) = (((share * ONE as f64) as i64) << SHIFT, true);
        rounds(&mut prague, &mut window, 50 * MILLISECOND, (400, share));
        let marks = f64::from(window.cwnd) * share;
        assert!((1.5..2.8).contains(&marks), "{share}: {marks}");
    }
}
