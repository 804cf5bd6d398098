use proptest::prelude::*;

use super::*;

/// Difficult values: bounds, small numbers, and any others.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        0u64..100,
        0u64..100_000_000_000,
        any::<u64>()
    ]
}

fn state(number: u64) -> LossState {
    match number % 5 {
        0 => LossState::Open,
        1 => LossState::Disorder,
        2 => LossState::Recovery,
        3 => LossState::Cwr,
        _ => LossState::Loss,
    }
}

fn sample(n: &[u64]) -> AckSample {
    AckSample {
        acked: n[0] as u32,
        acked_cumulatively: n[1] as u32,
        marked: (n[0] / 2) as u32,
        lost: n[2] as u32,
        tx_in_flight: n[6] as u32,
        lost_since: n[2] as u32,
        rtt: Some(n[3]).filter(|_| !n[4].is_multiple_of(3)),
        srtt: Some(n[5]).filter(|_| !n[4].is_multiple_of(5)),
        in_flight: n[6] as u32,
        prior_in_flight: n[7] as u32,
        delivered: n[8],
        lost_total: n[9],
        prior_delivered: n[10],
        delivered_over: Some(n[11] as u32).filter(|_| !n[4].is_multiple_of(7)),
        interval: n[12],
        app_limited: n[13].is_multiple_of(4),
        cwnd_limited: !n[13].is_multiple_of(5),
        state: state(n[14]),
        maybe_delayed: n[13].is_multiple_of(7),
        paced: n[13].is_multiple_of(3),
        next_departure: n[15],
        snd_nxt: n[16],
        snd_una: n[17],
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Reno),
        Just(Algorithm::Cubic),
        Just(Algorithm::Bbr),
        Just(Algorithm::Bbr3),
        Just(Algorithm::Vegas),
        Just(Algorithm::Dctcp)
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_events_closes_the_window(
        algorithm in algorithm(),
        mss in any::<u32>(),
        cwnd in 1u32..,
        calls in prop::collection::vec(
            (0..9u8, number(), prop::collection::vec(number(), 18)), 1..60),
    ) {
        let mut window = Window { cwnd, ssthresh: u32::MAX, pacing_rate: None };
        let mut cc = CongestionControl::new(algorithm, Start { mss, now: calls[0].1, seed: calls[0].1 });
        for (call, now, numbers) in calls {
            let sample = sample(&numbers);
            match call {
                0 => cc.on_established(now, sample.rtt, &mut window),
                1 => {
                    window.ssthresh = cc.ssthresh(now, &window);
                    prop_assert!(window.ssthresh >= 2);
                }
                2 => cc.on_state(now, sample.state, &mut window),
                3 => cc.on_restart(Restart { now, idle: numbers[0] }, &mut window),
                4 => cc.on_acked(now, &sample, &mut window),
                5 => cc.cong_avoid(now, &sample, &mut window),
                6 => prop_assert!(cc.undo(&window) >= window.cwnd),
                7 => {
                    let lost = LostSegment {
                        tx_in_flight: numbers[0] as u32,
                        lost_since: numbers[1] as u32,
                        delivered: numbers[2],
                        app_limited: numbers[3].is_multiple_of(3),
                    };
                    cc.on_segment_lost(now, &lost, &window);
                }
                _ => {
                    cc.on_lost(sample.lost_total);
                    let controls = cc.control(now, &sample, &mut window);
                    let own = matches!(algorithm, Algorithm::Bbr | Algorithm::Bbr3);
                    prop_assert_eq!(controls, own);
                }
            }
            prop_assert!(window.cwnd > 0);
            prop_assert!(window.pacing_rate != Some(0));
        }
    }

    #[test]
    fn a_seed_gives_the_same_again(algorithm in algorithm(), seed in any::<u64>()) {
        let bottleneck = path::Bottleneck::Link { service: 1_000_000, queue: 60 };
        let run = || {
            let mut path = path::Path::new(algorithm, bottleneck, 20_000_000);
            path.cc = CongestionControl::new(algorithm, Start { mss: path::MSS, now: 0, seed });
            path.cc.on_established(0, None, &mut path.window);
            let mut windows = Vec::new();
            path.run(crate::SECOND, |path| windows.push(path.window.clone()));
            windows
        };
        prop_assert_eq!(run(), run());
    }
}
