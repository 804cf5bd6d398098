//! Senders through known limiters: what limited them must come out.

#[cfg(feature = "xz")]
mod capture;
mod household;

use super::arrival::Arrival;
use super::bucket::{Bucket, Noise};
use super::course::Held;
use super::delay;
use super::fit::fit_bucket;
use super::interval::{Doubt, intervals};
use super::lanes::log_likelihoods;
use super::limiter::{Losses, Mechanism, Towards, explain};
use super::receiver::Seen;
use super::scope::{Scope, episodes};
use super::step::{Merges, Step};
use super::subject::Subject;
use super::vector::LANES;
use super::verdict::judge;
use crate::annotate::TransferSummary;
use crate::detect::{Basis, Cause};
use crate::testing::Made;

const PATH: u64 = 40_000_000;
const FRAME: f32 = 1518.0;
const MILLISECOND: u64 = 1_000_000;

/// What packets meet on their way.
enum Device {
    Policer,
    /// A queue of the bucket's size.
    Queue,
    /// A queue of this many bytes behind the rest of the bucket.
    BurstShaper(f64),
    /// One packet in this many is lost, at any rate.
    Chance(u64),
}

/// Rounds of bursts that grow until packets are lost, and are halved then, as TCP's.
fn send(bucket: Bucket, device: &Device, rounds: u64, mut random: u64) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let (mut level, mut last, mut window) = (bucket.depth, 0, 4u64);
    for round in 0..rounds {
        let mut lost_any = false;
        for i in 0..window {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let jitter = (random >> 33) % (MILLISECOND / 100);
            let at = (round * PATH + i * MILLISECOND / 50 + jitter).max(last);
            level = (level + bucket.rate * (at - last) as f64 / 1e9).min(bucket.depth);
            last = at;
            let lost = match device {
                Device::Chance(one_in) => (random >> 40).is_multiple_of(*one_in),
                _ => level < f64::from(FRAME),
            };
            if !lost {
                level -= f64::from(FRAME);
            }
            lost_any |= lost;
            let backlog = match device {
                Device::Policer | Device::Chance(_) => 0.0,
                Device::Queue => bucket.depth - level,
                Device::BurstShaper(queue) => (queue - level).max(0.0),
            };
            let rtt = PATH + (backlog / bucket.rate * 1e9) as u64 + jitter;
            arrivals.push(Arrival {
                at,
                rtt: Arrival::rtt_steps(rtt),
                transfer: 0,
                weight: FRAME,
                lost: lost && !matches!(device, Device::Chance(0)),
            });
        }
        window = if lost_any { window / 2 } else { window + 3 }.max(2);
    }
    arrivals
}

fn losses(arrivals: Vec<Arrival>) -> Losses {
    let towards = Towards {
        arrivals,
        flows: vec![0],
        ..Towards::default()
    };
    explain(&towards, Basis::Client)[0].expect("packets were lost")
}

fn mechanism(arrivals: Vec<Arrival>) -> Option<Mechanism> {
    losses(arrivals).limiter.map(|limiter| limiter.mechanism)
}

fn bucket(megabits: f64, depth: f64) -> Bucket {
    Bucket {
        rate: megabits * 1e6 / 8.0,
        depth,
        start: 1.0,
    }
}

#[test]
fn a_fit_finds_rate_and_depth() {
    for (megabits, depth) in [(2.0, 40e3), (5.0, 100e3), (20.0, 300e3)] {
        let truth = bucket(megabits, depth);
        let arrivals = send(truth, &Device::Policer, 400, 7);
        let fit = fit_bucket(&arrivals, &[1.0]).expect("there are losses");
        let off = |found: f64, truth: f64| (found / truth - 1.0).abs();
        assert!(off(fit.bucket.rate, truth.rate) < 0.005, "{fit:?}");
        let (rates, depths) = intervals(&arrivals, &fit, Doubt::default());
        assert!(
            rates.holds(truth.rate) && depths.holds(depth),
            "{rates:?} {depths:?}"
        );
    }
}

/// Of every third burst the capture holds nothing. An interval without an end is not given.
#[test]
fn intervals_are_wider_where_users_may_be_hidden() {
    let truth = bucket(5.0, 100e3);
    for seed in 0..4 {
        let mut arrivals = send(truth, &Device::Policer, 400, seed);
        arrivals.retain(|arrival| !(arrival.at / PATH).is_multiple_of(3));
        let fit = fit_bucket(&arrivals, &[1.0]).expect("there are losses");
        let [seen, hidden] = [true, false].map(|all_seen| {
            let doubt = Doubt::of(fit.bucket.rate, 10, all_seen);
            intervals(&arrivals, &fit, doubt).0
        });
        assert!(
            hidden.low <= seen.low && hidden.high > seen.high,
            "{seen:?} {hidden:?}"
        );
        assert!(hidden.ends < 2 || hidden.holds(truth.rate), "{hidden:?}");
    }
}

