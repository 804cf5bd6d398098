use super::*;

/// Subscribers `s0` and so on.
fn roster(subscribers: u32) -> Arc<Roster> {
    let subscriber = |number: u32| {
        let limit = |limiter| Limit {
            limiter,
            rate: Some(1_000_000),
            boost: 0,
        };
        Subscriber {
            name: format!("s{number}").into(),
            plan: None,
            parent: None,
            set: false,
            suspended: false,
            moved: false,
            turn: None,
            quota: None,
            keys: None,
            limits: PerDirection {
                down: limit(2 * number),
                up: limit(2 * number + 1),
            },
            matches: Vec::new(),
            users: Vec::new(),
            from: Binding::default(),
        }
    };
    Arc::new(Roster {
        subscribers: (0..subscribers).map(subscriber).collect(),
    })
}

/// This many bytes down were counted for each subscriber.
fn reading(roster: &Arc<Roster>, passed_bytes: u64) -> Arc<Reading> {
    let down = Counters {
        passed_bytes,
        ..Counters::default()
    };
    let counters = PerDirection {
        down,
        up: Counters::default(),
    };
    Arc::new(Reading {
        at: Instant::now(),
        took: Duration::ZERO,
        roster: Arc::clone(roster),
        counters: vec![counters; roster.subscribers.len()],
        unlimited: Vec::new(),
        felt: None,
    })
}

#[test]
fn names_are_found_and_paged() {
    let roster = roster(3);
    assert_eq!(roster.find("s1"), Some(1));
    assert_eq!(roster.find("s10"), None);
    assert_eq!(roster.after(""), 0);
    assert_eq!(roster.after("s1"), 2);
    assert_eq!(roster.after("t"), 3);
}

#[test]
fn totals_do_not_fall_when_subscribers_go_or_counters_are_reset() {
    let mut totals = Totals::default();
    let (three, two) = (roster(3), roster(2));
    totals.add(&reading(&three, 100));
    assert_eq!(totals.get().down.passed_bytes, 300);
    totals.add(&reading(&three, 150));
    assert_eq!(totals.get().down.passed_bytes, 450);
    // One is gone; the others counted 10 more.
    totals.add(&reading(&two, 160));
    assert_eq!(totals.get().down.passed_bytes, 470);
    // It comes back with a new limiter; the others' limiters were reset, too.
    totals.add(&reading(&three, 5));
    assert_eq!(totals.get().down.passed_bytes, 485);
}
