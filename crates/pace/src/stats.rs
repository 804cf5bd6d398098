//! The figures of a paced socket.

use tidegate_limiter::pacing::Hold;

use crate::clamp::wire::{CLAMPED, FLOOR, Record, STARTUP};
use crate::socket::TcpInfo;

/// The figures of a paced socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What bounds its rate.
    pub hold: Hold,
    /// Target rate, bytes per second.
    pub rate: u64,
    /// headroom · R · RTT / MSS, at least the floor, in segments; 0 before the first round trip.
    pub clamp: u32,
    /// Congestion window, segments.
    pub window: u32,
    /// Smoothed round-trip time, µs.
    pub srtt: u32,
    /// Largest segment, bytes of payload.
    pub mss: u32,
    /// Data segments sent on this connection, with retransmissions.
    pub sent: u32,
    /// Segments retransmitted on this connection.
    pub retransmitted: u32,
    /// Bytes acknowledged since the throttling phase began, at the last round trip.
    pub delivered: u64,
    /// Bytes that R asked for until then.
    pub due: u64,
    /// Round trips in which the clamp was checked.
    pub round_trips: u32,
    /// How often the clamp was set.
    pub sets: u32,
    /// How often goodput fell behind R.
    pub lifts: u32,
    /// Bytes per second that the kernel paces at: once the clamp was at its floor, while the window is above the clamp because
    /// something else limits the transfer (the client's window, or a lack of data), and in the fallback; 0 otherwise.
    pub pacing: u64,
}

impl Stats {
    /// The figures of a socket that has the clamp.
    pub(crate) fn clamped(record: &Record, info: &TcpInfo) -> Self {
        Self {
            hold: hold(record),
            rate: record.asked.rate,
            clamp: record.target,
            delivered: record.delivered,
            due: record.due,
            round_trips: record.calls,
            sets: record.sets,
            lifts: record.lifts,
            pacing: record.pacing.into(),
            ..Self::unclamped(info)
        }
    }

    /// The figures of a socket without the clamp.
    pub(crate) fn unclamped(info: &TcpInfo) -> Self {
        Self {
            hold: Hold::Fallback,
            rate: 0,
            clamp: 0,
            window: info.window,
            srtt: info.srtt,
            mss: info.mss,
            sent: info.sent,
            retransmitted: info.retransmitted,
            delivered: 0,
            due: 0,
            round_trips: 0,
            sets: 0,
            lifts: 0,
            pacing: 0,
        }
    }
}

/// What bounds the rate of a socket, as the program noted it.
pub(crate) fn hold(record: &Record) -> Hold {
    match record.state {
        STARTUP => Hold::StartUp,
        CLAMPED | FLOOR if record.throttled != 0 && record.pacing != 0 => Hold::Spaced,
        CLAMPED => Hold::Clamped,
        FLOOR => Hold::Floor,
        // BEHIND. The state of a removed socket is never read.
        _ => Hold::Behind,
    }
}
