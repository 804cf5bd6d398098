//! Periods of live traffic in a dataset.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};

use clap::Parser;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tidegate_trace::read::Capture;

use super::*;

const SECOND: Nanos = 1_000_000_000;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    sample: Sample,
}

fn work_in(rows: &Path) -> Work {
    work_with(rows, "")
}

fn work_with(rows: &Path, options: &str) -> Work {
    let line = ["sample", "eth0", "--every", "1h"];
    let line = line.into_iter().chain(options.split_whitespace());
    let line = line.chain(["--rows"]).map(OsString::from);
    let Line { sample } = Line::parse_from(line.chain([rows.into()]));
    let sampler = crate::sample::sampler(&sample).unwrap();
    work(&sample, rows, &sampler, true, &Arc::default()).unwrap()
}

/// Takes the frames of a capture. Returns when the last one came.
fn take(live: &mut Live<'_>) -> Nanos {
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz"
    );
    let mut capture = Capture::new(File::open(capture).unwrap()).unwrap();
    let mut last = 0;
    while let Some(frame) = capture.frame().unwrap() {
        last = frame.at;
        live.frame(&frame).unwrap();
    }
    last
}

/// Its rows are committed: they are moved when the obstacle is gone.
#[test]
fn a_period_that_cannot_be_placed_is_not_lost() {
    let root = tempfile::tempdir().unwrap();
    let rows = root.path().join("dataset");
    let work = work_in(&rows);
    let segments = rows.join("segments");
    fs::remove_dir(&segments).unwrap();
    fs::write(&segments, "in the way").unwrap();
    let mut live = work.live();
    let last = take(&mut live);
    live.time(last + 3_600 * SECOND).unwrap();
    assert!(live.counters.rows.load(Ordering::Relaxed) > 0);
    assert!(matches!(live.dataset.place(), Err(Error::Unplaced(_))));
    fs::remove_file(&segments).unwrap();
    assert_eq!(live.end().unwrap(), 0);
    let left = fs::read_dir(rows.join("staged")).unwrap().count();
    assert_eq!((left, segments.is_dir()), (0, true));
}

#[test]
fn a_period_that_a_full_disk_does_not_take_is_counted() {
    let root = tempfile::tempdir().unwrap();
    let work = work_in(&root.path().join("dataset"));
    let mut live = work.live();
    let last = take(&mut live);
    let lost = || work.counters.lost_periods.load(Ordering::Relaxed);
    live.segments.error = Some(Error::Io {
        path: root.path().to_owned(),
        source: ErrorKind::StorageFull.into(),
    });
    live.time(last + 3_600 * SECOND).unwrap();
    assert_eq!((lost(), live.end().unwrap()), (1, 1));
    let counts = [&work.counters.rows, &work.counters.files];
    assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [0, 0]);
}

/// Of each verdict, what packets it rests on.
fn bases(rows: &Path) -> BTreeSet<String> {
    let mut folders = vec![rows.join("segments")];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|at| at.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
            for row in file.get_row_iter(None).unwrap() {
                let mut columns = row.unwrap().into_columns().into_iter();
                let basis = columns.find(|(name, _)| name == "verdict_basis");
                let Field::Str(basis) = basis.unwrap().1 else {
                    panic!("no text");
                };
                found.insert(basis);
            }
        }
    }
    found
}

/// As for the same packets in files, whose headers say it.
#[test]
fn rows_of_cut_addresses_are_not_judged_as_those_of_one_client() {
    let root = tempfile::tempdir().unwrap();
    for (options, expected) in [
        ("", "client"),
        ("--addresses prefix:24,48", "connection"),
        (
            "--addresses prefix:24,48 --by client --client-prefix 24,48",
            "client",
        ),
    ] {
        let rows = root.path().join(format!("rows{options}"));
        let work = work_with(&rows, options);
        let mut live = work.live();
        take(&mut live);
        live.end().unwrap();
        let mut found = bases(&rows);
        // Transfers without losses are judged alone.
        found.remove("segment");
        assert_eq!(found, [expected.to_owned()].into(), "{options}");
    }
}

#[test]
fn a_clock_that_is_set_back_ends_the_period() {
    let root = tempfile::tempdir().unwrap();
    let work = work_in(&root.path().join("dataset"));
    let mut live = work.live();
    let frame = |live: &mut Live<'_>, seconds: Nanos| {
        let frame = Frame {
            at: seconds * SECOND,
            link: LinkType::ETHERNET,
            data: &[],
            wire_len: 0,
            outbound: None,
        };
        live.frame(&frame).unwrap();
        live.number
    };
    assert_eq!(frame(&mut live, 100_000), 1);
    // Packets of several processors are a little out of order.
    assert_eq!(frame(&mut live, 99_991), 1);
    assert_eq!(frame(&mut live, 99_000), 2);
    assert_eq!(frame(&mut live, 100_800), 3, "a multiple of --every");
    // Without packets.
    live.time(95_000 * SECOND).unwrap();
    assert_eq!(live.number, 4);
    live.time(94_995 * SECOND).unwrap();
    assert_eq!(live.number, 4);
    assert_eq!(frame(&mut live, 97_200), 5);
}

/// A bounded dataset has room for what comes.
#[test]
fn the_rows_of_the_oldest_periods_make_room() {
    let root = tempfile::tempdir().unwrap();
    for (options, periods, removed) in [("", 3, 0), ("--keep 1kB", 1, 2)] {
        let rows = root.path().join(format!("rows{options}"));
        let work = work_with(&rows, options);
        let mut live = work.live();
        for period in 0..3 {
            let last = take(&mut live);
            live.time(last + 3_600 * SECOND).unwrap();
            assert_eq!(work.counters.files.load(Ordering::Relaxed), period + 1);
        }
        assert_eq!(live.end().unwrap(), 0);
        assert_eq!(work.dataset.captures(), periods);
        assert_eq!(work.counters.removed.load(Ordering::Relaxed), removed);
    }
}
