//! What could be set instead, and why: sizes from the formulas of the papers.

use tidegate_lab::{MILLISECOND, SECOND};
use tidegate_limiter::{Bytes, Nanos, sizing};

use crate::setting::{FULL, Kind, Setting};
use crate::situation::Situation;

/// A server that limits its rate to this share of a policer's had no losses [Flach16 §5.2.1].
pub const BELOW: f64 = 0.95;
/// A bucket within this factor of today's is not worth a change.
const ALIKE: f64 = 1.25;
/// A full IP packet, which the formulas count in.
const PACKET: u32 = 1500;
/// Of the kernel's gate: four super-packets, and a terabyte (`docs/reference/gate-configuration.md`, `queue`).
const GATE: (u64, u64) = (4 * 65_536, 1 << 40);
/// The smallest phantom queue limits nothing that is seen where it holds what passes in a longer time.
const LONGEST: Nanos = 30 * SECOND;
/// The smallest queue: ten full packets, as the lab's automatic sizes.
const LEAST: u64 = 10 * FULL;

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// The depth of the bucket.
    Bucket,
    /// The policer becomes a shaper, or its queue another.
    Shape,
    /// The limit moves to Tidegate's gate.
    BcPqp,
    /// Senders pace; the limit stays.
    Pace,
}

impl Change {
    /// Its name for programs; names are stable.
    pub fn key(self) -> &'static str {
        match self {
            Self::None => "today",
            Self::Bucket => "bucket",
            Self::Shape => "shape",
            Self::BcPqp => "bc-pqp",
            Self::Pace => "pace",
        }
    }

    /// Whether the operator of the limit can do it alone.
    pub fn is_for_operator(self) -> bool {
        self != Self::Pace
    }
}

/// A candidate: a limit, and how senders behave.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy {
    /// What is changed.
    pub change: Change,
    /// The limit.
    pub setting: Setting,
    /// The part of its equal share that each sender keeps, on the wire.
    pub pace: Option<f64>,
    /// Why it should help, with the source.
    pub why: String,
}

impl Remedy {
    /// The limit as it is.
    pub fn today(situation: &Situation) -> Self {
        Self {
            change: Change::None,
            setting: situation.today,
            pace: None,
            why: String::new(),
        }
    }

    /// What it is in a few words.
    pub fn words(&self) -> String {
        match self.change {
            Change::None => format!("today: {}", self.setting.words()),
            Change::Bucket | Change::Shape | Change::BcPqp => self.setting.words(),
            Change::Pace => "today's limit, senders pace".to_owned(),
        }
    }
}

/// All candidates, and sentences about those that were left out.
pub fn candidates(situation: &Situation) -> (Vec<Remedy>, Vec<String>) {
    let mut left_out = Vec::new();
    let mut found = buckets(situation, &mut left_out);
    found.extend(shaper(situation));
    let phantom = bc_pqp(situation);
    let fills_in = phantom.setting.fills_in();
    match phantom.setting.bucket().get() > GATE.0 || fills_in <= LONGEST {
        true => found.push(phantom),
        false => left_out.push(format!(
            "BC-PQP is not simulated: the smallest phantom queue of the gate, {}, holds what passes in {:.0} s at this rate.",
            Bytes::new(GATE.0),
            fills_in as f64 / 1e9
        )),
    }
    found.push(pacing(situation));
    (found, left_out)
}

fn with(situation: &Situation, kind: Kind) -> Setting {
    Setting {
        kind,
        ..situation.today
    }
}

fn path(rtt: Nanos) -> sizing::Path {
    sizing::Path { rtt, mss: PACKET }
}

fn alike(one: u64, other: u64) -> bool {
    let ratio = one as f64 / other.max(1) as f64;
    (1.0 / ALIKE..=ALIKE).contains(&ratio)
}

/// Buckets by both formulas, for limits that are policers and stay policers.
fn buckets(situation: &Situation, left_out: &mut Vec<String>) -> Vec<Remedy> {
    let Kind::Policer { burst: today } = situation.today.kind else {
        return Vec::new();
    };
    let (rate, rtt) = (situation.today.rate, situation.rtt.1);
    let short = sizing::policer_burst(rate, rtt);
    let full = sizing::correct_rate(rate, path(rtt));
    let second = rate.bits_per_second() / 8;
    let mut found = Vec::new();
    let mut add = |burst: u64, why: String| {
        found.push(Remedy {
            change: Change::Bucket,
            setting: with(situation, Kind::Policer { burst }),
            pace: None,
            why,
        });
    };
    if alike(short, today) {
        left_out.push(format!(
            "Today's bucket is about the bandwidth-delay product ({}), which is the size advised for video.",
            Bytes::new(short)
        ));
    } else {
        add(
            short,
            "The bucket is the bandwidth-delay product at the longest round trip, at least 32 kB: large enough for the \
             bursts of a window, too small for a long burst whose end is lost [Flach16 §5.1.1, table 5]. That it grows \
             with the product is our advice."
                .to_owned(),
        );
    }
    if full > second {
        left_out.push(format!(
            "A bucket with which a single Reno or CUBIC flow reaches the rate would hold {}, more than a second of the \
             rate [BCPQP §3.5]. It is not simulated: it would pass as one burst.",
            Bytes::new(full)
        ));
    } else if !alike(full, today) && full as f64 > ALIKE * short as f64 {
        add(
            full,
            "A single backlogged Reno or CUBIC flow reaches the rate with such a bucket: BDP²/18 packets for Reno, \
             (G/RTT)·BDP^(4/3) for CUBIC, whichever is more [BCPQP §3.5]. Its bursts are long."
                .to_owned(),
        );
    }
    found
}

fn shaper(situation: &Situation) -> Option<Remedy> {
    let (rate, rtt) = (situation.today.rate, situation.rtt.1);
    let queue = sizing::bdp(rate, rtt).max(LEAST);
    if let Kind::Shaper { queue: today, .. } = situation.today.kind
        && alike(queue, today)
    {
        return None;
    }
    Some(Remedy {
        change: Change::Shape,
        setting: with(situation, Kind::Shaper { queue, burst: FULL }),
        pace: None,
        why: "A shaper delays where a policer drops [Flach16 §5.1.2, table 6]. One queue holds the bandwidth-delay product \
              at the longest round trip; it takes memory and adds delay."
            .to_owned(),
    })
}

fn bc_pqp(situation: &Situation) -> Remedy {
    // As the gate's file has it, in whole milliseconds.
    let rtt = situation.rtt.1.div_ceil(MILLISECOND) * MILLISECOND;
    let queue = sizing::phantom_queue(situation.today.rate, path(rtt)).clamp(GATE.0, GATE.1);
    let hosts = u16::try_from(situation.users).unwrap_or(u16::MAX);
    let whom = match hosts {
        1 => "flows",
        _ => "users",
    };
    Remedy {
        change: Change::BcPqp,
        setting: with(situation, Kind::BcPqp { queue, rtt, hosts }),
        pace: None,
        why: format!(
            "Phantom queues share the rate evenly among {whom} and keep no packets, so they add no delay; burst control \
             bounds bursts [BCPQP §4]. `tidegate gate` enforces it with the file below."
        ),
    }
}

fn pacing(situation: &Situation) -> Remedy {
    Remedy {
        change: Change::Pace,
        setting: situation.today,
        pace: Some(BELOW),
        why: "Each sender keeps 95 % of its equal share, evenly spaced, so next to nothing is lost [Flach16 §5.2.1]; \
              `tidegate serve` paces so [Trickle]. Senders must know the limit and how many share it."
            .to_owned(),
    }
}
