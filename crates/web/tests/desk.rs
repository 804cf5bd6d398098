//! What the page is answered, on captures of the corpus.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Value, json};
use tidegate_web::{Desk, Files, Reply};

struct Corpus;

impl Files for Corpus {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        let name = ["policed-1500kbit", "shaped-1500kbit"].get(capture as usize);
        let name = name.ok_or_else(|| io::Error::other("no such file"))?;
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
        let file = File::open(corpus.join(name).join(format!("{name}.pcap.xz")))?;
        Ok(Box::new(file))
    }
}

fn desk(captures: u32) -> Desk<Corpus> {
    let mut desk = Desk::new(Corpus);
    for capture in 0..captures {
        let name = format!("{capture}.pcap");
        ask(
            &mut desk,
            json!({ "ask": "read", "capture": capture, "name": name }),
        );
    }
    desk
}

fn ask(desk: &mut Desk<impl Files>, request: Value) -> Value {
    match desk.answer(&request.to_string()) {
        Ok(Reply::Text(text)) => serde_json::from_str(&text).expect("JSON"),
        other => panic!("{request}: {other:?}"),
    }
}

fn arrange(desk: &mut Desk<Corpus>, mut by: Value) -> Value {
    by["ask"] = "arrange".into();
    ask(desk, by)
}

