use super::super::path::{Bottleneck, MSS, Path};
use super::*;
use crate::SECOND;
use crate::tcp::Algorithm;

/// An acknowledgement clock: windows of segments, each acknowledged separately, evenly over a round
/// trip.
struct Clock {
    cubic: Cubic,
    window: Window,
    now: Nanos,
    rtt: Nanos,
    una: u64,
    paced: bool,
}

impl Clock {
    fn new(cwnd: u32, ssthresh: u32, rtt: Nanos) -> Self {
        Self {
            cubic: Cubic::new(MSS, 0),
            window: Window {
                cwnd,
                ssthresh,
                pacing_rate: None,
            },
            now: 10 * SECOND,
            rtt,
            una: 0,
            paced: false,
        }
    }

    fn lose(&mut self) {
        let state = LossState::Recovery;
        self.window.ssthresh = self.cubic.ssthresh(&self.window);
        self.cubic.on_state(self.now, state);
        self.window.cwnd = self.window.ssthresh;
        self.cubic.on_state(self.now, LossState::Open);
    }

    /// A round trip, with this length for algorithms that measure it.
    fn round(&mut self, measured: Nanos) {
        let (start, cwnd) = (self.now, self.window.cwnd);
        for number in 1..=u64::from(cwnd) {
            self.now = start + self.rtt * number / u64::from(cwnd);
            self.una += 1;
            let sample = AckSample {
                acked: 1,
                rtt: Some(measured),
                srtt: Some(measured),
                cwnd_limited: true,
                paced: self.paced,
                snd_una: self.una,
                snd_nxt: self.una + u64::from(self.window.cwnd),
                ..AckSample::default()
            };
            self.cubic.on_acked(self.now, &sample, &mut self.window);
            self.cubic.cong_avoid(self.now, &sample, &mut self.window);
        }
    }
}

