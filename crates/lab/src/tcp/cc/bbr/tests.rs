use super::super::path::{Bottleneck, MSS, Path};
use super::super::{CongestionControl, Restart};
use super::*;
use crate::SECOND;
use crate::tcp::Algorithm;

fn bbr(path: &Path) -> &Bbr {
    match &path.cc {
        CongestionControl::Bbr(bbr) => bbr,
        _ => unreachable!("the path has BBR"),
    }
}

/// Segments per second.
fn per_second(bandwidth: u32) -> f64 {
    f64::from(bandwidth) * 1e6 / f64::from(1u32 << 24)
}

/// 1000 segments per second and 40 ms: the path holds 40.
fn link(queue: u64) -> Path {
    let link = Bottleneck::Link {
        service: MILLISECOND,
        queue,
    };
    Path::new(Algorithm::Bbr, link, 40 * MILLISECOND)
}

#[test]
fn the_constants_are_those_of_the_kernel() {
    assert_eq!((HIGH_GAIN, DRAIN_GAIN, CWND_GAIN), (739, 88, 512));
    assert_eq!(CYCLE, [320, 192, 256, 256, 256, 256, 256, 256]);
    assert_eq!(BANDWIDTH_ROUNDS, 10);
    // "~= (1500 bytes / 1 usec / 2^24) ~= 715 bps", says tcp_bbr.c of a unit: 89 bytes/s.
    assert_eq!(
        bandwidth::bytes_per_second(1, 1500, GAIN),
        (1500 * 990_000) >> 24
    );
    assert_eq!(
        bandwidth::bytes_per_second(1 << 24, 1500, GAIN),
        1_485_000_000
    );
}

#[test]
fn it_starts_with_the_initial_window_in_a_millisecond() {
    let mut window = Window {
        cwnd: 10,
        ssthresh: u32::MAX,
        pacing_rate: None,
    };
    let mut bbr = Bbr::new(MSS, 0, 1);
    bbr.on_established(0, None, &mut window);
    // 10 segments/ms × 2.887 × 0.99.
    let rate = |rtt: f64| 10.0 * f64::from(MSS) / rtt * (739.0 / 256.0) * 0.99;
    let set = window.pacing_rate.unwrap() as f64;
    assert!((set / rate(0.001) - 1.0).abs() < 0.001, "{set}");
    // The first round trip measured replaces it, even by a lower rate.
    let sample = AckSample {
        acked: 1,
        delivered: 1,
        srtt: Some(50 * MILLISECOND),
        rtt: Some(50 * MILLISECOND),
        in_flight: 9,
        ..AckSample::default()
    };
    bbr.control(SECOND, &sample, &mut window);
    let set = window.pacing_rate.unwrap() as f64;
    assert!((set / rate(0.05) - 1.0).abs() < 0.001, "{set}");
}

#[test]
fn it_walks_through_its_modes() {
    let mut path = link(1000);
    let mut modes = vec![(0, Mode::Startup)];
    let mut largest_queue = 0;
    path.run(12 * SECOND, |path| {
        let mode = bbr(path).mode;
        if modes.last().is_some_and(|last| last.1 != mode) {
            modes.push((path.elapsed(), mode));
        }
        if path.elapsed() < 2000 {
            largest_queue = largest_queue.max(path.queued());
        }
    });
    let walked: Vec<Mode> = modes.iter().map(|mode| mode.1).collect();
    let expected = [
        Mode::Startup,
        Mode::Drain,
        Mode::ProbeBandwidth,
        Mode::ProbeRtt,
        Mode::ProbeBandwidth,
    ];
    assert_eq!(walked, expected, "{modes:?}");
    // 10, 29, 84 segments: full in the third round, noticed three later.
    assert!((150..700).contains(&modes[1].0), "{modes:?}");
    // STARTUP queues up to 1.89 of what the path holds with a window of 2.89, and some.
    assert!((60..130).contains(&largest_queue), "{largest_queue}");
}

