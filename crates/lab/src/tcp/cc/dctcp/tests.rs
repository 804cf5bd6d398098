use super::*;

fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: u32::MAX,
        pacing_rate: None,
    }
}

/// Round trips of 100 packets each, of which this many were marked.
fn rounds(dctcp: &mut Dctcp, marked: &[u32]) {
    for &marked in marked {
        let una = dctcp.round_end;
        let sample = |acked, marked, una| AckSample {
            acked,
            marked,
            snd_una: una,
            snd_nxt: dctcp_next(una),
            ..AckSample::default()
        };
        // Two acknowledgements: of the marked packets, and of the others at the end of the round.
        dctcp.on_acked(&sample(marked, marked, una.saturating_sub(1)));
        dctcp.on_acked(&sample(100 - marked, 0, una));
    }
}

fn dctcp_next(una: u64) -> u64 {
    una + 100_000
}

/// RFC 8257 §3.3: α = (1 − g)·α + g·F, with g = 1/16.
#[test]
fn the_share_of_marks_is_averaged() {
    let mut dctcp = Dctcp::default();
    let mut alpha = 1.0;
    dctcp.round_end = 1000;
    for marked in [0, 0, 50, 100, 10, 0, 0, 7, 100, 100] {
        rounds(&mut dctcp, &[marked]);
        alpha += (f64::from(marked) / 100.0 - alpha) / 16.0;
        let found = f64::from(dctcp.share) / 1024.0;
        assert!((found - alpha).abs() < 0.01, "{found} instead of {alpha}");
    }
}

#[test]
fn the_window_shrinks_by_half_the_share() {
    let mut dctcp = Dctcp::default();
    assert_eq!(dctcp.ssthresh(&window(100)), 50);
    dctcp.share = 256;
    assert_eq!(dctcp.ssthresh(&window(100)), 88);
    assert_eq!(dctcp.undo(&window(88)), 100);
    dctcp.share = 0;
    assert_eq!(dctcp.ssthresh(&window(100)), 100);
    assert_eq!(dctcp.ssthresh(&window(1)), 2);
}

#[test]
fn without_marks_the_share_reaches_nothing() {
    let mut dctcp = Dctcp::default();
    rounds(&mut dctcp, &[0; 200]);
    assert_eq!(dctcp.share, 0);
    // Linux: alpha -= min_not_zero(alpha, alpha >> dctcp_shift_g).
    for (share, then) in [(17, 16), (16, 15), (15, 0), (1, 0)] {
        dctcp.share = share;
        rounds(&mut dctcp, &[0]);
        assert_eq!(dctcp.share, then, "{share}");
    }
}

/// RFC 8257 §3.5: the answer to a loss is that of Reno, whatever the share of marks.
#[test]
fn losses_halve_the_window() {
    for state in [LossState::Recovery, LossState::Loss] {
        let mut dctcp = Dctcp {
            share: 0,
            ..Dctcp::default()
        };
        let mut window = window(100);
        window.ssthresh = dctcp.ssthresh(&window);
        dctcp.on_state(state, &mut window);
        assert_eq!(window.ssthresh, 50);
    }
}
