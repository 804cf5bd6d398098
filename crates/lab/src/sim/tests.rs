use proptest::prelude::*;
use tidegate_limiter::PolicyTree;

use super::engine::{Engine, Ledger};
use super::testing::*;
use super::*;
use crate::plan::*;
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
    // The first window misses the two that are under way at its end.
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
    // Sent, less what is delivered, is being sent, or is in the delay, 25 at 400 µs; the rest
    // waits, 50 or, if the link has just taken one, 49.
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
    };
    let rate = rate(10_000_000);
    let link = element("link", ElementKind::Link { rate, queue });
    let mut flows: Vec<_> = (0..4).map(|_| datagrams(5_000_000, 1400)).collect();
    flows.push(datagrams(40_000_000, 700));
    flows.push(datagrams(500_000, 200));
    let got = outcome(&plan(vec![link], flows));
    // Jain's index of those that want more than their share; headers differ by 14 in 700 and 1400.
    let wire: Vec<f64> = (got.flows.iter())
        .map(|flow| flow.windows.iter().sum::<u64>() as f64)
        .collect();
    let greedy = &wire[..5];
    let sum: f64 = greedy.iter().sum();
    let jain = sum * sum / (5.0 * greedy.iter().map(|x| x * x).sum::<f64>());
    assert!(jain > 0.999, "{jain}: {wire:?}");
    // Who stays below its share loses nothing.
    assert_eq!(got.flows[5].dropped, 0);
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

fn queues() -> impl Strategy<Value = QueueKind> {
    let ms = MILLISECOND;
    prop_oneof![
        (0u64..100_000, 0u64..100).prop_map(|(bytes, packets)| QueueKind::DropTail {
            bytes: Some(bytes),
            packets: Some(packets)
        }),
        (1u64..50, 0u64..200, 0u64..100).prop_map(move |(target, interval, packets)| {
            QueueKind::CoDel {
                target: target * ms,
                interval: interval * ms,
                packets,
            }
        }),
        (0u64..50_000, 1u64..50_000, 0.0..=1.0f64, 0u64..100_000).prop_map(
            |(min, more, probability, limit)| QueueKind::Red {
                min,
                max: min + more,
                probability,
                limit
            }
        ),
        (0u64..50, 1u64..50, 0u64..100).prop_map(move |(target, update, packets)| {
            QueueKind::Pie {
                target: target * ms,
                update: update * ms,
                packets,
            }
        }),
        (1u32..20, 64u32..3000, 0u64..50, 0u64..100).prop_map(
            move |(flows, quantum, target, packets)| QueueKind::FqCoDel {
                flows,
                quantum,
                target: target * ms,
                interval: 20 * target * ms,
                packets,
            }
        ),
    ]
}

fn limiters() -> impl Strategy<Value = LimiterKind> {
    let rates = (100_000u64..20_000_000).prop_map(rate);
    (rates, 1u64..100_000, 0u8..7, 1u16..20).prop_map(|(rate, burst, which, queues)| {
        let policy = PolicyTree::fair(queues).unwrap();
        let fair = |form| LimiterKind::FairPolicer {
            rate,
            burst,
            form,
            weights: vec![],
            queues,
        };
        match which {
            0 => LimiterKind::Policer { rate, burst },
            1 => LimiterKind::SrTcm {
                rate,
                committed: burst,
                excess: burst,
                yellow: Some(10),
                red: None,
            },
            2 => fair(FairPolicerForm::Exact),
            3 => fair(FairPolicerForm::Sketch),
            4 => fair(FairPolicerForm::BcPqp),
            5 => LimiterKind::Phantom {
                rate,
                policy,
                queue: burst,
                control: (burst % 2 == 0).then_some(BurstControl {
                    period: 50 * MILLISECOND,
                    upper: 1500,
                    lower: 500,
                }),
            },
            _ => LimiterKind::Shaper {
                rate,
                policy,
                burst,
                queue_bytes: Some(burst),
                queue_packets: (burst % 2 == 0).then_some(20),
            },
        }
    })
}

fn elements() -> impl Strategy<Value = ElementKind> {
    prop_oneof![
        (0u64..20_000_000, 0u64..5_000_000)
            .prop_map(|(delay, jitter)| ElementKind::Delay { delay, jitter }),
        (100_000u64..100_000_000, queues()).prop_map(|(bits, queue)| ElementKind::Link {
            rate: rate(bits),
            queue
        }),
        (0.0..0.3f64, 1.0..4.0f64)
            .prop_map(|(probability, burst)| ElementKind::Loss { probability, burst }),
        (0.0..0.3f64, 0u64..10_000_000)
            .prop_map(|(probability, by)| ElementKind::Reorder { probability, by }),
        (limiters(), 0u32..40).prop_map(|(kind, overhead)| ElementKind::Limiter { kind, overhead }),
    ]
}

