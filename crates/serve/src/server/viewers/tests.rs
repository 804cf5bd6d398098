use std::time::Duration;

use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A response that ended after this much video, with unused credit.
fn ended(sent: u64, unused: u64) -> Ended {
    Ended {
        sent: s(sent),
        unused: s(unused),
        paid: None,
    }
}

/// Sessions of 10 s, whose segments last 4 s.
struct Watching(Viewers);

impl Watching {
    fn new() -> Self {
        Self(Viewers::new(s(10)))
    }

    /// Sends a whole segment; how much of it was sent at full speed.
    fn fetch(&self, track: u8, at: u64) -> u64 {
        let loan = self.lend(track, at);
        self.0.give_back(loan, ended(4, 0));
        loan.credit.as_secs()
    }

    fn lend(&self, track: u8, at: u64) -> Loan {
        self.0.lend(self.0.key(track), Some(s(at)), false, s(4))
    }
}

#[tokio::test]
async fn the_start_up_belongs_to_all_segments_of_a_track() {
    let viewers = Watching::new();
    let full: Vec<u64> = [0, 4, 8, 12, 16].map(|at| viewers.fetch(0, at)).into();
    assert_eq!(full, [4, 4, 2, 0, 0]);
    // Another track has another one.
    assert_eq!(viewers.fetch(1, 16), 4);
    // A segment of another representation, a little before.
    assert_eq!(viewers.fetch(0, 12), 0);
    // A segment without a place changes nothing.
    let first = viewers.0.lend(viewers.0.key(0_u8), None, false, s(4));
    assert_eq!(first.credit, s(0));
    viewers.0.give_back(first, ended(1, 0));
    assert_eq!(viewers.fetch(0, 20), 0);
}

#[tokio::test]
async fn a_jump_starts_up_again() {
    let viewers = Watching::new();
    for at in [0, 4, 8] {
        viewers.fetch(0, at);
    }
    // The furthest place is 12 s.
    assert_eq!(viewers.fetch(0, 42), 0);
    assert_eq!(viewers.fetch(0, 77), 4);
    assert_eq!(viewers.fetch(0, 0), 4);
    for at in [4, 8, 12] {
        viewers.fetch(0, at);
    }
    // A player that waits says so.
    let key = viewers.0.key(0_u8);
    assert_eq!(viewers.0.lend(key, Some(s(16)), false, s(4)).credit, s(0));
    assert_eq!(viewers.0.lend(key, Some(s(16)), true, s(4)).credit, s(4));
}

#[tokio::test]
async fn a_response_gives_back_what_it_did_not_use() {
    let viewers = Watching::new();
    let loan = viewers.lend(0, 0);
    viewers.0.give_back(loan, ended(1, 3));
    let all = |at| {
        viewers
            .0
            .lend(viewers.0.key(0_u8), Some(s(at)), false, s(99))
    };
    let late = all(4);
    assert_eq!(late.credit, s(9));
    // Responses at the same time share the credit.
    assert_eq!(viewers.lend(0, 8).credit, s(0));
    // What comes back after a jump is not for the new place.
    assert_eq!(all(100).credit, s(10));
    viewers.0.give_back(late, ended(2, 7));
    assert_eq!(viewers.lend(0, 104).credit, s(0));
}

#[tokio::test]
async fn tokens_go_from_one_response_to_the_next() {
    let viewers = Watching::new();
    let now = Instant::now();
    let end = |loan, after| {
        let paid = Some(now + s(after));
        let ended = Ended {
            paid,
            ..ended(4, 0)
        };
        viewers.0.give_back(loan, ended);
    };
    let (first, early) = (viewers.lend(0, 0), viewers.lend(0, 4));
    assert_eq!(first.paid, None);
    end(first, 9);
    end(early, 7);
    let second = viewers.lend(0, 8);
    assert_eq!(second.paid, Some(now + s(9)));
    // Only one takes them over, and none after a jump.
    assert_eq!(viewers.lend(0, 12).paid, None);
    end(second, 20);
    let jumped = viewers.lend(0, 100);
    assert_eq!(jumped.paid, None);
    end(jumped, 30);
    let waits = viewers
        .0
        .lend(viewers.0.key(0_u8), Some(s(104)), true, s(4));
    assert_eq!(waits.paid, None);
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_are_forgotten() {
    let viewers = Watching::new();
    for at in [0, 4, 8] {
        viewers.fetch(0, at);
    }
    for at in [12, 16, 20] {
        tokio::time::advance(s(299)).await;
        assert_eq!(viewers.fetch(0, at), 0);
    }
    tokio::time::advance(s(601)).await;
    assert_eq!(viewers.fetch(0, 24), 4);
}

#[tokio::test]
async fn sessions_are_bounded_and_the_longest_idle_go_first() {
    let viewers = Viewers::new(s(10));
    let credit = |viewer: usize| viewers.lend(viewers.key(viewer), None, false, s(10)).credit;
    for viewer in 0..2 * MOST {
        credit(viewer);
        // This one stays.
        assert_eq!(credit(0), s(0), "{viewer}");
    }
    let sessions = viewers.sessions();
    assert!(sessions.recent.len() + sessions.older.len() <= MOST);
    drop(sessions);
    assert_eq!(credit(2 * MOST - 2), s(0));
    assert_eq!(credit(1), s(10));
}
