//! A video over one connection, as in progressive streaming [Trickle §2]: its beginning at full
//! speed, the rest at a throttled rate, by one of the ways to pace; and the player.

use tidegate_limiter::pacing::playback::{self, Playback};
use tidegate_limiter::pacing::{Ready, Target, Way, Writer};
use tidegate_limiter::{Bytes, Nanos};

use super::Ends;
use super::clamp::Clamp;
use crate::SECOND;
use crate::outcome::{Completion, StreamOutcome, Throttled};
use crate::plan::StreamPlan;
use crate::tcp::{Connection, Counts};

#[cfg(test)]
mod tests;

/// A server that only TCP holds back writes while fewer bytes than this are unsent: the bound of a
/// socket with `TCP_NOTSENT_LOWAT`.
const LOW_WATER: u64 = 131_072;
/// The bytes that it writes at once.
const PIECE: u64 = 65_536;

/// A server with a video, and its player.
#[derive(Debug)]
pub struct Stream {
    plan: StreamPlan,
    start: Nanos,
    stage: Stage,
    /// Bytes of the video, and those that are sent at full speed.
    length: u64,
    startup: u64,
    /// Says when the server may write, and how much, in the throttling phase.
    writer: Writer,
    written: u64,
    phase: Option<Phase>,
    /// The clamp of Trickle, in the throttling phase.
    clamp: Option<Clamp>,
    /// When a block must be written, even without acknowledgements.
    due: Option<Nanos>,
    playback: Playback,
    received: u64,
}

#[derive(Debug, PartialEq)]
enum Stage {
    Waiting,
    Opening,
    /// The player has sent its request.
    Asked,
    Sending,
    /// Everything has arrived.
    Done,
}

/// The throttling phase.
#[derive(Debug)]
struct Phase {
    start: Nanos,
    before: Counts,
    /// Its end, with the counts then and the smoothed round trip.
    end: Option<(Nanos, Counts, Option<Nanos>)>,
}

impl Stream {
    /// A video that is requested at this time, as soon as the connection is established.
    pub fn new(plan: StreamPlan, start: Nanos) -> Self {
        let encoding = plan.rate;
        let bytes = |time: Nanos| {
            let bits = u128::from(encoding.bits_per_second()) * u128::from(time);
            u64::try_from(bits.div_ceil(8 * u128::from(SECOND))).unwrap_or(u64::MAX)
        };
        let length = bytes(plan.length).max(1);
        let settings = playback::Settings {
            rate: encoding,
            start: plan.start,
            restart: plan.restart,
            length: Some(length),
        };
        let startup = bytes(plan.startup).min(length);
        let least_wait = match plan.pace.way {
            Way::Application { .. } => plan.pace.least_wait,
            _ => 0,
        };
        let writer = Writer::new(plan.pace.way, plan.throttled_rate(), Bytes::new(startup))
            .length(Bytes::new(length))
            .least_wait(least_wait);
        Self {
            start,
            stage: Stage::Waiting,
            length,
            startup,
            writer,
            written: 0,
            phase: None,
            clamp: None,
            due: None,
            playback: Playback::new(settings, start),
            received: 0,
            plan,
        }
    }

