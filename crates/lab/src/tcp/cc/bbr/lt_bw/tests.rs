use super::*;

const MSS: u32 = 1448;

/// Rounds of 40 ms each, with what was delivered and lost since the start at the end of each.
struct Rounds {
    detector: LongTerm,
    event: Event,
}

impl Rounds {
    fn new() -> Self {
        Self {
            detector: LongTerm::default(),
            event: Event {
                losses: false,
                app_limited: false,
                round_start: true,
                probing: true,
                delivered: 1000,
                lost: 0,
                delivered_at: 5000,
                mss: MSS,
            },
        }
    }

    fn round(&mut self, delivered: u64, lost: u64) -> Verdict {
        self.event.delivered += delivered;
        self.event.lost += lost;
        self.event.losses = lost > 0;
        self.event.delivered_at += 40;
        self.detector.on_event(self.event)
    }

    fn rounds(&mut self, count: u32, delivered: u64, lost: u64) -> Vec<Verdict> {
        (0..count).map(|_| self.round(delivered, lost)).collect()
    }
}

/// Segments per second.
fn per_second(bandwidth: u32) -> f64 {
    f64::from(bandwidth) * 1e6 / f64::from(1u32 << 24)
}

#[test]
fn two_lossy_intervals_of_one_bandwidth_are_a_policer() {
    let mut rounds = Rounds::new();
    rounds.round(100, 0);
    // Starts with the first loss, whose round counts; 20 in 40 ms are 500/s.
    rounds.round(100, 30);
    assert_eq!(rounds.rounds(3, 20, 5), vec![Verdict::Nothing; 3]);
    assert_eq!(per_second(rounds.detector.bandwidth).round(), 500.0);
    assert_eq!(rounds.detector.bandwidth(), None, "one is not enough");
    // 12.5 % more is still the same; the mean of both is held.
    assert_eq!(rounds.rounds(3, 22, 5), vec![Verdict::Nothing; 3]);
    assert_eq!(rounds.round(22, 5), Verdict::Policed);
    let held = per_second(rounds.detector.bandwidth().unwrap());
    assert_eq!(held.round(), 525.0);
}

#[test]
fn intervals_that_differ_are_none() {
    let mut rounds = Rounds::new();
    rounds.round(100, 30);
    rounds.rounds(3, 20, 5);
    // 15 % more than before, and 500/s of 1448 bytes are far above 4 kbit/s.
    assert_eq!(rounds.rounds(4, 23, 6), vec![Verdict::Nothing; 4]);
    assert_eq!(rounds.detector.bandwidth(), None);
    assert_eq!(
        rounds.rounds(4, 23, 6)[3],
        Verdict::Policed,
        "but these agree"
    );
    let held = per_second(rounds.detector.bandwidth().unwrap());
    assert_eq!(held.round(), 575.0);
}

#[test]
fn slow_intervals_agree_within_4_kbit() {
    let agree = |apart_bytes: u32| {
        let mut rounds = Rounds::new();
        // 1 segment of 100 bytes in 4 ms: 20 kbit/s, and the next one differs by more than an
        // eighth.
        rounds.event.mss = apart_bytes;
        rounds.round(10, 5);
        rounds.rounds(3, 1, 1);
        rounds.rounds(4, 2, 2)[3] == Verdict::Policed
    };
    // Twice 25 segments per second. The difference is 25, which is 500 bytes with segments of 20
    // bytes, but more with 21.
    assert!(agree(20));
    assert!(!agree(21));
}

#[test]
fn fewer_losses_than_a_fifth_are_none() {
    let mut rounds = Rounds::new();
    rounds.round(100, 30);
    // 19 of 100, of 256: 48.6 and below 50.
    assert_eq!(rounds.rounds(14, 100, 19), vec![Verdict::Nothing; 14]);
    assert_eq!(rounds.detector.bandwidth, 0);
    // After sixteen rounds the interval is given up.
    rounds.rounds(2, 100, 19);
    assert!(!rounds.detector.sampling);
    rounds.rounds(1, 100, 20);
    rounds.rounds(3, 100, 20);
    assert!(rounds.detector.bandwidth > 0, "20 of 100 are enough");
}

#[test]
fn an_interval_ends_with_a_loss() {
    let mut rounds = Rounds::new();
    rounds.round(100, 30);
    rounds.round(20, 40);
    rounds.rounds(5, 20, 0);
    assert_eq!(rounds.detector.bandwidth, 0);
    rounds.round(20, 1);
    assert_eq!(per_second(rounds.detector.bandwidth).round(), 500.0);
}

#[test]
fn running_out_of_data_starts_over() {
    let mut rounds = Rounds::new();
    rounds.round(100, 30);
    rounds.rounds(3, 20, 5);
    rounds.event.app_limited = true;
    rounds.round(20, 5);
    rounds.event.app_limited = false;
    assert_eq!(rounds.detector.bandwidth, 0);
    assert_eq!(rounds.rounds(7, 20, 5), vec![Verdict::Nothing; 7]);
}

#[test]
fn it_is_held_for_48_rounds_of_probing() {
    let mut rounds = Rounds::new();
    rounds.round(100, 30);
    let verdicts = rounds.rounds(7, 20, 5);
    assert_eq!(verdicts[6], Verdict::Policed);
    rounds.event.probing = false;
    rounds.rounds(100, 20, 5);
    rounds.event.probing = true;
    assert_eq!(rounds.rounds(47, 20, 5), vec![Verdict::Nothing; 47]);
    assert!(rounds.detector.bandwidth().is_some());
    assert_eq!(rounds.round(20, 5), Verdict::Released);
    assert_eq!(rounds.detector.bandwidth(), None);
}
