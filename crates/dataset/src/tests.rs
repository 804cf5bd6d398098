//! A dataset as its users meet it: what is in its folder after each step, and after a crash in between.

mod kept;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tidegate_table::Row;
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::Judgement;
use tidegate_trace::rows::SegmentRow;
use tidegate_trace::{Options, Sink, analyse};

use crate::staged::Places;
use crate::{Claim, Content, Dataset, Draft, Error, Given, Networks, Origin, Report};

const CAPTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz"
);

/// The rows of a capture, once with the times that it has.
fn rows() -> Vec<SegmentRow> {
    struct Rows(Vec<SegmentRow>);
    impl Sink for Rows {
        fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
            self.0.push(SegmentRow {
                file: "a".into(),
                capture_start: 0,
                transfer: *transfer,
                detector: "tidegate",
                judgement,
            });
        }
    }
    let mut rows = Rows(Vec::new());
    let capture = File::open(CAPTURE).expect("the capture");
    analyse(capture, Options::default(), &mut rows)
        .whole()
        .expect("read");
    rows.0
}

fn open(folder: &Path) -> Dataset {
    Dataset::open(folder, &BTreeMap::new()).expect("a dataset")
}

fn content(dataset: &Dataset, files: &[&[u8]]) -> Content {
    let files = files.iter().map(|bytes| ("name", *bytes));
    dataset.identify(files).expect("read")
}

/// A draft of a capture with this content, if it is new.
fn begin<'a>(dataset: &'a Dataset, files: &[&[u8]]) -> Option<Draft<'a>> {
    match dataset
        .claim(content(dataset, files))
        .expect("can be written")
    {
        Claim::New(draft) => Some(*draft),
        _ => None,
    }
}

/// Adds a capture with this content, whose rows begin at these times in seconds.
fn add(dataset: &Dataset, files: &[&[u8]], times: &[u64]) -> bool {
    let Some(mut draft) = begin(dataset, files) else {
        return false;
    };
    for &time in times {
        let mut row = rows().swap_remove(0);
        row.transfer.metrics.first_sent = time * 1_000_000_000;
        draft.add([row], &Networks::default(), 1.0).expect("added");
    }
    draft.commit(Report::default()).expect("committed");
    true
}

/// All files below a folder, as paths relative to it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(folder).expect("in it");
                found.insert(relative.to_str().expect("text").to_owned());
            }
        }
    }
    found
}

fn parquets(folder: &Path) -> Vec<PathBuf> {
    let segments = folder.join("segments");
    let files = files(&segments).into_iter();
    files.map(|file| segments.join(file)).collect()
}

/// The seconds at which the dataset's rows begin.
fn times(folder: &Path) -> Vec<i64> {
    let mut times = Vec::new();
    for path in parquets(folder) {
        let file = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
        for row in file.get_row_iter(None).expect("rows") {
            for (name, value) in row.expect("a row").into_columns() {
                if let (true, Field::Long(nanos)) = (name == "start_s", value) {
                    times.push(nanos / 1_000_000_000);
                }
            }
        }
    }
    times.sort_unstable();
    times
}

#[test]
fn rows_are_in_the_partition_of_their_hour() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    assert!(add(
        &dataset,
        &[b"one"],
        &[1_709_251_199, 1_709_251_200, 1_709_251_201]
    ));
    let id = content(&dataset, &[b"one"]).id();
    assert_eq!(
        files(&folder.path().join("segments")),
        BTreeSet::from([
            format!("date=2024-02-29/hour=23/{id}-0.parquet"),
            format!("date=2024-03-01/hour=00/{id}-1.parquet"),
        ])
    );
    assert!(files(&folder.path().join("staged")).is_empty());
}

#[test]
fn a_capture_is_added_once_whatever_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    assert!(add(&dataset, &[b"one"], &[7]));
    assert!(!add(&dataset, &[b"one"], &[7]));
    drop(dataset);
    // In the next process too.
    assert!(!add(&open(folder.path()), &[b"one"], &[7]));
    assert_eq!(times(folder.path()), [7]);
}

