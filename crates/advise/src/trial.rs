//! The experiments: scenarios of the lab in which a limit meets a situation's senders.

use std::fmt::Write as _;

use tidegate_lab::SECOND;
use tidegate_limiter::Nanos;

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
}

/// Width of the windows in which throughput is counted.
pub const WINDOW: Nanos = SECOND / 4;
/// Bytes of a short transfer.
pub const PAGE: u64 = 300_000;
/// The mean time between two of them, and the least that all of them leave to others: a quarter of the equal share.
const PAGE_PAUSE: f64 = 2.0;
const PAGE_LOAD: f64 = 0.25;
/// How long a video plays, as in [Flach16 §5.1].
pub const VIDEO_SECONDS: u64 = 30;
/// Video that the player needs before it begins, and to continue after it ran out, in seconds.
const JOIN: (u64, u64) = (2, 5);
/// Links to the limit are this many times as fast, at least a gigabit.
const LINE: u64 = 10;
const GIGABIT: u64 = 1_000_000_000;
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
}

/// Packets that all simulations of an advice may carry: a few seconds of two cores.
const BUDGET: u64 = 9_000_000;
/// Seconds and seeds, from the most to the least that is simulated.
const STEPS: [(u64, u64); 6] = [(30, 8), (30, 4), (15, 4), (10, 4), (10, 2), (5, 2)];

impl Effort {
    /// As much as takes a few seconds for a number of candidates.
    pub fn for_seconds(situation: &Situation, candidates: usize) -> Self {
        let packets = situation.today.rate.bits_per_second() / 12_000 + 1;
        let simulations = (candidates * Workload::ALL.len()) as u64;
        let fits = |(seconds, seeds): &(u64, u64)| packets * simulations * seconds * seeds <= BUDGET;
        let (seconds, seeds) = STEPS.into_iter().find(fits).unwrap_or((5, 2));
        Self {
            seed: 1,
            seeds,
            duration: seconds * SECOND,
        }
    }
}

/// The scenario in which a remedy meets a workload.
pub fn scenario(situation: &Situation, remedy: &Remedy, workload: Workload, effort: Effort) -> String {
    let mut duration = effort.duration;
    if workload == Workload::Video {
        // Room for a start-up and for rebuffering as long as the video.
        duration = duration.max((2 * VIDEO_SECONDS + 5) * SECOND);
    }
    let line = situation.today.rate.bits_per_second().saturating_mul(LINE);
    let line = line.clamp(GIGABIT, 400_000_000_000);
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "title = \"{}, {}\"\nduration = \"{duration}ns\"\nwindow = \"{WINDOW}ns\"\nseed = {}\n\n\
         [[element]]\nname = \"line\"\nkind = \"link\"\nrate = \"{line}bit\"\nqueue = \"10000 packets\"\n\n\
         [[element]]\nname = \"limit\"\n{}\n\
         [[element]]\nname = \"last-mile\"\nkind = \"delay\"\ndelay = \"0ms\"\njitter = \"{JITTER}\"\n",
        remedy.words(),
        title(workload),
        effort.seed,
        remedy.setting.element(),
    );
    for (number, sender) in senders(situation, workload).iter().enumerate() {
        flow(&mut text, situation, remedy, (number, sender, workload));
    }
    let _ = write!(text, "\n[sweep]\nseeds = {}\n", effort.seeds);
    text
}

fn title(workload: Workload) -> &'static str {
    match workload {
        Workload::Downloads => "downloads",
        Workload::Video => "a video",
        Workload::Pages => "short transfers",
    }
}

/// The senders of a workload. The one of the video and of the short transfers comes last: its round trip is any of the
/// situation's, and its congestion control the first.
fn senders(situation: &Situation, workload: Workload) -> Vec<Sender> {
    let mut senders = situation.senders();
    if workload != Workload::Downloads
        && let Some(last) = senders.pop()
    {
        senders.push(Sender {
            control: situation.controls[0].clone(),
            rtt: situation.rtt,
            ..last
        });
    }
    senders
}

fn flow(text: &mut String, situation: &Situation, remedy: &Remedy, (number, sender, workload): (usize, &Sender, Workload)) {
    let last = number + 1 == situation.total();
    let (low, high) = sender.rtt;
    let rtt = match low == high {
        true => format!("{low}ns"),
        false => format!("{low}ns..{high}ns"),
    };
    let name = match (last, workload) {
        (true, Workload::Video) => "video".to_owned(),
        (true, Workload::Pages) => "page".to_owned(),
        _ => format!("download-{number}"),
    };
    let _ = write!(
        text,
        "\n[[flow]]\nname = \"{name}\"\ncc = \"{}\"\nrtt = \"{rtt}\"\nclient = \"10.128.{}.{}\"\n\
         path = [\"line\", \"limit\", \"last-mile\"]\n",
        sender.control,
        sender.user / 250,
        sender.user % 250 + 1,
    );
    if let Some(share) = remedy.pace {
        let pace = (share * situation.share_of(sender)).max(8_000.0) as u64;
        let _ = writeln!(text, "rate-limit = \"{pace}bit\"");
    }
    let _ = match (last, workload) {
        (true, Workload::Video) => write!(
            text,
            "start = \"2s..3s\"\ntraffic = {{ kind = \"stream\", rate = \"{}bit\", length = \"{VIDEO_SECONDS}s\", pace = \
             \"none\", join = \"{}s\", rejoin = \"{}s\" }}\n",
            situation.bitrate().bits_per_second(),
            JOIN.0,
            JOIN.1
        ),
        (true, Workload::Pages) => write!(
            text,
            "start = \"2s\"\narrivals = \"{}ns\"\ntraffic = {{ kind = \"bulk\", size = \"{PAGE}B\" }}\n",
            page_pause(situation)
        ),
        _ => writeln!(text, "start = \"0s..1s\""),
    };
}

/// The mean time between short transfers: two seconds, or longer where these would take more than a part of a share.
fn page_pause(situation: &Situation) -> Nanos {
    let load = PAGE as f64 * 8.0 / (PAGE_LOAD * situation.share_of_last());
    (PAGE_PAUSE.max(load) * 1e9) as Nanos
}
