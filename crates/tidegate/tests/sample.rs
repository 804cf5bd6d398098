//! `tidegate sample`, as its users meet it.

#![cfg(target_os = "linux")]

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::{Namespace, Process};

use program::{run, tidegate};

const POLICED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz"
);

/// A server and a client with a cable between `inside` and `outside`, or `None` where rights are missing.
fn pair(test: &str) -> Option<(Namespace, Namespace)> {
    let server = match Namespace::new() {
        Err(TestbedError::Rights { .. }) => {
            writeln!(std::io::stderr(), "skipped {test}: needs root").expect("standard error");
            return None;
        }
        other => other.expect("a namespace"),
    };
    let client = Namespace::new().expect("a namespace");
    server.veth("inside", &client, "outside").expect("a cable");
    let address = |text: &str| text.parse().expect("an address");
    server
        .address("inside", address("192.0.2.1"), 24)
        .expect("an address");
    client
        .address("outside", address("192.0.2.2"), 24)
        .expect("an address");
    Some((server, client))
}

/// Connections that bring so many bytes to the client, one after the other.
fn transfers(server: &Namespace, client: &Namespace, count: usize, bytes: usize) {
    let address: SocketAddr = "192.0.2.1:8080".parse().expect("an address");
    let bound = server.enter(|| TcpListener::bind(address));
    let listener = bound.expect("the namespace").expect("bound");
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take(count) {
                let mut stream = stream.expect("a connection");
                stream.read_exact(&mut [0; 1]).expect("a request");
                stream.write_all(&vec![7; bytes]).expect("sent");
            }
        });
        let fetch = || {
            for _ in 0..count {
                let mut stream = TcpStream::connect(address).expect("connected");
                stream.write_all(b"x").expect("sent");
                let mut all = Vec::new();
                assert_eq!(stream.read_to_end(&mut all).expect("received"), bytes);
            }
        };
        client.enter(fetch).expect("the namespace");
    });
}

/// So many requests in one connection, with a response of 1,000 bytes each.
fn requests(server: &Namespace, client: &Namespace, count: usize) {
    let address: SocketAddr = "192.0.2.1:7070".parse().expect("an address");
    let bound = server.enter(|| TcpListener::bind(address));
    let listener = bound.expect("the namespace").expect("bound");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            for _ in 0..count {
                stream.read_exact(&mut [0; 1]).expect("a request");
                stream.write_all(&[7; 1000]).expect("sent");
            }
        });
        let fetch = || {
            let mut stream = TcpStream::connect(address).expect("connected");
            for _ in 0..count {
                stream.write_all(b"x").expect("sent");
                stream.read_exact(&mut [0; 1000]).expect("received");
                thread::sleep(Duration::from_millis(1));
            }
        };
        client.enter(fetch).expect("the namespace");
    });
}

/// A sampler that is running.
struct Sampler {
    process: Process,
    said: BufReader<ChildStderr>,
    heard: String,
}

impl Sampler {
    fn start(space: &Namespace, folder: &Path, arguments: &[&str]) -> Self {
        let mut command = tidegate(&["sample", "inside", "--out"]);
        command.arg(folder).args(arguments).stderr(Stdio::piped());
        Self::run(space, &mut command)
    }

    fn run(space: &Namespace, command: &mut Command) -> Self {
        let mut process = space.start(command).expect("tidegate runs");
        let said = BufReader::new(process.child().stderr.take().expect("piped"));
        let mut this = Self {
            process,
            said,
            heard: String::new(),
        };
        this.until("sampling");
        this
    }

    /// Reads what it says, up to a line with this word.
    fn until(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            let read = self.said.read_line(&mut line).expect("text");
            assert!(read > 0, "it ended without '{word}': {}", self.heard);
            self.heard.push_str(&line);
        }
    }

    fn signal(&mut self, name: &str) {
        let id = self.process.child().id().to_string();
        let killed = Command::new("kill").args(["-s", name, &id]).status();
        assert!(killed.expect("kill runs").success());
    }

    /// Its exit code, and all that it said, after a signal.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let status = self.process.child().wait().expect("it ends");
        self.said.read_to_string(&mut self.heard).expect("text");
        (status.code(), self.heard)
    }
}

fn complete(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| {
        !path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
    });
    files.sort();
    files
}

