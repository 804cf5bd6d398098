//! Limiters and congestion control of other programs work like those of the lab.

use tidegate_limiter::{LimiterConfig, PolicerConfig, TokenBucket};

use super::*;
use crate::Nanos;
use crate::tcp::Algorithm;
use crate::tcp::cc::{
    AckSample, CongestionControl, Controller, CustomAlgorithm, LossState, Restart, Window,
};

/// The lab's algorithms, behind the interface for other programs.
#[derive(Debug, Clone)]
struct Behind(CongestionControl);

impl Controller for Behind {
    fn ssthresh(&mut self, now: Nanos, window: &Window) -> u32 {
        self.0.ssthresh(now, window)
    }

    fn cong_avoid(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        self.0.cong_avoid(now, sample, window);
    }

    fn undo(&mut self, window: &Window) -> u32 {
        self.0.undo(window)
    }

    fn on_established(&mut self, now: Nanos, rtt: Option<Nanos>, window: &mut Window) {
        self.0.on_established(now, rtt, window);
    }

    fn on_lost(&mut self, lost_total: u64) {
        self.0.on_lost(lost_total);
    }

    fn on_state(&mut self, now: Nanos, state: LossState, window: &mut Window) {
        self.0.on_state(now, state, window);
    }

    fn on_restart(&mut self, restart: Restart, window: &mut Window) {
        self.0.on_restart(restart, window);
    }

    fn on_acked(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        self.0.on_acked(now, sample, window);
    }

    fn control(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) -> bool {
        self.0.control(now, sample, window)
    }
}

fn behind(algorithm: Algorithm) -> CustomAlgorithm {
    macro_rules! made {
        ($algorithm:ident) => {
            |start| Box::new(Behind(CongestionControl::new(Algorithm::$algorithm, start)))
        };
    }
    CustomAlgorithm {
        name: "behind",
        make: match algorithm {
            Algorithm::Reno => made!(Reno),
            Algorithm::Cubic => made!(Cubic),
            Algorithm::Bbr => made!(Bbr),
            _ => made!(Vegas),
        },
    }
}

#[test]
fn congestion_control_of_others_is_called_as_the_lab_s() {
    // DCTCP and Prague have ECN of a kind that others do not have, and BBR version 3 bounds its bursts.
    let special = [Algorithm::Dctcp, Algorithm::Prague, Algorithm::Bbr3];
    let all = Algorithm::ALL.into_iter();
    for algorithm in all.filter(|algorithm| !special.contains(algorithm)) {
        let run = |algorithm| {
            let mut flow = bulk(None);
            flow.tcp.algorithm = algorithm;
            outcome(&plan(vec![link("link", 8_000_000, 20)], vec![flow]))
        };
        let known = run(algorithm);
        assert!(known.flows[0].delivered > 1_000_000, "{algorithm:?}");
        assert_eq!(run(Algorithm::Custom(behind(algorithm))), known);
    }
}

#[test]
fn a_limiter_of_others_drops_and_is_counted_as_the_lab_s() {
    let config = PolicerConfig::new(rate(8_000_000), 30_000).unwrap();
    let run = |kind| outcome(&plan(vec![element("gate", kind)], vec![bulk(None)]));
    let known = run(ElementKind::Limiter {
        config: LimiterConfig::Policer(config.clone()),
        classes: None,
        overhead: 14,
    });
    assert!(known.elements[0].dropped > 10);
    let custom = run(ElementKind::Custom {
        limiter: CustomLimiter::new("mine", move || Box::new(TokenBucket::new(&config, 0))),
        overhead: 14,
    });
    assert_eq!(custom, known);
}
