//! The same file and seed give the same results on every machine, and after every change that should
//! not change them. The test compares digests of all results of scenarios, including their captures.
//! Goodput, loss and round-trip time show the effect of an intended change.
//!
//! `UPDATE_EXPECT=1` overwrites `reproducible.txt` with the new results.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use tidegate_lab::Nanos;
use tidegate_lab::capture::InMemory;
use tidegate_lab::experiment::{ExperimentError, Settings, run};
use tidegate_lab::outcome::{FlowOutcome, Outcome};
use tidegate_lab::scenario::{Scenario, Source};
use tidegate_lab::summary::percentile;

/// Every congestion control, with and without the newer ways to find losses, over a path that
/// delays, loses and reorders.
const SENDERS: &str = r#"
duration = "4s"
[[element]]
name = "air"
kind = "loss"
probability = 0.01
burst = 2
[[element]]
name = "way"
kind = "delay"
delay = "5ms"
jitter = "1ms"
[[element]]
name = "mesh"
kind = "reorder"
probability = 0.01
by = "3ms"
[[element]]
name = "link"
kind = "link"
rate = "8mbit"
queue = "40 packets"
[[element]]
name = "tap"
kind = "tap"
[[flow]]
name = "f"
count = 3
rtt = "10ms..60ms"
start = "0s..500ms"
rack = [true, false, false]
sack = [true, true, false]
pacing = [false, true, false]
recovery = ["conservative", "slow-start", "conservative"]
path = ["tap", "link", "mesh", "air", "way"]
back = ["way", "tap"]
[sweep]
f.cc = ["reno", "cubic", "bbr", "vegas"]
"#;

/// Every queue of a link, under transfers of random sizes.
const QUEUES: &str = r#"
duration = "3s"
sample = "100ms"
[[element]]
name = "link"
kind = "link"
rate = "6mbit"
[[flow]]
name = "f"
count = 6
cc = ["cubic", "reno", "bbr"]
rtt = "5ms..80ms"
traffic = ["bulk", { kind = "on-off", mean = "60kB", pause = "200ms" }]
path = ["link"]
[sweep]
link.queue = ["64kB", "codel", "pie", "fq-codel", { kind = "red", limit = "120kB" }]
"#;

/// Every limiter, for two aggregates behind a shared link.
const LIMITERS: &str = r#"
duration = "3s"
sample = "100ms"
[[element]]
name = "gate"
kind = "policer"
rate = "4mbit"
overhead = "18B"
[[element]]
name = "link"
kind = "link"
rate = "20mbit"
shared = true
[[aggregate]]
name = "home"
count = 2
[[flow]]
name = "f"
count = 4
cc = ["cubic", "reno", "bbr", "vegas"]
rtt = "5ms..60ms"
dscp = [0, "ef"]
path = ["gate", "link"]
[sweep]
gate = [
    { kind = "policer", burst = "30kB" },
    { kind = "srtcm", yellow = "af12" },
    { kind = "trtcm", peak = "5mbit", yellow = 12 },
    { kind = "fair-policer", form = "exact" },
    { kind = "fair-policer", form = "sketch" },
    { kind = "fair-policer", weights = [4, 2, 1] },
    { kind = "pqp" },
    { kind = "bc-pqp" },
    { kind = "bc-pqp-paper" },
    { kind = "bc-pqp", policy = { weighted = [[3, "queue"], [1, { fair = 4 }]] }, rule = [{ class = 0, dscp = "ef" }] },
    { kind = "shaper", policy = "queue", queue = "50 packets" },
    { kind = "shaper", policy = { priority = ["queue", { fair = 4 }] }, rule = [{ class = 0, dscp = "ef" }] },
]
"#;

/// Every kind of traffic.
const TRAFFIC: &str = r#"
duration = "12s"
[[element]]
name = "gate"
kind = "shaper"
rate = "12mbit"
[[flow]]
name = "video"
rtt = "20ms"
traffic = { kind = "video", chunk = "500kB", pause = "700ms" }
path = ["gate"]
[[flow]]
name = "voice"
rtt = "20ms"
traffic = { kind = "udp", rate = "300kbit", size = "200B" }
path = ["gate"]
[[flow]]
name = "web"
rtt = "20ms"
traffic = { kind = "on-off", mean = "40kB", shape = 1.5, reconnect = false }
path = ["gate"]
[[flow]]
name = "stream"
rtt = "40ms"
traffic = { kind = "stream", rate = "1mbit", length = "20s", startup = "3s" }
path = ["gate"]
[sweep]
stream.traffic.pace = ["blocks", "max-rate", "trickle", "none"]
"#;

