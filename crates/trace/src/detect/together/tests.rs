use super::Together;
use crate::annotate::TransferSummary;
use crate::detect::{Basis, Cause, Estimate, Judgement, Limit, Share};
use crate::testing::Made;

use crate::annotate::Layer;

/// A transfer of this many seconds.
fn transfer(seconds: u64) -> TransferSummary {
    let made = Made::new();
    let transfer = made.transfer();
    let mut summary = TransferSummary::new(&transfer, &Default::default());
    summary.metrics.duration = seconds * 1_000_000_000;
    summary
}

fn judged(cause: Cause, confidence: f64) -> Judgement {
    let mut judgement = Judgement::new(cause, "for a test");
    judgement.confidence = Some(confidence);
    judgement.shares = vec![Share { cause, share: 1.0 }];
    judgement
}

fn limited(cause: Cause, basis: Basis, rate: f64) -> Judgement {
    let mut judgement = judged(cause, 0.9);
    judgement.basis = basis;
    judgement.shared = Some(basis == Basis::Client);
    judgement.limit = Some(Limit {
        rate_bps: Estimate::exact(rate),
        layer: Layer::Link,
        depth_bytes: None,
        burst: None,
    });
    judgement
}

fn all(judgements: &[(u64, Judgement)]) -> Judgement {
    let mut together = Together::default();
    for (seconds, judgement) in judgements {
        together.add(&transfer(*seconds), judgement);
    }
    together.judgement()
}

#[test]
fn one_transfer_keeps_its_verdict() {
    for cause in Cause::ALL
        .into_iter()
        .filter(|&cause| cause != Cause::Mixed)
    {
        let found = all(&[(3, judged(cause, 0.75))]);
        assert_eq!((found.cause, found.confidence), (cause, Some(0.75)));
        assert_eq!(found.shares, vec![Share { cause, share: 1.0 }]);
    }
}

#[test]
fn the_cause_with_most_of_the_time_decides() {
    let found = all(&[
        (6, judged(Cause::Queue, 0.8)),
        (1, judged(Cause::Sender, 0.6)),
        (2, judged(Cause::Queue, 0.95)),
        (1, judged(Cause::RoundTrips, 0.9)),
    ]);
    assert_eq!(found.cause, Cause::Queue);
    let confidence = found.confidence.unwrap();
    assert!((confidence - (6.0 * 0.8 + 2.0 * 0.95) / 8.0).abs() < 1e-9);
    let shares: f64 = found.shares.iter().map(|share| share.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    assert_eq!(found.shares[0].cause, Cause::Queue);
}

#[test]
fn without_one_that_decides_it_is_mixed() {
    let mut mixed = judged(Cause::Mixed, 0.7);
    mixed.shares = vec![
        Share {
            cause: Cause::Application,
            share: 0.6,
        },
        Share {
            cause: Cause::Queue,
            share: 0.4,
        },
    ];
    let found = all(&[
        (5, mixed),
        (2, judged(Cause::Sender, 0.6)),
        (2, judged(Cause::Queue, 0.9)),
    ]);
    assert_eq!(found.cause, Cause::Mixed);
    assert_eq!(found.limit, None);
    let confidence = found.confidence.unwrap();
    assert!((confidence - (5.0 * 0.7 + 2.0 * 0.6 + 2.0 * 0.9) / 9.0).abs() < 1e-9);
}

#[test]
fn the_limit_is_that_of_the_widest_basis_and_the_longest_transfer() {
    let found = all(&[
        (9, limited(Cause::Policer, Basis::Connection, 1e6)),
        (2, limited(Cause::Policer, Basis::Client, 2e6)),
        (3, limited(Cause::Policer, Basis::Client, 3e6)),
        (4, limited(Cause::Queue, Basis::Client, 4e6)),
    ]);
    assert_eq!(found.cause, Cause::Policer);
    assert_eq!(
        found.limit.map(|limit| limit.rate_bps.value.round()),
        Some(3e6)
    );
    assert_eq!((found.basis, found.shared), (Basis::Client, Some(true)));
}

#[test]
fn nothing_is_unclear() {
    assert_eq!(all(&[]).cause, Cause::Unclear);
}