/// A column of the lines that are shown.
fn column(desk: &mut Desk<Corpus>, key: &str) -> Vec<String> {
    let columns = ask(desk, json!({ "ask": "columns" }));
    let columns = columns.as_array().expect("columns");
    let place = columns.iter().position(|column| column["key"] == key);
    let place = place.expect("a column");
    let lines = ask(desk, json!({ "ask": "lines", "from": 0, "count": 100 }));
    let lines = lines.as_array().expect("lines").iter();
    lines
        .map(|line| line["cells"][place].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn transfers_are_sorted_filtered_and_found() {
    let mut desk = desk(2);
    let all = arrange(&mut desk, json!({}));
    assert_eq!((&all["shown"], &all["all"]), (&json!(10), &json!(20)));
    assert_eq!(all["causes"], json!({ "policer": 5, "queue": 5 }));
    assert_eq!(column(&mut desk, "segment")[..5], ["0", "1", "2", "3", "4"]);
    arrange(&mut desk, json!({ "sort": "packets", "descending": true }));
    let packets: Vec<u64> = column(&mut desk, "packets")
        .iter()
        .map(|text| text.parse().expect("a number"))
        .collect();
    assert!(
        packets.is_sorted_by(|one, other| one >= other),
        "{packets:?}"
    );
    // Those without a limit come last in either order.
    for descending in [false, true] {
        arrange(
            &mut desk,
            json!({ "sort": "rate", "descending": descending, "all": true }),
        );
        let rates = column(&mut desk, "rate");
        assert!(rates[..10].iter().all(|rate| rate != "-"), "{rates:?}");
        assert!(rates[10..].iter().all(|rate| rate == "-"), "{rates:?}");
    }
    arrange(&mut desk, json!({ "find": "POLICER 1.50" }));
    assert_eq!(column(&mut desk, "verdict"), ["policer 1.50 Mbit/s"; 5]);
    let queues = arrange(&mut desk, json!({ "cause": "queue", "all": true }));
    assert_eq!(queues["shown"], 5);
}

#[test]
fn a_transfer_is_explained_and_drawn() {
    let mut desk = desk(1);
    let place =
        json!({ "ask": "explain", "capture": 0, "flow": 0, "segment": 0, "from_client": false });
    let story = ask(&mut desk, place);
    assert_eq!(story["verdict"], "policer");
    let whole = story["seconds"].as_f64().expect("a time");
    let panels = story["panels"].as_array().expect("panels");
    let keys: Vec<&Value> = panels.iter().map(|panel| &panel["key"]).collect();
    let wanted = [
        "sequence",
        "throughput",
        "flight",
        "rtt",
        "tokens",
        "waited",
        "gaps",
        "bursts",
    ];
    assert_eq!(keys, wanted);
    for panel in panels {
        let axis = &panel["axis"];
        let (from, to) = match axis {
            Value::Null => (0.0, whole),
            _ => (number(&axis["from"]), number(&axis["to"])),
        };
        let view = json!({ "from": from, "to": to, "columns": 500, "rows": 200 });
        let request = json!({ "ask": "panel", "panel": panel["key"], "view": view });
        let Ok(Reply::Numbers(numbers)) = desk.answer(&request.to_string()) else {
            panic!("{request}");
        };
        let (low, high) = (numbers[0], numbers[1]);
        let mut at = 2;
        for curve in panel["curves"].as_array().expect("curves") {
            let count = numbers[at] as usize;
            let points = &numbers[at + 1..at + 1 + 2 * count];
            assert!(count > 0 && count <= curve["points"].as_u64().expect("a count") as usize);
            assert!(
                points
                    .chunks(2)
                    .all(|point| point[0] >= from && point[0] <= to)
            );
            let aside = ["window", "queue"].iter().any(|key| curve["key"] == *key);
            assert!(
                aside
                    || points
                        .chunks(2)
                        .all(|point| point[1] >= low && point[1] <= high),
                "{curve}"
            );
            at += 1 + 2 * count;
        }
        assert_eq!(at, numbers.len());
    }
    // All packets, of which the story counts those that were lost.
    let measured = ask(
        &mut desk,
        json!({ "ask": "measure", "from": 0.0, "to": whole }),
    );
    assert_eq!(measured["packets"], story["transfer"]["data_packets"]);
    assert_eq!(measured["lost"], story["transfer"]["lost_packets"]);
    let packet = ask(&mut desk, json!({ "ask": "packet", "at": 0.0 }));
    assert_eq!((&packet["place"], &packet["seq"]), (&json!(0), &json!(0.0)));
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The points of a panel's curve over the whole transfer.
fn curve(desk: &mut Desk<impl Files>, story: &Value, panel: &str, key: &str) -> Vec<(f64, f64)> {
    curve_of(desk, "panel", story, panel, key)
}

fn curve_of(
    desk: &mut Desk<impl Files>,
    of: &str,
    story: &Value,
    panel: &str,
    key: &str,
) -> Vec<(f64, f64)> {
    let panels = story["panels"].as_array().expect("panels");
    let found = panels.iter().find(|one| one["key"] == panel);
    let curves = found.expect("the panel")["curves"]
        .as_array()
        .expect("curves");
    let axis = &found.expect("the panel")["axis"];
    let (from, to) = match axis {
        Value::Null => (0.0, number(&story["seconds"])),
        _ => (number(&axis["from"]), number(&axis["to"])),
    };
    let view = json!({ "from": from, "to": to, "columns": 10_000, "rows": 10_000 });
    let request = json!({ "ask": of, "panel": panel, "view": view });
    let Ok(Reply::Numbers(numbers)) = desk.answer(&request.to_string()) else {
        panic!("{request}");
    };
    let mut rest = &numbers[2..];
    for curve in curves {
        let (points, behind) = rest[1..].split_at(2 * rest[0] as usize);
        if curve["key"] == key {
            return points.chunks(2).map(|point| (point[0], point[1])).collect();
        }
        rest = behind;
    }
    panic!("no curve {key} in {panel}: {curves:?}");
}

fn explain(desk: &mut Desk<impl Files>, capture: u32) -> Value {
    let place = json!({ "ask": "explain", "capture": capture, "flow": 0, "segment": 0, "from_client": false });
    ask(desk, place)
}

#[test]
fn the_receiver_s_window_and_blocks_are_drawn() {
    let mut desk = desk(1);
    let story = explain(&mut desk, 0);
    // Data never exceeds what the receiver announced.
    let edges = curve(&mut desk, &story, "sequence", "window");
    for (at, sequence) in curve(&mut desk, &story, "sequence", "data") {
        let before = edges.partition_point(|(edge, _)| *edge <= at);
        if let Some((_, edge)) = before.checked_sub(1).map(|last| edges[last]) {
            assert!(sequence < edge, "{sequence} at {at} s, behind {edge}");
        }
    }
    let acked = curve(&mut desk, &story, "sequence", "acked");
    let sacked = curve(&mut desk, &story, "sequence", "sacked");
    assert!(sacked.len() > 20);
    for block in sacked.chunks(2) {
        assert!(block[0].0 == block[1].0 && block[0].1 < block[1].1);
        // Nothing is acknowledged selectively that is acknowledged already.
        let before = acked.partition_point(|(at, _)| *at < block[0].0);
        let known = before.checked_sub(1).map_or(0.0, |last| acked[last].1);
        assert!(block[1].1 >= known, "{block:?} below {known}");
    }
}

#[test]
fn each_sentence_of_the_story_has_a_moment_of_the_picture() {
    let mut desk = desk(1);
    let story = explain(&mut desk, 0);
    let panels = story["panels"].as_array().expect("panels");
    for part in ["evidence", "ruled_out"] {
        let moments = story["moments"][part].as_array().expect("moments");
        assert_eq!(
            moments.len(),
            story[part].as_array().expect("sentences").len()
        );
        for moment in moments {
            assert!(
                panels.iter().any(|panel| panel["key"] == moment["panel"]),
                "{moment}"
            );
            let (from, to) = (number(&moment["from"]), number(&moment["to"]));
            assert!(
                0.0 <= from && from < to && to <= number(&story["seconds"]),
                "{moment}"
            );
        }
    }
    // The sentence about losses shows some, and less than all of the transfer.
    let told = &story["evidence"][0];
    assert!(
        told.as_str().expect("a sentence").contains("were lost"),
        "{told}"
    );
    let shown = &story["moments"]["evidence"][0];
    let (from, to) = (number(&shown["from"]), number(&shown["to"]));
    let measured = ask(
        &mut desk,
        json!({ "ask": "measure", "from": from, "to": to }),
    );
    assert!(number(&measured["lost"]) > 1.0, "{measured}");
    assert!(to - from < 0.5 * number(&story["seconds"]), "{shown}");
}

#[test]
fn the_window_of_throughput_is_chosen() {
    let mut desk = desk(1);
    let story = explain(&mut desk, 0);
    let whole = number(&story["seconds"]);
    let sent = |desk: &mut Desk<Corpus>, width: f64| {
        let windows = curve(desk, &story, "throughput", "sent");
        let (last, before) = (windows[windows.len() - 1], windows[windows.len() - 2]);
        // The last window ends with the transfer, and is drawn until there.
        assert_eq!((last.0, last.1), (whole, before.1), "{width} s");
        assert!(last.0 - before.0 > width.min(whole) * 0.49, "{width} s");
        let windows = windows.windows(2);
        windows
            .map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) / 8.0)
            .sum::<f64>()
    };
    let first = sent(&mut desk, number(&story["window_s"]));
    for seconds in [0.01, 0.5, whole, whole / 2.0 - 1e-6, 1e6] {
        let chosen = ask(&mut desk, json!({ "ask": "window", "seconds": seconds }));
        assert!((number(&chosen["window_s"]) - seconds).abs() < 1e-9);
        assert!((sent(&mut desk, seconds) / first - 1.0).abs() < 1e-6);
    }
    let suitable = ask(&mut desk, json!({ "ask": "window" }));
    assert_eq!(suitable["window_s"], story["window_s"]);
    for seconds in [0.0, -1.0] {
        let request = json!({ "ask": "window", "seconds": seconds });
        assert!(desk.answer(&request.to_string()).is_err());
    }
    // However short: memory is bounded.
    let shortest = ask(&mut desk, json!({ "ask": "window", "seconds": 1e-12 }));
    assert!(number(&shortest["window_s"]) > 1e-6);
}

#[test]
fn packets_are_stepped_through_and_saved() {
    let mut desk = desk(1);
    let story = explain(&mut desk, 0);
    let lost = ask(
        &mut desk,
        json!({ "ask": "packet-at", "place": 0, "lost": true }),
    );
    let said = lost["facts"][0].as_str().expect("a fact");
    assert!(said.starts_with("lost, retransmitted by packet "), "{said}");
    let past = json!({ "ask": "packet-at", "place": u32::MAX, "lost": false });
    let last = ask(&mut desk, past);
    let all = story["transfer"]["data_packets"].as_u64().expect("a count");
    assert_eq!(last["place"].as_u64(), Some(all - 1));
    let part = json!({ "ask": "packets", "from": 0.0, "to": lost["at_s"] });
    let Ok(Reply::Text(csv)) = desk.answer(&part.to_string()) else {
        panic!("{part}");
    };
    let measured = ask(
        &mut desk,
        json!({ "ask": "measure", "from": 0.0, "to": lost["at_s"] }),
    );
    assert_eq!(csv.lines().count() as u64 - 1, measured["packets"]);
    assert!(csv.starts_with("file,flow,segment,sender,"));
}

/// A download through a limiter of 5 Mbit/s with room for 64 kB, captured at the server.
fn simulated(kind: &str, room: &str) -> Desk<InMemory> {
    let scenario = format!(
        r#"
        title = "A limited download"
        duration = "15s"
        [[element]]
        name = "server"
        kind = "tap"
        [[element]]
        name = "gate"
        kind = "{kind}"
        rate = "5mbit"
        {room}
        [[flow]]
        name = "download"
        cc = "cubic"
        rtt = "40ms"
        traffic = {{ kind = "bulk", size = "8MB" }}
        path = ["server", "gate"]
        back = ["server"]
        "#
    );
    captured(&scenario)
}

/// A desk that has read the captures of a scenario's taps, by their names.
fn captured(scenario: &str) -> Desk<InMemory> {
    let mut lab = Desk::new(InMemory(Vec::new()));
    let told = ask(&mut lab, json!({ "ask": "simulate", "scenario": scenario }));
    let names = told["captures"].as_array().expect("captures");
    let captures = names.iter().map(|name| {
        let request = json!({ "ask": "capture", "name": name });
        match lab.answer(&request.to_string()) {
            Ok(Reply::Bytes(capture)) => capture,
            other => panic!("{name}: {other:?}"),
        }
    });
    let mut desk = Desk::new(InMemory(captures.collect()));
    for (capture, name) in names.iter().enumerate() {
        ask(
            &mut desk,
            json!({ "ask": "read", "capture": capture, "name": name }),
        );
    }
    desk
}

struct InMemory(Vec<Vec<u8>>);

impl Files for InMemory {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        let capture = self.0[capture as usize].clone();
        Ok(Box::new(io::Cursor::new(capture)))
    }
}

