use super::*;
use crate::annotate::Marks;
use crate::detect::{DETECTORS, by_name};
use crate::read::Nanos;
use crate::testing::*;

/// What happens to a packet: passes after a round trip in ms, or is lost.
enum Fate {
    Passes(u64),
    Lost,
}
use Fate::{Lost, Passes};

/// The usual round trip in ms.
const RTT: u64 = 20;

fn add(made: &mut Made, at: Nanos, fate: Fate) {
    match fate {
        Passes(ms) => made.passes(at, ms * MS, 10),
        // Sent again and acknowledged at once, so that it hides no round-trip time.
        Lost => made.is_lost(at, 2 * MS, 10),
    }
}

/// What a token bucket of 20 kB and 1 Mbit/s makes of `n` packets at twice the rate, with
/// round-trip times of `rtt` ms by their number.
fn policed(n: u64, rtt: impl Fn(u64) -> u64) -> Made {
    let mut made = Made::new();
    let mut tokens = 20_000.0;
    for i in 0..n {
        let fate = if tokens >= 1000.0 {
            tokens -= 1000.0;
            Passes(rtt(i))
        } else {
            Lost
        };
        tokens += 500.0;
        add(&mut made, 4 * i * MS, fate);
    }
    made
}

/// Rounds of these packets, by their times in the round in ms.
fn rounds(n: u64, length: u64, packets: &[(u64, bool)]) -> Made {
    let mut made = Made::new();
    for round in 0..n {
        for &(at, lost) in packets {
            let fate = if lost { Lost } else { Passes(RTT) };
            add(&mut made, (round * length + at) * MS, fate);
        }
    }
    made
}

fn judge(name: &str, made: &Made) -> Answer {
    let mut detector = match name {
        "pd" => Pd::published(),
        _ => Pd::paper(),
    };
    detector.judge(&made.transfer())
}

/// The results of both editions with all losses.
fn codes(made: &Made) -> [Code; 2] {
    ["pd", "pd-paper"].map(|name| judge(name, made).all.code)
}

#[test]
fn code_0_a_policed_transfer() {
    let made = policed(400, |_| RTT);
    for name in ["pd", "pd-paper"] {
        let judgement = judge(name, &made);
        assert_eq!(judgement.all.code, Code::Policed);
        assert!(judgement.is_policed());
        assert_eq!(judgement.deciding(), &judgement.all);
        let rate = judgement.all.rate_bps.unwrap();
        assert!((rate / 1e6 - 1.0).abs() < 0.01, "{rate}");
        // The bucket, and what was filled in while it emptied.
        assert_eq!(judgement.all.burst_bytes, Some(39_000));
        assert!(judgement.all.checks.iter().all(|check| check.holds));
        let cut = judgement.cut;
        assert!(cut.is_policed());
        assert!((cut.rate_bps.unwrap() / 1e6 - 1.0).abs() < 0.01);
    }
}

#[test]
fn code_1_without_losses_or_with_one() {
    let mut made = policed(30, |_| RTT);
    assert_eq!(codes(&made), [Code::TooFewLosses; 2]);
    made.sent[10].repeated = 1;
    assert_eq!(codes(&made), [Code::TooFewLosses; 2]);
    assert_eq!(codes(&Made::new()), [Code::TooFewLosses; 2]);
}

#[test]
fn code_1_with_fewer_than_15_losses() {
    let with = |losses: usize| {
        let mut made = policed(400, |_| RTT);
        let nth = made
            .sent
            .iter()
            .enumerate()
            .filter(|(_, sent)| sent.repeated != 0)
            .nth(losses);
        let end = nth.unwrap().0;
        made.sent.truncate(end);
        codes(&made)
    };
    assert_eq!(with(14), [Code::TooFewLosses; 2]);
    assert_eq!(with(15), [Code::Policed; 2]);
}

#[test]
fn code_1_with_losses_in_too_few_round_trips() {
    // The same losses, but two round trips hold them: of interest to the published code only.
    let made = policed(400, |_| 800);
    assert_eq!(codes(&made)[0], Code::TooFewLosses);
    let failed = judge("pd", &made).all.checks.pop().unwrap();
    assert_eq!(
        (failed.what, failed.found, failed.limit),
        ("round trips with losses", 2.0, 3.0)
    );
}

#[test]
fn code_2_a_late_first_loss() {
    let mut made = policed(400, |_| RTT);
    let first = made
        .sent
        .iter()
        .find(|sent| sent.repeated != 0)
        .unwrap()
        .seq;
    let shift = 2_000_000 - first;
    for sent in &mut made.sent {
        sent.seq += shift;
    }
    assert_eq!(codes(&made), [Code::Policed; 2]);
    for sent in &mut made.sent {
        sent.seq += 1;
    }
    // The paper has no such rule.
    assert_eq!(codes(&made), [Code::LateLoss, Code::Policed]);
}

