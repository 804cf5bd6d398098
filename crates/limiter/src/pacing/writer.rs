//! When a server may write how much: the two phases of [Trickle §2], for each way to pace.
//!
//! Pure: time is passed in, and waiting is the server's.

use super::blocks::Blocks;
use super::bursts::{Bursts, Keep};
use super::{Way, time_of};
use crate::{Bytes, Nanos, Rate};

/// The paper's two phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first 30 to 40 s of video, as fast as TCP can.
    StartUp,
    /// The rest, paced.
    Throttling,
}

/// What holds a paced socket at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// What was written before it was paced is still under way: nothing.
    StartUp,
    /// The clamp, at headroom · R · RTT: the writer need not throttle, unless it had to before.
    Clamped,
    /// The clamp at its floor, which allows more than R: the writer must throttle.
    Floor,
    /// The clamp is or was at its floor, and the kernel spaces packets at headroom · R: the writer must throttle, but may write larger
    /// blocks.
    Spaced,
    /// Goodput is below R: nothing, so that it catches up.
    Behind,
    /// No clamp can be had, and the kernel spaces packets at headroom · R: the writer must throttle, but may write larger blocks.
    Fallback,
    /// Nothing holds this transfer alone, as where several share a connection: the writer must throttle.
    Unheld,
}

/// What the writer may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Write up to this many bytes; `u64::MAX`: all that there is.
    Write(u64),
    /// Write nothing for this many nanoseconds.
    Wait(u64),
}

/// How a transport cuts what is written into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packets {
    /// Bytes in a full packet.
    pub payload: u64,
    /// Bytes that the transport adds to each piece of up to 16 KiB: a record of TLS, a frame of HTTP/2.
    pub framing: u64,
}

impl Packets {
    /// The bytes that fill this many packets.
    fn filled(self, packets: u64) -> u64 {
        let bytes = packets.saturating_mul(self.payload);
        bytes.saturating_sub(bytes.div_ceil(FRAMED).saturating_mul(self.framing))
    }

    /// The most bytes, up to this number, that leave in full packets only. A last packet that is not full costs nearly as much as a full one. If
    /// packets are so large that this would leave out more than an eighth, it is the number itself.
    fn within(self, bytes: u64) -> u64 {
        let filled = self.filled(bytes / self.payload);
        if bytes - filled <= bytes / 8 {
            filled
        } else {
            bytes
        }
    }
}

/// What to set on the socket when the throttling phase begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// For `tidegate_pace::Pacer::pace`.
    pub clamp: Option<Rate>,
    /// For SO_MAX_PACING_RATE.
    pub max_pacing_rate: Option<Rate>,
}

/// What Trickle writes at once where the kernel spaces packets: half a second of R, which costs the server a seventh of the system calls of
/// ten packets at 2.5 Mbit/s. Not more than sockets with little unsent data (`TCP_NOTSENT_LOWAT`) take.
const SPACED_PART: u64 = 2;
const SPACED_MOST: u64 = 1 << 17;

/// Bytes of a burst of Trickle, in packets [Trickle §2]. An eleventh packet would wait for an acknowledgement where the clamp is at its floor.
const BURST_PACKETS: u64 = 10;

/// The most bytes in a record of TLS (RFC 8446, section 5.1), and in a frame of HTTP/2 unless more is agreed on (RFC 9113, section 4.2).
const FRAMED: u64 = 1 << 14;

/// For how long tokens come between two transfers of which one continues the other: a request takes a round trip. After a longer pause the
/// client has video in its buffer.
const BETWEEN: Nanos = 250_000_000;

/// The schedule of the throttling phase.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Schedule {
    Blocks(Blocks),
    Bursts(Bursts),
}

/// The schedule of one transfer's writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    way: Way,
    /// Bytes per second, of the throttling phase.
    rate: u64,
    startup: u64,
    /// Bytes that are not written yet, if it is known how many there are.
    left: Option<u64>,
    least_wait: Nanos,
    /// The packets that writes fill, where they are known.
    packets: Option<Packets>,
    /// When the transfer that this one continues had paid for its bytes.
    continues: Option<Nanos>,
    schedule: Option<Schedule>,
    /// Algorithm 1's `write_throttle`: the clamp was at its floor.
    throttled: bool,
}

