//! Runs `tidegate detect` on every capture of `corpus/` and compares with the expected output.
//!
//! Where the output is meant to change, `UPDATE_EXPECT=1 cargo test --test corpus` writes it again:
//! read the difference before it goes in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// The folders of captures, each with the name of its one capture.
fn captures() -> Vec<(PathBuf, String)> {
    let mut found: Vec<_> = fs::read_dir(corpus())
        .expect("corpus/")
        .map(|entry| entry.expect("an entry of corpus/").path())
        .filter(|path| path.is_dir())
        .map(|folder| {
            let mut names: Vec<String> = fs::read_dir(&folder)
                .expect("a folder of corpus/")
                .map(|entry| entry.expect("a file").file_name().to_string_lossy().into())
                .filter(|name: &String| name.contains(".pcap"))
                .collect();
            assert_eq!(names.len(), 1, "one capture in {}", folder.display());
            (folder, names.remove(0))
        })
        .collect();
    found.sort();
    found
}

/// Run in the folder, so that the capture's name stands in the output without a path.
fn detect(folder: &Path, name: &str, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["detect", "--format", "csv", name])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("tidegate runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn gives_what_is_expected() {
    let captures = captures();
    assert!(captures.len() >= 3);
    for (folder, name) in captures {
        let found = detect(&folder, &name, &[]);
        let file = folder.join("expected.csv");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&file, &found).expect("expected.csv can be written");
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if found == expected {
            continue;
        }
        for (i, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
            let header = expected_header(&file);
            for (column, (a, b)) in found.split(',').zip(expected.split(',')).enumerate() {
                let what = header.get(column).map_or("?", String::as_str);
                assert_eq!(a, b, "{name}, line {}, {what}: found, expected", i + 1);
            }
        }
        panic!("{name}: another number of lines or columns than in expected.csv");
    }
}

fn expected_header(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let header = text.lines().next().unwrap_or_default();
    header.split(',').map(String::from).collect()
}

/// The truth that each folder's ORIGIN.md states, whatever the details, and whichever detector judges.
#[test]
fn tells_a_policer_from_a_shaper() {
    for (folder, policed, detector) in [
        ("policed-1500kbit", 5, "tidegate"),
        ("shaped-1500kbit", 0, "tidegate"),
        ("policed-1500kbit", 5, "pd"),
        ("shaped-1500kbit", 0, "pd"),
    ] {
        let (path, name) = captures()
            .into_iter()
            .find(|(path, _)| path.ends_with(folder))
            .expect("the capture");
        let text = detect(&path, &name, &["--detector", detector]);
        let column = |wanted: &str| {
            text.lines()
                .next()
                .and_then(|header| header.split(',').position(|name| name == wanted))
                .unwrap_or_else(|| panic!("no column {wanted}"))
        };
        let (verdict, rate) = (column("policed"), column("rate_bps"));
        let mut found = 0;
        for row in text.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            if fields[verdict] == "true" {
                found += 1;
                // Payload, so 1448 of the 1518 bytes that the router counts.
                let bps: f64 = fields[rate].parse().expect("a rate");
                let there = bps * 1518.0 / 1448.0;
                assert!(
                    (there / 1.5e6 - 1.0).abs() < 0.02,
                    "{folder}: {there} bit/s"
                );
            }
        }
        assert_eq!(found, policed, "{folder}");
    }
}

/// Compression and format make no difference.
#[test]
fn formats_agree() {
    let (folder, name) = captures()
        .into_iter()
        .find(|(path, _)| path.ends_with("pcapng-zstd"))
        .expect("the capture");
    let packed = fs::read(folder.join(&name)).expect("the capture");
    let scratch = tempfile::tempdir().expect("a folder for a moment");
    let copy = scratch.path().join("renamed");
    fs::write(&copy, packed).expect("a copy");
    // The content says what it is, not the name.
    let same = detect(scratch.path(), "renamed", &[]).replace("renamed", &name);
    assert_eq!(same, detect(&folder, &name, &[]));
}
