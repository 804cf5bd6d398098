//! Two clocks brought together by packets that both captures hold.
//!
//! What B's clock shows when a packet passes, less what A's showed, is the clocks' offset and the
//! time on the way: added for packets from A to B, subtracted for packets from B to A. So all
//! differences of one direction lie above a line, and all of the other below another line; both
//! lines have the drift as their slope [Moon99]. They are the lines that come closest to each
//! other's side while no packet arrives before it could. Half way between is the offset, if the
//! least time is the same both ways; that cannot be known, so the offset is known to half of the
//! distance.
//!
//! [Moon99]: S. Moon, P. Skelly, D. Towsley: Estimation and Removal of Clock Skew from Network
//! Delay Measurements. INFOCOM 1999.

use crate::read::Nanos;

/// A packet that both captures hold: when A captured it, and how much later B did, both from an
/// origin. Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub at: f64,
    pub later: f64,
}

/// How B's clock goes, by A's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clocks {
    /// The time of A at which the offset is stated.
    pub at: Nanos,
    /// How much B's clock is ahead of A's then, in nanoseconds.
    pub offset: f64,
    /// By how much the offset may be wrong, to either side, in nanoseconds: by so much could the
    /// ways there and back differ, or is it another one later. `None` where packets went one way only: then the offset
    /// makes the least transit time 0.
    pub offset_error: Option<f64>,
    /// Whether a clock was set during the captures, or went unevenly: by any one offset some packets would arrive before
    /// they left. Then no transit times are known.
    pub uneven: bool,
    /// Nanoseconds that B's clock gains in a nanosecond of A's.
    pub drift: f64,
    /// By how much the drift may be wrong, to either side.
    pub drift_error: f64,
}

impl Clocks {
    /// How much B's clock is ahead of A's at a time of A, in nanoseconds.
    pub fn offset_at(&self, at: Nanos) -> f64 {
        self.offset + self.drift * signed(at, self.at)
    }

    /// The same at a time of B.
    pub fn offset_at_b(&self, at: Nanos) -> f64 {
        // The clocks may show different years, so the drift since then is counted from what A's clock shows.
        let since = (signed(at, self.at) - self.offset) / (1.0 + self.drift);
        self.offset + self.drift * since
    }

    /// How long after A captured a packet B did, by one clock, in nanoseconds. Negative for packets
    /// that passed B first.
    pub fn later(&self, a: Nanos, b: Nanos) -> f64 {
        signed(b, a) - self.offset_at(a)
    }

    /// The least time from A to B and back, in nanoseconds.
    pub fn least_round_trip(&self) -> Option<f64> {
        let error = self.offset_error.filter(|_| !self.uneven);
        error.map(|error| error * 2.0)
    }
}

/// The difference of two times; exact as long as it is below 104 days.
pub(crate) fn signed(later: Nanos, earlier: Nanos) -> f64 {
    (i128::from(later) - i128::from(earlier)) as f64
}

/// With fewer packets in a direction nothing is said of the drift.
const LEAST_POINTS: usize = 16;
/// Parts of the time in which the lines are compared with the nearest packets.
const PARTS: usize = 8;
/// By how much a packet may arrive earlier than the least transit time: clocks read and lines drawn
/// a little off. Nanoseconds.
pub(super) const SLACK: f64 = 100_000.0;
/// Clocks gain or lose less than this: 0.1 %.
const MOST_DRIFT: f64 = 1e-3;

/// Brings the clocks together, by packets from A to B and from B to A. `at` and `first` are the
/// origin of the points. `None` without any packets.
pub(crate) fn align(at: Nanos, first: f64, to_b: &[Point], to_a: &[Point]) -> Option<Clocks> {
    if to_b.is_empty() && to_a.is_empty() {
        return None;
    }
    // Both as lower envelopes: the second one upside down.
    let mirrored: Vec<Point> = to_a
        .iter()
        .map(|point| Point {
            later: -point.later,
            ..*point
        })
        .collect();
    let (below_b, below_a) = (hull(to_b), hull(&mirrored));
    let enough = to_b.len().max(to_a.len()) >= LEAST_POINTS;
    let drift = if enough {
        slope(&below_b, &below_a)
    } else {
        0.0
    };
    let (floor_b, floor_a) = (floor(&below_b, drift), floor(&below_a, -drift));
    let (offset, round_trip) = match (floor_b, floor_a) {
        // The sum of the floors is the least round trip, whatever the offset.
        (Some(b), Some(a)) => ((b - a) / 2.0, Some(b + a)),
        (Some(b), None) => (b, None),
        (None, Some(a)) => (-a, None),
        (None, None) => return None,
    };
    let distance = [
        unevenness(to_b, drift, floor_b),
        unevenness(&mirrored, -drift, floor_a),
    ];
    let distance = distance.into_iter().flatten().fold(f64::NAN, f64::min);
    let span = span(to_b, to_a);
    // The packets that the line touches may be as late as the nearest others are. They lie as little as half of the time
    // apart, and one end may be too high while the other is right.
    let drift_error = if distance.is_finite() && span > 0.0 {
        (4.0 * distance / span).min(MOST_DRIFT)
    } else {
        MOST_DRIFT
    };
    let uneven = round_trip.is_some_and(|least| least < -2.0 * SLACK);
    let error = |least: f64| if uneven { -least } else { least.max(0.0) };
    Some(Clocks {
        at,
        offset: first + offset,
        offset_error: round_trip.map(|least| error(least) / 2.0),
        uneven,
        drift,
        drift_error,
    })
}

