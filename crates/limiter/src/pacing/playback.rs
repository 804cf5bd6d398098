//! A player's buffer of video, without a clock: what arrived when, against what was played.
//!
//! It says what viewers notice [Trickle §3.4]: how long a video takes to begin, and how often it
//! stops because the buffer ran empty.

use crate::{Bytes, Nanos, Rate};

#[cfg(test)]
mod tests;

/// What a player plays, and how much of it it wants before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Encoding rate of the video: the bits that a second of it has.
    pub rate: Rate,
    /// Video in the buffer, as time, from which playing begins.
    pub start: Nanos,
    /// Video in the buffer, as time, from which playing goes on after the buffer ran empty.
    pub restart: Nanos,
    /// Length of the video in bytes. Its last part is played however short it is. If the length is not
    /// known, [`finish`](Playback::finish) says that there is no more.
    pub length: Option<u64>,
}

/// A rebuffering event: the buffer ran empty before the video's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When the last of the buffer was played.
    pub start: Nanos,
    /// When playing went on; `None` if it never did.
    pub end: Option<Nanos>,
}

/// What a viewer saw until some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewing {
    /// From the request to the first picture; `None` if it never came.
    pub join: Option<Nanos>,
    /// Rebuffering events.
    pub rebufferings: u64,
    /// Time spent in them.
    pub stalled: Nanos,
    /// Video played.
    pub played: Nanos,
    /// From the request to the end of the video, or to the time of asking: the duration T of r/T.
    pub duration: Nanos,
}

impl Viewing {
    /// The rebuffering frequency r/T [Trickle §3.4], events per second.
    pub fn frequency(&self) -> f64 {
        self.rebufferings as f64 * 1e9 / self.duration.max(1) as f64
    }
}

/// What the player does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// Waits for enough video; since it ran empty, unless it never played.
    Waiting,
    /// Has played all before `since` by then, and plays on.
    Playing { since: Nanos },
    /// The last picture was shown at this time.
    Ended(Nanos),
}

/// A player's buffer. Times are those of any clock that does not go back; a time before the last
/// one is taken for the last one.
#[derive(Debug, Clone)]
pub struct Playback {
    settings: Settings,
    requested: Nanos,
    now: Nanos,
    bytes: u64,
    /// No more bytes will come.
    complete: bool,
    /// Video played before the present activity began.
    played: Nanos,
    activity: Activity,
    joined: Option<Nanos>,
    stalls: Vec<Stall>,
}

impl Playback {
    /// A player that asked for its video at this time.
    pub fn new(settings: Settings, requested: Nanos) -> Self {
        Self {
            settings,
            requested,
            now: requested,
            bytes: 0,
            complete: settings.length == Some(0),
            played: 0,
            activity: Activity::Waiting,
            joined: None,
            stalls: Vec::new(),
        }
    }

    /// These bytes have come.
    pub fn arrived(&mut self, now: Nanos, bytes: Bytes) {
        self.advance(now);
        self.bytes = self.bytes.saturating_add(bytes.get());
        self.complete |= self
            .settings
            .length
            .is_some_and(|length| self.bytes >= length);
        self.play();
    }

    /// No more will come: what is there is played to its end.
    pub fn finish(&mut self, now: Nanos) {
        self.advance(now);
        self.complete = true;
        self.play();
    }

    /// Video in the buffer at this time.
    pub fn buffered(&mut self, now: Nanos) -> Nanos {
        self.advance(now);
        self.video() - self.played_until(self.now)
    }

    /// When the buffer will be empty if nothing more arrives: the time of the next stall, or of the
    /// video's end if all has come. `None` while it does not play.
    pub fn runs_out(&self) -> Option<Nanos> {
        match self.activity {
            Activity::Playing { since } => Some(since.saturating_add(self.video() - self.played)),
            Activity::Waiting | Activity::Ended(_) => None,
        }
    }

    /// Whether the last picture was shown by this time.
    pub fn ended(&mut self, now: Nanos) -> bool {
        self.advance(now);
        matches!(self.activity, Activity::Ended(_))
    }

    /// Rebuffering events up to the latest time that was passed in.
    pub fn stalls(&self) -> &[Stall] {
        &self.stalls
    }

    /// What the viewer saw until this time.
    pub fn viewing(&mut self, now: Nanos) -> Viewing {
        self.advance(now);
        let until = match self.activity {
            Activity::Ended(at) => at,
            _ => self.now,
        };
        let stalled = self
            .stalls
            .iter()
            .map(|stall| stall.end.unwrap_or(until).saturating_sub(stall.start));
        Viewing {
            join: self.joined.map(|at| at - self.requested),
            rebufferings: self.stalls.len() as u64,
            stalled: stalled.sum(),
            played: self.played_until(until),
            duration: until - self.requested,
        }
    }

    /// The time that what came takes to play.
    fn video(&self) -> Nanos {
        let rate = u128::from(self.settings.rate.bits_per_second().max(1));
        let time = u128::from(self.bytes) * 8_000_000_000 / rate;
        Nanos::try_from(time).unwrap_or(Nanos::MAX)
    }

    fn played_until(&self, now: Nanos) -> Nanos {
        match self.activity {
            Activity::Playing { since } => self.played.saturating_add(now.saturating_sub(since)),
            Activity::Waiting | Activity::Ended(_) => self.played,
        }
    }

    /// Plays until this time.
    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        let Some(empty) = self.runs_out().filter(|&at| at <= self.now) else {
            return;
        };
        self.played = self.video();
        self.activity = if self.complete {
            Activity::Ended(empty)
        } else {
            self.stalls.push(Stall {
                start: empty,
                end: None,
            });
            Activity::Waiting
        };
    }

    /// Begins to play, or goes on, once there is enough.
    fn play(&mut self) {
        if self.activity != Activity::Waiting {
            return;
        }
        let wanted = if self.joined.is_none() {
            self.settings.start
        } else {
            self.settings.restart
        };
        let buffered = self.video() - self.played;
        // The smallest buffer that can be played is one that is not empty.
        if !self.complete && (buffered == 0 || buffered < wanted) {
            return;
        }
        if let Some(stall) = self.stalls.last_mut() {
            stall.end.get_or_insert(self.now);
        }
        if buffered > 0 {
            self.joined.get_or_insert(self.now);
        }
        self.activity = Activity::Playing { since: self.now };
        self.advance(self.now);
    }
}
