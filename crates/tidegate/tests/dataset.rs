//! Datasets as their users meet them: runs that are repeated, killed, or wait for captures.

mod program;
#[path = "dataset/samplers.rs"]
mod samplers;
#[path = "dataset/trouble.rs"]
mod trouble;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use program::{run, tidegate};

/// The captures of the corpus, which are small.
fn captures() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut found = Vec::new();
    for folder in fs::read_dir(corpus).expect("the corpus").flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let path = file.path();
            if path.to_string_lossy().contains(".pcap") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() >= 3, "{found:?}");
    found
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A row's columns of these names, as text.
type Key = Vec<String>;

/// The rows of a dataset. Fails if a file of it is damaged.
fn rows(dataset: &Path, columns: &[&str]) -> Vec<Key> {
    let mut rows = Vec::new();
    let mut folders = vec![dataset.join("segments")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file = SerializedFileReader::new(File::open(&path).expect("a file"));
            let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for row in file.get_row_iter(None).expect("rows") {
                let values = row.expect("a row").into_columns();
                let value = |name: &&str| {
                    let value = values.iter().find(|(column, _)| column == name);
                    match &value.unwrap_or_else(|| panic!("no column {name}")).1 {
                        Field::Str(text) => text.clone(),
                        other => other.to_string(),
                    }
                };
                rows.push(columns.iter().map(value).collect());
            }
        }
    }
    rows.sort();
    rows
}

const KEY: [&str; 5] = ["capture", "flow", "segment", "from_client", "start_s"];

#[test]
fn a_capture_is_analysed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path().join("dataset");
    let table = |name: &str| format!("{}/../dataset/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    let (asn, country) = (table("asn.mmdb"), table("country.mmdb"));
    let from = folder.path().join("captures");
    fs::create_dir(&from).expect("a folder");
    for (number, capture) in captures().iter().enumerate() {
        let name = capture.file_name().expect("a name").to_str().expect("text");
        fs::copy(capture, from.join(format!("{number}-{name}"))).expect("copied");
    }
    let arguments = [
        "detect",
        "--dataset",
        text(&dataset),
        "--asn",
        &asn,
        "--asn",
        &country,
        "--sampled",
        "0.5",
        text(&from),
    ];
    let (code, first, err) = run(&arguments);
    assert_eq!(code, 0, "{err}");
    let before = rows(&dataset, &KEY);

    // As `detect` alone gives them.
    let (_, csv, _) = run(&["detect", "-f", "csv", text(&from)]);
    assert_eq!(before.len(), csv.lines().count() - 1, "{first}");

    let of = &[
        "client_asn",
        "client_organisation",
        "client_country",
        "client_continent",
        "client_prefix",
        "sampled_fraction",
    ];
    let origins: BTreeSet<Key> = rows(&dataset, of).into_iter().collect();
    let expected = ["64496", "Example Access", "KE", "AF", "10.0.0.0/16", "0.5"].map(str::to_owned);
    assert!(origins.contains(expected.as_slice()), "{origins:?}");

    // Under another name, it is the same.
    let one = fs::read_dir(&from)
        .expect("the folder")
        .flatten()
        .next()
        .expect("a file");
    fs::copy(one.path(), from.join("copy.pcap.xz")).expect("copied");
    let (code, second, _) = run(&arguments);
    assert_eq!(code, 0);
    let known = captures().len() + 1;
    assert!(
        second.starts_with("0 captures added with 0 rows"),
        "{second}"
    );
    assert!(
        second.contains(&format!("{known} known before")),
        "{second}"
    );
    assert_eq!(rows(&dataset, &KEY), before);

    let (code, _, err) = run(&[
        "detect",
        "--dataset",
        text(&dataset),
        "--detector",
        "pd",
        text(&from),
    ]);
    assert_eq!(code, 2);
    let both = "analysed with --basis = client, --detector = tidegate, and this command says --basis = segment, --detector = pd";
    assert!(err.contains(both), "{err}");
}

