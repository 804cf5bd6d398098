//! Until TCP is here: a window of ten segments, go-back-N.

use tidegate_limiter::Nanos;

use crate::tcp::{Segment, TcpConfig};

#[derive(Debug)]
pub struct Connection {
    config: TcpConfig,
    up: bool,
    syn: bool,
    una: u64,
    nxt: u64,
    written: u64,
    received: u64,
    ack: bool,
    rto: Option<Nanos>,
}

impl Connection {
    pub fn client(config: TcpConfig, _now: Nanos) -> Self {
        Self {
            syn: true,
            ..Self::server(config, _now)
        }
    }
    pub fn server(config: TcpConfig, _now: Nanos) -> Self {
        Self {
            config,
            up: false,
            syn: false,
            una: 0,
            nxt: 0,
            written: 0,
            received: 0,
            ack: false,
            rto: None,
        }
    }
    pub fn write(&mut self, _now: Nanos, bytes: u64) {
        self.written += bytes;
    }
    pub fn close(&mut self, _now: Nanos) {}
    pub fn on_segment(&mut self, _now: Nanos, s: &Segment) {
        self.up = true;
        self.ack |= s.payload > 0 || s.syn;
        if s.payload > 0 && s.seq == self.received {
            self.received += u64::from(s.payload);
        }
        if s.ack > self.una {
            self.una = s.ack;
            self.nxt = self.nxt.max(s.ack);
            self.rto = (self.una < self.nxt).then_some(_now + self.config.min_rto);
        }
    }
    pub fn on_timeout(&mut self, _now: Nanos) {
        self.nxt = self.una;
        self.rto = None;
    }
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.rto
    }
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Segment> {
        let mut s = Segment {
            seq: self.nxt,
            ack: self.received,
            window: 65535,
            ..Segment::default()
        };
        if self.syn {
            self.syn = false;
            s.syn = true;
            return Some(s);
        }
        let mss = u64::from(self.config.mss);
        let len = (self.written - self.nxt).min(mss);
        if self.up && len > 0 && self.nxt - self.una < 10 * mss {
            s.payload = len as u32;
            self.nxt += len;
            self.ack = false;
            self.rto.get_or_insert(now + self.config.min_rto);
            return Some(s);
        }
        std::mem::take(&mut self.ack).then_some(s)
    }
    pub fn received(&self) -> u64 {
        self.received
    }
    pub fn established(&self) -> bool {
        self.up
    }
}
