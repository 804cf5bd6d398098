//! The command line of `tidegate lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{EXIT_CODES, Format};

const LAB_EXAMPLES: &str = "\
Examples:
  tidegate lab example                        lists the scenarios that come with Tidegate
  tidegate lab example fair-share > my.toml   writes one of them to a file
  tidegate lab run my.toml                    runs it and prints a table of results
  tidegate lab run my.toml --set gate.rate=5mbit -o results/
";

/// Try rate limiters in virtual time, under real senders.
///
/// A scenario says who sends what through which limiters and links. The lab simulates it packet by
/// packet, as fast as the machine can. The result is the same on every machine.
#[derive(Debug, Args)]
#[command(after_help = LAB_EXAMPLES)]
pub struct Lab {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    Check(Check),
    #[cfg(target_os = "linux")]
    Kernel(Kernel),
    Example(Example),
    /// Describe every key of scenario files, as Markdown
    Schema,
}

const RUN_EXAMPLES: &str = "\
Examples:
  tidegate lab run home.toml                      a line for each point of the sweep
  tidegate lab run home.toml --by flow            a line for each flow
  tidegate lab run home.toml --set gate.rate=5mbit --set 'gate.policy={ fair = 4 }'
  tidegate lab run home.toml --seed 7 --duration 5s
  tidegate lab run home.toml -o results/          also writes rows, pictures and captures
  tidegate lab run home.toml --by window -f csv | …
  tidegate lab example video | tidegate lab run - without a file

With --output, the folder gets points, flows, windows, elements, samples, transfers and connections
as Parquet, a picture of each kind as SVG, and the captures of the scenario's taps, which `tidegate detect`
reads. `tidegate columns --by lab-flow` and so on describe the rows;
each key of the sweep is a column too. docs/reference/scenarios.md
describes scenario files.
";

/// Run a scenario, with all points of its sweep and all its seeds, on all cores.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, after_long_help = format!("{RUN_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Run {
    /// The scenario, or `-` for standard input
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Replace a value of the scenario, and its values in the sweep; you may repeat the option
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Run with this seed only
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How long the scenario lasts, such as 30s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Number of threads: as many simulations run at the same time; threads that are left over help with large ones [default: the number of cores]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<usize>,
    /// A folder for all results; it is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Format of the printed rows
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// What a row is
    #[arg(long, value_name = "WHAT", default_value = "point")]
    pub by: LabBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabBy {
    /// A point of the sweep, over all its seeds
    Point,
    /// A flow
    Flow,
    /// A window of time of an aggregate or a flow; not as a table
    Window,
    /// Counts of an element; not as a table
    Element,
    /// The occupancy of a queue at one time, if the scenario samples it; not as a table
    Sample,
    /// A transfer that was completed; not as a table
    Transfer,
    /// The state of a connection's sender at one time, if the scenario has `connections`; not as a table
    Connection,
}

/// Check scenarios, and say how much there is to simulate.
#[derive(Debug, Args)]
pub struct Check {
    /// Scenarios, or `-` for standard input
    #[arg(value_name = "SCENARIO", required = true)]
    pub scenarios: Vec<PathBuf>,
    /// Replace a value in them; you may repeat the option
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[cfg(target_os = "linux")]
const KERNEL_EXAMPLES: &str = "\
Examples:
  sudo tidegate lab kernel                          runs the built-in scenario, in 9 minutes
  sudo tidegate lab kernel --set 'bulk.cc=[\"bbr\"]'  only BBR
  sudo tidegate lab kernel home.toml --runs 5       a scenario of your own
  sudo tidegate lab kernel --runs 1 -o captures/    also writes captures of both sides' taps
  sudo tidegate lab kernel --by flow                compares each flow instead of all together
  sudo tidegate lab kernel -f csv > kernel.csv

It needs root (or CAP_SYS_ADMIN and CAP_NET_ADMIN) and /dev/net/tun. Without them it ends with exit
code 3. It makes two network namespaces without names, each with a TUN device. They disappear when
it ends, and nothing else on the machine changes. Flows are bulk transfers with reno, cubic or bbr,
if the kernel has them, at 100 or 200 Mbit/s at most.

It takes as long as the scenario lasts, times its points, times the runs. Let nothing else run,
because packets then leave late. Runs in which 1 % of the packets left more than 1 ms late are
repeated twice. Points where that did not help are marked.

Differences are the lab's median less the kernel's, over the kernel's. ~ marks differences above
10 % where the runs of both sides overlap, and ! those where they do not. docs/explanation/kernel-comparison.md
explains the known ones.
";

/// Compare the lab's TCP with the kernel's TCP, in real time; needs root.
///
/// Runs a scenario in the lab, and with the kernel's TCP between two network namespaces, through the
/// same limiters. Prints goodput, loss rate and round-trip times side by side.
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
#[command(after_help = KERNEL_EXAMPLES, after_long_help = format!("{KERNEL_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Kernel {
    /// The scenario, or `-` for standard input [default: `tidegate lab example kernel`]
    #[arg(value_name = "SCENARIO")]
    pub scenario: Option<PathBuf>,
    /// Replace a value of the scenario, and its values in the sweep; you may repeat the option
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Number of runs of each point, on each side
    #[arg(short, long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub runs: u64,
    /// A folder for captures; it is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What is compared in a block of the table: all flows of a point together, or each flow
    #[arg(long, value_name = "WHAT", default_value = "point")]
    pub by: KernelBy,
    /// Format of the printed rows
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

/// What `lab kernel` compares.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KernelBy {
    /// All flows of a point together
    Point,
    /// Each flow
    Flow,
}

/// Print a scenario that comes with Tidegate, or list them.
#[derive(Debug, Args)]
pub struct Example {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
