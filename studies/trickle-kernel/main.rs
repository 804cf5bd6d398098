//! Video throttled by blocks and by Trickle over this machine's own TCP: the tables and figures of
//! [Trickle §3], and what [Flach16 §5.2] found behind a policer. In real time, between namespaces.

mod capture;
mod policer;
mod sender;
mod viewers;

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tidegate_lab::summary::percentile;
use tidegate_plot::{Axis, Plot};
use viewers::{BANDWIDTHS, GROUPS, Quality, Viewer};

/// Options.
#[derive(Parser)]
struct Args {
    /// Fail if Trickle does not do better than blocks of either size; with --alone, if it retransmits more than a tenth of what nginx does
    #[arg(long)]
    check: bool,
    /// Write tables and pictures into the study's folder
    #[arg(long)]
    update: bool,
    /// Only the policer
    #[arg(long)]
    policer: bool,
    /// Only the viewers
    #[arg(long)]
    viewers: bool,
    /// Windows that were not used are forgotten (tcp_slow_start_after_idle, Linux's default)
    #[arg(long)]
    forget: bool,
    /// No web pages on the lines of the viewers, so that all losses are the servers' own
    #[arg(long, requires = "viewers", conflicts_with = "update")]
    alone: bool,
    /// Only viewers at these bandwidths, rows of the table counted from 0; for a closer look
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with_all = ["check", "update"])]
    classes: Vec<usize>,
}

/// Shares of DC1's flows at each bandwidth (Table 1), and the improvement there, percent.
const SHARES: [usize; 6] = [1, 3, 10, 28, 35, 23];
const IMPROVED: [u32; 6] = [5, 23, 40, 53, 56, 53];

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trickle-kernel: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let mut table = String::new();
    let mut pictures = Vec::new();
    let mut better = Ok(());
    if !args.policer {
        let (all, quality) = viewers::run(args.forget, args.alone, &args.classes)?;
        write_quality(&mut table, "viewers", &quality)?;
        by_bandwidth(&mut table, &all)?;
        together(&mut table, &all)?;
        bursts(&mut table, &all)?;
        pictures = draw(&all)?;
        better = if args.alone {
            check_alone(&all)
        } else {
            check(&all)
        };
    }
    if !args.viewers {
        let quality = policer::run(&mut table)?;
        write_quality(&mut table, "policer", &quality)?;
    }
    print!("{table}");
    if args.update {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("trickle-kernel");
        std::fs::write(folder.join("measured.txt"), &table)?;
        for (name, svg) in pictures {
            std::fs::write(folder.join(name), svg)?;
        }
    }
    if args.check { better } else { Ok(()) }
}

fn write_quality(table: &mut String, what: &str, quality: &Quality) -> Result<()> {
    let priority = if quality.real_time {
        ""
    } else {
        ", without real-time priority"
    };
    writeln!(
        table,
        "({what}: frames up to {:.2} ms late at the 99th percentile of the worst line, {} lost beside it{priority})\n",
        quality.late, quality.strays
    )?;
    Ok(())
}

fn retransmitted(viewer: &Viewer) -> f64 {
    100.0 * viewer.seen.retransmitted as f64 / viewer.seen.sent.max(1) as f64
}

fn srtt(viewer: &Viewer) -> f64 {
    viewer.seen.srtt
}

fn mean_rtt(viewer: &Viewer) -> f64 {
    viewer.seen.mean_rtt
}

