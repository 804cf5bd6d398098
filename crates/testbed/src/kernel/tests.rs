use std::collections::BTreeSet;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_lab::plan::{ElementKind, ElementPlan, FlowPlan, Plan, QueueKind, Traffic};
use tidegate_lab::scenario::Scenario;
use tidegate_lab::tcp::{Algorithm, TcpConfig};
use tidegate_lab::{MILLISECOND, RunError, SECOND};
use tidegate_limiter::{PolicerConfig, Rate};
use tidegate_trace::read::Capture;
use tidegate_trace::wire;

use super::{KernelOutcome, run_checked};
use crate::TestbedError;
use crate::compare::{self, CompareError, Measure};
use crate::testing::{alone, permitted};

const RATE: u64 = 10_000_000;

fn run(plan: &Plan) -> Result<KernelOutcome, TestbedError> {
    super::run(plan, &[], &AtomicBool::new(false))
}

fn outcome(test: &str, plan: &Plan) -> Option<KernelOutcome> {
    let outcome = permitted(test, run(plan))?.unwrap();
    assert_eq!(outcome.strays, 0);
    Some(outcome)
}

/// One flow over 20 ms, through these elements on the way to the client.
fn plan(algorithm: Algorithm, duration: u64, elements: Vec<ElementKind>) -> Plan {
    let flow = FlowPlan {
        name: "flow".into(),
        aggregate: 0,
        forward: (0..elements.len()).collect(),
        back: vec![],
        delay: 20 * MILLISECOND,
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
    };
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
        elements: elements.into_iter().enumerate().map(named).collect(),
        nodes: Vec::new(),
        flows: vec![flow],
    }
}

fn policer(burst: u64) -> ElementKind {
    let rate = Rate::from_bits_per_second(RATE);
    ElementKind::Limiter {
        config: PolicerConfig::new(rate, burst).unwrap().into(),
        classes: None,
        overhead: 0,
    }
}

