use tidegate_limiter::pacing::Way;

use crate::outcome::{FlowOutcome, StreamOutcome, Throttled};
use crate::plan::{Pace, StreamPlan, Traffic};
use crate::run;
use crate::testing::*;
use crate::{MILLISECOND, SECOND};

const BLOCKS: Way = Way::APPLICATION_64K;
const TRICKLE: Way = Way::TRICKLE;

/// A minute of 1 Mbit/s, of which ten seconds are sent at full speed: R is 1.25 Mbit/s.
fn video(pace: impl Into<Pace>) -> StreamPlan {
    StreamPlan {
        rate: rate(1_000_000),
        length: 60 * SECOND,
        startup: 10 * SECOND,
        throttle: 1250,
        pace: pace.into(),
        start: 2 * SECOND,
        restart: 5 * SECOND,
        request: 300,
    }
}

/// Through a link with room for this many packets, at a round trip in ms.
fn watch(video: StreamPlan, bits: u64, packets: u64, rtt: u64) -> FlowOutcome {
    let mut flow = flow(Traffic::Stream(video));
    flow.delay = rtt * MILLISECOND;
    flow.tcp.slow_start_after_idle = false;
    let mut plan = plan(vec![link("line", bits, packets)], vec![flow]);
    plan.duration = 100 * SECOND;
    let mut outcome = run(&plan, &mut |_| true).expect("sound");
    outcome.flows.remove(0)
}

fn parts(flow: &FlowOutcome) -> (StreamOutcome, Throttled) {
    let stream = flow.stream.expect("a stream");
    (stream, stream.throttled.expect("throttled"))
}

/// Mbit/s of payload in the throttling phase.
fn throttled(flow: &FlowOutcome) -> f64 {
    let (_, phase) = parts(flow);
    phase.delivered as f64 * 8e3 / (phase.end - phase.start) as f64
}

#[test]
fn every_way_keeps_its_rate() {
    for (pace, rtt, least, most) in [
        // The whole minute except the part that was sent at once, at 1.25 Mbit/s: 40 s.
        (BLOCKS, 100, 1.24, 1.26),
        (BLOCKS, 10, 1.24, 1.26),
        (Way::MaxPacingRate, 100, 1.20, 1.26),
        // The headroom is used; the bound is of whole segments (12.9, so 13).
        (TRICKLE, 100, 1.40, 1.52),
        (TRICKLE, 400, 1.40, 1.52),
        // The bound would be 1.3 segments, so writes are throttled.
        (TRICKLE, 10, 1.24, 1.26),
        // Everything was written at once; the rest is sent at the speed of the link.
        (Way::None, 100, 15.0, 20.0),
    ] {
        let flow = watch(video(pace), 20_000_000, 1000, rtt);
        let got = throttled(&flow);
        assert!((least..most).contains(&got), "{pace:?}, {rtt} ms: {got}");
        assert_eq!(flow.delivered, 7_500_000, "{pace:?}");
        let (stream, phase) = parts(&flow);
        assert_eq!(phase.delivered, 6_250_000);
        assert!(phase.sent >= 6_250_000 / 1448);
        assert_eq!(stream.viewing.rebufferings, 0);
        assert_eq!(stream.viewing.played, 60 * SECOND);
        assert!(stream.viewing.join.is_some_and(|join| join < 4 * SECOND));
    }
}

#[test]
fn a_round_trip_that_grows_does_not_end_the_throttling_of_writes() {
    let mut video = flow(Traffic::Stream(video(TRICKLE)));
    video.delay = 10 * MILLISECOND;
    // Fills the queue, and the bound is above its floor from then on.
    let mut other = flow(Traffic::Bulk { bytes: None });
    other.start = 15 * SECOND;
    let mut plan = plan(vec![link("line", 10_000_000, 90)], vec![video, other]);
    plan.duration = 100 * SECOND;
    let flow = &run(&plan, &mut |_| true).expect("sound").flows[0];
    let (stream, _) = parts(flow);
    assert!(stream.srtt.is_some_and(|srtt| srtt > 80 * MILLISECOND));
    let got = throttled(flow);
    assert!((1.23..1.27).contains(&got), "{got}");
}