/// What `detect` finds in the folder: a line for each flow.
fn detected(folder: &Path) -> usize {
    let folder = folder.to_str().expect("text");
    let (code, rows, problems) = run(&["detect", "--join", folder, "--by", "flow", "-f", "jsonl"]);
    assert_eq!((code, problems), (0, String::new()));
    rows.lines().count()
}

#[test]
fn sampled_flows_are_read_by_detect() {
    let Some((server, client)) = pair("sampled_flows_are_read_by_detect") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("to");
    let out = folder.path().join("out");
    let shipped = [
        "--fraction",
        "100%",
        "--to",
        to.to_str().expect("text"),
        "--metrics",
        "127.0.0.1:0",
    ];
    let sampler = Sampler::start(&server, &out, &shipped);
    transfers(&server, &client, 20, 200_000);
    let (_, address) = sampler.heard.split_once("http://").expect("an address");
    let address: SocketAddr = address
        .split_once('/')
        .expect("a path")
        .0
        .parse()
        .expect("an address");
    let metrics = server.enter(|| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    });
    let metrics = metrics.expect("the namespace").expect("text");
    assert!(
        metrics.contains("\ntidegate_sample_share 1.0\n"),
        "{metrics}"
    );
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("sampling 100 % of the flows on inside into"),
        "{said}"
    );
    assert!(said.contains(", 0 dropped by the kernel, "), "{said}");
    assert!(complete(&out).is_empty() && !complete(&to).is_empty());
    // Rows are of a direction with data: requests and responses.
    assert_eq!(detected(&to), 40);
}

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
    sampler.until("added, 0 dropped by the kernel");
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

#[test]
fn a_client_is_sampled_with_all_of_its_flows_or_not_at_all() {
    let Some((server, client)) = pair("a_client_is_sampled_with_all_of_its_flows_or_not_at_all")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut found = [0; 2];
    for number in 0..8 {
        let key = folder.path().join("key");
        fs::write(&key, format!("{number:064x}")).expect("written");
        let out = folder.path().join(number.to_string());
        let key = key.to_str().expect("text");
        let by = [
            "--by",
            "client",
            "--fraction",
            "50%",
            "--key",
            key,
            "--client-net",
            "192.0.2.2",
        ];
        let sampler = Sampler::start(&server, &out, &by);
        transfers(&server, &client, 6, 1000);
        assert_eq!(sampler.end("INT").0, Some(0));
        let flows = match complete(&out)[..] {
            [] => 0,
            _ => detected(&out),
        };
        assert!(flows == 0 || flows == 12, "{flows}");
        found[usize::from(flows > 0)] += 1;
    }
    // With these keys; the chance of all alike would be 1 in 128.
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
}

#[test]
fn a_killed_sampler_leaves_no_half_file_under_a_final_name() {
    let Some((server, client)) = pair("a_killed_sampler_leaves_no_half_file_under_a_final_name")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let many = ["--fraction", "1", "--rotate", "1kB"];
    for kill in [true, true, false] {
        let mut sampler = Sampler::start(&server, folder.path(), &many);
        transfers(&server, &client, 400, 1000);
        sampler.until("packets");
        sampler.end(if kill { "KILL" } else { "TERM" });
        let files = complete(folder.path());
        assert!(!files.is_empty());
        for file in files {
            let (code, _, problems) = run(&["detect", file.to_str().expect("text")]);
            assert_eq!((code, problems), (0, String::new()), "{}", file.display());
        }
    }
    // The last one removed what the others left.
    let parts = fs::read_dir(folder.path())
        .expect("a folder")
        .filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().ends_with(".part")
        });
    assert_eq!(parts.count(), 0);
}

