//! The states, and how fast and how much each sends: the table of §5.6.1.

use super::super::bbr::bandwidth::GAIN;

/// A state of the machine of §5.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The rate doubles each round.
    Startup,
    /// The queue of Startup drains.
    Drain,
    /// `ProbeBW_DOWN`: what a probe queued drains.
    Down,
    /// `ProbeBW_CRUISE`: at the rate of the path.
    Cruise,
    /// `ProbeBW_REFILL`: the path is filled before it is probed.
    Refill,
    /// `ProbeBW_UP`: the path is probed for more.
    Up,
    /// Half in flight, to see the round trip of an empty path.
    ProbeRtt,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::Down => "probe-bw-down",
            Self::Cruise => "probe-bw-cruise",
            Self::Refill => "probe-bw-refill",
            Self::Up => "probe-bw-up",
            Self::ProbeRtt => "probe-rtt",
        }
    }

    pub(super) fn pacing_gain(self) -> u32 {
        match self {
            // 4 ln 2.
            Self::Startup => GAIN * 277 / 100 + 1,
            Self::Drain => GAIN / 2,
            Self::Down => GAIN * 9 / 10,
            Self::Cruise | Self::Refill | Self::ProbeRtt => GAIN,
            Self::Up => GAIN * 5 / 4,
        }
    }

    pub(super) fn cwnd_gain(self) -> u32 {
        match self {
            Self::Up => GAIN * 9 / 4,
            Self::ProbeRtt => GAIN / 2,
            _ => GAIN * 2,
        }
    }

    /// `IsInAProbeBWState`.
    pub(super) fn is_probe_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`: it accelerates, so losses are no news about others.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}
