//! `tidegate diagnose` as its users meet it.

mod program;
mod rotated;

use std::path::PathBuf;

use program::run;
use rotated::rotated;

const SCENARIO: &str = r#"title = "Between two places"
duration = "3s"

[[element]]
name = "front"
kind = "tap"

[[element]]
name = "gate"
kind = "policer"
rate = "20mbit"
burst = "60kB"

[[element]]
name = "way"
kind = "delay"
delay = "10ms"

[[element]]
name = "back"
kind = "tap"

[[flow]]
name = "download"
count = 2
cc = ["cubic", "reno"]
rtt = "0ms"
path = ["front", "gate", "way", "back"]
back = ["back", "way", "front"]
"#;

/// A folder with two captures, and their names.
fn captures() -> (tempfile::TempDir, [String; 2]) {
    captures_at("20mbit")
}

/// The same with a policer of another rate.
fn captures_at(rate: &str) -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let scenario = SCENARIO.replace("20mbit", rate);
    std::fs::write(path("two.toml"), scenario).expect("written");
    let text = |path: PathBuf| path.to_str().expect("text").to_owned();
    let (scenario, out) = (text(path("two.toml")), text(folder.path().to_owned()));
    let (code, _, err) = run(&["lab", "run", &scenario, "-q", "-o", &out]);
    assert_eq!((code, err.as_str()), (0, ""));
    let names = ["front.pcap", "back.pcap"].map(|name| text(path(name)));
    (folder, names)
}

