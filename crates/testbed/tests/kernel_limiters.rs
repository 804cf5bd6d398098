//! The kernel's TCP over limiters of the kernel itself, captured by tcpdump on both sides of them, and what
//! `trace::pair` finds between the captures. Nothing of the path but its delay is ours: the rate and the bucket
//! are what `nft` and `tc` were told, and the losses are what they counted.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_lab::MILLISECOND;
use tidegate_limiter::Rate;
use tidegate_testbed::TestbedError;
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::link::{ElementKind, LinkPlan, QueueKind};
use tidegate_testbed::namespace::{Namespace, Process};
use tidegate_testbed::site::{LinkPosition, Site};
use tidegate_trace::pair::{Between, Diagnosis, Gathered, Way};
use tidegate_trace::read::{Capture, Nanos};

/// The article's round trip.
const ROUND_TRIP: Nanos = 73_800_000;
/// What a full packet takes of the link.
const FRAME: f64 = 1518.0;

/// What limits, between the capture before it and the one behind it.
#[derive(Default)]
struct Limits<'a> {
    /// A rule of nft for packets that come in.
    rule: Option<&'a str>,
    /// A queueing discipline of tc for packets that leave, behind the rule.
    shaper: Option<&'a str>,
}

/// Two captures, and how many packets the rule dropped and the queue dropped.
struct Captured {
    _folder: tempfile::TempDir,
    files: [PathBuf; 2],
    by_rule: u64,
    by_queue: u64,
}

/// Needs what it needs, or says why the test is skipped.
fn may_run(test: &str) -> bool {
    let rights = match Namespace::new() {
        Err(TestbedError::Rights { .. } | TestbedError::NoTun) => false,
        namespace => namespace.is_ok(),
    };
    let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let programs = ["tcpdump", "nft", "tc", "ethtool"]
        .into_iter()
        .all(installed);
    let may = rights && programs && iperf::is_installed();
    if !may {
        let text = format!(
            "skipped {test}: needs root, /dev/net/tun, tcpdump, nft, tc, ethtool and iperf3\n"
        );
        // The harness would hide what eprintln writes.
        std::io::stderr().write_all(text.as_bytes()).unwrap();
    }
    may
}

fn tcpdump(host: &Namespace, device: &str, file: &Path) -> Process {
    let mut tcpdump = Command::new("tcpdump");
    let words = "-s 128 -B 32768 --time-stamp-precision=nano -w";
    tcpdump
        .args(["-i", device])
        .args(words.split(' '))
        .arg(file)
        .arg("tcp");
    tcpdump.stdout(Stdio::null()).stderr(Stdio::piped());
    host.start(&mut tcpdump).unwrap()
}

/// Ends it as Ctrl-C does: it writes what it has.
fn end(tcpdump: Process) {
    tcpdump.interrupt().unwrap();
    let output = tcpdump.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("0 packets dropped by kernel"), "{said}");
}

