//! Packets that a replay takes together.

use super::arrival::Arrival;

/// Packets that a replay takes as one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Seconds since the step before.
    pub gap: f32,
    /// Bytes that passed together, or the weight of one packet that was lost.
    pub weight: f32,
    /// How many packets it takes together.
    pub packets: u32,
    /// Whether the network lost them.
    pub lost: bool,
}

/// Arrivals as steps.
#[derive(Debug)]
pub(super) struct Merges<'a> {
    arrivals: &'a [Arrival],
    /// By the binary logarithm of the nanoseconds within which packets are taken together.
    by_time: [Option<Vec<Step>>; u64::BITS as usize],
}

impl<'a> Merges<'a> {
    pub fn new(arrivals: &'a [Arrival]) -> Self {
        Self {
            arrivals,
            by_time: [const { None }; u64::BITS as usize],
        }
    }

    /// Steps of packets that have the same fate within a time in seconds, or less.
    pub fn within(&mut self, seconds: f64) -> &[Step] {
        let time = Self::time(seconds);
        self.by_time[time as usize].get_or_insert_with(|| merged(self.arrivals, 1 << time))
    }

    /// The binary logarithm of the nanoseconds within which packets are taken together for a time in seconds.
    pub fn time(seconds: f64) -> u32 {
        ((seconds * 1e9) as u64).max(1).ilog2()
    }
}

/// The arrivals as steps of packets with the same fate less than a time after the first of them, in
/// nanoseconds.
fn merged(arrivals: &[Arrival], within: u64) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(arrivals.len() / 2);
    let mut began = arrivals.first().map_or(0, |arrival| arrival.at);
    for arrival in arrivals {
        let gap = arrival.at.saturating_sub(began);
        match steps.last_mut() {
            Some(step) if gap < within && step.lost == arrival.lost => {
                step.packets += 1;
                // A second loss at the same level proves nothing more about it.
                if !arrival.lost {
                    step.weight += arrival.weight;
                }
            }
            _ => {
                steps.push(Step {
                    gap: gap as f32 / 1e9,
                    weight: arrival.weight,
                    packets: 1,
                    lost: arrival.lost,
                });
                began = began.max(arrival.at);
            }
        }
    }
    steps
}
