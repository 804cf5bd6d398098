//! The largest of the latest samples.

#[cfg(test)]
mod tests;

/// A windowed maximum that keeps only three candidates, each later than the one before: Kathleen
/// Nichols' filter, Linux `lib/win_minmax.c`. It is never below the true maximum of the window, but
/// it may keep a maximum a little too long, or find a later one late.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct MaxFilter {
    /// Time and value, the best first.
    best: [(u64, u32); 3],
}

impl MaxFilter {
    pub(in super::super) fn get(&self) -> u32 {
        self.best[0].1
    }

    /// Takes a sample whose time is not before the last one's.
    pub(in super::super) fn update(&mut self, window: u64, time: u64, value: u32) {
        let sample = (time, value);
        let age = |of: (u64, u32)| time.saturating_sub(of.0);
        let [first, second, third] = self.best;
        if value >= first.1 || age(third) > window {
            self.best = [sample; 3];
            return;
        }
        if value >= second.1 {
            self.best = [first, sample, sample];
        } else if value >= third.1 {
            self.best[2] = sample;
        }
        self.grow_old(window, sample);
    }

    /// Drops candidates that left the window, and takes later ones from its second quarter and half
    /// so that there is one when the best leaves (`minmax_subwin_update`).
    fn grow_old(&mut self, window: u64, sample: (u64, u32)) {
        let age = |of: (u64, u32)| sample.0.saturating_sub(of.0);
        let [first, second, third] = self.best;
        if age(first) > window {
            self.best = if age(second) > window {
                [third, sample, sample]
            } else {
                [second, third, sample]
            };
        } else if second.0 == first.0 && age(first) > window / 4 {
            self.best = [first, sample, sample];
        } else if third.0 == second.0 && age(first) > window / 2 {
            self.best[2] = sample;
        }
    }
}