#[test]
fn words_rows_json_and_picture_say_the_same() {
    let (folder, [a, b]) = captures();
    let svg = folder.path().join("picture.svg");
    let svg = svg.to_str().expect("text");
    let (code, out, err) = run(&["diagnose", &a, &b, "-q", "--svg", svg]);
    assert_eq!((code, err.as_str()), (0, ""));
    let first = out.lines().next().expect("a line");
    assert!(first.starts_with("A policer from A to B at 20."), "{out}");
    let picture = std::fs::read_to_string(svg).expect("a picture");
    assert!(picture.contains(first) && picture.contains("measured"));

    let (code, out, err) = run(&["diagnose", &a, &b, "-q", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["verdict"], first);
    let way = &json["ways"][0];
    let rate = way["fits"]["bucket"]["rate_bps"].as_f64().expect("a rate");
    // The policer counts IP packets.
    assert!((rate * 1500.0 / 1518.0 / 20e6 - 1.0).abs() < 0.02, "{rate}");

    let (code, out, err) = run(&["diagnose", &a, &b, "-q", "-f", "csv"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let mut lines = out.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("names");
    let column = |name: &str| {
        names
            .iter()
            .position(|&found| found == name)
            .expect("a column")
    };
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows.len(), 4, "two connections, both ways");
    let lost: u64 = rows
        .iter()
        .map(|row| row[column("lost")].parse::<u64>().expect("a count"))
        .sum();
    assert_eq!(way["fits"]["lost"], lost);
    assert_eq!(rows[0][column("between")], "policer");
}

#[test]
fn one_capture_tells_what_it_can() {
    let (folder, [a, _]) = captures();
    let (code, out, err) = run(&["diagnose", &a, "-q"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("One capture alone: "), "{out}");
    assert!(out.contains("A second capture"), "{out}");
    let headline = out.lines().next().unwrap_or_default();

    let svg = folder.path().join("picture.svg");
    let svg = svg.to_str().expect("text");
    let (code, out, err) = run(&["diagnose", &a, "-q", "--json", "--svg", svg]);
    assert_eq!((code, err.as_str()), (0, ""));
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let said = json["headline"].as_str().expect("a sentence");
    assert_eq!(headline, format!("One capture alone: {said}"));
    let picture = std::fs::read_to_string(svg).expect("a picture");
    assert!(picture.starts_with("<svg"), "{}", &picture[..40]);

    for (flags, what) in [
        (["-f", "csv"], "detect --by flow"),
        (["--from=1s", "--svg=x"], "two captures"),
    ] {
        let (code, _, err) = run(&["diagnose", &a, flags[0], flags[1]]);
        assert_eq!(code, 2);
        assert!(err.contains(what), "{err}");
    }
    let (code, _, err) = run(&["diagnose", "-", "--json"]);
    assert_eq!(code, 2);
    assert!(err.contains("name a file"), "{err}");
}

#[test]
fn other_traffic_and_bad_captures_are_named() {
    let (folder, [a, b]) = captures();
    let corpus = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz"
    );
    let (code, out, _) = run(&["diagnose", &a, corpus, "-q"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("The captures share no packets"), "{out}");

    // Another run of the lab has the same addresses, ports and first packets.
    let (_other, [_, other]) = captures_at("50mbit");
    let (code, out, _) = run(&["diagnose", &b, &other, "-q"]);
    assert_eq!(code, 0);
    let first = out.lines().next().unwrap_or_default();
    assert!(first.contains("no data packet was lost"), "{out}");
    assert!(first.contains("nothing is judged"), "{out}");

    let (code, _, err) = run(&["diagnose", &a, "/nonexistent.pcap", "-q"]);
    assert_eq!(code, 1);
    assert!(err.contains("/nonexistent.pcap"), "{err}");

    // A capture that breaks off is compared as far as it goes.
    let bytes = std::fs::read(&a).expect("a capture");
    let half = folder.path().join("half.pcap");
    std::fs::write(&half, &bytes[..bytes.len() / 2]).expect("written");
    let (code, out, err) = run(&["diagnose", &a, half.to_str().expect("text"), "-q"]);
    assert_eq!(code, 1);
    assert!(out.contains("0 data packets between"), "{out}");
    assert!(err.contains("half.pcap"), "{err}");
}

#[test]
fn packets_beyond_the_bound_are_left_out() {
    let (_folder, [a, b]) = captures();
    let (code, out, err) = run(&["diagnose", &a, &b, "-q", "--max-packets", "500"]);
    assert_eq!(code, 0);
    assert!(
        err.contains("packets left out: --max-packets is reached"),
        "{err}"
    );
    assert!(out.contains("from A to B"), "{out}");
    assert!(out.contains(" s are compared: "), "{out}");
    assert!(out.contains("This holds for the first "), "{out}");
    let (_, json, _) = run(&["diagnose", &a, &b, "-q", "--max-packets", "500", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let verdict = json["verdict"].as_str().unwrap();
    assert!(verdict.contains("This holds for the first "), "{verdict}");
    assert!(json["captures"][0]["not_kept"].as_u64().unwrap() > 0);
    assert!(json["captures"][0]["compared_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn pieces_of_captures_are_compared_as_one_each() {
    let (folder, [a, b]) = captures();
    let compared = |arguments: &[&str]| -> serde_json::Value {
        let (code, out, err) = run(&[&["diagnose", "-q", "--json"], arguments].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).expect("JSON")
    };
    let pieces = |name: &str, capture: &str| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        rotated(capture, &folder);
        folder.to_str().expect("text").to_owned()
    };
    let (whole, [a, b]) = (
        compared(&[&a, &b]),
        [("a", a), ("b", b)].map(|(n, c)| pieces(n, &c)),
    );
    let joined = compared(&["--join", &a, "--other", &b]);
    assert_eq!(joined["ways"], whole["ways"]);
    assert_eq!(joined["clocks"], whole["clocks"]);

    // Without it, three captures are too many.
    let first = format!("{a}/9.pcap");
    let (code, _, err) = run(&["diagnose", &first, &first, &first]);
    assert_eq!(code, 2);
    assert!(err.contains("--join"), "{err}");
}

/// Writes a changed copy of a capture of the lab beside it, and returns its path. `change` gets each packet's number, the
/// seconds at which it was captured, and its IP packet.
fn changed(capture: &str, change: impl Fn(usize, &mut [u8], &mut [u8])) -> String {
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    const ETHERNET: usize = 14;
    let mut bytes = std::fs::read(capture).expect("a capture");
    let (mut rest, mut number) = (&mut bytes[FILE_HEADER..], 0);
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().expect("a length")) as usize;
        let (record, later) = rest.split_at_mut(RECORD_HEADER + length);
        let (header, frame) = record.split_at_mut(RECORD_HEADER);
        change(number, &mut header[..4], &mut frame[ETHERNET..]);
        (rest, number) = (later, number + 1);
    }
    let path = format!("{capture}.changed.pcap");
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn rewritten_sequence_numbers_are_no_losses() {
    let (_folder, [a, b]) = captures();
    // As a firewall does that hides how the server chooses its first number.
    let rewritten = changed(&b, |_, _, packet| {
        let is_of_server = packet[20..22] == 443u16.to_be_bytes();
        let acknowledges = packet[33] & 0x10 != 0;
        let field = match is_of_server {
            true => 24..28,
            false if acknowledges => 28..32,
            false => return,
        };
        let number = u32::from_be_bytes(packet[field.clone()].try_into().expect("a number"));
        packet[field].copy_from_slice(&number.wrapping_add(77_777_777).to_be_bytes());
    });
    let (code, out, _) = run(&["diagnose", &a, &rewritten, "-q"]);
    assert_eq!(code, 0);
    let first = out.lines().next().unwrap_or_default();
    assert!(first.contains("share no data packets"), "{out}");
    assert!(first.contains("rewrites sequence numbers"), "{out}");
    assert!(!out.contains("lost"), "{out}");
    let (_, json, _) = run(&["diagnose", &a, &rewritten, "-q", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["between"], "unclear");
}

#[test]
fn a_clock_that_was_set_gives_no_transit_times() {
    let (_folder, [a, b]) = captures();
    // Two seconds on, from the 1000th packet on.
    let set = changed(&b, |number, seconds, _| {
        seconds[0] += if number < 1_000 { 0 } else { 2 };
    });
    let (code, out, _) = run(&["diagnose", &a, &set, "-q"]);
    assert_eq!(code, 0);
    assert!(
        out.starts_with("A clock was set during the captures"),
        "{out}"
    );
    assert!(out.contains("data packets between A and B"), "{out}");
    for rests_on_times in ["transit  ", "no queue", "confidence", "policer"] {
        assert!(!out.contains(rests_on_times), "{rests_on_times}: {out}");
    }
    let (_, json, _) = run(&["diagnose", &a, &set, "-q", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["clocks"]["uneven"], true);
    assert_eq!(json["between"], "unclear");
    assert!(json["ways"][0]["transit_ms"].is_null());
}
