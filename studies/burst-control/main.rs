//! Burst control that costs no rate, beside the paper's: mean rates, bursts, sharing and drops over
//! plans, policies, senders and round trips.

mod cells;
mod gated;
mod kernel;
mod measure;
mod transfer;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tidegate_plot::{Axis, Bars};
use tidegate_studies::experiment::{self, Report};

use cells::{CELL, Cell, Policy, RTTS};
use kernel::Beside;
use measure::{Measures, alone, measure, streams};

const NAME: &str = "burst-control";
/// PQP is what the others are compared with.
const KINDS: [&str; 3] = ["pqp", "bc-pqp-paper", "bc-pqp"];
/// Seconds of a simulation.
const SECONDS: u64 = 80;

/// What the schemes did in a cell.
struct Found {
    cell: Cell,
    by_kind: Vec<Measures>,
}

impl Found {
    /// The mean rate over PQP's, or over the plan where PQP exceeds it.
    fn mean(&self, kind: usize) -> f64 {
        self.by_kind[kind].mean / self.by_kind[0].mean.min(1.0)
    }
}

/// Options.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    lab: experiment::Options,
    /// Run 30 cells with the kernel's TCP over the gate, in real time, as root (half an hour)
    #[arg(long, conflicts_with_all = ["check", "full"])]
    kernel: bool,
    /// Run 225 cells of backlogged senders alike that share evenly, and only print the table (3 minutes)
    #[arg(long, conflicts_with_all = ["check", "update", "full", "kernel"])]
    alike: bool,
    /// With --kernel: only cells whose line in the table contains this
    #[arg(long, value_name = "TEXT", default_value = "", requires = "kernel")]
    only: String,
    /// With --kernel: the program that has the gate [default: beside this one]
    #[arg(long, value_name = "FILE", requires = "kernel")]
    tidegate: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.kernel {
        return experiment::exit(NAME, in_kernel(&args));
    }
    if args.alike {
        return experiment::exit(NAME, senders_alike());
    }
    experiment::main_with(NAME, &args.lab, |full| {
        let cells = match full {
            true => cells::sample(23, 0..=1_000_000),
            // Fast plans take most of the time.
            false => [
                cells::sample(79, 0..=100_000),
                cells::sample(1361, 300_000..=300_000),
            ]
            .concat(),
        };
        let found = simulate(cells)?;
        Ok(Report {
            table: table(&found)?,
            pictures: vec![("matrix.svg", picture(&found)?)],
        })
    })
}

/// What all schemes do in these cells.
fn simulate(cells: Vec<Cell>) -> Result<Vec<Found>> {
    let found = cells.into_iter().map(|cell| {
        let by_kind = measure(cell, SECONDS, &KINDS)?;
        Ok(Found { cell, by_kind })
    });
    found.collect()
}

fn senders_alike() -> Result<()> {
    let found = simulate(cells::alike())?;
    let mut text = String::new();
    heading(&mut text)?;
    let all: Vec<&Found> = found.iter().collect();
    for (kind, scheme) in KINDS.iter().enumerate() {
        line(&mut text, ("senders alike", scheme), kind, &all)?;
    }
    text.push('\n');
    missed(&mut text, &found)?;
    print!("{text}");
    Ok(())
}

fn in_kernel(args: &Args) -> Result<()> {
    let beside = std::env::current_exe()?.with_file_name("tidegate");
    let tidegate = args.tidegate.as_deref().unwrap_or(&beside);
    let found = kernel::run(tidegate, &args.only)?;
    let table = kernel_table(&found)?;
    print!("{table}");
    if args.lab.update {
        std::fs::write(experiment::folder(NAME).join("measured-kernel.txt"), table)?;
    }
    Ok(())
}

