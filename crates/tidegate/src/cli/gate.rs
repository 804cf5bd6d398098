//! The command line of `tidegate gate`.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tidegate_gate::config::Log;
use tidegate_limiter::Rate;

use super::EXIT_CODES;

const GATE_EXAMPLES: &str = "\
Examples:
  tidegate gate check gate.toml            check the configuration, and show what it would limit
  sudo tidegate gate up gate.toml          limit from now on, without a process
  sudo tidegate gate status                show what was counted
  sudo tidegate gate set alice --down 20mbit
  sudo tidegate gate reload                apply changes of gate.toml
  sudo tidegate gate top                   watch the gate live
  sudo tidegate gate run gate.toml         limit, and serve the HTTP API and metrics
  sudo tidegate gate down                  remove all limits, and leave nothing behind

The limits are in the kernel, not in a process. They stay in force when every tidegate process has
ended or was killed.
All commands except check, openapi and schema need root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN
(docs/explanation/gate.md).
docs/reference/gate-configuration.md describes the file, docs/reference/gate-api.md the HTTP API and
the metrics.
";

/// Limit subscribers' rates in this machine's kernel.
///
/// Every subscriber gets the rate of its plan. The plan also says how the subscriber's flows share
/// that rate. The limiter is BC-PQP in an eBPF program: it delays no packets and needs no dedicated
/// cores. `up` attaches it to interfaces. `run` does the same, and stays to serve the HTTP API.
/// `down` removes it.
#[derive(Debug, Args)]
#[command(after_help = GATE_EXAMPLES, after_long_help = format!("{GATE_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Gate {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub folder: StateFolder,
}

/// The state folder, which distinguishes several gates on one machine.
#[derive(Debug, Clone, Args)]
pub struct StateFolder {
    /// State folder of the gate: the key `state` of its configuration
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
    Wire(Wire),
    Down(Down),
    Status(Status),
    Reload(Reload),
    Set(Set),
    Assign(Assign),
    Release(Release),
    Flows(Flows),
    Usage(Usage),
    Top(Top),
    Openapi(Openapi),
    /// Print a description of every key of the configuration, as Markdown
    Schema,
}

/// How imported files are read.
#[derive(Debug, Clone, Copy, Args)]
pub struct Imports {
    /// Skip lines with mistakes in imported CSV files, and list them; their subscribers are not limited
    #[arg(long)]
    pub lenient: bool,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  tidegate gate check gate.toml
  tidegate gate check gate.toml && sudo tidegate gate reload
  tidegate gate check --lenient gate.toml         list the lines that would be skipped
  tidegate gate check gate.toml --dpdk wan=0000:03:00.0 --dpdk lan=0000:03:00.1
";

/// Check configurations, and show what they would limit.
///
/// Needs no privileges and changes nothing. Each error names its file, line and column. Files that the daemon
/// reads when it starts are read too: tokens, certificates, the secret of RADIUS.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES, after_long_help = format!("{CHECK_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Check {
    /// Configuration files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub imports: Imports,
    #[command(flatten)]
    pub devices: OnDpdk,
}

const UP_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate up gate.toml
  sudo tidegate gate status
";

/// Limit from now on, and return.
///
/// The limits stay in force without a process, until `down` or until the machine restarts. The command
/// fails if the gate is up already: use `reload` then, which applies what has changed.
#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES, after_long_help = format!("{UP_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Up {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub imports: Imports,
}

const RUN_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate run /etc/tidegate/gate.toml
  systemctl enable --now tidegate-gate            run the gate as a service
  curl --unix-socket /run/tidegate/api.sock http://gate/v1/status
  curl http://127.0.0.1:9642/metrics              if metrics.listen is 127.0.0.1:9642
  sudo tidegate gate run gate.toml --dpdk wan=0000:03:00.0 --dpdk lan=0000:03:00.1 --eal '-l 0,1'

