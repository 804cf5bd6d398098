//! What the page is answered of captures that few have: some that change, and one of a single packet.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tidegate_web::{Desk, Files, Reply};

struct InMemory(Vec<Vec<u8>>);

impl Files for InMemory {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        let capture = self.0[capture as usize].clone();
        Ok(Box::new(io::Cursor::new(capture)))
    }
}

fn ask(desk: &mut Desk<impl Files>, request: Value) -> Value {
    match desk.answer(&request.to_string()) {
        Ok(Reply::Text(text)) => serde_json::from_str(&text).expect("JSON"),
        other => panic!("{request}: {other:?}"),
    }
}

fn read(capture: u32) -> Value {
    json!({ "ask": "read", "capture": capture, "name": format!("{capture}.pcap") })
}

fn explain(capture: u32) -> Value {
    json!({ "ask": "explain", "capture": capture, "flow": 0, "segment": 0, "from_client": false })
}

#[test]
fn a_transfer_of_one_packet_has_a_picture() {
    let scenario = r#"
        title = "One packet, and nothing that comes back"
        duration = "2s"
        [[element]]
        name = "server"
        kind = "tap"
        [[flow]]
        name = "download"
        rtt = "40ms"
        traffic = { kind = "bulk", size = "1kB" }
        path = ["server"]
        "#;
    let mut lab = Desk::new(InMemory(Vec::new()));
    ask(&mut lab, json!({ "ask": "simulate", "scenario": scenario }));
    let capture = json!({ "ask": "capture", "name": "server.pcap" });
    let Ok(Reply::Bytes(capture)) = lab.answer(&capture.to_string()) else {
        panic!("no capture");
    };
    let mut desk = Desk::new(InMemory(vec![capture]));
    ask(&mut desk, read(0));
    let story = ask(&mut desk, explain(0));
    assert_eq!(story["seconds"], 1e-6);
    let view = json!({ "from": 0.0, "to": 1e-6, "columns": 500, "rows": 200 });
    for panel in ["sequence", "throughput", "flight"] {
        let request = json!({ "ask": "panel", "panel": panel, "view": view });
        let Ok(Reply::Numbers(numbers)) = desk.answer(&request.to_string()) else {
            panic!("{panel}");
        };
        assert!(numbers[0] < numbers[1], "{panel}: {numbers:?}");
        assert!(numbers.iter().all(|number| number.is_finite()), "{panel}");
    }
}

/// Captures that cannot be read beyond a byte any more, once that is known.
struct Changing {
    captures: InMemory,
    readable: Arc<AtomicU64>,
}

impl Files for Changing {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        let all = self.captures.open(capture)?;
        let readable = self.readable.load(Ordering::Relaxed);
        if readable == u64::MAX {
            return Ok(all);
        }
        Ok(Box::new(all.take(readable).chain(Gone)))
    }
}

struct Gone;

impl Read for Gone {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the file changed"))
    }
}

fn file(name: &str) -> Vec<u8> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    fs::read(corpus.join(name).join(format!("{name}.pcap.xz"))).expect("a capture")
}

#[test]
fn a_capture_that_cannot_be_read_again_is_named() {
    let mut whole = file("shaped-1500kbit");
    whole.truncate(whole.len() * 3 / 4);
    // One that was cut off when it was read has been told of.
    let captures = InMemory(vec![file("policed-1500kbit"), whole]);
    let readable = Arc::new(AtomicU64::new(u64::MAX));
    let mut desk = Desk::new(Changing {
        captures,
        readable: Arc::clone(&readable),
    });
    assert_eq!(ask(&mut desk, read(0))["problems"], json!([]));
    let problems = ask(&mut desk, read(1))["problems"].to_string();
    assert!(problems.contains("damaged or cut off"), "{problems}");
    let compare = json!({ "ask": "compare", "captures": [0, 1] });
    ask(&mut desk, explain(0));
    ask(&mut desk, explain(1));
    ask(&mut desk, compare.clone());
    readable.store(20_000, Ordering::Relaxed);
    for capture in [0, 1] {
        for request in [&explain(capture), &compare] {
            let why = desk.answer(&request.to_string()).expect_err("a sentence");
            assert!(why.contains("the file changed"), "{why}");
        }
    }
}

#[test]
fn a_capture_is_read_again_in_place_of_what_it_was() {
    let [policed, shaped] = ["policed-1500kbit", "shaped-1500kbit"].map(file);
    let captures = InMemory(vec![policed.clone(), shaped]);
    let mut desk = Desk::new(captures);
    let shown = |desk: &mut Desk<InMemory>| {
        let arranged = ask(desk, json!({ "ask": "arrange" }));
        let lines = ask(desk, json!({ "ask": "lines", "from": 0, "count": 100 }));
        let lines = lines.as_array().expect("lines").iter();
        let causes: Vec<_> = lines
            .filter(|line| line["capture"] == 1)
            .map(|line| line["cause"].as_str().expect("a cause").to_owned())
            .collect();
        (arranged["all"].clone(), causes)
    };
    for capture in [0, 1] {
        ask(&mut desk, read(capture));
    }
    assert_eq!(shown(&mut desk), (json!(20), vec!["queue".to_owned(); 5]));
    desk.files().0[1] = policed;
    ask(&mut desk, json!({ "ask": "forget", "capture": 1 }));
    let lines = ask(&mut desk, json!({ "ask": "lines", "from": 0, "count": 9 }));
    assert_eq!(lines, json!([]));
    assert_eq!(shown(&mut desk), (json!(10), Vec::new()));
    let why = desk
        .answer(&explain(1).to_string())
        .expect_err("a sentence");
    assert!(why.contains("was not read"), "{why}");
    ask(&mut desk, read(1));
    assert_eq!(shown(&mut desk), (json!(20), vec!["policer".to_owned(); 5]));
    assert_eq!(ask(&mut desk, explain(1))["verdict"], "policer");
}

#[test]
fn a_capture_is_not_compared_with_itself() {
    let mut desk = Desk::new(InMemory(vec![file("policed-1500kbit")]));
    ask(&mut desk, read(0));
    let compare = json!({ "ask": "compare", "captures": [0, 0] });
    let why = desk.answer(&compare.to_string()).expect_err("a sentence");
    assert!(why.contains("choose two"), "{why}");
}
