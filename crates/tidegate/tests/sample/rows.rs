//! `--rows`: a dataset instead of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use crate::program::{run, tidegate};
use crate::support::{Sampler, pair, requests, transfers};

const POLICED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz"
);

/// Rows of a dataset: those of all flows that are over are there, each once, and no flow is cut where a period ends.
fn rows(dataset: &Path) -> Vec<(String, i64, i64, bool, String)> {
    let mut rows = Vec::new();
    for path in parquets(&dataset.join("segments")) {
        let file = SerializedFileReader::new(File::open(&path).expect("a file"));
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for row in file.get_row_iter(None).expect("rows") {
            let columns: BTreeMap<String, Field> =
                row.expect("a row").into_columns().into_iter().collect();
            let integer = |name: &str| columns[name].to_string().parse().expect("a number");
            let text = |name: &str| match &columns[name] {
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            };
            rows.push((
                text("file"),
                integer("flow"),
                integer("segment"),
                text("from_client") == "true",
                text("sampled_fraction"),
            ));
        }
    }
    rows.sort();
    rows
}

fn parquets(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(parquets(&path)),
            path => found.push(path),
        }
    }
    found
}

#[test]
fn rows_are_added_at_once_and_no_flow_is_cut_between_periods() {
    let test = "rows_are_added_at_once_and_no_flow_is_cut_between_periods";
    let Some((server, client)) = pair(test) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path().join("dataset");
    let mut command = tidegate(&["sample", "inside", "--fraction", "100%", "--every", "1s"]);
    command.arg("--rows").arg(&dataset).stderr(Stdio::piped());
    let mut sampler = Sampler::run(&server, &mut command);
    // A connection that lasts for several periods, beside others.
    let address: SocketAddr = "192.0.2.1:9090".parse().expect("an address");
    let bound = server.enter(|| TcpListener::bind(address));
    let listener = bound.expect("the namespace").expect("bound");
    let fetch = || {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(b"x").expect("sent");
        let mut all = Vec::new();
        assert_eq!(stream.read_to_end(&mut all).expect("received"), 300_000);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.read_exact(&mut [0; 1]).expect("a request");
            for _ in 0..30 {
                stream.write_all(&[7; 10_000]).expect("sent");
                thread::sleep(Duration::from_millis(100));
            }
        });
        scope.spawn(|| client.enter(fetch).expect("the namespace"));
        transfers(&server, &client, 20, 1000);
    });
    // A flow's end is certain after ten seconds, also if no other packet comes.
    sampler.until("and the kernel dropped 0");
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    let found = rows(&dataset);
    // A request and a response of each connection.
    assert_eq!(found.len(), 2 * 21, "{found:?}\n{said}");
    let unique: BTreeSet<_> = found.iter().map(|row| (row.1, row.2, row.3)).collect();
    assert_eq!(unique.len(), found.len());
    assert!(
        found
            .iter()
            .all(|row| row.4 == "1.0" && row.0 == found[0].0)
    );
    assert_eq!(
        fs::read_dir(dataset.join("staged"))
            .expect("a folder")
            .count(),
        0
    );

    // Who spoke with whom is not for everybody.
    let parquets = parquets(&dataset.join("segments"));
    for path in [&dataset].into_iter().chain(&parquets) {
        let mode = fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode & 0o7, 0, "{}", path.display());
    }
    // The same settings as detect's, so both may add to a dataset.
    let (code, _, error) = run(&[
        "detect",
        "--dataset",
        dataset.to_str().expect("text"),
        POLICED,
    ]);
    assert_eq!((code, error), (0, String::new()));
    assert!(rows(&dataset).len() > found.len());
}

/// After each kill, the dataset has whole periods alone.
#[test]
fn a_sampler_of_rows_that_is_killed_loses_its_last_period_alone() {
    let test = "a_sampler_of_rows_that_is_killed_loses_its_last_period_alone";
    let Some((server, client)) = pair(test) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path().join("dataset");
    let start = || {
        let mut command = tidegate(&["sample", "inside", "--fraction", "1", "--every", "100ms"]);
        command.arg("--rows").arg(&dataset).stderr(Stdio::piped());
        Sampler::run(&server, &mut command)
    };
    let mut before = BTreeSet::new();
    for round in 0..12 {
        let mut sampler = start();
        thread::scope(|scope| {
            scope.spawn(|| requests(&server, &client, 300));
            // From a part of a period to several of them.
            thread::sleep(Duration::from_millis(40 * round));
            sampler.signal("KILL");
        });
        sampler.end("KILL");
        let found = rows(&dataset);
        let unique: BTreeSet<_> = found.iter().cloned().collect();
        assert_eq!(unique.len(), found.len());
        assert!(before.is_subset(&unique));
        before = unique;
    }
    assert!(!before.is_empty());
    let sampler = start();
    transfers(&server, &client, 5, 1000);
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    let found = rows(&dataset);
    assert_eq!(found.len(), before.len() + 10, "{said}");
    assert_eq!(
        fs::read_dir(dataset.join("staged"))
            .expect("a folder")
            .count(),
        0
    );
}
