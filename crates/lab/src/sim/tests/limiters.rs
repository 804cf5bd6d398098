//! TCP through links and limiters.

use tidegate_limiter::{
    BurstControl, FairPolicerConfig, LimiterConfig, PhantomQueuesConfig, PolicerConfig, PolicyTree,
    ShaperConfig, WaterFillingConfig,
};
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire;

use super::outcome;
use crate::outcome::Outcome;
use crate::plan::*;
use crate::run;
use crate::tcp::Algorithm;
use crate::testing::*;
use crate::{MILLISECOND, Nanos, Observer, SECOND, TappedPacket};

/// Rate of bytes at the IP layer that reached the clients from this window on, in Mbit/s.
fn goodput(got: &Outcome, from: usize) -> f64 {
    let windows = &got.aggregates[0].windows[from..];
    let seconds = windows.len() as f64 * got.window as f64 / 1e9;
    windows.iter().sum::<u64>() as f64 * 8.0 / seconds / 1e6
}

fn limiter(config: impl Into<LimiterConfig>) -> ElementPlan {
    let kind = ElementKind::Limiter {
        config: config.into(),
        classes: None,
        overhead: 14,
    };
    element("limiter", kind)
}

fn policer(bits: u64, burst: u64) -> LimiterConfig {
    PolicerConfig::new(rate(bits), burst).unwrap().into()
}

fn phantom(bits: u64, queues: u16, size: u64) -> PhantomQueuesConfig {
    let policy = PolicyTree::fair(queues).unwrap();
    PhantomQueuesConfig::new(&policy, rate(bits), size).unwrap()
}

fn shaper(policy: &PolicyTree, bits: u64) -> ShaperConfig {
    let config = ShaperConfig::new(policy, rate(bits)).unwrap();
    config.with_burst(1514)
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
    let fair = FairPolicerConfig::new(rate(10_000_000), 60_000).unwrap();
    let water = WaterFillingConfig::new(rate(10_000_000), 60_000, &[1; 16]).unwrap();
    let phantom = phantom(10_000_000, 16, 250_000);
    let shaper = shaper(&PolicyTree::default(), 10_000_000);
    let kinds: [LimiterConfig; 7] = [
        policer(10_000_000, 50_000),
        fair.clone().into(),
        fair.with_sketch(0).into(),
        water.into(),
        phantom.clone().into(),
        phantom.with_burst_control(BurstControl::DEFAULT).into(),
        shaper.with_queue_packets(100).unwrap().into(),
    ];
    for kind in kinds {
        let mut plan = plan(vec![limiter(kind.clone())], vec![bulk(None), bulk(None)]);
        plan.sample = Some(SECOND);
        let got = outcome(&plan);
        let rate = goodput(&got, 20);
        // At most 1500 of 1514 bytes, plus the tokens that were saved before.
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
    let shaper = shaper(&policy.unwrap(), 10_000_000)
        .with_queue_packets(50)
        .unwrap();
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
    let policer = policer(5_000_000, 20_000);
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

/// Flows that differ in round trip and algorithm, behind real and phantom fair queues.
#[test]
fn fair_limiters_are_fair_to_unequal_senders() {
    let shaper = shaper(&PolicyTree::fair(4).unwrap(), 20_000_000);
    let phantom = phantom(20_000_000, 4, 400_000);
    let kinds: [LimiterConfig; 2] = [
        shaper.with_queue_bytes(150_000).unwrap().into(),
        phantom.with_burst_control(BurstControl::DEFAULT).into(),
    ];
    let policer = policer(20_000_000, 75_000);
    let jain = |kind: LimiterConfig| {
        let flows = (0u16..4).map(|index| {
            let mut flow = bulk(None);
            flow.queue = Some(index);
            flow.delay = [10, 20, 40, 80][usize::from(index)] * MILLISECOND;
            flow.tcp.algorithm = if index % 2 == 0 {
                Algorithm::Reno
            } else {
                Algorithm::Cubic
            };
            flow
        });
        let mut plan = plan(vec![limiter(kind)], flows.collect());
        plan.duration = 30 * SECOND;
        let got = outcome(&plan);
        let rates = got.flows.iter();
        let rates: Vec<f64> = rates
            .map(|flow| flow.windows[40..].iter().sum::<u64>() as f64)
            .collect();
        let sum: f64 = rates.iter().sum();
        sum * sum / (4.0 * rates.iter().map(|x| x * x).sum::<f64>())
    };
    for kind in kinds {
        let fair = jain(kind.clone());
        assert!(fair > 0.98, "{fair}: {kind:?}");
    }
    // The same senders behind one bucket: the round trip decides.
    let unfair = jain(policer);
    assert!(unfair < 0.9, "{unfair}");
}

/// Segments that wait for an acknowledgement to leave with more (`tcp_tso_should_defer`) keep
/// waiting, although a timer that was moved since wakes the sender in between. Linux deletes such a
/// timer.
#[test]
fn nothing_leaves_because_of_a_timer_that_was_moved() {
    struct Seen(Vec<wire::Packet>);
    impl Observer for Seen {
        fn progress(&mut self, _: Nanos) -> bool {
            true
        }
        fn packet(&mut self, packet: &TappedPacket<'_>) {
            let frame = Frame {
                outbound: None,
                at: packet.at,
                link: LinkType::ETHERNET,
                data: packet.frame,
                wire_len: packet.length,
            };
            self.0.push(wire::decode(&frame).unwrap());
        }
    }
    let policer = limiter(policer(10_000_000, 31_000));
    let elements = vec![
        element("tap", ElementKind::Tap { snaplen: 96 }),
        link("access", 100_000_000, 1000),
        policer,
    ];
    let mut plan = plan(elements, vec![bulk(None)]);
    plan.flows[0].delay = 40 * MILLISECOND;
    plan.flows[0].back = vec![0];
    let mut seen = Seen(Vec::new());
    let got = run(&plan, &mut seen).unwrap();
    assert_eq!(got.flows[0].timeouts, 0);
    let (mut acked, mut top, mut alone, mut all) = (0, 0, 0, 0);
    for packet in seen.0 {
        if packet.payload == 0 {
            acked = packet.at;
        } else if packet.seq > top {
            top = packet.seq;
            all += 1;
            alone += u32::from(packet.at != acked);
        }
    }
    assert!(all > 5000, "{all}");
    assert_eq!(alone, 0);
}
