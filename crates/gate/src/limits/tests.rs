use tidegate_limiter::{PaperControl, PolicerConfig, PolicyTree, Rate, Scheme, Thresholds};

use super::*;
use crate::table::MAX_RULES;

/// The form of the state's file does not change: another release of the gate takes it over.
#[test]
fn limits_are_stored_flat() {
    let text = r#"{"direction":"down","rate":1000000,"means":{"bc-pqp-paper":{"queue":5000,"period":100000000,"upper":1500,"lower":500}},"policy":{"priority":["queue",{"weighted":[[4,{"fair":8}],[1,"queue"]]}]},"mark":8}"#;
    let limits: Limits = serde_json::from_str(text).expect("limits");
    assert_eq!(serde_json::to_string(&limits).expect("text"), text);
    assert_eq!((limits.queues(), limits.rate()), (10, Some(1_000_000)));
    for text in [
        r#"{"direction":"up","rate":1000000,"means":{"bc-pqp":{"queue":3000}},"policy":{"fair":16}}"#,
        r#"{"direction":"up","rate":1000000,"means":{"policer":{"burst":3000}},"policy":"queue"}"#,
        r#"{"direction":"up","rate":1000000,"means":{"pqp":{"queue":3000}},"policy":{"fair":16}}"#,
        r#"{"direction":"up","rate":1000000,"means":{"fair-policer":{"burst":3000}},"policy":"queue"}"#,
        r#"{"direction":"up","rate":1000000,"means":{"shaper":{"queue":3000,"burst":0}},"policy":{"fair":16}}"#,
        r#"{"direction":"up","rate":0,"means":"unlimited","policy":"queue"}"#,
    ] {
        let limits: Limits = serde_json::from_str(text).expect("limits");
        assert_eq!(serde_json::to_string(&limits).expect("text"), text);
    }
    for wrong in [
        text.replace(r#"{"fair":8}"#, r#"{"fair":0}"#),
        text.replace("[1,", "[0,"),
        text.replace("1000000,", "1000,"),
        text.replace(":500}", ":1500}"),
    ] {
        assert!(serde_json::from_str::<Limits>(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_template_is_stored_flat_with_its_burst_control() {
    let text = serde_json::to_value(Template::default()).expect("text");
    assert_eq!(text["scheme"], "bc-pqp");
    assert_eq!(text["policy"]["fair"], 16);
    assert_eq!(
        (&text["upper"], &text["lower"]),
        (&1500.into(), &500.into())
    );
    assert_eq!(text["period"], 100_000_000);
    let template: Template = serde_json::from_value(text).expect("a template");
    assert_eq!(template, Template::default());
}

#[test]
fn what_no_limiter_takes_is_rejected_with_its_key() {
    let template = Template::default();
    let limits = |rate| template.limits(Direction::Down, Some(rate));
    assert!(limits(1_000_000).is_ok());
    for rate in [7_999, 400_000_000_001] {
        assert_eq!(limits(rate).expect_err("a rate").key(), "rate");
    }
    let priority = |queues, parts| Template {
        policy: PolicyTree::priority(vec![PolicyTree::fair(queues).expect("few"); parts])
            .expect("few"),
        ..Template::default()
    };
    let limited = |template: Template| template.limits(Direction::Up, Some(1_000_000));
    assert!(limited(priority(8, 3)).is_ok());
    let error = limited(priority(4, 5)).expect_err("6 nodes share");
    assert_eq!(error.key(), "policy");
    assert_eq!(
        error.to_string(),
        "the policy has 6 sharing nodes, and there is room for 5"
    );
    let rules = Template {
        rules: vec![FlowRule::default(); MAX_RULES + 1],
        ..Template::default()
    };
    let error = limited(rules).expect_err("many rules");
    assert_eq!(error.key(), "rule");
    assert!(error.to_string().contains("at most 32 rules"));
    let class = Template {
        default_class: Some(1),
        ..Template::default()
    };
    assert_eq!(
        limited(class).expect_err("no class 1").key(),
        "default-class"
    );
    assert!(Limits::none(Direction::Up).plan().is_ok());
}

/// `auto` sizes of a plan are those of the limiter's advice.
#[test]
fn sizes_follow_the_rate() {
    let of = |scheme, rate| {
        let template = Template {
            scheme,
            ..Template::default()
        };
        let limits = template.limits(Direction::Down, Some(rate));
        limits.expect("a limiter").limiter
    };
    let queue = |scheme, rate| match of(scheme, rate) {
        LimiterConfig::PhantomQueues(config) => config.queue(),
        other => panic!("{other:?}"),
    };
    let rate = Rate::from_bits_per_second(50_000_000);
    let path = tidegate_limiter::sizing::Path {
        rtt: 100_000_000,
        mss: 1500,
    };
    let correct = tidegate_limiter::sizing::correct_rate(rate, path);
    assert_eq!(queue(Scheme::Pqp, 50_000_000), correct);
    assert_eq!(queue(Scheme::BcPqp, 50_000_000), 10 * correct);
    let policer = PolicerConfig::new(rate, 625_000).expect("a policer");
    assert_eq!(of(Scheme::Policer, 50_000_000), policer.into());
    // At any rate, 24 queues are within the bounds of a limiter.
    let fast = Template {
        policy: PolicyTree::fair(24).expect("24 queues"),
        rtt: 60_000_000_000,
        ..Template::default()
    };
    assert!(fast.limits(Direction::Down, Some(400_000_000_000)).is_ok());
    assert_eq!(of(Scheme::Unlimited, 1), LimiterConfig::Unlimited);
}

#[test]
fn what_the_kernel_cannot_enforce_is_rejected_before_it_gets_there() {
    let slow = PaperControl::DEFAULT;
    let slow = slow.with_period(60_000_000_000).expect("a period");
    let high = Thresholds {
        upper: 1_000_000,
        lower: 0,
    };
    let limited = |control| {
        let template = Template {
            scheme: Scheme::BcPqpPaper,
            control,
            ..Template::default()
        };
        template.limits(Direction::Down, Some(100_000_000_000))
    };
    assert!(limited(slow).is_ok());
    // 1000 times the bytes of 100 Gbit/s in a minute.
    let high = slow.with_thresholds(high).expect("thresholds");
    let error = limited(high).expect_err("much");
    assert_eq!(error.key(), "upper");
    let upper = 750_000_000_000u64 * 1000;
    assert!(error.to_string().contains(&upper.to_string()), "{error}");
    let marking = Template {
        mark: Some(65),
        ..Template::default()
    };
    let error = marking.limits(Direction::Up, Some(1_000_000));
    assert_eq!(error.expect_err("no code point").key(), "excess");
}

#[test]
fn a_boost_is_bytes_or_a_time_at_the_rate() {
    let boost = |scheme, boost: &str, rate| -> Result<u64, LimitsError> {
        let boost = Some(Boost::read(boost).expect("a boost"));
        let template = Template {
            scheme,
            boost,
            ..Template::default()
        };
        let limits = template.limits(Direction::Down, Some(rate))?;
        // The state keeps it.
        let text = serde_json::to_string(&limits).expect("text");
        let again: Limits = serde_json::from_str(&text).expect("limits");
        assert_eq!(again, limits);
        match limits.limiter {
            LimiterConfig::PhantomQueues(config) => Ok(config.boost()),
            LimiterConfig::Policer(config) => Ok(config.burst()),
            other => panic!("{other:?}"),
        }
    };
    for scheme in [Scheme::BcPqp, Scheme::Pqp] {
        assert_eq!(boost(scheme, "10MB", 1_000_000), Ok(10_000_000));
        assert_eq!(boost(scheme, "2.5s", 8_000_000), Ok(2_500_000));
    }
    // A policer's bucket has 125 kB, or two super-packets at least.
    assert_eq!(
        boost(Scheme::Policer, "1s", 10_000_000),
        Ok(131_072 + 1_250_000)
    );
    let error = boost(Scheme::BcPqp, "1000min", 400_000_000_000).expect_err("3 PB");
    assert_eq!(error.key(), "boost");
    for text in ["fast", "10Mbit", "-1s", ""] {
        let error = Boost::read(text).expect_err("no boost");
        assert!(error.contains("10MB"), "{error}");
    }
}

#[test]
fn what_holds_no_full_packet_is_rejected() {
    let template = |scheme, queue, burst| Template {
        scheme,
        queue,
        burst,
        ..Template::default()
    };
    let limited = |template: Template| template.limits(Direction::Up, Some(1_000_000));
    for (small, key) in [
        (template(Scheme::BcPqp, Some(1521), None), "queue"),
        (template(Scheme::Policer, None, Some(1521)), "burst"),
        (template(Scheme::FairPolicer, None, Some(1521)), "burst"),
        (template(Scheme::Shaper, Some(1521), None), "queue"),
    ] {
        assert_eq!(limited(small).expect_err("small").key(), key);
    }
    let held = template(Scheme::BcPqp, Some(1522), None);
    assert!(held.small().is_some());
    assert!(limited(held).is_ok());
    assert_eq!(template(Scheme::BcPqp, Some(262_144), None).small(), None);
    // What a shaper lets pass at once after a rest may be less than a packet, which it lets pass then.
    assert!(limited(template(Scheme::Shaper, None, Some(100))).is_ok());
}