SIGHUP reloads the configuration. SIGTERM and SIGINT end the daemon, and the limits stay in force.
They also stay in force if the daemon is killed. The next daemon takes them over. `tidegate gate
down` removes them. With --dpdk the packets pass through this process: when it ends, none pass.
If it dies, another process passes all of them without limits, until the daemon starts again.
";

/// Limit from now on, and serve the HTTP API and metrics.
///
/// If the gate is up already, the daemon takes it over and applies what has changed in the
/// configuration.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, after_long_help = format!("{RUN_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Run {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub imports: Imports,
    #[command(flatten)]
    pub devices: OnDpdk,
    /// With --dpdk: if this process dies, let no packet pass. Otherwise a process stands by, and passes all of them without limits
    #[arg(long, requires = "dpdk")]
    pub no_wire: bool,
    /// Format of the log on standard error [default: the key `log` of the configuration]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Least severe level to log: error, warn, info, debug or trace; or rules such as tidegate=debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// What the packets of a gate on DPDK pass through.
#[derive(Debug, Clone, Args)]
pub struct OnDpdk {
    /// Pass packets by DPDK instead of the kernel, between these two devices: each is a name, which for `run` is an interface
    /// of the file, and a PCI address or a virtual device with its arguments
    #[arg(long, value_name = "INTERFACE=DEVICE")]
    pub dpdk: Vec<String>,
    /// Arguments for DPDK's environment abstraction layer, such as '-l 0,2-3'
    #[arg(
        long,
        value_name = "ARGUMENTS",
        requires = "dpdk",
        allow_hyphen_values = true,
        default_value = ""
    )]
    pub eal: String,
}

const WIRE_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate wire --dpdk wan=0000:03:00.0 --dpdk lan=0000:03:00.1 --eal '-l 0,1'

SIGTERM, SIGINT and `tidegate gate down` end it, and so does the next `tidegate gate run` with the
same state folder. No packet passes after that, or those that the gate lets pass.
";

/// Pass all packets between two devices of DPDK, and limit none.
///
/// The daemon of `tidegate gate run --dpdk` has such a process stand by, which passes the packets if the daemon dies.
/// By hand, it shows whether devices and cables work, or bridges the time until a gate can be started.
#[derive(Debug, Args)]
#[command(after_help = WIRE_EXAMPLES, after_long_help = format!("{WIRE_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Wire {
    #[command(flatten)]
    pub devices: OnDpdk,
    /// Begin when the process with this number dies, which has the other end of standard input
    #[arg(long, hide = true, value_name = "PROCESS")]
    pub stands_by: Option<u32>,
    /// How often it tries to open the devices then
    #[arg(long, hide = true, value_name = "NUMBER", default_value_t = 1)]
    pub tries: u32,
    /// The gate's log of events
    #[arg(long, hide = true, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Format of the log on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Least severe level to log: error, warn, info, debug or trace; or rules such as tidegate=debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text per event
    Text,
    /// One JSON object per line
    Json,
}

impl From<LogFormat> for Log {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

/// Remove all limits, and leave nothing behind.
///
/// All traffic passes unlimited from then on. If a daemon runs, it ends. The command also works if
/// interfaces have disappeared or the state was lost. The files in the state folder are removed too: give --state if
/// the configuration has the key `state`.
#[derive(Debug, Args)]
#[command(after_help = DOWN_EXAMPLES, after_long_help = format!("{DOWN_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Down {
    /// Folder of the gate's maps and programs, if the state was lost: the key `pins` of the configuration
    ///
    /// The pins do not tell where the state is. If it was not lost, its files stay in the folder that the key `state`
    /// names, unless --state names this folder too. They limit nothing, and the next `up` replaces them.
    #[arg(long, value_name = "DIR")]
    pub pins: Option<PathBuf>,
}

const DOWN_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate down
  sudo tidegate gate down --state /run/other          remove the gate with this state folder
  sudo tidegate gate down --pins /sys/fs/bpf/other    remove a gate whose state was lost
";

const STATUS_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate status                   sums, and the subscribers with most bytes
  sudo tidegate gate status alice             one subscriber, with its queues
  sudo tidegate gate status --all --sort drops
  sudo tidegate gate status --all --json | jq '.subscribers[] | select(.set)'
  sudo tidegate gate status --csv > usage.csv