/// A number that follows a word in what a program printed.
fn number_behind(word: &str, text: &str) -> u64 {
    let behind = text.split(word).nth(1).unwrap().trim_start();
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// A download over a link of 1 Gbit/s and the limits. Packets are those of the wire: nothing merges them.
///
/// A rule limits what comes from the server's device, and the delay is behind it, between the captures. A queue is
/// behind the delay: packets that have passed that are no longer the server's, who would otherwise keep the
/// queue short by what the kernel tells him of it (TCP small queues).
fn download(
    limits: &Limits<'_>,
    algorithm: &'static str,
    round_trip: Nanos,
    seconds: u64,
) -> Captured {
    let mut plan = LinkPlan {
        round_trips: vec![("192.0.2.0/24".parse().unwrap(), round_trip)],
        ..LinkPlan::default()
    };
    let mut position = LinkPosition::Access;
    if limits.shaper.is_some() {
        let queue = QueueKind::DropTail {
            bytes: Some(20_000_000),
            packets: None,
        };
        let rate = Rate::from_bits_per_second(1_000_000_000);
        plan.forward = vec![ElementKind::Link { rate, queue }];
        position = LinkPosition::Core;
    }
    let site = Site::new(&plan, position).unwrap();
    let client = site.client_address(129).unwrap();
    let run = |host: &Namespace, program: &str, words: &str| host.run(program, words).unwrap();
    if position == LinkPosition::Access {
        run(&site.server, "ethtool", "-K eth0 tso off gso off");
        let link = "qdisc add dev eth0 root tbf rate 1gbit burst 3100 limit 20000000";
        run(&site.server, "tc", link);
    }
    if let Some(rule) = limits.rule {
        let table = format!(
            "table netdev police {{ chain down {{ type filter hook ingress device wan priority 0; {rule} counter drop; }}; }}"
        );
        let output = site.middle.output(Command::new("nft").arg(&table)).unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    if let Some(shaper) = limits.shaper {
        run(
            &site.middle,
            "tc",
            &format!("qdisc add dev lan root {shaper}"),
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.pcap", "b.pcap"].map(|name| folder.path().join(name));
    // What comes in is captured before rules see it.
    let captures = [
        tcpdump(&site.middle, "wan", &files[0]),
        tcpdump(&site.client, "eth0", &files[1]),
    ];
    let lasting = Duration::from_secs(seconds);
    // tcpdump takes a moment to start.
    let bulk = Bulk {
        after: Duration::from_secs(1),
        ..Bulk::new(client, algorithm, lasting)
    };
    iperf::run(&site, &[bulk]).unwrap();
    // Rules also count what is dropped after the captures end, so the last packets must be gone by then. The kernel
    // gives tcpdump the last packets only a second later, its own timeout.
    std::thread::sleep(Duration::from_millis(1500));
    captures.into_iter().for_each(end);
    let by_rule = limits.rule.map_or(0, |_| {
        let listed = run(&site.middle, "nft", "list table netdev police");
        number_behind("counter packets", &listed)
    });
    let by_queue = limits.shaper.map_or(0, |_| {
        number_behind("dropped", &run(&site.middle, "tc", "-s qdisc show dev lan"))
    });
    let report = site.link.finish().unwrap();
    assert_eq!(report.strays, 0);
    println!(
        "late: {:?}, dropped: {by_rule} and {by_queue}",
        report.lateness
    );
    Captured {
        _folder: folder,
        files,
        by_rule,
        by_queue,
    }
}

/// A capture, with its times as another clock shows them.
fn gather(path: &Path, clock: impl Fn(Nanos) -> Nanos) -> Gathered {
    let mut capture = Capture::new(File::open(path).unwrap()).unwrap();
    let mut gathered = Gathered::default();
    while let Some(mut frame) = capture.frame().unwrap() {
        frame.at = clock(frame.at);
        gathered.frame(&frame);
    }
    gathered
}

fn diagnose(captured: &Captured) -> Diagnosis {
    let [a, b] = captured.files.each_ref().map(|file| gather(file, |at| at));
    Diagnosis::new(a, b)
}

/// A busy machine forwards bursts late, and then in other bursts than the limiter met: one download of three must
/// show all that is asserted.
fn one_of_three(attempt: impl Fn()) {
    for _ in 0..2 {
        if catch_unwind(AssertUnwindSafe(&attempt)).is_ok() {
            return;
        }
    }
    attempt();
}

/// Checks that losses are what was counted, but for packets that were on their way when the captures ended.
#[track_caller]
fn assert_lost(way: &Way, counted: u64) {
    let lost = way.sum(|stream| stream.lost + stream.lost_bare);
    assert!(
        lost <= counted && lost + 2 >= counted,
        "{lost} of {counted}"
    );
}

/// Checks a policer whose rule has packets a second and packets at once.
#[track_caller]
fn assert_policer(way: &Way, packets_per_second: f64, packets: f64) {
    println!("{:?}", way.fits);
    assert_eq!(way.verdict, Between::Policer);
    let fit = way.fits.explaining_bucket().unwrap();
    let (rate, depth) = (packets_per_second * FRAME, packets * FRAME);
    assert!((fit.bucket.rate / rate - 1.0).abs() < 0.02, "{fit:?}");
    assert!((fit.bucket.depth / depth - 1.0).abs() < 0.1, "{fit:?}");
}

/// The published case: 300 Mbit/s of packets of 1,500 bytes, and 33 of them (50 kB) at once. `nft` counts
/// packets here, since a limit in bytes would take in a second's worth more than the rule says.
const ARTICLE: &str = "limit rate over 25000/second burst 33 packets";

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_policer_of_nft_at_300_mbit_and_50_kb() {
    if !may_run("a_policer_of_nft_at_300_mbit_and_50_kb") {
        return;
    }
    one_of_three(|| {
        let limits = Limits {
            rule: Some(ARTICLE),
            ..Limits::default()
        };
        let captured = download(&limits, "cubic", ROUND_TRIP, 20);
        let found = diagnose(&captured);
        let way = found.main_way();
        assert!(way.to_b);
        assert_lost(way, captured.by_rule);
        assert_policer(way, 25_000.0, 33.0);

        // The same by a clock that is a second ahead and gains 50 parts in a million.
        let [a, b] = &captured.files;
        let first = found.counts[1].span.unwrap().first;
        let drifting = gather(b, |at| at + 1_000_000_000 + (at - first) * 50 / 1_000_000);
        let found = Diagnosis::new(gather(a, |at| at), drifting);
        let clocks = found.clocks.unwrap();
        println!("{clocks:?}");
        assert!((clocks.drift - 50e-6).abs() < 5e-6, "{clocks:?}");
        assert!(
            (clocks.drift - 50e-6).abs() <= clocks.drift_error,
            "{clocks:?}"
        );
        let way = found.main_way();
        assert_lost(way, captured.by_rule);
        assert_policer(way, 25_000.0, 33.0);
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_queue_of_tbf() {
    if !may_run("a_queue_of_tbf") {
        return;
    }
    one_of_three(|| {
        let limits = Limits {
            shaper: Some("tbf rate 40mbit burst 3100 limit 200000"),
            ..Limits::default()
        };
        let captured = download(&limits, "reno", 40 * MILLISECOND, 8);
        let found = diagnose(&captured);
        let way = found.main_way();
        println!("{:?}", way.fits);
        assert_lost(way, captured.by_queue);
        assert!(captured.by_queue > 3);
        assert_eq!(way.verdict, Between::Queue);
        let queue = way.fits.explaining_queue().unwrap();
        // tc counts Ethernet's header, but not its check sequence.
        let rate = queue.rate * 8e-6 * 1514.0 / FRAME;
        assert!((rate / 40.0 - 1.0).abs() < 0.02, "{rate} Mbit/s");
        // Losses show the size better than waiting times do, which are late on a busy machine.
        let depth = way.fits.bucket.as_ref().unwrap().bucket.depth;
        assert!((depth / 200_000.0 - 1.0).abs() < 0.1, "{depth} bytes");
        assert!((queue.backlog / 200_000.0 - 1.0).abs() < 0.2, "{queue:?}");
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn losses_by_chance() {
    if !may_run("losses_by_chance") {
        return;
    }
    one_of_three(|| {
        let limits = Limits {
            rule: Some("tcp sport 5201 numgen random mod 1000 < 4"),
            ..Limits::default()
        };
        let captured = download(&limits, "cubic", 40 * MILLISECOND, 10);
        let found = diagnose(&captured);
        let way = found.main_way();
        println!("{:?}", way.fits);
        assert_lost(way, captured.by_rule);
        assert_eq!(way.verdict, Between::RandomLoss);
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_policer_of_nft_and_a_shaper_of_tbf_behind_it() {
    if !may_run("a_policer_of_nft_and_a_shaper_of_tbf_behind_it") {
        return;
    }
    one_of_three(|| {
        let limits = Limits {
            rule: Some("limit rate over 3000/second burst 40 packets"),
            shaper: Some("tbf rate 45mbit burst 3100 limit 1000000"),
        };
        let captured = download(&limits, "cubic", 40 * MILLISECOND, 10);
        let found = diagnose(&captured);
        let way = found.main_way();
        assert_eq!(captured.by_queue, 0);
        assert_lost(way, captured.by_rule);
        assert_policer(way, 3000.0, 40.0);
        let queue = way.fits.explaining_queue().unwrap();
        let rate = queue.rate * 8e-6 * 1514.0 / FRAME;
        assert!((rate / 45.0 - 1.0).abs() < 0.05, "{queue:?}");
        assert!(!queue.before_losses, "{queue:?}");
    });
}
