//! How far the application has read, and the window that this leaves.

use tidegate_limiter::Nanos;

use super::TcpConfig;
use crate::SECOND;

#[cfg(test)]
mod tests;

/// What was read, and what the peer may send.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    window: u64,
    /// The window's right edge moves by at least this, or not at all.
    least: u64,
    /// Bytes that the application reads at a time, and how long after the block before; `None`: it reads all
    /// at once.
    pace: Option<(u64, Nanos)>,
    /// The end of the bytes that were read, and the end of those that the peer may send.
    read: u64,
    edge: u64,
    /// When the application reads next, if there is something.
    due: Option<Nanos>,
}

impl Reading {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let window = u64::from(config.receive_window);
        let pace = config.read_rate.map(|rate| {
            let block = u128::from(config.read_block.max(1));
            let bits = u128::from(rate.bits_per_second().max(1));
            let interval = (block * 8 * u128::from(SECOND)).div_ceil(bits);
            (
                block as u64,
                u64::try_from(interval).unwrap_or(u64::MAX).max(1),
            )
        });
        Self {
            window,
            least: (window / 2).min(u64::from(config.mss)),
            pace,
            read: 0,
            edge: window,
            due: None,
        }
    }

    /// The first byte is expected.
    pub(super) fn establish(&mut self, first: u64) {
        self.read = first;
        self.edge = first + self.window;
    }

    /// Data in order has come, up to `next`.
    pub(super) fn come(&mut self, now: Nanos, next: u64) {
        if let Some((_, interval)) = self.pace
            && self.read < next
        {
            self.due.get_or_insert(now.saturating_add(interval));
        }
    }

    /// Behind what may come.
    pub(super) fn edge(&self, next: u64) -> u64 {
        match self.pace {
            None => next.saturating_add(self.window),
            Some(_) => self.edge.max(next),
        }
    }

    /// When the application reads next.
    pub(super) fn next_timeout(&self) -> Option<Nanos> {
        self.due
    }

    /// Reads a block, if it is time. True if the window is at least twice what the peer knows
    /// (`tcp_cleanup_rbuf`): then the peer must learn of it.
    pub(super) fn on_timeout(&mut self, now: Nanos, next: u64) -> bool {
        let (Some((block, interval)), Some(at)) = (self.pace, self.due.filter(|&at| at <= now))
        else {
            return false;
        };
        self.read = self.read.saturating_add(block).min(next);
        self.due = (self.read < next).then(|| at.saturating_add(interval));
        let known = self.edge.saturating_sub(next);
        let open = self.opened().saturating_sub(next);
        open > known && open >= 2 * known
    }

    /// The window that a segment announces. It never shrinks, and grows by no less than a segment or half of it,
    /// so that no small segments come (RFC 9293 §3.8.6.2.2).
    pub(super) fn announce(&mut self, next: u64) -> u32 {
        if self.pace.is_none() {
            return self.window as u32;
        }
        self.edge = self.opened();
        self.edge.saturating_sub(next) as u32
    }

    /// The right edge that may be announced.
    fn opened(&self) -> u64 {
        let edge = self.read + self.window;
        if edge - self.edge >= self.least {
            edge
        } else {
            self.edge
        }
    }
}
