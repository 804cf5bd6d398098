//! The RFCs' rules and examples, step by step. Segments have 1000 bytes and are named by their
//! numbers.

mod rfc3168;
mod rfc6582;
mod rfc6675;
mod rfc8985;
mod rfc9002;

use super::*;
use crate::MILLISECOND;
use crate::tcp::Segment;

const MSS: u32 = 1000;
/// The round trip of the handshake.
const RTT: Nanos = 50 * MILLISECOND;

/// A sender without a network: each call returns the numbers of the segments that it sends, and which of them are retransmissions.
struct Bench {
    sender: Sender,
    now: Nanos,
}

impl Bench {
    /// A sender with this many segments to send, and a window of the same size.
    fn new(config: &TcpConfig, window: u32, segments: u64) -> (Self, Vec<(u64, bool)>) {
        let config = TcpConfig {
            mss: MSS,
            initial_window: window,
            algorithm: Algorithm::Reno,
            ..config.clone()
        };
        let mut sender = Sender::new(&config, RTT);
        sender.establish(RTT, 1 << 30, Some(RTT), 0);
        sender.write(RTT, Bytes::new(segments * u64::from(MSS)));
        let mut bench = Self { sender, now: RTT };
        let sent = bench.sent();
        (bench, sent)
    }

    fn sent(&mut self) -> Vec<(u64, bool)> {
        let mut sent = Vec::new();
        while let Some(outgoing) = self.sender.transmit(self.now) {
            sent.push((outgoing.seq / u64::from(MSS), outgoing.again));
        }
        self.sender.check();
        sent
    }

    /// Acknowledges everything before `next`, and selectively these, from the first to the one
    /// after the last.
    fn ack(&mut self, next: u64, sacks: &[(u64, u64)]) -> Vec<(u64, bool)> {
        let byte = |number| number * u64::from(MSS) + FIRST;
        let mut segment = Segment {
            ack: byte(next),
            window: 1 << 30,
            ..Segment::default()
        };
        for &(from, to) in sacks {
            segment.sacks.push(byte(from)..byte(to));
        }
        self.sender.take_ack(self.now, &segment);
        self.sent()
    }

    /// Lets the timer fire.
    fn time_out(&mut self) -> Vec<(u64, bool)> {
        self.now = self.sender.next_timeout().unwrap();
        self.sender.on_timeout(self.now);
        self.sent()
    }
}

/// These are sent for the first time.
fn new(numbers: std::ops::Range<u64>) -> Vec<(u64, bool)> {
    numbers.map(|number| (number, false)).collect()
}