/// A limiter that marks packets (ECN) drops later than its bucket tells.
#[test]
fn a_bucket_beside_marks_has_no_rate_and_no_confidence() {
    let losses = losses(send(bucket(5.0, 100e3), &Device::Policer, 400, 7));
    for (marks, is_known) in [(0, true), (3, false)] {
        let mut made = Made::new();
        for i in 0..400 {
            made.passes(i * 10 * MILLISECOND, PATH, 2);
        }
        let mut metrics = made.measure();
        (metrics.lost_packets, metrics.congestion_echoes) = (losses.lost as u64, marks);
        let summary = TransferSummary::new(&made.transfer(), &metrics);
        let held = Held::default();
        let seen = Seen::Directly;
        let basis = Basis::Client;
        let judgement = judge(&summary, None, held, Some(&losses), seen, None, basis);
        assert_eq!(judgement.cause, Cause::Policer);
        assert_eq!(judgement.limit.is_some(), is_known);
        assert_eq!(judgement.confidence.is_some(), is_known);
    }
}

#[test]
fn a_bucket_is_certain_where_it_explains_all_that_went_to_a_client() {
    let scope = |device| Scope::new(send(bucket(5.0, 60e3), &device, 400, 3), &[1.0], PATH);
    assert!(scope(Device::Policer).used_by(&[0]).is_certain());
    assert!(!scope(Device::Policer).is_certain());
    assert!(!scope(Device::Chance(30)).used_by(&[0]).is_certain());
}

/// Single packets, and bursts of eight of which three are lost.
#[test]
fn packets_wait_beside_the_losses_of_a_queue_of_five_packets() {
    for packet_time in [0, 6 * MILLISECOND / 5] {
        let mut arrivals = Vec::new();
        for round in 0..200 {
            for i in 0..if round % 10 == 0 { 8 } else { 1 } {
                arrivals.push(Arrival {
                    at: round * PATH + i * MILLISECOND / 50,
                    rtt: Arrival::rtt_steps(PATH + i * packet_time),
                    transfer: 0,
                    weight: FRAME,
                    lost: i >= 5,
                });
            }
        }
        let subject = Subject::new(arrivals, Some(0.04), PATH);
        assert_eq!(subject.waits_beside_losses(), packet_time > 0);
    }
}

#[test]
fn packets_beside_losses_waited_where_nothing_else_explains_their_delay() {
    for waited in [0, 20 * MILLISECOND] {
        let burst = |round: u64| (0..8).map(move |i| (round, i));
        let arrivals = (0..200).flat_map(burst).map(|(round, i)| {
            let waits = if round % 10 == 0 { waited } else { 0 };
            Arrival {
                at: round * PATH + i * MILLISECOND / 50,
                rtt: Arrival::rtt_steps(PATH + waits),
                transfer: 0,
                weight: FRAME,
                lost: round % 10 == 0 && i >= 5,
            }
        });
        let subject = Subject::new(arrivals.collect(), Some(0.04), PATH);
        let delay = subject.delay.expect("losses with neighbours");
        assert_eq!(delay.waited_at_losses(), waited > 0, "{delay:?}");
    }
}

#[test]
fn packets_that_are_replayed_together_are_as_likely_as_one_by_one() {
    let truth = bucket(5.0, 100e3);
    let arrivals = send(truth, &Device::Policer, 400, 7);
    let mut merges = Merges::new(&arrivals);
    let fits = |steps: &[Step], factor: f64, width| {
        let tried = Bucket {
            rate: truth.rate * factor,
            ..truth
        };
        log_likelihoods(steps, &[tried; LANES], Noise { width })[0]
    };
    let together = merges.within(60.0 / truth.rate).to_vec();
    let singly = merges.within(0.0);
    assert!(singly.len() == arrivals.len() && together.len() * 2 < singly.len());
    for factor in [0.9, 1.0, 1.1] {
        for width in [400.0, 2_500.0] {
            let [one, other] = [singly, &together].map(|steps| fits(steps, factor, width));
            assert!((one - other).abs() < 0.05 * one.abs(), "{one} {other}");
        }
    }
}

/// Half a minute between bursts: the mean rate is far below the limiter's.
#[test]
fn pauses_between_bursts_do_not_hide_a_fast_limiter() {
    let truth = bucket(20.0, 100e3);
    let mut arrivals = Vec::new();
    for burst in 0..8 {
        let packets = send(truth, &Device::Policer, 40, burst);
        let later = burst * 30_000 * MILLISECOND;
        arrivals.extend(packets.into_iter().map(|packet| Arrival {
            at: packet.at + later,
            ..packet
        }));
    }
    let fit = fit_bucket(&arrivals, &[1.0]).expect("there are losses");
    assert!((fit.bucket.rate / truth.rate - 1.0).abs() < 0.02, "{fit:?}");
}

#[test]
fn too_few_losses_are_not_fitted() {
    let mut arrivals = send(bucket(5.0, 100e3), &Device::Policer, 50, 7);
    for arrival in &mut arrivals {
        arrival.lost = false;
    }
    assert!(fit_bucket(&arrivals, &[1.0]).is_none());
    assert!(fit_bucket(&[], &[1.0]).is_none());
}

