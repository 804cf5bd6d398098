//! The experiments: scenarios of the lab in which a limit meets a situation's senders.

use std::fmt::Write as _;

use tidegate_lab::SECOND;
use tidegate_limiter::Nanos;

use crate::draw::stratified;
use crate::remedy::Remedy;
use crate::situation::{Sender, Situation};

/// What the users do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workload {
    /// Everybody downloads without end.
    Downloads,
    /// One of the downloads is a video instead.
    Video,
    /// One of the downloads is short transfers instead, as pages are made of.
    Pages,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Downloads, Self::Video, Self::Pages];

    fn title(self) -> &'static str {
        match self {
            Self::Downloads => "downloads",
            Self::Video => "a video",
            Self::Pages => "short transfers",
        }
    }
}

/// The names of the flows that are no downloads.
const VIDEO_FLOW: &str = "video";
pub(crate) const PAGE_FLOW: &str = "page";
/// The lowest rate that a sender is held to, in bit/s.
const SLOWEST: f64 = 8_000.0;
/// Width of the windows in which throughput is counted.
pub const WINDOW: Nanos = SECOND / 4;
/// Bytes of a short transfer.
pub const PAGE: u64 = 300_000;
/// The mean time between two of them, and the least that all of them leave to others: a quarter of the equal share.
const PAGE_PAUSE: f64 = 2.0;
const PAGE_LOAD: f64 = 0.25;
/// The longest video.
const VIDEO: Nanos = 30 * SECOND;
/// Video that the player needs before it begins, and to continue after it ran out, in seconds.
const JOIN: (u64, u64) = (2, 5);
/// Random delay of each packet, so that results do not depend on how packets fall into step.
const JITTER: &str = "0.5ms";

/// How much is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// The first seed.
    pub seed: u64,
    /// Simulations of each kind.
    pub seeds: u64,
    /// How long each lasts.
    pub duration: Nanos,
    /// Up to this many times `seeds` more of today's limit and the chosen one, where it is not known what the change improves.
    pub rounds: u64,
}

/// Packets that all simulations of an advice may carry before one is chosen, and once more afterwards: a few seconds of two cores each.
const BUDGET: f64 = 16e6;
/// The most rounds of further simulations: these tell small improvements from none, at low rates.
const ROUNDS: f64 = 16.0;
/// A simulation lasts this many times as long as the rate takes to fill today's bucket, …
const FULL_BUCKET: u64 = 10;
/// … up to this.
const LONGEST: Nanos = 400 * SECOND;
/// Bits of a full packet.
const FULL_BITS: f64 = 12_000.0;
/// Seconds and seeds, from the most to the least that is simulated.
const STEPS: [(u64, u64); 9] = [
    (30, 64),
    (30, 32),
    (30, 16),
    (30, 8),
    (20, 8),
    (10, 8),
    (10, 4),
    (10, 2),
    (5, 2),
];

impl Effort {
    /// As much as takes a few seconds for a number of candidates.
    pub fn for_seconds(situation: &Situation, candidates: usize) -> Self {
        // A bucket is full at first, and must not be much of what passes.
        let least = situation
            .today
            .fills_in()
            .saturating_mul(FULL_BUCKET)
            .min(LONGEST);
        let efforts = STEPS.map(|(seconds, seeds)| Self {
            seed: 1,
            seeds,
            duration: (seconds * SECOND).max(least),
            rounds: 0,
        });
        let packets = |effort: &Self| -> f64 {
            let packets = Workload::ALL.map(|workload| effort.packets(situation, workload));
            packets.iter().sum()
        };
        let fits = |effort: &&Self| candidates as f64 * packets(effort) <= BUDGET;
        let last = efforts[STEPS.len() - 1];
        let found = efforts.iter().find(fits).copied().unwrap_or(last);
        let rounds = (BUDGET / (2.0 * packets(&found))).clamp(1.0, ROUNDS) as u64;
        Self { rounds, ..found }
    }

    /// Why nothing would be seen of what today's limit does: its bucket, which is full at first, holds more than passes.
    pub fn check(self, situation: &Situation) -> Result<(), String> {
        let today = situation.today;
        let holds = today.fills_in();
        if holds <= self.duration {
            return Ok(());
        }
        let [holds, lasts] = [holds, self.duration].map(|time| time as f64 / 1e9);
        Err(format!(
            "the bucket of {} holds what passes in {holds:.0} s at {}, and a simulation lasts {lasts:.0} s: nothing of the limit would be \
             seen. A longer --duration, up to 10min, or a smaller bucket can be simulated",
            today.bucket(),
            today.rate
        ))
    }

    /// A sentence, if the bucket is much of what passes.
    pub fn remark(self, situation: &Situation) -> Option<String> {
        let holds = situation.today.fills_in();
        (holds > self.duration / 4).then(|| {
            format!(
                "Today's bucket is full at first, and holds what passes in {:.1} s at the rate. It is much of what passes in {:.0} s: a \
                 longer --duration shows what the limit does afterwards.",
                holds as f64 / 1e9,
                self.duration as f64 / 1e9
            )
        })
    }

    /// The simulations of a further round, from 1.
    pub fn round(self, number: u64) -> Self {
        Self {
            seed: self.seed + number * self.seeds,
            ..self
        }
    }

