use std::io;

use super::*;
use crate::MILLISECOND;
use crate::capture::{CaptureWriter, InMemory};
use crate::scenario::Source;

const SWEEP: &str = r#"
    duration = "300ms"
    window = "50ms"
    [[element]]
    name = "gate"
    kind = "policer"
    rate = "5mbit"
    [[element]]
    name = "tap"
    kind = "tap"
    [[aggregate]]
    name = "home"
    count = 2
    [[flow]]
    name = "download"
    count = 2
    rtt = "5ms..20ms"
    path = ["tap", "gate"]
    [sweep]
    gate.rate = ["2mbit", "8mbit"]
    seeds = 2
"#;

fn scenario() -> Scenario {
    Scenario::parse(SWEEP).expect("sound")
}

fn results(jobs: usize, captures: Option<&dyn Captures>) -> (Vec<Finished>, u64) {
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let settings = Settings {
        jobs,
        captures,
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    let mut finished = Vec::new();
    run::<ExperimentError>(&scenario(), settings, |one| {
        finished.push(one);
        Ok(())
    })
    .expect("runs");
    (finished, progress.into_inner())
}

#[test]
fn results_are_in_order_and_do_not_depend_on_the_number_of_cores() {
    let (one, progress) = results(1, None);
    let order: Vec<(usize, u64, &str)> = one
        .iter()
        .map(|one| (one.point, one.seed, one.group.plan.aggregates[0].as_str()))
        .collect();
    assert_eq!(
        order,
        [
            (0, 1, "home-1"),
            (0, 1, "home-2"),
            (0, 2, "home-1"),
            (0, 2, "home-2"),
            (1, 1, "home-1"),
            (1, 1, "home-2"),
            (1, 2, "home-1"),
            (1, 2, "home-2"),
        ]
    );
    assert_eq!(progress, 8 * 300 * MILLISECOND);
    assert_eq!(progress, scenario().work());
    assert!(one.iter().all(|one| one.outcome.packets > 0));
    assert!(one[0].outcome != one[1].outcome && one[0].outcome != one[2].outcome);
    assert!(results(3, None).0 == one);
    // Taps were left out.
    assert!(one.iter().all(|one| one.group.plan.elements.len() == 1));
}

#[test]
fn captures_have_names_of_their_own() {
    let captures = InMemory::default();
    let (finished, _) = results(2, Some(&captures));
    assert_eq!(finished.len(), 8);
    let captures = captures.into_captures();
    let mut names: Vec<&String> = finished.iter().flat_map(|one| &one.captures).collect();
    names.sort();
    assert_eq!(names, captures.keys().collect::<Vec<_>>());
    assert_eq!(names.len(), 8);
    assert_eq!(names[0], "tap.point-0.seed-1.home-1.pcap");
}

#[test]
fn complete_results_are_handed_on_after_an_interruption() {
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let settings = Settings {
        jobs: 1,
        captures: None,
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    let mut finished = Vec::new();
    run::<ExperimentError>(&scenario(), settings, |one| {
        finished.push((one.point, one.seed));
        stop.store(true, Ordering::Relaxed);
        Ok(())
    })
    .expect("no error");
    assert!((1..8).contains(&finished.len()), "{finished:?}");
    assert_eq!(finished[0], (0, 1));
}

#[test]
fn an_error_ends_it() {
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    /// A capture that cannot be written.
    struct Nowhere;
    impl Captures for Nowhere {
        fn create(&self, _: &str) -> io::Result<Box<dyn CaptureWriter>> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn describe(&self, name: &str) -> String {
            format!("/nonexistent/folder/{name}")
        }
    }
    let settings = Settings {
        jobs: 2,
        captures: Some(&Nowhere),
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    let error = run::<ExperimentError>(&scenario(), settings, |_| Ok(())).expect_err("no folder");
    assert!(
        error
            .to_string()
            .contains("/nonexistent/folder/tap.point-0.seed-1.home-1.pcap")
            && error
                .to_string()
                .starts_with("point 0 (gate.rate=2mbit), seed 1: cannot write"),
        "{error}"
    );
}

#[test]
fn a_run_is_the_same_whether_it_is_captured_or_not() {
    for shared in [true, false] {
        // All random elements are behind the tap.
        let scenario = format!(
            "duration = \"2s\"\n\
             [[element]]\nname = \"tap\"\nkind = \"tap\"\nshared = {shared}\n\
             [[element]]\nname = \"noise\"\nkind = \"delay\"\ndelay = \"1ms\"\njitter = \"1ms\"\n\
             [[element]]\nname = \"faults\"\nkind = \"loss\"\nprobability = 0.01\n\
             [[aggregate]]\nname = \"home\"\ncount = 2\n\
             [[flow]]\nname = \"f\"\nrtt = \"20ms\"\npath = [\"tap\", \"faults\", \"noise\"]\n"
        );
        let scenario = Scenario::parse(&scenario).expect("sound");
        let memory = InMemory::default();
        let [with, without] = [Some(&memory as &dyn Captures), None].map(|captures| {
            let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
            let settings = Settings {
                jobs: 1,
                captures,
                stop: Some(&stop),
                progress: Some(&progress),
                look: None,
            };
            let mut flows = Vec::new();
            run::<ExperimentError>(&scenario, settings, |one| {
                flows.extend(one.outcome.flows);
                Ok(())
            })
            .expect("runs");
            flows
        });
        assert!(with.iter().all(|flow| flow.dropped > 0));
        assert_eq!(with, without);
    }
}

#[test]
fn captures_of_names_that_join_alike_are_kept_apart() {
    let scenario = SWEEP
        .replace("name = \"home\"\n    count = 2", "name = \"a\"\n    [[aggregate]]\n    name = \"a-a\"\n    [[element]]\n    name = \"tap-a\"\n    kind = \"tap\"")
        .replace("path = [\"tap\",", "path = [\"tap\", \"tap-a\",");
    let scenario = Scenario::parse(&scenario).expect("sound");
    let captures = InMemory::default();
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let settings = Settings {
        jobs: 2,
        captures: Some(&captures),
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    run::<ExperimentError>(&scenario, settings, |_| Ok(())).expect("runs");
    // Two taps, two aggregates, two points, two seeds.
    assert_eq!(captures.into_captures().len(), 16);
}

#[test]
fn what_a_higher_priority_leaves_is_used() {
    // The first 4 of 10 Mbit/s are taken packet by packet; TCP gets the rate that a shaper would
    // leave.
    let scenario = r#"
        duration = "10s"
        [[element]]
        name = "gate"
        kind = "bc-pqp"
        rate = "10mbit"
        policy = { priority = ["queue", "queue"] }
        [[flow]]
        name = "call"
        class = 0
        rtt = "20ms"
        traffic = { kind = "udp", rate = "4mbit" }
        path = ["gate"]
        [[flow]]
        name = "download"
        class = 1
        rtt = "20ms"
        path = ["gate"]
    "#;
    let scenario = Scenario::parse(scenario).expect("sound");
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let settings = Settings {
        jobs: 1,
        captures: None,
        stop: Some(&stop),
        progress: Some(&progress),
        look: None,
    };
    run::<ExperimentError>(&scenario, settings, |one| {
        let bits = one.outcome.flows[1].delivered * 8 / 10;
        assert!((5_300_000..6_000_000).contains(&bits), "{bits}");
        assert_eq!(one.outcome.flows[0].dropped, 0);
        Ok(())
    })
    .expect("runs");
}

#[test]
fn threads_that_are_left_over_help_with_large_simulations() {
    let spread = |points: &str, seeds: &str, threads| {
        let text = format!(
            "duration = '1s'\n[[element]]\nname = 'l'\nkind = 'link'\nrate = '1mbit'\n[[flow]]\nname = 'f'\nrtt = '9ms'\npath = ['l']\n[sweep]\nseeds = {seeds}\nf.mss = {points}\n"
        );
        let scenario = Scenario::parse(Source {
            file: "spread",
            text: &text,
            settings: &[],
        });
        let scenario = scenario.unwrap();
        let (workers, each, jobs) = super::spread(&scenario, threads, jobs(&scenario, false));
        (workers, each, jobs.count())
    };
    assert_eq!(spread("[1000]", "1", 1), (1, 1, 1));
    assert_eq!(spread("[1000]", "1", 8), (1, 8, 1));
    assert_eq!(spread("[1000, 1100]", "1", 8), (2, 4, 2));
    assert_eq!(spread("[1000, 1100]", "3", 8), (6, 1, 6));
    assert_eq!(spread("[1000, 1100]", "3", 2), (2, 1, 6));
}
