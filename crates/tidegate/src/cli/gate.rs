//! The command line of `tidegate gate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tidegate_limiter::Rate;

use super::EXIT_CODES;

const GATE_EXAMPLES: &str = "\
Examples:
  tidegate gate check gate.toml            is the configuration sound, and what would it run?
  sudo tidegate gate up gate.toml          limit from now on, without any process
  sudo tidegate gate status                what is counted
  sudo tidegate gate set alice --down 20mbit
  sudo tidegate gate reload                after a change of gate.toml
  sudo tidegate gate top                   a live view
  sudo tidegate gate run gate.toml         limit, and serve the HTTP API and metrics
  sudo tidegate gate down                  take it off, and leave nothing

Limits are in the kernel, not in a process: they hold when every tidegate has ended, or was killed.
All commands but check and openapi need root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN (docs/explanation/gate.md).
docs/reference/gate-configuration.md describes the file, docs/reference/gate-api.md the HTTP API and the metrics.
";

/// Limit subscribers' rates in this machine's kernel.
///
/// Every subscriber gets its plan's rate, shared among its flows as the plan says, without queues and
/// without dedicated cores (BC-PQP, as an eBPF program). `up` attaches the limiter to interfaces,
/// `run` does too and stays to serve the HTTP API, `down` takes it off.
#[derive(Debug, Args)]
#[command(after_help = GATE_EXAMPLES, after_long_help = format!("{GATE_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Gate {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub place: Place,
}

/// Where a gate keeps what it has, to tell several on one machine apart.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Folder of the state of a gate that is up, `state` of its configuration
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value = "/run/tidegate",
        help_heading = "Where"
    )]
    pub state: PathBuf,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Check(Check),
    Up(Up),
    Run(Run),
    Down(Down),
    Status(Status),
    Reload(Reload),
    Set(Set),
    Top(Top),
    Openapi(Openapi),
    /// Describe every key of configurations, as Markdown
    Schema,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  tidegate gate check gate.toml
  tidegate gate check gate.toml && sudo tidegate gate reload
";

/// Say whether configurations are sound, and what they would run.
///
/// Needs no rights and changes nothing. Errors come with their place.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES, after_long_help = format!("{CHECK_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Check {
    /// Configurations
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

const UP_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate up gate.toml
  sudo tidegate gate status
";

/// Limit from now on, and return.
///
/// The limits hold without a process, until `down` or the machine's restart. Fails if the gate is up
/// already: then `reload` applies what has changed.
#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES, after_long_help = format!("{UP_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Up {
    /// The configuration
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

const RUN_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate run /etc/tidegate/gate.toml
  systemctl enable --now tidegate-gate            the same, as a service
  curl --unix-socket /run/tidegate/api.sock http://gate/v1/status
  curl http://127.0.0.1:9642/metrics              where metrics.listen says so

SIGHUP reloads the configuration. SIGTERM and SIGINT end the daemon and leave the limits in place, as
does its death: started again, it takes them over. `tidegate gate down` removes them.
";

/// Limit from now on, and serve the HTTP API and metrics.
///
/// Takes over a gate that is up, and applies what has changed in the configuration since.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, after_long_help = format!("{RUN_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Run {
    /// The configuration
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the log, on standard error [default: `log` of the configuration]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What to log: error, warn, info, debug or trace, or rules such as tidegate=debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line each, for people
    Text,
    /// An object a line
    Json,
}

/// Take the limits off, and leave nothing behind.
///
/// Traffic passes unlimited from then on. A daemon that runs is ended. Interfaces that are gone do not
/// hinder it, nor does a state that was lost.
#[derive(Debug, Args)]
#[command(after_help = DOWN_EXAMPLES, after_long_help = format!("{DOWN_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Down {
    /// Folder of what is in the kernel, `pins` of the configuration, if the state was lost
    #[arg(long, value_name = "DIR")]
    pub pins: Option<PathBuf>,
}

