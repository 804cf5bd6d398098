use super::{Comparison, Measure, Spread, Verdict, names};
use tidegate_lab::outcome::{Distribution, FlowOutcome, Outcome};
use tidegate_lab::scenario::{Run, Scenario, Source};

fn compare(kernel: &[f64], lab: &[f64]) -> Comparison {
    Comparison {
        measure: Measure::Goodput,
        kernel: Spread::of(kernel.to_vec()),
        lab: Spread::of(lab.to_vec()),
    }
}

#[test]
fn medians_are_those_of_sorted_runs() {
    let spread = |values: &[f64]| Spread::of(values.to_vec());
    let of = |min, median, max| Spread { min, median, max };
    assert_eq!(spread(&[3.0, 1.0, 8.0]), of(1.0, 3.0, 8.0));
    assert_eq!(spread(&[4.0, 1.0, 8.0, 2.0]), of(1.0, 3.0, 8.0));
    assert_eq!(spread(&[]), Spread::default());
}

#[test]
fn differences_are_relative_to_the_kernel() {
    let ten = compare(&[100.0], &[110.0]);
    assert_eq!(ten.difference(), Some(0.1));
    assert_eq!(ten.verdict(), Verdict::Agree);
    let more = compare(&[100.0], &[89.0]);
    assert_eq!(more.difference(), Some(-0.11));
    assert_eq!(more.verdict(), Verdict::Differ);
    // 50 is far from 100, but one run of the kernel was that low.
    let wide = compare(&[45.0, 100.0, 110.0], &[50.0, 50.0, 50.0]);
    assert_eq!(wide.verdict(), Verdict::Scatter);
}

#[test]
fn nothing_on_both_sides_agrees_and_something_beside_nothing_does_not() {
    assert_eq!(compare(&[0.0], &[0.0]).difference(), Some(0.0));
    assert_eq!(compare(&[0.0], &[0.0]).verdict(), Verdict::Agree);
    let one = compare(&[0.0], &[2.0]);
    assert_eq!((one.difference(), one.verdict()), (None, Verdict::Differ));
}

#[test]
fn measures_are_over_all_flows_of_all_groups() {
    let flow = |delivered, sent_packets, dropped, rtt| FlowOutcome {
        delivered,
        sent_packets,
        dropped,
        rtt: Distribution {
            count: u64::from(rtt > 0),
            p50: rtt,
            p95: rtt * 2,
            ..Distribution::default()
        },
        ..FlowOutcome::default()
    };
    let group = |flows| Outcome {
        flows,
        ..Outcome::default()
    };
    // The last flow sent nothing.
    let run = [
        group(vec![flow(500, 60, 6, 30), flow(700, 30, 3, 10)]),
        group(vec![flow(800, 10, 6, 20), flow(0, 0, 0, 0)]),
    ];
    let flows: Vec<_> = run.iter().flat_map(|outcome| &outcome.flows).collect();
    let of = |measure: Measure| measure.of(&flows, tidegate_lab::SECOND, 4);
    assert_eq!(Measure::ALL.map(of), [16_000.0, 0.15, 20.0, 40.0, 4.0]);
    let second = |measure: Measure| measure.of(&flows[1..2], tidegate_lab::SECOND, 0);
    assert_eq!(Measure::OF_FLOWS.map(second), [5_600.0, 0.1, 10.0, 20.0]);
    let last = |measure: Measure| measure.of(&flows[3..], tidegate_lab::SECOND, 0);
    assert_eq!(Measure::OF_FLOWS.map(last), [0.0; 4]);
}

#[test]
fn flows_are_named_with_their_aggregates_if_there_are_several() {
    let scenario = |aggregates: &str| {
        let text = format!(
            "duration = '1s'\n{aggregates}\n[[element]]\nname = 'e'\nkind = 'policer'\nrate = '8mbit'\n\
             [[flow]]\nname = 'f'\ncount = 2\nrtt = '10ms'\npath = ['e']"
        );
        let source = Source {
            file: "test",
            text: &text,
            settings: &[],
        };
        let scenario = Scenario::parse(source).unwrap();
        let run = Run {
            point: 0,
            seed: 1,
            taps: false,
        };
        names(&scenario.groups(run).unwrap())
    };
    assert_eq!(scenario(""), ["f 0", "f 1"]);
    let homes = "[[aggregate]]\nname = 'home'\ncount = 2";
    let named = ["home-1 f 0", "home-1 f 1", "home-2 f 0", "home-2 f 1"];
    assert_eq!(scenario(homes), named);
}
