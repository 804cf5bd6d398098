//! A shaper without the room for its packets, which may be shared.

use std::sync::Arc;

use super::pace::Pace;
use super::pool::Pool;
use super::schedule::Schedule;
use super::{Backlog, ShaperConfig};
use crate::prefetch::prefetch_all;
use crate::{Nanos, PacketMeta, Program, Rate};

#[derive(Debug)]
pub(super) struct Aggregate {
    program: Arc<Program>,
    pace: Pace,
    schedule: Schedule,
    queue_bytes: u64,
    queue_packets: u32,
}

impl Aggregate {
    pub(super) fn new(config: &ShaperConfig, now: Nanos) -> Self {
        Self {
            pace: Pace::new(config.rate, config.burst, now),
            schedule: Schedule::new(&config.program),
            program: Arc::clone(&config.program),
            queue_bytes: config.queue_bytes.unwrap_or(u64::MAX),
            queue_packets: most_packets(config),
        }
    }

    /// Goes on with another rate, burst and queues, under the same policy. Queues that hold more than they may keep it.
    pub(super) fn adopt(&mut self, now: Nanos, config: &ShaperConfig) {
        self.pace.set_rate(now, config.rate);
        self.pace.set_burst(config.burst);
        self.queue_bytes = config.queue_bytes.unwrap_or(u64::MAX);
        self.queue_packets = most_packets(config);
    }

    /// Goes on under another policy with the packets that wait.
    pub(super) fn rearrange<P>(&mut self, now: Nanos, config: &ShaperConfig, pool: &mut Pool<P>) {
        let mut old = std::mem::replace(self, Self::new(config, now));
        let (bytes, packets) = (self.queue_bytes, self.queue_packets);
        (self.queue_bytes, self.queue_packets) = (u64::MAX, u32::MAX);
        let last = self.queues() as u16 - 1;
        for queue in 0..old.queues() as u16 {
            while let Some((packet, bytes)) = old.take(queue, pool) {
                let queue = queue.min(last);
                let meta = PacketMeta {
                    bytes,
                    queue,
                    ..PacketMeta::default()
                };
                // A slot was freed just before.
                let _ = self.offer(now, &meta, packet, pool);
            }
        }
        (self.queue_bytes, self.queue_packets) = (bytes, packets);
    }

    /// Forgets what was in the queues, after all was taken.
    pub(super) fn forget(&mut self) {
        self.schedule = Schedule::new(&self.program);
    }

    /// Takes the first packet of a queue, and what it was charged. The schedule does not know of it.
    pub(super) fn take<P>(&mut self, queue: u16, pool: &mut Pool<P>) -> Option<(P, u32)> {
        pool.pop(self.schedule.list(self.program.leaf(queue)))
    }

    pub(super) fn program(&self) -> &Arc<Program> {
        &self.program
    }

    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_all(self);
    }

    #[inline]
    pub(super) fn offer<P>(
        &mut self,
        now: Nanos,
        meta: &PacketMeta,
        packet: P,
        pool: &mut Pool<P>,
    ) -> Result<(), P> {
        let leaf = self.program.leaf(meta.queue);
        let held = self.schedule.backlog(leaf);
        // Held bytes are below 2^64 as each queue holds less than 2^32 packets of less than 2^32.
        let space = self.queue_bytes.saturating_sub(held.bytes);
        if held.packets >= self.queue_packets || u64::from(meta.bytes) > space {
            return Err(packet);
        }
        pool.push(self.schedule.list(leaf), meta.bytes, packet)?;
        let idle = self.schedule.backlog(0).packets == 0;
        self.schedule.arrived(&self.program, leaf, meta.bytes);
        if idle {
            self.pace.resume(now, self.schedule.largest());
        }
        Ok(())
    }

    #[inline]
    pub(super) fn poll_release<P>(&mut self, now: Nanos, pool: &mut Pool<P>) -> Option<P> {
        if self.schedule.backlog(0).packets == 0 || !self.pace.ready(now, self.schedule.largest()) {
            return None;
        }
        let leaf = self.schedule.next(&self.program);
        let (packet, bytes) = pool.pop(self.schedule.list(leaf))?;
        self.schedule.packet_left(&self.program, leaf, bytes);
        self.pace.spend(bytes);
        Some(packet)
    }

    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        if self.schedule.backlog(0).packets == 0 {
            return None;
        }
        self.pace.next(self.schedule.largest())
    }

    pub(super) fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.pace.set_rate(now, rate);
    }

    pub(super) fn backlog(&self, queue: u16) -> Backlog {
        self.schedule.backlog(self.program.leaf(queue))
    }

    pub(super) fn queues(&self) -> usize {
        self.program.queues()
    }

    pub(super) fn total(&self) -> Backlog {
        self.schedule.backlog(0)
    }
}

fn most_packets(config: &ShaperConfig) -> u32 {
    config.queue_packets.map_or(u32::MAX, |packets| {
        u32::try_from(packets).unwrap_or(u32::MAX)
    })
}