fn traffic() -> impl Strategy<Value = Traffic> {
    prop_oneof![
        prop::option::of(0u64..1_000_000).prop_map(|bytes| Traffic::Bulk { bytes }),
        (
            1.0..100_000.0f64,
            0.5..3.0f64,
            0u64..500_000_000,
            any::<bool>()
        )
            .prop_map(|(mean, shape, pause, reconnect)| Traffic::OnOff {
                mean,
                shape,
                max: mean * 50.0,
                pause,
                reconnect
            }),
        (
            1u64..300_000,
            prop::option::of(0u32..5),
            0u64..500_000_000,
            1u32..5000
        )
            .prop_map(|(chunk, chunks, pause, request)| Traffic::Video {
                chunk,
                chunks,
                pause,
                request
            }),
        (10_000u64..5_000_000, 28u32..9000).prop_map(|(bits, bytes)| Traffic::Datagrams {
            rate: rate(bits),
            bytes,
            stop: Some(SECOND)
        }),
    ]
}

prop_compose! {
    fn plans()(
        seed in any::<u64>(),
        kinds in prop::collection::vec(elements(), 0..6),
    )(
        flows in prop::collection::vec(
            (
                traffic(),
                prop::collection::vec(0..kinds.len().max(1), 0..4),
                prop::collection::vec(0..kinds.len().max(1), 0..4),
                1_000u64..50_000_000,
                0u64..1_500_000_000,
            ),
            0..6,
        ),
        seed in Just(seed),
        kinds in Just(kinds),
    ) -> Plan {
        let none = kinds.is_empty();
        let elements = kinds.into_iter().enumerate();
        let elements = elements.map(|(index, kind)| element(&index.to_string(), kind)).collect();
        let flows = flows.into_iter().map(|(traffic, forward, back, delay, start)| FlowPlan {
            forward: if none { vec![] } else { forward },
            back: if none { vec![] } else { back },
            delay,
            start,
            ..flow(traffic)
        });
        let mut plan = plan(vec![], vec![]);
        (plan.seed, plan.elements, plan.flows) = (seed, elements, flows.collect());
        // Without a link, a megabyte for each round trip of a microsecond would take too long.
        for flow in &mut plan.flows {
            flow.delay = flow.delay.max(2 * MILLISECOND);
            flow.tcp.receive_window = 100_000;
        }
        plan.duration = 2 * SECOND;
        plan.sample = Some(300 * MILLISECOND);
        plan
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Every packet that was sent has arrived, was dropped, or is under way.
    #[test]
    fn packets_are_conserved(plan in plans()) {
        let mut engine = Engine::new(&plan).unwrap();
        engine.run(&mut |_| true).unwrap();
        let ledgers = engine.ledger();
        for (index, Ledger { sent, arrived, dropped, under_way }) in ledgers.iter().enumerate() {
            prop_assert_eq!(*sent, arrived + dropped + under_way, "flow {}", index);
        }
        let got = engine.finish().unwrap();
        for flow in &got.flows {
            prop_assert!(flow.end <= plan.duration && flow.retransmitted <= flow.sent_packets);
        }
        let sum = |windows: &[u64]| windows.iter().sum::<u64>();
        let flows: u64 = got.flows.iter().map(|flow| sum(&flow.windows)).sum();
        prop_assert_eq!(sum(&got.aggregates[0].windows), flows);
    }
}

/// Rate of bytes at the IP layer that reached the clients from this window on, in Mbit/s.
fn goodput(got: &Outcome, from: usize) -> f64 {
    let windows = &got.aggregates[0].windows[from..];
    let seconds = windows.len() as f64 * got.window as f64 / 1e9;
    windows.iter().sum::<u64>() as f64 * 8.0 / seconds / 1e6
}

fn limiter(kind: LimiterKind) -> ElementPlan {
    element("limiter", ElementKind::Limiter { kind, overhead: 14 })
}

#[test]
fn a_bulk_transfer_fills_a_link() {
    let got = outcome(&plan(vec![link("link", 20_000_000, 100)], vec![bulk(None)]));
    // 1500 of 1514 bytes.
    let rate = goodput(&got, 8);
    assert!((19.5..19.82).contains(&rate), "{rate} Mbit/s");
    let flow = &got.flows[0];
    assert!(flow.rtt.count > 1000 && flow.rtt.min >= 20 * MILLISECOND);
    // The queue's 100 packets take 60.6 ms.
    assert!(flow.rtt.max < 90 * MILLISECOND, "{:?}", flow.rtt);
    assert!(flow.delivered > 20_000_000);
}

#[test]
fn a_bulk_transfer_is_held_to_the_rate_of_each_limiter() {
    let fair = |form| LimiterKind::FairPolicer {
        rate: rate(10_000_000),
        burst: 60_000,
        form,
        weights: vec![],
        queues: 16,
    };
    let phantom = |control| LimiterKind::Phantom {
        rate: rate(10_000_000),
        policy: PolicyTree::fair(16).unwrap(),
        queue: 250_000,
        control,
    };
    let kinds = [
        LimiterKind::Policer {
            rate: rate(10_000_000),
            burst: 50_000,
        },
        fair(FairPolicerForm::Exact),
        fair(FairPolicerForm::Sketch),
        fair(FairPolicerForm::BcPqp),
        phantom(None),
        phantom(Some(BurstControl {
            period: 100 * MILLISECOND,
            upper: 1500,
            lower: 500,
        })),
        LimiterKind::Shaper {
            rate: rate(10_000_000),
            policy: PolicyTree::fair(16).unwrap(),
            burst: 1514,
            queue_bytes: None,
            queue_packets: Some(100),
        },
    ];
    for kind in kinds {
        let mut plan = plan(vec![limiter(kind.clone())], vec![bulk(None), bulk(None)]);
        plan.sample = Some(SECOND);
        let got = outcome(&plan);
        let rate = goodput(&got, 20);
        // At most 1500 of 1514 bytes, and what was saved up before.
        assert!((7.0..10.4).contains(&rate), "{rate} Mbit/s: {kind:?}");
        assert!(got.flows.iter().all(|flow| flow.dropped > 0), "{kind:?}");
        let dropped: u64 = got.flows.iter().map(|flow| flow.dropped).sum();
        assert_eq!(dropped, got.elements[0].dropped, "{kind:?}");
        let samples = &got.elements[0].samples;
        assert_eq!(samples.len(), 10);
        assert!(
            samples[5..]
                .iter()
                .any(|sample| sample.queues.iter().sum::<u64>() > 0)
        );
    }
}

#[test]
fn classes_choose_queues() {
    let policy = PolicyTree::weighted(vec![
        (3, PolicyTree::queue()),
        (1, PolicyTree::fair(4).unwrap()),
    ]);
    let shaper = LimiterKind::Shaper {
        rate: rate(10_000_000),
        policy: policy.unwrap(),
        burst: 1514,
        queue_bytes: None,
        queue_packets: Some(50),
    };
    let classified = |class, queue| FlowPlan {
        class: Some(class),
        queue,
        ..datagrams(20_000_000, 1486)
    };
    let flows = vec![
        classified(0, None),
        classified(1, Some(2)),
        classified(1, Some(3)),
    ];
    let mut plan = plan(vec![limiter(shaper)], flows);
    plan.sample = Some(SECOND);
    let got = outcome(&plan);
    let bytes = |flow: usize| got.flows[flow].windows[4..].iter().sum::<u64>() as f64;
    let all = bytes(0) + bytes(1) + bytes(2);
    for (flow, share) in [(0, 0.75), (1, 0.125), (2, 0.125)] {
        assert!(
            (bytes(flow) / all - share).abs() < 0.005,
            "{flow}: {}",
            bytes(flow) / all
        );
    }
    let held = &got.elements[0].samples[5].queues;
    let full: Vec<bool> = held.iter().map(|&bytes| bytes >= 49 * 1500).collect();
    assert_eq!(full, [true, false, false, true, true]);
    plan.flows[0].class = Some(2);
    let error = run(&plan, &mut |_| true).unwrap_err().to_string();
    assert!(
        error.contains("limiter") && error.contains("class 2"),
        "{error}"
    );
}

#[test]
fn policed_data_are_sent_again_and_all_of_it_arrives() {
    let policer = LimiterKind::Policer {
        rate: rate(5_000_000),
        burst: 20_000,
    };
    let got = outcome(&plan(vec![limiter(policer)], vec![bulk(Some(2_000_000))]));
    let flow = &got.flows[0];
    assert_eq!(flow.delivered, 2_000_000);
    let [done] = flow.completions[..] else {
        panic!("{:?}", flow.completions)
    };
    // 2 MB of payload at 5 Mbit/s × 1448/1514 take 3.35 s.
    assert!((3.2..4.5).contains(&(done.end as f64 / 1e9)), "{done:?}");
    assert_eq!((done.start, done.bytes, flow.end), (0, 2_000_000, done.end));
    assert!(flow.dropped > 0 && flow.retransmitted >= flow.dropped);
    assert!(flow.dropped * 100 / flow.sent_packets < 30);
}

#[test]
fn a_thousand_elements_more_and_packets_still_find_their_way() {
    // Zero-delay elements are walked through, not called recursively.
    let loss = ElementKind::Loss {
        probability: 0.0,
        burst: 1.0,
    };
    let elements = (0..1000).map(|index| element(&index.to_string(), loss.clone()));
    let got = outcome(&plan(elements.collect(), vec![bulk(Some(1_000_000))]));
    assert_eq!(got.flows[0].delivered, 1_000_000);
    assert_eq!(got.elements[0].packets, got.elements[999].packets);
}