fn link(packets: u64) -> ElementKind {
    let rate = Rate::from_bits_per_second(RATE);
    let queue = QueueKind::DropTail {
        bytes: None,
        packets: Some(packets),
    };
    ElementKind::Link { rate, queue }
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_round_trip_is_the_path_s() {
    let _alone = alone();
    let mut plan = plan(Algorithm::Cubic, SECOND / 2, vec![]);
    plan.flows[0].start = 50 * MILLISECOND;
    plan.flows[0].traffic = Traffic::Bulk {
        bytes: Some(200_000),
    };
    let Some(KernelOutcome { outcome, .. }) = outcome("the_round_trip_is_the_path_s", &plan) else {
        return;
    };
    let flow = &outcome.flows[0];
    assert!(flow.rtt.min >= 20 * MILLISECOND, "{flow:?}");
    assert!(flow.rtt.p50 < 22 * MILLISECOND, "{flow:?}");
    // Handshake, and 138 segments in windows of 10, 20, 40, 80.
    let [whole] = flow.completions[..] else {
        panic!("{flow:?}");
    };
    assert_eq!((flow.delivered, whole.bytes), (200_000, 200_000));
    let took = whole.end - whole.start;
    assert!(
        (90 * MILLISECOND..125 * MILLISECOND).contains(&took),
        "{flow:?}"
    );
    assert_eq!((flow.dropped, flow.timeouts), (0, 0));
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_policer_holds_its_rate_and_its_losses_are_known() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.pcap");
    let tap = ElementKind::Tap { snaplen: 96 };
    let plan = plan(Algorithm::Cubic, 2 * SECOND, vec![tap, policer(31_000)]);
    let test = "a_policer_holds_its_rate_and_its_losses_are_known";
    let ended = super::run(&plan, std::slice::from_ref(&file), &AtomicBool::new(false));
    let Some(ended) = permitted(test, ended) else {
        return;
    };
    let KernelOutcome {
        outcome, strays, ..
    } = ended.unwrap();
    assert_eq!(strays, 0);
    let flow = &outcome.flows[0];
    // 2 s of 10 Mbit/s and the burst, at the IP layer.
    let passed: u64 = flow.windows.iter().sum();
    assert!(passed <= 2_500_000 + 31_000, "{flow:?}");
    assert!((500_000..passed).contains(&flow.delivered), "{flow:?}");
    assert_eq!(outcome.aggregates[0].windows, flow.windows);
    // A policer delays nothing, so only losses show it.
    assert!(flow.rtt.p50 < 22 * MILLISECOND, "{flow:?}");
    assert!(flow.dropped > 0 && flow.retransmitted > 0, "{flow:?}");
    assert_eq!(outcome.elements[1].dropped, flow.dropped);
    assert!(flow.delivered <= (flow.sent_packets - flow.dropped) * 1448);

    let mut capture = Capture::new(File::open(file).unwrap()).unwrap();
    let (mut packets, mut payloads) = (0, 0);
    while let Some(frame) = capture.frame().unwrap() {
        packets += 1;
        payloads += u64::from(wire::decode(&frame).unwrap().payload > 0);
    }
    assert_eq!(packets, outcome.elements[0].packets);
    // All except those that were on their way to the tap when time was up.
    assert!(
        (flow.sent_packets - 60..=flow.sent_packets).contains(&payloads),
        "{payloads}: {flow:?}"
    );
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_link_s_queue_adds_to_the_round_trip() {
    let _alone = alone();
    let plan = plan(Algorithm::Reno, 2 * SECOND, vec![link(20)]);
    let test = "a_link_s_queue_adds_to_the_round_trip";
    let Some(KernelOutcome { outcome, .. }) = outcome(test, &plan) else {
        return;
    };
    let flow = &outcome.flows[0];
    // 20 waiting and one under way, 1.2112 ms each.
    assert!(flow.rtt.min < 23 * MILLISECOND, "{flow:?}");
    assert!(flow.rtt.p50 > 23 * MILLISECOND, "{flow:?}");
    assert!(flow.rtt.p95 < 46_500_000, "{flow:?}");
    assert!(flow.windows.iter().sum::<u64>() * 1514 / 1500 <= 2_500_000);
    assert!(outcome.elements[0].dropped > 0);
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn flows_are_told_apart() {
    let _alone = alone();
    let mut plan = plan(Algorithm::Reno, SECOND, vec![]);
    let mut late = plan.flows[0].clone();
    late.tcp.algorithm = Algorithm::Bbr;
    late.start = 300 * MILLISECOND;
    plan.flows.push(late);
    for (flow, bytes) in plan.flows.iter_mut().zip([300_000, 200_000]) {
        flow.tcp.mss = 1000;
        flow.traffic = Traffic::Bulk { bytes: Some(bytes) };
    }
    let Some(KernelOutcome { outcome, .. }) = outcome("flows_are_told_apart", &plan) else {
        return;
    };
    let [early, late] = &outcome.flows[..] else {
        panic!("{outcome:?}");
    };
    assert_eq!((early.delivered, late.delivered), (300_000, 200_000));
    assert!(early.windows[0] > 0, "{early:?}");
    assert_eq!(late.windows[..3], [0; 3]);
    let windows = early.windows.iter().zip(&late.windows);
    let sums: Vec<u64> = windows.map(|(early, late)| early + late).collect();
    assert_eq!(outcome.aggregates[0].windows, sums);
    for flow in [early, late] {
        // Nothing is lost, so each byte is sent once, with headers of 52 bytes to a packet.
        assert_eq!((flow.dropped, flow.retransmitted), (0, 0), "{flow:?}");
        assert_eq!(flow.sent_bytes, flow.delivered + 52 * flow.sent_packets);
        let full = flow.delivered / 1000;
        assert!(
            (full..full + full / 20).contains(&flow.sent_packets),
            "{flow:?}"
        );
    }
}

/// Names of this namespace's interfaces and of namespaces that have one.
fn names() -> BTreeSet<String> {
    let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let devices = devices.lines().filter_map(|line| line.split_once(':'));
    let mut names: BTreeSet<_> = devices.map(|(name, _)| name.trim().into()).collect();
    let spaces = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    names.extend(spaces.map(|space| space.file_name().to_string_lossy().into_owned()));
    names
}

/// The network namespaces that the threads of this process are in.
fn namespaces() -> BTreeSet<std::path::PathBuf> {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    threads
        .filter_map(|thread| fs::read_link(thread.path().join("ns/net")).ok())
        .collect()
}

/// Descriptors of TUN devices in this process: they would hold a namespace.
fn devices() -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("net/tun")))
        .count()
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn nothing_is_left_behind() {
    let _alone = alone();
    let test = "nothing_is_left_behind";
    let before = (names(), namespaces(), devices());
    let short = |elements| plan(Algorithm::Reno, 200 * MILLISECOND, elements);
    // In the midst of a transfer.
    let Some(_) = outcome(test, &short(vec![link(20)])) else {
        return;
    };
    assert_eq!((names(), namespaces(), devices()), before);
    // An error when both ends are there.
    let captured = short(vec![ElementKind::Tap { snaplen: 96 }]);
    let file = "/nonexistent/directory/tap.pcap".into();
    let error = super::run(&captured, &[file], &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, TestbedError::Capture(..)), "{error}");
    assert_eq!((names(), namespaces(), devices()), before);
    // A panic at the first packet, which is counted for an aggregate that does not exist.
    let mut broken = short(vec![]);
    broken.flows[0].aggregate = 7;
    catch_unwind(AssertUnwindSafe(|| {
        run_checked(&broken, &[], &AtomicBool::new(false))
    }))
    .unwrap_err();
    assert_eq!((names(), namespaces(), devices()), before);
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_run_ends_when_told_to() {
    let _alone = alone();
    let mut plan = plan(Algorithm::Reno, 60 * SECOND, vec![link(20)]);
    let mut late = plan.flows[0].clone();
    late.start = 50 * SECOND;
    plan.flows.push(late);
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        super::run(&plan, &[], &stop)
    });
    if let Some(result) = permitted("a_run_ends_when_told_to", result) {
        let error = result.unwrap_err();
        assert!(matches!(error, TestbedError::Plan(RunError::Interrupted)));
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

/// Three transfers of 5 s. From run to run the kernel's goodput scatters by 2 % behind this bucket,
/// and not at all behind the shaper. A burst that this machine delays costs a few per cent more.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn goodput_is_the_lab_s() {
    const SCENARIO: &str = r#"
        duration = "5s"
        [[element]]
        name = "access"
        kind = "link"
        rate = "100mbit"
        queue = "1000 packets"
        [[element]]
        name = "gate"
        kind = "policer"
        rate = "10mbit"
        [[element]]
        name = "wire"
        kind = "delay"
        delay = "1ms"
        jitter = "1ms"
        [[flow]]
        name = "bulk"
        rtt = "39ms"
        path = ["access", "gate"]
        back = ["wire"]
        [sweep]
        gate = [{ kind = "policer", burst = "125kB" }, { kind = "shaper" }]
        bulk.cc = [["reno"], ["cubic"]]
    "#;
    let _alone = alone();
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let stop = AtomicBool::new(false);
    // With the shaper, Cubic is the same as Reno.
    for point in 0..3 {
        let compared = match compare::point(&scenario, point, 1, None, &stop) {
            Ok(compared) => compared,
            Err(CompareError::Kernel(error)) => {
                permitted::<()>("goodput_is_the_lab_s", Err(error)).map(Result::unwrap);
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let goodput = compared.comparisons[0];
        assert_eq!(goodput.measure, Measure::Goodput);
        let difference = goodput.difference().unwrap();
        assert!(difference.abs() < 0.15, "{point}: {compared:?}");
    }
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn what_only_the_virtual_lab_can_do_is_refused() {
    let refused = |plan: &Plan| match run(plan) {
        Err(TestbedError::Unsupported(what)) => what,
        other => panic!("{other:?}"),
    };
    let mut old = plan(Algorithm::Reno, SECOND, vec![]);
    old.flows[0].tcp.rack = false;
    assert!(refused(&old).starts_with("flow 0 ('flow'), settings of TCP"));
    let mut nowhere = plan(Algorithm::Reno, SECOND, vec![]);
    nowhere.flows[0].forward = vec![7];
    assert!(matches!(run(&nowhere), Err(TestbedError::Plan(_))));
    let mut video = plan(Algorithm::Reno, SECOND, vec![]);
    video.flows[0].traffic = Traffic::Datagrams {
        rate: Rate::from_bits_per_second(RATE),
        bytes: 1500,
        stop: None,
    };
    assert!(refused(&video).ends_with("traffic that is not bulk"));
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn an_algorithm_that_the_kernel_lacks_is_named_in_the_error() {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if available.unwrap_or_default().contains("vegas") {
        return;
    }
    let _alone = alone();
    let test = "an_algorithm_that_the_kernel_lacks_is_named_in_the_error";
    let result = run(&plan(Algorithm::Vegas, SECOND, vec![]));
    if let Some(result) = permitted(test, result) {
        let error = result.unwrap_err();
        assert!(
            matches!(error, TestbedError::Algorithm("vegas")),
            "{error:?}"
        );
    }
}
