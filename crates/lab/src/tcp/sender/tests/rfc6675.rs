//! RFC 6675 §4, from its definitions: IsLost, SetPipe and NextSeg, on segments of one size. PRR
//! decides how much is sent. Linux does not have NextSeg's rules 3 and 4, which apply without new
//! data.

use proptest::prelude::*;

use super::*;

fn without_time() -> TcpConfig {
    TcpConfig {
        rack: false,
        timestamps: false,
        ..TcpConfig::default()
    }
}

/// The scoreboard of the RFC.
#[derive(Default)]
struct Reference {
    /// HighACK, HighData and HighRxt, as the numbers behind them.
    acked: usize,
    sent: usize,
    again: usize,
    sacked: Vec<bool>,
}

impl Reference {
    /// DupThresh discontiguous runs above it, or more than DupThresh − 1 segments.
    fn is_lost(&self, number: usize) -> bool {
        let above = &self.sacked[number + 1..];
        let runs = above.iter().zip([false].iter().chain(above));
        let runs = runs.filter(|(now, before)| **now && !**before).count();
        runs >= 3 || above.iter().filter(|&&sacked| sacked).count() > 2
    }

    fn holes(&self) -> impl Iterator<Item = usize> {
        (self.acked..self.sent).filter(|&number| !self.sacked[number])
    }

    fn pipe(&self) -> usize {
        let count = |number| usize::from(!self.is_lost(number)) + usize::from(number < self.again);
        self.holes().map(count).sum()
    }

    /// NextSeg: the first above HighRxt that is lost, or else new data.
    fn next(&mut self) -> (u64, bool) {
        let lost = self.holes().find(|&n| n >= self.again && self.is_lost(n));
        if let Some(number) = lost {
            self.again = number + 1;
            return (number as u64, true);
        }
        self.sent += 1;
        self.sacked.push(false);
        (self.sent as u64 - 1, false)
    }

    fn take(&mut self, number: usize) -> (u64, Vec<(u64, u64)>) {
        self.sacked[number] = true;
        while self.sacked.get(self.acked) == Some(&true) {
            self.acked += 1;
        }
        let end = |from| {
            (from..self.sent)
                .find(|&n| !self.sacked[n])
                .unwrap_or(self.sent)
        };
        // The range of the newest first, then those from above.
        let starts = (self.acked + 1..self.sent).filter(|&n| self.sacked[n] && !self.sacked[n - 1]);
        let mut ranges: Vec<_> = starts.map(|from| (from as u64, end(from) as u64)).collect();
        ranges.reverse();
        ranges.sort_by_key(|&(from, to)| !(from..to).contains(&(number as u64)));
        ranges.truncate(4);
        (self.acked as u64, ranges)
    }
}

/// 0, 1 and 4 of 20 are lost.
#[test]
fn a_hole_is_lost_below_three() {
    let (mut bench, _) = Bench::new(&without_time(), 20, 1000);
    let lost = |bench: &Bench| -> Vec<_> {
        let board = &bench.sender.board;
        (0..20)
            .filter(|&n| board.get(n).is_some_and(|sent| sent.lost))
            .collect()
    };
    assert_eq!(bench.ack(0, &[(2, 3)]), new(20..21));
    assert_eq!(bench.ack(0, &[(2, 4)]), new(21..22));
    assert!(lost(&bench).is_empty());
    // 2, 3 and 5 are above 0 and 1, but only 5 is above 4. Pipe: 22, without 3 that arrived and 2
    // that are lost, and the retransmitted one.
    assert_eq!(bench.ack(0, &[(5, 6), (2, 4)]), [(0, true)]);
    assert_eq!(lost(&bench), [0, 1]);
    assert_eq!(bench.sender.in_flight(), 18);
    assert_eq!(bench.ack(0, &[(5, 7), (2, 4)]), []);
    assert_eq!(lost(&bench), [0, 1], "two above 4");
    assert_eq!(bench.ack(0, &[(5, 8), (2, 4)]), [(1, true)]);
    assert_eq!(lost(&bench), [0, 1, 4], "three above 4");
    assert_eq!(bench.sender.in_flight(), 22 - 5 - 3 + 2);
    // RecoveryPoint is the data that was sent when recovery began.
    assert_eq!(bench.sender.high, 22 * 1000 + FIRST);
    assert_eq!(bench.sender.window.ssthresh, 10);
}

proptest! {
    /// For any losses of the first window, after each acknowledgement: the marks are IsLost's, the
    /// segments in flight are SetPipe's, and the sent segments are NextSeg's.
    #[test]
    fn marks_pipe_and_what_is_next_are_the_rfcs(lost in proptest::collection::vec(any::<bool>(), 8..40)) {
        let window = lost.len();
        let (mut bench, sent) = Bench::new(&without_time(), window as u32, 10_000);
        prop_assert_eq!(&sent, &new(0..window as u64));
        let mut reference = Reference { sent: window, sacked: vec![false; window], ..Reference::default() };
        let arrives = |&(number, again): &(u64, bool)| again || !lost.get(number as usize).unwrap_or(&false);
        let mut way: std::collections::VecDeque<_> = sent.iter().filter(|sent| arrives(sent)).copied().collect();
        for _ in 0..3 * window {
            let Some((number, _)) = way.pop_front() else { break };
            let (acked, ranges) = reference.take(number as usize);
            for sent in bench.ack(acked, &ranges) {
                prop_assert_eq!(sent, reference.next());
                way.extend(Some(sent).filter(arrives));
            }
            prop_assert_eq!(bench.sender.in_flight() as usize, reference.pipe());
            for number in reference.holes() {
                let marked = bench.sender.board.get(number as u64).unwrap().lost;
                prop_assert_eq!(marked, reference.is_lost(number), "{}", number);
            }
        }
        prop_assert_eq!(bench.sender.counts.timeouts, 0);
    }
}
