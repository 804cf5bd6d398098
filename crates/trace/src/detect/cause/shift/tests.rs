//! Senders with a fixed window, through a token bucket with a queue that drops nothing.

use super::*;

const FRAME: f64 = 1_518.0;
/// The path's round-trip time, and the time of a packet on a line of 1 Gbit/s, in seconds.
const PATH: f64 = 0.03;
const LINE: f64 = 12e-6;

/// Sends packets: each when the packet `window` before it is acknowledged, and no sooner than `ready` says.
/// A packet leaves when `burst` bytes and what came since at `rate` bytes a second allow it.
fn send(
    packets: usize,
    window: usize,
    rate: f64,
    burst: f64,
    ready: impl Fn(usize) -> f64,
) -> Vec<Arrival> {
    let (mut level, mut out, mut sent) = (burst, 0.0_f64, 0.0);
    let mut acked: Vec<f64> = Vec::new();
    (0..packets)
        .map(|i| {
            let opened = i.checked_sub(window).map_or(0.0, |before| acked[before]);
            sent = opened.max(sent + LINE).max(ready(i));
            let now = sent.max(out);
            level = (level + rate * (now - out)).min(burst);
            // What is missing has to come first.
            out = now + ((FRAME - level) / rate).max(0.0);
            level = (level - FRAME).max(0.0);
            acked.push(out + PATH);
            Arrival {
                at: (sent * 1e9) as Nanos,
                rtt: Arrival::rtt_steps(((out + PATH - sent) * 1e9) as Nanos),
                transfer: 0,
                weight: FRAME as f32,
                lost: false,
            }
        })
        .collect()
}

#[test]
fn a_burst_and_a_queue_behind_it_are_found_without_losses() {
    for (rate, burst, window) in [
        (500e3, 400e3, 100),
        (1_250e3, 1e6, 150),
        (1_250e3, 3e6, 400),
        (5e6, 2e6, 400),
    ] {
        let packets = send(8_000, window, rate, burst, |_| 0.0);
        let shift = Shift::of(&packets).expect("the rate falls");
        let near = |found: f64, truth: f64, share: f64| (found / truth - 1.0).abs() < share;
        assert!(near(shift.rate, rate, 0.005), "{shift:?}");
        assert!((shift.rate - rate).abs() <= shift.uncertain, "{shift:?}");
        assert!(near(shift.allowance, burst, 0.05), "{burst} {shift:?}");
        let first = packets
            .iter()
            .position(|packet| packet.passed_rtt() > Some(PATH + 0.001))
            .expect("packets wait");
        let off = packets[first]
            .at
            .abs_diff(packets[0].at + shift.switch.after);
        assert!(off as f64 / 1e9 <= PATH, "{first} {shift:?}");
        let by_window = window as f64 * FRAME / PATH;
        // The last burst is cut short where the allowance ends.
        assert!(
            shift
                .burst_rate
                .is_some_and(|fast| near(fast, by_window, 0.2)),
            "{by_window} {shift:?}"
        );
        // The rule on rates needs three round trips before the shift.
        let lasts = burst / (by_window - rate) >= 3.5 * PATH;
        assert_eq!(shift.rates.is_some(), lasts, "{shift:?}");
    }
}

#[test]
fn a_queue_without_an_allowance_is_none() {
    for (rate, window) in [(500e3, 100), (1_250e3, 150), (5e6, 400)] {
        assert_eq!(Shift::of(&send(8_000, window, rate, FRAME, |_| 0.0)), None);
    }
}

/// A video server fills the player's buffer and then writes at the playback rate: nothing waits.
#[test]
fn a_sender_that_slows_down_by_itself_is_none() {
    let rate = 500e3;
    let ready = |i: usize| (i as f64 - 700.0) * FRAME / rate;
    let packets = send(8_000, 150, 20e6, FRAME, ready);
    assert_eq!(Shift::of(&packets), None);
}

#[test]
fn nothing_is_found_in_nothing() {
    assert_eq!(Shift::of(&[]), None);
    for packets in 1..40 {
        let mut at_once = send(packets, 40, 500e3, 10e3, |_| 0.0);
        let _ = Shift::of(&at_once);
        for packet in &mut at_once {
            (packet.at, packet.rtt) = (u64::MAX, u32::MAX);
        }
        assert_eq!(Shift::of(&at_once), None);
    }
}
