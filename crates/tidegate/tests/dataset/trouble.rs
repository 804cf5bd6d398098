//! What gets in the way of a dataset: its output, names that change, options that cannot be fulfilled.

use super::samplers::with_shares;
use super::*;

/// Waits until this is so.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// The captures in a dataset.
fn added(dataset: &Path) -> usize {
    fs::read_dir(dataset.join("captures")).map_or(0, Iterator::count)
}

#[test]
fn a_full_disk_under_the_output_loses_no_capture() {
    let folder = tempfile::tempdir().expect("a folder");
    let [once, followed, from] =
        ["once", "followed", "captures"].map(|name| folder.path().join(name));
    fs::create_dir(&from).expect("a folder");
    let full = || {
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("the device")
    };
    let captures = captures();
    let mut command = tidegate(&["detect", "--dataset", text(&once), text(&captures[0])]);
    let ended = command.stdout(full()).output().expect("tidegate runs");
    let err = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(ended.status.code(), Some(1), "{err}");
    assert!(
        err.starts_with("tidegate: cannot write to standard output: "),
        "{err}"
    );
    assert_eq!(added(&once), 1);

    let arguments = [
        "detect",
        "-j1",
        "--dataset",
        text(&followed),
        "--follow",
        text(&from),
    ];
    let mut command = tidegate(&arguments);
    command.stdout(full()).stderr(Stdio::null());
    let mut running = Running(command.spawn().expect("tidegate runs"));
    for (i, capture) in captures[..3].iter().enumerate() {
        fs::copy(capture, from.join(format!("{i}.pcap.xz"))).expect("copied");
        wait("a capture is added", || added(&followed) > i);
    }
    let pid = running.0.id().to_string();
    Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .expect("kill runs");
    assert_eq!(running.0.wait().expect("ends").code(), Some(1));
}

/// As rsync and browsers do it, at any time.
#[test]
fn a_capture_that_is_renamed_while_it_is_read_is_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let [dataset, from] = ["dataset", "captures"].map(|name| folder.path().join(name));
    fs::create_dir(&from).expect("a folder");
    let arguments = [
        "detect",
        "-j4",
        "--dataset",
        text(&dataset),
        "--follow",
        text(&from),
    ];
    let _running = Running(quiet(tidegate(&arguments)).spawn().expect("tidegate runs"));
    wait("it begins", || dataset.join("staged").exists());
    let capture = &captures()[0];
    for milliseconds in 1..=16 {
        // Captures with different headers.
        let share = format!("0.{milliseconds:02}");
        let (bytes, _) = with_shares(capture, &[(usize::MAX, &share)]);
        let aside = from.join(format!(".{milliseconds}.pcapng.AbCdEf"));
        fs::write(&aside, bytes).expect("written");
        sleep(Duration::from_millis(milliseconds));
        fs::rename(aside, from.join(format!("{milliseconds}.pcapng"))).expect("renamed");
    }
    wait("all are added", || added(&dataset) == 16);
}

/// The command says which options do not change rows that are there.
#[test]
fn what_would_change_or_double_rows_is_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let [joined, sampled] = ["joined", "sampled"].map(|name| folder.path().join(name));
    let captures = captures();
    let add = |dataset: &Path, options: &[&str], captures: &[PathBuf]| {
        let captures = captures.iter().map(|path| text(path));
        let options = options.iter().copied().chain(captures);
        let all: Vec<&str> = ["detect", "--dataset", text(dataset)]
            .into_iter()
            .chain(options)
            .collect();
        run(&all)
    };
    assert_eq!(add(&joined, &["--join"], &captures[..2]).0, 0);
    let before = rows(&joined, &KEY);
    let (code, _, err) = add(&joined, &["--join"], &captures[1..3]);
    let part = format!("{} is in the dataset as a part of ", captures[1].display());
    assert!(code == 1 && err.contains(&part), "{err}");
    assert_eq!(rows(&joined, &KEY), before);
    let (code, _, err) = add(&joined, &["--max-flows", "8"], &captures[..1]);
    assert!(code == 2 && err.contains("says --max-flows = 8"), "{err}");

    let asn = format!("{}/../dataset/tests/asn.mmdb", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(add(&sampled, &["--sampled", "1%"], &captures[..1]).0, 0);
    assert_eq!(add(&sampled, &["--sampled", "0.01"], &captures[..1]).0, 0);
    for (options, difference) in [
        (&[][..], "with --sampled 0.01, not without --sampled"),
        (
            &["--sampled", "0.5"],
            "with --sampled 0.01, not with --sampled 0.5",
        ),
        (&["--sampled", "1%", "--asn", &asn], "without --asn"),
    ] {
        let (code, out, err) = add(&sampled, options, &captures[..1]);
        assert!(
            code == 1 && err.contains(&format!("was added {difference}, ")),
            "{err}"
        );
        assert!(out.contains("1 known before, 1 with problems"), "{out}");
    }
}
