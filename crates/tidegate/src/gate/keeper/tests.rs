use std::fs;

use super::*;
use crate::gate::testing::Fake;

fn at(day: u32) -> Moment {
    Moment {
        year: 2026,
        month: 11,
        day,
        weekday: 0,
        minute: 0,
    }
}

/// A gate that is read once a second at most, which has counted these bytes for its first subscriber.
fn gate(bytes: fn(usize) -> u64) -> SharedGate {
    let mut fake = Fake::new(2);
    fake.bytes = bytes;
    SharedGate::new(Box::new(fake))
}

#[test]
fn volumes_are_kept_told_and_begun_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("usage.json");
    let keeper = Keeper::open(Some(&file)).expect("open");
    keeper.tick_at(&gate(|_| 0), &at(3));
    keeper.tick_at(&gate(|index| 1_000_000 * (index as u64 + 1)), &at(3));
    // The second one used up its volume, which is written at once.
    let keeper = Keeper::open(Some(&file)).expect("open");
    let gate = gate(|index| 1_000_000 * (index as u64 + 1));
    keeper.tick_at(&gate, &at(4));
    let csv = keeper.csv(&gate.reading().expect("a reading"));
    assert_eq!(
        csv,
        "name,plan,month,down_bytes,up_bytes,quota_bytes,turn\n\
         s000000,gold,2026-11-01,1000000,0,,\n\
         s000001,basic,2026-11-01,2000000,0,,quota\n"
    );
    keeper
        .reset(&gate, &Events::new(None), "s000001")
        .expect("begun again");
    let csv = keeper.csv(&gate.reading().expect("a reading"));
    assert!(
        csv.contains("s000001,basic,20") && csv.contains(",0,0,,"),
        "{csv}"
    );
    let error = keeper
        .reset(&gate, &Events::new(None), "nobody")
        .expect_err("nobody");
    assert_eq!(error.to_string(), "there is no subscriber `nobody`");
}

#[test]
fn a_damaged_file_is_moved_aside_and_no_folder_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("usage.json");
    fs::write(&file, "{").expect("written");
    Keeper::open(Some(&file)).expect("open");
    let aside = fs::read_to_string(folder.path().join("usage.damaged"));
    assert_eq!(aside.expect("there"), "{");
    let error = Keeper::open(Some(&folder.path().join("no/usage.json")))
        .err()
        .expect("no folder");
    assert!(
        error.to_string().starts_with("cannot write the volumes"),
        "{error}"
    );
    // Nothing is counted without a file.
    let keeper = Keeper::open(None).expect("open");
    let error = keeper
        .reset(&gate(|_| 0), &Events::new(None), "s000000")
        .expect_err("not counted");
    assert!(error.to_string().contains("add [usage]"), "{error}");
}

/// The daemon looks at the time only every few seconds, so a plan may be due to change when a volume begins again.
#[test]
fn a_plan_that_changes_while_a_volume_begins_again_is_in_the_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let keeper = Keeper::open(Some(&folder.path().join("usage.json"))).expect("open");
    let events = Events::new(Some(&folder.path().join("events")));
    keeper.tick(&gate(|_| 0));
    let gate = gate(|index| 1_000_000 * (index as u64 + 1));
    keeper
        .reset(&gate, &events, "s000000")
        .expect("begun again");
    let told = events.latest(10, Some("s000001")).expect("readable");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["event"], &told[0]["plan"]),
        (&"turn".into(), &"slow".into())
    );
}
