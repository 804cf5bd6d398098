//! What `tidegate detect` writes: the table, formats, rows by packet, segment, flow and client.

mod captures;
mod program;
mod rotated;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use captures::capture;
use program::{run, tidegate};
use rotated::rotated;

#[test]
fn the_table_fits_80_columns_and_shows_the_verdict() {
    let (code, out, err) = run(&["detect", &capture()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert_eq!(out.matches("policer 1.50 Mbit/s").count(), 5, "{out}");
    assert!(
        out.contains("5 rows of fewer than 30 data packets not shown"),
        "{out}"
    );
    assert!(
        out.contains("1 rate cluster (±5 %) covers 100.0% of the policing rates (on the link)"),
        "{out}"
    );
    assert!(
        out.contains("verdicts on 10 transfers: 5 policer, 5 "),
        "{out}"
    );
    assert!(!out.contains('\u{1b}'), "colours only on a terminal");

    let (_, all, _) = run(&["detect", "--all", &capture()]);
    assert_eq!(all.matches(" client ").count(), 5, "{all}");
}

/// The published detector shows what it showed before there was another.
#[test]
fn the_published_detector_is_there_for_comparison() {
    let (code, out, err) = run(&["detect", "--detector", "pd", &capture()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert_eq!(out.matches("policed 1.43 Mbit/s").count(), 5, "{out}");
    assert!(
        out.contains(
            "5 segments with data; 5 lossy (15 losses or more); 5 policed (100.0% of these)"
        ),
        "{out}"
    );
    assert!(!out.contains("verdicts on"), "{out}");
}

/// What is judged together: one transfer alone has no depth, since nobody knows how full the bucket was.
#[test]
fn the_basis_bounds_what_is_judged_together() {
    for (wanted, found) in [
        (&["--basis", "segment"][..], "segment"),
        (&["--basis", "connection"], "connection"),
        (&["--basis", "client"], "client"),
        (&[], "client"),
    ] {
        let capture = capture();
        let arguments = [&["detect", "-f", "json", &capture], wanted].concat();
        let (code, out, err) = run(&arguments);
        assert_eq!((code, err.as_str()), (0, ""));
        let rows: Vec<serde_json::Value> = serde_json::from_str(&out).expect("JSON");
        let policed: Vec<_> = rows
            .iter()
            .filter(|row| row["verdict"] == "policer")
            .collect();
        assert_eq!(policed.len(), 5);
        for row in policed {
            assert_eq!(row["verdict_basis"], found);
            assert_eq!(
                row["limit_depth_bytes"].is_null(),
                found == "segment",
                "{row}"
            );
        }
    }
    let (code, _, err) = run(&[
        "detect",
        "--detector",
        "pd",
        "--basis",
        "client",
        &capture(),
    ]);
    assert_eq!(code, 2);
    assert!(err.contains("judges every segment alone"), "{err}");
}

#[test]
fn csv_json_and_json_lines_hold_the_same() {
    let (_, csv, _) = run(&["detect", "-f", "csv", &capture()]);
    let (_, json, _) = run(&["detect", "-f", "json", &capture()]);
    let (_, lines, _) = run(&["detect", "-f", "jsonl", &capture()]);
    let json: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(&json).expect("JSON");
    let lines: Vec<serde_json::Map<String, serde_json::Value>> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(json, lines);
    let mut rows = csv.lines();
    let names: Vec<&str> = rows.next().expect("a header").split(',').collect();
    // The interface that scripts rely on; more columns follow.
    let promised = "file,flow,segment,sender,sender_port,receiver,receiver_port,start_s,duration_s,\
        data_packets,lost_packets,loss_rate,goodput_bps,rtt_min_ms,rtt_median_ms,policed,code,rate_bps,\
        burst_bytes,policed_cut2,code_cut2,rate_bps_cut2,burst_bytes_cut2";
    assert_eq!(names[..23].join(","), promised);
    assert_eq!(json.len(), 10);
    for (row, object) in rows.zip(&json) {
        // The corpus's path holds no comma, nor does any other field.
        for (name, field) in names.iter().zip(row.split(',')) {
            let value = match &object[*name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let same = value == field
                || value
                    .parse::<f64>()
                    .ok()
                    .zip(field.parse::<f64>().ok())
                    .is_some_and(|(a, b)| a == b);
            assert!(same, "{name}: {field} in CSV, {value} in JSON");
        }
    }
}

#[test]
fn parquet_goes_to_a_file_or_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.parquet");
    let (code, out, err) = run(&[
        "detect",
        "-f",
        "parquet",
        "-o",
        path.to_str().expect("text"),
        &capture(),
    ]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let bytes = fs::read(&path).expect("the file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let piped = tidegate(&["detect", "-f", "parquet", &capture()])
        .output()
        .expect("runs")
        .stdout;
    assert_eq!(piped, bytes);
}

#[test]
fn rows_by_flow_and_only_some_ports() {
    let (code, out, _) = run(&["detect", "--by", "flow", "-f", "jsonl", &capture()]);
    assert_eq!((code, out.lines().count()), (0, 2));
    let server: serde_json::Value =
        serde_json::from_str(out.lines().last().expect("a row")).expect("JSON");
    assert_eq!(server["pattern"], "none");
    assert_eq!(server["mss_bytes"], 1448);
    assert_eq!(
        (&server["segments"], &server["policed_segments"]),
        (&5.into(), &5.into())
    );
    let (code, out, _) = run(&["detect", "--port", "1235", "-f", "csv", &capture()]);
    assert_eq!((code, out.lines().count()), (0, 1), "only the header");
}

/// Flows and clients get the verdict that their segments share, in the same columns.
#[test]
fn rows_by_client_have_the_verdict_too() {
    let rows = |by: &str| -> Vec<serde_json::Value> {
        let (code, out, err) = run(&["detect", "--by", by, "-f", "json", &capture()]);
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).expect("JSON")
    };
    let segments = rows("segment");
    let segment = segments
        .iter()
        .find(|row| row["verdict"] == "policer")
        .expect("a policed segment");
    for by in ["flow", "client"] {
        let rows = rows(by);
        assert_eq!(rows.len(), 2, "one for each direction");
        let row = rows
            .iter()
            .find(|row| row["from_client"] == false)
            .expect("the server's data");
        for column in [
            "verdict",
            "verdict_basis",
            "verdict_shared",
            "limit_rate_bps",
        ] {
            assert_eq!(row[column], segment[column], "{by}, {column}");
        }
        assert_eq!(
            (&row["segments"], &row["policed_segments"]),
            (&5.into(), &5.into())
        );
        assert_eq!(row["share_policer"], 1.0);
        // What the verdict rests on is that of the longest policed segment.
        let policed = segments.iter().filter(|row| row["verdict"] == "policer");
        let duration = |row: &&serde_json::Value| row["duration_s"].as_f64();
        let longest = policed.max_by(|x, y| duration(x).partial_cmp(&duration(y)).expect("times"));
        let longest = longest.expect("a policed segment");
        for column in [
            "path_rtt_ms",
            "losses_explained",
            "queue_filled",
            "delay_p95_ms",
        ] {
            assert!(row[column].is_number(), "{by}, {column}");
            assert_eq!(row[column], longest[column], "{by}, {column}");
        }
        let sum = |name: &str| -> u64 {
            let sent = segments.iter().filter(|row| row["from_client"] == false);
            sent.map(|row| row[name].as_u64().expect("a count")).sum()
        };
        for count in [
            "retransmitted_packets",
            "spurious_packets",
            "unique_bytes",
            "unseen_bytes",
        ] {
            assert_eq!(row[count], sum(count), "{by}, {count}");
        }
    }
    let (code, table, _) = run(&["detect", "--by", "client", &capture()]);
    assert_eq!(code, 0);
    assert!(table.contains("client 10.0.0.1\n"), "{table}");
    assert!(table.contains("policer 1.50 Mbit/s"), "{table}");
}

/// Of a capture with gaps no confidence is known, but the verdict is.
#[test]
fn tables_name_a_verdict_without_confidence() {
    let folder = tempfile::tempdir().expect("a folder");
    // One in ten of the large packets is missing.
    let mut large = 0;
    let mut kept = rotated::frames(&capture());
    kept.retain(|frame| {
        large += u32::from(frame.wire_len > 1_000);
        frame.wire_len <= 1_000 || !large.is_multiple_of(10)
    });
    let path = rotated::write(&folder.path().join("gaps.pcap"), &kept);
    for by in ["segment", "flow", "client"] {
        let (code, table, _) = run(&["detect", "--by", by, &path]);
        assert_eq!(code, 0);
        assert!(table.contains("   - policer 1.5"), "{by}: {table}");
    }
}

/// What the results lack is said on standard error, whatever their format.
#[test]
fn warnings_are_in_every_format() {
    let Ok(output) = Command::new("xz").args(["-dc", &capture()]).output() else {
        eprintln!("SKIPPED: no xz here");
        return;
    };
    // A classic capture: a header of 24 bytes, then a header of 16 bytes before each packet. Cut the
    // fourth packet to 20 bytes, too few for a TCP header.
    let mut bytes = output.stdout;
    let mut place = 24;
    let captured = |bytes: &[u8], place: usize| {
        let field = bytes[place + 8..place + 12].try_into().expect("4 bytes");
        u32::from_le_bytes(field) as usize
    };
    for _ in 0..3 {
        place += 16 + captured(&bytes, place);
    }
    let length = captured(&bytes, place);
    bytes.drain(place + 16 + 20..place + 16 + length);
    bytes[place + 8..place + 12].copy_from_slice(&20u32.to_le_bytes());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.pcap");
    fs::write(&path, bytes).expect("written");
    let rows = folder.path().join("rows.parquet");
    let rows = rows.to_str().expect("text");
    for format in [
        &["-f", "csv"][..],
        &["-f", "json"],
        &["-f", "jsonl"],
        &["-f", "parquet", "-o", rows],
        &["-f", "table"],
        &["--summary"],
    ] {
        let (code, out, err) = run(&[&["detect", path.to_str().expect("text")], format].concat());
        assert_eq!(code, 0, "{format:?}");
        assert!(
            err.starts_with("tidegate: warning: 1 packet too short to show a TCP header"),
            "{format:?}: {err}"
        );
        assert!(!out.contains("too short"), "{format:?}: {out}");
    }
}

/// Every number of a segment's row can be recomputed from its packets' rows.
#[test]
fn rows_by_packet_add_up_to_those_by_segment() {
    let rows = |by: &str| -> Vec<serde_json::Value> {
        let (code, out, err) = run(&["detect", "--by", by, "-f", "json", &capture()]);
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).expect("JSON")
    };
    let packets = rows("packet");
    for segment in rows("segment") {
        let of_it: Vec<_> = packets
            .iter()
            .filter(|packet| {
                packet["segment"] == segment["segment"] && packet["sender"] == segment["sender"]
            })
            .collect();
        let count = |name: &str| of_it.iter().filter(|packet| packet[name] == true).count();
        assert_eq!(segment["data_packets"], of_it.len());
        assert_eq!(segment["lost_packets"], count("lost"));
        assert_eq!(segment["retransmitted_packets"], count("retransmission"));
        let rtts = of_it.iter().filter_map(|packet| packet["rtt_ms"].as_f64());
        let least = rtts.fold(f64::INFINITY, f64::min);
        // A request of a packet has none: this is its receiver's capture.
        match segment["rtt_min_ms"].as_f64() {
            Some(found) => assert!((found - least).abs() < 1e-6),
            None => assert!(least.is_infinite()),
        }
        for packet in &of_it {
            if let Some(repeats) = packet["retransmits"].as_u64() {
                let original = packets.iter().find(|other| {
                    other["packet"] == repeats && other["sender"] == packet["sender"]
                });
                let original = original.expect("the packet that it repeats");
                assert_eq!(original["retransmitted_by"], packet["packet"]);
                assert_eq!(original["sequence"], packet["sequence"]);
            }
        }
    }
    let (code, _, err) = run(&["detect", "--by", "packet", &capture()]);
    assert_eq!(code, 2);
    assert!(err.contains("-f csv"), "{err}");
}

#[test]
fn the_summary_alone() {
    let (code, out, _) = run(&["detect", "--summary", "-f", "json", &capture()]);
    let summary: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, 0);
    assert_eq!(summary["segments"], 5);
    assert_eq!(summary["segments_policed"], 5);
    assert_eq!(summary["verdicts"]["policer"], 5);
    assert_eq!(summary["rate_layer"], "link");
    assert_eq!(summary["rate_clusters"].as_array().map(Vec::len), Some(1));
}

/// A capture that grows: verdicts come while it does, although none of its connections has ended.
#[test]
fn a_growing_capture_is_followed() {
    let decompressed = Command::new("xz").args(["-dc", &capture()]).output();
    let Ok(bytes) = decompressed.map(|output| output.stdout) else {
        eprintln!("SKIPPED: no xz here");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("growing.pcap");
    let mut growing = fs::File::create(&path).expect("a file");
    growing
        .write_all(&bytes[..bytes.len() / 2])
        .expect("written");
    let mut child = tidegate(&["detect", "--follow", "-f", "jsonl"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidegate runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut policed = lines
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
        .filter(|row: &serde_json::Value| row["policed_any"] == true);
    assert!(policed.next().is_some(), "before the rest is written");
    growing
        .write_all(&bytes[bytes.len() / 2..])
        .expect("written");
    assert!(policed.next().is_some(), "and behind the former end");
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    assert!(policed.next().is_some(), "the last one ends with it");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
}

/// The pieces of a rotated capture are one capture, whatever their names.
#[test]
fn joined_pieces_give_what_the_whole_gives() {
    let folder = tempfile::tempdir().expect("a folder");
    let pieces = rotated(&capture(), folder.path());
    let rows = |arguments: &[&str], hint: bool| -> Vec<String> {
        let (code, out, err) = run(arguments);
        assert_eq!((code, err.contains("add --join")), (0, hint), "{err}");
        // All but the name of the file.
        let row = |line: &str| line.split_once(',').expect("columns").1.to_owned();
        out.lines().map(row).collect()
    };
    let pieces = pieces.iter().map(String::as_str);
    let apart: Vec<&str> = ["detect", "-f", "csv"].into_iter().chain(pieces).collect();
    let joined = [&apart[..], &["--join"]].concat();
    let expected = rows(&["detect", "-f", "csv", &capture()], false);
    assert_eq!(rows(&joined, false), expected);
    // Each for itself, they are other connections.
    assert!(rows(&apart, true).len() > expected.len());
}

/// What cannot be read is named in one line: here UDP and ESP, and no TCP at all.
#[test]
fn other_protocols_are_named() {
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    capture.extend([0; 8]);
    capture.extend([0xff, 0xff, 0, 0, 1, 0, 0, 0]);
    for (second, protocol) in [(1, 17), (2, 17), (3, 50)] {
        let mut frame = [0; 54];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..18].copy_from_slice(&[0x45, 0, 0, 40]);
        frame[23] = protocol;
        for field in [second, 0, 54, 54u32] {
            capture.extend(field.to_le_bytes());
        }
        capture.extend(frame);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("others.pcap");
    fs::write(&path, capture).expect("written");
    let (code, _, err) = run(&["detect", path.to_str().expect("text"), "-f", "csv"]);
    assert_eq!(code, 0);
    let line = "3 packets, none of them TCP that can be read: 3 other IP (2 UDP, 1 ESP)\n";
    assert!(err.ends_with(line), "{err}");
    assert_eq!(err.lines().count(), 1);
}
