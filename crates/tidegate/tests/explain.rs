//! What `tidegate explain` says of transfers whose cause is known: the lab makes them.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

mod captures;
mod download;
mod program;
mod rotated;
use captures::capture;
use download::{BULK, Captured, SEES_BOTH_WAYS};
use program::{parts, run, tidegate};
use rotated::rotated;

const FLIGHT: &str = "bytes in flight";
const TRIPS: &str = "round-trip time";
const TOKENS: &str = "tokens in the fitted bucket";

#[test]
fn a_policer_is_named_with_its_rate_and_what_to_do() {
    let captured = Captured::new(
        &[BULK, SEES_BOTH_WAYS, "rtt = \"40ms\""],
        "kind = \"policer\"\nrate = \"4mbit\"\nburst = \"60kB\"\noverhead = \"18B\"",
    );
    let told = captured.told();
    assert_eq!(told.verdict(), "policer");
    told.says(&[
        "A policer limited this transfer to 4.00 Mbit/s: it dropped the packets that exceeded this rate",
        "almost certain: 9",
        "Shaping instead of policing",
        "Send at most 3.6",
        "95 % of the limit",
        "Then next to nothing is lost, and the transfer is ",
        "A faulty line, Wi-Fi or computer does not look like this.",
        "not queue A full queue of 6",
        "Packets beside losses waited 0.",
        "policer 100 %",
    ])
    .shows(&[FLIGHT, TRIPS, TOKENS, "if the limiter were a"], &[]);
    let limit = &told.json["limit"];
    let number = |key: &str| limit[key].as_f64().expect("a number");
    assert!(
        number("rate_low_bps") <= 4e6 && 4e6 <= number("rate_high_bps"),
        "{limit}"
    );
    assert!(
        number("depth_low_bytes") <= 60e3 && 60e3 <= number("depth_high_bytes"),
        "{limit}"
    );
}

/// The level of a bucket that others use is not known, and the picture says so instead of drawing it.
#[test]
fn a_policer_that_others_use_has_no_level() {
    let bulk = r#"traffic = { kind = "video", chunk = "8MB", chunks = 1, pause = "1s" }"#;
    let captured = Captured::new(
        &["count = 2", bulk, SEES_BOTH_WAYS, "rtt = \"40ms\""],
        "kind = \"policer\"\nrate = \"8mbit\"\nburst = \"60kB\"\noverhead = \"18B\"",
    );
    let told = captured.told();
    assert_eq!(told.verdict(), "policer");
    assert!(told.json["limit"]["rate_bps"].is_null());
    told.says(&[
        "A policer that other traffic uses too limited this transfer",
        "The limiter's rate and size are not known",
        "--flow",
    ])
    .shows(
        &[FLIGHT, TRIPS, "tokens in the policer's bucket"],
        &[TOKENS],
    );
}

/// Behind the limiter nobody sees when the lost packets came to it, and that is the reason which is given.
#[test]
fn a_policer_seen_from_behind_has_no_rate_for_that_reason() {
    let told = Captured::at("behind", BEHIND).told();
    assert_eq!(told.verdict(), "policer");
    assert!(told.json["limit"]["rate_bps"].is_null());
    told.says(&[
        "because a capture behind it does not show exactly when the lost packets were sent",
    ]);
}

/// Half of the round trip is behind the tap.
const BEHIND: &str = r#"
title = "a download that is captured behind a policer"
duration = "20s"
[[element]]
name = "policer"
kind = "policer"
rate = "5mbit"
burst = "50kB"
[[element]]
name = "behind"
kind = "tap"
[[flow]]
name = "seen"
cc = "cubic"
rtt = "40ms"
traffic = { kind = "bulk", size = "6MB" }
path = ["policer", "behind"]
back = ["behind"]
"#;

#[test]
fn a_queue_is_named_with_its_delay() {
    let captured = Captured::new(
        &[BULK, SEES_BOTH_WAYS, "rtt = \"40ms\""],
        "kind = \"link\"\nrate = \"4mbit\"\nqueue = \"60kB\"",
    );
    let told = captured.told();
    assert_eq!(told.verdict(), "queue");
    told.says(&[
        "A slow link or a shaper limited this transfer to 4.0",
        "of the packets waited",
        "Nothing is broken.",
        "leaves the queue empty",
        "not policer A policer delays nothing.",
        "A shaper and a link of the same rate look alike",
    ])
    .shows(&[FLIGHT, TRIPS, "with the fitted queue"], &[TOKENS]);
}

