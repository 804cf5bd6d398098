mod arbitrary;
mod connections;
mod custom;
mod limiters;
mod parts;
mod today;

use super::*;
use crate::outcome::DROP_STEPS;
use crate::plan::*;
use crate::testing::*;
use crate::{MILLISECOND, SECOND};

fn outcome(plan: &Plan) -> Outcome {
    run(plan, &mut |_| true).unwrap()
}

#[test]
fn datagrams_arrive_after_delay_and_link() {
    // 1 Mbit/s of 1000 bytes: one each 8 ms, the first at 0; 10 ms of delay; 1014 bytes at
    // 8 Mbit/s take 1.014 ms. Those sent before 10 s − 11.014 ms arrive.
    let mut plan = plan(
        vec![link("link", 8_000_000, 10)],
        vec![datagrams(1_000_000, 1000)],
    );
    plan.window = SECOND;
    let got = outcome(&plan);
    let flow = &got.flows[0];
    assert_eq!((flow.sent_packets, flow.dropped), (1250, 0));
    assert_eq!(flow.delivered, 1249 * 972);
    // The first window lacks the two packets that are under way at its end.
    assert_eq!(flow.windows[0], 124 * 1000);
    assert_eq!(flow.windows[1..], [125_000; 9]);
    assert_eq!(flow.windows, got.aggregates[0].windows);
    assert_eq!(got.elements[0].packets, 1249);
    assert_eq!(got.elements[0].bytes, 1249 * 1014);
}

#[test]
fn a_link_is_shared_and_the_rest_dropped() {
    // 20 Mbit/s into 10: 1014 bytes each 811.2 µs.
    let plan = plan(
        vec![link("link", 10_000_000, 50)],
        vec![datagrams(20_000_000, 1000)],
    );
    let got = outcome(&plan);
    let expected = (10 * SECOND - 10 * MILLISECOND) / 811_200;
    assert_eq!(got.flows[0].delivered, expected * 972);
    let lost = got.elements[0].dropped;
    assert_eq!(got.flows[0].dropped, lost);
    assert_eq!(got.elements[0].dropped_bytes, lost * 1014);
    // Sent packets that were not delivered are in one of three places: one is being sent; 25 are in
    // the delay, 400 µs apart; the others wait. These are 50, or 49 if the link has just taken one.
    let waiting = got.flows[0].sent_packets - lost - expected - 1 - 25;
    assert!(waiting == 49 || waiting == 50, "{waiting}");
}

#[test]
fn fair_queues_are_fair_between_equal_and_unequal_flows() {
    let queue = QueueKind::FqCoDel {
        flows: 1024,
        quantum: 1514,
        target: 5 * MILLISECOND,
        interval: 100 * MILLISECOND,
        packets: 1000,
        ecn: true,
    };
    let rate = rate(10_000_000);
    let link = element("link", ElementKind::Link { rate, queue });
    let mut flows: Vec<_> = (0..4).map(|_| datagrams(5_000_000, 1400)).collect();
    flows.push(datagrams(40_000_000, 700));
    flows.push(datagrams(500_000, 200));
    let got = outcome(&plan(vec![link], flows));
    // Jain's index of the flows that want more than their share. Headers make a small difference: 14
    // bytes in 700 and in 1400.
    let wire: Vec<f64> = (got.flows.iter())
        .map(|flow| flow.windows.iter().sum::<u64>() as f64)
        .collect();
    let greedy = &wire[..5];
    let sum: f64 = greedy.iter().sum();
    let jain = sum * sum / (5.0 * greedy.iter().map(|x| x * x).sum::<f64>());
    assert!(jain > 0.999, "{jain}: {wire:?}");
    // A flow that stays below its share loses nothing.
    assert_eq!(got.flows[5].dropped, 0);
}

/// A flow ends with the last byte that its client did not have yet, not with a duplicate of it that comes later.
#[test]
fn a_duplicate_is_not_the_end_of_a_flow() {
    let kind = ElementKind::Loss {
        probability: 0.7,
        burst: 1.0,
    };
    let mut again = 0;
    for seed in 0..20 {
        let mut plan = plan(
            vec![element("loss", kind.clone())],
            vec![bulk(Some(50_000))],
        );
        let flow = &mut plan.flows[0];
        // Acknowledgements are lost, data is not.
        flow.back = std::mem::take(&mut flow.forward);
        flow.tcp.gro = if seed % 2 == 0 { 50_000 } else { 0 };
        (plan.seed, plan.duration) = (seed, 1000 * SECOND);
        let got = outcome(&plan).flows.swap_remove(0);
        assert_eq!(got.end, got.completions[0].end, "seed {seed}");
        again += got.retransmitted;
    }
    assert!(again > 0);
}