fn at(all: &[Viewer], group: usize, bandwidth: usize, value: impl Fn(&Viewer) -> f64) -> f64 {
    let these = all
        .iter()
        .filter(|viewer| viewer.group == group && viewer.bandwidth == bandwidth);
    let values: Vec<f64> = these.map(value).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Over all bandwidths of viewers, in the proportions of DC1.
fn over(all: &[Viewer], group: usize, value: impl Fn(&Viewer) -> f64 + Copy) -> f64 {
    let shares = SHARES.iter().map(|&share| share as f64).enumerate();
    let shares = shares.filter(|&(bandwidth, _)| is_in(all, bandwidth));
    let sum: f64 = shares
        .clone()
        .map(|(bandwidth, share)| share * at(all, group, bandwidth, value))
        .sum();
    sum / shares.map(|(_, share)| share).sum::<f64>()
}

fn is_in(all: &[Viewer], bandwidth: usize) -> bool {
    all.iter().any(|viewer| viewer.bandwidth == bandwidth)
}

fn by_bandwidth(table: &mut String, all: &[Viewer]) -> Result<()> {
    writeln!(
        table,
        "retransmission rate, % / smoothed RTT at the end, ms"
    )?;
    heading(table)?;
    writeln!(table, "   better than baseline1 (paper)")?;
    for (bandwidth, improved) in IMPROVED.iter().enumerate() {
        if !is_in(all, bandwidth) {
            continue;
        }
        write!(table, "{:8}", BANDWIDTHS[bandwidth].0)?;
        for group in 0..GROUPS.len() {
            let lost = at(all, group, bandwidth, retransmitted);
            let srtt = at(all, group, bandwidth, srtt);
            write!(table, "  {lost:7.3} {srtt:8.1}")?;
        }
        let [base, trickle] = [0, 2].map(|group| at(all, group, bandwidth, retransmitted));
        let ours = 100.0 * (1.0 - trickle / base);
        writeln!(table, "   {ours:5.0} % ({improved} %)")?;
    }
    writeln!(table, "\nmean RTT, ms / streaming rate over target")?;
    heading(table)?;
    writeln!(table)?;
    for (bandwidth, (name, _)) in BANDWIDTHS.iter().enumerate() {
        if !is_in(all, bandwidth) {
            continue;
        }
        write!(table, "{name:8}")?;
        for group in 0..GROUPS.len() {
            let rtt = at(all, group, bandwidth, mean_rtt);
            let rate = at(all, group, bandwidth, |viewer| viewer.rate);
            write!(table, "  {rtt:7.1} {rate:8.3}")?;
        }
        writeln!(table)?;
    }
    Ok(())
}

fn heading(table: &mut String) -> Result<()> {
    write!(table, "{:8}", "Mbit/s")?;
    for (name, _) in GROUPS {
        write!(table, "  {name:>16}")?;
    }
    Ok(())
}

fn together(table: &mut String, all: &[Viewer]) -> Result<()> {
    writeln!(table, "\nall, weighted as DC1's flows")?;
    write!(table, "{:30}", "")?;
    for (name, _) in GROUPS {
        write!(table, " {name:>12}")?;
    }
    writeln!(table, "   better than baseline1, shrunk, nginx (paper)")?;
    type Row = (&'static str, fn(&Viewer) -> f64, &'static str);
    let rows: [Row; 7] = [
        ("retransmission rate, %", retransmitted, "43 %, 28 %"),
        ("smoothed RTT, ms", srtt, "28 %, 10 %"),
        ("mean RTT, ms", mean_rtt, ""),
        ("streaming rate over target", |viewer| viewer.rate, ""),
        ("join time, s", |viewer| viewer.viewing.join, ""),
        (
            "rebuffering frequency, 1/s",
            |viewer| viewer.viewing.frequency,
            "0.0005 each",
        ),
        (
            "rebuffering chance, %",
            |viewer| 100.0 * f64::from(u8::from(viewer.viewing.rebufferings > 0.0)),
            "2.5 % each",
        ),
    ];
    for (index, (name, value, paper)) in rows.into_iter().enumerate() {
        write!(table, "{name:30}")?;
        let groups: [f64; GROUPS.len()] = std::array::from_fn(|group| over(all, group, value));
        for value in groups {
            write!(table, " {value:12.4}")?;
        }
        if index < 3 {
            let less = |than: f64| 100.0 * (1.0 - groups[2] / than);
            write!(
                table,
                "   {:3.0} %, {:3.0} %, {:3.0} %",
                less(groups[0]),
                less(groups[3]),
                less(groups[4])
            )?;
        }
        if !paper.is_empty() {
            write!(table, "   ({paper})")?;
        }
        writeln!(table)?;
    }
    Ok(())
}

/// The bursts of a group, as many of each bandwidth as DC1 had.
fn sizes(all: &[Viewer], group: usize) -> Vec<u32> {
    let these = all.iter().filter(|viewer| viewer.group == group);
    let mut sizes: Vec<u32> = these
        .flat_map(|viewer| {
            let share = SHARES[viewer.bandwidth];
            let sizes = viewer.seen.bursts.iter();
            sizes.flat_map(move |&size| std::iter::repeat_n(size, share))
        })
        .collect();
    sizes.sort_unstable();
    sizes
}

fn bursts(table: &mut String, all: &[Viewer]) -> Result<()> {
    let [trickle, nginx] = [2, 4].map(|group| over(all, group, retransmitted));
    writeln!(
        table,
        "Trickle retransmits {:.3} times what nginx does",
        trickle / nginx
    )?;
    writeln!(
        table,
        "\nbursts of 4 packets and more at most 1 ms apart\n{:14} median    90th    most   up to 10 packets  40 and more",
        ""
    )?;
    for (group, (name, _)) in GROUPS.iter().enumerate() {
        let sizes = sizes(all, group);
        let at = |percent| percentile(&sizes, percent).unwrap_or(0);
        let share = |holds: fn(u32) -> bool| {
            let count = sizes.iter().filter(|&&size| holds(size)).count();
            100.0 * count as f64 / sizes.len().max(1) as f64
        };
        writeln!(
            table,
            "{name:14} {:6} {:7} {:7} {:16.0} % {:10.0} %",
            at(50.0),
            at(90.0),
            at(100.0),
            share(|size| size <= 10),
            share(|size| size >= 40)
        )?;
    }
    writeln!(
        table,
        "(paper: Trickle 94 % up to 10; blocks of 64 kB 20 % about 43; steps at 12, 23, 34 with 16 kB)"
    )?;
    Ok(())
}

fn draw(all: &[Viewer]) -> Result<Vec<(&'static str, String)>> {
    let weighted = |group: usize, value: fn(&Viewer) -> f64| {
        let these = all.iter().filter(move |viewer| viewer.group == group);
        these.flat_map(move |viewer| std::iter::repeat_n(value(viewer), SHARES[viewer.bandwidth]))
    };
    let mut losses = Plot::new(
        "Retransmission rate in the throttling phase, kernel",
        Axis::new("retransmission rate, %").from(0.0).to(5.0),
        Axis::new("share of viewers").from(0.0).to(1.0),
    );
    let mut bursts = Plot::of_distributions(
        "Bursts in the throttling phase, kernel",
        Axis::new("burst size, packets").from(0.0).to(60.0),
    );
    let mut srtts = Plot::of_distributions(
        "Smoothed RTT at the end, kernel",
        Axis::new("smoothed RTT, ms").from(0.0).to(400.0),
    );
    for (group, (name, _)) in GROUPS.iter().enumerate() {
        losses.distribution(name, weighted(group, retransmitted));
        bursts.distribution(name, sizes(all, group).into_iter().map(f64::from));
        srtts.distribution(name, weighted(group, srtt));
    }
    Ok(vec![
        ("figure1.svg", losses.svg()?),
        ("figure2.svg", bursts.svg()?),
        ("figure3.svg", srtts.svg()?),
    ])
}

/// Whether Trickle sends at most a tenth of nginx's packets again.
fn check_alone(all: &[Viewer]) -> Result<()> {
    let [trickle, nginx] = [2, 4].map(|group| over(all, group, retransmitted));
    anyhow::ensure!(
        trickle <= 0.1 * nginx,
        "retransmission rate, %: Trickle {trickle:.3}, nginx {nginx:.3}"
    );
    Ok(())
}

/// Whether Trickle sends less again and waits less in queues than blocks of both sizes in the totals,
/// at most 2 % off their streaming rate, and with no more viewers whose video stops.
fn check(all: &[Viewer]) -> Result<()> {
    for other in [0, 1, 3] {
        let name = GROUPS[other].0;
        let less = |what: &str, value: fn(&Viewer) -> f64| {
            let (trickle, other) = (over(all, 2, value), over(all, other, value));
            anyhow::ensure!(
                trickle < other,
                "{what}: Trickle {trickle:.3}, {name} {other:.3}"
            );
            Ok(())
        };
        less("retransmission rate, %", retransmitted)?;
        less("smoothed RTT, ms", srtt)?;
        let rate = |group| over(all, group, |viewer| viewer.rate);
        anyhow::ensure!(
            (0.98..=1.02).contains(&(rate(2) / rate(other))),
            "streaming rate over target: Trickle {:.3}, {name} {:.3}",
            rate(2),
            rate(other)
        );
        let stopped = |group| {
            over(all, group, |viewer| {
                100.0 * f64::from(u8::from(viewer.viewing.rebufferings > 0.0))
            })
        };
        // A viewer of a group in a class that is a tenth of all flows is 2.5 %.
        anyhow::ensure!(
            stopped(2) <= stopped(other) + 2.5,
            "rebuffering chance, %: Trickle {:.1}, {name} {:.1}",
            stopped(2),
            stopped(other)
        );
    }
    Ok(())
}
