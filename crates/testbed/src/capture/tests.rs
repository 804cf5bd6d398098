#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tidegate_lab::experiment::{ExperimentError, Settings, run};
use tidegate_lab::scenario::Scenario;

use super::*;

const SCENARIO: &str = r#"
    duration = "2s"
    [[element]]
    name = "server"
    kind = "tap"
    [[element]]
    name = "client"
    kind = "tap"
    [[flow]]
    name = "download"
    rtt = "20ms"
    path = ["server", "client"]
"#;

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Runs the scenario; `stop` ends it as soon as it begins.
fn captured(folder: &Path, stop: bool) -> Result<(), ExperimentError> {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let (stop, progress) = (AtomicBool::new(stop), AtomicU64::new(0));
    let folder = CaptureFolder::new(folder);
    let settings = Settings {
        jobs: 1,
        captures: Some(&folder),
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    run(&scenario, settings, |_| Ok(()))
}

#[test]
fn captures_are_complete_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let capture = CaptureFolder::new(path).create("server.pcap").unwrap();
    // Where the file system has nameless files, nothing would stay if this process were killed.
    assert!(files(path) <= 1 && !path.join("server.pcap").exists());
    drop(capture);
    assert_eq!(files(path), 0);
    captured(path, true).unwrap();
    assert_eq!(files(path), 0);

    captured(path, false).unwrap();
    assert_eq!(files(path), 2);
    let bytes = || fs::read(path.join("server.pcap")).unwrap();
    let first = bytes();
    captured(path, false).unwrap();
    assert_eq!(first, bytes(), "byte for byte");
    assert_eq!(files(path), 2);
}

/// As two shells with the same folder do.
#[test]
fn captures_of_the_same_name_do_not_destroy_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let create = || CaptureFolder::new(path).create("server.pcap").unwrap();
    let (mut first, mut second, third) = (create(), create(), create());
    first.write_all(b"the first").unwrap();
    second.write_all(b"2").unwrap();
    first.finish().unwrap();
    let text = || fs::read_to_string(path.join("server.pcap")).unwrap();
    assert_eq!(text(), "the first");
    drop(third);
    second.finish().unwrap();
    assert_eq!(text(), "2");
    assert_eq!(files(path), 1);
}

#[test]
fn what_cannot_be_written_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let error = captured(&folder.path().join("no/such/folder"), false).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("cannot write the capture "), "{error}");
    assert!(error.contains("/no/such/folder/server.pcap: "), "{error}");
}

#[test]
fn there_are_as_many_files_as_taps() {
    let folder = tempfile::tempdir().unwrap();
    let taps = [ElementKind::Tap { snaplen: 96 }];
    for count in [0, 2] {
        let names = ["a.pcap", "b.pcap"].iter().take(count);
        let names: Vec<_> = names.map(|name| folder.path().join(name)).collect();
        let error = Recording::new(taps.iter(), &names, LinkType::RAW).unwrap_err();
        assert!(matches!(error, TestbedError::Unsupported(_)), "{error}");
    }
}

/// More than one piece, of two taps that write the same file.
#[test]
fn recordings_hold_every_packet_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("both.pcap");
    let taps = [96, 40].map(|snaplen| ElementKind::Tap { snaplen });
    let names = [file.clone(), file.clone()];
    let mut recording = Recording::new(taps.iter(), &names, LinkType::RAW).unwrap();
    let packets = 3_000;
    for number in 0..packets {
        recording.write(number % 2, number as Nanos, &[number as u8; 1_500]);
    }
    assert!(!file.exists(), "it is not complete yet");
    recording.finish().unwrap();
    let bytes = fs::read(&file).unwrap();
    let mut at = 24;
    for number in 0..packets {
        let word = |place: usize| u32::from_le_bytes(bytes[place..place + 4].try_into().unwrap());
        let kept = [96, 40][number % 2];
        let head = [0, 4, 8, 12].map(|place| word(at + place));
        assert_eq!(head, [0, number as u32, kept, 1_500]);
        assert_eq!(bytes[at + 16], number as u8);
        at += 16 + kept as usize;
    }
    assert_eq!(at, bytes.len());
}

/// The header of a packet, and its bytes.
fn record(kept: u32) -> [Vec<u8>; 2] {
    let head = [0, 0, kept, 1_500].map(u32::to_le_bytes).concat();
    [head, vec![7; kept as usize]]
}

/// As on a full disk. One packet begins in the second piece and ends in the fourth.
#[test]
fn a_capture_that_cannot_be_written_to_its_end_has_its_whole_packets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap");
    let full = || Err(io::Error::from_raw_os_error(28));
    let ([first, one], [second, two]) = (record(40), record(100));
    let pieces = [
        [vec![1; 24], first, one].concat(),
        [second, two[..10].to_vec()].concat(),
        two[10..30].to_vec(),
        two[30..].to_vec(),
    ];
    for (count, length) in [(1, 80), (2, 80), (3, 80), (4, 196)] {
        fs::write(&file, "of an earlier run").unwrap();
        let mut kept = Kept::create(&file).unwrap();
        for piece in &pieces[..count] {
            kept.write(piece).unwrap();
        }
        let error = kept.finish(full()).unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
        assert!(error.contains("the packets before that only"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), pieces.concat()[..length]);
        assert_eq!(files(folder.path()), 1);
    }
    // Without a packet and a header there is no capture.
    Kept::create(&file).unwrap().finish(full()).unwrap_err();
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn each_capture_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let taps = [96, 96].map(|snaplen| ElementKind::Tap { snaplen });
    let names = ["a.pcap", "b.pcap"].map(|name| inner.join(name));
    let recording = Recording::new(taps.iter(), &names, LinkType::RAW).unwrap();
    fs::remove_dir_all(&inner).unwrap();
    let error = recording.finish().unwrap_err().to_string();
    for name in ["inner/a.pcap: ", "inner/b.pcap: "] {
        assert!(error.contains(name), "{error}");
    }
}