    /// The last seed of all rounds; `None` if there is no such number.
    pub fn last_seed(self) -> Option<u64> {
        let count = self.seeds.checked_mul(self.rounds + 1)?;
        self.seed.checked_add(count.saturating_sub(1))
    }

    /// The packets that all simulations of a workload carry for a candidate, at most, roughly.
    fn packets(self, situation: &Situation, workload: Workload) -> f64 {
        let rate = situation.today.rate.bits_per_second() as f64;
        // Where somebody downloads, the limit is used up.
        let used = match workload {
            _ if situation.total() > 1 => 1.0,
            Workload::Downloads => 1.0,
            Workload::Video => situation.bitrate().bits_per_second() as f64 / rate,
            Workload::Pages => PAGE_LOAD,
        };
        let seconds = self.lasts(workload) as f64 / 1e9;
        rate / FULL_BITS * used.min(1.0) * seconds * self.seeds as f64
    }

    /// How long a video plays: 30 s as in [Flach16 §5.1], or less where all simulations are shorter.
    pub fn video(self) -> Nanos {
        self.duration.min(VIDEO)
    }

    /// How long a simulation lasts.
    pub fn lasts(self, workload: Workload) -> Nanos {
        match workload {
            // Room for a start-up and for rebuffering as long as the video.
            Workload::Video => self.duration.max(2 * self.video() + 5 * SECOND),
            Workload::Downloads | Workload::Pages => self.duration,
        }
    }
}

/// A remedy that meets a workload.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// Whom the limit serves.
    pub situation: &'a Situation,
    /// The limit, and how senders behave.
    pub remedy: &'a Remedy,
    /// What the users do.
    pub workload: Workload,
    /// How much is simulated.
    pub effort: Effort,
    /// Which of the simulations, from 0.
    pub number: u64,
}

impl Trial<'_> {
    /// The scenario of the lab, as text.
    pub fn scenario(&self) -> String {
        let (remedy, effort) = (self.remedy, self.effort);
        let link = self.situation.link().bits_per_second();
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "title = \"{}, {}\"\nduration = \"{}ns\"\nwindow = \"{WINDOW}ns\"\nseed = {}\n\n\
             [[element]]\nname = \"line\"\nkind = \"link\"\nrate = \"{link}bit\"\nqueue = \"10000 packets\"\n\n\
             [[element]]\nname = \"limit\"\n{}\n\
             [[element]]\nname = \"last-mile\"\nkind = \"delay\"\ndelay = \"0ms\"\njitter = \"{JITTER}\"\n",
            remedy.words(),
            self.workload.title(),
            effort.lasts(self.workload),
            effort.seed + self.number,
            remedy.setting.element(),
        );
        for (number, sender) in self.senders().iter().enumerate() {
            self.flow(&mut text, number, sender);
        }
        text
    }

    /// The senders. The one of the video and of the short transfers comes last: its round trip is any of the situation's, and
    /// its congestion control the first.
    fn senders(&self) -> Vec<Sender> {
        let mut senders = self.situation.senders();
        if self.workload != Workload::Downloads
            && let Some(last) = senders.pop()
        {
            senders.push(Sender {
                control: self.situation.controls[0].clone(),
                rtt: self.situation.rtt,
                ..last
            });
        }
        senders
    }

    fn flow(&self, text: &mut String, number: usize, sender: &Sender) {
        let last = number + 1 == self.situation.total();
        let (low, high) = sender.rtt;
        let draw = stratified(
            self.effort.seed,
            number as u64,
            self.number,
            self.effort.seeds,
        );
        let rtt = low + (draw * (high - low) as f64) as Nanos;
        let (name, traffic) = match (last, self.workload) {
            (true, Workload::Video) => (VIDEO_FLOW.to_owned(), self.video()),
            (true, Workload::Pages) => (PAGE_FLOW.to_owned(), self.pages()),
            _ => (
                format!("download-{number}"),
                "start = \"0s..1s\"".to_owned(),
            ),
        };
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"{name}\"\ncc = \"{}\"\nrtt = \"{rtt}ns\"\nclient = \"10.128.{}.{}\"\n\
             path = [\"line\", \"limit\", \"last-mile\"]\n{traffic}\n",
            sender.control,
            sender.user / 250,
            sender.user % 250 + 1,
        );
        if let Some(share) = self.remedy.pace {
            let pace = (share * self.situation.share_of(sender)).max(SLOWEST) as u64;
            let _ = writeln!(text, "rate-limit = \"{pace}bit\"");
        }
    }

    fn video(&self) -> String {
        format!(
            "start = \"2s..3s\"\ntraffic = {{ kind = \"stream\", rate = \"{}bit\", length = \"{}ns\", pace = \"none\", \
             join = \"{}s\", rejoin = \"{}s\" }}",
            self.situation.bitrate().bits_per_second(),
            self.effort.video(),
            JOIN.0,
            JOIN.1
        )
    }

    fn pages(&self) -> String {
        format!(
            "start = \"2s\"\narrivals = \"{}ns\"\ntraffic = {{ kind = \"bulk\", size = \"{PAGE}B\" }}",
            page_pause(self.situation)
        )
    }
}

/// The mean time between short transfers: two seconds, or longer where these would take more than a part of a share.
fn page_pause(situation: &Situation) -> Nanos {
    let load = PAGE as f64 * 8.0 / (PAGE_LOAD * situation.share_of_last());
    (PAGE_PAUSE.max(load) * 1e9) as Nanos
}