/// What can be read of a damaged capture is kept, and the others do not suffer.
#[test]
fn a_bad_capture_does_not_lose_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path().join("dataset");
    let whole = &captures()[1];
    let bytes = fs::read(whole).expect("the capture");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("cut.pcap.xz"), &bytes[..bytes.len() / 2]).expect("written");
    fs::write(at("none.pcap"), "this is not a capture, it is a text").expect("written");
    let add = |names: &[&str]| {
        let paths: Vec<PathBuf> = names.iter().map(|name| at(name)).collect();
        let mut arguments = vec!["detect", "--dataset", text(&dataset)];
        arguments.extend(paths.iter().map(|path| text(path)));
        run(&arguments)
    };
    let (code, out, err) = add(&["none.pcap", "missing.pcap", "cut.pcap.xz"]);
    assert_eq!((code, err.lines().count()), (1, 3), "{err}");
    assert!(
        out.contains("1 capture added") && out.contains("3 with problems"),
        "{out}"
    );
    let cut = rows(&dataset, &["flow"]).len();

    // The next run says again what is missing.
    let (code, out, err) = add(&["cut.pcap.xz"]);
    assert_eq!(code, 1, "{out}");
    assert!(
        err.contains("was added before, as far as it could be read: "),
        "{err}"
    );
    assert!(out.contains("1 known before, 1 with problems"), "{out}");

    // The same file, whole, replaces what was read of it.
    fs::copy(whole, at("cut.pcap.xz")).expect("copied");
    let (code, out, err) = add(&["cut.pcap.xz"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("in 1 capture") || out.contains("1 capture in"),
        "{out}"
    );
    assert!(cut > 0 && rows(&dataset, &["flow"]).len() > cut);
    let keys = rows(&dataset, &KEY);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());

    let (code, _, err) = run(&["detect", "--dataset", text(&dataset), "-"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("standard input can be read only once"),
        "{err}"
    );
}

/// A command line that is wrong leaves no folder behind, and a shorter copy of a capture adds nothing.
#[test]
fn captures_that_add_nothing_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let add = |file: &Path| run(&["detect", "--dataset", text(&at("rows")), text(file)]);
    let (code, _, err) = add(&at("missing.pcap"));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no capture can be read"), "{err}");
    assert!(!at("rows").exists());

    let whole = &captures()[1];
    let bytes = fs::read(whole).expect("the capture");
    let (code, _, err) = add(whole);
    assert_eq!(code, 0, "{err}");
    let before = rows(&at("rows"), &KEY);
    fs::write(at("copy.pcap.xz"), &bytes[..bytes.len() / 2]).expect("written");
    let (code, out, err) = add(&at("copy.pcap.xz"));
    assert_eq!(code, 0, "{err}");
    let name = whole.display();
    assert!(
        err.contains(&format!(
            "a shorter copy of {name}, which is in the dataset"
        )),
        "{err}"
    );
    assert!(out.contains("1 known before, 0 with problems"), "{out}");
    assert_eq!(rows(&at("rows"), &KEY), before);
}

/// A process that is killed at any time leaves a dataset that the next one completes.
#[test]
fn kill_9_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (calm, killed) = (folder.path().join("calm"), folder.path().join("killed"));
    let captures = captures();
    let command = |dataset: &Path| {
        let mut arguments = vec!["detect", "-q", "-j2", "--dataset", text(dataset)];
        arguments.extend(captures.iter().map(|path| text(path)));
        tidegate(&arguments)
    };
    assert!(
        command(&calm)
            .output()
            .expect("tidegate runs")
            .status
            .success()
    );
    let expected = rows(&calm, &KEY);

    let mut completed = false;
    for milliseconds in [
        0, 5, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 1000, 2000,
    ] {
        let mut child = quiet(command(&killed)).spawn().expect("tidegate runs");
        sleep(Duration::from_millis(milliseconds));
        child.kill().expect("killed");
        completed |= child.wait().expect("ends").success();
        assert_part(&killed, &expected);
        if completed {
            break;
        }
    }
    assert!(
        command(&killed)
            .output()
            .expect("tidegate runs")
            .status
            .success()
    );
    assert_eq!(rows(&killed, &KEY), expected);
    let staged = fs::read_dir(killed.join("staged"))
        .expect("the folder")
        .count();
    assert_eq!(staged, 0);
}