/// RFC 9438 figure 1 and 2: W_cubic(t) = C (t − K)³ + W_max, K = ∛((W_max − cwnd) / C).
fn w_cubic(w_max: f64, cwnd: f64, t: f64) -> f64 {
    let k = ((w_max - cwnd) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn k_is_that_of_the_rfc() {
    for cwnd in [10u32, 50, 100, 1000, 20_000, 500_000] {
        let mut clock = Clock::new(cwnd, 1, 100 * MILLISECOND);
        clock.lose();
        assert_eq!(clock.window.cwnd, (f64::from(cwnd) * 717.0 / 1024.0) as u32);
        clock.cubic.update(10_000, clock.window.cwnd, 1);
        let k = (f64::from(cwnd - clock.window.cwnd) / 0.4).cbrt();
        let found = clock.cubic.k as f64 / 1024.0;
        // C is 410/1024, and K whole 1024ths of a second.
        assert!(
            (found - k).abs() < 0.002 * k + 0.001,
            "{cwnd}: {found} of {k}"
        );
        assert_eq!(clock.cubic.origin, cwnd);
    }
}

#[test]
fn the_window_is_that_of_the_rfc_over_time() {
    for (cwnd, rtt) in [(1000, 100), (400, 200), (5000, 50)] {
        let mut clock = Clock::new(cwnd, 1, rtt * MILLISECOND);
        // Its smallest round trip is known from before.
        clock.cubic.delay_min = Some(rtt * 1000);
        clock.lose();
        let (start, after) = (clock.now, f64::from(clock.window.cwnd));
        let k = ((f64::from(cwnd) - after) / 0.4).cbrt();
        let mut worst = 0.0f64;
        while clock.now < start + (2.0 * k * 1e9) as u64 {
            clock.round(rtt * MILLISECOND);
            let t = (clock.now - start) as f64 / 1e9;
            let expected = w_cubic(f64::from(cwnd), after, t);
            let apart = (f64::from(clock.window.cwnd) - expected) / expected;
            worst = worst.max(apart.abs());
        }
        // At most a round trip late, which is a few hundredths where the curve is steepest.
        assert!(worst < 0.03, "{cwnd} {rtt}: {worst}");
    }
}

/// RFC 9438 §5.1, tables 1 and 2: the average window in segments, by the number of segments for each loss.
#[test]
fn the_average_window_is_that_of_the_rfc() {
    let rows = [
        (100, 1_000, 38),
        (100, 10_000, 187),
        (100, 100_000, 1054),
        (10, 1_000, 38),
        (10, 10_000, 120),
        (10, 100_000, 379),
    ];
    for (rtt, one_of, average) in rows {
        // Begins at W_max = 4/(3 + β) of the average. From other values it would take thousands of
        // losses to come there, since the cube is flat there.
        let mut clock = Clock::new(average * 1000 / 925, 1, rtt * MILLISECOND);
        let (mut windows, mut rounds) = (0, 0);
        for loss in 0..60 {
            // The tables are without fast convergence.
            clock.cubic.last_max_cwnd = 0;
            clock.lose();
            let start = clock.una;
            while clock.una - start < one_of {
                clock.round(rtt * MILLISECOND);
                // Values before it is steady do not count.
                if loss >= 20 {
                    windows += u64::from(clock.window.cwnd);
                    rounds += 1;
                }
            }
        }
        let found = windows as f64 / f64::from(rounds);
        let apart = (found - f64::from(average)).abs();
        // Windows are whole segments, which matters where they are small.
        assert!(
            apart < (0.02 * f64::from(average)).max(3.0),
            "{rtt} ms, 1/{one_of}: {found} for {average}"
        );
    }
}

#[test]
fn on_short_paths_it_is_as_fast_as_reno() {
    // RFC 9438 §4.3: 3 (1 − β)/(1 + β) = 0.53 segments each round trip.
    let mut clock = Clock::new(28, 1, 5 * MILLISECOND);
    clock.lose();
    let (before, rounds) = (clock.window.cwnd, 60);
    for _ in 0..rounds {
        clock.round(5 * MILLISECOND);
    }
    let gained = f64::from(clock.window.cwnd - before) / f64::from(rounds);
    assert!((gained - 0.53).abs() < 0.04, "{gained}");
}

#[test]
fn losing_before_it_is_back_it_leaves_room() {
    let mut clock = Clock::new(1000, 1, 100 * MILLISECOND);
    clock.lose();
    assert_eq!((clock.cubic.last_max_cwnd, clock.window.cwnd), (1000, 700));
    clock.lose();
    // RFC 9438 §4.7: (1 + β)/2 = 0.85 of the window.
    assert_eq!((clock.cubic.last_max_cwnd, clock.window.cwnd), (595, 490));
    clock.window.cwnd = 490;
    assert_eq!(clock.cubic.undo(&clock.window), 700);
}

#[test]
fn after_a_timeout_nothing_is_known() {
    let mut clock = Clock::new(1000, 1, 100 * MILLISECOND);
    clock.lose();
    clock.round(100 * MILLISECOND);
    let before = clock.window.cwnd;
    clock.window.ssthresh = clock.cubic.ssthresh(&clock.window);
    clock.cubic.on_state(clock.now, LossState::Loss);
    assert_eq!(clock.cubic.last_max_cwnd, 0);
    assert_eq!(clock.cubic.delay_min, None);
    clock.window.cwnd = 1;
    assert_eq!(
        clock.cubic.undo(&clock.window),
        before,
        "but it can be undone"
    );
    clock.round(100 * MILLISECOND);
    assert_eq!(clock.window.cwnd, 2, "slow start again");
}

#[test]
fn idling_is_no_time_to_grow_in() {
    let mut clock = Clock::new(1000, 1, 100 * MILLISECOND);
    clock.lose();
    let mut idle = Clock {
        cubic: clock.cubic.clone(),
        window: clock.window.clone(),
        ..clock
    };
    for clock in [&mut clock, &mut idle] {
        (0..20).for_each(|_| clock.round(100 * MILLISECOND));
    }
    idle.now += 30 * SECOND;
    idle.cubic.on_restart(idle.now, 30 * SECOND);
    for clock in [&mut clock, &mut idle] {
        (0..20).for_each(|_| clock.round(100 * MILLISECOND));
    }
    assert!(clock.window.cwnd.abs_diff(idle.window.cwnd) <= 2);
    // The idle time is longer than the epoch: it begins now, not in the future.
    idle.cubic.on_restart(idle.now, 1000 * SECOND);
    assert_eq!(idle.cubic.epoch_start, Some(ticks(idle.now)));
}

#[test]
fn slow_start_ends_as_round_trips_rise() {
    // An eighth of 80 ms is 10 ms; of 8 ms it would be 1, but 4 are needed; and 16 suffice.
    for (base, below, above) in [(80, 9, 11), (8, 3, 5), (400, 15, 17)] {
        let mut clock = Clock::new(10, u32::MAX, base * MILLISECOND);
        // A long gap between acknowledgements, so that there is no train.
        clock.rtt = base.max(200) * MILLISECOND;
        clock.round(base * MILLISECOND);
        clock.round((base + below) * MILLISECOND);
        clock.round((base + below) * MILLISECOND);
        assert!(clock.window.in_slow_start(), "{below} on {base} ms");
        clock.round((base + above) * MILLISECOND);
        clock.round((base + above) * MILLISECOND);
        assert!(!clock.window.in_slow_start(), "{above} on {base} ms");
    }
}

#[test]
fn slow_start_goes_on_below_sixteen() {
    let mut clock = Clock::new(4, u32::MAX, 50 * MILLISECOND);
    clock.round(50 * MILLISECOND);
    clock.round(90 * MILLISECOND);
    assert!(clock.window.in_slow_start());
    assert_eq!(clock.window.cwnd, 16);
    clock.round(90 * MILLISECOND);
    assert!(!clock.window.in_slow_start());
}

#[test]
fn slow_start_ends_as_the_train_is_half_a_round_trip_long() {
    // At 1 ms a segment, a window of 64 takes 64 of 100 ms. No round trip has risen yet.
    for (paced, ends_at) in [(false, 64), (true, 128)] {
        let mut clock = Clock::new(16, u32::MAX, 0);
        clock.paced = paced;
        for _ in 0..5 {
            clock.rtt = u64::from(clock.window.cwnd) * MILLISECOND;
            let start = clock.now;
            clock.round(100 * MILLISECOND);
            clock.now = clock.now.max(start + 100 * MILLISECOND);
        }
        let end = clock.window.ssthresh;
        assert!((ends_at..2 * ends_at).contains(&end), "{paced}: {end}");
    }
}

/// The steady state on a path. RFC 9438 §5.1's W_avg is for random loss. Behind a queue the window
/// swings between 0.7 of the segments that fit and all of them, and after K it is back.
#[test]
fn behind_a_queue_it_returns_after_k() {
    let link = Bottleneck::Link {
        service: 200_000,
        queue: 250,
    };
    let mut path = Path::new(Algorithm::Cubic, link, 100 * MILLISECOND);
    let (mut windows, mut last) = (Vec::new(), 0);
    let mut drops = Vec::new();
    path.run(120 * SECOND, |path| {
        if path.elapsed() > 40_000 {
            if path.window.cwnd + 50 < last {
                drops.push(path.elapsed());
            }
            windows.push(path.window.cwnd);
        }
        last = path.window.cwnd;
    });
    let (least, most) = (windows.iter().min().unwrap(), windows.iter().max().unwrap());
    assert!(most.abs_diff(752) <= 15, "{most}");
    assert!(least.abs_diff(most * 7 / 10) <= 15, "{least}");
    let k = (f64::from(most - least) / 0.4).cbrt();
    let period = (drops[drops.len() - 1] - drops[0]) as f64 / 1e3 / (drops.len() - 1) as f64;
    assert!(period > 0.95 * k && period < 1.4 * k, "{period} s of {k} s");
    assert!(path.delivered > 590_000, "{}", path.delivered);
}