#[test]
fn two_threads_do_not_add_a_capture_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let first = begin(&dataset, &[b"one"]).expect("it is new");
    let again = dataset.claim(content(&dataset, &[b"one"]));
    let Ok(Claim::Drafted(name)) = again else {
        panic!("it is on its way")
    };
    assert!(dataset.is_drafted(&name));
    drop(first);
    assert!(!dataset.is_drafted(&name));
    assert!(begin(&dataset, &[b"one"]).is_some(), "it was given up");
    assert!(files(&folder.path().join("staged")).is_empty());
}

#[test]
fn a_capture_that_grew_replaces_its_earlier_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let long = vec![3; 5000];
    // It begins in the same way, and is another one.
    let mut other = long.clone();
    other[800] = 4;
    assert!(add(&dataset, &[&other], &[8]));
    for (length, rows) in [(100, &[1][..]), (1000, &[1, 2]), (5000, &[1, 2, 3_600])] {
        assert!(add(&dataset, &[&long[..length]], rows));
    }
    assert_eq!(times(folder.path()), [1, 2, 8, 3_600]);
    assert_eq!(dataset.captures(), 2);
}

/// A copy that was made while a capture was written is a beginning of it.
#[test]
fn a_shorter_copy_of_a_capture_adds_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let long: Vec<u8> = (0..5000).map(|i| (i % 251) as u8).collect();
    assert!(add(&dataset, &[&long, b"two"], &[1, 2]));
    for cut in [512, 700, 4999] {
        assert!(!add(&dataset, &[&long[..cut]], &[1]));
        let claim = dataset.claim(content(&dataset, &[&long[..cut]]));
        let Ok(Claim::Known(held)) = claim else {
            panic!("{cut}: it is known")
        };
        assert_eq!(held.longer.as_deref(), Some("name"));
    }
    assert!(!add(&dataset, &[&long[..900], b"two"], &[1]));
    // Another capture may begin in the same way.
    let mut other = long[..900].to_vec();
    other[700] ^= 1;
    assert!(add(&dataset, &[&other], &[3]));
    drop(dataset);
    assert!(!add(&open(folder.path()), &[&long[..4999]], &[1]));
    assert_eq!(times(folder.path()), [1, 2, 3]);
}

/// The same holds for copies that are analysed side by side.
#[test]
fn a_capture_and_its_copy_count_once_in_any_order() {
    for short_first in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        let dataset = open(folder.path());
        let long: Vec<u8> = (0..5000).map(|i| (i % 251) as u8).collect();
        let mut drafts = [&long[..], &long[..3000]].map(|bytes| {
            let mut draft = begin(&dataset, &[bytes]).expect("neither is there yet");
            let mut row = rows().swap_remove(0);
            row.transfer.metrics.first_sent = bytes.len() as u64 * 1_000_000_000;
            draft.add([row], &Networks::default(), 1.0).expect("added");
            draft
        });
        if short_first {
            drafts.reverse();
        }
        let held = drafts.map(|draft| draft.commit(Report::default()).expect("committed"));
        assert!(held[0].is_none());
        assert_eq!(held[1].is_some(), !short_first);
        assert_eq!(times(folder.path()), [5000]);
        assert_eq!(dataset.captures(), 1);
    }
}

#[test]
fn joined_files_replace_the_captures_that_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    assert!(add(&dataset, &[b"one"], &[1]));
    assert!(add(&dataset, &[b"two"], &[2]));
    assert!(add(&dataset, &[b"three"], &[3]));
    assert!(add(&dataset, &[b"one", b"two"], &[12]));
    assert_eq!(times(folder.path()), [3, 12]);
    assert!(
        !add(&dataset, &[b"two"], &[2]),
        "it is a part of another one"
    );
}

