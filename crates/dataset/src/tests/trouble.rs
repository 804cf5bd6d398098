//! What is unusual about captures, and what goes wrong in the folder.

use std::os::unix::fs::symlink;

use super::*;

/// From the commit on, rows are not lost: they appear when the obstacle is gone.
#[test]
fn a_committed_capture_is_placed_later_if_it_cannot_be_now() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let blocked = folder.path().join("segments/date=1970-01-01");
    fs::write(&blocked, "in the way").expect("written");
    let long = vec![3; 5000];
    for (length, time) in [(1000, 1), (5000, 2)] {
        let mut draft = begin(&dataset, &[&long[..length]]).expect("it is new");
        let mut row = rows().swap_remove(0);
        row.transfer.metrics.first_sent = time * 1_000_000_000;
        draft.add([row], &Networks::default(), 1.0).expect("added");
        let error = draft.commit(Report::default()).expect_err("an error");
        assert!(matches!(error, Error::Unplaced(_)), "{error}");
        assert!(!add(&dataset, &[&long[..length]], &[1]), "it is known");
    }
    assert!(matches!(dataset.place(), Err(Error::Unplaced(_))));
    fs::remove_file(&blocked).expect("removed");
    // The next commit moves them too, in their order: the second one replaces the first.
    assert!(add(&dataset, &[b"one"], &[7]));
    assert_eq!(times(folder.path()), [2, 7]);
    assert!(files(&folder.path().join("staged")).is_empty());
    dataset.place().expect("nothing is left");
    // So does the next process.
    fs::remove_dir_all(&blocked).expect("removed");
    fs::write(&blocked, "in the way").expect("written");
    for length in [1000, 2000, 3000, 4000, 5000] {
        let mut draft = begin(&dataset, &[&vec![8; length]]).expect("it is new");
        let mut row = rows().swap_remove(0);
        row.transfer.metrics.first_sent = length as u64 * 1_000_000_000;
        draft.add([row], &Networks::default(), 1.0).expect("added");
        draft.commit(Report::default()).expect_err("an error");
    }
    drop(dataset);
    fs::remove_file(&blocked).expect("removed");
    drop(open(folder.path()));
    assert_eq!(times(folder.path()), [5000]);
}

/// Each row would count twice that comes of a piece of both.
#[test]
fn captures_that_have_pieces_in_common_are_not_both_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let piece = |byte: u8| vec![byte; 2000];
    let pieces: Vec<Vec<u8>> = (0..6).map(piece).collect();
    let some = |range: std::ops::Range<usize>| -> Vec<&[u8]> {
        pieces[range].iter().map(|piece| &piece[..]).collect()
    };
    assert!(add(&dataset, &some(0..4), &[1]));
    let overlaps = |files: &[&[u8]]| {
        let claim = dataset.claim(content(&dataset, files));
        matches!(claim, Ok(Claim::Overlaps(overlap)) if overlap.other.len() == 4)
    };
    assert!(overlaps(&some(3..6)));
    assert!(overlaps(&[&pieces[3][..1500], &pieces[4]]), "a beginning");
    let grown = [&pieces[3][..], b"more"].concat();
    assert!(overlaps(&[&grown, &pieces[4]]), "it has grown");
    let mut other = pieces[3].clone();
    other[1990] = 9;
    other.extend(b"more");
    assert!(!overlaps(&[&other]), "only its beginning is like it");
    // All together are the way out.
    assert!(add(&dataset, &some(0..6), &[2]));
    assert_eq!(times(folder.path()), [2]);
    // Pieces without packets are alike everywhere.
    assert!(add(&dataset, &[b"header", &[7; 2000]], &[3]));
    assert!(add(&dataset, &[b"header", &[8; 2000]], &[4]));
}

/// Else it would come and go with each run.
#[test]
fn a_capture_without_packets_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let whole = [&b"header"[..], &[1; 2000]].concat();
    assert!(add(&dataset, &[b"header"], &[]));
    assert!(add(&dataset, &[&whole], &[1]));
    assert!(!add(&dataset, &[b"header"], &[]));
    assert_eq!(dataset.captures(), 2);
}

#[test]
fn what_the_user_said_of_a_capture_is_remembered() {
    let folder = tempfile::tempdir().expect("a folder");
    let given = Given {
        sampled: Some(0.01),
        networks: true,
    };
    let report = Report {
        given: Some(given.clone()),
        ..Report::default()
    };
    let draft_of = open(folder.path());
    let draft = begin(&draft_of, &[b"one"]).expect("it is new");
    draft.commit(report).expect("committed");
    assert!(add(&draft_of, &[b"two"], &[1]));
    drop(draft_of);
    let dataset = open(folder.path());
    for (bytes, expected) in [(b"one", Some(given)), (b"two", None)] {
        let claim = dataset.claim(content(&dataset, &[bytes]));
        let Ok(Claim::Known(held)) = claim else {
            panic!("it is known")
        };
        assert_eq!(held.given, expected);
    }
}

