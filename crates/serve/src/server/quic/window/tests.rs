mod net;

use std::time::{Duration, Instant};

use quinn_proto::{Connection, StreamId};
use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::{Packets, Phase, Ready, Way, Writer};

use super::*;
use net::{Net, Policer, Writes};

const UNSENT: u64 = 128 << 10;
const LARGEST: u64 = 64 << 10;
const START_UP: u64 = 2_000_000;

/// A video as `server::body` sends one.
struct Video {
    window: Arc<Window>,
    way: Way,
    rate: Rate,
    writer: Writer,
    began: Instant,
    throttled: Option<Instant>,
    /// Bytes handed over that quinn did not take yet.
    pending: u64,
}

impl Video {
    fn new(window: &Arc<Window>, way: Way, mbits: f64, began: Instant) -> Self {
        let rate = Rate::from_bits_per_second((mbits * 1e6) as u64);
        Self {
            window: window.clone(),
            way,
            rate,
            writer: Writer::new(way, rate, Bytes::new(START_UP)),
            began,
            throttled: None,
            pending: 0,
        }
    }
}

impl Writes for Video {
    fn write(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        stream: StreamId,
    ) -> Option<Instant> {
        connection.set_send_window(self.window.size() + UNSENT);
        loop {
            while self.pending > 0 {
                let bytes = vec![0; self.pending as usize];
                match connection.send_stream(stream).write(&bytes) {
                    Ok(count) => self.pending -= count as u64,
                    Err(_) => return None,
                }
            }
            if self.throttled.is_none() && self.writer.phase() == Phase::Throttling {
                self.throttled = Some(now);
                if let Way::Trickle { block } = self.way {
                    let rate = self.rate.bits_per_second() / 8;
                    let queued = START_UP.saturating_sub(self.window.delivered());
                    self.writer.fill(Packets {
                        payload: self.window.payload().into(),
                        framing: 0,
                    });
                    self.window.pace(now, Some(rate), block, queued);
                }
            }
            let trickle = matches!(self.way, Way::Trickle { .. });
            let hold = (trickle && self.throttled.is_some()).then(|| self.window.hold());
            let time = u64::try_from((now - self.began).as_nanos()).unwrap();
            match self.writer.ready(time, hold) {
                Ready::Wait(nanos) => return Some(now + Duration::from_nanos(nanos)),
                Ready::Write(bytes) => {
                    self.pending = bytes.min(LARGEST);
                    self.writer.wrote(Bytes::new(self.pending), time);
                }
            }
        }
    }
}

/// What a throttling phase came to.
#[derive(Debug)]
struct Outcome {
    /// Goodput over R, in half a minute from 5 s after the beginning of the phase.
    rate: f64,
    /// The largest number of packets without a pause of 1 ms.
    burst: usize,
    /// Of the packets sent.
    lost: f64,
    /// Bytes of the video for each packet sent, over a tenth of a burst.
    full: f64,
}

/// Half a minute of a video at this rate in Mbit/s.
fn video(way: Way, mbits: f64, round_trip: u64, policer: Option<Policer>) -> Outcome {
    let window = Window::new();
    let mut net = Net::new(&window, Duration::from_millis(round_trip), policer);
    let mut video = Video::new(&window, way, mbits, net.now);
    // Without pacing there is no other phase.
    while video.throttled.is_none() && way != Way::None {
        net.run(Duration::from_millis(10), &mut video);
    }
    net.run(Duration::from_secs(5), &mut video);
    let (begin, sent, dropped) = (net.now, net.sent.len(), net.dropped);
    let time = Duration::from_secs(30);
    net.run(time, &mut video);
    let bytes = net.received.iter().filter(|(at, _)| *at >= begin);
    let bytes: u64 = bytes.map(|(_, bytes)| bytes).sum();
    let (mut burst, mut length) = (0, 1);
    for pair in net.sent[sent..].windows(2) {
        let together = pair[1] - pair[0] <= Duration::from_millis(1);
        length = if together { length + 1 } else { 1 };
        burst = burst.max(length);
    }
    Outcome {
        rate: bytes as f64 * 8.0 / time.as_secs_f64() / (mbits * 1e6),
        burst,
        lost: (net.dropped - dropped) as f64 / (net.sent.len() - sent) as f64,
        full: bytes as f64 / ((net.sent.len() - sent) as u64 * u64::from(window.payload())) as f64,
    }
}

