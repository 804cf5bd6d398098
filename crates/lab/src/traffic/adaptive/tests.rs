use tidegate_limiter::Nanos;

use super::rule::{Fetched, Player};
use crate::outcome::FlowOutcome;
use crate::plan::{AdaptationRule, AdaptivePlan, Traffic};
use crate::run;
use crate::testing::*;
use crate::{MILLISECOND, SECOND};

const LADDER: [u64; 5] = [300_000, 750_000, 1_500_000, 3_000_000, 6_000_000];

fn video(rule: AdaptationRule) -> AdaptivePlan {
    AdaptivePlan {
        ladder: LADDER.map(rate).to_vec(),
        segment: 4 * SECOND,
        sizes: Vec::new(),
        length: 90 * SECOND,
        rule,
        initial: rate(0),
        initial_segments: 1,
        unmeasured: 0,
        weight: 1000,
        buffer: 30 * SECOND,
        start: 2 * SECOND,
        restart: 5 * SECOND,
        request: 300,
        preface: Vec::new(),
        work: 0,
    }
}

/// A segment that took a second, with this video left when it had arrived.
fn fetched(bytes: u64, left: Nanos) -> Fetched {
    Fetched {
        bytes,
        time: SECOND,
        since: SECOND,
        left,
    }
}

fn watch(video: AdaptivePlan, bits: u64, duration: Nanos) -> FlowOutcome {
    let flow = flow(Traffic::Adaptive(video));
    let mut plan = plan(vec![link("link", bits, 100)], vec![flow]);
    plan.duration = duration;
    let outcome = run(&plan, &mut |_| true).expect("a run");
    outcome.flows.into_iter().next().expect("a flow")
}

#[test]
fn the_highest_quality_below_the_throughput_is_taken() {
    for (bits, quality) in [
        (20_000_000, 6_000_000),
        (2_000_000, 1_500_000),
        (1_000_000, 750_000),
        // Nine tenths of what is left of it without headers are less.
        (800_000, 300_000),
        (200_000, 300_000),
    ] {
        let flow = watch(video(AdaptationRule::Throughput), bits, 300 * SECOND);
        let adaptive = flow.adaptive.expect("a video");
        let mut wanted = vec![quality; 23];
        wanted[0] = 300_000;
        assert_eq!(adaptive.qualities, wanted, "{bits}");
        assert_eq!(adaptive.switches(), u64::from(quality != 300_000));
        assert_eq!(flow.completions.len(), 23);
        // The last segment plays for 2 s.
        let last = flow.completions[22];
        assert_eq!(last.bytes, quality / 4);
        let viewing = adaptive.viewing;
        assert_eq!(viewing.played, 90 * SECOND);
        assert_eq!(viewing.rebufferings > 0, bits == 200_000, "{viewing:?}");
        // The handshake, and the first segment.
        let join = viewing.join.expect("it began") as f64 / 1e9;
        let least = 0.04 + 150_000.0 * 8.0 / bits as f64;
        assert!(
            (least..least * 1.06 + 0.1).contains(&join),
            "{bits}: {join}"
        );
        assert_eq!(flow.open, None);
    }
}

#[test]
fn the_first_segment_has_the_initial_quality() {
    for rule in [AdaptationRule::Throughput, AdaptationRule::Bola] {
        let mut video = video(rule);
        video.initial = rate(1_000_000);
        let flow = watch(video, 500_000, 60 * SECOND);
        let adaptive = flow.adaptive.expect("a video");
        // Its 375 kB take 6 s and more.
        assert_eq!(adaptive.qualities[..2], [750_000, 300_000]);
        let join = adaptive.viewing.join.expect("it began") as f64 / 1e9;
        assert!((6.0..6.5).contains(&join), "{join}");
    }
}

#[test]
fn segments_of_a_quality_may_have_several_sizes() {
    let mut video = video(AdaptationRule::Throughput);
    video.sizes = vec![1100, 900];
    let flow = watch(video, 20_000_000, 300 * SECOND);
    let sizes: Vec<u64> = flow.completions.iter().map(|one| one.bytes).collect();
    assert_eq!(sizes[..4], [165_000, 2_700_000, 3_300_000, 2_700_000]);
}

#[test]
fn several_segments_may_have_the_initial_quality() {
    let mut video = video(AdaptationRule::Throughput);
    video.initial_segments = 3;
    let flow = watch(video, 2_000_000, 300 * SECOND);
    let qualities = flow.adaptive.expect("a video").qualities;
    assert_eq!(qualities[..4], [300_000, 300_000, 300_000, 1_500_000]);
}

