//! How many retransmissions and losses other tools find in the same captures.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tidegate_studies::lab::{Analysed, Device, SEEN_PORT};

/// Prints a row for each of a few captures: the first of each kind of device that lost packets.
pub fn compare(folder: &Path, all: &[Analysed]) -> Result<()> {
    let losses = |capture: &&Analysed| {
        capture
            .chunks
            .iter()
            .map(|c| c.metrics.lost_packets)
            .sum::<u64>()
            > 100
    };
    let alone = |capture: &&Analysed| capture.case.truth.chunk_connections == 1;
    let find = |wanted: &dyn Fn(&Analysed) -> bool| {
        all.iter()
            .filter(losses)
            .filter(alone)
            .find(|capture| wanted(capture))
    };
    let chosen = [
        find(&|capture| capture.case.truth.device == Device::Policer),
        find(&|capture| {
            capture.case.truth.device == Device::Shaper
                && capture.case.truth.random_loss_percent == 0.0
        }),
        find(&|capture| capture.case.truth.random_loss_percent > 0.0),
    ];
    println!(
        "\n{:<40} {:>9} {:>10} {:>9} {:>9}",
        "server's data packets sent again, or lost", "policed", "shaped", "random", ""
    );
    let mut rows: Vec<(&str, Vec<String>)> = ROWS.iter().map(|&name| (name, Vec::new())).collect();
    for capture in chosen.into_iter().flatten() {
        let plain = tempfile::Builder::new().suffix(".pcap").tempfile()?;
        decompress(&folder.join(&capture.case.file), plain.as_file())?;
        let sum = |get: fn(&tidegate_trace::annotate::Metrics) -> u64| {
            capture
                .chunks
                .iter()
                .map(|chunk| get(&chunk.metrics))
                .sum::<u64>()
        };
        let published: u64 = capture
            .chunks
            .iter()
            .map(|chunk| chunk.published_losses)
            .sum();
        let tshark = |filter: &str| tshark(plain.path(), filter);
        let cells = [
            Some(sum(|metrics| metrics.retransmitted_packets)),
            Some(sum(|metrics| metrics.lost_packets)),
            Some(published),
            tcptrace(plain.path())?,
            tshark("tcp.analysis.retransmission")?,
            tshark("tcp.analysis.out_of_order")?,
        ];
        for ((_, row), cell) in rows.iter_mut().zip(cells) {
            row.push(cell.map_or("missing".into(), |count| count.to_string()));
        }
    }
    for (name, cells) in rows {
        print!("  {name:<38}");
        for cell in cells {
            print!(" {cell:>9}");
        }
        println!();
    }
    Ok(())
}

const ROWS: [&str; 6] = [
    "tidegate, sent again",
    "tidegate, lost",
    "published PD's rule, lost",
    "tcptrace, rexmt data pkts",
    "tshark, retransmission",
    "tshark, out of order",
];

fn decompress(path: &Path, mut to: &File) -> Result<()> {
    let mut input = liblzma::read::XzDecoder::new(File::open(path)?);
    io::copy(&mut input, &mut to).with_context(|| path.display().to_string())?;
    to.flush()?;
    Ok(())
}

/// The output of a tool, or `None` if it is not installed.
fn output(command: &mut Command) -> Result<Option<String>> {
    match command.stderr(Stdio::null()).output() {
        Ok(output) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn tcptrace(path: &Path) -> Result<Option<u64>> {
    let Some(text) = output(Command::new("tcptrace").arg("-l").arg("-n").arg(path))? else {
        return Ok(None);
    };
    // Blocks of a connection each: names of both ends, then a line a figure, left a2b, right b2a.
    let mut ends = [String::new(), String::new()];
    for line in text.lines().map(str::trim) {
        if let Some(host) = line.strip_prefix("host ") {
            let (name, address) = host.split_once(':').unwrap_or_default();
            let second = usize::from(!ends[0].is_empty() && ends[1].is_empty());
            let _ = name;
            if second == 0 {
                ends = [String::new(), String::new()];
            }
            ends[second] = address.trim().to_owned();
        } else if line.starts_with("rexmt data pkts") {
            let counts: Vec<u64> = line
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            let port = format!(":{SEEN_PORT}");
            if let Some(side) = ends.iter().position(|end| end.ends_with(&port)) {
                return Ok(counts.get(side).copied());
            }
        }
    }
    Ok(None)
}

fn tshark(path: &Path, filter: &str) -> Result<Option<u64>> {
    let filter = format!("tcp.srcport == {SEEN_PORT} and tcp.len > 0 and {filter}");
    let lines = output(Command::new("tshark").arg("-r").arg(path).args([
        "-Y",
        &filter,
        "-T",
        "fields",
        "-e",
        "frame.number",
    ]))?;
    Ok(lines.map(|lines| lines.lines().count() as u64))
}