#[test]
fn a_receive_window_is_named_with_its_share_of_time() {
    let captured = Captured::new(
        &[
            BULK,
            SEES_BOTH_WAYS,
            "rtt = \"80ms\"",
            "receive-window = \"64kB\"",
        ],
        "kind = \"delay\"\ndelay = \"1ms\"",
    );
    let told = captured.told();
    assert_eq!(told.verdict(), "receive-window");
    told.says(&[
        "The receiver limited this transfer: its buffer had no room for more data for 8",
        "Nothing in the network limits this transfer.",
        "Give the receiving side a larger buffer: its window of 6",
        "not policer No packet was lost.",
        "In a median round trip of 81",
    ])
    .shows(&[FLIGHT, "receive window full"], &[TRIPS, TOKENS]);
    let shares = told.json["shares"].as_array().expect("shares");
    let sum: f64 = shares
        .iter()
        .filter_map(|part| part["share"].as_f64())
        .sum();
    assert!((sum - 1.0).abs() < 0.001, "{shares:?}");
}

#[test]
fn an_idle_application_is_named() {
    let captured = Captured::new(
        &[
            r#"traffic = { kind = "on-off", mean = "60kB", max = "300kB", pause = "240ms", reconnect = false }"#,
            SEES_BOTH_WAYS,
            "rtt = \"40ms\"",
        ],
        "kind = \"delay\"\ndelay = \"1ms\"",
    );
    let told = captured.told();
    assert_eq!(told.verdict(), "application");
    told.says(&[
        "The sending application limited this transfer, not the network: it had nothing to send for",
        "everything was acknowledged, and there was nothing more to send",
        "Look at what the application waits for",
    ])
    .shows(&[FLIGHT], &[TRIPS, TOKENS]);
}

#[test]
fn random_losses_are_named() {
    let captured = Captured::new(
        &[BULK, SEES_BOTH_WAYS, "rtt = \"40ms\""],
        "kind = \"loss\"\nprobability = 0.02",
    );
    let told = captured.told();
    assert_eq!(told.verdict(), "random-loss");
    told.says(&[
        "Packets were lost at random (2.",
        "Look for a faulty link",
        "a window that is halved for each loss allows about 2.",
        "not policer",
        "not queue",
    ])
    .shows(&[FLIGHT, TRIPS], &[TOKENS]);
}

/// A server sends files to a host that is the client of one connection and the server of another. Both
/// share a policer of 1.5 Mbit/s, so both are judged together.
#[test]
fn what_goes_to_one_host_is_judged_together_whichever_end_opened_it() {
    let Some(traces) = std::env::var_os("TIDEGATE_TRACES") else {
        let skipped = "skipped what_goes_to_one_host_is_judged_together_whichever_end_opened_it";
        let _ = writeln!(std::io::stderr(), "{skipped}: TIDEGATE_TRACES is not set");
        return;
    };
    let capture = "C=5-L=2000000-CD1=1000-CD2=1000-ID=0-PCIR=1500000-PBC=2000000-RTT=100-RTTV=0-\
                   RTTC=0%-LOSS=0%-XT=1-TCP=cubic-T=1-CP1=16402-CP2=16403.pcap.xz";
    let path = Path::new(&traces).join("usc").join(capture);
    for flow in ["0", "1", "2"] {
        let path = path.to_str().expect("text");
        let (_, json, _) = run(&["explain", path, "--flow", flow, "--json"]);
        let told: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(told["verdict"], "policer", "flow {flow}");
        assert_eq!(told["shared"], true, "flow {flow}");
        let end = |key: &str| told["limit"][key].as_f64().expect("a rate");
        let rates = end("rate_low_bps")..=end("rate_high_bps");
        assert!(rates.contains(&1.5e6), "{rates:?}");
    }
}

