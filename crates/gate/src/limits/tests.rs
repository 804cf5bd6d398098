use super::*;

/// As the lab's scenario files write policies, and as the state's file does.
#[test]
fn policies_are_written_in_one_language() {
    let text = r#"{"priority":["queue",{"weighted":[[4,{"fair":8}],[1,"queue"]]}]}"#;
    let policy: Policy = serde_json::from_str(text).expect("a policy");
    assert_eq!(serde_json::to_string(&policy).expect("text"), text);
    let program = Program::new(&policy.tree().expect("sound"));
    assert_eq!((program.queues(), program.classes().len()), (10, 3));
    for wrong in [
        Policy::Fair(0),
        Policy::Priority(Vec::new()),
        Policy::Weighted(vec![(0, Policy::Queue)]),
    ] {
        assert!(wrong.tree().is_err(), "{wrong:?}");
    }
}

#[test]
fn what_no_limiter_takes_is_told() {
    let template = Template::default();
    let limits = |rate| template.limits(Direction::Down, Some(rate));
    assert!(limits(1_000_000).plan().is_ok());
    assert!(limits(7_999).plan().is_err() && limits(400_000_000_001).plan().is_err());
    let too_many = Template {
        policy: Policy::Priority(vec![Policy::Fair(8); 3]),
        ..Template::default()
    };
    assert!(
        too_many
            .limits(Direction::Up, Some(1_000_000))
            .plan()
            .is_ok()
    );
    let too_many = Template {
        policy: Policy::Priority(vec![Policy::Fair(4); 5]),
        ..Template::default()
    };
    let error = too_many
        .limits(Direction::Up, Some(1_000_000))
        .plan()
        .expect_err("6 nodes share");
    assert_eq!(
        error,
        "the policy has 6 sharing nodes, and there is room for 5"
    );
    let rules = Limits {
        rules: vec![FlowRule::default(); MAX_RULES + 1],
        ..limits(1_000_000)
    };
    assert!(
        rules
            .plan()
            .expect_err("many rules")
            .contains("at most 32 rules")
    );
    assert!(Limits::none(Direction::Up).plan().is_ok());
}

/// Sizes of a plan left to us are those that the limiter's advice gives.
#[test]
fn sizes_follow_the_rate() {
    let of = |scheme, rate| {
        let template = Template {
            scheme,
            ..Template::default()
        };
        template.limits(Direction::Down, Some(rate)).means
    };
    let mbit = |mbit: u64| Rate::from_bits_per_second(mbit * 1_000_000);
    let correct = |rate| tidegate_limiter::sizing::correct_rate(rate, 100_000_000, 1500);
    assert_eq!(
        of(SchemeName::Pqp, 50_000_000),
        Means::Pqp {
            queue: correct(mbit(50))
        }
    );
    let Means::BcPqp { queue, .. } = of(SchemeName::BcPqp, 50_000_000) else {
        panic!("of another scheme")
    };
    assert_eq!(queue, 10 * correct(mbit(50)));
    assert_eq!(
        of(SchemeName::Policer, 50_000_000),
        Means::Policer { burst: 625_000 }
    );
    // Whatever the rate, 24 queues are within what a limiter counts.
    let fast = Template {
        policy: Policy::Fair(24),
        rtt: 60_000_000_000,
        ..Template::default()
    };
    assert!(
        fast.limits(Direction::Down, Some(400_000_000_000))
            .plan()
            .is_ok()
    );
    assert_eq!(of(SchemeName::Unlimited, 1), Means::Unlimited);
}
