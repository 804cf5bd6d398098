//! The command line of `tidegate lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{EXIT_CODES, Format};

const LAB_EXAMPLES: &str = "\
Examples:
  tidegate lab example                        the scenarios that come with Tidegate
  tidegate lab example fair-share > my.toml   one of them, to begin with
  tidegate lab run my.toml                    run it: a table of what it comes to
  tidegate lab run my.toml --set gate.rate=5mbit -o results/
";

/// Try rate limiters in virtual time, under real senders.
///
/// A scenario says who sends what through which limiters and links. It is simulated, packet by
/// packet, as fast as the machine can, and comes out the same on every machine.
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
  tidegate lab run home.toml -o results/          rows, pictures and captures, too
  tidegate lab run home.toml --by window -f csv | …
  tidegate lab example video | tidegate lab run - without a file

With --output, the folder gets points, flows, windows, elements, samples and transfers as Parquet,
a picture of each kind as SVG, and the captures of the scenario's taps, which `tidegate detect`
reads. `tidegate columns --by lab-flow` and so on describe what rows hold, docs/scenarios.md the
files.
";

/// Run a scenario, with all points of its sweep and all its seeds, on all cores.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, after_long_help = format!("{RUN_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Run {
    /// The scenario, or `-` for standard input
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Replace a value of the scenario, and what its sweep has for it; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Run with this seed only
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How long the scenario lasts, such as 30s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Simulations at the same time [default: the number of cores]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<usize>,
    /// A folder for all results; it is made if it is not there
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Format of what is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// What a row of it is
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
    /// What an element did; not as a table
    Element,
    /// The occupancy of a queue at a time, if the scenario samples it; not as a table
    Sample,
    /// A transfer that was completed; not as a table
    Transfer,
}

/// Say whether scenarios are sound, and how much there is to simulate.
#[derive(Debug, Args)]
pub struct Check {
    /// Scenarios, or `-` for standard input
    #[arg(value_name = "SCENARIO", required = true)]
    pub scenarios: Vec<PathBuf>,
    /// Replace a value of them; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Print a scenario that comes with Tidegate, or list them.
#[derive(Debug, Args)]
pub struct Example {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