Bytes and packets are counted from the time when the subscriber was added. `top` shows rates.
";

/// Show interfaces, subscribers and their counters.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES, after_long_help = format!("{STATUS_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Status {
    /// Show only this subscriber, with its queues
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON, in the form of the HTTP API
    #[arg(long)]
    pub json: bool,
    /// Print the counters of all subscribers as CSV: a line for each subscriber and direction
    #[arg(long, conflicts_with_all = ["json", "name", "limit"])]
    pub csv: bool,
    /// Order of subscribers
    #[arg(
        long,
        value_name = "KEY",
        default_value = "bytes",
        conflicts_with = "name"
    )]
    pub sort: SortStatus,
    /// Number of subscribers to show
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
  sudo tidegate gate reload                   read the same file again
  sudo tidegate gate reload new.toml          use another file from now on
";

/// Apply what has changed in the configuration.
///
/// Only differences are applied: no packet is lost, and unchanged subscribers keep their counters and
/// queues. A file with errors changes nothing. Changes made by `set` stay in force until `set --reset`,
/// or until the file changes that subscriber.
#[derive(Debug, Args)]
#[command(after_help = RELOAD_EXAMPLES, after_long_help = format!("{RELOAD_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Reload {
    /// Configuration file to use from now on
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub imports: Imports,
}

const SET_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate set alice --down 20mbit            another rate down
  sudo tidegate gate set alice --plan gold              another plan
  sudo tidegate gate set alice --down 50mbit --up 10mbit
  sudo tidegate gate set alice --key quota=500GB --key quota-plan=slow
  sudo tidegate gate set alice --key boost=10MB --key 'policy={ hosts = [4, 4] }'
  sudo tidegate gate set alice --key boost=             as in the plan again
  sudo tidegate gate set alice --suspend                drop all packets
  sudo tidegate gate set alice --reset                  back to the configuration
";

/// Change one subscriber, live.
///
/// Values that you do not give stay as they are. The command prints what holds from now on. The change stays in force across reloads and restarts of the
/// daemon, until --reset, or until the configuration changes the subscriber.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES, after_long_help = format!("{SET_EXAMPLES}\n{EXIT_CODES}"))]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["down", "up", "plan", "keys", "suspend", "resume", "from_port", "from_mac", "from_vlan", "reset"]))]
pub struct Set {
    /// Name of the subscriber
    #[arg(value_name = "NAME")]
    pub name: String,
    /// New rate to the subscriber, such as 50mbit
    #[arg(long, value_name = "RATE")]
    pub down: Option<Rate>,
    /// New rate from the subscriber
    #[arg(long, value_name = "RATE")]
    pub up: Option<Rate>,
    /// New plan
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// A key of its plan with another value, as in the configuration; without a value: as in the plan
    ///
    /// The key holds on top of any plan that the subscriber has. `quota=none` takes the quota away.
    #[arg(long = "key", value_name = "KEY=VALUE", value_parser = tidegate_gate::config::plan_key)]
    pub keys: Vec<(String, serde_json::Value)>,
    /// Drop all its packets
    #[arg(long, conflicts_with = "resume")]
    pub suspend: bool,
    /// Drop its packets no longer, also if it is suspended in the configuration
    #[arg(long)]
    pub resume: bool,
    /// Interface where its packets come in; "" for any
    #[arg(long, value_name = "NAME")]
    pub from_port: Option<String>,
    /// MAC address that its packets come from; "" for any
    #[arg(long, value_name = "ADDRESS")]
    pub from_mac: Option<String>,
    /// VLAN tag that its packets have, or the outer and the inner one, such as 100.200; "" for any
    #[arg(long, value_name = "TAGS")]
    pub from_vlan: Option<String>,
    /// Return to the configuration's plan and rates, before anything else that is given
    #[arg(long)]
    pub reset: bool,
}

