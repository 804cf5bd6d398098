use super::*;

fn at(weekday: u32, hour: u32, minute: u32) -> Moment {
    Moment {
        year: 2026,
        month: 11,
        day: 23 + weekday,
        weekday,
        minute: 60 * hour + minute,
    }
}

fn slot(days: u8, from: u32, to: u32) -> Slot {
    Slot {
        days,
        from: 60 * from,
        to: 60 * to,
        plan: "night".into(),
    }
}

#[test]
fn a_slot_covers_its_hours_on_its_days() {
    let (monday, sunday) = (1, 1 << 6);
    let day = slot(monday, 8, 17);
    for (at, covered) in [
        (at(0, 7, 59), false),
        (at(0, 8, 0), true),
        (at(0, 16, 59), true),
        (at(0, 17, 0), false),
        (at(1, 9, 0), false),
    ] {
        assert_eq!(day.covers(&at), covered, "{at:?}");
    }
    // Over midnight it begins on its day and ends on the next.
    let night = slot(sunday, 22, 6);
    for (at, covered) in [
        (at(6, 21, 59), false),
        (at(6, 22, 0), true),
        (at(0, 5, 59), true),
        (at(0, 6, 0), false),
        (at(6, 5, 0), false),
        (at(0, 23, 0), false),
    ] {
        assert_eq!(night.covers(&at), covered, "{at:?}");
    }
    let whole = slot(monday, 0, 0);
    assert!(whole.covers(&at(0, 0, 0)) && whole.covers(&at(0, 23, 59)));
    assert!(!whole.covers(&at(1, 0, 0)));
}

#[test]
fn a_month_begins_on_its_day() {
    let on = |year, month, day| Moment {
        year,
        month,
        day,
        ..at(0, 0, 0)
    };
    for (at, day, first) in [
        (on(2026, 11, 24), 1, "2026-11-01"),
        (on(2026, 11, 14), 15, "2026-10-15"),
        (on(2026, 11, 15), 15, "2026-11-15"),
        (on(2026, 1, 2), 3, "2025-12-03"),
        (on(2024, 2, 29), 28, "2024-02-28"),
    ] {
        assert_eq!(Period::at(&at, day).to_string(), first);
    }
}

#[test]
fn a_spent_volume_counts_before_the_time_of_day() {
    let terms = Terms {
        schedule: vec![slot(Slot::ALL_DAYS, 0, 6)],
        quota: Some(Quota {
            bytes: 1000,
            counts: Counts::Down,
            day: 1,
            plan: "slow".into(),
        }),
    };
    let turn = |at: Moment, down, up| {
        let turn = terms.turn(&at, PerDirection { down, up })?;
        Some((turn.plan, turn.why))
    };
    assert_eq!(turn(at(2, 7, 0), 999, 5000), None);
    assert_eq!(
        turn(at(2, 5, 0), 999, 0),
        Some(("night".into(), Why::Schedule))
    );
    assert_eq!(
        turn(at(2, 5, 0), 1000, 0),
        Some(("slow".into(), Why::Quota))
    );
    let both = Quota {
        counts: Counts::Both,
        ..terms.quota.clone().expect("a quota")
    };
    let most = PerDirection {
        down: u64::MAX,
        up: 1,
    };
    assert_eq!(both.counted(most), u64::MAX);
}
