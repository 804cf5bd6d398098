use proptest::prelude::*;

use super::*;

const MS: Nanos = 1_000_000;

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_second(mbit * 1_000_000)
}

#[test]
fn reno_as_in_the_paper_s_formula() {
    // 10 Mbit/s for 100 ms are 125 kB or 83⅓ packets; squared, by 18, 385.8 packets.
    assert_eq!(bdp(mbit(10), 100 * MS), 125_000);
    assert_eq!(
        reno(
            mbit(10),
            Path {
                rtt: 100 * MS,
                mss: 1_500
            }
        ),
        578_704
    );
    // The paper's text says 1000 KB, which is between this and twice this.
    assert!((578_704..2 * 578_704).contains(&1_000_000));
}

#[test]
fn a_queue_of_reno_s_size_bursts_less_than_the_paper_says() {
    // 15 Mbit/s with 100 ms: "a rate of 143 Mbps over a 100ms period" [BCPQP §3.5]. The queue and
    // what drains meanwhile come to 123 Mbit/s with packets of 1448 bytes, 119 with 1500.
    let burst = |mss| reno(mbit(15), Path { rtt: 100 * MS, mss }) * 8 * 10 + 15_000_000;
    assert_eq!(burst(1_448) / 1_000_000, 122);
    assert_eq!(burst(1_500) / 1_000_000, 119);
}

#[test]
fn cubic_needs_more_where_rate_and_round_trip_are_small() {
    // 0.357 s⁻¹ · 83⅓^(4/3) = 0.357 · 364.0 = 129.9 packets.
    let small = cubic(
        mbit(10),
        Path {
            rtt: 100 * MS,
            mss: 1_500,
        },
    );
    assert!((194_800..195_000).contains(&small), "{small}");
    assert_eq!(
        correct_rate(
            mbit(10),
            Path {
                rtt: 100 * MS,
                mss: 1_500
            }
        ),
        578_704
    );
    // 1.5 Mbit/s with 10 ms: 1.25 packets; 3.57 · 1.25^(4/3) = 4.807 packets against 0.087.
    let tiny = cubic(
        Rate::from_bits_per_second(1_500_000),
        Path {
            rtt: 10 * MS,
            mss: 1_500,
        },
    );
    assert!((7_205..7_220).contains(&tiny), "{tiny}");
    assert_eq!(
        correct_rate(
            Rate::from_bits_per_second(1_500_000),
            Path {
                rtt: 10 * MS,
                mss: 1_500
            }
        ),
        tiny
    );
}

/// A CUBIC window that grows from a loss to the next, by small steps, and what is sent beyond the
/// rate meanwhile: the derivation of G without its algebra.
#[test]
fn the_factor_of_cubic_follows_from_its_window() {
    let (c, beta, steps) = (0.4f64, 0.7f64, 100_000);
    let bdp = 1_000.0f64;
    let rtt = 0.05f64;
    let peak = bdp / 0.925;
    // K, by bisection of C·K³ = W(1 − β).
    let (mut low, mut high) = (0.0f64, 100.0f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if c * middle * middle * middle < peak * (1.0 - beta) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (mut sent, mut beyond) = (0.0, 0.0);
    for step in 0..steps {
        let left = low * (1.0 - (f64::from(step) + 0.5) / f64::from(steps));
        let window = peak - c * left * left * left;
        sent += window;
        beyond += (window - bdp).max(0.0);
    }
    let mean = sent / f64::from(steps);
    assert!(
        (mean - bdp).abs() < 0.01,
        "the mean window is the product: {mean}"
    );
    let packets = beyond * low / f64::from(steps) / rtt;
    // The same in our terms: 1000 packets of 1000 bytes in 50 ms are 160 Mbit/s.
    let ours = cubic(
        mbit(160),
        Path {
            rtt: 50 * MS,
            mss: 1_000,
        },
    ) as f64
        / 1_000.0;
    assert!((ours / packets - 1.0).abs() < 0.002, "{ours} and {packets}");
}

#[test]
fn the_rest_of_the_advice() {
    assert_eq!(
        phantom_queue(
            mbit(10),
            Path {
                rtt: 100 * MS,
                mss: 1_500
            }
        ),
        5_787_040
    );
    let flach = Rate::from_bits_per_second(500_000);
    assert_eq!(policer_burst(flach, 100 * MS), 32_000);
    assert_eq!(policer_burst(mbit(100), 100 * MS), 1_250_000);
}

#[test]
fn nothing_overflows() {
    let top = Rate::from_bits_per_second(u64::MAX);
    assert_eq!(
        correct_rate(
            top,
            Path {
                rtt: u64::MAX,
                mss: 0
            }
        ),
        u64::MAX
    );
    assert_eq!(
        phantom_queue(
            top,
            Path {
                rtt: u64::MAX,
                mss: 1
            }
        ),
        u64::MAX
    );
    assert_eq!(bdp(top, u64::MAX), u64::MAX);
    assert_eq!(correct_rate(mbit(0), Path { rtt: 0, mss: 1_500 }), 0);
}

proptest! {
    #[test]
    fn a_cube_root_is_the_largest(value: u128) {
        let root = cube_root(value);
        prop_assert!(root.pow(3) <= value);
        prop_assert!((root + 1).checked_pow(3).is_none_or(|cube| cube > value));
    }

    #[test]
    fn a_cube_root_of_small_values(root in 0u128..10_000_000, above: bool) {
        let cube = root.pow(3);
        prop_assert_eq!(cube_root(cube), root);
        prop_assert_eq!(cube_root(cube + u128::from(above && root > 0)), root);
    }
}
