//! Rows of live traffic within a budget.

use std::fs;
use std::path::Path;

use super::{add, files, open, rows, times};
use crate::{Dataset, Networks, Report};

/// Adds a period with a row of this time in seconds.
fn add_live(dataset: &Dataset, time: u64) {
    let mut row = rows().swap_remove(0);
    row.transfer.metrics.first_sent = time * 1_000_000_000;
    let draft = dataset.live(&format!("web1-eth0, period {time}"));
    let mut draft = draft.expect("a draft");
    let added = draft.add([row], &Networks::default(), 0.01);
    added.expect("added");
    draft.commit(Report::default()).expect("committed");
}

/// What all files in a folder take.
fn bytes(folder: &Path) -> u64 {
    let all = fs::read_dir(folder).expect("a folder");
    all.map(|entry| entry.expect("an entry").path())
        .map(|path| match path.is_dir() {
            true => bytes(&path),
            false => fs::metadata(&path).expect("there").len(),
        })
        .sum()
}

#[test]
fn the_oldest_rows_of_live_traffic_make_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    assert!(add(&dataset, &[b"a capture"], &[1]));
    let taken = || bytes(&folder.path().join("segments")) + bytes(&folder.path().join("captures"));
    let of_files = taken();
    // Two in an hour, the next day, and by a clock that was set back.
    for time in [7_200, 7_300, 100_000, 3_600] {
        add_live(&dataset, time);
    }
    let live = taken() - of_files;
    assert_eq!(dataset.keep(live).expect("kept"), 0);
    assert_eq!(times(folder.path()), [1, 3_600, 7_200, 7_300, 100_000]);
    assert_eq!(dataset.keep(live - 1).expect("kept"), 1);
    assert_eq!(times(folder.path()), [1, 7_200, 7_300, 100_000]);
    assert_eq!(dataset.keep(live / 2 + 100).expect("kept"), 1);
    assert_eq!(times(folder.path()), [1, 7_300, 100_000]);
    assert!(taken() - of_files <= live / 2 + 100);
    // The latest rows stay, and those of captures.
    assert_eq!(dataset.keep(0).expect("kept"), 1);
    assert_eq!(times(folder.path()), [1, 100_000]);
    assert_eq!(dataset.keep(0).expect("kept"), 0);
    assert_eq!(dataset.captures(), 2);
    let days = fs::read_dir(folder.path().join("segments")).expect("a folder");
    assert_eq!(days.count(), 2, "no empty folders are left");
    drop(dataset);
    let dataset = open(folder.path());
    assert_eq!(dataset.captures(), 2);
    add_live(&dataset, 200_000);
    assert_eq!(dataset.keep(0).expect("kept"), 1);
    assert_eq!(times(folder.path()), [1, 200_000]);
}

#[test]
fn a_crash_while_rows_are_removed_leaves_none_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    add_live(&dataset, 7_200);
    drop(dataset);
    let captures = folder.path().join("captures");
    let record = files(&captures).pop_first().expect("a record");
    let record = captures.join(record);
    let name = record.file_stem().expect("a name");
    let aside = folder.path().join("staged").join(name);
    fs::rename(&record, aside.with_extension("removed")).expect("renamed");
    assert_eq!(times(folder.path()), [7_200]);
    let dataset = open(folder.path());
    assert_eq!(dataset.captures(), 0);
    assert!(times(folder.path()).is_empty());
    assert!(files(&folder.path().join("staged")).is_empty());
}
