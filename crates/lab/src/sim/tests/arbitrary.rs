//! Random small plans.

use proptest::prelude::*;
use tidegate_limiter::{
    BurstControl, ConfigError, Decision, FairPolicerConfig, LimiterConfig, Marking, PaperControl,
    PhantomQueuesConfig, PolicerConfig, PolicyTree, Rate, ShaperConfig, SingleRateBursts,
    SingleRateConfig, WaterFillingConfig,
};

use crate::capacity::{Capacity, Steps, Trace};
use crate::page::Drawn;
use crate::plan::*;
use crate::sim::engine::{Engine, Ledger};
use crate::testing::*;
use crate::{MILLISECOND, SECOND};

fn queues() -> impl Strategy<Value = QueueKind> {
    let ms = MILLISECOND;
    prop_oneof![
        (0u64..100_000, 0u64..100).prop_map(|(bytes, packets)| QueueKind::DropTail {
            bytes: Some(bytes),
            packets: Some(packets)
        }),
        (1u64..50, 0u64..200, 0u64..100, any::<bool>()).prop_map(
            move |(target, interval, packets, ecn)| QueueKind::CoDel {
                target: target * ms,
                interval: interval * ms,
                packets,
                ecn,
            }
        ),
        (
            0u64..50_000,
            1u64..50_000,
            0.0..=1.0f64,
            0u64..100_000,
            any::<bool>()
        )
            .prop_map(|(min, more, probability, limit, ecn)| QueueKind::Red {
                min,
                max: min + more,
                probability,
                limit,
                ecn,
            }),
        (0u64..50, 1u64..50, 0u64..100, any::<bool>()).prop_map(
            move |(target, update, packets, ecn)| QueueKind::Pie {
                target: target * ms,
                update: update * ms,
                packets,
                ecn,
            }
        ),
        (1u32..20, 64u32..3000, 0u64..50, 0u64..100, any::<bool>()).prop_map(
            move |(flows, quantum, target, packets, ecn)| QueueKind::FqCoDel {
                flows,
                quantum,
                target: target * ms,
                interval: 20 * target * ms,
                packets,
                ecn,
            }
        ),
        (0u64..50, 1u64..50, 0u64..3, 0u64..100).prop_map(
            move |(target, update, threshold, packets)| QueueKind::DualPi2 {
                target: target * ms,
                update: update * ms,
                threshold: threshold * ms,
                packets,
            }
        ),
        (
            1u64..300,
            0usize..3,
            0usize..4,
            prop::option::of(1u64..100_000)
        )
            .prop_map(move |(rtt, tins, isolation, limit)| {
                let tins = [Tins::BestEffort, Tins::Diffserv3, Tins::Diffserv4][tins];
                let isolation = [
                    Isolation::Flows,
                    Isolation::Sources,
                    Isolation::Destinations,
                    Isolation::Triple,
                ][isolation];
                let rtt = rtt * ms;
                QueueKind::Cake(CakePlan {
                    rtt,
                    tins,
                    isolation,
                    limit,
                })
            }),
    ]
}

fn limiters() -> impl Strategy<Value = LimiterConfig> {
    let rates = (100_000u64..20_000_000).prop_map(rate);
    (rates, 1u64..100_000, 0u8..7, 1u16..20)
        .prop_map(|(rate, burst, which, queues)| limiter(rate, burst, which, queues).unwrap())
}

fn limiter(rate: Rate, burst: u64, which: u8, queues: u16) -> Result<LimiterConfig, ConfigError> {
    let policy = PolicyTree::fair(queues).unwrap();
    Ok(match which {
        0 => PolicerConfig::new(rate, burst)?.into(),
        1 => {
            let bursts = SingleRateBursts {
                committed: burst,
                excess: burst,
            };
            let marking = Marking {
                green: Decision::Pass,
                yellow: Decision::Mark(10),
                red: Decision::Drop,
            };
            SingleRateConfig::new(rate, bursts, marking)?.into()
        }
        2 => FairPolicerConfig::new(rate, burst)?.into(),
        3 => FairPolicerConfig::new(rate, burst)?.with_sketch(0).into(),
        4 => WaterFillingConfig::new(rate, burst, &vec![1; queues.into()])?.into(),
        5 => {
            let config = PhantomQueuesConfig::new(&policy, rate, burst)?;
            let paper = PaperControl::DEFAULT.with_period(50 * MILLISECOND)?;
            let control = match burst % 4 {
                0 => BurstControl::Bucket,
                _ => BurstControl::Paper(paper),
            };
            match burst % 2 {
                0 => config.with_burst_control(control).into(),
                _ => config.into(),
            }
        }
        _ => {
            let config = ShaperConfig::new(&policy, rate)?.with_burst(burst);
            let config = config.with_queue_bytes(burst)?;
            match burst % 2 {
                0 => config.with_queue_packets(20)?.into(),
                _ => config.into(),
            }
        }
    })
}

fn varying() -> impl Strategy<Value = Capacity> {
    let steps = (100_000u64..50_000_000, 0u64..50_000_000, 1u64..SECOND);
    let trace = prop::collection::vec(0u32..300, 1..50);
    prop_oneof![
        steps.prop_map(|(first, second, at)| {
            let steps = vec![(0, rate(first)), (at, rate(second))];
            Capacity::Steps(Steps::new(steps, Some(2 * at)).unwrap())
        }),
        trace.prop_map(|mut times| {
            times.push(300);
            times.sort_unstable();
            let text: String = times.iter().map(|time| format!("{time}\n")).collect();
            Capacity::Trace(Trace::read(&text).unwrap())
        }),
    ]
}

