use proptest::prelude::*;

use super::*;

fn progress(in_flight: u32) -> Progress {
    Progress {
        delivered: 1,
        lost: 0,
        una_advanced: false,
        in_flight,
    }
}

/// The third and later acknowledgements of the tables of RFC 6937 §3.1: the pipe before the
/// acknowledgement's segments are sent, and their number. Of 20 segments in flight some are lost, and
/// the threshold becomes 10. The two acknowledgements before let new data leave (limited transmit),
/// which is not a part of PRR.
fn table(recovery: Recovery, lost: u32) -> Vec<(u32, u32)> {
    let mut reduction = Reduction::begin(20);
    let mut in_flight = 20 - lost;
    let mut row = Vec::new();
    for ack in 3..=20 - lost {
        in_flight -= 1;
        let progress = Progress {
            lost: if ack == 3 { lost } else { 0 },
            ..progress(in_flight)
        };
        let window = reduction.window(recovery, 10, progress).unwrap();
        let sent = window.saturating_sub(in_flight);
        row.push((in_flight, sent));
        (0..sent).for_each(|_| reduction.on_sent());
        in_flight += sent;
    }
    row
}

/// The first table: one of 20 is lost. The pipe is that of the table, which shows it after sending,
/// except for the third acknowledgement. The table's numbers of sent segments do not agree with its
/// pipe in the last three columns, so this test uses the pipe.
#[test]
fn a_single_loss_is_that_of_the_rfc() {
    let expected = [
        18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 10,
    ];
    for recovery in [Recovery::Conservative, Recovery::SlowStart] {
        let row = table(recovery, 1);
        assert_eq!(row[0], (18, 1), "{recovery:?}");
        let pipe: Vec<_> = row[1..].iter().map(|(pipe, sent)| pipe + sent).collect();
        assert_eq!(pipe, expected, "{recovery:?}");
        let until = row.iter().take(13).enumerate();
        assert!(
            until
                .into_iter()
                .all(|(n, &(_, sent))| sent == 1 - n as u32 % 2)
        );
    }
}

/// The second table: the first 15 of 20 are lost.
#[test]
fn a_burst_of_losses_is_that_of_the_rfc() {
    let crb = [(4, 1), (4, 1), (4, 1)];
    let ssrb = [(4, 2), (5, 2), (6, 2)];
    assert_eq!(table(Recovery::Conservative, 15), crb);
    assert_eq!(table(Recovery::SlowStart, 15), ssrb);
}

/// [Flach16 §5.2.2]: far below the threshold, one for each delivered segment, or two in slow start.
#[test]
fn conserves_or_doubles_below_the_threshold() {
    for (recovery, each) in [(Recovery::Conservative, 1), (Recovery::SlowStart, 2)] {
        let mut reduction = Reduction::begin(40);
        reduction.on_sent();
        for _ in 0..5 {
            let window = reduction.window(recovery, 20, progress(3)).unwrap();
            assert_eq!(window, 3 + each);
            (0..each).for_each(|_| reduction.on_sent());
        }
    }
}

/// Linux since 4.2: an acknowledgement that advances and shows no new loss allows one more.
#[test]
fn good_news_allows_one_more() {
    let news = |una_advanced, lost| {
        let mut reduction = Reduction::begin(40);
        reduction.on_sent();
        let progress = Progress {
            delivered: 2,
            lost,
            una_advanced,
            in_flight: 3,
        };
        reduction
            .window(Recovery::Conservative, 20, progress)
            .unwrap()
            - 3
    };
    assert_eq!(news(true, 0), 3);
    assert_eq!(news(true, 1), 2);
    assert_eq!(news(false, 0), 2);
}

#[test]
fn the_first_retransmission_is_not_held_back() {
    let mut reduction = Reduction::begin(4);
    let window = reduction
        .window(Recovery::Conservative, 2, progress(60))
        .unwrap();
    assert_eq!(window, 61);
    assert_eq!(
        reduction.window(
            Recovery::Conservative,
            2,
            Progress {
                delivered: 0,
                ..progress(60)
            }
        ),
        None
    );
}

proptest! {
    /// RFC 6937 §3.1: the sent segments never exceed the delivered ones by more than the first
    /// retransmission and those that advancing acknowledgements allowed.
    #[test]
    fn never_more_than_delivered_and_good_news(
        cwnd in 1u32..500,
        ssthresh in 2u32..250,
        acks in proptest::collection::vec((0u32..4, any::<bool>(), 0u32..3), 1..200),
    ) {
        let mut reduction = Reduction::begin(cwnd);
        let mut in_flight = cwnd;
        let (mut delivered, mut sent, mut more) = (0, 0, 1);
        for (now, una_advanced, lost) in acks {
            in_flight = in_flight.saturating_sub(now + lost);
            delivered += now;
            more += u32::from(una_advanced && lost == 0);
            let progress = Progress { delivered: now, lost, una_advanced, in_flight };
            let Some(window) = reduction.window(Recovery::Conservative, ssthresh, progress) else {
                continue;
            };
            while in_flight < window {
                in_flight += 1;
                sent += 1;
                reduction.on_sent();
            }
            prop_assert!(sent <= delivered + more, "{} {} {}", sent, delivered, more);
        }
    }
}