#[test]
fn a_full_disk_and_a_budget_cost_the_oldest_files() {
    let Some((server, client)) = pair("a_full_disk_and_a_budget_cost_the_oldest_files") else {
        return;
    };
    // A disk of this namespace alone.
    let disk = Path::new("/run/small");
    let made = server
        .enter(|| fs::create_dir(disk))
        .expect("the namespace");
    made.expect("a folder");
    server
        .run("mount", "-t tmpfs -o size=96k tmpfs /run/small")
        .expect("mounted");
    for more in [&[][..], &["--keep", "40kB"]] {
        let many = [&["--fraction", "1", "--rotate", "1kB"], more].concat();
        let mut sampler = Sampler::start(&server, disk, &many);
        for _ in 0..4 {
            transfers(&server, &client, 500, 1000);
        }
        sampler.until("to make room");
        let (code, said) = sampler.end("TERM");
        assert_eq!(code, Some(0), "{said}");
        assert!(!said.contains("packets are lost"), "{said}");
        let names = || {
            let files = complete(disk);
            let sizes = files
                .iter()
                .map(|file| fs::metadata(file).expect("a file").len());
            (sizes.sum::<u64>(), files)
        };
        let (bytes, files) = server.enter(names).expect("the namespace");
        assert!(!files.is_empty());
        assert!(more.is_empty() || bytes <= 40_000, "{bytes}");
        for file in files {
            let mut detect = tidegate(&["detect", file.to_str().expect("text")]);
            let output = server.output(&mut detect).expect("tidegate runs");
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
    }
}

/// A user without any rights but those of the service, which it gives up at once.
#[test]
fn the_rights_of_the_service_are_enough() {
    let Some((server, client)) = pair("the_rights_of_the_service_are_enough") else {
        return;
    };
    let unit = include_str!("../../../packaging/systemd/tidegate-sample@.service");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = line.expect("a bounding set").split_whitespace();
    let rights = names.fold("-all".to_owned(), |rights, name| {
        rights + ",+" + &name.trim_start_matches("CAP_").to_lowercase()
    });
    // Where everybody can reach it, in the namespace alone.
    let program = env!("CARGO_BIN_EXE_tidegate");
    let made = server.enter(|| {
        fs::write("/run/program", "")?;
        fs::create_dir("/run/out")?;
        std::os::unix::fs::chown("/run/out", Some(65534), Some(65534))
    });
    made.expect("the namespace").expect("made");
    server
        .run("mount", &format!("--bind {program} /run/program"))
        .expect("mounted");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(
            ["--inh-caps", "--ambient-caps", "--bounding-set"].map(|set| format!("{set}={rights}")),
        )
        .args(["/run/program", "sample", "inside", "--out", "/run/out"])
        .args([
            "--by",
            "client",
            "--fraction",
            "1",
            "--client-net",
            "192.0.2.2",
        ])
        .stderr(Stdio::piped());
    let mut sampler = Sampler::run(&server, &mut command);
    let status = fs::read_to_string(format!("/proc/{}/status", sampler.process.child().id()));
    let status = status.expect("a process");
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert!(
            status.contains(&format!("{set}:\t0000000000000000\n")),
            "{status}"
        );
    }
    transfers(&server, &client, 3, 1000);
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(", 0 dropped by the kernel, "), "{said}");
}

#[test]
fn what_cannot_be_sampled_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let sample = |arguments: &[&str]| run(&[&["sample"], arguments, &["--out", out]].concat());
    let (code, _, error) = sample(&["lo", "--fraction", "2"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("'2' is not a share of flows: write 1%"),
        "{error}"
    );
    let (code, _, error) = sample(&["lo", "--rows", "dataset"]);
    assert_eq!(code, 2);
    assert!(error.contains("cannot be used with"), "{error}");
    let (code, _, error) = run(&["sample", "lo", "--rows", out, "--to", "there"]);
    assert_eq!(code, 2);
    assert!(error.contains("cannot be used with"), "{error}");
    let (code, _, error) = sample(&["lo", "--client-net", "192.0.2.0/24"]);
    assert_eq!(code, 2);
    assert!(error.contains("add --by client"), "{error}");
    let (code, _, error) = sample(&["lo", "--addresses", "pseudonym"]);
    assert_eq!(code, 2);
    assert!(error.contains("needs --key"), "{error}");
    let (code, _, error) = sample(&["lo", "--metrics", "0.0.0.0:9105"]);
    assert_eq!(code, 2);
    assert!(error.contains("of this machine only"), "{error}");
    let (code, _, error) = sample(&["lo", "--keep", "150MB"]);
    assert_eq!(code, 2);
    assert!(error.contains("at least twice --rotate"), "{error}");
    let key = folder.path().join("key");
    fs::write(&key, "secret").expect("written");
    let (code, _, error) = sample(&["lo", "--key", key.to_str().expect("text")]);
    assert_eq!(code, 2);
    assert!(error.contains("openssl rand -hex 32"), "{error}");
    // Without rights this says so instead.
    let (code, _, error) = sample(&["no-such-device"]);
    assert_eq!(code, 3);
    assert!(
        error.contains("no interface no-such-device") || error.contains("CAP_NET_RAW"),
        "{error}"
    );
}