/// Players and browsers.
const APPLICATIONS: &str = r#"
duration = "20s"
[[element]]
name = "gate"
kind = "policer"
rate = "4mbit"
[[flow]]
name = "video"
rtt = "20ms"
traffic = { kind = "adaptive", ladder = ["300kbit", "1mbit", "3mbit"], segment = "2s", length = "40s", buffer = "6s" }
path = ["gate"]
[[flow]]
name = "web"
rtt = "30ms"
traffic = { kind = "web", page = { objects = 20 }, pause = "500ms" }
path = ["gate"]
[sweep]
video.traffic.rule = ["throughput", "bola"]
web.traffic.http = ["http/1.1", "h2"]
"#;

/// More flows than are in the tests above: the calendar of deadlines has a form for few, for some and for many.
const MANY: &str = r#"
duration = "1500ms"
sample = "100ms"
[[element]]
name = "link"
kind = "link"
rate = "100mbit"
queue = "200kB"
[[element]]
name = "way"
kind = "delay"
delay = "70ms"
[[flow]]
name = "f"
cc = ["cubic", "bbr", "reno"]
rtt = "1ms..150ms"
start = "0s..300ms"
traffic = ["bulk", { kind = "on-off", mean = "60kB", pause = "200ms" }]
path = ["link"]
[[flow]]
name = "far"
count = 3
rtt = "20ms"
path = ["link"]
back = ["way"]
[sweep]
f.count = [40, 400]
"#;

/// FNV-1a.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Bits per second that all applications received, the share of data packets that were dropped, and
/// the median over flows of their median round-trip time.
fn figures(outcome: &Outcome, duration: Nanos) -> String {
    let sum = |of: fn(&FlowOutcome) -> u64| outcome.flows.iter().map(of).sum::<u64>() as f64;
    let goodput = sum(|flow| flow.delivered) * 8e3 / duration as f64;
    let loss = 100.0 * sum(|flow| flow.dropped) / sum(|flow| flow.sent_packets);
    let measured = outcome.flows.iter().filter(|flow| flow.rtt.count > 0);
    let mut times: Vec<Nanos> = measured.map(|flow| flow.rtt.p50).collect();
    times.sort_unstable();
    let rtt = percentile(&times, 50.0).unwrap_or(0) as f64 / 1e6;
    format!("goodput {goodput:.3} Mbit/s, loss {loss:.2} %, RTT {rtt:.2} ms")
}

/// A line for each simulation: its parameters, the packets, a digest of all counts, and figures.
fn outcomes(name: &str, text: &str) -> String {
    let scenario = Scenario::parse(Source {
        file: name,
        text,
        settings: &[],
    })
    .unwrap();
    let captures = InMemory::default();
    let settings = Settings {
        jobs: 2,
        captures: Some(&captures),
        ..Settings::default()
    };
    let mut lines = String::new();
    run::<ExperimentError>(&scenario, settings, |done| {
        let parameters = scenario.parameters(done.point);
        let values: Vec<String> = parameters.into_iter().map(|one| one.value).collect();
        // All fields, as Rust writes them: a new count shows as a change, too.
        let counted = digest(format!("{:?}", done.outcome).as_bytes());
        let (packets, values) = (done.outcome.packets, values.join(" "));
        let figures = figures(&done.outcome, done.group.plan.duration);
        writeln!(
            lines,
            "{name}: {values}: {packets} packets {counted:016x} {figures}"
        )
        .unwrap();
        Ok(())
    })
    .unwrap();
    for (file, bytes) in captures.into_captures() {
        writeln!(
            lines,
            "{name}: {file}: {} bytes {:016x}",
            bytes.len(),
            digest(&bytes)
        )
        .unwrap();
    }
    lines
}

#[test]
fn scenarios_come_to_the_same_on_every_machine() {
    let scenarios = [
        ("senders", SENDERS),
        ("queues", QUEUES),
        ("limiters", LIMITERS),
        ("traffic", TRAFFIC),
        ("applications", APPLICATIONS),
        ("many", MANY),
    ];
    let found: String = scenarios.map(|(name, text)| outcomes(name, text)).concat();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reproducible.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    let differ: Vec<_> = found
        .lines()
        .zip(expected.lines())
        .filter(|(found, expected)| found != expected)
        .collect();
    assert!(differ.is_empty(), "found, and expected:\n{differ:#?}");
    assert_eq!(found, expected);
}