const ASSIGN_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate assign alice 192.0.2.7               from a script of a DHCP server
  sudo tidegate gate assign alice --only 192.0.2.7        and no other address from now on
  sudo tidegate gate assign \"$PEERNAME\" \"$IPREMOTE\"     in /etc/ppp/ip-up.d
  sudo tidegate gate assign alice \"vlan 7\" \"pppoe 12\"
  sudo tidegate gate assign alice --reset                 the addresses of the configuration
";

/// Give addresses, tags or sessions to a subscriber, live.
///
/// Another subscriber that has them loses them. They stay assigned across reloads and restarts of the daemon, until
/// they are released, or until the configuration gives them to a subscriber that did not have them there before.
#[derive(Debug, Args)]
#[command(after_help = ASSIGN_EXAMPLES, after_long_help = format!("{ASSIGN_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Assign {
    /// Name of the subscriber
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Addresses, prefixes, ranges, or `vlan N`, `qinq N.N`, `pppoe N`
    #[arg(value_name = "ADDRESS", required_unless_present = "reset")]
    pub what: Vec<String>,
    /// The subscriber loses all others of the same kind
    #[arg(long)]
    pub only: bool,
    /// Return to the addresses and tags of the configuration, before anything else that is given
    #[arg(long)]
    pub reset: bool,
}

const RELEASE_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate release 192.0.2.7        from a script of a DHCP server
  sudo tidegate gate release \"$IPREMOTE\"     in /etc/ppp/ip-down.d
";

/// Take addresses, tags or sessions from the subscribers that have them, live.
///
/// They go back to the subscriber that has them in the configuration, if this is another one. Otherwise their
/// packets match no subscriber.
#[derive(Debug, Args)]
#[command(after_help = RELEASE_EXAMPLES, after_long_help = format!("{RELEASE_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Release {
    /// Addresses or prefixes as they were assigned, or `vlan N`, `qinq N.N`, `pppoe N`
    #[arg(value_name = "ADDRESS", required = true)]
    pub what: Vec<String>,
}

const FLOWS_EXAMPLES: &str = "\
Examples:
  sudo tidegate gate flows alice              rates over a second, the fastest flows first
  sudo tidegate gate flows alice --over 10s --limit 5
  sudo tidegate gate flows alice --json       counters since each flow was first seen

ACCESS is the latest round trip between the gate and the subscriber, CORE the latest one between
the gate and the server. DROPS are packets that exceeded the limit, MARKS packets that the gate
marked as congested, AGAIN segments that TCP sent again.
";

/// Show the flows of one subscriber: rates, drops, marks, round trips.
///
/// The configuration must have `[watch]`. The list has the flows that sent in the last minute.
#[derive(Debug, Args)]
#[command(after_help = FLOWS_EXAMPLES, after_long_help = format!("{FLOWS_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Flows {
    /// Name of the subscriber
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Time over which rates are measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub over: Duration,
    /// Print counters as JSON, in the form of the HTTP API
    #[arg(long, conflicts_with = "over")]
    pub json: bool,
    /// Most flows to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
}

/// Print what each subscriber used in its month, as CSV.
///
/// A daemon counts it if the configuration has `[usage]`; the command fails without. `status --csv` has the counters since a subscriber was added.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo tidegate gate usage > usage.csv
")]
pub struct Usage {}

const TOP_EXAMPLES: &str = "\
Keys:
  q, Esc, Ctrl-C   quit                 p, Space   pause
  d, u, x          sort by rate down, rate up, drops; again: reverse
  a, m, n          sort by active flows, magic bytes, name
  /                filter by name; Enter keeps the filter, Esc clears it
  Up, Down, PgUp, PgDn, Home, End       move
  + -              refresh less often, more often
";

/// Watch rates, drops, active flows and magic bytes of subscribers, live.
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES, after_long_help = format!("{TOP_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Top {
    /// Time between refreshes
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// First order of subscribers
    #[arg(long, value_name = "KEY", default_value = "down")]
    pub sort: SortTop,
    /// Show only subscribers whose name contains this
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
        Err("the interval must be between 100ms and 1h".into())
    }
}
