use super::super::CongestionControl;
use super::super::path::{Bottleneck, MSS, Path};
use super::bandwidth::GAIN;
use super::*;
use crate::tcp::Algorithm;
use crate::{MILLISECOND, SECOND};

fn bbr(path: &Path) -> &Bbr3 {
    match &path.cc {
        CongestionControl::Bbr3(bbr) => bbr,
        _ => unreachable!("the path has BBR version 3"),
    }
}

/// 1000 segments per second and 40 ms: the path holds 40.
fn link(queue: u64) -> Path {
    let link = Bottleneck::Link {
        service: MILLISECOND,
        queue,
    };
    Path::new(Algorithm::Bbr3, link, 40 * MILLISECOND)
}

/// The states with the times in milliseconds at which they began.
fn states(path: &mut Path, until: Nanos) -> Vec<(u64, State)> {
    let mut states = vec![(0, State::Startup)];
    path.run(until, |path| {
        let state = bbr(path).state;
        if states.last().is_some_and(|last| last.1 != state) {
            states.push((path.elapsed(), state));
        }
    });
    states
}

/// The table of §5.6.1.
#[test]
fn gains_are_those_of_the_draft() {
    use State::*;
    let gains = |state: State| {
        let of = |gain: u32| f64::from(gain) / f64::from(GAIN);
        (of(state.pacing_gain()), of(state.cwnd_gain()))
    };
    let expected = [
        (Startup, 2.77, 2.0),
        (Drain, 0.5, 2.0),
        (Down, 0.9, 2.0),
        (Cruise, 1.0, 2.0),
        (Refill, 1.0, 2.0),
        (Up, 1.25, 2.25),
        (ProbeRtt, 1.0, 0.5),
    ];
    for (state, pacing, cwnd) in expected {
        let found = gains(state);
        assert!((found.0 - pacing).abs() < 0.005, "{state:?}: {found:?}");
        assert!((found.1 - cwnd).abs() < 0.005, "{state:?}: {found:?}");
    }
}

/// The diagram of §5.1.1, and its times.
#[test]
fn it_walks_through_its_states() {
    let mut path = link(1000);
    let walked = states(&mut path, 14 * SECOND);
    let names: Vec<State> = walked.iter().map(|state| state.1).collect();
    use State::*;
    // Down ends at once where Drain has left no queue.
    assert_eq!(names[..2], [Startup, Drain], "{walked:?}");
    for pair in names.windows(2) {
        let allowed: &[State] = match pair[0] {
            Startup => &[Drain],
            Drain => &[Down, Cruise],
            Down => &[Cruise, Refill, ProbeRtt],
            Cruise => &[Refill, ProbeRtt],
            Refill => &[Up, ProbeRtt],
            Up => &[Down, ProbeRtt],
            ProbeRtt => &[Cruise],
        };
        assert!(allowed.contains(&pair[1]), "{walked:?}");
    }
    // §5.3.3.8.2: probes are 2 to 3 s apart, or min(BDP, 63) rounds: here 40 rounds of 40 ms, with what a probe takes.
    let at = |state| {
        let times = walked.iter().filter(move |one| one.1 == state);
        times.map(|one| one.0).collect::<Vec<_>>()
    };
    let (ups, probes) = (at(Up), at(ProbeRtt));
    assert!(ups.len() >= 4, "{walked:?}");
    for pair in ups.windows(2) {
        // ProbeRTT begins the wait again.
        let restarted = probes
            .iter()
            .rfind(|&&time| pair[0] < time && time < pair[1]);
        let from = *restarted.unwrap_or(&pair[0]);
        assert!((1200..3300).contains(&(pair[1] - from)), "{ups:?}");
    }
    // §5.3.4: ProbeRTT at most every 5 s, for 200 ms and a round.
    assert!((2..=3).contains(&probes.len()), "{walked:?}");
    assert!(
        probes.windows(2).all(|pair| pair[1] - pair[0] >= 5000),
        "{probes:?}"
    );
    for (index, one) in walked.iter().enumerate() {
        if one.1 == ProbeRtt {
            let end = walked[index + 1].0;
            assert!((200..420).contains(&(end - one.0)), "{walked:?}");
        }
    }
}

