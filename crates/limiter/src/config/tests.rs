use super::*;
use crate::{BurstControl, PaperControl, PolicyTree};

#[test]
fn the_range_of_rates_is_as_its_words_say() {
    let (least, most) = Rate::LIMITABLE.into_inner();
    assert_eq!(Rate::LIMITABLE_TEXT, "from 8 kbit/s to 400 Gbit/s");
    assert_eq!(least, "8kbit".parse().unwrap());
    assert_eq!(most, "400gbit".parse().unwrap());
}

#[test]
fn configurations_know_their_schemes() {
    let rate = Rate::from_bits_per_second(1_000_000);
    let queues = PhantomQueuesConfig::new(&PolicyTree::queue(), rate, 1).unwrap();
    let controlled = queues.clone().with_burst_control(BurstControl::DEFAULT);
    let paper = BurstControl::Paper(PaperControl::DEFAULT);
    let paper = queues.clone().with_burst_control(paper);
    let fair = WaterFillingConfig::new(rate, 1, &[1, 2]).unwrap();
    for (config, name) in [
        (LimiterConfig::PhantomQueues(queues), "pqp"),
        (LimiterConfig::PhantomQueues(controlled), "bc-pqp"),
        (LimiterConfig::PhantomQueues(paper), "bc-pqp-paper"),
        (LimiterConfig::WaterFilling(fair), "fair-policer"),
        (LimiterConfig::Unlimited, "unlimited"),
    ] {
        assert_eq!(config.scheme().to_string(), name);
        assert_eq!(config.rate().is_some(), name != "unlimited");
    }
    for scheme in Scheme::ALL {
        assert_eq!(scheme.name().parse(), Ok(scheme));
    }
    assert!("htb".parse::<Scheme>().is_err());
}

#[test]
fn what_paper_and_defaults_say_of_burst_control() {
    let rate = Rate::from_bits_per_second(8_000_000);
    // 100 kB in 100 ms.
    let paper = BurstControl::Paper(PaperControl::DEFAULT);
    assert_eq!(paper.upper_bytes(rate), 150_000);
    assert_eq!(paper.lower_bytes(rate), 50_000);
    // In a bucket of 0.2 s; 0.3 of the rate for twice 100 ms.
    assert_eq!(BurstControl::Bucket.upper_bytes(rate), 200_000);
    assert_eq!(BurstControl::Bucket.lower_bytes(rate), 60_000);
}
