//! The experiment of \[BCPQP §6.1\], which gives its figures 4 and 6a.

use std::time::Instant;

use anyhow::{Context, Result};
use tidegate_lab::experiment::Finished;
use tidegate_limiter::{Rate, sizing};

use crate::experiment::simulate;

/// The rates in kbit/s that are enforced.
pub const RATES: [u64; 5] = [1_500, 7_500, 25_000, 50_000, 100_000];
/// "RTT 2 to 50 ms": for the longest everything is sized.
const LONGEST_RTT: u64 = 50_000_000;
/// Bytes of a full packet.
const PACKET: u32 = 1500;
const SCENARIO: &str = include_str!("scenario.toml");

/// How an aggregate is held to its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Real queues of a BDP each.
    Shaper,
    /// A token bucket of a BDP.
    Policer,
    /// A token bucket of what Reno or CUBIC need.
    PolicerPlus,
    /// FairPolicer of what Reno or CUBIC need.
    FairPolicer,
    /// Phantom queues of what Reno or CUBIC need each.
    Pqp,
    /// With burst control as in the paper, and ten times that size.
    BcPqp,
    /// The same with T of 200 ms, as published code has it.
    BcPqp200,
    /// With a burst bucket beside each queue, as `bc-pqp` has it.
    BcPqpBucket,
    /// `PolicerPlus` as the script that goes with the paper sizes it.
    PolicerPlusScript,
    /// `FairPolicer` as that script sizes it.
    FairPolicerScript,
}

impl Scheme {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shaper => "Shaper",
            Self::Policer => "Policer",
            Self::PolicerPlus => "Policer+",
            Self::FairPolicer => "FairPolicer",
            Self::Pqp => "PQP",
            Self::BcPqp => "BC-PQP",
            Self::BcPqp200 => "BC-PQP, T 200 ms",
            Self::BcPqpBucket => "BC-PQP, bucket",
            Self::PolicerPlusScript => "Policer+ script",
            Self::FairPolicerScript => "FairPolicer script",
        }
    }

    /// Of its bucket or of each of its queues.
    pub fn size(self, rate: Rate) -> u64 {
        match self {
            Self::Shaper | Self::Policer => sizing::bdp(rate, LONGEST_RTT),
            Self::PolicerPlus | Self::FairPolicer | Self::Pqp => sizing::correct_rate(
                rate,
                sizing::Path {
                    rtt: LONGEST_RTT,
                    mss: PACKET,
                },
            ),
            Self::BcPqp | Self::BcPqp200 | Self::BcPqpBucket => sizing::phantom_queue(
                rate,
                sizing::Path {
                    rtt: LONGEST_RTT,
                    mss: PACKET,
                },
            ),
            Self::PolicerPlusScript | Self::FairPolicerScript => script_size(rate),
        }
    }

    /// What sets an element `gate` to it.
    pub fn settings(self, rate: Rate) -> Vec<String> {
        let (kind, key) = match self {
            Self::Shaper => ("shaper", "queue"),
            Self::Policer | Self::PolicerPlus | Self::PolicerPlusScript => ("policer", "burst"),
            Self::FairPolicer | Self::FairPolicerScript => ("fair-policer", "burst"),
            Self::Pqp => ("pqp", "queue"),
            Self::BcPqp | Self::BcPqp200 => ("bc-pqp-paper", "queue"),
            Self::BcPqpBucket => ("bc-pqp", "queue"),
        };
        let size = self.size(rate);
        let mut settings = vec![format!("gate.kind={kind}"), format!("gate.{key}={size}B")];
        if self == Self::BcPqp200 {
            settings.push("gate.period=200ms".to_owned());
        }
        settings
    }
}

/// What the published script (`testbed/scripts/parameters.py`) takes for "what Reno or CUBIC
/// need": its CUBIC is 0.072 / RTT · BDP^(4/3), with the BDP in bytes where the formula is of packets.
/// That is (0.072 / 0.0357) · 1500^(1/3) = 23.087 times ours, and exceeds Reno's at all rates here.
fn script_size(rate: Rate) -> u64 {
    let cubic = sizing::cubic(
        rate,
        sizing::Path {
            rtt: LONGEST_RTT,
            mss: PACKET,
        },
    ) * 23_087
        / 1000;
    sizing::reno(
        rate,
        sizing::Path {
            rtt: LONGEST_RTT,
            mss: PACKET,
        },
    )
    .max(cubic)
}

/// Bytes of the mean short transfer: what the rate carries in 0.3 s.
fn short_transfer(rate: Rate) -> u64 {
    rate.bits_per_second() * 3 / 80
}

/// Runs the experiment for a scheme at a rate in kbit/s. `settings` as those of
/// `tidegate lab run --set`.
///
/// # Errors
/// If a simulation or `each` fails.
pub fn run(
    scheme: Scheme,
    rate: u64,
    settings: &[String],
    each: &mut dyn FnMut(Finished) -> Result<()>,
) -> Result<()> {
    let rate: Rate = format!("{rate}kbit").parse()?;
    let mut all = vec![format!("gate.rate={}bit", rate.bits_per_second())];
    all.extend(scheme.settings(rate));
    for name in ["short-alike", "short-mixed"] {
        all.push(format!("{name}.traffic.mean={}B", short_transfer(rate)));
    }
    all.extend_from_slice(settings);
    simulate(
        "bcpqp-figure4/scenario.toml",
        SCENARIO,
        &all,
        None,
        |_, finished| each(finished),
    )
    .with_context(|| scheme.name())
}

/// Tells on standard error how fast the simulations are.
#[derive(Debug)]
pub struct Speed {
    began: Instant,
    packets: u64,
    seconds: f64,
}

impl Default for Speed {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            packets: 0,
            seconds: 0.0,
        }
    }
}

impl Speed {
    /// Counts an aggregate, one of a hundred.
    pub fn count(&mut self, finished: &Finished) {
        self.packets += finished.outcome.packets;
        self.seconds += finished.group.plan.duration as f64 / 1e11;
    }

    /// Prints the speed to standard error.
    pub fn report(&self, what: &str) {
        let wall = self.began.elapsed().as_secs_f64();
        eprintln!(
            "{what}: {:.0} s of 100 aggregates in {wall:.1} s, {:.1} times real time; {:.2} M \
             packets, {:.2} M packets/s",
            self.seconds,
            self.seconds / wall,
            self.packets as f64 / 1e6,
            self.packets as f64 / wall / 1e6
        );
    }
}