#[test]
fn it_finds_the_path_and_keeps_its_queue_short() {
    let mut path = link(1000);
    let (mut waiting, mut windows, mut before) = (Vec::new(), Vec::new(), 0);
    path.run(14 * SECOND, |path| {
        if path.elapsed() < 4000 {
            before = path.delivered;
            return;
        }
        let found = f64::from(bbr(path).largest_bandwidth()) * 1e6 / f64::from(1u32 << 24);
        assert!((found / 1000.0 - 1.0).abs() < 0.05, "{found}");
        waiting.push(path.queued());
        if bbr(path).state == State::ProbeRtt {
            windows.push(path.window.cwnd);
        }
    });
    assert_eq!(
        bbr(&path).min_rtt.least,
        Some(41_000),
        "with the time of a segment"
    );
    // §3.2: a small, bounded queue. A probe queues a quarter of the path's 40, and the window two of them at most.
    waiting.sort_unstable();
    assert!(
        waiting[waiting.len() / 2] <= 6,
        "{}",
        waiting[waiting.len() / 2]
    );
    assert!(
        waiting[waiting.len() - 1] <= 50,
        "{}",
        waiting[waiting.len() - 1]
    );
    // §5.3.4: half of what the path holds.
    assert!(
        windows.iter().all(|&window| (18..=22).contains(&window)),
        "{windows:?}"
    );
    // §5.3.4.2 expects 98 % with ProbeRTT every 5 s; §5.6.2 paces 1 % below.
    let used = (path.delivered - before) as f64 / 10_000.0;
    assert!((0.95..=1.0).contains(&used), "{used}");
}

/// The share of the path's rate that is used, if this share of the segments is lost.
fn behind_losses(algorithm: Algorithm, probability: f64) -> f64 {
    let bottleneck = Bottleneck::Link {
        service: MILLISECOND,
        queue: 1000,
    };
    let mut path = Path::new(algorithm, bottleneck, 40 * MILLISECOND);
    path.lose(probability);
    let mut before = 0;
    path.run(30 * SECOND, |path| {
        if path.elapsed() < 5000 {
            before = path.delivered;
        }
    });
    (path.delivered - before) as f64 / 25_000.0
}

/// §5.3.3.8.3 expects that it holds its rate against losses of 1 %; §5.5.10 yields where more than 2 % are lost. Mathis'
/// formula gives Reno 1.22 / √0.01 of the path's 40 segments, 0.3.
#[test]
fn it_tolerates_a_percent_of_losses_and_yields_to_twenty() {
    let little = behind_losses(Algorithm::Bbr3, 0.01);
    let much = behind_losses(Algorithm::Bbr3, 0.2);
    let reno = behind_losses(Algorithm::Reno, 0.01);
    assert!(little > 0.6 && little > 1.5 * reno, "{little}, {reno}");
    assert!(much < little / 2.0, "{much}, {little}");
}

#[test]
fn a_full_queue_sets_the_long_term_bound_once_a_probe() {
    // A quarter of the path's 40 fits into the queue: probes overflow it.
    let mut path = link(10);
    let mut bounds = Vec::new();
    path.run(20 * SECOND, |path| {
        let long = bbr(path).bounds.long;
        if path.elapsed() > 1000 && long != INFINITE && bounds.last() != Some(&long) {
            bounds.push(long);
        }
    });
    // Between what Beta leaves of the path, and path and queue with what a burst adds.
    assert!(!bounds.is_empty());
    assert!(
        bounds.iter().all(|bound| (28..=80).contains(bound)),
        "{bounds:?}"
    );
    // Losses stay near the threshold of 2 %.
    let lost = path.lost as f64 / (path.lost + path.delivered) as f64;
    assert!(lost < 0.02, "{lost}");
}

#[test]
fn a_needless_recovery_is_undone() {
    let mut path = link(1000);
    path.run(6 * SECOND, |_| {});
    let mut bbr = bbr(&path).clone();
    let mut window = path.window.clone();
    let (before, bounds) = (window.cwnd, bbr.bounds);
    window.ssthresh = bbr.ssthresh(&window);
    bbr.on_state(LossState::Loss, &mut window);
    bbr.bounds.long = 20;
    bbr.bounds.bandwidth /= 2;
    window.cwnd = 1;
    window.cwnd = bbr.undo(&window);
    assert_eq!((window.cwnd, bbr.bounds.long), (before, bounds.long));
    assert_eq!(bbr.bounds.bandwidth, bounds.bandwidth);
    assert_eq!(
        window.pacing_rate.map(|rate| rate / u64::from(MSS) / 100),
        Some(9)
    );
}