#[test]
fn it_finds_the_bandwidth_and_keeps_twice_the_path() {
    let mut path = link(1000);
    let (mut in_flight, mut rates, mut windows) = (Vec::new(), Vec::new(), Vec::new());
    path.run(9 * SECOND, |path| {
        if path.elapsed() > 2000 && bbr(path).mode == Mode::ProbeBandwidth {
            in_flight.push(f64::from(path.in_flight));
            windows.push(path.window.cwnd);
            rates.push(path.paced());
            let found = per_second(bbr(path).bandwidth());
            assert!((found / 1000.0 - 1.0).abs() < 0.05, "{found}");
        }
    });
    assert_eq!(bbr(&path).min_rtt, Some(40_000), "that of the handshake");
    // Twice what the path holds, three super-packets of two, and 2 more while probing; acks come
    // evenly, so aggregation adds next to nothing.
    let (least, most) = (windows.iter().min().unwrap(), windows.iter().max().unwrap());
    assert!(*least >= 86 && *most <= 96, "{least}..{most}");
    // With the bottleneck for itself, it keeps in flight what the path holds, and a quarter more
    // while probing.
    let mean = in_flight.iter().sum::<f64>() / in_flight.len() as f64;
    assert!((38.0..48.0).contains(&mean), "{mean}");
    let max = rates.iter().fold(0.0f64, |max, rate| max.max(*rate));
    let min = rates.iter().fold(f64::MAX, |min, rate| min.min(*rate));
    assert!((max / 1250.0 / 0.99 - 1.0).abs() < 0.05, "{max}");
    assert!((min / 750.0 / 0.99 - 1.0).abs() < 0.05, "{min}");
    // From 2 s on, so 7 s of the link.
    assert!(in_flight.len() > 6_900, "{}", in_flight.len());
}

#[test]
fn it_looks_at_the_empty_path_each_ten_seconds() {
    let mut path = link(1000);
    let mut probes: Vec<(u64, u64, u32)> = Vec::new();
    let mut inside = false;
    path.run(45 * SECOND, |path| {
        let probing = bbr(path).mode == Mode::ProbeRtt;
        if probing {
            assert!(path.window.cwnd <= 4);
            if !inside {
                probes.push((path.elapsed(), 0, u32::MAX));
            }
            let probe = probes.last_mut().unwrap();
            probe.1 = path.elapsed();
            probe.2 = probe.2.min(path.in_flight);
        } else if inside {
            assert!(path.window.cwnd > 80, "restored: {}", path.window.cwnd);
        }
        inside = probing;
    });
    assert_eq!(probes.len(), 4, "{probes:?}");
    for pair in probes.windows(2) {
        let apart = pair[1].0 - pair[0].1;
        assert!((9_900..10_300).contains(&apart), "{probes:?}");
    }
    for (from, to, in_flight) in probes {
        // 200 ms once four are in flight, and up to a round trip before and after.
        assert!((200..350).contains(&(to - from)), "{}", to - from);
        assert!(in_flight <= 4);
    }
    // Its low rates do not count as rates of the path.
    let found = per_second(bbr(&path).max_bandwidth.get());
    assert!((found / 1000.0 - 1.0).abs() < 0.05, "{found}");
}

#[test]
fn a_short_queue_costs_it_nothing() {
    let mut path = link(20);
    path.run(20 * SECOND, |_| {});
    assert!(path.delivered > 18_500, "{}", path.delivered);
    assert!(path.lost < 1500, "{}", path.lost);
    assert_eq!(bbr(&path).policer.bandwidth(), None, "and is no policer");
}

/// 500 segments per second, and a bucket of 100.
fn policed() -> Path {
    let policer = Bottleneck::Policer {
        token: 2 * MILLISECOND,
        depth: 100,
    };
    Path::new(Algorithm::Bbr, policer, 40 * MILLISECOND)
}

#[test]
fn it_finds_a_policer_and_lets_go_of_it_after_48_rounds() {
    let mut path = policed();
    // When it was found and released, in rounds, with the delivered and lost counts at that time.
    let mut changes: Vec<(u64, u64, u64)> = Vec::new();
    let mut held = None;
    path.run(30 * SECOND, |path| {
        let bbr = bbr(path);
        let now = bbr.policer.bandwidth();
        if now.is_some() != held.is_some() {
            changes.push((bbr.rounds, path.delivered, path.lost));
        }
        if let Some(bandwidth) = now {
            let found = per_second(bandwidth);
            assert!((found / 500.0 - 1.0).abs() < 0.125, "{found}");
            if bbr.mode == Mode::ProbeBandwidth && held.is_some() {
                let paced = path.paced();
                assert!((paced / found / 0.99 - 1.0).abs() < 0.001, "{paced}");
            }
        }
        held = now;
    });
    assert!(changes.len() >= 4, "{changes:?}");
    for (index, change) in changes.windows(2).enumerate() {
        let (rounds, delivered) = (change[1].0 - change[0].0, change[1].1 - change[0].1);
        let lost = change[1].2 - change[0].2;
        if index % 2 == 0 {
            // A few more where PROBE_RTT comes in between, whose rounds do not count.
            assert!((48..=54).contains(&rounds), "{changes:?}");
            assert!(lost * 20 < delivered, "{lost} of {delivered}");
        } else {
            // Right after the release there are no losses until the bucket is empty.
            assert!(lost * 20 > delivered, "{lost} of {delivered}");
        }
    }
    assert!(
        path.delivered >= 15_000,
        "all that the policer lets through: {}",
        path.delivered
    );
}