#[test]
fn a_queue_delays_packets_as_its_model_does_and_a_policer_does_not() {
    for (kind, room, level) in [
        ("policer", "burst = \"64kB\"", "tokens"),
        ("shaper", "policy = \"queue\"\nqueue = \"64kB\"", "queued"),
    ] {
        let mut desk = simulated(kind, room);
        let story = explain(&mut desk, 0);
        let room = curve(&mut desk, &story, level, "full")[0].1;
        assert!((room / 64e3 - 1.0).abs() < 0.1, "{kind} of {room} B");
        // Packets are lost where the bucket is empty, or the queue full.
        let wanted = if kind == "shaper" { room } else { 0.0 };
        for (at, level) in curve(&mut desk, &story, level, "lost") {
            assert!(
                (level - wanted).abs() < 0.15 * room,
                "{kind}: {level} B at {at} s"
            );
        }
        let waited = curve(&mut desk, &story, "waited", "packets");
        let sum = |part: fn(&(f64, f64)) -> f64| waited.iter().map(part).sum::<f64>();
        let (modelled, measured) = (sum(|point| point.0), sum(|point| point.1));
        match kind {
            "shaper" => assert!(
                (measured / modelled - 1.0).abs() < 0.1,
                "{measured} {modelled}"
            ),
            _ => assert!(measured < 0.25 * modelled, "{measured} {modelled}"),
        }
    }
}

