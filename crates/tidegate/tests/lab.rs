//! `tidegate lab` as its users meet it.

mod program;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use program::{parts, run, tidegate};

const SCENARIO: &str = r#"title = "Two downloads"
duration = "1s"
window = "100ms"
sample = "20ms"
connections = "changes"

[[element]]
name = "front"
kind = "tap"

[[element]]
name = "gate"
kind = "bc-pqp"
rate = "4mbit"

[[aggregate]]
name = "home"
count = 2

[[flow]]
name = "download"
count = 2
cc = ["reno", "cubic"]
rtt = "5ms..20ms"
path = ["front", "gate"]

[sweep]
gate.kind = ["policer", "bc-pqp", "shaper"]
seeds = 2
"#;

/// A folder with the scenario in it.
fn scenario(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("home.toml");
    fs::write(&path, text).expect("written");
    let path = path.to_str().expect("text").to_owned();
    (folder, path)
}

#[test]
fn the_table_fits_80_columns_and_tells_every_point() {
    let (_folder, path) = scenario(SCENARIO);
    let (code, out, err) = run(&["lab", "run", &path]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("Two downloads\n"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    for point in ["gate.kind=policer", "gate.kind=bc-pqp", "gate.kind=shaper"] {
        assert!(out.contains(point), "{out}");
    }
    assert!(
        err.contains("6.00s simulated in") && err.contains("packets/s"),
        "{err}"
    );
    let (_, _, err) = run(&["lab", "run", "--quiet", &path]);
    assert_eq!(err, "");
}

#[test]
fn results_do_not_depend_on_the_number_of_cores() {
    let (_folder, path) = scenario(SCENARIO);
    for by in [
        "point",
        "flow",
        "window",
        "element",
        "sample",
        "transfer",
        "connection",
    ] {
        let rows = |jobs: &str| {
            let (code, out, err) = run(&[
                "lab", "run", &path, "--by", by, "-f", "csv", "-q", "-j", jobs,
            ]);
            assert_eq!((code, err.as_str()), (0, ""));
            out
        };
        let one = rows("1");
        assert_eq!(one, rows("2"), "{by}");
        assert!(one.lines().count() > 1 || by == "transfer", "{by}: {one}");
    }
}

#[test]
fn formats_hold_the_same() {
    let (_folder, path) = scenario(SCENARIO);
    let rows = |format: &str| run(&["lab", "run", &path, "--by", "flow", "-f", format]).1;
    let json: Vec<serde_json::Value> = serde_json::from_str(&rows("json")).expect("JSON");
    let lines = rows("jsonl");
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(json, lines);
    // 3 points, 2 seeds, 2 homes, 2 downloads.
    assert_eq!(json.len(), 24);
    assert_eq!(json[1]["cc"], "cubic");
    assert_eq!(json[23]["parameters"], "gate.kind=shaper");
    assert_eq!(json[23]["aggregate"], "home-2");
    assert!(
        json.iter()
            .all(|row| row["delivered_bytes"].as_u64() > Some(10_000))
    );
    assert_eq!(rows("csv").lines().count(), 25);
    let (code, table, _) = run(&["lab", "run", &path, "--by", "flow"]);
    assert_eq!(code, 0);
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    assert!(table.contains("home-2 download 1"), "{table}");
}

#[test]
fn a_folder_gets_rows_pictures_and_captures() {
    let (folder, path) = scenario(SCENARIO);
    let results = folder.path().join("new/results");
    let (code, _, err) = run(&[
        "lab",
        "run",
        &path,
        "--seed",
        "3",
        "-o",
        results.to_str().expect("text"),
    ]);
    assert_eq!(code, 0, "{err}");
    let mut names: Vec<String> = fs::read_dir(&results)
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    for name in [
        "points",
        "flows",
        "windows",
        "elements",
        "samples",
        "transfers",
        "connections",
    ] {
        let bytes = fs::read(results.join(format!("{name}.parquet"))).expect(name);
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name}"
        );
    }
    for name in [
        "windows.svg",
        "rtt.svg",
        "fairness.svg",
        "throughput-0.svg",
        "occupancy-gate-1.svg",
        "connection-download-1-2.svg",
    ] {
        let svg = fs::read_to_string(results.join(name))
            .unwrap_or_else(|_| panic!("{name} of {names:?}"));
        assert!(
            svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"),
            "{name}"
        );
        assert!(
            svg.contains(">policer") || svg.contains("policer\n") || !name.starts_with("windows"),
            "{name}"
        );
    }
    let captures: Vec<&String> = names
        .iter()
        .filter(|name| name.ends_with(".pcap"))
        .collect();
    assert_eq!(captures.len(), 6, "{names:?}");
    assert_eq!(captures[0], "front.point-0.home-1.pcap");
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
    // What the lab writes, the detector reads: both flows of the home.
    let capture = results.join("front.point-0.home-1.pcap");
    let (code, out, err) = run(&[
        "detect",
        "--by",
        "flow",
        "-f",
        "jsonl",
        capture.to_str().expect("text"),
    ]);
    assert_eq!((code, err.as_str()), (0, ""));
    let senders = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|row| row["data_packets"].as_u64() > Some(10));
    assert_eq!(senders.count(), 2);
}