#[test]
fn code_3_slower_before_the_losses() {
    let mut made = policed(400, |_| RTT);
    made.started_at = START - 10_000 * MS;
    assert_eq!(codes(&made), [Code::NegativeFill, Code::Policed]);
}

#[test]
fn code_4_more_tokens_on_loss_than_on_pass() {
    // The first packet after every pause is lost, and the ten behind it pass.
    let packets: Vec<_> = (0..11).map(|i| (i, i == 0)).collect();
    let made = rounds(30, 100, &packets);
    assert_eq!(codes(&made), [Code::HigherFillOnLoss; 2]);
}

#[test]
fn code_5_losses_with_tokens_left() {
    // One packet in five is lost after a pause, with some 9 kB of tokens.
    let packets: Vec<_> = (0..16).map(|i| (80 + i, i == 0 || i > 11)).collect();
    let mut made = rounds(20, 96, &packets);
    made.started_at += 80 * MS;
    assert_eq!(codes(&made)[0], Code::LossFillOutOfRange);
    let failed = judge("pd", &made).all.checks.pop().unwrap();
    assert!(failed.found > 15.0 && failed.limit == 10.0, "{failed:?}");
}

#[test]
fn code_6_passes_with_an_empty_bucket() {
    // Six packets pass behind the five that were lost for want of tokens.
    let packets: Vec<_> = (0..21).map(|i| (i, (10..15).contains(&i))).collect();
    let made = rounds(20, 100, &packets);
    assert_eq!(codes(&made)[0], Code::PassFillOutOfRange);
}

#[test]
fn code_7_round_trips_that_have_grown_before_losses() {
    let made = policed(400, |i| if i < 35 { RTT } else { 60 });
    assert_eq!(codes(&made)[0], Code::InflatedRtt);
    // Not if all were as long, or if they are shorter than 20 ms.
    assert_eq!(codes(&policed(400, |_| 60))[0], Code::Policed);
    assert_eq!(
        codes(&policed(400, |i| if i < 35 { 6 } else { 18 }))[0],
        Code::Policed
    );
}

#[test]
fn round_trips_while_a_loss_is_pending_do_not_count() {
    // They grow behind the first loss.
    let mut made = policed(400, |i| if i < 39 { RTT } else { 60 });
    assert_eq!(codes(&made)[0], Code::InflatedRtt);
    for sent in made.sent.iter_mut().filter(|sent| sent.repeated != 0) {
        sent.acked_at = sent.at + 1000 * MS;
    }
    assert_eq!(codes(&made)[0], Code::Policed);
}

#[test]
fn the_second_latest_round_trip_counts() {
    // Ten pass, five are lost, round after round.
    let packets: Vec<_> = (0..15).map(|i| (i, i >= 10)).collect();
    for (grown, code) in [(9, Code::Policed), (8, Code::InflatedRtt)] {
        let mut made = rounds(20, 100, &packets);
        for sent in made.sent.iter_mut().skip(grown).step_by(15) {
            sent.acked_at = sent.at + 60 * MS;
        }
        assert_eq!(codes(&made)[0], code, "{grown}");
    }
}

#[test]
fn a_round_trip_below_the_median_is_not_inflated() {
    let packets: Vec<_> = (0..15).map(|i| (i, i >= 10)).collect();
    let with = |usual: u64| {
        let mut made = rounds(20, 100, &packets);
        for (i, sent) in made.sent.iter_mut().enumerate() {
            let ms = match i % 15 {
                0 | 1 => 20,
                8 => 60,
                2..10 => usual,
                _ => continue,
            };
            sent.acked_at = sent.at + ms * MS;
        }
        codes(&made)[0]
    };
    assert_eq!(with(90), Code::Policed);
    assert_eq!(with(50), Code::InflatedRtt);
}

#[test]
fn the_published_code_takes_the_median_fill_on_loss_for_empty() {
    // The first and the last loss have another cause, with an all but full bucket.
    let mut made = policed(400, |_| RTT);
    made.sent[3].repeated = 1;
    add(&mut made, (1600 + 148) * MS, Lost);
    assert_eq!(codes(&made), [Code::Policed, Code::LossFillOutOfRange]);
}

#[test]
fn the_paper_tests_the_round_trip_before_the_first_loss() {
    let growing = policed(400, |i| if i < 30 { RTT } else { 60 });
    assert_eq!(codes(&growing)[1], Code::InflatedRtt);
    // Growing afterwards is not tested.
    let later = policed(400, |i| if i < 60 { RTT } else { 60 });
    assert_eq!(codes(&later)[1], Code::Policed);
    // And falling afterwards does not help in the paper, but does in the code.
    let before = policed(400, |i| if (30..41).contains(&i) { 60 } else { RTT });
    assert_eq!(codes(&before), [Code::Policed, Code::InflatedRtt]);
}