#[test]
fn two_captures_tell_what_happened_between_their_places() {
    let mut desk = captured(
        r#"
        title = "Between two places"
        duration = "3s"
        [[element]]
        name = "a-front"
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
        name = "b-back"
        kind = "tap"
        [[flow]]
        name = "download"
        rtt = "0ms"
        path = ["a-front", "gate", "way", "b-back"]
        back = ["b-back", "way", "a-front"]
        "#,
    );
    let told = ask(&mut desk, json!({ "ask": "compare", "captures": [0, 1] }));
    let headline = told["headline"].as_str().expect("a sentence");
    assert!(
        headline.starts_with("A policer from A to B at 20."),
        "{headline}"
    );
    let mut points =
        |panel: &str, key: &str| curve_of(&mut desk, "between-panel", &told, panel, key);
    // Both ways took 10 ms.
    for panel in ["transit", "back"] {
        let measured = points(panel, "measured");
        assert!(measured.len() > 100);
        for (at, transit) in measured {
            assert!(
                (transit - 0.010).abs() < 0.002,
                "{panel}: {transit} s at {at} s"
            );
        }
    }
    // Those that a bucket of 60 kB drops come late in a burst.
    let depth = points("position", "depth")[0].0;
    assert!((depth / 60e3 - 1.0).abs() < 0.1, "{depth}");
    let lost = points("between-flight", "lost");
    assert!(!lost.is_empty() && !points("transit", "queue").is_empty());
    // What a person points at, measures and saves are the packets of these curves.
    let packet = ask(
        &mut desk,
        json!({ "ask": "between-packet", "at": lost[0].0 }),
    );
    assert_eq!(packet["fate"], "lost", "{packet}");
    assert_eq!(
        (&packet["at_s"], &packet["transit_s"]),
        (&json!(lost[0].0), &Value::Null)
    );
    let whole = json!({ "ask": "between-measure", "from": 0, "to": told["seconds"] });
    let all = ask(&mut desk, whole);
    let drops = format!("drops {} data packets", all["lost"]);
    assert!(headline.contains(&drops), "{headline}: {drops}");
    let median = all["transit_median_s"].as_f64().expect("a time");
    assert!((median - 0.010).abs() < 0.002, "{median}");
    let part = json!({ "ask": "between-packets", "from": 0, "to": told["seconds"] });
    let Ok(Reply::Text(csv)) = desk.answer(&part.to_string()) else {
        panic!("no table");
    };
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(all["packets"], rows.len());
    let fate = |row: &&str| row.split(',').nth(7) == Some("lost");
    assert_eq!(all["lost"], rows.into_iter().filter(fate).count());
    // Captures of other traffic have nothing in common, and what was not read cannot be compared.
    let same = json!({ "ask": "compare", "captures": [0, 7] });
    assert!(desk.answer(&same.to_string()).is_err());
    let gone = json!({ "ask": "between-panel", "panel": "transit", "view": { "from": 0, "to": 1, "columns": 9, "rows": 9 } });
    assert!(desk.answer(&gone.to_string()).is_err());
}

