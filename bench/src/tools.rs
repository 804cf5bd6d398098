//! `tidegate detect` beside other tools, in turn in the same run.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::capture::{self, Big};
use super::child::{self, Usage};
use super::{Figures, core, median};

struct Tool {
    name: &'static str,
    program: PathBuf,
    args: Vec<&'static str>,
    /// The place of the capture's name.
    file: usize,
    /// Too slow to be measured more than once.
    once: bool,
    found: Vec<Usage>,
}

impl Tool {
    fn new(name: &'static str, program: impl Into<PathBuf>, args: &[&'static str]) -> Self {
        Self {
            name,
            program: program.into(),
            file: args
                .iter()
                .position(|arg| *arg == "FILE")
                .unwrap_or(args.len()),
            args: args.to_vec(),
            once: false,
            found: Vec::new(),
        }
    }

    fn median(&self, of: fn(&Usage) -> f64) -> f64 {
        median(self.found.iter().map(of).collect())
    }
}

/// Measures each tool in turn, as often as there are rounds.
pub fn measure(big: &Big, rounds: usize, figures: &mut Figures) -> Result<()> {
    let tidegate = capture::tidegate();
    if !tidegate.exists() {
        bail!(
            "{} is not built: cargo build --release -p tidegate",
            tidegate.display()
        );
    }
    let mut tools = [
        Tool::new(
            "tidegate",
            &tidegate,
            &["detect", "--format", "csv", "--jobs", "1", "FILE"],
        ),
        // What the explanation of losses adds.
        Tool::new(
            "pd",
            &tidegate,
            &[
                "detect",
                "--detector",
                "pd",
                "--format",
                "csv",
                "--jobs",
                "1",
                "FILE",
            ],
        ),
        Tool::new("tcptrace", "tcptrace", &["FILE"]),
        Tool::new("tcpdump", "tcpdump", &["-r", "FILE", "-w", "/dev/null"]),
        Tool {
            once: true,
            ..Tool::new("tshark", "tshark", &["-r", "FILE", "-q", "-z", "conv,tcp"])
        },
    ];
    capture::warm(&big.path)?;
    let file = big
        .path
        .to_str()
        .context("the capture's path is not UTF-8")?;
    for round in 0..rounds {
        for tool in &mut tools {
            if round > 0 && (tool.once || tool.found.is_empty()) {
                continue;
            }
            let mut args = tool.args.clone();
            args[tool.file] = file;
            match child::measure(core(), &tool.program, &args)? {
                Some(usage) => {
                    eprintln!("round {}: {} {:.2} s", round + 1, tool.name, usage.wall);
                    tool.found.push(usage);
                }
                None => eprintln!("{} is missing (apt-get install {0}): left out", tool.name),
            }
        }
    }
    let packets = big.packets as f64;
    for tool in tools.iter().filter(|tool| !tool.found.is_empty()) {
        let name = tool.name;
        let wall = tool.median(|usage| usage.wall);
        figures.add(format!("{name}.wall"), wall, "s");
        figures.add(format!("{name}.cpu"), tool.median(|usage| usage.cpu), "s");
        figures.add(format!("{name}.rate"), packets / wall / 1e6, "Mpackets/s");
        let cpu_rate = packets / tool.median(|usage| usage.cpu) / 1e6;
        figures.add(format!("{name}.cpu_rate"), cpu_rate, "Mpackets/s");
        figures.add(
            format!("{name}.peak_memory"),
            tool.median(|usage| usage.memory) / 1e6,
            "MB",
        );
    }
    let [tidegate, others @ ..] = &tools;
    for other in others.iter().filter(|tool| !tool.found.is_empty()) {
        // By wall time, and by processor time, which other work on the machine changes less.
        let ratio = |of: fn(&Usage) -> f64| other.median(of) / tidegate.median(of);
        let name = other.name;
        figures.add(
            format!("tidegate.speed_over_{name}"),
            ratio(|usage| usage.wall),
            "x",
        );
        figures.add(
            format!("tidegate.cpu_speed_over_{name}"),
            ratio(|usage| usage.cpu),
            "x",
        );
    }
    Ok(())
}