fn elements() -> impl Strategy<Value = ElementKind> {
    prop_oneof![
        (0u64..20_000_000, 0u64..5_000_000)
            .prop_map(|(delay, jitter)| ElementKind::Delay { delay, jitter }),
        (100_000u64..100_000_000, queues()).prop_map(|(bits, queue)| ElementKind::Link {
            rate: rate(bits),
            queue
        }),
        (varying(), queues())
            .prop_map(|(capacity, queue)| ElementKind::Varying { capacity, queue }),
        (0.0..0.3f64, 1.0..4.0f64)
            .prop_map(|(probability, burst)| ElementKind::Loss { probability, burst }),
        (0.0..0.3f64, 0u64..10_000_000)
            .prop_map(|(probability, by)| ElementKind::Reorder { probability, by }),
        (limiters(), 0u32..40).prop_map(|(config, overhead)| ElementKind::Limiter {
            config,
            classes: None,
            overhead
        }),
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
        streams(),
        videos(),
        browsers(),
        (10_000u64..5_000_000, 28u32..9000).prop_map(|(bits, bytes)| Traffic::Datagrams {
            rate: rate(bits),
            bytes,
            stop: Some(SECOND)
        }),
    ]
}

fn videos() -> impl Strategy<Value = Traffic> {
    let ladder = prop::collection::btree_set(10_000u64..5_000_000, 1..5);
    let rules = prop_oneof![
        Just(AdaptationRule::Throughput),
        Just(AdaptationRule::Bola),
        Just(AdaptationRule::Bola5)
    ];
    (
        (ladder, rules),
        (1u64..2_000_000_000, 1u64..10_000_000_000),
        (1u64..5_000_000_000, 0.0..=1.0f64, 1u32..5000),
    )
        .prop_map(
            |((ladder, rule), (segment, length), (buffer, share, request))| {
                Traffic::Adaptive(AdaptivePlan {
                    ladder: ladder.into_iter().map(rate).collect(),
                    // At most a thousand of them.
                    segment: segment.max(length / 1000),
                    length,
                    sizes: vec![500 + request % 1000; (request % 4) as usize],
                    rule,
                    initial: rate(buffer % 3_000_000),
                    initial_segments: request % 5,
                    unmeasured: request % 50_000,
                    weight: 10 + request % 3000,
                    buffer,
                    start: (buffer as f64 * share) as u64,
                    restart: (buffer as f64 * (1.0 - share)) as u64,
                    preface: vec![u64::from(request); (request % 3) as usize],
                    work: buffer / 20,
                    request,
                })
            },
        )
}

fn browsers() -> impl Strategy<Value = Traffic> {
    let http = prop_oneof![
        (1u32..8).prop_map(|connections| Http::One { connections }),
        Just(Http::Two)
    ];
    (
        (
            1u32..40,
            1.0..50_000.0f64,
            0.5..3.0f64,
            0.0..=1.0f64,
            1u32..5000,
        ),
        (
            http,
            0u32..10_000,
            0u64..500_000_000,
            prop::option::of(0u32..4),
        ),
    )
        .prop_map(
            |((objects, mean, shape, nested, request), (http, handshake, pause, visits))| {
                let drawn = Drawn {
                    objects,
                    mean,
                    shape,
                    max: mean * 20.0,
                    nested,
                    request,
                };
                Traffic::Web(WebPlan {
                    page: Pages::Drawn(drawn),
                    http,
                    handshake,
                    pause,
                    visits,
                })
            },
        )
}

fn streams() -> impl Strategy<Value = Traffic> {
    let pace = prop_oneof![
        Just(Way::None.into()),
        Just(Way::MaxPacingRate.into()),
        (1000u64..100_000, 0u64..200_000_000).prop_map(|(block, least_wait)| Pace {
            least_wait,
            ..Way::Application { block }.into()
        }),
        (1000u32..3000, any::<bool>(), 1000u64..100_000).prop_map(
            |(headroom, hold_average, block)| Pace {
                headroom,
                hold_average,
                ..Way::Trickle { block }.into()
            }
        ),
    ];
    (
        (10_000u64..5_000_000, 100u32..5000, pace),
        (1u64..3_000_000_000, 0u64..2_000_000_000),
        (0u64..1_000_000_000, 0u64..1_000_000_000, 1u32..5000),
    )
        .prop_map(
            |(throttled, (length, startup), (start, restart, request))| {
                let (bits, throttle, pace) = throttled;
                Traffic::Stream(StreamPlan {
                    rate: rate(bits),
                    length,
                    startup,
                    throttle,
                    pace,
                    start,
                    restart,
                    request,
                })
            },
        )
}

prop_compose! {
    pub(super) fn plans()(
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
        let got = engine.finish();
        for flow in &got.flows {
            prop_assert!(flow.end <= plan.duration && flow.retransmitted <= flow.sent_packets);
        }
        let sum = |windows: &[u64]| windows.iter().sum::<u64>();
        let flows: u64 = got.flows.iter().map(|flow| sum(&flow.windows)).sum();
        prop_assert_eq!(sum(&got.aggregates[0].windows), flows);
    }
}
