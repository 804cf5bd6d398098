//! Whom a limit serves: what was given, and what is assumed of the rest.

use tidegate_limiter::{Nanos, Rate};

use crate::setting::Setting;

/// Most flows that share a limit in a simulation.
pub const MOST_FLOWS: usize = 200;
/// The congestion controls that senders may have, as in scenarios.
pub const CONTROLS: [&str; 7] = ["cubic", "bbr", "bbr3", "reno", "vegas", "dctcp", "prague"];
/// A video has this share of what a user gets if all get the same.
const VIDEO: f64 = 0.8;
/// No video needs more: the bitrate of one in 1080p.
const MOST_VIDEO: u64 = 8_000_000;
/// Links to the limit are this many times as fast, …
const FASTER: u64 = 10;
/// … at least a gigabit, and at most what the lab simulates.
const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);
const FASTEST: Rate = *Rate::LIMITABLE.end();

/// A limit, and the traffic that meets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// The limit as it is today.
    pub today: Setting,
    /// The shortest and the longest round trip, in nanoseconds.
    pub rtt: (Nanos, Nanos),
    /// Connections of the user with the most.
    pub flows: usize,
    /// Users who share the limit: the first has `flows` connections, each other one has one.
    pub users: usize,
    /// Congestion controls, which senders take in turn.
    pub controls: Vec<String>,
    /// Bitrate of a video; a share of what each user would get otherwise.
    pub video: Option<Rate>,
    /// Rate of the links before the limit, where it is known.
    pub link: Option<Rate>,
}

/// A sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The user who receives, from 0.
    pub user: usize,
    /// Its congestion control.
    pub control: String,
    /// The range that its round trip is drawn from.
    pub rtt: (Nanos, Nanos),
}

impl Situation {
    /// Flows that share the limit.
    pub fn total(&self) -> usize {
        (self.flows + self.users).saturating_sub(1)
    }

    /// The senders: congestion controls in turn, each with short and long round trips.
    pub fn senders(&self) -> Vec<Sender> {
        let controls = self.controls.len().max(1);
        let classes = self.total().div_ceil(controls).max(1) as u64;
        let (low, high) = self.rtt;
        let bound = |class: u64| low + (high - low) / classes * class;
        let sender = |flow: usize| {
            let class = (flow / controls) as u64;
            let last = class + 1 == classes;
            Sender {
                user: flow.saturating_sub(self.flows.saturating_sub(1)),
                control: self.controls[flow % controls].clone(),
                rtt: (bound(class), if last { high } else { bound(class + 1) }),
            }
        };
        (0..self.total()).map(sender).collect()
    }

    /// What each user gets if all get the same, in bit/s.
    pub fn share_of_user(&self) -> f64 {
        self.today.rate.bits_per_second() as f64 / self.users.max(1) as f64
    }

    /// What a flow gets if its user's flows share evenly what the user gets, in bit/s.
    pub fn share_of(&self, sender: &Sender) -> f64 {
        let flows = if sender.user == 0 { self.flows } else { 1 };
        self.share_of_user() / flows.max(1) as f64
    }

    /// The same of the last sender, who sends the video and the short transfers.
    pub fn share_of_last(&self) -> f64 {
        let last = self.senders().pop();
        last.map_or(self.share_of_user(), |last| self.share_of(&last))
    }

    /// Whether users are compared, or the flows of the only one.
    pub fn compares_users(&self) -> bool {
        self.users > 1
    }

    /// The bitrate of the video.
    pub fn bitrate(&self) -> Rate {
        self.video.unwrap_or_else(|| {
            let share = (VIDEO * self.share_of_last()) as u64;
            // The lab simulates no slower one.
            Rate::from_bits_per_second(share.min(MOST_VIDEO)).max(*Rate::LIMITABLE.start())
        })
    }

    /// The rate of the links before the limit.
    pub fn link(&self) -> Rate {
        self.link.unwrap_or_else(|| {
            let link = self.today.rate.bits_per_second().saturating_mul(FASTER);
            Rate::from_bits_per_second(link).clamp(GIGABIT, FASTEST)
        })
    }

    /// Why it cannot be simulated.
    pub fn check(&self) -> Result<(), String> {
        let (low, high) = self.rtt;
        let wrong = if self.flows == 0 || self.users == 0 {
            "a limit needs at least one flow and one user".to_owned()
        } else if self.total() > MOST_FLOWS {
            format!(
                "{} flows are too many: at most {MOST_FLOWS} are simulated",
                self.total()
            )
        } else if low > high || low < 100_000 || high > 10_000_000_000 {
            "round trips are simulated from 0.1ms to 10s, the shorter one first".to_owned()
        } else if let Some(name) = self
            .controls
            .iter()
            .find(|name| !CONTROLS.contains(&name.as_str()))
        {
            format!(
                "`{name}` is no congestion control of the lab: choose from {}",
                CONTROLS.join(", ")
            )
        } else if self.controls.is_empty() {
            "name at least one congestion control".to_owned()
        } else if !Rate::LIMITABLE.contains(&self.today.rate) {
            format!(
                "a rate of {} is out of range: limits are simulated {}",
                self.today.rate,
                Rate::LIMITABLE_TEXT
            )
        } else if self.today.smallest() < crate::setting::FULL {
            format!(
                "this limit has room for {} bytes, so no full packet of {} bytes passes: all that it does to users is \
                 to stop them",
                self.today.smallest(),
                crate::setting::FULL
            )
        } else if !Rate::LIMITABLE.contains(&self.bitrate()) {
            format!(
                "a video of {} is out of range: videos are simulated {}",
                self.bitrate(),
                Rate::LIMITABLE_TEXT
            )
        } else if !(self.today.rate..=FASTEST).contains(&self.link()) {
            format!(
                "links of {} before a limit of {}: they are simulated from the limit's rate to {FASTEST}",
                self.link(),
                self.today.rate
            )
        } else {
            return Ok(());
        };
        Err(wrong)
    }
}