#[test]
fn the_transfers_that_are_listed_are_summed_up() {
    let mut desk = desk(2);
    arrange(&mut desk, json!({ "all": true }));
    let told = ask(&mut desk, json!({ "ask": "summary" }));
    assert_eq!(told["transfers"], 20);
    let verdicts = told["verdicts"].as_array().expect("verdicts");
    let sum: u64 = verdicts
        .iter()
        .filter_map(|one| one["transfers"].as_u64())
        .sum();
    assert_eq!(sum, 20);
    assert_eq!(
        (&told["policed"], &told["rates"][0]["transfers"]),
        (&json!(5), &json!(5))
    );
    let rate = number(&told["rates"][0]["bps"]);
    assert!((rate / 1.5e6 - 1.0).abs() < 0.01, "{rate}");
    for (key, most) in [("policed", 24.0), ("others", 2.0)] {
        let losses = curve_of(&mut desk, "summary-panel", &told, "losses", key);
        let (greatest, share) = losses[losses.len() - 1];
        assert!(
            greatest <= most && share == 100.0,
            "{key}: {greatest} {share}"
        );
    }
    // The filter counts.
    arrange(&mut desk, json!({ "cause": "queue" }));
    let told = ask(&mut desk, json!({ "ask": "summary" }));
    assert_eq!(
        (&told["transfers"], &told["policed"]),
        (&json!(5), &json!(0))
    );
}

/// Pauses after every frame.
struct Slow;

impl Files for Slow {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        Corpus.open(capture)
    }

    fn pauses(&self) -> bool {
        true
    }
}

#[test]
fn a_capture_that_is_read_in_steps_gets_the_same_lines() {
    let mut desk = Desk::new(Slow);
    assert!(desk.begin(7, "x".to_owned()).is_err());
    desk.begin(0, "0.pcap".to_owned()).expect("a capture");
    let mut steps = 0;
    let report = loop {
        steps += 1;
        if let Some(report) = desk.proceed() {
            break serde_json::from_str::<Value>(&report).expect("JSON");
        }
    };
    assert_eq!(report["packets"], steps - 1);
    assert!(desk.proceed().is_none());
    let mut at_once = self::desk(1);
    for request in [
        json!({ "ask": "arrange", "all": true }),
        json!({ "ask": "csv" }),
    ] {
        let request = request.to_string();
        assert_eq!(desk.answer(&request), at_once.answer(&request));
    }
}

#[test]
fn what_makes_no_sense_is_answered_with_a_sentence() {
    let mut desk = desk(1);
    for (request, said) in [
        ("", "not understood"),
        ("{\"ask\":\"dance\"}", "not understood"),
        (
            "{\"ask\":\"read\",\"capture\":7,\"name\":\"x\"}",
            "x: no such file",
        ),
        (
            "{\"ask\":\"explain\",\"capture\":9,\"flow\":0,\"segment\":0,\"from_client\":true}",
            "open it first",
        ),
        (
            "{\"ask\":\"explain\",\"capture\":0,\"flow\":99,\"segment\":0,\"from_client\":true}",
            "no flow 99",
        ),
        ("{\"ask\":\"packet\",\"at\":1}", "no transfer is shown"),
    ] {
        let error = desk.answer(request).expect_err(request);
        assert!(error.contains(said), "{request}: {error}");
    }
    arrange(&mut desk, json!({}));
    let none = ask(
        &mut desk,
        json!({ "ask": "lines", "from": u64::MAX, "count": u64::MAX }),
    );
    assert_eq!(none, json!([]));
}
