use proptest::prelude::*;

use super::super::rate::Delivery;
use super::*;

fn push(board: &mut Scoreboard, seq: u64, payload: u32) {
    let snapshot = Delivery::new(0).on_sent(0, true, 1);
    board.push(Sent::new(seq, payload, false, false, 0, snapshot));
}

fn resend(board: &mut Scoreboard, number: u64, counted: bool) {
    let snapshot = Delivery::new(0).on_sent(0, true, 1);
    board.on_resent(number, 0, snapshot, counted);
}

fn order(board: &Scoreboard) -> Vec<u64> {
    std::iter::successors(board.oldest(), |&number| board.newer(number)).collect()
}

/// The states of Linux's table above `tcp_sacktag_write_queue`, and the segments that each has in
/// flight.
#[test]
fn counts_what_is_in_flight() {
    let mut board = Scoreboard::new();
    (0..6).for_each(|index| push(&mut board, 1 + index * 100, 100));
    assert_eq!(board.in_flight(), 6);
    board.mark_sacked(3);
    assert_eq!(board.in_flight(), 5);
    board.mark_lost(0);
    board.mark_lost(1);
    assert_eq!(board.in_flight(), 3);
    assert_eq!(order(&board), [2, 4, 5]);
    assert_eq!(board.next_to_resend(), Some(0));
    resend(&mut board, 0, true);
    assert_eq!(board.in_flight(), 4);
    assert_eq!(order(&board), [2, 4, 5, 0]);
    assert_eq!(board.next_to_resend(), Some(1));
    // The retransmission is lost again.
    assert!(board.mark_lost(0));
    assert!(!board.mark_lost(0), "no news");
    assert_eq!(board.in_flight(), 3);
    assert_eq!(board.next_to_resend(), Some(0));
    // A probe is in none of the counts.
    resend(&mut board, 5, false);
    assert_eq!((board.in_flight(), board.retrans_out), (3, 0));
    // A retransmission of a segment that is not marked lost: both are in flight, and if one
    // arrives, one is.
    resend(&mut board, 4, true);
    assert_eq!(board.in_flight(), 4);
    board.mark_sacked(4);
    assert_eq!(board.in_flight(), 3);
    board.forget_retransmission(4);
    assert_eq!(board.in_flight(), 2);
    board.check(true);
    while board.pop_acked(u64::MAX, true).is_some() {}
    assert_eq!(
        (board.out(), board.in_flight(), board.oldest()),
        (0, 0, None)
    );
    board.check(true);
}

#[derive(Debug, Clone)]
enum Step {
    Push(u32),
    Pop(u64),
    Sack(u64),
    Lose(u64),
    Resend,
    Probe,
    Duplicate(u64),
    Find,
    Renege,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..2000).prop_map(Step::Push),
        1 => (0u64..5).prop_map(Step::Pop),
        3 => (0u64..60).prop_map(Step::Sack),
        3 => (0u64..60).prop_map(Step::Lose),
        3 => Just(Step::Resend),
        1 => Just(Step::Probe),
        1 => (0u64..60).prop_map(Step::Duplicate),
        1 => Just(Step::Find),
        1 => Just(Step::Renege),
    ]
}

proptest! {
    /// The counts agree with the marks, and the next segment to retransmit is the first lost one,
    /// in any order of events. Sequence numbers find their segment.
    #[test]
    fn counts_follow_marks(steps in proptest::collection::vec(steps(), 0..200)) {
        let mut board = Scoreboard::new();
        let mut next = 1;
        for step in steps {
            let first = board.first();
            match step {
                Step::Push(payload) => {
                    push(&mut board, next, payload);
                    next += u64::from(payload);
                }
                Step::Pop(count) => {
                    let una = board.get(first + count).map_or(next, |sent| sent.seq);
                    while board.pop_acked(una, true).is_some() {}
                }
                Step::Sack(index) => board.mark_sacked(first + index),
                Step::Lose(index) => {
                    board.mark_lost(first + index);
                }
                Step::Resend => {
                    let lost = (first..board.behind()).find(|&number| {
                        board.get(number).is_some_and(|sent| sent.lost && !sent.again)
                    });
                    prop_assert_eq!(board.next_to_resend(), lost);
                    if let Some(number) = lost {
                        resend(&mut board, number, true);
                    }
                }
                Step::Probe => {
                    if board.out() > 0 {
                        let last = board.behind() - 1;
                        resend(&mut board, last, false);
                    }
                }
                Step::Duplicate(index) => board.forget_retransmission(first + index),
                Step::Find => board.unmark_lost(),
                Step::Renege => board.forget_sacked(),
            }
            board.check(true);
            for number in board.first()..board.behind() {
                let sent = board.get(number).unwrap();
                prop_assert_eq!(board.number_at(sent.seq), number);
                prop_assert_eq!(board.number_at(sent.end() - 1), number);
                prop_assert_eq!(board.number_at(sent.end()), number + 1);
            }
        }
    }
}
