//! COBALT: CoDel, and BLUE for flows that do not answer it ([Cake18 §III-B]).

use tidegate_limiter::Nanos;

use crate::random::Random;

/// What BLUE's probability grows by when a queue overflows, and shrinks by when it is empty: 1/256 and 1/4096.
const MORE: u32 = 1 << 24;
const LESS: u32 = 1 << 20;

/// The goal (`cobalt_params`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim {
    pub(super) target: Nanos,
    pub(super) interval: Nanos,
    /// What the longest frame takes.
    pub(super) frame: Nanos,
}

/// The state of a queue (`cobalt_vars`).
#[derive(Debug, Clone, Default)]
pub(super) struct Cobalt {
    count: u32,
    next: Nanos,
    dropping: bool,
    /// BLUE's probability over 2^32, and when it last changed.
    probability: u32,
    changed: Nanos,
}

impl Cobalt {
    fn later(&self, at: Nanos, aim: &Aim) -> Nanos {
        // Quotient and square root are exactly specified, so this is the same everywhere.
        let count = f64::from(self.count.max(1));
        at.saturating_add((aim.interval as f64 / count.sqrt()) as Nanos)
    }

    /// A packet of the queue was dropped because there was no room (`cobalt_queue_full`).
    pub(super) fn on_full(&mut self, now: Nanos, aim: &Aim) {
        if now.saturating_sub(self.changed) > aim.target {
            self.probability = self.probability.saturating_add(MORE);
            self.changed = now;
        }
        self.dropping = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// The queue was to send and was empty (`cobalt_queue_empty`).
    pub(super) fn on_empty(&mut self, now: Nanos, aim: &Aim) {
        if self.probability > 0 && now.saturating_sub(self.changed) > aim.target {
            self.probability = self.probability.saturating_sub(LESS);
            self.changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next = self.later(self.next, aim);
        }
    }

    /// Whether it has come to rest, so that its flow may be forgotten.
    pub(super) fn is_at_rest(&self, now: Nanos) -> bool {
        self.probability == 0 && self.count == 0 && now >= self.next
    }

    /// Whether a packet that waited this long is to be dropped (`cobalt_should_drop`). `mark` marks it, if its sender knows
    /// ECN. BLUE does not mark.
    pub(super) fn drops(
        &mut self,
        now: Nanos,
        sojourn: Nanos,
        aim: &Aim,
        random: &mut Random,
        mark: impl FnOnce() -> bool,
    ) -> bool {
        let is_late = sojourn > aim.target && sojourn > aim.frame.saturating_mul(4);
        let mut due = self.count > 0 && now >= self.next;
        if is_late {
            if !self.dropping {
                self.dropping = true;
                self.next = self.later(now, aim);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut drop = false;
        if due && self.dropping {
            drop = !mark();
            self.count = self.count.saturating_add(1);
            self.next = self.later(self.next, aim);
        } else {
            while due {
                self.count -= 1;
                self.next = self.later(self.next, aim);
                due = self.count > 0 && now >= self.next;
            }
        }
        drop |= self.probability > 0 && random.bits() < self.probability;
        if self.count == 0 {
            self.next = now.saturating_add(aim.interval);
        } else if now > self.next && !drop {
            self.next = now;
        }
        drop
    }
}