#[test]
fn recovery_conserves_segments_for_a_round_and_gives_back_the_window() {
    let mut bbr = Bbr::new(MSS, 0, 1);
    let mut window = Window {
        cwnd: 60,
        ssthresh: u32::MAX,
        pacing_rate: Some(1_000_000),
    };
    bbr.min_rtt = Some(40_000);
    let sample = |delivered: u64, lost, in_flight, state| AckSample {
        acked: 1,
        lost,
        delivered,
        prior_delivered: delivered - 40,
        delivered_over: Some(40),
        interval: 40 * MILLISECOND,
        in_flight,
        state,
        ..AckSample::default()
    };
    bbr.control(SECOND, &sample(100, 0, 50, LossState::Open), &mut window);
    let before = window.cwnd;
    assert_eq!(bbr.ssthresh(&window), u32::MAX);
    bbr.on_state(LossState::Recovery);
    // The segments in flight and those just acknowledged: one leaves for each.
    bbr.control(
        SECOND,
        &sample(101, 3, 46, LossState::Recovery),
        &mut window,
    );
    assert_eq!(window.cwnd, 47);
    bbr.control(
        SECOND,
        &sample(102, 0, 46, LossState::Recovery),
        &mut window,
    );
    assert_eq!(window.cwnd, 47);
    // A round later it grows by what is acknowledged.
    bbr.control(
        SECOND,
        &sample(142, 0, 46, LossState::Recovery),
        &mut window,
    );
    assert_eq!(window.cwnd, 48);
    bbr.control(SECOND, &sample(143, 0, 46, LossState::Open), &mut window);
    assert_eq!(window.cwnd, before + 1);
}

#[test]
fn after_idling_it_paces_at_the_bandwidth() {
    let mut path = link(1000);
    path.run(3 * SECOND, |_| {});
    let found = bbr(&path).bandwidth();
    let (mut cc, mut window) = (path.cc.clone(), path.window.clone());
    let restart = Restart {
        now: path.now + 20 * SECOND,
        idle: 20 * SECOND,
    };
    cc.on_restart(restart, &mut window);
    assert_eq!(
        window.pacing_rate,
        Some(bandwidth::bytes_per_second(found, MSS, GAIN))
    );
    // Idle for longer than its round trip is trusted. But the path was just empty, so there is no
    // PROBE_RTT.
    let sample = AckSample {
        acked: 1,
        delivered: path.delivered + 1,
        prior_delivered: path.delivered,
        delivered_over: Some(1),
        interval: 50 * MILLISECOND,
        rtt: Some(50 * MILLISECOND),
        app_limited: true,
        ..AckSample::default()
    };
    cc.control(path.now + 20 * SECOND, &sample, &mut window);
    let CongestionControl::Bbr(bbr) = &cc else {
        unreachable!("it is BBR");
    };
    assert_eq!(bbr.mode, Mode::ProbeBandwidth);
    assert_eq!(bbr.min_rtt, Some(50_000), "the old one is too old");
    assert_eq!(
        bbr.max_bandwidth.get(),
        found,
        "the application's rate is none"
    );
}

#[test]
fn each_seed_starts_in_a_phase_of_its_own() {
    let mut seen = [0u32; 8];
    for seed in 0..700 {
        let mut bbr = Bbr::new(MSS, 0, seed);
        bbr.probe_bandwidth();
        seen[bbr.phase] += 1;
    }
    assert_eq!(seen[1], 0, "never the one that drains");
    let others = seen.iter().enumerate().filter(|(phase, _)| *phase != 1);
    assert!(
        others.clone().all(|(_, &count)| (60..140).contains(&count)),
        "{seen:?}"
    );
}

/// Acknowledgements in bunches of ten, every 10 ms. Without more in flight it would have to wait
/// between them.
#[test]
fn bunched_acknowledgements_raise_the_window() {
    let mut bunched = Aggregation::default();
    let mut even = Aggregation::default();
    let bandwidth = bandwidth::of(1, 1000);
    for round in 1..=50u64 {
        bunched.update(round * 10_000, 10, round % 4 == 0, bandwidth, 80);
        for at in 1..=10 {
            even.update(
                round * 10_000 + at * 1000,
                1,
                round % 4 == 0 && at == 1,
                bandwidth,
                80,
            );
        }
    }
    // One more, because the expected number is rounded.
    assert_eq!((bunched.extra(bandwidth), even.extra(bandwidth)), (11, 2));
    // At most the segments of 100 ms.
    bunched.update(600_000, 5000, false, bandwidth, 100_000);
    assert_eq!(
        bunched.extra(bandwidth),
        bandwidth::segments(bandwidth, 100_000)
    );
}