impl Writer {
    /// A transfer whose first bytes, `startup`, go out at full speed, and the rest at the rate R of the throttling
    /// phase: see [`throttled_rate`](super::throttled_rate).
    #[must_use]
    pub fn new(way: Way, rate: Rate, startup: Bytes) -> Self {
        Self {
            way,
            rate: (rate.bits_per_second() / 8).max(1),
            startup: startup.get(),
            left: None,
            least_wait: 0,
            packets: None,
            continues: None,
            schedule: None,
            throttled: false,
        }
    }

    /// The transfer has this many bytes in all, so that its end does not wait for a whole block or burst when less
    /// is left.
    #[must_use]
    pub fn length(self, bytes: Bytes) -> Self {
        Self {
            left: Some(bytes.get()),
            ..self
        }
    }

    /// Waits shorter than this are left out, and the tokens lent: the paper's servers did so below
    /// 100 ms to save timers, and sent 16 kB blocks together by it [Trickle §3.2]. 0 unless set.
    #[must_use]
    pub fn least_wait(self, least_wait: Nanos) -> Self {
        Self { least_wait, ..self }
    }

    /// The transfer continues another one in the throttling phase, which had [paid](Writer::paid) for its bytes at this time, if at any. Tokens
    /// come from then on, but not those of more than 250 ms: a client that fetches small pieces, each a round trip after the last, gets the rate
    /// too.
    #[must_use]
    pub fn continues(self, paid: Option<Nanos>) -> Self {
        Self {
            continues: paid.filter(|_| self.startup == 0),
            ..self
        }
    }

    /// When there are tokens for all that was written in the throttling phase, but for these last bytes. `None` before the phase, and
    /// where the writer throttles nothing.
    #[must_use]
    pub fn paid(&self, but: Bytes) -> Option<Nanos> {
        let paid = match self.schedule.as_ref()? {
            Schedule::Blocks(blocks) => blocks.due(0),
            Schedule::Bursts(bursts) => bursts.paid(),
        };
        Some(paid.saturating_sub(time_of(self.rate, but.get())))
    }

    /// What is written at once in the throttling phase fills its packets from now on. A block of 64 KiB becomes 45 packets [Trickle §2]. The
    /// first time decides that a burst of Trickle has ten packets at most. With a payload of 0 nothing changes.
    pub fn fill(&mut self, packets: Packets) {
        if packets.payload == 0 {
            return;
        }
        if let (Way::Trickle { block }, None) = (&mut self.way, self.packets) {
            *block = packets.filled(BURST_PACKETS).clamp(1, *block);
        }
        self.packets = Some(packets);
    }

    /// [`Packets::within`], or this number if the size of packets is not known.
    fn filled(&self, bytes: u64) -> u64 {
        self.packets.map_or(bytes, |packets| packets.within(bytes))
    }