/// How far above the line the nearest packets are in the median part of the time.
fn unevenness(points: &[Point], drift: f64, floor: Option<f64>) -> Option<f64> {
    let floor = floor?;
    let first = points.iter().map(|p| p.at).fold(f64::INFINITY, f64::min);
    let last = points
        .iter()
        .map(|p| p.at)
        .fold(f64::NEG_INFINITY, f64::max);
    let mut nearest = [f64::INFINITY; PARTS];
    for point in points {
        let part = (point.at - first) / (last - first).max(1.0) * PARTS as f64;
        let part = (part as usize).min(PARTS - 1);
        let above = point.later - drift * point.at - floor;
        nearest[part] = nearest[part].min(above);
    }
    let mut nearest: Vec<f64> = nearest.into_iter().filter(|n| n.is_finite()).collect();
    nearest.sort_by(f64::total_cmp);
    (points.len() >= LEAST_POINTS).then(|| nearest[nearest.len() / 2])
}

fn span(to_b: &[Point], to_a: &[Point]) -> f64 {
    let all = || to_b.iter().chain(to_a).map(|point| point.at);
    all().fold(f64::NEG_INFINITY, f64::max) - all().fold(f64::INFINITY, f64::min)
}

/// The lowest points: the lower convex hull, from left to right (Andrew's monotone chain).
fn hull(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|p, q| p.at.total_cmp(&q.at).then(p.later.total_cmp(&q.later)));
    sorted.dedup_by_key(|point| point.at);
    let mut hull: Vec<Point> = Vec::new();
    for point in sorted {
        while let [.., p, q] = hull[..] {
            let turn =
                (q.at - p.at) * (point.later - p.later) - (q.later - p.later) * (point.at - p.at);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// Where a line of this slope that touches the hull from below meets the time 0.
fn floor(hull: &[Point], slope: f64) -> Option<f64> {
    let least = hull.iter().map(|point| point.later - slope * point.at);
    least.min_by(f64::total_cmp)
}

/// The slope at which the lines below both hulls, the second one mirrored, lie highest in the middle of
/// the packets' time. Their height is concave in the slope and bends at the hulls' edges only, so
/// the best slope is that of an edge, and is found by bisection.
fn slope(below_b: &[Point], below_a: &[Point]) -> f64 {
    let edges = |hull: &[Point], sign: f64| -> Vec<f64> {
        let pairs = hull.windows(2);
        pairs
            .map(|pair| sign * (pair[1].later - pair[0].later) / (pair[1].at - pair[0].at))
            .collect()
    };
    let mut slopes = edges(below_b, 1.0);
    slopes.extend(edges(below_a, -1.0));
    slopes.retain(|slope| slope.abs() <= MOST_DRIFT);
    slopes.sort_by(f64::total_cmp);
    let middle = |hull: &[Point]| match hull {
        [first, .., last] => f64::midpoint(first.at, last.at),
        _ => 0.0,
    };
    let (middle_b, middle_a) = (middle(below_b), middle(below_a));
    let height = |slope: f64| {
        let b = floor(below_b, slope).map_or(0.0, |floor| floor + slope * middle_b);
        let a = floor(below_a, -slope).map_or(0.0, |floor| floor - slope * middle_a);
        a + b
    };
    if slopes.is_empty() {
        return 0.0;
    }
    let (mut low, mut high) = (0, slopes.len() - 1);
    while low < high {
        let middle = usize::midpoint(low, high);
        if height(slopes[middle]) < height(slopes[middle + 1]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    slopes[low]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;
    const SECOND: f64 = 1e9;

    /// Packets of a minute: 20 ms there and 30 ms back with a queue that grows and empties, with
    /// B's clock a second ahead and gaining.
    fn points(drift: f64) -> (Vec<Point>, Vec<Point>) {
        let point = |i: u32, way: f64| {
            let at = f64::from(i) * 10.0 * MS;
            Point {
                at,
                later: drift * at + way,
            }
        };
        let queue = |i: u32| f64::from(i * i % 997) / 997.0 * 80.0 * MS;
        let to_b = (0..6000).map(|i| point(i, 20.0 * MS + queue(i))).collect();
        let to_a = (0..6000)
            .map(|i| point(i, -30.0 * MS - queue(i + 13) / 8.0))
            .collect();
        (to_b, to_a)
    }

    #[test]
    fn finds_offset_and_drift_under_queues() {
        for ppm in [-50.0, 0.0, 50.0] {
            let drift = ppm * 1e-6;
            let (to_b, to_a) = points(drift);
            let clocks = align(5, SECOND, &to_b, &to_a).expect("packets");
            assert!((clocks.drift - drift).abs() < 0.5e-6, "{clocks:?}");
            assert!(
                (clocks.drift - drift).abs() <= clocks.drift_error.max(1e-9),
                "{clocks:?}"
            );
            // The ways differ by 10 ms, of which half goes into the offset.
            let wrong = clocks.offset - (SECOND - 5.0 * MS);
            assert!(wrong.abs() < 0.1 * MS, "{clocks:?}");
            let error = clocks.offset_error.expect("both ways");
            assert!((error - 25.0 * MS).abs() < 0.1 * MS, "{clocks:?}");
        }
    }

    #[test]
    fn the_offset_is_the_same_by_either_clock() {
        let year = 365.25 * 86_400.0 * SECOND;
        for (offset, drift) in [(0.0, 1e-4), (53.0 * year, 1e-4), (-20.0 * year, -1e-3)] {
            let clocks = Clocks {
                at: 1_700_000_000_000_000_000,
                offset,
                offset_error: None,
                uneven: false,
                drift,
                drift_error: 0.0,
            };
            for later in [0u64, 3_600_000_000_000] {
                let a = clocks.at + later;
                let b = a.saturating_add_signed(clocks.offset_at(a) as i64);
                let wrong = clocks.offset_at_b(b) - clocks.offset_at(a);
                // Such large numbers are exact to a microsecond.
                assert!(wrong.abs() < 1e3, "{clocks:?}: {wrong} ns");
            }
        }
    }

    #[test]
    fn a_queue_that_grows_all_the_time_is_no_drift() {
        let point = |i: u32, way: f64| Point {
            at: f64::from(i) * 10.0 * MS,
            later: way,
        };
        let to_b: Vec<Point> = (0..1000)
            .map(|i| point(i, 20.0 * MS + f64::from(i) * 0.1 * MS))
            .collect();
        let to_a: Vec<Point> = (0..1000)
            .map(|i| point(i, -20.0 * MS - f64::from(i % 7) * 0.01 * MS))
            .collect();
        let clocks = align(0, 0.0, &to_b, &to_a).expect("packets");
        assert!(clocks.drift.abs() < 1e-6, "{clocks:?}");
    }

    #[test]
    fn a_clock_that_was_set_is_uneven() {
        // Two seconds on, half way through.
        let set = |points: &[Point]| -> Vec<Point> {
            let later = |p: &Point| {
                p.later
                    + if p.at > 30.0 * SECOND {
                        2.0 * SECOND
                    } else {
                        0.0
                    }
            };
            let points = points.iter();
            points
                .map(|p| Point {
                    later: later(p),
                    ..*p
                })
                .collect()
        };
        let (to_b, to_a) = points(0.0);
        let clocks = align(0, 0.0, &set(&to_b), &set(&to_a)).expect("packets");
        assert!(clocks.uneven, "{clocks:?}");
        assert_eq!(clocks.least_round_trip(), None);
        // It is one second from either offset.
        let error = clocks.offset_error.expect("both ways");
        assert!((error - SECOND).abs() < 50.0 * MS, "{clocks:?}");
        let clocks = align(0, 0.0, &to_b, &to_a).expect("packets");
        assert!(!clocks.uneven, "{clocks:?}");
    }

    #[test]
    fn one_way_gives_no_offset() {
        let (to_b, _) = points(0.0);
        let clocks = align(0, 0.0, &to_b, &[]).expect("packets");
        assert_eq!(clocks.offset_error, None);
        assert!((clocks.offset - 20.0 * MS).abs() < 0.1 * MS, "{clocks:?}");
        assert_eq!(align(0, 0.0, &[], &[]), None);
    }
}
