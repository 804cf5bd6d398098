//! The cells of the study: plan, policy, flows, round trip, congestion control and traffic.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use tidegate_limiter::{Rate, sizing};

/// One set of circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The plan's rate in kbit/s.
    pub rate: u64,
    /// How the rate is shared.
    pub policy: Policy,
    /// How many senders.
    pub flows: u64,
    /// Their round trip in milliseconds.
    pub rtt: u64,
    /// Their congestion control; `mixed` is all of them in turn.
    pub control: &'static str,
    /// Whether every other sender pauses between short transfers.
    pub pauses: bool,
    /// Whether the others, instead of bulk, send UDP at twice the plan's rate, which never waits.
    pub udp: bool,
}

/// How the rate is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Evenly.
    Fair,
    /// By weights 1, 2 and 4 in turn.
    Weighted,
    /// Half of the senders come first.
    Priority,
    /// Weights, a priority below one of them.
    Nested,
}

impl Policy {
    const ALL: [Self; 4] = [Self::Fair, Self::Weighted, Self::Priority, Self::Nested];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Weighted => "weighted",
            Self::Priority => "priority",
            Self::Nested => "nested",
        }
    }

    /// The policy, and the classes that senders take in turn.
    fn notation(self) -> (&'static str, &'static [u8]) {
        match self {
            Self::Fair => ("{ fair = 32 }", &[0]),
            Self::Weighted => (
                "{ weighted = [[1, { fair = 32 }], [2, { fair = 32 }], [4, { fair = 32 }]] }",
                &[0, 1, 2],
            ),
            Self::Priority => ("{ priority = [{ fair = 32 }, { fair = 32 }] }", &[0, 1]),
            Self::Nested => (
                "{ weighted = [[2, { priority = [{ fair = 32 }, { fair = 32 }] }], [1, { fair = 32 }]] }",
                &[0, 1, 2],
            ),
        }
    }
}

const RATES: [u64; 7] = [1_000, 4_000, 20_000, 60_000, 100_000, 300_000, 1_000_000];
const FLOWS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Round trips in milliseconds.
pub const RTTS: [u64; 10] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 300];
const CONTROLS: [&str; 5] = ["cubic", "reno", "bbr", "vegas", "mixed"];

/// Round trips that queues are at least made for, in milliseconds.
const SERVED: u64 = 100;

/// The cells of the whole grid, each `step`th one, of plans in this range in kbit/s.
pub fn sample(step: usize, rates: RangeInclusive<u64>) -> Vec<Cell> {
    let mut all = Vec::new();
    for rate in RATES.into_iter().filter(|rate| rates.contains(rate)) {
        for policy in Policy::ALL {
            for flows in FLOWS {
                for rtt in RTTS {
                    for control in CONTROLS {
                        for pauses in [false, true] {
                            // What one sender does not show.
                            if flows == 1
                                && (pauses || policy != Policy::Fair || control == "mixed")
                            {
                                continue;
                            }
                            all.push(Cell {
                                rate,
                                policy,
                                flows,
                                rtt,
                                control,
                                pauses,
                                udp: false,
                            });
                        }
                    }
                }
            }
        }
    }
    all.into_iter().step_by(step).collect()
}

impl Cell {
    /// The point of the sweep for a scheme: phantom queues of the size that is right for it.
    fn gate(self, kind: &str) -> String {
        let rate = Rate::from_bits_per_second(self.rate * 1000);
        let path = sizing::Path {
            rtt: self.rtt.max(SERVED) * 1_000_000,
            mss: 1500,
        };
        let queue = match kind {
            "pqp" => sizing::correct_rate(rate, path),
            _ => sizing::phantom_queue(rate, path),
        };
        format!("{{ kind = \"{kind}\", queue = \"{queue}B\" }}")
    }

    /// Its scenario: every scheme of `kinds` as a point of a sweep.
    pub fn scenario(self, seconds: u64, kinds: &[&str]) -> String {
        let Self { rate, rtt, .. } = self;
        let (policy, classes) = self.policy.notation();
        // A list may not be longer than there are senders.
        let classes = &classes[..classes.len().min(self.flows as usize)];
        let controls = match self.control {
            "mixed" => &CONTROLS[..4.min(self.flows as usize)],
            _ => &[self.control][..],
        };
        let access = if rate >= 300_000 { "10gbit" } else { "1gbit" };
        let mut text = format!(
            "duration = \"{seconds}s\"\nwindow = \"250ms\"\n\
             [[element]]\nname = \"access\"\nkind = \"link\"\nrate = \"{access}\"\nqueue = \"64MB\"\n\
             [[element]]\nname = \"gate\"\nkind = \"pqp\"\nrate = \"{rate}kbit\"\npolicy = {policy}\n\
             [sweep]\ngate = [{}]\n",
            kinds
                .iter()
                .map(|kind| self.gate(kind))
                .collect::<Vec<_>>()
                .join(", "),
        );
        let bulk = match self.udp {
            true => format!("{{ kind = \"udp\", rate = \"{}kbit\" }}", 2 * rate),
            false => "\"bulk\"".to_owned(),
        };
        let traffic = match self.pauses {
            // 1 s of the rate, on average, after pauses of 1 s.
            true => format!(
                "[{{ kind = \"on-off\", mean = \"{}B\", pause = \"1s\" }}, {bulk}]",
                rate * 125
            ),
            false => bulk,
        };
        // By priority, the first of two senders comes first, and pauses if any does.
        let _ = write!(
            text,
            "[[flow]]\nname = \"f\"\ncount = {}\nrtt = \"{rtt}ms\"\nstart = \"0ms..20ms\"\ncc = {controls:?}\n\
             class = {classes:?}\ntraffic = {traffic}\nqueue = \"own\"\nreceive-window = \"64MiB\"\n\
             path = [\"access\", \"gate\"]\n",
            self.flows,
        );
        text
    }
}
