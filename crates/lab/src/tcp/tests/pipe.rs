//! Two connections with a path between them, in virtual time.

use std::collections::BTreeMap;

use tidegate_limiter::{Bytes, Ecn, Nanos};

use crate::tcp::{Connection, Segment, TcpConfig};
use crate::{MILLISECOND, SECOND};

/// A segment as it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub at: Nanos,
    /// Whether it is from the server, which has the data.
    pub data: bool,
    pub segment: Segment,
    pub dropped: bool,
}

/// A server that sends to a client over a path with a constant delay. `fate` decides the fate of
/// the n-th data segment (or acknowledgement): the times that it takes, one for each copy.
pub struct Pipe<F> {
    pub client: Connection,
    pub server: Connection,
    pub now: Nanos,
    pub log: Vec<Sent>,
    pub rtts: Vec<Nanos>,
    under_way: BTreeMap<(Nanos, u64), (bool, Segment)>,
    counts: [u64; 2],
    edges: [u64; 2],
    fate: F,
    /// Marks data segments with these indices, counted from 0, if they are ECN-capable.
    pub marked: std::ops::Range<u64>,
}

/// Time in one direction.
pub const DELAY: Nanos = 25 * MILLISECOND;
/// There and back.
pub const RTT: Nanos = 2 * DELAY;

impl<F: FnMut(bool, u64, &Segment, Nanos) -> Vec<Nanos>> Pipe<F> {
    pub fn new(config: &TcpConfig, fate: F) -> Self {
        Self {
            client: Connection::client(config, 0),
            server: Connection::server(config, 0),
            now: 0,
            log: Vec::new(),
            rtts: Vec::new(),
            under_way: BTreeMap::new(),
            counts: [0; 2],
            edges: [1; 2],
            fate,
            marked: 0..0,
        }
    }

    /// The server writes this many bytes and closes; runs until the client has all of them.
    pub fn transfer(config: &TcpConfig, bytes: u64, fate: F) -> Self {
        let mut pipe = Self::new(config, fate);
        pipe.server.write(0, Bytes::new(bytes));
        pipe.server.close(0);
        // With many losses the timeout backs off to two minutes.
        pipe.run(1_000_000 * SECOND, |pipe| pipe.server.finished());
        assert_eq!(pipe.client.received(), bytes);
        assert_eq!(pipe.server.acked(), bytes);
        pipe
    }

    /// Runs until the condition holds, which it must before this time.
    pub fn run(&mut self, until: Nanos, mut done: impl FnMut(&Self) -> bool) {
        self.drain();
        while !done(self) {
            assert!(self.step(), "nothing is left to happen: {:?}", self.server);
            assert!(self.now < until, "too late: {:?}", self.server.snapshot());
        }
    }

    /// Runs for this time.
    pub fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        self.drain();
        while self.next().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = until;
    }

    fn next(&self) -> Option<Nanos> {
        let arrival = self.under_way.keys().next().map(|&(at, _)| at);
        let timeouts = [self.client.next_timeout(), self.server.next_timeout()];
        arrival
            .into_iter()
            .chain(timeouts.into_iter().flatten())
            .min()
    }

    fn step(&mut self) -> bool {
        let Some(next) = self.next() else {
            return false;
        };
        assert!(next >= self.now, "time goes back");
        self.now = next;
        match self.under_way.first_entry() {
            Some(entry) if entry.key().0 <= next => {
                let (data, segment) = entry.remove();
                let edge = segment.ack + u64::from(segment.window);
                self.edges[usize::from(data)] = self.edges[usize::from(data)].max(edge);
                let to = if data {
                    &mut self.client
                } else {
                    &mut self.server
                };
                to.on_segment(next, &segment);
            }
            _ => {
                for end in [&mut self.client, &mut self.server] {
                    if end.next_timeout().is_some_and(|at| at <= next) {
                        end.on_timeout(next);
                    }
                }
            }
        }
        self.drain();
        self.rtts.extend(self.server.take_rtt());
        self.client.check();
        self.server.check();
        true
    }

    /// Sends everything that both ends can send.
    pub fn drain(&mut self) {
        for data in [false, true] {
            let mut sent = 0;
            loop {
                let from = if data {
                    &mut self.server
                } else {
                    &mut self.client
                };
                let Some(segment) = from.poll_transmit(self.now) else {
                    break;
                };
                sent += 1;
                assert!(sent < 100_000, "endless at {}", self.now);
                // The edge of the window, from the last segment that arrived from the other end.
                let edge = self.edges[usize::from(!data)];
                let end = segment.seq + u64::from(segment.payload);
                assert!(
                    segment.payload == 0 || end <= edge,
                    "beyond the window: {segment:?}"
                );
                let number = &mut self.counts[usize::from(data)];
                let times = (self.fate)(data, *number, &segment, self.now);
                *number += 1;
                self.log.push(Sent {
                    at: self.now,
                    data,
                    segment,
                    dropped: times.is_empty(),
                });
                let mut segment = segment;
                let index = segment.seq.saturating_sub(1) / 1448;
                if data && segment.ecn.is_capable() && self.marked.contains(&index) {
                    segment.ecn = Ecn::Ce;
                }
                for time in times {
                    let key = (self.now + time, self.under_way_key());
                    self.under_way.insert(key, (data, segment));
                }
            }
        }
    }

    fn under_way_key(&self) -> u64 {
        // At the same time, the segment that was sent later is delivered later.
        self.log.len() as u64 * 8 + self.under_way.len() as u64 % 8
    }

    /// Data segments sent from the server, in order.
    pub fn data(&self) -> impl DoubleEndedIterator<Item = &Sent> {
        self.log
            .iter()
            .filter(|sent| sent.data && sent.segment.payload > 0)
    }

    /// Retransmissions from the server.
    pub fn again(&self) -> Vec<Sent> {
        self.data()
            .filter(|sent| sent.segment.again)
            .copied()
            .collect()
    }

    /// Acknowledgements from the client.
    pub fn acks(&self) -> impl Iterator<Item = &Sent> {
        self.log
            .iter()
            .filter(|sent| !sent.data && !sent.segment.syn)
    }
}

/// A path that loses nothing.
pub fn clean(_data: bool, _number: u64, _segment: &Segment, _now: Nanos) -> Vec<Nanos> {
    vec![DELAY]
}

/// A path that loses these data segments the first time they are sent, counted from 0.
pub fn losing(lost: &'static [u64]) -> impl FnMut(bool, u64, &Segment, Nanos) -> Vec<Nanos> {
    move |data, _, segment, _| {
        let index = segment.seq.saturating_sub(1) / 1448;
        if data && segment.payload > 0 && !segment.again && lost.contains(&index) {
            return vec![];
        }
        vec![DELAY]
    }
}

/// The usual settings with Reno, which is easy to follow by hand.
pub fn reno() -> TcpConfig {
    TcpConfig {
        algorithm: crate::tcp::Algorithm::Reno,
        ..TcpConfig::default()
    }
}
