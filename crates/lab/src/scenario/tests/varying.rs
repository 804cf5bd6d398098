//! Links that vary, flows that arrive at random, and sizes that are drawn.

use super::*;
use crate::experiment::{self, Settings};
use crate::outcome::Outcome;
use crate::run;

const LINK: &str = r#"
window = "100ms"
[[element]]
name = "radio"
kind = "link"
queue = "20 packets"
LINK

[[flow]]
name = "stream"
rtt = "10ms"
traffic = { kind = "udp", rate = "40mbit", size = "1500B" }
path = ["radio"]
"#;

fn text(link: &str, duration: &str) -> String {
    format!("duration = \"{duration}\"{}", LINK.replace("LINK", link))
}

fn outcome(scenario: &Scenario) -> Outcome {
    run(&one(scenario).plan, &mut |_| true).expect("runs")
}

/// Packets of 1,500 bytes that arrive in each window.
fn packets(outcome: &Outcome) -> Vec<u64> {
    let windows = outcome.flows[0].windows.iter();
    windows.map(|bytes| bytes / 1500).collect()
}

/// 12.112 Mbit/s are 1,000 frames of 1,514 bytes in a second.
#[test]
fn a_link_carries_what_its_steps_let_through() {
    let steps =
        "rates = [[\"0s\", \"12.112mbit\"], [\"300ms\", \"0bit\"], [\"500ms\", \"24.224mbit\"]]";
    let scenario = parse(&text(steps, "1s")).expect("sound");
    let got = packets(&outcome(&scenario));
    // Until the first has passed the link and half of the round trip, nothing arrives.
    assert!((93..=96).contains(&got[0]), "{got:?}");
    assert_eq!(got[1..3], [100, 100]);
    assert!(got[3] <= 6 && got[4] == 0, "{got:?}");
    assert_eq!(got[6..], [200; 4]);

    let on_off = "rates = [[\"0s\", \"12.112mbit\"], [\"50ms\", \"0bit\"]]\nperiod = \"100ms\"";
    let scenario = parse(&text(on_off, "1s")).expect("sound");
    assert_eq!(packets(&outcome(&scenario))[1..], [50; 9]);
}

/// As Mahimahi counts: a packet of 1,500 bytes for each line, again and again.
#[test]
fn a_link_carries_a_packet_for_each_line_of_its_trace() {
    let lines: Vec<u32> = (1..=100).flat_map(|ms| vec![ms; ms as usize % 3]).collect();
    let trace: String = lines.iter().map(|ms| format!("{ms}\n")).collect();
    let read = |text: &str| {
        Scenario::parse_with(text, &|name| match name {
            "cell.down" => Ok(trace.clone()),
            _ => Err("no such file".to_owned()),
        })
    };
    let scenario = read(&text("trace = \"cell.down\"", "1s")).expect("sound");
    let got = packets(&outcome(&scenario));
    // 10 ms of delay move the windows, but each has as many lines as the trace.
    assert_eq!(got[1..], [lines.len() as u64; 9]);
    let error = read(&text("trace = \"cell.up\"", "1s")).unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
}

#[test]
fn contradictions_of_links_are_mistakes() {
    for (link, complaint) in [
        ("", "`rate` is missing"),
        (
            "rate = \"1mbit\"\nrates = [[\"0s\", \"1mbit\"]]",
            "a link has `rate` or `rates`",
        ),
        ("rate = \"1mbit\"\nperiod = \"1s\"", "no meaning without"),
        ("trace = \"cell.down\"", "files cannot be read here"),
        ("rates = [[\"1s\", \"1mbit\"]]", "begins at 0s"),
        ("rates = [\"1mbit\"]", "is a pair such as"),
        ("rates = [[\"0s\", \"1bit\"]]", "must be 0bit or from"),
        (
            "rates = [[\"0s\", \"1mbit\"], [\"1s\", \"0bit\"]]\nperiod = \"1s\"",
            "the period ends after",
        ),
    ] {
        let error = parse(&text(link, "1s")).expect_err(link);
        assert!(error.contains(complaint), "{link}: {error}");
    }
}

fn arriving(flow: &str) -> String {
    format!(
        "duration = \"100s\"\n[[element]]\nname = \"line\"\nkind = \"link\"\nrate = \"1gbit\"\n\
         [[flow]]\nname = \"web\"\nrtt = \"10ms\"\npath = [\"line\"]\n{flow}\n"
    )
}

