//! Tables 1 and 2 and figures 1 to 3 of [Trickle §3], in virtual time.

mod viewers;

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_lab::summary::percentile;
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{Report, main as study};
use viewers::{BASELINE, GROUPS, SHRUNK, TRICKLE, Viewer};

const SCENARIO: &str = include_str!("trickle.toml");
/// The points of the scenario, as Table 1 calls them, with the shares of the flows in the two data
/// centers and the improvements it reports, percent.
const BANDWIDTHS: [(&str, [usize; 2], [u32; 2]); 6] = [
    ("< 0.5", [1, 39], [5, 3]),
    ("0.5-1", [3, 26], [23, 8]),
    ("1-2", [10, 17], [40, 32]),
    ("2-4", [28, 9], [53, 47]),
    ("4-8", [35, 6], [56, 47]),
    (">= 8", [23, 3], [53, 44]),
];
/// Western Europe and India.
const CENTERS: [&str; 2] = ["DC1", "DC2"];
/// One seed in the place of five.
const ONE_SEED: &str = "seed=1";

fn main() -> ExitCode {
    study("trickle-lab", run)
}

fn run() -> Result<Report> {
    let mut table = String::new();
    let mut pictures = Vec::new();
    let all = viewers::watch(SCENARIO, &[])?;
    by_bandwidth(&mut table, &all)?;
    together(&mut table, &all)?;
    rebuffering(&mut table, &all)?;
    pictures.push(("figure1.svg", losses(&all)?));
    pictures.push(("figure3.svg", round_trips(&all)?));
    let sizes = viewers::bursts(
        SCENARIO,
        &[
            ONE_SEED,
            "baseline1.count=4",
            "baseline2.count=4",
            "trickle.count=4",
            "shrunk-block.count=4",
        ],
    )?;
    pictures.push(("figure2.svg", bursts(&mut table, &sizes)?));
    variations(&mut table)?;
    Ok(Report { table, pictures })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count
}

/// A mean over a group at one bandwidth.
fn at(all: &[Viewer], group: usize, bandwidth: usize, value: fn(&Viewer) -> f64) -> f64 {
    let these = all
        .iter()
        .filter(|viewer| viewer.group == group && viewer.bandwidth == bandwidth);
    mean(these.map(value))
}

/// A mean over a group of all bandwidths, as many of each as a data center had.
fn over(all: &[Viewer], group: usize, center: usize, value: fn(&Viewer) -> f64) -> f64 {
    let parts = BANDWIDTHS.iter().enumerate();
    let (sum, count) = parts.fold((0.0, 0.0), |(sum, count), (bandwidth, (_, shares, _))| {
        let mean = at(all, group, bandwidth, value);
        if mean.is_nan() {
            return (sum, count);
        }
        let share = shares[center] as f64;
        (sum + share * mean, count + share)
    });
    sum / count
}

/// By how much less the second is, percent.
fn less(than: f64, value: f64) -> f64 {
    100.0 * (1.0 - value / than)
}

fn by_bandwidth(table: &mut String, all: &[Viewer]) -> Result<()> {
    writeln!(
        table,
        "Table 1: retransmission rate in the throttling phase by bandwidth, {} viewers\n\
         Mbit/s     baseline1  baseline2    Trickle     shrunk   Trickle's improvement   paper: DC1  DC2",
        all.len()
    )?;
    for (bandwidth, (name, _, paper)) in BANDWIDTHS.iter().enumerate() {
        write!(table, "{name:8}")?;
        for group in 0..GROUPS.len() {
            let rate = at(all, group, bandwidth, |viewer| viewer.retransmitted);
            write!(table, " {:8.2} %", 100.0 * rate)?;
        }
        let [base, trickle] = [BASELINE, TRICKLE]
            .map(|group| at(all, group, bandwidth, |viewer| viewer.retransmitted));
        writeln!(
            table,
            "  {:19.0} %  {:9} %  {:2} %",
            less(base, trickle),
            paper[0],
            paper[1]
        )?;
    }
    Ok(())
}

