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

/// RFC 6937 §4.1, first figure: of 20 segments the first is lost, the window is halved: one is
/// sent for every second delivered.
#[test]
fn sends_every_second_time_above_the_threshold() {
    let mut reduction = Reduction::begin(20);
    let mut in_flight = 20;
    let mut sent = Vec::new();
    // 19 acknowledgements; by the third the loss is found, and it is not in flight any more.
    in_flight -= 1;
    for ack in 0..19 {
        in_flight -= 1;
        let mut now = 0;
        let window = reduction
            .window(Recovery::Conservative, 10, progress(in_flight))
            .unwrap();
        while in_flight < window {
            in_flight += 1;
            now += 1;
            reduction.on_sent();
        }
        assert!(ack == 0 || now <= 1);
        sent.push(now);
    }
    assert_eq!(sent.iter().sum::<u32>(), 10);
    assert_eq!(in_flight, 10);
}

/// RFC 6937 §4.1, second figure, and [Flach16 §5.2.2]: far below the threshold, one for each
/// delivered, or two in slow start.
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
    /// RFC 6937 §3.1: what is sent never exceeds what is delivered by more than the first
    /// retransmission and what good news allowed.
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