const DOWN_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate down
  sudo tidegate gate down --pins /sys/fs/bpf/other    a gate whose state was lost
";

const STATUS_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate status                   the whole, and the heaviest subscribers
  sudo tidegate gate status alice             one subscriber, with its queues
  sudo tidegate gate status --all --sort drops
  sudo tidegate gate status --all --json | jq '.subscribers[] | select(.set)'

Bytes and packets are counted since the subscriber's limiter came to be; `top` shows rates.
";

/// Show what is limited, and what was counted.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES, after_long_help = format!("{STATUS_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Status {
    /// Only this subscriber, with its queues
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// As JSON, as the HTTP API has it
    #[arg(long)]
    pub json: bool,
    /// Order of subscribers
    #[arg(
        long,
        value_name = "KEY",
        default_value = "bytes",
        conflicts_with = "name"
    )]
    pub sort: SortStatus,
    /// How many subscribers to show
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        default_value_t = 20,
        conflicts_with = "name"
    )]
    pub limit: usize,
    /// Show all subscribers
    #[arg(short, long, conflicts_with_all = ["limit", "name"])]
    pub all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortStatus {
    /// Most bytes first
    Bytes,
    /// Most packets beyond the limit first
    Drops,
    /// By name
    Name,
}

const RELOAD_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate reload                   the file again that is in force
  sudo tidegate gate reload new.toml          another one from now on
";

/// Apply what has changed in the configuration.
///
/// Only what differs is touched: no packet is lost, and no counter or queue of a subscriber that is
/// as before. A file with errors changes nothing. What `set` changed stays so until `set --reset`, or
/// until the file says something else of that subscriber.
#[derive(Debug, Args)]
#[command(after_help = RELOAD_EXAMPLES, after_long_help = format!("{RELOAD_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Reload {
    /// Another configuration from now on
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

const SET_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate set alice --down 20mbit            throttled
  sudo tidegate gate set alice --plan gold              upgraded
  sudo tidegate gate set alice --down 50mbit --up 10mbit
  sudo tidegate gate set alice --reset                  as the file has it
";

/// Change one subscriber, live.
///
/// What is not given stays. It holds across reloads and restarts of the daemon, until --reset, or until
/// the file says something else of the subscriber.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES, after_long_help = format!("{SET_EXAMPLES}\n{EXIT_CODES}"))]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["down", "up", "plan", "reset"]))]
pub struct Set {
    /// The subscriber
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its rate down, such as 50mbit
    #[arg(long, value_name = "RATE")]
    pub down: Option<Rate>,
    /// Its rate up
    #[arg(long, value_name = "RATE")]
    pub up: Option<Rate>,
    /// Its plan
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// As the configuration has it, before anything else that is given
    #[arg(long)]
    pub reset: bool,
}

const TOP_EXAMPLES: &str = "\
Keys:
  q, Esc, Ctrl-C   quit                 p, Space   pause
  d, u, x, a, m, n sort by rate down, rate up, drops, active flows, magic, name; again: reversed
  /                filter by name; Enter keeps it, Esc clears it
  Up, Down, PgUp, PgDn, Home, End       move
  + -              refresh less often, more often
";

/// A live view: rates, drops, active flows, magic fill, heaviest subscribers.
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES, after_long_help = format!("{TOP_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Top {
    /// Time between refreshes
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Order to begin with
    #[arg(long, value_name = "KEY", default_value = "down")]
    pub sort: SortTop,
    /// Only subscribers whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortTop {
    /// Rate down
    Down,
    /// Rate up
    Up,
    /// Rate of bytes beyond the limit
    Drops,
    /// Flows with bytes in their queues, of the heaviest subscribers
    Active,
    /// Bytes of magic in queues, of the heaviest subscribers
    Magic,
    /// Name
    Name,
}

/// Print the HTTP API's description (OpenAPI 3.1, JSON).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate gate openapi > openapi.json
")]
pub struct Openapi {}

fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        Ok(time)
    } else {
        Err("between 100ms and 1h".into())
    }
}