/// What Trickle is better by in all, against a baseline and the small blocks, and the paper's value.
type Better = (&'static str, fn(&Viewer) -> f64, [[u32; 2]; 2]);

fn together(table: &mut String, all: &[Viewer]) -> Result<()> {
    writeln!(
        table,
        "\nall bandwidths, weighted as the data centers' flows\n\
         {:34} baseline1  baseline2    Trickle     shrunk    better than baseline1, shrunk (paper)",
        ""
    )?;
    let rows: [Better; 2] = [
        (
            "retransmission rate, %",
            |viewer| 100.0 * viewer.retransmitted,
            [[43, 28], [0, 0]],
        ),
        ("smoothed RTT, ms", |viewer| viewer.srtt, [[28, 10], [7, 1]]),
    ];
    for (center, name) in CENTERS.iter().enumerate() {
        for (what, value, paper) in rows {
            write!(table, "{name:4} {what:28}")?;
            let groups = [0, 1, 2, 3].map(|group| over(all, group, center, value));
            for value in groups {
                write!(table, " {value:10.3}")?;
            }
            let [base, shrunk] =
                [BASELINE, SHRUNK].map(|group| less(groups[group], groups[TRICKLE]));
            // DC2's losses are only said to be similar.
            let paper = match paper[center] {
                [0, 0] => "similar".to_owned(),
                [base, shrunk] => format!("{base} %, {shrunk} %"),
            };
            writeln!(table, "   {base:5.0} %, {shrunk:3.0} %  ({paper})")?;
        }
        write!(table, "{name:4} {:28}", "rate over target rate")?;
        for group in 0..GROUPS.len() {
            let rate = over(all, group, center, |viewer| viewer.rate);
            write!(table, " {rate:10.3}")?;
        }
        writeln!(table)?;
        write!(table, "{name:4} {:28}", "join time, s")?;
        for group in 0..GROUPS.len() {
            let join = over(all, group, center, |viewer| viewer.join);
            write!(table, " {join:10.3}")?;
        }
        writeln!(table)?;
    }
    writeln!(
        table,
        "\nFigure 1: viewers with less than 0.5 % retransmitted, DC1's weights"
    )?;
    let paper = [80, 80, 90, 85];
    for (group, name) in GROUPS.iter().enumerate() {
        let few = |viewer: &Viewer| f64::from(u8::from(viewer.retransmitted < 0.005));
        writeln!(
            table,
            "{name:12} {:4.0} % (paper: {} %)",
            100.0 * over(all, group, 0, few),
            paper[group]
        )?;
    }
    Ok(())
}

fn rebuffering(table: &mut String, all: &[Viewer]) -> Result<()> {
    writeln!(
        table,
        "\nTable 2: rebuffering       frequency, 1/s (paper)          chance, % (paper)\n\
         {:12} {:>15} {:>17} {:>15} {:>15}",
        "", CENTERS[0], CENTERS[1], CENTERS[0], CENTERS[1]
    )?;
    let paper = [
        ([0.0005, 0.005], [2.5, 26.0]),
        ([0.0005, 0.005], [2.5, 26.0]),
        ([0.0005, 0.005], [2.5, 26.0]),
        ([0.0005, 0.005], [2.5, 27.0]),
    ];
    for (group, name) in GROUPS.iter().enumerate() {
        write!(table, "{name:12}")?;
        for center in 0..CENTERS.len() {
            let frequency = over(all, group, center, |viewer| {
                viewer.rebufferings as f64 / viewer.duration
            });
            write!(table, " {frequency:8.4} ({:.4})", paper[group].0[center])?;
        }
        for center in 0..CENTERS.len() {
            let chance = over(all, group, center, |viewer| {
                f64::from(u8::from(viewer.rebufferings > 0))
            });
            write!(
                table,
                " {:6.1} ({:4.1})",
                100.0 * chance,
                paper[group].1[center]
            )?;
        }
        writeln!(table)?;
    }
    Ok(())
}

/// Values of a group, as many of each bandwidth as DC1 had.
fn weighted(all: &[Viewer], group: usize, value: fn(&Viewer) -> f64) -> impl Iterator<Item = f64> {
    let these = all.iter().filter(move |viewer| viewer.group == group);
    these.flat_map(move |viewer| {
        let share = BANDWIDTHS[viewer.bandwidth].1[0];
        std::iter::repeat_n(value(viewer), share)
    })
}

fn losses(all: &[Viewer]) -> Result<String> {
    let mut plot = Plot::new(
        "Figure 1: retransmission rate in the throttling phase",
        Axis::new("retransmission rate, %").from(0.0).to(5.0),
        Axis::new("share of viewers").from(0.5).to(1.0),
    );
    for (group, name) in GROUPS.iter().enumerate() {
        plot.distribution(name, weighted(all, group, |v| 100.0 * v.retransmitted));
    }
    Ok(plot.svg()?)
}

fn round_trips(all: &[Viewer]) -> Result<String> {
    let mut plot = Plot::of_distributions(
        "Figure 3: smoothed RTT at the end",
        Axis::new("smoothed RTT, ms").from(0.0).to(400.0),
    );
    for (group, name) in GROUPS.iter().enumerate() {
        plot.distribution(name, weighted(all, group, |viewer| viewer.srtt));
    }
    Ok(plot.svg()?)
}

fn bursts(table: &mut String, sizes: &[[Vec<u32>; 4]]) -> Result<String> {
    let mut plot = Plot::of_distributions(
        "Figure 2: bursts in the throttling phase",
        Axis::new("burst size, packets").from(0.0).to(60.0),
    );
    writeln!(
        table,
        "\nFigure 2: bursts of 4 packets and more at most 1 ms apart, DC1's weights\n\
         {:12} bursts  median    90th    most   up to 10 packets  40 and more",
        ""
    )?;
    for (group, name) in GROUPS.iter().enumerate() {
        let mut all: Vec<u32> = Vec::new();
        for (bandwidth, sizes) in sizes.iter().enumerate() {
            let share = BANDWIDTHS[bandwidth].1[0];
            all.extend(
                sizes[group]
                    .iter()
                    .flat_map(|&size| std::iter::repeat_n(size, share)),
            );
        }
        all.sort_unstable();
        let at = |percent| percentile(&all, percent).unwrap_or(0);
        let share = |holds: fn(u32) -> bool| {
            let count = all.iter().filter(|&&size| holds(size)).count();
            100.0 * count as f64 / all.len().max(1) as f64
        };
        let bursts: usize = sizes.iter().map(|sizes| sizes[group].len()).sum();
        writeln!(
            table,
            "{name:12} {bursts:6} {:7} {:7} {:7} {:16.0} % {:10.0} %",
            at(50.0),
            at(90.0),
            at(100.0),
            share(|size| size <= 10),
            share(|size| size >= 40),
        )?;
        plot.distribution(name, all.iter().map(|&size| f64::from(size)));
    }
    Ok(plot.svg()?)
}

/// What else servers and networks may be like: DC1's weights, one seed.
const VARIATIONS: [(&str, &[&str]); 9] = [
    ("as above", &[]),
    ("no web traffic beside it", &["web.count=0"]),
    ("queues of 20 packets", &["line.queue=20 packets"]),
    ("queues of 80 packets", &["line.queue=80 packets"]),
    (
        "unused windows are forgotten",
        &[
            "blocks.slow-start-after-idle=true",
            "bound.slow-start-after-idle=true",
            "small-blocks.slow-start-after-idle=true",
        ],
    ),
    (
        "Trickle's headroom is 1.05",
        &["bound.traffic.headroom=1.05"],
    ),
    (
        "Trickle's headroom is given up ahead of R",
        &["bound.traffic.hold-average=true"],
    ),
    (
        "max-rate in Trickle's place",
        &["bound.traffic.pace=max-rate"],
    ),
    ("no pacing in Trickle's place", &["bound.traffic.pace=none"]),
];

fn variations(table: &mut String) -> Result<()> {
    writeln!(
        table,
        "\nvariations, DC1's weights, one seed\n\
         {:42}     retransmitted, %             smoothed RTT, ms            rate over target\n\
         {:42} baseline Trickle  shrunk   baseline Trickle  shrunk   baseline Trickle  shrunk",
        "", ""
    )?;
    for (name, settings) in VARIATIONS {
        let settings: Vec<&str> = [&[ONE_SEED], settings].concat();
        let all = viewers::watch(SCENARIO, &settings)?;
        write!(table, "{name:42}")?;
        let values: [fn(&Viewer) -> f64; 3] = [
            |viewer| 100.0 * viewer.retransmitted,
            |viewer| viewer.srtt,
            |viewer| viewer.rate,
        ];
        for (value, digits) in values.into_iter().zip([3, 1, 2]) {
            for group in [BASELINE, TRICKLE, SHRUNK] {
                write!(table, " {:7.digits$}", over(&all, group, 0, value))?;
            }
            write!(table, "  ")?;
        }
        writeln!(table)?;
    }
    Ok(())
}