#[test]
fn settings_come_from_the_command_line() {
    let (_folder, path) = scenario(SCENARIO);
    let (code, out, err) = run(&[
        "lab",
        "run",
        &path,
        "--set",
        "gate.kind=shaper",
        "--set",
        "gate.rate=2mbit",
        "--seed",
        "7",
        "--duration",
        "2s",
        "-f",
        "jsonl",
    ]);
    assert_eq!(code, 0, "{err}");
    let row: serde_json::Value = serde_json::from_str(&out).expect("one row");
    assert_eq!(
        (&row["simulations"], &row["parameters"]),
        (&2.into(), &"".into())
    );
    let throughput = row["throughput_bps"].as_u64().expect("a rate");
    assert!((1_500_000..2_100_000).contains(&throughput), "{throughput}");
    assert!(err.contains("2.00s simulated"), "{err}");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let (_folder, path) = scenario(&SCENARIO.replace("rtt =", "rtx ="));
    for command in ["run", "check"] {
        let (code, out, err) = run(&["lab", command, &path]);
        assert_eq!((code, out.as_str()), (1, ""));
        let wanted =
            format!("tidegate: {path}:24:1: unknown key `rtx` in a flow, did you mean `rtt`?\n");
        assert_eq!(err, wanted);
    }
    let (folder, empty) = scenario("");
    let (code, _, err) = run(&["lab", "run", &empty]);
    assert_eq!(code, 1);
    assert!(
        err.contains("home.toml:1:1: `duration` is missing"),
        "{err}"
    );

    let binary = folder.path().join("binary.toml");
    fs::write(&binary, [0x61, 0xff, 0xfe]).expect("written");
    let (code, _, err) = run(&["lab", "run", binary.to_str().expect("text")]);
    assert_eq!(code, 1);
    assert!(
        err.contains("binary.toml: not UTF-8 text at byte 1"),
        "{err}"
    );
    for missing in ["/nonexistent/home.toml", "/"] {
        let (code, _, err) = run(&["lab", "run", missing]);
        assert_eq!((code, err.lines().count()), (1, 1), "{err}");
        assert!(err.contains(&format!("cannot read {missing}: ")), "{err}");
    }
    let (_folder, path) = scenario(SCENARIO);
    let (code, _, err) = run(&["lab", "run", &path, "--set", "gat.rate=1mbit"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("--set gat.rate=1mbit: `gat` is no element"),
        "{err}"
    );
    let (code, _, err) = run(&["lab", "run", &path, "-o", "/proc/results"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("cannot make the folder /proc/results"),
        "{err}"
    );
}

#[test]
fn check_counts_what_there_is_to_do() {
    let (_folder, path) = scenario(SCENARIO);
    let (code, out, err) = run(&["lab", "check", &path]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        format!("{path}: 3 points, 2 seeds, 6.00s to simulate\n")
    );
}

/// Every example can be printed, and runs: shortened, and read from standard input.
#[test]
fn examples_run() {
    let (code, list, _) = run(&["lab", "example"]);
    assert_eq!(code, 0);
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.len() >= 6 && names.contains(&"fair-share"), "{list}");
    for name in names {
        let (code, text, _) = run(&["lab", "example", name]);
        assert_eq!(code, 0);
        let mut child = tidegate(&[
            "lab",
            "run",
            "-",
            "--duration",
            "300ms",
            "--seed",
            "1",
            "-f",
            "jsonl",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidegate runs");
        let mut pipe = child.stdin.take().expect("a pipe");
        pipe.write_all(text.as_bytes()).expect("written");
        drop(pipe);
        let (code, out, err) = parts(&child.wait_with_output().expect("ends"));
        assert_eq!(code, 0, "{name}: {err}");
        assert!(!out.is_empty(), "{name}");
    }
}

#[test]
fn wrong_use_is_code_2() {
    let (_folder, path) = scenario(SCENARIO);
    for arguments in [
        &["lab"][..],
        &["lab", "run"],
        &["lab", "run", &path, "--jobs", "0"],
        &["lab", "run", &path, "--by", "window"],
        &["lab", "run", &path, "--frmat", "csv"],
        &["lab", "run", &path, "--seed", "many"],
        &["lab", "example", "no-such"],
        &["lab", "check"],
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(!err.is_empty());
    }
}

#[test]
fn a_full_disk_is_told() {
    if !Path::new("/dev/full").exists() {
        eprintln!("SKIPPED: no /dev/full here");
        return;
    }
    let (_folder, path) = scenario(SCENARIO);
    for format in ["table", "csv", "parquet"] {
        let full = fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let output = tidegate(&["lab", "run", &path, "--by", "flow", "-f", format])
            .stdout(full)
            .output()
            .expect("runs");
        let (code, _, err) = parts(&output);
        assert_eq!(code, 1, "{format}");
        assert!(err.contains("No space left on device"), "{err}");
    }
}

/// The third of three points, which cannot write the capture of its second seed.
#[test]
fn a_point_that_fails_leaves_those_before_it() {
    let (folder, path) = scenario(SCENARIO);
    for by in ["point", "flow"] {
        let results = folder.path().join(by);
        let results = results.to_str().expect("text");
        let blocked = format!("{results}/front.point-2.seed-2.home-1.pcap");
        fs::create_dir_all(&blocked).expect("a folder");
        let (code, out, err) = run(&["lab", "run", &path, "--by", by, "-o", results]);
        assert_eq!(code, 1, "{err}");
        assert!(out.contains("gate.kind=policer"), "{out}");
        let partial = out.contains("\ngate.kind=shaper  (2 of 4 simulations)\n");
        assert_eq!(partial, by == "point", "{out}");
        assert!(err.contains("2 of 3 points complete, 1 in part"), "{err}");
        let wanted = "point 2 (gate.kind=shaper), seed 2: cannot write the capture";
        assert!(err.contains(wanted) && err.contains(&blocked), "{err}");
        for file in ["points.parquet", "flows.parquet", "throughput-1.svg"] {
            assert!(Path::new(results).join(file).exists(), "{file}");
        }
    }
}

#[test]
fn the_last_window_is_over_its_own_time() {
    let text = "window = \"100ms\"\nduration = \"250ms\"\n[[flow]]\nname = \"call\"\nrtt = \"0s\"\n\
        traffic = { kind = \"udp\", rate = \"8mbit\", size = \"1000B\" }\npath = [\"gate\"]\n\
        [[element]]\nname = \"gate\"\nkind = \"policer\"\nrate = \"16mbit\"\n";
    let (folder, path) = scenario(text);
    let results = folder.path().join("results");
    let results = results.to_str().expect("text");
    let run = run(&[
        "lab", "run", &path, "--by", "window", "-f", "jsonl", "-o", results,
    ]);
    assert_eq!(run.0, 0, "{}", run.2);
    for row in run.1.lines() {
        let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
        assert_eq!(row["throughput_bps"], 8_000_000, "{row}");
        assert!(row["flow"].is_string() || row["normalised"] == 0.5, "{row}");
    }
    // Nor does the picture's line, the first in its colour, fall in the end.
    let svg = fs::read_to_string(format!("{results}/throughput-0.svg")).expect("a picture");
    let line = svg.lines().find(|line| line.contains("#0072B2"));
    let (_, points) = line
        .and_then(|line| line.split_once("points=\""))
        .expect("a line");
    let points = points.trim_end_matches("\"/>").split_whitespace();
    let heights: Vec<&str> = points
        .filter_map(|point| Some(point.split_once(',')?.1))
        .collect();
    assert!(
        heights.len() > 3 && heights.iter().all(|y| *y == heights[0]),
        "{heights:?}"
    );
}

/// Ctrl-C, or a terminal that is closed, while there is more to simulate than anyone would wait for.
#[test]
fn an_interrupted_run_reports_what_is_complete() {
    let (folder, path) = scenario(&SCENARIO.replace("seeds = 2", "seeds = 3000"));
    for signal in ["INT", "TERM", "HUP"] {
        let results = folder.path().join(signal);
        // Whatever the tests' own starter has ignored.
        let mut command = Command::new("env");
        let output = results.to_str().expect("text");
        command.args([
            &format!("--default-signal={signal}"),
            env!("CARGO_BIN_EXE_tidegate"),
        ]);
        command.args(["lab", "run", &path, "-f", "csv", "-o", output]);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tidegate runs");
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let id = child.id().to_string();
        let killed = Command::new("kill")
            .args([&format!("-{signal}"), &id])
            .status()
            .expect("kill runs");
        assert!(killed.success());
        let (code, out, err) = parts(&child.wait_with_output().expect("ends"));
        assert_eq!(code, 130, "{signal}: {err}");
        assert!(err.contains("interrupted"), "{err}");
        assert!(err.contains("0 of 3 points complete, 1 in part"), "{err}");
        assert_eq!(
            out.lines().count(),
            2,
            "the header and the first point: {out}"
        );
        let names = fs::read_dir(&results).expect("a folder");
        let names = names.map(|file| file.expect("a file").file_name());
        let names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        assert!(
            names.iter().any(|name| name.ends_with(".pcap")),
            "{names:?}"
        );
        let partial = names.iter().find(|name| name.ends_with(".partial"));
        assert_eq!(partial, None);
    }
}

#[test]
fn the_page_on_limiters_shows_what_its_command_prints() {
    let (_, example, _) = run(&["lab", "example", "policer-or-shaper"]);
    let (_folder, path) = scenario(&example);
    let (code, out, err) = run(&["lab", "run", &path, "--set", "gate.rate=10mbit"]);
    assert_eq!(code, 0, "{err}");
    let (table, _) = out.split_once("\n\n").expect("a legend below the table");
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/how-to/compare-limiters.md"
    );
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains(table), "put this into it:\n{table}");
}

/// A trace is looked for beside the scenario, wherever the command runs.
#[test]
fn traces_are_read_from_the_scenarios_folder() {
    let (folder, path) = scenario(
        "duration = \"1s\"\n[[element]]\nname = \"radio\"\nkind = \"link\"\ntrace = \"cell.down\"\n\
         [[flow]]\nname = \"download\"\nrtt = \"2ms\"\npath = [\"radio\"]\n\
         traffic = { kind = \"udp\", rate = \"40mbit\" }\n",
    );
    let (code, _, err) = run(&["lab", "check", &path]);
    assert_eq!(code, 1);
    assert!(
        err.contains("home.toml:5:9: `cell.down`: cannot read"),
        "{err}"
    );
    fs::write(folder.path().join("cell.down"), "1\n2\n2\n").expect("written");
    let (code, out, err) = run(&["lab", "run", &path]);
    assert_eq!(code, 0, "{err}");
    // 3 frames in each 2 ms: 18 Mbit/s of packets of 1,500 bytes.
    assert!(out.contains("\n18.0 Mbit/s"), "{out}");
}

/// Seeds repeat a scenario that draws nothing, which is said.
#[test]
fn seeds_that_change_nothing_are_remarked() {
    let scenario_with = |sweep: &str, rtt: &str| {
        scenario(&format!(
            "duration = \"1s\"\n[sweep]\nseeds = 3\n{sweep}\n[[element]]\nname = \"gate\"\nkind = \"policer\"\n\
             rate = \"5mbit\"\n[[flow]]\nname = \"download\"\nrtt = {rtt}\npath = [\"gate\"]\n"
        ))
    };
    let second_draws = "download.rtt = [\"20ms\", \"20ms..60ms\"]";
    for (sweep, rtt, remarked) in [
        ("", "\"20ms\"", true),
        ("", "\"20ms..60ms\"", false),
        (second_draws, "\"20ms\"", false),
    ] {
        let (_folder, path) = scenario_with(sweep, rtt);
        let (code, _, err) = run(&["lab", "run", &path]);
        assert_eq!(code, 0, "{err}");
        let said = err.contains("every seed gave the same result");
        assert_eq!(said, remarked, "{sweep} {rtt}: {err}");
    }
}

/// Elements of aggregates that share another one are in one simulation, and each has its picture.
#[test]
fn every_aggregate_has_its_picture_of_a_queue() {
    let link = "kind = \"link\"\nrate = \"6mbit\"\nshared = true";
    let shared = SCENARIO.replace("kind = \"tap\"", link);
    let (folder, path) =
        scenario(&shared.replace("count = 2\n\n[[flow]]", "count = 9\n\n[[flow]]"));
    let results = folder.path().join("results");
    let (code, _, err) = run(&["lab", "run", &path, "-o", results.to_str().expect("text")]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("the first 8 of 9 aggregates"), "{err}");
    for (name, is_there) in [("home-8-gate", true), ("home-9-gate", false)] {
        let picture = results.join(format!("occupancy-{name}-1.svg"));
        assert_eq!(picture.exists(), is_there, "{name}");
    }
}

/// Forty rates: three pictures of distributions show them all, and curves of some are missing, which is said.
#[test]
fn pictures_say_what_they_leave_out() {
    let rates: Vec<String> = (1..=40).map(|rate| format!("\"{rate}mbit\"")).collect();
    let (folder, path) = scenario(&format!(
        "duration = \"500ms\"\n[sweep]\n\"gate.rate\" = [{}]\n[[element]]\nname = \"gate\"\nkind = \"policer\"\n\
         rate = \"5mbit\"\n[[flow]]\nname = \"download\"\nrtt = \"20ms\"\npath = [\"gate\"]\n",
        rates.join(", ")
    ));
    let results = folder.path().join("results");
    let (code, _, err) = run(&["lab", "run", &path, "-o", results.to_str().expect("text")]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("the first 24 of 40 points"), "{err}");
    for (name, points) in [
        ("rtt-0", "0 to 15"),
        ("rtt-1", "16 to 31"),
        ("rtt-2", "32 to 39"),
    ] {
        let svg = fs::read_to_string(results.join(format!("{name}.svg"))).expect("a picture");
        let title = format!("points {points} of 0 to 39");
        assert!(svg.contains(&title), "{svg}");
    }
    assert!(!results.join("rtt.svg").exists());
}

/// Keys of a sweep are columns, and groups of flows that compete have shares.
#[test]
fn parameters_and_shares_are_columns() {
    let other =
        "[[flow]]\nname = \"b\"\ncc = \"bbr\"\nrtt = \"20ms\"\npath = [\"gate\"]\n[sweep]\n";
    let (_folder, path) = scenario(&SCENARIO.replace("[sweep]\n", other));
    let (_, out, _) = run(&["lab", "run", &path, "-f", "csv"]);
    let header = out.lines().next().expect("a header");
    assert!(
        header.ends_with(",gate.kind,share_download,share_b"),
        "{header}"
    );
    let (_, table, _) = run(&["lab", "run", &path]);
    assert!(
        table.contains("shares: b ") && table.lines().all(|line| line.len() <= 80),
        "{table}"
    );
}