/// Earlier programs did not record it.
#[test]
fn a_setting_that_was_not_recorded_had_its_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |flows: &str| {
        let settings = BTreeMap::from([("--max-flows".to_owned(), flows.to_owned())]);
        Dataset::open(folder.path(), &settings).map(drop)
    };
    drop(super::open(folder.path()));
    let error = open("8").expect_err("other settings").to_string();
    let both = "with --max-flows = 500000, and this command says --max-flows = 8";
    assert!(error.contains(both), "{error}");
    open("500000").expect("the default");
}

#[test]
fn a_lock_that_is_a_link_empties_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let precious = folder.path().join("precious");
    fs::write(&precious, "text").expect("written");
    let root = folder.path().join("dataset");
    fs::create_dir(&root).expect("a folder");
    symlink(&precious, root.join("lock")).expect("linked");
    let error = Dataset::open(&root, &BTreeMap::new()).err();
    assert!(matches!(error, Some(Error::Io { .. })), "{error:?}");
    assert_eq!(fs::read_to_string(&precious).expect("read"), "text");
}

/// The advice works: without the record and its files, the capture is added again.
#[test]
fn a_damaged_record_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    assert!(add(&dataset, &[b"one"], &[1]));
    let id = content(&dataset, &[b"one"]).id();
    drop(dataset);
    let record = folder.path().join(format!("captures/{id}.json"));
    fs::write(&record, "{").expect("written");
    let error = Dataset::open(folder.path(), &BTreeMap::new()).err();
    let error = error.expect("an error").to_string();
    let advice =
        format!("remove it and the files segments/*/*/{id}-*.parquet, then add the capture again");
    let name = record.display().to_string();
    assert!(
        error.starts_with(&name) && error.contains(&advice),
        "{error}"
    );
    fs::remove_file(&record).expect("removed");
    for file in parquets(folder.path()) {
        fs::remove_file(file).expect("removed");
    }
    assert!(add(&open(folder.path()), &[b"one"], &[1]));
    assert_eq!(times(folder.path()), [1]);
}

/// Else the dataset would count as complete, and lack rows for good.
#[test]
fn a_capture_whose_rows_were_removed_is_added_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let hours = [1, 3601];
    let long = vec![3; 5000];
    assert!(add(&open(folder.path()), &[&long], &hours));
    assert!(add(&open(folder.path()), &[b"other"], &[7]));
    let removed = folder.path().join("segments/date=1970-01-01/hour=01");
    fs::remove_dir_all(&removed).expect("removed");
    // A beginning has not all of its rows.
    assert!(!add(&open(folder.path()), &[&long[..4900]], &[1]));
    // A process that ends after the commit leaves the rest to the next one.
    fs::write(&removed, "in the way").expect("written");
    let dataset = open(folder.path());
    let mut draft = begin(&dataset, &[&long]).expect("it is new");
    for time in hours {
        let mut row = rows().swap_remove(0);
        row.transfer.metrics.first_sent = time * 1_000_000_000;
        draft.add([row], &Networks::default(), 1.0).expect("added");
    }
    let error = draft.commit(Report::default()).expect_err("an error");
    assert!(matches!(error, Error::Unplaced(_)), "{error}");
    drop(dataset);
    fs::remove_file(&removed).expect("removed");
    let dataset = open(folder.path());
    assert!(!add(&dataset, &[&long], &hours), "it is known");
    assert_eq!(times(folder.path()), [1, 7, 3601]);
    assert!(files(&folder.path().join("staged")).is_empty());
    assert_eq!(dataset.captures(), 2);
}

/// The advice works, and keeps all rows.
#[test]
fn a_damaged_description_says_what_to_do() {
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    assert!(add(&open(folder.path()), &[b"one"], &[1]));
    let about = folder.path().join("dataset.json");
    fs::write(&about, "").expect("written");
    let error = Dataset::open(folder.path(), &BTreeMap::new()).err();
    let error = error.expect("an error").to_string();
    let advice = "put the dataset.json of a dataset with the same settings in its place";
    assert!(error.contains(advice), "{error}");
    drop(open(other.path()));
    fs::copy(other.path().join("dataset.json"), &about).expect("copied");
    assert_eq!(open(folder.path()).captures(), 1);
}