/// Without acknowledgements nothing is known of delay, and so not whether anything queued.
#[test]
fn what_cannot_be_told_is_said() {
    let captured = Captured::new(
        &[BULK, "rtt = \"40ms\""],
        "kind = \"policer\"\nrate = \"4mbit\"\nburst = \"60kB\"",
    );
    let told = captured.told();
    assert_eq!(told.verdict(), "unclear");
    told.says(&[
        "What limited this transfer is not certain",
        "No round-trip time is known",
        "Not ruled out: a policer, a slow link or a shaper",
        "Capture again: where the data is sent, both directions",
    ]);
}

#[test]
fn other_causes_are_named_and_each_party_is_advised() {
    const LONG: &str = r#"traffic = { kind = "video", chunk = "6MB", chunks = 1, pause = "1s" }"#;
    const SHORT: &str = r#"traffic = { kind = "video", chunk = "60kB", chunks = 1, pause = "1s" }"#;
    const SLOW: &str = "rate-limit = \"4mbit\"";
    const WINDOW: &str = "receive-window = \"30kB\"";
    const PAUSES: &str =
        r#"traffic = { kind = "on-off", mean = "300kB", pause = "240ms", reconnect = false }"#;
    const CODEL: &str = "kind = \"link\"\nrate = \"5mbit\"\nqueue = \"codel\"";
    const FAST: &str = "kind = \"link\"\nrate = \"200mbit\"\nqueue = \"4MB\"";
    const SHAPER: &str = r#"kind = "shaper"
policy = "queue"
rate = "4mbit"
queue = "300kB"
burst = "1MB""#;
    let cases = [
        (
            "aqm",
            [LONG, "", CODEL],
            "A slow link that keeps its queue short",
            "Turn on ECN",
        ),
        (
            "shaper-burst",
            [LONG, "", SHAPER],
            "A shaper let a burst pass",
            "Tell customers both",
        ),
        (
            "sender",
            [LONG, SLOW, FAST],
            "The sending computer limited this",
            "SO_SNDBUF",
        ),
        (
            "round-trips",
            [SHORT, "", FAST],
            "Nothing but distance limited this",
            "nearer",
        ),
        (
            "application",
            [PAUSES, WINDOW, FAST],
            "; the receiver's window for",
            "Give the receiving side",
        ),
    ];
    for (verdict, [traffic, limit, bottleneck], first, advice) in cases {
        let flow = [traffic, limit, "rtt = \"40ms\"", SEES_BOTH_WAYS];
        let told = Captured::new(&flow, bottleneck).told();
        assert_eq!(told.verdict(), verdict, "{}", told.story);
        let headline = told.story.lines().next().unwrap_or_default();
        assert!(headline.contains(first), "{headline}");
        told.says(&[advice]);
    }
}

/// An application that reads slowly closes the window: a larger buffer would not help.
#[test]
fn a_slow_reader_is_not_told_to_buy_a_larger_buffer() {
    let flow = [
        BULK,
        SEES_BOTH_WAYS,
        "rtt = \"40ms\"",
        "receive-window = \"256kB\"",
        "read-rate = \"3mbit\"",
    ];
    let told = Captured::new(&flow, "kind = \"delay\"\ndelay = \"1ms\"").told();
    assert_eq!(told.verdict(), "receive-window");
    told.says(&["Look at the application that receives", "on average only "]);
    assert!(!told.story.contains("tcp_rmem"), "{}", told.story);
}

/// Without SACK a sender repairs one loss a round trip.
#[test]
fn slow_recovery_is_named_with_its_remedy() {
    let long = r#"traffic = { kind = "video", chunk = "6MB", chunks = 1, pause = "1s" }"#;
    let flow = [
        long,
        SEES_BOTH_WAYS,
        "rtt = \"80ms\"",
        "sack = false",
        "rack = false",
    ];
    let bottleneck = "kind = \"link\"\nrate = \"20mbit\"\nqueue = \"64kB\"";
    let told = Captured::new(&flow, bottleneck).told();
    assert_eq!(told.verdict(), "sender");
    told.says(&[
        "The sender's TCP limited this transfer, not the network: for ",
        "one loss was repaired a round trip",
        "Turn on selective acknowledgements (SACK)",
    ]);
    assert!(!told.story.contains("SO_SNDBUF"), "{}", told.story);
}

