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
    /// Their congestion controls, in turn.
    pub controls: &'static [&'static str],
    /// Whether every other sender pauses between short transfers.
    pub pauses: bool,
    /// Whether the others, instead of bulk, send UDP at twice the plan's rate, which never waits.
    pub udp: bool,
    /// The access link's rate in Mbit/s.
    pub access: u64,
    /// The receivers' window in bytes.
    pub window: u64,
}

/// A window that limits no sender.
pub const WIDE: u64 = 64 << 20;

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

    /// The policy, with a [`LEAF`] for each class, and the classes that senders take in turn.
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

/// The names of the columns of [`Cell::line`].
pub const CELL: &str = "   kbit/s policy    flows RTT, ms cc     traffic ";

const RATES: [u64; 7] = [1_000, 4_000, 20_000, 60_000, 100_000, 300_000, 1_000_000];
const FLOWS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Round trips in milliseconds.
pub const RTTS: [u64; 10] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 300];
const CONTROLS: [&[&str]; 5] = [
    &["cubic"],
    &["reno"],
    &["bbr"],
    &["vegas"],
    &["cubic", "reno", "bbr", "vegas"],
];
/// The flows of a class: fairly, each in a queue of its own.
const LEAF: &str = "{ fair = 32 }";

/// Round trips that queues are at least made for, in milliseconds.
const SERVED: u64 = 100;

/// The cells of the whole grid, each `step`th one, of plans in this range in kbit/s.
pub fn sample(step: usize, rates: RangeInclusive<u64>) -> Vec<Cell> {
    let mut all = Vec::new();
    for rate in RATES.into_iter().filter(|rate| rates.contains(rate)) {
        for policy in Policy::ALL {
            for flows in FLOWS {
                for rtt in RTTS {
                    for controls in CONTROLS {
                        for pauses in [false, true] {
                            // What one sender does not show.
                            if flows == 1
                                && (pauses || policy != Policy::Fair || controls.len() > 1)
                            {
                                continue;
                            }
                            all.push(Cell {
                                rate,
                                policy,
                                flows,
                                rtt,
                                controls,
                                pauses,
                                udp: false,
                                access: if rate >= 300_000 { 10_000 } else { 1_000 },
                                window: WIDE,
                            });
                        }
                    }
                }
            }
        }
    }
    all.into_iter().step_by(step).collect()
}

/// Backlogged senders alike that share evenly: 225 cells.
pub fn alike() -> Vec<Cell> {
    let mut all = Vec::new();
    for rate in [1_500, 4_000, 20_000, 60_000, 100_000] {
        for rtt in [1, 2, 7, 20, 100] {
            for flows in [1, 3, 8] {
                for controls in &CONTROLS[..3] {
                    all.push(Cell {
                        rate,
                        policy: Policy::Fair,
                        flows,
                        rtt,
                        controls,
                        pauses: false,
                        udp: false,
                        access: 1_000,
                        window: WIDE,
                    });
                }
            }
        }
    }
    all
}

impl Cell {
    /// The name of its congestion controls in tables.
    pub fn control(self) -> &'static str {
        match self.controls {
            [one] => one,
            _ => "mixed",
        }
    }

    /// What it is, as the beginning of a table's line.
    pub fn line(self) -> String {
        let traffic = match (self.pauses, self.window) {
            (true, _) => "on-off",
            (false, WIDE) => "bulk",
            _ => "64 kB",
        };
        format!(
            "{:>9} {:<9}{:>6}{:>8} {:<6} {traffic:<8}",
            self.rate,
            self.policy.name(),
            self.flows,
            self.rtt,
            self.control(),
        )
    }

    /// The bytes that wait before the access link at most: what it sends in 0.5 s, but no more than of 1 Gbit/s.
    pub fn access_queue(self) -> u64 {
        self.access.min(1_000) * 64_000
    }

    /// The size of phantom queues that is right for a scheme, in bytes.
    fn queue(self, kind: &str) -> u64 {
        let rate = Rate::from_bits_per_second(self.rate * 1000);
        let path = sizing::Path {
            rtt: self.rtt.max(SERVED) * 1_000_000,
            mss: 1500,
        };
        match kind {
            "pqp" => sizing::correct_rate(rate, path),
            _ => sizing::phantom_queue(rate, path),
        }
    }

    /// The point of the sweep for a scheme.
    fn gate(self, kind: &str) -> String {
        let queue = self.queue(kind);
        format!("{{ kind = \"{kind}\", queue = \"{queue}B\" }}")
    }

    /// The class of a sender, by its number.
    fn class(self, sender: u64) -> u8 {
        let classes = self.classes();
        classes[sender as usize % classes.len()]
    }

    /// A list may not be longer than there are senders.
    fn classes(self) -> &'static [u8] {
        let classes = self.policy.notation().1;
        &classes[..classes.len().min(self.flows as usize)]
    }

    /// The gate's file for a scheme. `hosts` are the last bytes of the senders' clients in 192.0.2.0/24: rules give each
    /// a queue of its own.
    pub fn gate_file(self, kind: &str, hosts: &[u8]) -> String {
        let (mut policy, mut rules, mut next) =
            (self.policy.notation().0.to_owned(), String::new(), 0);
        for class in 0..policy.matches(LEAF).count() as u8 {
            let first = next;
            for (sender, host) in (0..).zip(hosts) {
                if self.class(sender) == class {
                    let _ = write!(
                        rules,
                        "[[plan.it.rule]]\nclass = {next}\nlocal = \"192.0.2.{host}\"\n"
                    );
                    next += 1;
                }
            }
            let leaf = match next - first {
                0 | 1 => "\"queue\"".to_owned(),
                queues => format!(
                    "{{ weighted = [{}] }}",
                    vec!["[1, \"queue\"]"; queues].join(", ")
                ),
            };
            next = next.max(first + 1);
            policy = policy.replacen(LEAF, &leaf, 1);
        }
        format!(
            "interface = [{{ name = \"wan\", side = \"core\" }}]\n\
             subscriber = [{{ name = \"it\", plan = \"it\", addresses = \"192.0.2.0/24\" }}]\n\
             [plan.it]\ndown = \"{}kbit\"\nscheme = \"{kind}\"\nqueue = \"{}B\"\npolicy = {policy}\n{rules}",
            self.rate,
            self.queue(kind),
        )
    }

    /// Its scenario: every scheme of `kinds` as a point of a sweep.
    pub fn scenario(self, seconds: u64, kinds: &[&str]) -> String {
        let Self { rate, rtt, .. } = self;
        let (policy, classes) = (self.policy.notation().0, self.classes());
        let controls = &self.controls[..self.controls.len().min(self.flows as usize)];
        let mut text = format!(
            "duration = \"{seconds}s\"\nwindow = \"250ms\"\n\
             [[element]]\nname = \"access\"\nkind = \"link\"\nrate = \"{}mbit\"\nqueue = \"{}B\"\n\
             [[element]]\nname = \"gate\"\nkind = \"pqp\"\nrate = \"{rate}kbit\"\npolicy = {policy}\n\
             [sweep]\ngate = [{}]\n",
            self.access,
            self.access_queue(),
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
             class = {classes:?}\ntraffic = {traffic}\nqueue = \"own\"\nreceive-window = \"{}B\"\n\
             path = [\"access\", \"gate\"]\n",
            self.flows, self.window,
        );
        text
    }
}
