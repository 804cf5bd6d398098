//! How TCP and a policer play together.

use crate::annotate::{Metrics, Pattern};
use crate::testing::*;

/// 1000 packets, 10 ms apart with five in flight, of which every 100th is lost.
fn few_losses() -> Made {
    let mut made = Made::new();
    for i in 0..1000 {
        if i % 100 == 99 {
            made.is_lost(i * 10 * MS, 100 * MS, 5);
        } else {
            made.passes(i * 10 * MS, 50 * MS, 5);
        }
    }
    made
}

/// Bursts, the second half of each lost, and a pause after each.
fn bursts(n: u32, pause: u64) -> Metrics {
    let mut made = Made::new();
    let mut at = 0;
    for _ in 0..n {
        for i in 0..40 {
            if i < 20 {
                made.passes(at, 20 * MS, 20);
            } else {
                made.is_lost(at, pause + 40 * MS, 20);
            }
            at += MS;
        }
        at += pause;
    }
    made.measure()
}

#[test]
fn few_losses_over_a_long_time_are_congestion_avoidance() {
    let metrics = few_losses().measure();
    assert_eq!(metrics.pattern, Pattern::CongestionAvoidance);
    assert_eq!(metrics.evidence.loss_episodes, 10);
    assert_eq!(metrics.evidence.losses_per_episode, 1.0);
    assert_eq!(metrics.evidence.stalls, 0);
    assert_eq!(metrics.evidence.flight_packets, 5.0);
    assert!(metrics.evidence.overshoot < 1.5);
}

#[test]
fn lost_bursts_with_stagnation_between_are_a_staircase() {
    let metrics = bursts(5, 400 * MS);
    assert_eq!(metrics.pattern, Pattern::Staircase);
    assert_eq!(metrics.evidence.loss_episodes, 5);
    assert_eq!(metrics.evidence.losses_per_episode, 20.0);
    assert_eq!(metrics.evidence.stalls, 4);
    assert!(metrics.evidence.stalled > 0.5);
    assert!(metrics.evidence.overshoot > 5.0);
}

#[test]
fn lost_bursts_without_stagnation_are_no_pattern() {
    assert_eq!(bursts(5, 50 * MS).pattern, Pattern::None);
}

#[test]
fn a_single_stagnation_is_no_staircase() {
    let metrics = bursts(2, 400 * MS);
    assert_eq!(metrics.evidence.stalls, 1);
    assert_eq!(metrics.pattern, Pattern::None);
}

/// Windows of one packet and, every fourth time, of three, of which the last is lost.
fn small_windows(n: u64) -> Metrics {
    let mut made = Made::new();
    for i in 0..n {
        let at = i * 5 * MS;
        made.passes(at, 5 * MS, 1);
        if i % 4 == 3 {
            made.passes(at + MS, 5 * MS, 2);
            made.is_lost(at + 2 * MS, 15 * MS, 3);
        }
    }
    made.measure()
}

#[test]
fn a_window_of_two_that_is_too_fast_is_a_doubling_window() {
    let metrics = small_windows(200);
    assert_eq!(metrics.pattern, Pattern::DoublingWindow);
    assert_eq!(metrics.evidence.flight_packets, 3.0);
}

#[test]
fn two_losses_from_small_windows_are_no_doubling_window() {
    let metrics = small_windows(8);
    assert_eq!(metrics.evidence.loss_episodes, 2);
    assert_eq!(metrics.pattern, Pattern::None);
}

#[test]
fn a_pause_without_losses_is_no_stall() {
    let mut made = few_losses();
    for sent in &mut made.sent[550..] {
        sent.at += 5000 * MS;
        sent.acked_at += 5000 * MS;
    }
    let metrics = made.measure();
    assert_eq!(metrics.evidence.stalls, 0);
    assert_eq!(metrics.pattern, Pattern::CongestionAvoidance);
}

#[test]
fn without_losses_there_is_no_pattern() {
    let mut made = few_losses();
    for sent in &mut made.sent {
        sent.repeated = 0;
    }
    let metrics = made.measure();
    assert_eq!(metrics.pattern, Pattern::None);
    assert_eq!(metrics.evidence, Default::default());
}

#[test]
fn a_single_episode_is_no_pattern() {
    let mut made = few_losses();
    for (i, sent) in made.sent.iter_mut().enumerate() {
        sent.repeated = u32::from((500..503).contains(&i));
    }
    let metrics = made.measure();
    assert_eq!(metrics.pattern, Pattern::None);
    assert_eq!(metrics.evidence.loss_episodes, 1);
    assert_eq!(metrics.evidence.losses_per_episode, 3.0);
}

#[test]
fn many_losses_are_no_congestion_avoidance() {
    let mut made = few_losses();
    for (i, sent) in made.sent.iter_mut().enumerate() {
        sent.repeated = u32::from(i % 10 == 9);
    }
    assert_eq!(made.measure().pattern, Pattern::None);
}