/// The counts of a Poisson process in equal times have their mean as their variance.
#[test]
fn flows_arrive_as_a_poisson_process() {
    let scenario = parse(&arriving("arrivals = \"50ms\"\nstart = \"1s\"")).expect("sound");
    let plan = one(&scenario).plan;
    assert_eq!(plan.flows[0].start, SECOND);
    assert!(plan.flows.is_sorted_by_key(|flow| flow.start));
    let mut counts = [0.0; 99];
    for flow in &plan.flows {
        counts[(flow.start / SECOND) as usize - 1] += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / 99.0;
    let variance = counts.iter().map(|count| (count - mean).powi(2));
    let variance = variance.sum::<f64>() / 98.0;
    // 20 in each second; the standard errors are 0.45 and 2.9.
    assert!((18.6..21.4).contains(&mean), "{mean}");
    assert!((11.3..28.7).contains(&variance), "{variance}");
    assert_ne!(
        plan.flows,
        scenario
            .groups(Run {
                point: 0,
                seed: 2,
                taps: true
            })
            .expect("sound")[0]
            .plan
            .flows
    );
}

#[test]
fn flows_arrive_as_a_trace_says() {
    let read = |flow: &str| {
        let files = |name: &str| match name {
            "sizes.txt" => Ok("# s B\n0 1000\n0.25 2000\n99.5 3000\n".to_owned()),
            "times.txt" => Ok("0\n0.5\n".to_owned()),
            _ => Err("there is no such file".to_owned()),
        };
        let scenario = Scenario::parse_with(&arriving(flow), &files);
        let plan = scenario.map(|scenario| one(&scenario).plan);
        plan.map_err(|error| error.to_string())
    };
    let plan = read("start = \"1s\"\narrivals = { trace = \"sizes.txt\" }").expect("sound");
    let flows = plan
        .flows
        .iter()
        .map(|flow| (flow.start, flow.traffic.clone()));
    let bulk = |bytes| Traffic::Bulk { bytes: Some(bytes) };
    // The third would begin after the end.
    let wanted = vec![(SECOND, bulk(1000)), (SECOND + SECOND / 4, bulk(2000))];
    assert_eq!(flows.collect::<Vec<_>>(), wanted);
    let web = "traffic = \"web\"\narrivals = { trace = ";
    let plan = read(&format!("{web}\"times.txt\" }}")).expect("sound");
    assert_eq!(plan.flows.len(), 2);
    for (flow, complaint) in [
        (
            format!("{web}\"sizes.txt\" }}"),
            "only traffic of kind `bulk`",
        ),
        (format!("{web}\"none.txt\" }}"), "there is no such file"),
        (
            "arrivals = { file = \"times.txt\" }".to_owned(),
            "unknown key `file`",
        ),
        ("arrivals = { }".to_owned(), "`trace`"),
    ] {
        let error = read(&flow).expect_err(&flow);
        assert!(error.contains(complaint), "{flow}: {error}");
    }
}

/// A range may have values that contradict another key, and which of them are drawn depends on the seed.
#[test]
fn what_any_seed_draws_is_checked() {
    let with = |seeds: &str| {
        let flow = "receive-window = \"1kB..3kB\"\n[sweep]\nseed = ";
        parse(&arriving(&format!("{flow}{seeds}")))
    };
    let sound = with("[2, 3, 4]").expect("sound");
    assert_eq!(sound.simulations(0), 3);
    assert_eq!(
        with("[2, 3, 4, 5]").expect_err("of seed 5"),
        "a.toml:6:1: seed 5: the receive window must hold a segment"
    );
    // The number of flows differs too.
    let own = "arrivals = \"25s\"\nqueue = \"own\"";
    let gate = "kind = \"fair-policer\"\nqueues = 8\nrate";
    let text = arriving(own).replace("kind = \"link\"\nrate", gate);
    assert!(parse(&text).is_ok());
    let error = parse(&format!("{text}[sweep]\nseeds = 100")).expect_err("nine flows");
    assert!(
        error.contains(": seed ") && error.contains("there is no queue 8"),
        "{error}"
    );
}

#[test]
fn a_seed_may_draw_no_flow() {
    let text = |sweep: &str| {
        let flow = "start = \"1s..9s\"\narrivals = \"1s\"\n[sweep]\nseed = ";
        arriving(&format!("{flow}{sweep}")).replace("100s", "5s")
    };
    let scenario = parse(&text("[4, 5, 6, 7, 8, 9, 10, 11]")).expect("sound");
    let of = |seed| {
        let run = Run {
            point: 0,
            seed,
            taps: false,
        };
        scenario.groups(run).expect("sound").len() as u64
    };
    let simulations: Vec<u64> = scenario.seeds().iter().map(|&seed| of(seed)).collect();
    assert!(simulations.contains(&0) && simulations.contains(&1));
    let all = simulations.iter().sum::<u64>();
    assert_eq!(scenario.simulations(0), all);
    assert_eq!(scenario.work(), all * 5 * SECOND);
    let mut finished = 0;
    let ended = experiment::run(&scenario, Settings::default(), |_| {
        finished += 1;
        Ok::<_, experiment::ExperimentError>(())
    });
    ended.expect("every seed runs");
    assert_eq!(finished, all);
    // Without any, there is nothing to simulate.
    let none = scenario.seeds().iter().zip(&simulations);
    let none: Vec<u64> = none
        .filter(|(_, simulations)| **simulations == 0)
        .map(|(&seed, _)| seed)
        .collect();
    assert_eq!(
        parse(&text(&format!("{none:?}"))).expect_err("no flow"),
        "a.toml:10:9: no flow arrives before the end of the run (5s)"
    );
    let late = "arrivals = { trace = \"late.txt\" }";
    let error = Scenario::parse_with(&arriving(late), &|_| Ok("100\n".to_owned()));
    assert_eq!(
        error.expect_err("no flow").to_string(),
        "scenario:10:12: no flow arrives before the end of the run (100s)"
    );
}

/// Editors of some systems begin a file with a byte order mark.
#[test]
fn byte_order_marks_are_no_part_of_files() {
    let with = |text: &str, content: &str| {
        let files = |_: &str| Ok(format!("\u{feff}{content}"));
        Scenario::parse_with(text, &files).map_err(|error| error.to_string())
    };
    let archive = r#"{"log": {"entries": [{"startedDateTime": "2026-03-01T00:00:00.030Z", "time": 100,
        "request": {"url": "https://a.example/"}, "response": {"status": 200, "_transferSize": 500}}]}}"#;
    let web = arriving("traffic = { kind = \"web\", page = \"a.har\" }");
    with(&web, archive).expect("an archive");
    let arrivals = arriving("arrivals = { trace = \"sizes.txt\" }");
    with(&arrivals, "0 1000\n").expect("arrivals");
    with(&text("trace = \"cell.down\"", "1s"), "1\n2\n").expect("a trace");
}