/// The server has what only a server can do, whoever sends.
#[test]
fn who_uploads_is_not_told_to_move_a_server() {
    let (code, out, _) = run(&["explain", &capture(), "--from", "client", "--json"]);
    assert_eq!(code, 0);
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(told["verdict"], "round-trips");
    for advice in told["advice"].as_array().expect("advice") {
        let text = advice["text"].as_str().expect("text");
        assert_eq!(
            text.contains("nearer"),
            advice["party"] == "provider",
            "{text}"
        );
    }
}

/// A capture whose packets have no times says nothing but that.
#[test]
fn without_times_nothing_is_said() {
    let flow = [BULK, "rtt = \"40ms\"", SEES_BOTH_WAYS];
    let captured = Captured::new(
        &flow,
        "kind = \"policer\"\nrate = \"4mbit\"\nburst = \"60kB\"",
    );
    // First the fractions of seconds go, then the seconds too.
    for (cleared, reason, warning) in [
        (4..8, "times are whole seconds", ""),
        (
            0..8,
            "all packets have the same time",
            "no packet has a time (all are 0)",
        ),
    ] {
        let mut bytes = fs::read(&captured.path).expect("the capture");
        let mut place = 24;
        while place < bytes.len() {
            let length = bytes[place + 8..place + 12].try_into().expect("4 bytes");
            bytes[place..place + 8][cleared.clone()].fill(0);
            place += 16 + u32::from_le_bytes(length) as usize;
        }
        fs::write(&captured.path, bytes).expect("written");
        let path = captured.path.to_str().expect("text");
        let (code, out, err) = run(&["explain", "--no-svg", path]);
        assert_eq!(code, 0);
        assert!(err.contains(warning), "{err}");
        let first = out.lines().next().unwrap_or_default();
        let said = format!("What limited this transfer is not certain: {reason}.");
        assert_eq!(first, said);
        assert!(!out.contains("Why nothing else"), "{out}");
        assert_eq!(out.contains("bit/s of payload"), cleared.start > 0, "{out}");
    }
}

#[test]
fn a_guess_at_the_client_is_called_one() {
    let flow = [BULK, "rtt = \"40ms\"", SEES_BOTH_WAYS];
    let captured = Captured::new(
        &flow,
        "kind = \"policer\"\nrate = \"4mbit\"\nburst = \"60kB\"",
    );
    captured.told().says(&["is the client, "]);
    // Without the first packets: SYN, its answer, and the acknowledgement of that.
    let mut bytes = fs::read(&captured.path).expect("the capture");
    for _ in 0..3 {
        let length = bytes[32..36].try_into().expect("4 bytes");
        bytes.drain(24..40 + u32::from_le_bytes(length) as usize);
    }
    fs::write(&captured.path, bytes).expect("written");
    let told = captured.told();
    told.says(&["seems to be the client"]);
    assert_eq!(told.json["transfer"]["roles_known"], false);
}

/// The story in the paper's terms does not speak of too few losses where there was none.
#[test]
fn the_published_rules_are_told_in_plain_english() {
    let captured = Captured::new(
        &[BULK, SEES_BOTH_WAYS, "rtt = \"80ms\""],
        "kind = \"delay\"\ndelay = \"1ms\"",
    );
    let story = captured.explain(&["--no-svg", "--detector", "pd"]);
    assert!(
        story.starts_with("No policer limited this transfer: no packet was lost."),
        "{story}"
    );
    assert!(!story.to_lowercase().contains("too few losses"), "{story}");
}

/// Every field is documented, and no other.
#[test]
fn the_fields_of_the_json_are_those_of_the_documentation() {
    let policed = Captured::new(
        &["count = 2", BULK, SEES_BOTH_WAYS, "rtt = \"40ms\""],
        "kind = \"policer\"\nrate = \"4mbit\"\nburst = \"60kB\"",
    );
    let (_, segments, _) = run(&["explain", &capture(), "--json"]);
    let one_way = Captured::new(
        &[BULK, "rtt = \"40ms\""],
        "kind = \"delay\"\ndelay = \"1ms\"",
    );
    let mut found = Vec::new();
    for json in [
        policed.explain(&["--json"]),
        one_way.explain(&["--json"]),
        segments,
    ] {
        fields("", &serde_json::from_str(&json).expect("JSON"), &mut found);
    }
    found.sort();
    found.dedup();
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/explain.md"
    );
    let page = fs::read_to_string(page).expect("the page");
    let mut documented: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect();
    documented.sort();
    assert_eq!(found, documented);
}