/// Each object of the preface takes a round trip of 20 ms, on the connection that is open.
#[test]
fn a_preface_and_the_player_s_work_delay_the_first_picture() {
    let join = |preface: &[u64], work| {
        let video = AdaptivePlan {
            preface: preface.to_vec(),
            work,
            ..video(AdaptationRule::Throughput)
        };
        let flow = watch(video, 2_000_000, 100 * SECOND);
        assert_eq!((flow.completions.len(), flow.open), (23, None));
        let adaptive = flow.adaptive.expect("a video");
        assert_eq!(adaptive.qualities.len(), 23);
        adaptive.viewing.join.expect("it began")
    };
    let plain = join(&[], 0);
    assert_eq!(join(&[], 300 * MILLISECOND), plain + 300 * MILLISECOND);
    let before = join(&[1000, 100], 0) - plain;
    assert!(
        (44 * MILLISECOND..46 * MILLISECOND).contains(&before),
        "{before}"
    );
    assert_eq!(join(&[1000, 100], SECOND), plain + before + SECOND);
}

#[test]
fn a_full_buffer_makes_the_player_wait() {
    let mut short = video(AdaptationRule::Throughput);
    short.buffer = 10 * SECOND;
    let flow = watch(short, 20_000_000, 100 * SECOND);
    let starts: Vec<Nanos> = flow.completions.iter().map(|one| one.start).collect();
    // It asks when 10 s are left, which is each 4 s: the time that a segment plays, from the third pause on.
    for pair in starts[5..22].windows(2) {
        assert_eq!((pair[1] - pair[0]).div_ceil(MILLISECOND), 4000);
    }
    let viewing = flow.adaptive.expect("a video").viewing;
    assert_eq!((viewing.rebufferings, viewing.stalled), (0, 0));
    assert_eq!(
        viewing.duration,
        viewing.join.expect("it began") + 90 * SECOND
    );
}

#[test]
fn throughput_is_averaged_as_dash_js_does() {
    // By hand: after 1 and 4 Mbit/s for a second each, `getEwma` of dash.js 5 is (4 + k) / (1 + k) Mbit/s for the slower average, the smaller
    // one, with k = 0.5^(1.5 / 8): 2.597 Mbit/s, of which 90 % are 2.338.
    for (rate, taken) in [(2_330_000, 1), (2_345_000, 0)] {
        let mut plan = video(AdaptationRule::Throughput);
        plan.weight = 1500;
        plan.ladder = [300_000, rate].map(crate::testing::rate).to_vec();
        let mut player = Player::new(&plan);
        for bytes in [125_000, 500_000] {
            player.fetched(fetched(bytes, SECOND));
        }
        assert_eq!(player.choose(0, 0, 0), (taken, 0), "{rate}");
    }
}

#[test]
fn the_first_bytes_of_a_segment_may_not_count() {
    let mut video = video(AdaptationRule::Throughput);
    let taken = |video: &AdaptivePlan| {
        let flow = watch(video.clone(), 2_000_000, 300 * SECOND);
        flow.adaptive.expect("a video").qualities[1]
    };
    // At a constant rate, the rest says the same.
    for unmeasured in [0, 16_221] {
        video.unmeasured = unmeasured;
        assert_eq!(taken(&video), 1_500_000, "{unmeasured}");
    }
    // Nothing is left, so nothing is known.
    video.unmeasured = 1_000_000;
    assert_eq!(taken(&video), 300_000);
}

/// The qualities that the formulas of dash.js give for these rates, with buffers from 10 to 30 s. The changes are at 12.60, 18.17, 22.79
/// and 27.42 s.
#[test]
fn bola_chooses_as_dash_js_does() {
    let mut player = Player::new(&video(AdaptationRule::Bola));
    // Nothing is known of the throughput, so there is no virtual video.
    assert_eq!(player.choose(0, 0, 0), (0, 0));
    assert_eq!(player.choose(4 * SECOND, 0, 0), (0, 0));
    player.fetched(fetched(10_000_000, SECOND));
    for (tenths, quality) in [
        (50, 0),
        (125, 0),
        (127, 1),
        (181, 1),
        (182, 2),
        (227, 2),
        (229, 3),
        (274, 3),
        (275, 4),
        (360, 4),
    ] {
        let buffer = tenths * SECOND / 10;
        assert_eq!(player.choose(buffer, 0, 0), (quality, 0), "{tenths}");
    }
}

/// By hand, from `BolaRule.js` of dash.js 5.2.1: `Vp` is 20 / ln 20 = 6.676 s, and qualities change that much earlier than above.
#[test]
fn bola_5_chooses_as_dash_js_5_does() {
    let mut player = Player::new(&video(AdaptationRule::Bola5));
    assert_eq!(player.choose(0, 0, 0), (0, 0));
    assert_eq!(player.choose(4 * SECOND, 0, 0), (0, 0));
    player.fetched(fetched(10_000_000, 10 * SECOND));
    for (hundredths, quality) in [
        (500, 0),
        (590, 0),
        (594, 1),
        (1147, 1),
        (1151, 2),
        (1609, 2),
        (1613, 3),
        (2072, 3),
        (2076, 4),
        (2600, 4),
    ] {
        let buffer = hundredths * SECOND / 100;
        assert_eq!(player.choose(buffer, 0, 0), (quality, 0), "{hundredths}");
    }
}

