//! Packets per second and peak memory of `tidegate detect`, beside tcptrace, tshark and tcpdump,
//! on one large capture and one core; where `detect` spends its time; what limiters cost a packet;
//! what the page in the browser costs.

mod capture;
mod child;
mod limiters;
mod page;
mod record;
mod server;
mod short;
mod stages;
mod tools;
mod traffic;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

use traffic::Losing;

#[derive(Parser)]
#[command(about = "Measures `tidegate detect` beside other tools on one core")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what each stage of detect adds, in nanoseconds a packet
    Stages,
    /// Measure what each rate limiter costs a packet, beside the plain policer
    Limiters {
        /// Only run this one with one aggregate, for `--packets`
        #[arg(long, requires = "packets")]
        only: Option<String>,
        /// How many packets
        #[arg(long, requires = "only")]
        packets: Option<usize>,
    },
    /// Measure the page in the browser, beside `tidegate detect` on the same capture
    Page,
    /// Measure what the video server costs, beside nginx
    Server {
        /// The program to measure, instead of target/release/tidegate
        #[arg(long)]
        program: Option<PathBuf>,
        /// Measure this part alone
        #[arg(long)]
        only: Option<server::Part>,
    },
    /// Run a command on one core and print what it used (the benchmark calls itself so)
    #[command(hide = true)]
    Child {
        /// The core
        core: usize,
        /// The command
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
}

#[derive(Args)]
struct Options {
    /// How often each tool is measured, in turn; tshark, which is slow, only once
    #[arg(long, default_value_t = 3, global = true)]
    rounds: usize,
    /// Least size of the capture that is made: 1GB, for the page 100MB
    #[arg(long, value_parser = size, global = true)]
    size: Option<u64>,
    /// Keep only this many bytes of each packet, as captures for analysis do
    #[arg(long, global = true)]
    snaplen: Option<usize>,
    /// How many of the capture's transfers lose packets
    #[arg(long, default_value = "most", global = true)]
    losing: Losing,
    /// Measure on this capture instead
    #[arg(long, global = true)]
    file: Option<PathBuf>,
    /// Keep the capture in target/bench for the next time
    #[arg(long, global = true)]
    keep: bool,
    /// Write the figures to bench/runs, with the date and what machine this is
    #[arg(long, global = true)]
    record: bool,
}

/// A size with a decimal unit: 500MB, 2GB.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size: write a number and MB or GB");
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let scale: u64 = match unit.to_ascii_uppercase().as_str() {
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number
        .checked_mul(scale)
        .filter(|&size| size > 0)
        .ok_or_else(wrong)
}

/// A figure: its name, value and unit.
struct Figure {
    name: String,
    value: f64,
    unit: String,
}

/// Figures as they are found, a line each on standard output.
#[derive(Default)]
struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        let figure = Figure {
            name: name.into(),
            value,
            unit: unit.to_owned(),
        };
        println!("{figure}");
        self.0.push(figure);
    }
}

impl std::fmt::Display for Figure {
    /// Four significant digits: further digits are noise.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = 3 - (self.value.abs().max(1e-3).log10().floor() as i32).min(3);
        write!(
            f,
            "{} {:.*} {}",
            self.name, digits as usize, self.value, self.unit
        )
    }
}

/// The middle one; of an even number the lower middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}

/// The core to measure on: the last one, because the system prefers the first for its work.
fn core() -> usize {
    std::thread::available_parallelism().map_or(0, |count| count.get() - 1)
}

fn main() -> Result<()> {
    let Cli { command, options } = Cli::parse();
    if let Some(Command::Child { core, command }) = &command {
        return child::run(*core, command);
    }
    if options.rounds == 0 {
        bail!("--rounds must be at least 1");
    }
    if let Some(Command::Limiters { only, packets }) = &command {
        if let (Some(only), Some(packets)) = (only, packets) {
            return limiters::once(only, *packets);
        }
        let mut figures = Figures::default();
        limiters::measure(options.rounds, &mut figures)?;
        if options.record {
            let path = record::write("limiters", options.rounds, &figures.0)?;
            eprintln!("written to {}", path.display());
        }
        return Ok(());
    }
    if let Some(Command::Server { program, only }) = command {
        let mut figures = Figures::default();
        let program = program.unwrap_or_else(capture::tidegate);
        server::measure(&program, only, options.rounds, &mut figures)?;
        if options.record {
            let path = record::write("server", options.rounds, &figures.0)?;
            eprintln!("written to {}", path.display());
        }
        return Ok(());
    }
    let usual = match command {
        Some(Command::Page) => 100_000_000,
        _ => 1_000_000_000,
    };
    let capture = match &options.file {
        Some(file) => capture::Big::existing(file)?,
        None => {
            let size = options.size.unwrap_or(usual);
            capture::Big::made(size, options.snaplen, options.losing)?
        }
    };
    let mut figures = Figures::default();
    figures.add("capture.size", capture.bytes as f64 / 1e6, "MB");
    figures.add("capture.packets", capture.packets as f64, "packets");
    let name = match command {
        Some(Command::Page) => {
            page::measure(&capture, options.rounds, &mut figures)?;
            "page"
        }
        Some(_) => {
            stages::measure(&capture, options.rounds, &mut figures)?;
            "stages"
        }
        None => {
            tools::measure(&capture, options.rounds, &mut figures)?;
            "detect"
        }
    };
    if options.record {
        let cut = options
            .snaplen
            .map_or(String::new(), |snaplen| format!("-snap{snaplen}"));
        let path = record::write(
            &format!("{name}{}{cut}", options.losing.suffix()),
            options.rounds,
            &figures.0,
        )?;
        eprintln!("written to {}", path.display());
    }
    if options.file.is_none() && !options.keep {
        std::fs::remove_file(&capture.path)?;
        eprintln!("removed {} (--keep would keep it)", capture.path.display());
    }
    Ok(())
}