/// Every state in which a process may be killed leads to all rows or to none.
#[test]
fn a_crash_loses_and_doubles_nothing() {
    let whole = tempfile::tempdir().expect("a folder");
    let dataset = open(whole.path());
    let long = vec![3; 5000];
    assert!(add(&dataset, &[&long[..1000]], &[1, 3_600]));
    // The files of a second capture, which replaces the first, as they are before they are in their places.
    let mut draft = begin(&dataset, &[&long]).expect("it is new");
    for time in [1, 2, 3_600, 7_200] {
        let mut row = rows().swap_remove(0);
        row.transfer.metrics.first_sent = time * 1_000_000_000;
        draft.add([row], &Networks::default(), 1.0).expect("added");
    }
    let places = Places::new(whole.path());
    let staged = places.staged.join(content(&dataset, &[&long]).id());
    let before = [1, 3_600].to_vec();
    let after = [1, 2, 3_600, 7_200].to_vec();

    let crash = |change: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("dataset");
        copy(whole.path(), &root);
        change(&root);
        let reopened = open(&root);
        assert!(files(&root.join("staged")).is_empty());
        let found = times(&root);
        let known = begin(&reopened, &[&long]).is_none();
        (found, known)
    };
    assert_eq!(crash(&|_| {}), (before.clone(), false), "not committed");

    draft.commit(Report::default()).expect("committed");
    assert!(!staged.exists());
    drop(dataset);
    // All that it moved, moved back in turn: the steps before were not done yet.
    let id = staged
        .file_name()
        .expect("a name")
        .to_str()
        .expect("text")
        .to_owned();
    let placed: Vec<String> = files(whole.path())
        .into_iter()
        .filter(|name| name.contains(&id))
        .collect();
    assert_eq!(placed.len(), 4, "three hours and the entry");
    for undone in 0..=placed.len() {
        // The entry is the last that is moved, so it is the first that is moved back.
        let mut order = placed.clone();
        order.sort_by_key(|name| !name.ends_with(".json"));
        let state = crash(&|root: &Path| {
            let folder = root.join(format!("staged/{id}.committed"));
            fs::create_dir_all(&folder).expect("made");
            for name in &order[..undone] {
                let file = match name.strip_suffix(".parquet") {
                    Some(stem) => stem.rsplit('-').next().expect("a number"),
                    None => "entry.json",
                };
                fs::rename(root.join(name), folder.join(file)).expect("moved");
            }
        });
        assert_eq!(state, (after.clone(), true), "{undone} steps are missing");
    }
}

fn copy(from: &Path, to: &Path) {
    for name in files(from) {
        let target = to.join(&name);
        fs::create_dir_all(target.parent().expect("a folder")).expect("made");
        fs::copy(from.join(name), target).expect("copied");
    }
}

#[test]
fn a_dataset_has_one_writer_one_schema_and_one_analysis() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        |detector: &str| BTreeMap::from([("--detector".to_owned(), detector.to_owned())]);
    let dataset = Dataset::open(folder.path(), &settings("tidegate")).expect("a dataset");
    let again = Dataset::open(folder.path(), &settings("tidegate"));
    assert!(matches!(again.err(), Some(Error::Busy(_))));
    drop(dataset);
    let error = Dataset::open(folder.path(), &settings("pd"))
        .err()
        .expect("an error");
    assert!(
        error.to_string().contains(
            "analysed with --detector = tidegate, and this command says --detector = pd:"
        ),
        "{error}"
    );

    let about = folder.path().join("dataset.json");
    let text = fs::read_to_string(&about).expect("read");
    fs::write(&about, text.replace("\"schema\": 1", "\"schema\": 9")).expect("written");
    let error = Dataset::open(folder.path(), &settings("tidegate")).err();
    assert!(matches!(error, Some(Error::Version { found: 9, .. })));

    let other = tempfile::tempdir().expect("a folder");
    fs::write(other.path().join("notes.txt"), "mine").expect("written");
    let error = Dataset::open(other.path(), &settings("tidegate")).err();
    assert!(matches!(error, Some(Error::NotADataset(_))));
}

#[test]
fn times_that_are_spread_too_widely_end_one_capture() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let mut draft = begin(&dataset, &[b"one"]).expect("it is new");
    let row = rows().swap_remove(0);
    let spread = (0..40_000u64).map(|hour| {
        let mut row = row.clone();
        row.transfer.metrics.first_sent = hour * 3_600_000_000_000;
        row
    });
    let error = draft.add(spread, &Networks::default(), 1.0).err();
    assert!(matches!(error, Some(Error::Times(_))));
    drop(draft);
    assert!(add(&dataset, &[b"two"], &[2]));
}