/// In start-up, the player takes 1.5 Mbit/s from its throughput. Virtual video keeps that quality, and is forgotten where only 0.3 s of video
/// are left.
#[test]
fn bola_5_forgets_virtual_video_where_the_buffer_is_nearly_empty() {
    for (left, quality) in [(400 * MILLISECOND, 2), (300 * MILLISECOND, 0)] {
        let mut player = Player::new(&video(AdaptationRule::Bola5));
        player.fetched(fetched(250_000, 0));
        assert_eq!(player.choose(4 * SECOND, 0, 0), (2, 0));
        player.fetched(fetched(250_000, left));
        assert_eq!(player.choose(left + 4 * SECOND, 0, 0), (quality, 0));
    }
}

#[test]
fn bola_5_asks_once_a_segment_fits_into_the_buffer() {
    let flow = watch(video(AdaptationRule::Bola5), 20_000_000, 300 * SECOND);
    let starts: Vec<Nanos> = flow.completions.iter().map(|one| one.start).collect();
    let join = flow.adaptive.expect("a video").viewing.join;
    // The buffer is full by then: a segment is asked for where 26 s of video are left in it.
    for (segment, start) in starts.iter().enumerate().skip(12) {
        let played = start - join.expect("it began");
        let buffer = 4 * SECOND * segment as u64 - played;
        assert_eq!(buffer.div_ceil(MILLISECOND), 26_000, "{segment}");
    }
}

/// Before it plays and in a stall, nothing leaves the buffer, so there is nothing to wait for.
#[test]
fn bola_5_does_not_wait_for_a_buffer_that_does_not_drain() {
    let short = |rule| {
        let mut video = video(rule);
        (video.buffer, video.start) = (5 * SECOND, 5 * SECOND);
        video
    };
    let rules = [AdaptationRule::Bola, AdaptationRule::Bola5];
    let [bola, five] = rules.map(|rule| {
        let flow = watch(short(rule), 20_000_000, 300 * SECOND);
        flow.adaptive.expect("a video").viewing.join
    });
    assert_eq!(five, bola);
    // A segment of 4 s takes 5 s, and two of them end a stall. The first of them is asked for 1 s before it.
    let mut slow = short(AdaptationRule::Bola5);
    slow.ladder.truncate(1);
    let flow = watch(slow, 250_000, 300 * SECOND);
    for pair in flow.completions.chunks_exact(2) {
        assert_eq!(pair[1].start, pair[0].end);
    }
    let viewing = flow.adaptive.expect("a video").viewing;
    assert_eq!(viewing.rebufferings, 11);
}

#[test]
fn bola_goes_by_the_buffer() {
    // On 2 Mbit/s, the buffer rises until the quality is above the rate, and falls again: it settles between both.
    let mut long = video(AdaptationRule::Bola);
    long.length = 600 * SECOND;
    let flow = watch(long, 2_000_000, 700 * SECOND);
    let adaptive = flow.adaptive.expect("a video");
    let late = &adaptive.qualities[60..];
    let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
    assert!((1_400_000.0..2_000_000.0).contains(&mean), "{mean}");
    assert_eq!(adaptive.viewing.rebufferings, 0);
    let fast = watch(video(AdaptationRule::Bola), 20_000_000, 300 * SECOND);
    let qualities = fast.adaptive.expect("a video").qualities;
    assert_eq!(qualities.last(), Some(&6_000_000));
}

/// What fills a hole may wait for others to merge with. Nothing else comes then, if it is the last of a segment.
#[test]
fn segments_end_where_hosts_merge_packets() {
    for delay in 20..50 {
        let mut flow = flow(Traffic::Adaptive(video(AdaptationRule::Throughput)));
        flow.delay = delay * MILLISECOND;
        flow.tcp.gro = 50_000;
        let mut plan = plan(vec![link("link", 3_000_000, 8)], vec![flow]);
        plan.duration = 300 * SECOND;
        let outcome = run(&plan, &mut |_| true).expect("a run");
        let flow = &outcome.flows[0];
        assert!(flow.dropped > 0);
        assert_eq!(flow.completions.len(), 23, "{delay} ms");
    }
}

#[test]
fn what_was_seen_until_the_end_of_a_run_is_counted() {
    let flow = watch(video(AdaptationRule::Throughput), 400_000, 10 * SECOND);
    let adaptive = flow.adaptive.expect("a video");
    // A segment takes 3 s and more, so the fourth is under way.
    assert_eq!(adaptive.qualities, [300_000; 3]);
    assert_eq!(flow.open, Some(flow.completions[2].end));
    assert_eq!(adaptive.mean_quality(), Some(300_000.0));
    let never = watch(video(AdaptationRule::Throughput), 50_000, 10 * SECOND);
    let adaptive = never.adaptive.expect("a video");
    assert_eq!(
        (adaptive.viewing.join, adaptive.mean_quality()),
        (None, None)
    );
}
