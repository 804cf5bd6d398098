//! The command line of `tidegate shell`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::EXIT_CODES;

const SHELL_EXAMPLES: &str = "\
Examples:
  sudo tidegate shell delay 25ms             a shell whose packets take 25 ms each way
  sudo tidegate shell policer 3mbit burst 32kB -- curl -O https://example.org/file
  sudo tidegate shell delay 25ms link 10mbit queue 100kB -- iperf3 -R -c server
  sudo tidegate shell bc-pqp 3mbit 'policy' '{ fair = 4 }' up link 1mbit
  sudo tidegate shell delay 25ms -- tidegate shell bc-pqp 3mbit -- chromium --no-sandbox
  sudo tidegate shell link trace LTE.down up link trace LTE.up
  sudo tidegate shell home.toml --status     the elements of a scenario file
  tidegate shell policer 3mbit -- ./my-test  without root
  sudo tidegate shell policer 3mbit -o results/ -- ./my-test

With --output, the folder gets outside.pcap and inside.pcap, the packets of both directions before and
after the elements, and windows.parquet and elements.parquet (`tidegate columns --by shell-window`).

An element is a kind (policer, srtcm, trtcm, fair-policer, pqp, bc-pqp, bc-pqp-paper, shaper, link,
delay, loss, reorder), its main value, and other keys of scenario files with their values. Elements
are written in the order in which packets from outside pass them. Delays hold packets of both
directions; all others hold downloads, which come from outside. The words `up`, `down` and
`both` change this for the elements after them.

It needs /dev/net/tun, and the commands `ip` and `nft`. Without root it makes namespaces of the user, and
reaches the network outside by the command `slirp4netns`, which ends TCP connections. The exit code is
that of the command; 1 if the command's is 0 and the results could not be written.
docs/how-to/run-behind-a-limiter.md shows more.
";

/// Run a shell or a command behind a limiter, a link or a delay, in real time.
///
/// The command has a network of its own. Its packets pass the elements, and leave with this machine's
/// addresses. Nothing else on this machine changes, and nothing stays when the command has ended.
#[derive(Debug, Args)]
#[command(after_help = SHELL_EXAMPLES, after_long_help = format!("{SHELL_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Shell {
    /// The elements that packets pass, such as `delay 25ms policer 3mbit burst 32kB`; or a scenario file, whose flows'
    /// path is that of the shell
    #[arg(value_name = "ELEMENT")]
    pub elements: Vec<String>,
    /// The round trip for which sizes are chosen that you do not write, such as 100ms
    /// [default: that of the delays, at least 100ms]. Scenario files have `rtt`
    #[arg(long, value_name = "TIME")]
    pub rtt: Option<String>,
    /// The seed of random losses and delays [default: that of the scenario file, or 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Show rate, drops and queue of both directions in the terminal's title, each second
    #[arg(long)]
    pub status: bool,
    /// Keep the processors awake while the shell is open, so that packets leave in time also on an idle machine: a
    /// thread for each processor runs at the lowest priority
    #[arg(long)]
    pub awake: bool,
    /// A folder for captures at both ends and tables of what happened; it is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Bytes that captures keep of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=262_144), requires = "output")]
    pub snaplen: u32,
    /// The command and its arguments [default: the shell that SHELL names]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// This process is the first one in the shell of the process with this number
    #[arg(long, hide = true, value_name = "PROCESS")]
    pub inside: Option<u32>,
    /// The text of this shell's /etc/resolv.conf, if that differs from the machine's
    #[arg(long, hide = true, value_name = "TEXT", requires = "inside")]
    pub names: Option<String>,
}