/// The names of all values, such as `shares[].cause`.
fn fields(name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let dot = if name.is_empty() { "" } else { "." };
                fields(&format!("{name}{dot}{key}"), value, found);
            }
        }
        Value::Array(values) => {
            for value in values {
                fields(&format!("{name}[]"), value, found);
            }
        }
        _ => found.push(name.to_owned()),
    }
}

/// A picture and the fields stay small, however long the transfer.
#[test]
fn a_long_transfer_gives_a_small_picture() {
    let bulk = r#"traffic = { kind = "video", chunk = "60MB", chunks = 1, pause = "1s" }"#;
    let captured = Captured::new(
        &[bulk, SEES_BOTH_WAYS, "rtt = \"20ms\""],
        "kind = \"policer\"\nrate = \"50mbit\"\nburst = \"200kB\"",
    );
    let told = captured.told();
    let packets = told.json["transfer"]["data_packets"]
        .as_u64()
        .expect("a number");
    assert!(packets > 40_000, "{packets}");
    assert!(told.svg.len() < 600_000, "{}", told.svg.len());
    let series = told.json["series"].as_object().expect("series");
    for (name, values) in series.iter().filter(|(_, values)| values.is_array()) {
        assert!(
            values
                .as_array()
                .is_some_and(|values| values.len() <= 1_000),
            "{name}"
        );
    }
    let lost: u64 = series["lost_packets"]
        .as_array()
        .expect("numbers")
        .iter()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(lost, told.json["transfer"]["lost_packets"]);
}

#[test]
fn explain_writes_a_story_and_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = tidegate(&["explain", &capture(), "--flow", "0", "--detector", "pd"])
        .current_dir(folder.path())
        .output()
        .expect("runs");
    let (code, out, err) = parts(&output);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "A policer limited this transfer to 1.43 Mbit/s of payload",
        "on the link",
        "first loss",
        "(code 0)",
        "interaction",
        "application never idle, receive window never full",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    assert!(!out.contains("0µs"), "{out}");
    assert!(
        out.ends_with("picture: policed-1500kbit-flow-0.svg\n"),
        "{out}"
    );
    let picture =
        fs::read_to_string(folder.path().join("policed-1500kbit-flow-0.svg")).expect("the picture");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    for name in [
        "data",
        "retransmission",
        "lost",
        "acknowledged",
        "the fitted limits",
    ] {
        assert!(picture.contains(&format!(">{name}</text>")), "{name}");
    }

    let (code, picture, _) = run(&["explain", &capture(), "--segment", "1", "--svg", "-"]);
    assert_eq!(code, 0);
    assert!(picture.starts_with("<svg "));
    let (code, _, err) = run(&["explain", &capture(), "--json", "--svg", "-"]);
    assert_eq!(code, 2);
    assert!(err.contains("name a file for the picture"), "{err}");
}

#[test]
fn the_pieces_of_a_capture_are_explained_as_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let pieces = rotated(&capture(), folder.path());
    let explained = |captures: &[&str]| -> Value {
        let (code, out, err) = run(&[&["explain", "--json"], captures].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        let mut explained: Value = serde_json::from_str(&out).expect("JSON");
        explained["capture"] = Value::Null;
        explained
    };
    let whole = explained(&[&capture()]);
    let folder = folder.path().to_str().expect("text");
    assert_eq!(explained(&["--join", folder]), whole);

    let (code, _, err) = run(&["explain", &pieces[0], &pieces[1]]);
    assert_eq!(code, 2);
    assert!(err.contains("--join"), "{err}");
    // A piece is not overwritten by the picture of the whole.
    let (code, _, err) = run(&["explain", "--join", folder, "--svg", &pieces[2]]);
    assert_eq!(code, 2, "{err}");
}
