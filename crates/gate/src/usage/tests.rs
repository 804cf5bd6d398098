use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::binding::Binding;
use crate::calendar::{Counts, Quota};
use crate::reading::{Limit, Roster};
use crate::table::Counters;

/// On this day of November 2026.
fn on(day: u32) -> Moment {
    Moment {
        year: 2026,
        month: 11,
        day,
        weekday: 0,
        minute: 0,
    }
}

/// Subscribers with these counters down; those whose names begin with `q` have months from the 15th on.
fn reading(counted: &[(&str, u64)]) -> Reading {
    let limit = Limit {
        limiter: 0,
        rate: None,
        boost: 0,
    };
    let subscriber = |name: &str| Subscriber {
        name: name.into(),
        plan: None,
        parent: None,
        set: false,
        suspended: false,
        moved: false,
        turn: None,
        keys: None,
        quota: name.starts_with('q').then(|| Quota {
            bytes: 1000,
            counts: Counts::Both,
            day: 15,
            plan: "slow".into(),
        }),
        limits: PerDirection {
            down: limit,
            up: limit,
        },
        matches: Vec::new(),
        users: Vec::new(),
        from: Binding::default(),
    };
    let counters = |passed_bytes| Counters {
        passed_bytes,
        ..Counters::default()
    };
    Reading {
        at: Instant::now(),
        took: Duration::ZERO,
        roster: Arc::new(Roster {
            subscribers: counted.iter().map(|(name, _)| subscriber(name)).collect(),
        }),
        counters: counted
            .iter()
            .map(|&(_, bytes)| PerDirection {
                down: counters(bytes),
                up: counters(1),
            })
            .collect(),
        unlimited: Vec::new(),
        felt: None,
    }
}

fn down(usage: &Usage, name: &str) -> Option<u64> {
    usage.of(name).map(|volume| volume.bytes.down)
}

#[test]
fn volumes_outlive_files_gates_and_months() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("usage.json");
    let mut usage = Usage::read(&path).expect("none yet");
    // What passed before anything was counted does not count.
    usage.count(1, &reading(&[("ann", 500), ("quo", 40)]), &on(3));
    usage.count(
        1,
        &reading(&[("ann", 800), ("bob", 70), ("quo", 50)]),
        &on(3),
    );
    assert_eq!(down(&usage, "ann"), Some(300));
    assert_eq!(
        down(&usage, "bob"),
        Some(70),
        "all of a new subscriber counts"
    );
    usage.write(&path).expect("written");
    assert_eq!(Usage::read(&path).expect("there"), usage);

    // The process was away for 100 bytes; then the machine restarts, and the counters begin again.
    let mut usage = Usage::read(&path).expect("there");
    usage.count(
        1,
        &reading(&[("ann", 900), ("bob", 70), ("quo", 50)]),
        &on(4),
    );
    assert_eq!(down(&usage, "ann"), Some(400));
    usage.count(
        2,
        &reading(&[("ann", 1000), ("bob", 5), ("quo", 50)]),
        &on(4),
    );
    assert_eq!(
        (down(&usage, "ann"), down(&usage, "bob")),
        (Some(1400), Some(75))
    );
    // A limiter that began again within a gate.
    usage.count(2, &reading(&[("ann", 10), ("bob", 5), ("quo", 50)]), &on(4));
    assert_eq!(down(&usage, "ann"), Some(1410));

    // A month ends on its day, for each subscriber.
    assert_eq!(
        usage.of("quo").expect("there").period.to_string(),
        "2026-10-15"
    );
    usage.count(2, &reading(&[("ann", 20), ("quo", 57)]), &on(15));
    assert_eq!(
        (down(&usage, "ann"), down(&usage, "quo")),
        (Some(1420), Some(7))
    );
    assert_eq!(
        usage.of("quo").expect("there").period.to_string(),
        "2026-11-15"
    );
    // bob may come back in November, and not in December.
    assert_eq!(down(&usage, "bob"), Some(75));
    let december = Moment { month: 12, ..on(1) };
    usage.count(2, &reading(&[("ann", 25), ("quo", 60)]), &december);
    assert_eq!((down(&usage, "ann"), down(&usage, "bob")), (Some(5), None));

    assert!(usage.reset("ann", 1) && !usage.reset("bob", 1));
    usage.count(2, &reading(&[("ann", 26), ("quo", 60)]), &december);
    assert_eq!(down(&usage, "ann"), Some(1));
}

