//! How a policer and TCP interact: the three patterns of [Flach16 §4.4].

use std::fmt;

/// A pattern of [Flach16 §4.4, Figure 10].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pattern {
    /// No losses, or none of the patterns.
    #[default]
    None,
    /// Few losses over a long time: the window grows slowly and never overshoots by much.
    CongestionAvoidance,
    /// Bursts at a multiple of the rate, lost nearly whole, with long stagnation between.
    Staircase,
    /// So short a path that a window of two packets is too fast and one of one packet too slow.
    DoublingWindow,
}

impl Pattern {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CongestionAvoidance => "congestion-avoidance",
            Self::Staircase => "staircase",
            Self::DoublingWindow => "doubling-window",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the pattern is recognised by.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Evidence {
    /// Runs of losses, with at least a median round-trip time between two.
    pub loss_episodes: u32,
    /// Lost packets in the median episode.
    pub losses_per_episode: f64,
    /// Times without progress: nothing new delivered for a retransmission time-out's least
    /// (200 ms) and two round-trip times, while data was in flight.
    pub stalls: u32,
    /// Time lost in stalls, as a share of the transfer's.
    pub stalled: f64,
    /// Sending rate in the round trip before an episode over the delivery rate of the whole
    /// transfer, in the median episode.
    pub overshoot: f64,
    /// The 90th percentile of the packets in flight.
    pub flight_packets: f64,
}