/// A name, and what it came to.
type Side = (&'static str, fn(&Beside) -> &Found);

/// Groups of cells with the kernel's TCP and in the lab, each cell, and the bars that are missed.
fn kernel_table(found: &[Beside]) -> Result<String> {
    let mut text = String::new();
    heading(&mut text)?;
    let sides: [Side; 2] = [("kernel", |one| &one.kernel), ("lab", |one| &one.lab)];
    for (name, of) in sides {
        let of: Vec<&Found> = found.iter().map(of).collect();
        for (kind, scheme) in KINDS.iter().enumerate() {
            line(&mut text, (name, scheme), kind, &of)?;
        }
        let above = |one: &&&Found| one.by_kind[2].drops > one.by_kind[1].drops;
        let above = of.iter().filter(above).count();
        writeln!(
            text,
            "{name}: bc-pqp drops more than bc-pqp-paper in {above} cells"
        )?;
    }
    let late = found.iter().map(|one| one.late).max().unwrap_or(0);
    let strays: u64 = found.iter().map(|one| one.strays).sum();
    writeln!(
        text,
        "links up to {:.2} ms late at the 99th percentile of the worst, {strays} packets lost beside the gates\n\n\
         {:56}{:<14}{:>7}{:>7}{:>7}{:>7}{:>7}{:>8}   lab:{:>6}{:>7}{:>7}{:>7}{:>7}{:>8}",
        late as f64 / 1e6,
        CELL,
        "scheme",
        "mean",
        "/ PQP",
        "p99",
        "first",
        "Jain",
        "drops",
        "mean",
        "/ PQP",
        "p99",
        "first",
        "Jain",
        "drops"
    )?;
    for one in found {
        for (kind, scheme) in KINDS.iter().enumerate() {
            let measures = sides.map(|(_, of)| {
                let (found, of) = (of(one), of(one).by_kind[kind]);
                format!(
                    "{:>7.3}{:>7.3}{:>7.2}{:>7.2}{:>7}{:>7.2}%",
                    of.mean,
                    found.mean(kind),
                    of.p99,
                    of.first,
                    of.jain_text(),
                    of.drops * 100.0
                )
            });
            writeln!(
                text,
                "{:56}{scheme:<14}{}      {}",
                one.kernel.cell.line(),
                measures[0],
                measures[1]
            )?;
        }
    }
    for (name, of) in sides {
        writeln!(text, "\n{name}:")?;
        missed(&mut text, found.iter().map(of))?;
    }
    Ok(text)
}

/// A name, and which cells it is for.
type Kind = (&'static str, fn(&Cell) -> bool);

/// Kinds of cells, which differ in what can be expected.
const GROUPS: [Kind; 4] = [
    ("backlogged, RTT up to 50 ms", |cell| {
        !cell.pauses && cell.rtt <= 50
    }),
    ("backlogged, RTT from 100 ms", |cell| {
        !cell.pauses && cell.rtt > 50
    }),
    ("half on and off, no priority", |cell| {
        cell.pauses && !by_priority(cell)
    }),
    ("half on and off, by priority", |cell| {
        cell.pauses && by_priority(cell)
    }),
];

fn by_priority(cell: &Cell) -> bool {
    matches!(cell.policy, Policy::Priority | Policy::Nested)
}

fn table(found: &[Found]) -> Result<String> {
    let mut text = String::new();
    heading(&mut text)?;
    let all: Kind = ("all", |_| true);
    for (name, belongs) in std::iter::once(all).chain(GROUPS) {
        let of: Vec<&Found> = found.iter().filter(|one| belongs(&one.cell)).collect();
        for (kind, scheme) in KINDS.iter().enumerate() {
            line(&mut text, (name, scheme), kind, &of)?;
        }
    }
    writeln!(
        text,
        "\nseed 003's streams: Mbit/s of 20\n{:<14}{:>8}{:>8}",
        "", "reno", "cubic"
    )?;
    for kind in KINDS {
        let rates = streams(kind)?;
        writeln!(text, "{kind:<14}{:>8.2}{:>8.2}", rates[0], rates[1])?;
    }
    figure_6d(&mut text)?;
    behind_pauses(&mut text, found)?;
    text.push('\n');
    missed(&mut text, found)?;
    Ok(text)
}

/// Cells in which `bc-pqp` misses a bar.
fn missed<'a>(text: &mut String, found: impl IntoIterator<Item = &'a Found>) -> Result<()> {
    writeln!(
        text,
        "cells where bc-pqp misses a bar: mean 98 %, p99 1.5 (1.8 below 4 packets a round trip), first 1.8, Jain 0.985\n\
         {CELL}{:>7}{:>7}{:>7}{:>7}   PQP:{:>6}{:>7}{:>7}  why",
        "mean", "p99", "first", "Jain", "p99", "first", "Jain"
    )?;
    for one in found.into_iter().filter(|one| misses(one)) {
        let (cell, ours, pqp) = (one.cell, one.by_kind[2], one.by_kind[0]);
        writeln!(
            text,
            "{}{:>7.3}{:>7.2}{:>7.2}{:>7}   {:>10.2}{:>7.2}{:>7}  {}",
            cell.line(),
            one.mean(2),
            ours.p99,
            ours.first,
            ours.jain_text(),
            pqp.p99,
            pqp.first,
            pqp.jain_text(),
            reason(one),
        )?;
    }
    Ok(())
}

/// The names of the columns of [`line()`].
fn heading(text: &mut String) -> Result<()> {
    writeln!(
        text,
        "{:<30}{:<14}{:>5}{:>8}{:>8}{:>7}{:>7}{:>7}{:>8}{:>8}{:>8}{:>8}",
        "cells",
        "scheme",
        "cells",
        "< 98 %",
        "worst",
        "mean",
        "p99",
        "> 1.5",
        "> 1.8",
        "first>",
        "Jain<",
        "drops"
    )?;
    Ok(())
}

fn line(text: &mut String, names: (&str, &str), kind: usize, of: &[&Found]) -> Result<()> {
    let count = |is: &dyn Fn(&Found) -> bool| of.iter().filter(|one| is(one)).count();
    let mean = |value: &dyn Fn(&Found) -> f64| {
        of.iter().map(|one| value(one)).sum::<f64>() / of.len().max(1) as f64
    };
    let worst = of
        .iter()
        .map(|one| one.mean(kind))
        .fold(f64::INFINITY, f64::min);
    writeln!(
        text,
        "{:<30}{:<14}{:>5}{:>8}{:>8.3}{:>7.3}{:>7.2}{:>7}{:>8}{:>8}{:>8}{:>7.1}%",
        names.0,
        names.1,
        of.len(),
        count(&|one| one.mean(kind) < 0.98),
        worst,
        mean(&|one| one.mean(kind)),
        mean(&|one| one.by_kind[kind].p99),
        count(&|one| one.by_kind[kind].p99 > 1.5),
        count(&|one| one.by_kind[kind].p99 > 1.8),
        count(&|one| one.by_kind[kind].first > 1.8),
        count(&|one| one.by_kind[kind].jain.is_some_and(|jain| jain < 0.985)),
        mean(&|one| one.by_kind[kind].drops * 100.0),
    )?;
    Ok(())
}

/// Packets of 1500 bytes that are a sender's share of a round trip.
fn share(cell: &Cell) -> f64 {
    (cell.rate * cell.rtt) as f64 / 12_000.0 / cell.flows as f64
}

fn misses(one: &Found) -> bool {
    let ours = one.by_kind[2];
    let most = if share(&one.cell) < 4.0 { 1.8 } else { 1.5 };
    one.mean(2) < 0.98
        || ours.p99 > most
        || ours.first > 1.8
        || ours.jain.is_some_and(|jain| jain < 0.985)
}

/// What stands against the bars that are missed, as far as we know.
fn reason(one: &Found) -> &'static str {
    let (cell, ours, pqp) = (&one.cell, one.by_kind[2], one.by_kind[0]);
    if one.mean(2) < 0.98 {
        return if cell.pauses && by_priority(cell) {
            "each transfer of the first class changes r* to 0 or r"
        } else {
            "windows grow slowly from where slow start ends"
        };
    }
    if cell.rate * 1000 / 32 < 1500 * 8 * cell.flows {
        "a packet of each sender is more than the rate of 31 ms"
    } else if ours.p99 > 1.5 && pqp.p99 > 1.5 {
        "without burst control, bursts are as large or larger"
    } else {
        "not known"
    }
}

