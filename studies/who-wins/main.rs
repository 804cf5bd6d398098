//! Which congestion control gets most behind six kinds of bottleneck, over round trips and buffers.

mod picture;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_studies::experiment::{self, Report, simulate};

/// Bits per second, as in the scenario.
const RATE: u64 = 20_000_000;
const RTTS: [u64; 4] = [5, 20, 50, 100];
/// Buffers in hundredths of a bandwidth-delay product.
const BUFFERS: [u64; 3] = [25, 100, 400];
const SENDERS: [&str; 7] = ["reno", "cubic", "bbr", "bbr3", "vegas", "dctcp", "prague"];
const FULL: u64 = 1514;

/// A bottleneck's name, its kind, and the setting that has its buffer: of bytes, or of full packets.
struct Bottleneck {
    name: &'static str,
    kind: &'static str,
    buffer: fn(u64) -> String,
}

const BOTTLENECKS: [Bottleneck; 6] = [
    Bottleneck {
        name: "policer",
        kind: "policer",
        buffer: |bytes| format!("gate.burst={bytes}B"),
    },
    Bottleneck {
        name: "FairPolicer",
        kind: "fair-policer",
        buffer: |bytes| format!("gate.burst={bytes}B"),
    },
    Bottleneck {
        name: "PQP",
        kind: "pqp",
        buffer: |bytes| format!("gate.queue={bytes}B"),
    },
    Bottleneck {
        name: "BC-PQP",
        kind: "bc-pqp",
        buffer: |bytes| format!("gate.queue={bytes}B"),
    },
    Bottleneck {
        name: "CoDel",
        kind: "link",
        buffer: |bytes| aqm("codel", bytes),
    },
    Bottleneck {
        name: "DualPI2",
        kind: "link",
        buffer: |bytes| aqm("dualpi2", bytes),
    },
];

fn aqm(name: &str, bytes: u64) -> String {
    let packets = bytes.div_ceil(FULL);
    format!("gate.queue={{ kind = \"{name}\", packets = {packets} }}")
}

/// With a largest share below this, nobody wins: a seventh is 14.3 %.
const EVEN: f64 = 0.17;

/// What the senders got behind a bottleneck, as means over seeds.
#[derive(Default)]
struct Cell {
    /// Payload of each sender over that of all.
    shares: [f64; SENDERS.len()],
    /// Payload of all over the rate.
    used: f64,
}

impl Cell {
    /// The sender with the largest share, unless all are nearly even, and this share.
    fn winner(&self) -> (Option<usize>, f64) {
        let shares = self.shares.iter().copied().enumerate();
        let (winner, share) = shares.fold((0, 0.0), |best, one| match one.1 > best.1 {
            true => one,
            false => best,
        });
        ((share >= EVEN).then_some(winner), share)
    }
}

/// The cells of a bottleneck, by buffer and round trip.
type Grid = Vec<Vec<Cell>>;

fn main() -> ExitCode {
    experiment::main("who-wins", || {
        let found: Result<Vec<Grid>> = BOTTLENECKS.iter().map(grid).collect();
        let found = found?;
        Ok(Report {
            table: table(&found)?,
            pictures: vec![("winners.svg", picture::svg(&found)?)],
        })
    })
}

fn grid(bottleneck: &Bottleneck) -> Result<Grid> {
    let row = |&buffer: &u64| {
        RTTS.iter()
            .map(|&rtt| cell(bottleneck, rtt, buffer))
            .collect()
    };
    BUFFERS.iter().map(row).collect()
}

fn cell(bottleneck: &Bottleneck, rtt: u64, buffer: u64) -> Result<Cell> {
    let product = RATE / 8 * rtt / 1000;
    // No less than ten full packets, as the lab's automatic sizes.
    let bytes = (product * buffer / 100).max(10 * FULL);
    let settings = [
        format!("gate.kind=\"{}\"", bottleneck.kind),
        (bottleneck.buffer)(bytes),
        format!("contest.rtt=\"{rtt}ms\""),
    ];
    let scenario = include_str!("contest.toml");
    let (mut cell, mut runs) = (Cell::default(), 0.0);
    simulate("contest.toml", scenario, &settings, None, |_, finished| {
        let flows = &finished.outcome.flows;
        let all: u64 = flows.iter().map(|flow| flow.delivered).sum();
        for (share, flow) in cell.shares.iter_mut().zip(flows) {
            *share += flow.delivered as f64 / all.max(1) as f64;
        }
        let seconds = finished.group.plan.duration as f64 / 1e9;
        cell.used += all as f64 * 8.0 / RATE as f64 / seconds;
        runs += 1.0;
        Ok(())
    })?;
    for value in cell.shares.iter_mut().chain([&mut cell.used]) {
        *value /= runs;
    }
    Ok(cell)
}

fn table(found: &[Grid]) -> Result<String> {
    let mut text = String::new();
    write!(text, "{:<13}{:>8}{:>9}", "bottleneck", "buffer", "RTT")?;
    for sender in SENDERS {
        write!(text, "{sender:>8}")?;
    }
    writeln!(text, "{:>8}  winner", "used")?;
    for (bottleneck, grid) in BOTTLENECKS.iter().zip(found) {
        for (buffer, row) in BUFFERS.iter().zip(grid) {
            for (rtt, cell) in RTTS.iter().zip(row) {
                let size = *buffer as f64 / 100.0;
                write!(text, "{:<13}{size:>8.2}{rtt:>6} ms", bottleneck.name)?;
                for share in cell.shares {
                    write!(text, "{:>7.1}%", share * 100.0)?;
                }
                let winner = cell.winner().0.map_or("even", |winner| SENDERS[winner]);
                writeln!(text, "{:>7.1}%  {winner}", cell.used * 100.0)?;
            }
        }
    }
    Ok(text)
}