#[test]
fn the_paper_follows_tokens_to_the_last_loss_only() {
    let mut made = policed(400, |_| RTT);
    for i in 0..10 {
        add(&mut made, (1600 + i) * MS, Passes(RTT));
    }
    assert_eq!(codes(&made), [Code::PassFillOutOfRange, Code::Policed]);
}

#[test]
fn the_published_code_knows_duplicate_acknowledgements_only() {
    // Losses that timestamps show to be none.
    let mut made = policed(400, |_| RTT);
    for sent in made.sent.iter_mut().filter(|sent| sent.repeated != 0) {
        sent.marks.set(Marks::SPURIOUS_TIMESTAMP);
    }
    assert_eq!(codes(&made), [Code::Policed, Code::TooFewLosses]);
    for sent in &mut made.sent {
        sent.marks.set(Marks::SPURIOUS_DSACK);
    }
    assert_eq!(codes(&made), [Code::TooFewLosses; 2]);
}

#[test]
fn the_published_code_is_blind_below_a_millisecond() {
    let mut made = policed(400, |_| RTT);
    for sent in &mut made.sent {
        if sent.repeated == 0 {
            sent.acked_at = sent.at + 900_000;
        }
    }
    // So that a loss does not always meet the very same fill.
    for sent in made.sent.iter_mut().step_by(7) {
        sent.len -= 20;
    }
    // Its thresholds are 0, where the paper's are a bandwidth-delay product.
    assert_eq!(codes(&made)[0], Code::LossFillOutOfRange);
    // And 3.999 ms are 3.
    for sent in &mut made.sent {
        if sent.repeated == 0 {
            sent.acked_at = sent.at + 3_999_999;
        }
    }
    let checks = judge("pd", &made).all.checks;
    let fill = checks
        .iter()
        .find(|check| check.what == "tokens at the start")
        .unwrap();
    assert!(
        (fill.limit / (-0.75 * 3e-3 * 125_000.0) - 1.0).abs() < 0.01,
        "{fill:?}"
    );
}

#[test]
fn the_second_run_leaves_two_losses_out_at_either_end() {
    let mut made = policed(400, |_| RTT);
    // Two losses of another cause at the start.
    made.sent[2].repeated = 1;
    made.sent[3].repeated = 1;
    for name in ["pd", "pd-paper"] {
        let judgement = judge(name, &made);
        assert!(!judgement.all.is_policed(), "{name}");
        let cut = judgement.cut.clone();
        assert!(cut.is_policed(), "{name}");
        // Either run counts.
        assert!(judgement.is_policed());
        assert_eq!(judgement.deciding(), &cut);
        // What passed before the first loss of all, for the burst.
        assert_eq!(cut.burst_bytes, Some(2000));
    }
    // With three, the second run does not help.
    made.sent[4].repeated = 1;
    assert!(!judge("pd", &made).is_policed());
}

#[test]
fn the_second_run_needs_losses_left() {
    let mut made = policed(400, |_| RTT);
    let losses = made
        .sent
        .iter()
        .enumerate()
        .filter(|(_, sent)| sent.repeated != 0);
    let end = losses.map(|(i, _)| i).nth(5).unwrap();
    made.sent.truncate(end);
    let cut = judge("pd", &made).cut;
    assert_eq!(cut.code, Code::TooFewLosses);
    assert_eq!((cut.checks[0].found, cut.checks[0].limit), (5.0, 6.0));
}

#[test]
fn a_detector_keeps_nothing_of_the_transfer_before() {
    let (yes, no) = (
        policed(400, |_| RTT),
        rounds(30, 100, &[(0, true), (1, false)]),
    );
    for mut detector in [Pd::published(), Pd::paper()] {
        let first = detector.judge(&yes.transfer());
        detector.judge(&no.transfer());
        assert_eq!(detector.judge(&yes.transfer()), first);
    }
}

#[test]
fn without_round_trip_times_or_a_clock_there_is_no_policer() {
    let mut made = policed(400, |_| RTT);
    for at in [|i: usize| START - i as u64, |_| START] {
        let mut made = policed(400, |_| RTT);
        for (i, sent) in made.sent.iter_mut().enumerate() {
            sent.at = at(i);
        }
        assert!(codes(&made).iter().all(|&code| code != Code::Policed));
    }
    for sent in &mut made.sent {
        sent.acked_at = 0;
        sent.marks = Marks::default();
    }
    assert_eq!(codes(&made), [Code::TooFewLosses; 2]);
}

#[test]
fn names_and_numbers() {
    assert!(by_name("nobody").is_none());
    for entry in DETECTORS {
        assert_eq!(by_name(entry.name).unwrap().about, entry.about);
    }
    for (number, code) in Code::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(code.number()), number);
    }
}