#[test]
fn small_queues_lose_of_blocks_what_trickle_does_not_send_at_once() {
    let lost = |pace| parts(&watch(video(pace), 6_000_000, 20, 40)).1;
    let (blocks, trickle) = (lost(BLOCKS), lost(TRICKLE));
    assert!(blocks.retransmitted > 10, "{blocks:?}");
    assert!(trickle.retransmitted < 4, "{trickle:?}");
}

#[test]
fn a_line_slower_than_the_rate_is_used_in_full_and_the_viewer_waits() {
    for pace in [BLOCKS, TRICKLE] {
        let flow = watch(video(pace), 600_000, 20, 40);
        let (stream, phase) = parts(&flow);
        // 1448 bytes in frames of 1514.
        let line = 0.6 * 1448.0 / 1514.0;
        let got = throttled(&flow);
        assert!((0.97 * line..line).contains(&got), "{pace:?}: {got}");
        assert!(stream.viewing.rebufferings > 0 && stream.viewing.stalled > SECOND);
        // The simulation ends before the video.
        assert_eq!(phase.end, 100 * SECOND);
    }
}

#[test]
fn a_server_that_does_not_pause_briefly_writes_several_blocks_at_once() {
    // A block of 16 kB each 104.9 ms at 1.25 Mbit/s, each 52.4 ms at 2.5: then two at a time.
    let pace = |least_wait| Pace {
        least_wait,
        ..Way::APPLICATION_16K.into()
    };
    let drops = |pause, bits| {
        let video = StreamPlan {
            rate: rate(bits),
            ..video(pace(pause))
        };
        parts(&watch(video, 20_000_000, 18, 20)).1.retransmitted
    };
    let quirk = 100 * MILLISECOND;
    assert_eq!((drops(0, 1_000_000), drops(quirk, 1_000_000)), (0, 0));
    // 12 packets fit into the queue, 23 do not.
    assert_eq!(drops(0, 2_000_000), 0);
    assert!(drops(quirk, 2_000_000) > 0);
}

#[test]
fn a_window_that_was_not_used_is_kept_or_forgotten() {
    // Blocks come each 0.42 s, and the timeout is 0.2 s and a round trip.
    let lost = |forget| {
        let mut flow = flow(Traffic::Stream(video(BLOCKS)));
        flow.tcp.slow_start_after_idle = forget;
        let mut plan = plan(vec![link("line", 20_000_000, 30)], vec![flow]);
        plan.duration = 60 * SECOND;
        let flow = &run(&plan, &mut |_| true).expect("sound").flows[0];
        parts(flow).1.retransmitted
    };
    assert!(
        lost(false) > 2 * lost(true),
        "{} {}",
        lost(false),
        lost(true)
    );
}

#[test]
fn a_video_that_is_all_start_up_has_nothing_to_throttle() {
    let video = StreamPlan {
        length: 5 * SECOND,
        ..video(TRICKLE)
    };
    let flow = watch(video, 20_000_000, 100, 20);
    let (stream, phase) = parts(&flow);
    assert_eq!((flow.delivered, phase.delivered), (625_000, 0));
    assert_eq!(stream.viewing.played, 5 * SECOND);
}

#[test]
fn a_video_without_start_up_is_throttled_from_its_first_byte() {
    for (pace, least, most) in [(BLOCKS, 1.24, 1.26), (TRICKLE, 1.40, 1.55)] {
        let video = StreamPlan {
            startup: 0,
            ..video(pace)
        };
        let flow = watch(video, 20_000_000, 100, 100);
        let got = throttled(&flow);
        assert!((least..most).contains(&got), "{pace:?}: {got}");
        assert_eq!(parts(&flow).1.delivered, 7_500_000);
    }
}
