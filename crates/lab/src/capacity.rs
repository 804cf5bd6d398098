//! The capacity of a link that varies: steps of its rate, which may be off, or a trace of Mahimahi.

use std::sync::Arc;

use tidegate_limiter::{Nanos, Rate};

use crate::MILLISECOND;

#[cfg(test)]
mod tests;

/// The packets that a trace is written for: bytes of an IP packet.
pub const TRACED: u32 = 1500;

/// A capacity over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// A rate from each time on.
    Steps(Steps),
    /// Times at which packets may leave.
    Trace(Trace),
}

impl Capacity {
    /// The rate that queues are sized by: the largest of steps, the mean of a trace.
    pub fn nominal(&self) -> Rate {
        match self {
            Self::Steps(steps) => steps.largest(),
            Self::Trace(trace) => trace.mean(),
        }
    }
}

/// Rates, each from its time on. It may begin again after a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    steps: Vec<(Nanos, Rate)>,
    period: Option<Nanos>,
    /// Bit-nanoseconds per second that a period carries: what is sent in it, in bits times 10⁹.
    work: u128,
}

impl Steps {
    /// The steps begin at 0, and each is later than the one before. A rate of 0 is off.
    ///
    /// # Errors
    /// If they do not, if the period is not after the last step, or if nothing is ever sent.
    pub fn new(steps: Vec<(Nanos, Rate)>, period: Option<Nanos>) -> Result<Self, String> {
        if steps.first().is_none_or(|&(at, _)| at != 0) {
            return Err("the first step begins at 0s".to_owned());
        }
        if steps.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err("each step begins after the one before".to_owned());
        }
        let last = steps.last().map_or(0, |&(at, _)| at);
        if period.is_some_and(|period| period <= last) {
            return Err("the period ends after the last step begins".to_owned());
        }
        if steps.iter().all(|(_, rate)| rate.bits_per_second() == 0) {
            return Err("a link that is always off sends nothing: give it a rate".to_owned());
        }
        let mut steps = Self {
            steps,
            period,
            work: 0,
        };
        let ends = (0..steps.steps.len()).map(|step| (step, steps.end(step).unwrap_or(0)));
        steps.work = ends
            .map(|(step, end)| {
                let (at, rate) = steps.steps[step];
                u128::from(rate.bits_per_second()) * u128::from(end.saturating_sub(at))
            })
            .sum();
        Ok(steps)
    }

    fn largest(&self) -> Rate {
        let rates = self.steps.iter().map(|&(_, rate)| rate);
        rates.max().unwrap_or(Rate::from_bits_per_second(1))
    }

    /// When a step ends, within a period.
    fn end(&self, step: usize) -> Option<Nanos> {
        let next = self.steps.get(step + 1).map(|&(at, _)| at);
        next.or(self.period)
    }

    /// When a link has sent this many bits times 10⁹ that it begins to send at `now`, and by how much this was rounded
    /// up. [`Nanos::MAX`] if the link stays off.
    pub(crate) fn sent(&self, now: Nanos, work: u128) -> (Nanos, u128) {
        let mut left = work;
        let mut at = now;
        if let Some(period) = self.period {
            // Whole periods at once: a packet may take many of them.
            let whole = left.saturating_sub(1) / self.work;
            left -= whole * self.work;
            let time = whole.saturating_mul(period.into());
            at = at.saturating_add(Nanos::try_from(time).unwrap_or(Nanos::MAX));
        }
        loop {
            let begin = self.period.map_or(0, |period| at / period * period);
            let within = at - begin;
            let step = self.steps.partition_point(|&(from, _)| from <= within) - 1;
            let rate = u128::from(self.steps[step].1.bits_per_second());
            let end = self.end(step).map(|end| begin.saturating_add(end));
            let room = end.map(|end| rate * u128::from(end - at));
            match (end, room) {
                (Some(end), Some(room)) if room < left && end < Nanos::MAX => {
                    left -= room;
                    at = end;
                }
                _ if rate == 0 => return (Nanos::MAX, 0),
                _ => {
                    let time = left.div_ceil(rate);
                    let done = u128::from(at).saturating_add(time);
                    let done = Nanos::try_from(done).unwrap_or(Nanos::MAX);
                    return (done, time * rate - left);
                }
            }
        }
    }
}

/// The times at which a packet of [`TRACED`] bytes may leave, as Mahimahi records them. They repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds. The last is the period too.
    at: Arc<[u32]>,
}

impl Trace {
    /// Most lines of a trace.
    pub const MOST: usize = 10_000_000;

    /// Reads a trace in Mahimahi's format: a whole number of milliseconds in each line, ascending.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut at = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let time = line.trim().parse::<u32>().map_err(|_| {
                format!("line {number} is not a whole number of milliseconds: '{line:.20}'")
            })?;
            if at.last().is_some_and(|&before| before > time) {
                return Err(format!("line {number} is earlier than the one before"));
            }
            if at.len() == Self::MOST {
                return Err(format!("more than {} lines", Self::MOST));
            }
            at.push(time);
        }
        match at.last() {
            None => Err("the file is empty: a trace has a line for each packet".to_owned()),
            Some(0) => Err("a trace lasts longer than 0 ms".to_owned()),
            Some(_) => Ok(Self { at: at.into() }),
        }
    }

    fn period(&self) -> Nanos {
        Nanos::from(self.at[self.at.len() - 1]) * MILLISECOND
    }

    fn mean(&self) -> Rate {
        let bits = self.at.len() as u128 * u128::from(TRACED) * 8 * 1_000_000_000;
        let mean = (bits / u128::from(self.period())).max(1);
        Rate::from_bits_per_second(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// When the opportunity of this number comes, counted from the first of the first period.
    pub(crate) fn opportunity(&self, number: u64) -> Nanos {
        let many = self.at.len() as u64;
        let within = Nanos::from(self.at[(number % many) as usize]) * MILLISECOND;
        (number / many)
            .saturating_mul(self.period())
            .saturating_add(within)
    }

    /// The first opportunity after this time.
    pub(crate) fn first_after(&self, now: Nanos) -> u64 {
        let (lap, within) = (now / self.period(), now % self.period());
        let passed = self
            .at
            .partition_point(|&at| Nanos::from(at) * MILLISECOND <= within);
        lap * self.at.len() as u64 + passed as u64
    }
}
