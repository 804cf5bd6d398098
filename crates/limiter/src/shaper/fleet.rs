//! Many shapers, as a middlebox runs them.

use super::aggregate::Aggregate;
use super::pool::Pool;
use super::{Backlog, ShaperConfig};
use crate::{Nanos, PacketMeta, Rate, Wheel, WheelSettings};

#[cfg(test)]
mod tests;

/// The shapers of many aggregates, a timer wheel that says which of them may release a packet
/// [BCPQP §2.1], and one pool for the packets of all.
///
/// `P` is what the caller holds a packet by: a pointer to a buffer or its number, if buffers stay in
/// place until they are sent, or the bytes themselves, which are then copied in and out.
#[derive(Debug)]
pub struct Fleet<P> {
    aggregates: Vec<Aggregate>,
    wheel: Wheel,
    pool: Pool<P>,
    /// The latest time of all calls. Wheel and shapers must agree on it: one that is due by the
    /// wheel's time, but not yet by its own, would be due again and again.
    now: Nanos,
}

/// What the shapers of a [`Fleet`] share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetSettings {
    /// Room for packets, of all shapers together. What finds no room is dropped, whosever it is: give
    /// enough for what the queues hold at once.
    pub packets: usize,
    /// Nanoseconds by which releases may be late, at least 1; more than 5 ms counts as 5 ms. Rates are
    /// exact all the same.
    pub granularity: Nanos,
}

impl<P> Fleet<P> {
    /// Shapers of these configurations, that hold nothing.
    ///
    /// # Panics
    /// If there are 2^32 shapers or more.
    pub fn new(
        shapers: impl IntoIterator<Item = ShaperConfig>,
        settings: FleetSettings,
        now: Nanos,
    ) -> Self {
        let aggregates: Vec<_> = shapers
            .into_iter()
            .map(|config| Aggregate::new(&config, now))
            .collect();
        assert!(aggregates.len() < u32::MAX as usize, "too many shapers");
        let wheel = WheelSettings {
            timers: aggregates.len() as u32,
            granularity: settings.granularity.min(super::pace::LATENESS / 2),
        };
        Self {
            wheel: Wheel::new(wheel, now),
            aggregates,
            pool: Pool::new(settings.packets),
            now,
        }
    }

    /// Adds an aggregate. Returns its number.
    ///
    /// # Panics
    /// If there would be 2^32 of them.
    pub fn add(&mut self, now: Nanos, config: &ShaperConfig) -> u32 {
        let number = self.aggregates.len();
        assert!(number < u32::MAX as usize - 1, "too many shapers");
        self.now = now.max(self.now);
        self.aggregates.push(Aggregate::new(config, self.now));
        self.wheel.add();
        number as u32
    }

    /// Gives an aggregate another configuration. Packets that wait go on waiting, also where queues hold more than they may
    /// now; under another policy in the queue with the same number, or the last one.
    ///
    /// # Panics
    /// If there is no such aggregate.
    pub fn change(&mut self, now: Nanos, aggregate: u32, config: &ShaperConfig) {
        self.now = now.max(self.now);
        let shaper = &mut self.aggregates[aggregate as usize];
        if shaper.program() == &config.program {
            shaper.adopt(self.now, config);
        } else {
            shaper.rearrange(self.now, config, &mut self.pool);
        }
        self.schedule(aggregate);
    }

    /// Takes out all packets that wait in an aggregate, whether or not they are due.
    ///
    /// # Panics
    /// If there is no such aggregate.
    pub fn empty(&mut self, aggregate: u32, mut taken: impl FnMut(P)) {
        let shaper = &mut self.aggregates[aggregate as usize];
        for queue in 0..shaper.queues() as u16 {
            while let Some((packet, _)) = shaper.take(queue, &mut self.pool) {
                taken(packet);
            }
        }
        shaper.forget();
        self.wheel.cancel(aggregate);
    }

    /// An aggregate will be offered a packet soon.
    ///
    /// # Panics
    /// If there is no such aggregate.
    #[inline]
    pub fn prefetch(&self, aggregate: u32) {
        self.aggregates[aggregate as usize].prefetch();
    }

    /// All packets that wait, in no order, whether or not they are due.
    pub fn into_packets(self) -> impl Iterator<Item = P> {
        self.pool.into_packets()
    }

    /// Puts a packet at the end of its queue in an aggregate's shaper.
    ///
    /// # Errors
    /// Gives the packet back if the queue or the room for all is full: it is dropped.
    ///
    /// # Panics
    /// If there is no such aggregate, or its policy has no such queue.
    #[inline]
    pub fn offer(
        &mut self,
        now: Nanos,
        aggregate: u32,
        meta: &PacketMeta,
        packet: P,
    ) -> Result<(), P> {
        self.now = now.max(self.now);
        let shaper = &mut self.aggregates[aggregate as usize];
        shaper.offer(self.now, meta, packet, &mut self.pool)?;
        if shaper.total().packets == 1 {
            self.schedule(aggregate);
        }
        Ok(())
    }

    /// Hands out all packets that are due, with the numbers of their aggregates.
    #[inline]
    pub fn advance(&mut self, now: Nanos, mut release: impl FnMut(u32, P)) {
        self.now = now.max(self.now);
        while let Some(aggregate) = self.wheel.pop(self.now) {
            let shaper = &mut self.aggregates[aggregate as usize];
            while let Some(packet) = shaper.poll_release(self.now, &mut self.pool) {
                release(aggregate, packet);
            }
            self.schedule(aggregate);
        }
    }

    /// A time before which no packet is due; `None` if none waits.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.wheel.next()
    }

    /// Another rate for an aggregate from now on.
    ///
    /// # Panics
    /// If there is no such aggregate.
    pub fn set_rate(&mut self, now: Nanos, aggregate: u32, rate: Rate) {
        self.now = now.max(self.now);
        self.aggregates[aggregate as usize].set_rate(self.now, rate);
        self.schedule(aggregate);
    }

    /// What waits in a queue of an aggregate.
    ///
    /// # Panics
    /// If there is no such aggregate, or its policy has no such queue.
    pub fn backlog(&self, aggregate: u32, queue: u16) -> Backlog {
        self.aggregates[aggregate as usize].backlog(queue)
    }

    /// What waits in all queues of an aggregate.
    ///
    /// # Panics
    /// If there is no such aggregate.
    pub fn total(&self, aggregate: u32) -> Backlog {
        self.aggregates[aggregate as usize].total()
    }

    #[inline]
    fn schedule(&mut self, aggregate: u32) {
        match self.aggregates[aggregate as usize].poll_timeout() {
            Some(at) => self.wheel.schedule(aggregate, at),
            None => self.wheel.cancel(aggregate),
        }
    }
}