/// A machine without a clock starts with an old date, until the network tells it the time.
#[test]
fn a_clock_that_went_back_ends_no_month() {
    let in_year = |year, moment: Moment| Moment { year, ..moment };
    let mut usage = Usage::default();
    let mut passed = 0;
    let mut count = |usage: &mut Usage, at: Moment| {
        passed += 100;
        usage.count(1, &reading(&[("ann", passed), ("quo", passed)]), &at);
        (down(usage, "ann"), down(usage, "quo"))
    };
    count(&mut usage, on(3));
    for _ in 0..3 {
        count(&mut usage, on(3));
    }
    assert_eq!(count(&mut usage, in_year(1970, on(3))).0, Some(400));
    assert_eq!(count(&mut usage, in_year(2025, on(1))).0, Some(500));
    // The date that it had last is in another month for one of them.
    let october = Moment {
        month: 10,
        ..on(14)
    };
    count(&mut usage, october);
    assert_eq!(count(&mut usage, on(3)), (Some(700), Some(700)));
    assert_eq!(
        usage.of("ann").expect("there").period.to_string(),
        "2026-11-01"
    );
    let december = Moment { month: 12, ..on(1) };
    assert_eq!(count(&mut usage, december), (Some(100), Some(100)));
}

/// Otherwise a volume would not begin again for years.
#[test]
fn a_clock_that_was_ahead_does_not_stop_months() {
    let mut usage = Usage::default();
    let mut passed = 0;
    let mut count = |usage: &mut Usage, at: Moment| {
        passed += 100;
        usage.count(1, &reading(&[("ann", passed)]), &at);
        down(usage, "ann")
    };
    let ahead = Moment {
        year: 2031,
        ..on(3)
    };
    count(&mut usage, on(3));
    assert_eq!(count(&mut usage, ahead), Some(100));
    assert_eq!(count(&mut usage, on(3)), Some(200));
    assert_eq!(count(&mut usage, on(30)), Some(300));
    let december = Moment { month: 12, ..on(1) };
    assert_eq!(count(&mut usage, december), Some(100));
    let january = Moment {
        year: 2027,
        month: 1,
        ..on(2)
    };
    assert_eq!(count(&mut usage, january), Some(100));
    assert_eq!(
        usage.of("ann").expect("there").period.to_string(),
        "2027-01-01"
    );
}

/// As for a subscriber that goes to a plan without a quota, and back.
#[test]
fn another_day_of_the_month_refills_no_volume() {
    let mut usage = Usage::default();
    let mut passed = 0;
    let mut count = |usage: &mut Usage, quota: Option<u32>, at: Moment| {
        passed += 100;
        let mut reading = reading(&[("quo", passed)]);
        let one = &mut Arc::make_mut(&mut reading.roster).subscribers[0];
        one.quota = one
            .quota
            .take()
            .zip(quota)
            .map(|(all, day)| Quota { day, ..all });
        usage.count(1, &reading, &at);
        let volume = usage.of("quo").expect("there");
        (volume.bytes.down, volume.period.to_string())
    };
    for day in [10, 20] {
        count(&mut usage, Some(15), on(day));
        let (before, month) = count(&mut usage, Some(15), on(day));
        let none = count(&mut usage, None, on(day));
        assert_eq!(none, (before + 100, "2026-11-01".to_owned()));
        assert_eq!(count(&mut usage, Some(15), on(day)), (before + 200, month));
    }
}