/// Files say how they are sorted, and their row groups say between which addresses they are.
#[test]
fn files_have_a_version_and_statistics() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = open(folder.path());
    let mut draft = begin(&dataset, &[b"one"]).expect("it is new");
    draft
        .add(rows(), &Networks::default(), 0.25)
        .expect("added");
    draft.commit(Report::default()).expect("committed");
    let path = parquets(folder.path()).swap_remove(0);
    let file = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
    let notes = file
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .expect("notes");
    let version = notes
        .iter()
        .find(|note| note.key == "tidegate.schema")
        .expect("a version");
    assert_eq!(version.value.as_deref(), Some("1"));
    let group = file.metadata().row_group(0);
    let name = |i: usize| group.column(i).column_descr().name().to_owned();
    let sorted = group.sorting_columns().expect("sorted").iter();
    let sorted: Vec<_> = sorted
        .map(|column| name(column.column_idx as usize))
        .collect();
    assert_eq!(sorted, ["client_address", "start_s"]);
    let place = (0..group.num_columns())
        .find(|i| name(*i) == "client_address")
        .expect("there");
    let statistics = group.column(place).statistics().expect("statistics");
    let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1];
    assert_eq!(statistics.min_bytes_opt(), Some(&expected[..]));
}

/// Version 1 of the schema keeps the columns that it had. New ones may be added.
#[test]
fn the_schema_of_a_version_is_stable() {
    let mut now: Vec<String> = SegmentRow::columns()
        .iter()
        .map(|column| format!("{} {:?}", column.name, column.kind))
        .collect();
    now.extend(
        Origin::columns()
            .iter()
            .map(|column| format!("{} {:?}", column.name, column.kind)),
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schema-1.txt");
    let expected = fs::read_to_string(path).expect("the columns of version 1");
    for column in expected.lines() {
        assert!(
            now.iter().any(|now| now == column),
            "{column} is gone: a dataset with other columns needs another version"
        );
    }
    let names: BTreeSet<&str> = now
        .iter()
        .filter_map(|column| column.split(' ').next())
        .collect();
    assert_eq!(names.len(), now.len(), "no name comes twice");
}

fn table(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

#[test]
fn clients_have_networks() {
    let mut networks = Networks::default();
    networks.add(&table("asn.mmdb")).expect("a table");
    networks.add(&table("country.mmdb")).expect("a table");
    let find = |address: &str| networks.find(address.parse::<IpAddr>().expect("an address"));
    let known = find("10.0.0.4");
    assert_eq!(known.asn, Some(64_496));
    assert_eq!(known.organisation.as_deref(), Some("Example Access"));
    assert_eq!(known.country.as_deref(), Some("KE"));
    assert_eq!(known.continent.as_deref(), Some("AF"));
    assert_eq!(
        known.prefix.as_deref(),
        Some("10.0.0.0/16"),
        "the longer prefix"
    );
    assert_eq!(find("::ffff:10.0.0.4"), known);
    let six = find("2001:db8::1");
    assert_eq!(
        (six.asn, six.prefix.as_deref()),
        (Some(64_511), Some("2001:db8::/32"))
    );
    assert_eq!(six.country.as_deref(), Some("DE"), "as IPinfo writes it");
    assert_eq!(find("192.0.2.1"), crate::Network::default());

    let error = networks.add(Path::new(CAPTURE)).expect_err("not a table");
    assert!(
        error.contains("not a table of networks in MaxMind's format"),
        "{error}"
    );
}

/// A period of live traffic is added as a capture is, and a process that was killed in it leaves nothing.
#[test]
fn rows_of_no_file_are_whole_or_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |time: u64| {
        let mut row = rows().swap_remove(0);
        row.transfer.metrics.first_sent = time * 1_000_000_000;
        row
    };
    let networks = Networks::default();
    {
        let dataset = open(folder.path());
        for time in [7_200, 3_600] {
            // The same name by a mistake, or by a clock that was set back.
            let mut draft = dataset.live("web1-eth0, 1").expect("a draft");
            draft.add([row(time)], &networks, 0.01).expect("added");
            draft.commit(Report::default()).expect("committed");
        }
        let mut draft = dataset.live("web1-eth0, 2").expect("a draft");
        draft.add([row(1)], &networks, 0.01).expect("added");
        // As a kill leaves it.
        std::mem::forget(draft);
    }
    assert_eq!(times(folder.path()), [3_600, 7_200]);
    let dataset = open(folder.path());
    assert_eq!(dataset.captures(), 2);
    assert!(files(&folder.path().join("staged")).is_empty());
    // They are beside captures of files, and replace none.
    assert!(add(&dataset, &[b"one"], &[10]));
    assert_eq!(dataset.captures(), 3);
    assert_eq!(times(folder.path()), [10, 3_600, 7_200]);
}