fn figure_6d(text: &mut String) -> Result<()> {
    writeln!(
        text,
        "\nfigure 6d: percent of the rate while one flow of the first priority is active, and of the flow behind it\n\
         {:<14}{:>16}{:>16}",
        "", "cubic", "reno"
    )?;
    for kind in KINDS {
        let [cubic, reno] = [alone(kind, "cubic")?, alone(kind, "reno")?];
        writeln!(
            text,
            "{kind:<14}{:>9.1}{:>7.1}{:>9.1}{:>7.1}",
            cubic[0], cubic[1], reno[0], reno[1]
        )?;
    }
    Ok(())
}

/// Senders of the first class pause. How much of what is missing do the TCP senders behind them leave
/// unused? UDP there never waits.
fn behind_pauses(text: &mut String, found: &[Found]) -> Result<()> {
    let (mut sums, mut least, mut cells) = ([0.0; 2], [f64::INFINITY; 2], 0);
    for one in found {
        if !one.cell.pauses || one.cell.policy != Policy::Priority {
            continue;
        }
        let cell = Cell {
            udp: true,
            ..one.cell
        };
        let udp = measure(cell, SECONDS, &KINDS[2..])?[0].mean;
        for (at, mean) in [one.by_kind[2].mean, udp].into_iter().enumerate() {
            sums[at] += mean;
            least[at] = least[at].min(mean);
        }
        cells += 1;
    }
    let [tcp, udp] = sums.map(|sum| sum / f64::from(cells));
    writeln!(
        text,
        "\nstrict priority, half on and off, {cells} cells: bc-pqp's mean over the plan and the least one\n\
         {:<14}{tcp:>8.3}{:>8.3}\n{:<14}{udp:>8.3}{:>8.3}",
        "TCP behind", least[0], "UDP behind", least[1]
    )?;
    Ok(())
}

fn picture(found: &[Found]) -> Result<String> {
    let mut bars = Bars::new(
        "Mean rate of backlogged senders by round trip, over PQP's",
        Axis::new("mean over PQP's").from(0.5).to(1.05),
        RTTS.map(|rtt| format!("{rtt} ms")),
    );
    for (kind, name) in [(1, "as in the paper"), (2, "bc-pqp")] {
        let mean = |rtt| {
            let of = found
                .iter()
                .filter(|one| one.cell.rtt == rtt && !one.cell.pauses);
            let means: Vec<f64> = of.map(|one| one.mean(kind)).collect();
            (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
        };
        bars.series(name, RTTS.map(mean));
    }
    Ok(bars.svg()?)
}
