//! What the kernel does for a connection: it paces its socket, and counts.

use std::time::Duration;

use tidegate_limiter::Rate;
use tidegate_pace::{Hold, Mode, PaceError, Pacer, Target, Way, socket as tcp};
use tokio::net::TcpStream;

/// How old an answer of the kernel may be where a newer one would hardly change anything. Each question is a system call, and there are more
/// than twenty blocks a second.
pub(super) const REFRESH: Duration = Duration::from_millis(250);

/// The kernel's figures of a connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// Smoothed round-trip time, in microseconds; 0: not known.
    pub srtt_us: u32,
    /// The recent minimum of the round-trip time, in microseconds.
    pub min_rtt_us: u32,
    /// Bytes in a full packet: with TCP also those of TLS and HTTP/2.
    pub segment: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Segments with data sent, retransmissions among them.
    pub segments: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Bytes acknowledged.
    pub acknowledged: u64,
}

impl Snapshot {
    pub fn of(socket: &TcpStream) -> Self {
        // A connection that has ended has no state to read.
        let info = tcp::tcp_info(socket).unwrap_or_default();
        Self {
            srtt_us: info.srtt,
            min_rtt_us: info.min_rtt,
            segment: info.mss,
            cwnd: info.window,
            segments: info.sent,
            retransmitted: info.retransmitted,
            acknowledged: info.acked,
        }
    }
}

/// Paces sockets. Loads the programs only if some way needs them.
#[derive(Debug)]
pub(super) struct Sockets {
    clamp: Option<Pacer>,
}

impl Sockets {
    pub fn new(mut ways: impl Iterator<Item = Way>) -> Self {
        let trickle = ways.any(|way| matches!(way, Way::Trickle { .. }));
        Self {
            clamp: trickle.then(Pacer::open),
        }
    }

    /// What cannot be done on this machine, and what is done instead.
    pub fn remark(&self) -> Option<String> {
        match self.clamp.as_ref()?.mode() {
            Mode::Fallback { why: Some(why) } => Some(format!(
                "trickle falls back to application pacing and SO_MAX_PACING_RATE: {why}"
            )),
            _ => None,
        }
    }

    /// What bounds the rate of a socket, for the writer. Only the clamp gives an answer.
    pub fn hold(&self, way: Way, socket: &TcpStream) -> Option<Hold> {
        match way {
            // A socket that cannot be asked is paced without the clamp.
            Way::Trickle { .. } => {
                let hold = self.clamp.as_ref()?.hold(socket);
                Some(hold.unwrap_or(Hold::Unheld))
            }
            _ => None,
        }
    }

    /// Paces a socket to this rate in bit/s, or frees it. `new_phase`: data written before is sent at full speed. Returns whether the
    /// kernel did so.
    pub fn set(&self, way: Way, socket: &TcpStream, rate: Option<u64>, new_phase: bool) -> bool {
        let result = match (way, &self.clamp, rate) {
            (Way::Trickle { .. }, Some(clamp), Some(rate)) => {
                let target = Target::new(Rate::from_bits_per_second(rate));
                target.map_err(PaceError::from).and_then(|target| {
                    if new_phase {
                        clamp.pace(socket, &target)
                    } else {
                        clamp.change(socket, &target)
                    }
                })
            }
            (Way::Trickle { .. }, Some(clamp), None) => clamp.remove(socket),
            (Way::MaxPacingRate, _, rate) => {
                let rate = rate.map(|rate| rate.div_ceil(8));
                return tcp::set_max_pacing_rate(socket, rate).is_ok();
            }
            _ => return true,
        };
        if let Err(error) = &result {
            tracing::debug!("{way}: {error}");
        }
        result.is_ok()
    }

    /// How sockets are really paced.
    pub fn by(&self, way: Way) -> &'static str {
        match (way, &self.clamp) {
            (Way::Trickle { .. }, Some(clamp)) if matches!(clamp.mode(), Mode::Kernel) => "clamp",
            (Way::Trickle { .. }, _) => "fallback",
            (Way::Application { .. }, _) => "application",
            (Way::MaxPacingRate, _) => "kernel",
            (Way::None, _) => "nothing",
        }
    }
}