    /// The time before it begins, and when a block is due.
    pub fn next_timeout(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Waiting => Some(self.start),
            _ => self.due,
        }
    }

    /// The video begins, or a block is written.
    pub fn on_timeout(&mut self, now: Nanos, ends: Option<&mut Ends>) -> bool {
        match ends {
            Some(ends) if self.stage != Stage::Waiting => {
                self.due = None;
                self.write(now, &mut ends.server);
                false
            }
            _ => {
                self.stage = Stage::Opening;
                true
            }
        }
    }

    /// Answers the request, then follows the acknowledgements.
    pub fn on_server(&mut self, now: Nanos, server: &mut Connection) {
        if self.stage == Stage::Asked && server.received() >= u64::from(self.plan.request) {
            self.stage = Stage::Sending;
            let first = match self.plan.pace.way {
                Way::None => self.length,
                _ => self.startup,
            };
            self.hand(now, server, first);
            self.writer.wrote(Bytes::new(self.written), now);
        }
        if !matches!(self.stage, Stage::Sending | Stage::Done) {
            return;
        }
        if self.phase.is_none() && self.written - server.unsent() >= self.startup {
            self.begin_throttling(now, server);
        }
        if self.phase.is_some() {
            let sent = self.written - server.unsent();
            if let Some(clamp) = &mut self.clamp {
                clamp.on_ack(now, server, sent);
            }
            self.write(now, server);
        }
        if let Some(phase) = self.phase.as_mut().filter(|phase| phase.end.is_none())
            && server.acked() >= self.length
        {
            let snapshot = server.snapshot();
            phase.end = Some((now, snapshot.counts, snapshot.srtt));
        }
    }

    fn begin_throttling(&mut self, now: Nanos, server: &mut Connection) {
        self.phase = Some(Phase {
            start: now,
            before: server.snapshot().counts,
            end: None,
        });
        let rate = self.plan.throttled_bytes_per_second();
        match self.plan.pace.way {
            Way::MaxPacingRate => server.pace(rate),
            Way::Trickle { block } => {
                let target = Target {
                    rate,
                    headroom: self.plan.pace.headroom,
                    hold_average: self.plan.pace.hold_average,
                    block,
                };
                self.clamp = Some(Clamp::new(target, now, self.startup));
            }
            Way::None | Way::Application { .. } => {}
        }
    }

    /// Writes the bytes that may be written now, and notes when the next block will be.
    fn write(&mut self, now: Nanos, server: &mut Connection) {
        if self.phase.is_none() {
            return;
        }
        self.due = None;
        let hold = self.clamp.as_ref().map(Clamp::hold);
        while self.written < self.length {
            let before = self.written;
            let ready = self.writer.ready(now, hold);
            match ready {
                Ready::Wait(wait) => {
                    self.due = Some(now.saturating_add(wait));
                    return;
                }
                // Only TCP holds the writer back, as soon as it holds enough.
                Ready::Write(u64::MAX) => {
                    while self.written < self.length && server.unsent() < LOW_WATER {
                        self.hand(now, server, PIECE);
                    }
                }
                Ready::Write(bytes) => self.hand(now, server, bytes),
            }
            let wrote = Bytes::new(self.written - before);
            self.writer.wrote(wrote, now);
            if ready == Ready::Write(u64::MAX) {
                return;
            }
        }
    }

    fn hand(&mut self, now: Nanos, server: &mut Connection, bytes: u64) {
        let bytes = bytes.min(self.length - self.written);
        self.written += bytes;
        server.write(now, Bytes::new(bytes));
    }

    /// Sends the request, and plays the data that has arrived.
    pub fn on_client(&mut self, now: Nanos, client: &mut Connection) -> Option<Completion> {
        if self.stage == Stage::Opening && client.established() {
            self.stage = Stage::Asked;
            client.write(now, Bytes::new(self.plan.request.into()));
        }
        let received = client.received();
        if received > self.received {
            let new = Bytes::new(received - self.received);
            self.playback.arrived(now, new);
            self.received = received;
        }
        if self.stage != Stage::Sending || received < self.length {
            return None;
        }
        self.stage = Stage::Done;
        client.close(now);
        Some(Completion {
            start: self.start,
            end: now,
            bytes: self.length,
        })
    }

    /// When the incomplete transfer began.
    pub fn open(&self) -> Option<Nanos> {
        (!matches!(self.stage, Stage::Waiting | Stage::Done)).then_some(self.start)
    }

    /// Whether everything has arrived.
    pub fn ended(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The results until this time; `server` is its connection's end, if there is one.
    pub fn outcome(&self, now: Nanos, server: Option<&Connection>) -> StreamOutcome {
        let viewing = self.playback.clone().viewing(now);
        let mut srtt = server.and_then(|server| server.snapshot().srtt);
        let throttled = self.phase.as_ref().zip(server).map(|(phase, server)| {
            let (end, counts, then) =
                (phase.end).unwrap_or_else(|| (now, server.snapshot().counts, srtt));
            srtt = then;
            Throttled {
                start: phase.start,
                end,
                sent: counts.sent - phase.before.sent,
                retransmitted: counts.retransmitted - phase.before.retransmitted,
                delivered: server.acked().saturating_sub(self.startup),
            }
        });
        StreamOutcome {
            viewing,
            throttled,
            srtt,
        }
    }
}