#[test]
fn sizes_are_drawn_from_distributions() {
    let sizes = |size: &str| -> Vec<u64> {
        let traffic = format!("count = 20000\ntraffic = {{ kind = \"bulk\", size = {size} }}");
        let plan = one(&parse(&arriving(&traffic)).expect(size)).plan;
        let size = |traffic: &Traffic| match traffic {
            Traffic::Bulk { bytes: Some(bytes) } => *bytes,
            other => panic!("{other:?}"),
        };
        plan.flows.iter().map(|flow| size(&flow.traffic)).collect()
    };
    let mean = |sizes: &[u64]| sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    let pareto = sizes("{ mean = \"100kB\", shape = 1.5, max = \"1MB\" }");
    assert!(pareto.iter().all(|&size| size <= 1_000_000));
    assert!((97_000.0..103_000.0).contains(&mean(&pareto)));
    // Half of them 10 kB, the others evenly up to 30 kB.
    let points = sizes("{ cdf = [[\"10kB\", 0.5], [\"30kB\", 1]] }");
    let least = points.iter().filter(|&&size| size == 10_000).count();
    assert!((9_700..10_300).contains(&least), "{least}");
    assert!((14_850.0..15_150.0).contains(&mean(&points)));
    for (flow, complaint) in [
        ("arrivals = \"1s\"\ncount = 2", "`count` or `arrivals`"),
        ("arrivals = \"1us\"", "too many flows"),
        (
            "traffic = { kind = \"bulk\", size = { shape = 2 } }",
            "either `mean` or `cdf`",
        ),
        (
            "traffic = { kind = \"bulk\", size = { cdf = [[\"1kB\", 0.5]] } }",
            "the share of the last is 1",
        ),
        (
            "traffic = { kind = \"bulk\", size = { cdf = [[\"2kB\", 0.5], [\"1kB\", 1]] } }",
            "ascend",
        ),
    ] {
        let error = parse(&arriving(flow)).expect_err(flow);
        assert!(error.contains(complaint), "{flow}: {error}");
    }
}
