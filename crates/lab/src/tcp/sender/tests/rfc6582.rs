//! NewReno: RFC 6582 has no worked examples, so its steps (§3.2) are taken one by one. Here PRR
//! decides how much is sent between them, not the inflated window.

use super::*;

fn newreno() -> TcpConfig {
    TcpConfig {
        sack: false,
        rack: false,
        timestamps: false,
        ..TcpConfig::default()
    }
}

/// 0 and 6 of 0 to 19 are lost.
#[test]
fn a_partial_acknowledgement_sends_the_next_hole_again() {
    let (mut bench, sent) = Bench::new(&newreno(), 20, 1000);
    assert_eq!(sent, new(0..20));
    // Two duplicates let new data out (RFC 3042); the third is step 2: the threshold is half of what
    // was in flight, `recover` the highest sent.
    assert_eq!(bench.ack(0, &[]), new(20..21));
    assert_eq!(bench.ack(0, &[]), new(21..22));
    assert_eq!(bench.ack(0, &[]), [(0, true)]);
    assert_eq!(bench.sender.state, LossState::Recovery);
    assert_eq!(bench.sender.window.ssthresh, 10);
    assert_eq!(bench.sender.high, 22 * 1000 + FIRST);
    // Further duplicates send nothing again: 18 of 0 to 19 arrive, and 20 and 21.
    let more: Vec<_> = (3..20).flat_map(|_| bench.ack(0, &[])).collect();
    assert!(!more.is_empty());
    assert_eq!(more, new(22..22 + more.len() as u64));
    // Step 3, a partial acknowledgement: the next hole at once, and recovery goes on.
    let partial = bench.ack(6, &[]);
    assert_eq!(partial.iter().filter(|(_, again)| *again).count(), 1);
    assert_eq!(partial[0], (6, true));
    assert_eq!(bench.sender.state, LossState::Recovery);
    // Step 3, a full one: recovery ends with the window at the threshold.
    bench.ack(23, &[]);
    assert_eq!(bench.sender.state, LossState::Open);
    assert_eq!(bench.sender.window.cwnd, 10);
    assert_eq!(bench.sender.counts.retransmitted, 2);
    assert_eq!(bench.sender.counts.recoveries, 1);
}

/// Step 2 and §4: duplicates that cover no more than `recover` begin no second recovery, because
/// unnecessary retransmissions may have caused them.
#[test]
fn duplicates_up_to_recover_begin_nothing() {
    let (mut bench, _) = Bench::new(&newreno(), 20, 1000);
    (0..3).for_each(|_| drop(bench.ack(0, &[])));
    assert_eq!(bench.sender.high, 22 * 1000 + FIRST);
    bench.ack(22, &[]);
    for _ in 0..5 {
        assert!(bench.ack(22, &[]).iter().all(|(_, again)| !again));
    }
    assert_eq!(bench.sender.counts.recoveries, 1);
    // Above it they begin one.
    bench.ack(23, &[]);
    (0..3).for_each(|_| drop(bench.ack(23, &[])));
    assert_eq!(bench.sender.counts.recoveries, 2);
}

/// Step 4: a timeout sets `recover` to the highest sent, too.
#[test]
fn duplicates_after_a_timeout_begin_nothing() {
    let (mut bench, _) = Bench::new(&newreno(), 10, 1000);
    assert_eq!(bench.time_out(), [(0, true)]);
    assert_eq!(bench.sender.high, 10 * 1000 + FIRST);
    (0..5).for_each(|_| drop(bench.ack(0, &[])));
    assert_eq!(bench.sender.state, LossState::Loss);
    assert_eq!(bench.sender.counts.recoveries, 0);
    assert_eq!(bench.sender.counts.timeouts, 1);
}