/// Each gate of a pair counts what passes it, and both know the sum.
#[test]
fn two_gates_share_volumes_and_begin_again_together() {
    let [mut here, mut there] = [Usage::default(), Usage::default()];
    let count =
        |one: &mut Usage, gate, bytes, day| one.count(gate, &reading(&[("ann", bytes)]), &on(day));
    let share = |from: &Usage, to: &mut Usage| {
        let text = serde_json::to_string(&from.shared()).expect("text");
        to.learn(serde_json::from_str(&text).expect("volumes"));
    };
    count(&mut here, 1, 0, 1);
    count(&mut there, 2, 0, 1);
    count(&mut here, 1, 100, 1);
    count(&mut there, 2, 7, 1);
    // Twice changes nothing.
    for _ in 0..2 {
        share(&here, &mut there);
        share(&there, &mut here);
    }
    assert_eq!(
        (down(&here, "ann"), down(&there, "ann")),
        (Some(107), Some(107))
    );
    count(&mut here, 1, 150, 2);
    share(&here, &mut there);
    assert_eq!(
        (down(&here, "ann"), down(&there, "ann")),
        (Some(157), Some(157))
    );
    // It begins at 0 at one, and what the other one still says of the time before does not count.
    assert!(there.reset("ann", 5000));
    share(&here, &mut there);
    assert_eq!(down(&there, "ann"), Some(0));
    share(&there, &mut here);
    share(&here, &mut there);
    assert_eq!(
        (down(&here, "ann"), down(&there, "ann")),
        (Some(0), Some(0))
    );
    count(&mut here, 1, 153, 2);
    share(&here, &mut there);
    assert_eq!(
        (down(&here, "ann"), down(&there, "ann")),
        (Some(3), Some(3))
    );
    // A file keeps what was learnt. Another month begins without it, and strangers are not kept.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("usage.json");
    there.write(&path).expect("written");
    assert_eq!(Usage::read(&path).expect("read"), there);
    let december = Moment { month: 12, ..on(1) };
    there.count(2, &reading(&[("ann", 8)]), &december);
    assert_eq!(down(&there, "ann"), Some(1));
    let mut stranger = here.shared();
    stranger[0].name = "bob".into();
    there.learn(stranger);
    assert_eq!(there.of("bob"), None);
}

/// A machine whose disk is new, or went back to an older file, must not give volumes back.
#[test]
fn what_a_machine_that_was_replaced_counted_is_kept() {
    let [mut here, mut there] = [Usage::default(), Usage::default()];
    let count = |one: &mut Usage, gate, bytes| one.count(gate, &reading(&[("ann", bytes)]), &on(1));
    let share = |from: &Usage, to: &mut Usage| to.learn(from.shared());
    let both = |here: &mut Usage, there: &mut Usage| {
        for _ in 0..2 {
            share(there, here);
            share(here, there);
        }
        (down(here, "ann"), down(there, "ann"))
    };
    count(&mut here, 1, 0);
    count(&mut there, 2, 0);
    count(&mut here, 1, 50);
    count(&mut there, 2, 1000);
    assert_eq!(both(&mut here, &mut there), (Some(1050), Some(1050)));
    // A reboot: the file is a minute old.
    let old = there.clone();
    count(&mut there, 2, 1010);
    assert_eq!(both(&mut here, &mut there), (Some(1060), Some(1060)));
    let mut there = old;
    count(&mut there, 3, 5);
    assert_eq!(both(&mut here, &mut there), (Some(1060), Some(1060)));
    // A new machine, and what passes it.
    let mut there = Usage::default();
    count(&mut there, 4, 0);
    assert_eq!(both(&mut here, &mut there), (Some(1060), Some(1060)));
    count(&mut there, 4, 300);
    assert_eq!(both(&mut here, &mut there), (Some(1360), Some(1360)));
    // A file keeps it. Then the other machine is replaced, too.
    let text = serde_json::to_string(&here).expect("text");
    let mut here: Usage = serde_json::from_str(&text).expect("volumes");
    assert_eq!(both(&mut here, &mut there), (Some(1360), Some(1360)));
    let mut here = Usage::default();
    count(&mut here, 5, 0);
    assert_eq!(both(&mut here, &mut there), (Some(1360), Some(1360)));
    // A month that begins at 0 by request begins without it, also where a new machine does not know of that yet.
    assert!(here.reset("ann", 5000));
    assert_eq!(both(&mut here, &mut there), (Some(0), Some(0)));
    count(&mut there, 4, 310);
    assert_eq!(both(&mut here, &mut there), (Some(10), Some(10)));
    let mut there = Usage::default();
    count(&mut there, 6, 0);
    assert_eq!(both(&mut here, &mut there), (Some(10), Some(10)));
    let december = Moment { month: 12, ..on(1) };
    here.count(5, &reading(&[("ann", 1)]), &december);
    there.count(6, &reading(&[("ann", 0)]), &december);
    assert_eq!(both(&mut here, &mut there), (Some(1), Some(1)));
}

#[test]
fn a_damaged_file_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("usage.json");
    for text in ["", "{", "[]", r#"{"gate":1,"subscribers":{"ann":{}}}"#] {
        fs::write(&path, text).expect("written");
        let error = Usage::read(&path).expect_err("damaged");
        assert_eq!(error.kind(), io::ErrorKind::Other, "{text}");
    }
}
