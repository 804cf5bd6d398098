//! Verdicts on transfers whose measures are known.

use super::*;
use crate::annotate::{Marks, Path};
use crate::testing::{MS, Made};

/// What is said of a transfer without losses.
fn judged(summary: &TransferSummary) -> Judgement {
    let base = summary.metrics.rtt.map(|rtt| rtt.min as f64 / 1e9);
    let held = Held::default();
    judge(
        summary,
        base,
        held,
        None,
        Seen::Directly,
        None,
        Basis::Client,
    )
}

fn summary(made: &Made) -> TransferSummary {
    TransferSummary::new(&made.transfer(), &made.measure())
}

/// Two packets in flight for 200 round trips. Two in three wait for this long.
fn steady(waits: u64) -> TransferSummary {
    let mut made = Made::new();
    for i in 0..400 {
        let waited = if i % 3 == 0 { 0 } else { waits };
        made.passes(i * 10 * MS, 20 * MS + waited, 2);
    }
    summary(&made)
}

/// Packets that nothing acknowledges.
fn unanswered(times: impl Iterator<Item = u64>) -> TransferSummary {
    let mut made = Made::new();
    times.for_each(|at| made.passes(at, 0, 1));
    for sent in &mut made.sent {
        (sent.acked_at, sent.marks) = (0, Marks::default());
    }
    summary(&made)
}

fn between() -> Path {
    Path {
        to_sender: Some(20 * MS),
        to_receiver: Some(20 * MS),
        ..Path::default()
    }
}

#[test]
fn on_the_way_only_timestamps_show_what_waits_before_the_capture() {
    let mut transfer = steady(0);
    assert_eq!(judged(&transfer).cause, Cause::Sender);
    transfer.path = between();
    let unclear = judged(&transfer);
    assert_eq!(unclear.cause, Cause::Unclear);
    assert_eq!(unclear.left, [Cause::Sender, Cause::Queue]);
    transfer.metrics.rtt_to_sender = Some(20 * MS);
    assert_eq!(judged(&transfer).cause, Cause::Sender);
}

#[test]
fn few_packets_without_round_trips_say_little() {
    let slow = || unanswered((0..5).map(|i| i * 20_001 * MS));
    assert_eq!(judged(&slow()).cause, Cause::Unclear);
    assert_eq!(
        judged(&unanswered([0].into_iter())).cause,
        Cause::RoundTrips
    );
    let mut quick = unanswered((0..5).map(|i| i * 10 * MS));
    assert_eq!(judged(&quick).cause, Cause::Unclear);
    quick.path = between();
    assert_eq!(judged(&quick).cause, Cause::RoundTrips);
}

#[test]
fn marks_without_losses_are_those_of_a_managed_queue() {
    let mut queued = steady(20 * MS);
    assert_eq!(judged(&queued).cause, Cause::Queue);
    queued.metrics.congestion_echoes = 3;
    let marked = judged(&queued);
    assert_eq!((marked.cause, marked.confidence), (Cause::Aqm, None));
    let evidence = marked.evidence(&queued);
    let text = "The receiver echoed congestion marks (ECN) at 3 separate times.";
    assert!(evidence.iter().any(|clue| clue.text == text));
    let mut without_queue = steady(0);
    without_queue.metrics.congestion_echoes = 3;
    let marked = judged(&without_queue);
    assert_eq!(marked.left, [Cause::Policer, Cause::Aqm]);
}