    /// Which phase the next byte belongs to.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if self.startup > 0 || self.way == Way::None {
            Phase::StartUp
        } else {
            Phase::Throttling
        }
    }

    /// What the way wants on the socket, once [`Writer::phase`] is [`Phase::Throttling`].
    #[must_use]
    pub fn settings(&self) -> Settings {
        let rate = Some(Rate::from_bits_per_second(self.rate.saturating_mul(8)));
        match self.way {
            Way::None | Way::Application { .. } => Settings::default(),
            Way::MaxPacingRate => Settings {
                clamp: None,
                max_pacing_rate: rate,
            },
            Way::Trickle { .. } => Settings {
                clamp: rate,
                max_pacing_rate: None,
            },
        }
    }

    /// What may be written at `now`, a time from any beginning. `hold` is what `tidegate_pace::Pacer::hold`
    /// says; only [`Way::Trickle`] asks for it. [`Hold::Unheld`] throttles by time alone: pass it
    /// for each of several transfers that share a connection, whose clamp holds only their sum.
    pub fn ready(&mut self, now: Nanos, hold: Option<Hold>) -> Ready {
        if self.startup > 0 && self.way != Way::None {
            return Ready::Write(self.startup);
        }
        // Once set it is never cleared [Trickle, Algorithm 1]. A round trip that grows for a moment, and
        // the clamp with it, would let the socket take all that it has room for, ahead of R.
        self.throttled |= matches!(hold, Some(Hold::Floor | Hold::Spaced));
        let (due, block) = match self.way {
            Way::None | Way::MaxPacingRate => return Ready::Write(u64::MAX),
            Way::Application { block } => {
                let block = self.filled(block).max(1);
                let block = block.min(self.left.unwrap_or(u64::MAX));
                (self.blocks(now).due(block), block)
            }
            Way::Trickle { block } => {
                let keep = self.keep(hold);
                let left = self.left.unwrap_or(u64::MAX);
                let (bytes, tokens) = match hold {
                    // The kernel spaces the block, so it is written before there are tokens for it. What follows must be able to pay, so
                    // that the last byte is not early: requests for short parts would get more than R.
                    Some(Hold::Spaced | Hold::Fallback) if left > block => {
                        let most = (self.rate / SPACED_PART).min(SPACED_MOST);
                        (self.filled(most.min(left / 2)).max(block), 0)
                    }
                    _ => {
                        let burst = block.min(left).max(1);
                        (burst, burst)
                    }
                };
                let due = self.bursts(now, block).due(now, keep, (bytes, tokens));
                if keep == Keep::Count {
                    return Ready::Write(u64::MAX);
                }
                (due, bytes)
            }
        };
        let wait = due.saturating_sub(now);
        if wait > 0 && wait >= self.least_wait {
            Ready::Wait(wait)
        } else {
            Ready::Write(block)
        }
    }

    /// Whether the clamp was at its floor, so that writes stay throttled while the clamp holds.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Which tokens Trickle keeps while this holds the socket.
    fn keep(&self, hold: Option<Hold>) -> Keep {
        match hold {
            // Of what is under way nothing is missing; what comes after it waits for the clamp.
            Some(hold @ (Hold::StartUp | Hold::Floor | Hold::Spaced)) => Keep::TwoBursts {
                may_be_behind: hold != Hold::StartUp,
            },
            Some(Hold::Fallback | Hold::Unheld) => Keep::All,
            Some(Hold::Clamped) if self.throttled => Keep::TwoBursts {
                may_be_behind: true,
            },
            // The window holds the rate, or nothing does: all that there is [Trickle, Algorithm 1].
            Some(Hold::Clamped | Hold::Behind) | None => Keep::Count,
        }
    }

    fn blocks(&mut self, now: Nanos) -> &mut Blocks {
        let new = || Blocks::new(self.rate, start(self.continues, now));
        let schedule = &mut self.schedule;
        match schedule.get_or_insert_with(|| Schedule::Blocks(new())) {
            Schedule::Blocks(blocks) => blocks,
            Schedule::Bursts(_) => unreachable!("a writer keeps its way"),
        }
    }

    fn bursts(&mut self, now: Nanos, block: u64) -> &mut Bursts {
        let new = || Bursts::new(self.rate, block, start(self.continues, now));
        let schedule = &mut self.schedule;
        match schedule.get_or_insert_with(|| Schedule::Bursts(new())) {
            Schedule::Bursts(bursts) => bursts,
            Schedule::Blocks(_) => unreachable!("a writer keeps its way"),
        }
    }

    /// Says that these bytes were written at `now`, to a socket that took them.
    pub fn wrote(&mut self, bytes: Bytes, now: Nanos) {
        let bytes = bytes.get();
        let throttled = bytes.saturating_sub(self.startup);
        self.startup = self.startup.saturating_sub(bytes);
        self.left = self.left.map(|left| left.saturating_sub(bytes));
        match &mut self.schedule {
            Some(Schedule::Blocks(blocks)) => blocks.wrote(throttled),
            Some(Schedule::Bursts(bursts)) => bursts.wrote(throttled, now),
            None => {}
        }
    }
}

/// When tokens begin to come, if the throttling phase begins now, of a transfer that continues one that had paid for its bytes at this time.
fn start(continues: Option<Nanos>, now: Nanos) -> Nanos {
    let paid = continues.unwrap_or(now);
    paid.max(now.saturating_sub(BETWEEN))
}

#[cfg(test)]
mod tests;