/// Every file of the dataset is whole, and no row is there twice.
fn assert_part(dataset: &Path, expected: &[Key]) {
    let found = rows(dataset, &KEY);
    let unique: BTreeSet<_> = found.iter().collect();
    assert_eq!(unique.len(), found.len());
    assert!(found.iter().all(|row| expected.contains(row)));
}

/// The same holds for one that analyses captures as they arrive.
#[test]
fn a_killed_follower_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let [calm, killed, from] = ["calm", "killed", "captures"].map(|name| folder.path().join(name));
    fs::create_dir(&from).expect("a folder");
    let captures = captures();
    let copy = |i: usize| from.join(format!("{i}.pcap.xz"));
    for (i, capture) in captures.iter().enumerate() {
        fs::copy(capture, copy(i)).expect("copied");
    }
    let (code, _, err) = run(&["detect", "-q", "--dataset", text(&calm), text(&from)]);
    assert_eq!(code, 0, "{err}");
    let expected = rows(&calm, &KEY);
    for i in 1..captures.len() {
        fs::remove_file(copy(i)).expect("removed");
    }

    let arguments = [
        "detect",
        "--dataset",
        text(&killed),
        "--follow",
        text(&from),
    ];
    for (i, capture) in captures.iter().enumerate().skip(1) {
        let mut child = quiet(tidegate(&arguments)).spawn().expect("tidegate runs");
        fs::copy(capture, copy(i)).expect("copied");
        sleep(Duration::from_millis(25 << i));
        child.kill().expect("killed");
        child.wait().expect("ends");
        assert_part(&killed, &expected);
    }
    let _running = Running(quiet(tidegate(&arguments)).spawn().expect("tidegate runs"));
    let started = Instant::now();
    while rows(&killed, &KEY).len() < expected.len() && started.elapsed() < Duration::from_secs(60)
    {
        sleep(Duration::from_millis(100));
    }
    assert_eq!(rows(&killed, &KEY), expected);
}

fn quiet(mut command: Command) -> Command {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Ends the program when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn captures_are_analysed_as_they_arrive() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, from) = (
        folder.path().join("dataset"),
        folder.path().join("captures"),
    );
    fs::create_dir(&from).expect("a folder");
    let captures = captures();
    fs::copy(&captures[0], from.join("there.pcap.xz")).expect("copied");
    let mut command = tidegate(&[
        "detect",
        "--dataset",
        text(&dataset),
        "--follow",
        text(&from),
    ]);
    let mut running = Running(
        command
            .stdout(Stdio::piped())
            .spawn()
            .expect("tidegate runs"),
    );
    let mut lines = BufReader::new(running.0.stdout.take().expect("a pipe")).lines();
    // Reading waits until the line comes.
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().contains("there.pcap.xz: "));

    // A capture is taken when it is closed, not before.
    let bytes = fs::read(&captures[1]).expect("the capture");
    let mut slow = File::create(from.join("slow.pcap.xz")).expect("created");
    let (first, second) = bytes.split_at(bytes.len() / 2);
    slow.write_all(first).expect("written");
    // Another one comes first, in a folder that is made now.
    fs::create_dir(from.join("new")).expect("a folder");
    fs::copy(&captures[2], folder.path().join("aside")).expect("copied");
    fs::rename(folder.path().join("aside"), from.join("new/moved.pcap.xz")).expect("moved");
    assert!(next().contains("moved.pcap.xz: "));
    slow.write_all(second).expect("written");
    drop(slow);
    assert!(next().contains("slow.pcap.xz: "));

    let pid = running.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .expect("kill runs")
            .success()
    );
    // As a service manager expects.
    assert_eq!(running.0.wait().expect("ends").code(), Some(0));
    let sum = next();
    assert!(sum.starts_with("3 captures added"), "{sum}");
    assert!(sum.contains(", 0 known before, 0 with problems"), "{sum}");
    let mut arguments = vec!["detect", "-f", "csv"];
    arguments.extend(captures[..3].iter().map(|path| text(path)));
    let (_, csv, _) = run(&arguments);
    assert_eq!(rows(&dataset, &KEY).len(), csv.lines().count() - 1);
}