#[test]
fn delay_tells_a_policer_from_a_queue_that_drops_the_same_packets() {
    let truth = bucket(5.0, 60e3);
    let policed = send(truth, &Device::Policer, 400, 3);
    let queued = send(truth, &Device::Queue, 400, 3);
    let fates = |arrivals: &[Arrival]| arrivals.iter().map(|a| a.lost).collect::<Vec<_>>();
    assert_eq!(fates(&policed), fates(&queued));
    assert_eq!(mechanism(policed), Some(Mechanism::Policer));
    assert_eq!(mechanism(queued), Some(Mechanism::Queue));
}

#[test]
fn a_burst_allowance_before_a_queue_is_told_from_either() {
    let truth = bucket(5.0, 400e3);
    let arrivals = send(truth, &Device::BurstShaper(60e3), 600, 3);
    assert_eq!(mechanism(arrivals), Some(Mechanism::BurstShaper));
}

/// What htb does with a burst of ten packets and a queue of thirteen, on a path whose round-trip times go up and
/// down by some milliseconds: the queue's delay is not much more than that.
#[test]
fn a_short_queue_behind_a_burst_is_no_policer_on_a_noisy_path() {
    for seed in 0..4 {
        let mut arrivals = send(bucket(20.0, 35e3), &Device::BurstShaper(20e3), 300, seed);
        let mut random = seed;
        let (mut noise, mut until) = (0, 0);
        for arrival in &mut arrivals {
            if arrival.at >= until {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                noise = (random >> 33) % (4 * MILLISECOND);
                until = arrival.at + 20 * MILLISECOND;
            }
            arrival.rtt += Arrival::rtt_steps(noise);
        }
        let found = losses(arrivals).limiter.expect("a bucket explains them");
        assert_ne!(found.mechanism, Mechanism::Policer, "{found:?}");
    }
}

/// After a pause a whole window meets a line of 50 Mbit/s at once, and exceeds its queue. Acknowledgements let half as much follow. One such
/// episode does not tell the rate, so a bucket that fits may hold far more than what waited.
#[test]
fn a_queue_that_fills_once_is_no_policer() {
    let line = bucket(50.0, 500e3);
    let (path, spacing) = (58 * MILLISECOND, MILLISECOND / 4);
    let window = (0..350).map(|i| i * 1_000);
    let then = (0..86).map(|i| path + 2 * i * spacing);
    let (mut backlog, mut last) = (0.0_f64, 0);
    let arrivals = window.chain(then).map(|at| {
        backlog = (backlog - line.rate * (at - last) as f64 / 1e9).max(0.0);
        last = at;
        let lost = backlog + f64::from(FRAME) > line.depth;
        if !lost {
            backlog += f64::from(FRAME);
        }
        let rtt = path + (backlog / line.rate * 1e9) as u64;
        Arrival {
            at,
            rtt: if lost { 0 } else { Arrival::rtt_steps(rtt) },
            transfer: 0,
            weight: FRAME,
            lost,
        }
    });
    let arrivals: Vec<Arrival> = arrivals.collect();
    assert!(arrivals.iter().filter(|arrival| arrival.lost).count() >= 15);
    assert_eq!(mechanism(arrivals), Some(Mechanism::Queue));
}

#[test]
fn random_losses_are_no_limiter() {
    for one_in in [30, 100] {
        let arrivals = send(bucket(50.0, 1e6), &Device::Chance(one_in), 400, 5);
        assert_eq!(mechanism(arrivals), None);
    }
}

#[test]
fn times_that_go_backwards_and_hostile_values_do_no_harm() {
    let mut arrivals = send(bucket(5.0, 60e3), &Device::Policer, 50, 3);
    for (i, arrival) in arrivals.iter_mut().enumerate() {
        arrival.lost |= i % 3 == 0;
        match i % 7 {
            0 => arrival.at = u64::MAX - i as u64,
            1 => arrival.at = 0,
            2 => arrival.weight = 0.0,
            3 => arrival.rtt = u32::MAX,
            _ => {}
        }
    }
    for basis in [Basis::Segment, Basis::Connection, Basis::Client] {
        let towards = Towards {
            arrivals: arrivals.clone(),
            flows: vec![0],
            ..Towards::default()
        };
        assert_eq!(explain(&towards, basis).len(), 1);
    }
}

#[test]
fn losses_a_round_trip_apart_are_episodes_of_their_own() {
    let arrivals = send(bucket(5.0, 60e3), &Device::Policer, 400, 3);
    let all = episodes(&arrivals, PATH / 2);
    assert!(all > 3, "{all}");
    assert!(episodes(&arrivals, u64::MAX) == 1);
    assert_eq!(episodes(&[], PATH), 0);
}

#[test]
fn the_base_is_near_the_least_round_trip_time() {
    let arrivals = send(bucket(5.0, 60e3), &Device::Policer, 100, 3);
    let base = delay::base(arrivals.iter()).expect("there are samples");
    assert!((base - 0.04).abs() < 0.002, "{base}");
}
