//! The kernel's TCP over a policer, captured on both sides of it, and the result of `trace::pair` for the
//! captures. The path's elements are those of the lab, in real time: they count their drops.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tidegate_lab::plan::{ElementKind, ElementPlan, FlowPlan, Plan, QueueKind, Traffic};
use tidegate_lab::tcp::{Algorithm, TcpConfig};
use tidegate_lab::{MILLISECOND, SECOND};
use tidegate_limiter::{PolicerConfig, Rate};
use tidegate_testbed::{TestbedError, kernel};
use tidegate_trace::pair::{Between, Diagnosis, Gathered};
use tidegate_trace::read::Capture;

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

/// The published case: a policer of 300 Mbit/s and 50 kB behind a link of 1 Gbit/s, 36.9 ms each way, between
/// two taps.
fn plan(algorithm: Algorithm, duration: u64) -> Plan {
    let queue = QueueKind::DropTail {
        bytes: Some(100_000_000),
        packets: None,
    };
    let rate = mbit(1000);
    let policer = PolicerConfig::new(mbit(300), 50_000).unwrap();
    let kinds = [
        ElementKind::Link { rate, queue },
        ElementKind::Tap { snaplen: 128 },
        ElementKind::Limiter {
            config: policer.into(),
            classes: None,
            overhead: 0,
        },
        ElementKind::Delay {
            delay: 36_900_000,
            jitter: 0,
        },
        ElementKind::Tap { snaplen: 128 },
    ];
    let named = |(i, kind)| ElementPlan {
        name: format!("element {i}"),
        kind,
    };
    Plan {
        seed: 0,
        duration,
        window: 100 * MILLISECOND,
        sample: None,
        connections: None,
        aggregates: vec!["all".into()],
        elements: kinds.into_iter().enumerate().map(named).collect(),
        nodes: Vec::new(),
        flows: vec![FlowPlan {
            name: "download".into(),
            aggregate: 0,
            forward: vec![0, 1, 2, 3, 4],
            back: vec![4, 3, 1],
            delay: 0,
            class: None,
            queue: None,
            dscp: 0,
            address: None,
            port: 443,
            client: None,
            start: 0,
            traffic: Traffic::Bulk { bytes: None },
            tcp: TcpConfig {
                algorithm,
                ..TcpConfig::default()
            },
        }],
    }
}

fn gather(path: &Path) -> Gathered {
    let mut capture = Capture::new(File::open(path).unwrap()).unwrap();
    let mut gathered = Gathered::default();
    while let Some(frame) = capture.frame().unwrap() {
        gathered.frame(&frame);
    }
    gathered
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_kernel_s_tcp_over_a_policer_of_300_mbit() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.pcap", "b.pcap"].map(|name| folder.path().join(name));
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        let plan = plan(algorithm, 20 * SECOND);
        let outcome = match kernel::run(&plan, &files, &AtomicBool::new(false)) {
            Err(TestbedError::Rights { .. } | TestbedError::NoTun) => {
                let text = "skipped the_kernel_s_tcp_over_a_policer_of_300_mbit: needs root and /dev/net/tun";
                writeln!(std::io::stderr(), "{text}").unwrap();
                return;
            }
            outcome => outcome.unwrap(),
        };
        assert_eq!(outcome.strays, 0);
        let dropped = outcome.outcome.flows[0].dropped;
        let [a, b] = &files;
        let found = Diagnosis::new(gather(a), gather(b));
        let way = found.main_way();
        println!(
            "{algorithm:?}: {dropped} dropped, late {:?}\n{:?}",
            outcome.lateness, way.fits
        );
        assert!(way.to_b);
        assert_eq!(way.sum(|stream| stream.lost), dropped);
        assert_eq!(way.verdict, Between::Policer);
        // The policer counts IP packets, the fit frames of Ethernet.
        let fit = way.fits.explaining_bucket().unwrap();
        let (rate, depth) = (300e6 / 8.0 * 1518.0 / 1500.0, 50_000.0 * 1518.0 / 1500.0);
        assert!((fit.bucket.rate / rate - 1.0).abs() < 0.02, "{fit:?}");
        assert!((fit.bucket.depth / depth - 1.0).abs() < 0.1, "{fit:?}");
        assert!(fit.rate.holds(rate) && fit.depth.holds(depth), "{fit:?}");
    }
}
