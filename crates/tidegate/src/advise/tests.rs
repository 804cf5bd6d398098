#[cfg(feature = "gate")]
use std::path::Path;

use tidegate_advise::effect::Effect;
use tidegate_advise::remedy::Remedy;
use tidegate_advise::setting::{Kind, Setting};

use super::*;

fn situation(users: usize, overhead: u32) -> Situation {
    let rate = "12500kbit".parse().unwrap();
    Situation {
        today: Setting {
            rate,
            kind: Kind::Policer { burst: 32_000 },
            overhead,
        },
        rtt: (20_000_000, 100_500_000),
        flows: 4,
        users,
        controls: vec!["cubic".to_owned()],
        video: None,
        link: None,
    }
}

/// An advice without its simulations.
fn unmeasured(situation: Situation) -> Advice {
    let options = advice::all(&situation).0;
    let choice = |remedy: Remedy| advice::Choice {
        remedy,
        effect: Effect::default(),
    };
    Advice {
        effort: Effort::for_seconds(&situation, options.len()),
        options: options.into_iter().map(choice).collect(),
        chosen: None,
        remarks: Vec::new(),
        situation,
    }
}

#[cfg(feature = "gate")]
#[test]
fn the_gate_enforces_what_was_simulated() {
    use tidegate_gate::config::Config;
    for (users, overhead) in [(1, 14), (3, 0), (9, 14)] {
        let advice = unmeasured(situation(users, overhead));
        let text = gate_file::text(&advice).expect("a file");
        let none = |_: &Path| Err("nothing is imported".to_owned());
        let config = Config::parse(Path::new("gate.toml"), text.clone(), &none);
        let config = config.unwrap_or_else(|error| panic!("{text}\n{error}"));
        let limits = &config.subscribers[0].limits.down;
        let option = advice
            .option(tidegate_advise::remedy::Change::BcPqp)
            .unwrap();
        let Kind::BcPqp { queue, .. } = option.remedy.setting.kind else {
            panic!("another limit");
        };
        let tidegate_limiter::LimiterConfig::PhantomQueues(queues) = &limits.limiter else {
            panic!("another limiter");
        };
        assert_eq!(queues.rate(), advice.situation.today.rate);
        assert_eq!(queues.queue(), queue, "the queue that was simulated");
        assert!(queues.burst_control().is_some());
    }
}

#[test]
fn ranges_of_round_trips() {
    assert_eq!(range("50ms").unwrap(), (50_000_000, 50_000_000));
    assert_eq!(range("20ms..0.1s").unwrap(), (20_000_000, 100_000_000));
    assert!(range("20..100").unwrap_err().0.starts_with("--rtt: "));
}