/// A flow of which nothing arrives lasts until the simulation ends: its throughput is 0, not missing.
#[test]
fn a_flow_of_which_nothing_arrives_has_no_early_end() {
    let kind = ElementKind::Loss {
        probability: 1.0,
        burst: 1.0,
    };
    let mut flow = datagrams(1_000_000, 1000);
    flow.start = SECOND;
    if let Traffic::Datagrams { stop, .. } = &mut flow.traffic {
        *stop = Some(3 * SECOND);
    }
    let plan = plan(vec![element("loss", kind)], vec![flow]);
    let got = outcome(&plan);
    assert_eq!((got.flows[0].dropped, got.flows[0].delivered), (250, 0));
    assert_eq!(got.flows[0].end, plan.duration);
    let windows = crate::summary::windows_of_aggregate(&got, 0);
    assert_eq!(windows, 4..40);
}

fn mixed(seed: u64) -> Plan {
    let rate = rate(9_000_000);
    let elements = vec![
        element(
            "loss",
            ElementKind::Loss {
                probability: 0.01,
                burst: 3.0,
            },
        ),
        element(
            "jitter",
            ElementKind::Delay {
                delay: 3 * MILLISECOND,
                jitter: MILLISECOND,
            },
        ),
        element(
            "reorder",
            ElementKind::Reorder {
                probability: 0.02,
                by: 2 * MILLISECOND,
            },
        ),
        element(
            "red",
            ElementKind::Link {
                rate,
                queue: QueueKind::Red {
                    min: 20_000,
                    max: 60_000,
                    probability: 0.1,
                    limit: 200_000,
                    ecn: false,
                },
            },
        ),
    ];
    let mut on_off = flow(Traffic::OnOff {
        mean: 100_000.0,
        shape: 1.2,
        max: 1e7,
        pause: 100 * MILLISECOND,
        reconnect: true,
    });
    on_off.start = 7;
    let video = flow(Traffic::Video {
        chunk: 200_000,
        chunks: None,
        pause: 300 * MILLISECOND,
        request: 300,
    });
    let flows = vec![datagrams(3_000_000, 1200), bulk(None), on_off, video];
    Plan {
        seed,
        sample: Some(100 * MILLISECOND),
        ..plan(elements, flows)
    }
}

#[test]
fn the_same_plan_gives_the_same_outcome_and_another_seed_another() {
    let first = outcome(&mixed(1));
    assert_eq!(first, outcome(&mixed(1)));
    assert_ne!(first, outcome(&mixed(2)));
    assert!(first.flows.iter().all(|flow| flow.dropped > 0));
    assert_eq!(first.elements[3].samples.len(), 100);
    for element in &first.elements {
        assert_eq!(element.drops.iter().sum::<u64>(), element.dropped);
        assert!(element.drops.len() as u64 <= DROP_STEPS);
    }
}

#[test]
fn an_element_more_does_not_change_what_others_draw() {
    let mut more = mixed(1);
    more.elements.push(element(
        "unused",
        ElementKind::Loss {
            probability: 0.5,
            burst: 1.0,
        },
    ));
    let (one, other) = (outcome(&mixed(1)), outcome(&more));
    assert_eq!(one.flows, other.flows);
    assert_eq!(one.elements[..], other.elements[..4]);
}

#[test]
fn it_can_be_interrupted() {
    let mut times = Vec::new();
    let result = run(&mixed(1), &mut |now| {
        times.push(now);
        times.len() < 2
    });
    assert!(matches!(result, Err(RunError::Interrupted)), "{result:?}");
    assert!(times.len() == 2 && times[0] < times[1], "{times:?}");
}

#[test]
fn packets_do_not_pile_up_without_end() {
    let mut plan = plan(vec![], vec![datagrams(200_000_000_000, 28)]);
    plan.flows[0].delay = 1000 * SECOND;
    let error = run(&plan, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("on their way"), "{error}");
}

#[test]
fn a_thousand_elements_more_and_packets_still_find_their_way() {
    // Elements without delay are passed in a loop, not by recursion.
    let loss = ElementKind::Loss {
        probability: 0.0,
        burst: 1.0,
    };
    let elements = (0..1000).map(|index| element(&index.to_string(), loss.clone()));
    let got = outcome(&plan(elements.collect(), vec![bulk(Some(1_000_000))]));
    assert_eq!(got.flows[0].delivered, 1_000_000);
    assert_eq!(got.elements[0].packets, got.elements[999].packets);
}
