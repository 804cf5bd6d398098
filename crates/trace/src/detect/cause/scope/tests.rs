use super::*;

const FULL: f64 = 1_518.0;
/// What the policer lets through, in bytes a second, and holds.
const RATE: f64 = 37.5e6;
const DEPTH: f64 = 400e3;

/// Bursts of some packets every 50 ms, which the capture shows as handed over within 0.1 µs a packet, and which a line of
/// 10 Gbit/s spreads before a policer of 300 Mbit/s drops what exceeds its bucket.
fn bursts(packets: [usize; 4]) -> Vec<Arrival> {
    let (mut level, mut last) = (DEPTH, 0.0);
    let mut arrivals = Vec::new();
    for (burst, packets) in packets.into_iter().enumerate() {
        for n in 0..packets {
            let begin = 0.05 * burst as f64;
            let met = begin + n as f64 * FULL / 1.25e9;
            level = f64::min(DEPTH, level + RATE * (met - last));
            last = met;
            let lost = level < FULL;
            if !lost {
                level -= FULL;
            }
            let at = ((begin + n as f64 * 1e-7) * 1e9) as Nanos;
            arrivals.push(Arrival::observed(at, FULL as f32, lost));
        }
    }
    arrivals
}

#[test]
fn a_rate_that_only_short_bursts_tell_is_given_with_what_a_line_may_add_or_not_at_all() {
    for packets in [
        [150, 300, 580, 290],
        [200, 320, 640, 320],
        [120, 240, 480, 300],
    ] {
        let arrivals = bursts(packets);
        assert!(arrivals.iter().filter(|arrival| arrival.lost).count() > 100);
        let scope = Scope::new(arrivals, &[1.0], 50_000_000).used_by(&[0]);
        if let Some((rate, _)) = scope.intervals() {
            assert!(rate.holds(RATE), "{packets:?}: {rate:?}");
        }
    }
}

#[test]
fn a_line_that_spreads_no_burst_is_not_tried() {
    let paced: Vec<Arrival> = (0..2_000)
        .map(|n| Arrival::observed(n * 40_000, FULL as f32, n % 100 > 50))
        .collect();
    let fit = fit_bucket(&paced, &[1.0]).expect("there are losses");
    for line in LINES {
        assert!(behind_line(&paced, &fit, line).is_none());
    }
}
