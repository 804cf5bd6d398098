//! When packets left their sender, by its own clock: what a capture behind a limiter shows of the times before it.
//!
//! Senders note in each packet when they sent it (RFC 7323 §3.2), in milliseconds with nearly all systems. So what a packet
//! took beyond the fastest is known to a millisecond, also where losses are seen from behind, and so is when it
//! came to the limiter.

use crate::annotate::{Marks, Sent, Transfer};
use crate::read::Nanos;

#[cfg(test)]
mod tests;

/// What a clock counts, in nanoseconds. Others, of 4 or 10 ms, are too coarse to tell a policer from a short queue.
const TICK: i64 = 1_000_000;
/// This many ticks must have passed, …
const LEAST_TICKS: i64 = 50;
/// … in a time that differs by less than this factor: queues that fill stretch it.
const STRETCHED: f64 = 3.0;
/// Packets that it takes.
const LEAST_PACKETS: usize = 20;
/// Clocks gain or lose up to this many parts of a million; steps in which that is tried.
const MOST_DRIFT: i64 = 100;
const STEP: usize = 5;
/// Parts of the transfer whose fastest packets show how the clocks drift.
const PARTS: i64 = 16;
/// The path's round-trip time where nothing shows it.
const USUAL_ROUND: Nanos = 50_000_000;

/// A packet as it came to the limiter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Met {
    /// When it would have come to the capture without waiting.
    pub at: Nanos,
    /// The path's round-trip time with what it waited; 0 of one that did not come to the capture.
    pub rtt: Nanos,
}

/// What packets waited for at least, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Waited {
    /// What one in ten did not exceed.
    pub lower: f64,
    /// The median packet.
    pub median: f64,
    /// What one in ten exceeded.
    pub upper: f64,
}

/// When a transfer's packets came to the limiter, by its sender's clock.
#[derive(Debug)]
pub(super) struct Stamps {
    /// In the order in which they were sent.
    pub met: Vec<Met>,
    pub waited: Waited,
}

impl Stamps {
    /// Reads the clock of a transfer's sender, if it tells when packets came to the limiter.
    pub fn of(transfer: &Transfer<'_>) -> Option<Self> {
        let mut waits = waits(transfer.sent)?;
        let round = transfer.path.round_trip().unwrap_or(USUAL_ROUND);
        let mut met: Vec<Met> = Vec::with_capacity(transfer.sent.len());
        let mut flight = Flight::default();
        let (mut last, mut waited) = (0, 0);
        // The places of what was lost since the last packet.
        let mut lost = Vec::new();
        let mut captured = waits.iter();
        for sent in transfer.sent {
            if !is_captured(sent) {
                // When a retransmission was lost shows without the clock.
                if !sent.is_retransmission() {
                    lost.push(met.len());
                }
                met.push(Met {
                    at: sent.at.saturating_sub(waited),
                    rtt: 0,
                });
                continue;
            }
            waited = *captured.next().unwrap_or(&0);
            let at = sent.at.saturating_sub(waited);
            let times = flight.lost(lost.len(), last, at);
            for (place, time) in lost.drain(..).zip(times) {
                met[place].at = time;
            }
            if !sent.is_retransmission() {
                flight.went(at);
            }
            last = at;
            met.push(Met {
                at,
                rtt: round.saturating_add(waited),
            });
        }
        let mut at = |share| {
            let place = waits.len() * share / 10;
            *waits.select_nth_unstable(place).1 as f64 / 1e9
        };
        let waited = Waited {
            lower: at(1),
            median: at(5),
            upper: at(9),
        };
        Some(Self { met, waited })
    }
}

/// Packets whose mean distance is that of those behind them.
const RECENT: usize = 4;

/// The last new packets that the sender sent.
#[derive(Debug, Default)]
struct Flight {
    times: [Nanos; RECENT + 1],
    count: usize,
}

impl Flight {
    fn went(&mut self, at: Nanos) {
        self.times.rotate_left(1);
        self.times[RECENT] = at.max(self.times[RECENT - 1]);
        self.count += 1;
    }

    /// Says when packets went that were lost before the next one came: as close behind those before as these were to
    /// each other, since what ends a flight is lost with it, or evenly where that is closer.
    fn lost(&mut self, count: usize, last: Nanos, next: Nanos) -> Vec<Nanos> {
        let begin = match self.count {
            0 => last,
            _ => self.times[RECENT],
        };
        let evenly = next.saturating_sub(begin) / (count as Nanos + 1);
        let step = match self.count > RECENT {
            true => evenly.min((self.times[RECENT] - self.times[0]) / RECENT as Nanos),
            false => evenly,
        };
        let times: Vec<Nanos> = (1..=count as Nanos).map(|i| begin + i * step).collect();
        times.iter().for_each(|&at| self.went(at));
        times
    }
}

fn is_captured(sent: &Sent) -> bool {
    !sent.marks.has(Marks::NOT_CAPTURED)
}

/// What each packet that was captured waited for at least, in nanoseconds.
fn waits(sent: &[Sent]) -> Option<Vec<Nanos>> {
    let captured = || sent.iter().filter(|sent| is_captured(sent));
    let (first, last) = (captured().next()?, captured().next_back()?);
    let ticks = |sent: &Sent| i64::from(sent.tsval.wrapping_sub(first.tsval).cast_signed());
    let since = |sent: &Sent| sent.at.cast_signed().wrapping_sub(first.at.cast_signed());
    let lasted = since(last);
    let stretched = lasted as f64 / (ticks(last) * TICK) as f64;
    let counts = ticks(last) >= LEAST_TICKS
        && (STRETCHED.recip()..STRETCHED).contains(&stretched)
        && captured().count() >= LEAST_PACKETS;
    if !counts {
        return None;
    }
    // How much later than its own clock says each packet came, in nanoseconds.
    let later: Vec<(i64, i64)> = captured()
        .map(|sent| (since(sent), since(sent).saturating_sub(ticks(sent) * TICK)))
        .collect();
    let drift = drift(&later, lasted);
    let without = |&(at, later): &(i64, i64)| later.saturating_sub(at / 1_000_000 * drift);
    let fastest = later.iter().map(without).min()?;
    // A packet was sent at any time of its tick.
    let wait = |point| {
        let beyond = without(point).saturating_sub(fastest).saturating_sub(TICK);
        beyond.max(0).cast_unsigned()
    };
    Some(later.iter().map(wait).collect())
}

/// How many parts of a million the capture's clock gains on the sender's: the line below the fastest packets of all parts that
/// comes closest to them, and of equals the one with the least drift.
fn drift(later: &[(i64, i64)], lasted: i64) -> i64 {
    let mut fastest: Vec<Option<(i64, i64)>> = vec![None; PARTS as usize];
    for &(at, later) in later {
        let part = (at.max(0) / (lasted / PARTS + 1)).min(PARTS - 1) as usize;
        let least = fastest[part].get_or_insert((at, later));
        if later < least.1 {
            *least = (at, later);
        }
    }
    let fastest: Vec<(i64, i64)> = fastest.into_iter().flatten().collect();
    let distance = |drift: i64| {
        let above = fastest
            .iter()
            .map(|&(at, later)| later.saturating_sub(at / 1_000_000 * drift));
        let least = above.clone().min().unwrap_or(0);
        let beyond = above.map(|above| above.saturating_sub(least));
        beyond.fold(0, i64::saturating_add)
    };
    (-MOST_DRIFT..=MOST_DRIFT)
        .step_by(STEP)
        .min_by_key(|&drift| (distance(drift), drift.abs()))
        .unwrap_or(0)
}
