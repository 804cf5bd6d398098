use crate::plan::Traffic;
use crate::run;
use crate::testing::*;
use crate::{MILLISECOND, SECOND};

#[test]
fn chunks_are_asked_for_after_pauses() {
    let video = Traffic::Video {
        chunk: 1_000_000,
        chunks: Some(3),
        pause: 700 * MILLISECOND,
        request: 400,
    };
    let got = run(
        &plan(vec![link("link", 20_000_000, 1000)], vec![flow(video)]),
        &mut |_| true,
    );
    let flow = &got.unwrap().flows[0];
    assert_eq!(flow.completions.len(), 3);
    assert_eq!(flow.delivered, 3_000_000);
    for pair in flow.completions.windows(2) {
        assert_eq!(pair[1].start - pair[0].end, 700 * MILLISECOND);
    }
    for (index, chunk) in flow.completions.iter().enumerate() {
        let seconds = (chunk.end - chunk.start) as f64 / 1e9;
        // 0.418 s on the link, 20 ms for the request, the handshake before the first.
        assert!((0.43..0.7).contains(&seconds), "{index}: {seconds}");
    }
    assert_eq!(flow.end, flow.completions[2].end);
    assert_eq!(flow.open, None);
}

#[test]
fn transfers_have_their_sizes_and_pauses() {
    for reconnect in [false, true] {
        let on_off = Traffic::OnOff {
            mean: 30_000.0,
            shape: 1.5,
            max: 1e6,
            pause: 50 * MILLISECOND,
            reconnect,
        };
        let mut plan = plan(vec![link("link", 100_000_000, 1000)], vec![flow(on_off)]);
        plan.duration = 300 * SECOND;
        let got = run(&plan, &mut |_| true).unwrap();
        let flow = &got.flows[0];
        let transfers = &flow.completions;
        let count = transfers.len() as f64;
        let bytes: u64 = transfers.iter().map(|transfer| transfer.bytes).sum();
        let mean = bytes as f64 / count;
        assert!((mean / 30_000.0 - 1.0).abs() < 0.15, "{mean} bytes");
        assert!(flow.delivered >= bytes && flow.delivered < bytes + 1_000_000);
        let pauses = transfers.windows(2).map(|pair| pair[1].start - pair[0].end);
        let mean = pauses.sum::<u64>() as f64 / (count - 1.0) / 1e6;
        assert!((mean / 50.0 - 1.0).abs() < 0.06, "{mean} ms");
        // The last leg takes 10 ms; a handshake before it, three more.
        let shortest = transfers
            .iter()
            .map(|transfer| transfer.end - transfer.start);
        let shortest = shortest.min().unwrap() / MILLISECOND;
        assert_eq!(
            shortest / 10,
            if reconnect { 4 } else { 1 },
            "{shortest} ms"
        );
    }
}

#[test]
fn a_transfer_that_is_open_at_the_end_is_told() {
    let video = Traffic::Video {
        chunk: 1_000_000,
        chunks: None,
        pause: 700 * MILLISECOND,
        request: 400,
    };
    let on_off = Traffic::OnOff {
        mean: 10e6,
        shape: 1.5,
        max: 1e9,
        pause: 50 * MILLISECOND,
        reconnect: true,
    };
    for (traffic, open) in [
        (Traffic::Bulk { bytes: None }, Some(0)),
        (Traffic::Bulk { bytes: Some(1000) }, None),
        (on_off, Some(0)),
        (video.clone(), Some(0)),
    ] {
        let mut plan = plan(vec![link("link", 1_000_000, 1000)], vec![flow(traffic)]);
        plan.duration = 5 * SECOND;
        let got = run(&plan, &mut |_| true).unwrap();
        assert_eq!(got.flows[0].open, open);
    }
    // The second chunk; and the pause before it.
    let mut plan = plan(vec![link("link", 2_000_000, 1000)], vec![flow(video)]);
    for (seconds, index) in [(7, Some(1)), (2, Some(0))] {
        plan.duration = seconds * SECOND;
        let got = run(&plan, &mut |_| true).unwrap();
        let flow = &got.flows[0];
        assert_eq!(Some(flow.completions.len()), index);
        let before = flow
            .completions
            .last()
            .map(|one| one.end + 700 * MILLISECOND);
        assert_eq!(flow.open, before.or(Some(0)));
    }
    plan.duration = 4_500 * MILLISECOND;
    let got = run(&plan, &mut |_| true).unwrap();
    assert_eq!(
        (got.flows[0].completions.len(), got.flows[0].open),
        (1, None)
    );
}

#[test]
fn datagrams_are_sent_at_the_rate_and_stop() {
    let traffic = Traffic::Datagrams {
        rate: rate(3_000_000),
        bytes: 1000,
        stop: Some(SECOND),
    };
    let got = run(&plan(vec![], vec![flow(traffic)]), &mut |_| true).unwrap();
    // One each 2.666… ms: those at 0, …, 374 × 2.666… < 1 s.
    assert_eq!(got.flows[0].sent_packets, 375);
    let last = 374 * 8_000_000 / 3 + 10 * MILLISECOND;
    assert_eq!(got.flows[0].end, last);
    assert_eq!(got.flows[0].delivered, 375 * 972);
}
