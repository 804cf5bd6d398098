use super::*;
use crate::line::{Segments, TripSummary};

const MS: u64 = 1_000_000;

fn line(p50: u64, p95: u64, again: u64) -> Line {
    let mut line = Line {
        access: TripSummary {
            measured: 50,
            lately: 50,
            p50: p50 * MS,
            p95: p95 * MS,
        },
        ..Line::default()
    };
    line.lately.down = Segments { all: 1_000, again };
    line
}

#[test]
fn the_worst_measure_counts() {
    let requirement = Requirement::default();
    let score = |p50, p95, again| requirement.score(&line(p50, p95, again)).unwrap();
    assert_eq!(score(20, 80, 5), 100.0);
    assert_eq!(score(50, 100, 10), 100.0);
    // Halfway from 100 to 600 ms, from 50 to 400 ms, and from 1 to 10 %.
    assert_eq!(score(20, 350, 0), 50.0);
    assert_eq!(score(225, 226, 0), 50.0);
    assert!((score(20, 80, 55) - 50.0).abs() < 1e-9);
    assert!((score(225, 350, 82) - 20.0).abs() < 1e-9);
    assert_eq!(score(20, 600, 0), 0.0);
    assert_eq!(score(20, 5_000, 0), 0.0);
}

#[test]
fn too_little_is_no_score() {
    let mut few = line(20, 80, 0);
    few.access.lately = 9;
    assert_eq!(Requirement::default().score(&few), None);
    // Three of five segments say nothing about loss.
    let mut short = line(20, 80, 0);
    short.lately.up = Segments { all: 5, again: 3 };
    assert_eq!(Requirement::default().score(&short), Some(100.0));
}