#[test]
fn the_average_is_the_rate() {
    // Above the floor, and at it; short and long paths.
    for (mbits, round_trip) in [
        (2.5, 100),
        (10.0, 40),
        (25.0, 20),
        (1.0, 20),
        (0.5, 200),
        (5.0, 2),
    ] {
        let seen = video(Way::TRICKLE, mbits, round_trip, None);
        println!("{mbits} Mbit/s, {round_trip} ms: {seen:?}");
        assert!((seen.rate - 1.0).abs() < 0.01, "{seen:?}");
    }
}

/// At the floor, a burst takes ten packets, and no further one that is nearly empty.
#[test]
fn bursts_fill_their_packets() {
    let seen = video(Way::TRICKLE, 1.0, 20, None);
    assert!(seen.full > 0.97, "{seen:?}");
}

/// Three times the rate of the video, with room for 20 packets.
const POLICER: Policer = Policer {
    rate: 940_000,
    bucket: 30_000,
};

#[test]
fn bursts_and_losses_behind_a_policer() {
    let seen = [Way::TRICKLE, Way::APPLICATION_64K, Way::None].map(|way| {
        let seen = video(way, 2.5, 50, Some(POLICER));
        println!("{way}: {seen:?}");
        seen
    });
    let [trickle, blocks, free] = &seen;
    assert!((trickle.rate - 1.0).abs() < 0.01 && (blocks.rate - 1.0).abs() < 0.01);
    assert!(trickle.burst <= 10 && blocks.burst > 15);
    assert_eq!(trickle.lost, 0.0);
    assert!(blocks.lost > 0.005 && free.lost > 0.005);
}

/// A path that carries half of the rate for 10 s, and enough afterwards.
#[test]
fn what_was_missed_is_caught_up() {
    let window = Window::new();
    let mut net = Net::new(&window, Duration::from_millis(50), None);
    let mut video = Video::new(&window, Way::TRICKLE, 5.0, net.now);
    while video.throttled.is_none() || window.hold() == Hold::StartUp {
        net.run(Duration::from_millis(10), &mut video);
    }
    let begin = net.now;
    let mut holds = Vec::new();
    let slow = Policer {
        rate: 312_500,
        bucket: 15_000,
    };
    for (policer, seconds) in [(None, 5), (Some(slow), 10), (None, 30)] {
        net.policer = policer;
        net.run(Duration::from_secs(seconds), &mut video);
        holds.push(window.hold());
    }
    assert_eq!(holds, [Hold::Clamped, Hold::Behind, Hold::Clamped]);
    let bytes = net.received.iter().filter(|(at, _)| *at >= begin);
    let bytes: u64 = bytes.map(|(_, bytes)| bytes).sum();
    let rate = bytes as f64 / 45.0 / 625_000.0;
    assert!((rate - 1.0).abs() < 0.01, "{rate}");
}

/// CUBIC reduces the window that met the loss (RFC 9438, section 4.6), not the one of a start-up before.
#[test]
fn a_loss_reduces_the_bounded_window() {
    let now = Instant::now();
    let window = Window::new();
    let mut bounded = window.clone().build(now, 1400);
    assert_eq!(bounded.window(), 12_000);
    window.bound.store(7001, Ordering::Relaxed);
    assert_eq!((bounded.window(), window.size()), (7001, 12_000));
    let later = now + Duration::from_secs(1);
    bounded.on_congestion_event(later, later, false, 1400);
    assert_eq!((bounded.window(), window.size()), (4900, 4900));
    // A packet that was sent before belongs to the same loss.
    bounded.on_congestion_event(later, now, false, 1400);
    assert_eq!(bounded.window(), 4900);
}
