//! The command line of `tidegate advise`.

use std::path::PathBuf;

use clap::Args;
use tidegate_limiter::{Bytes, Rate};

use super::EXIT_CODES;

const EXAMPLES: &str = "\
Examples:
  tidegate advise --rate 10mbit --burst 32kB
  tidegate advise --rate 10mbit --burst 32kB --rtt 20ms..100ms --flows 4 --cc cubic,bbr
  tidegate advise police cir 10m bc 312500 conform-action transmit exceed-action drop
  tidegate advise 'if-exceeding { bandwidth-limit 10m; burst-size-limit 625k; }'
  tidegate advise tc filter add dev eth0 ingress matchall action police rate 10mbit burst 32k drop
  tidegate advise 'limit rate over 1250 kbytes/second burst 32 kbytes drop'
  tidegate advise --config router.conf --users 8     the first limit in a configuration
  tidegate advise server.pcap                        the limit that the capture shows
  tidegate advise --rate 20mbit --queue 300kB        a shaper
  tidegate advise --rate 10mbit --burst 32kB --svg before-and-after.svg --gate gate.toml
  tidegate advise --rate 10mbit --burst 32kB --json | jq '.options[.chosen].words'

Understood are `police` and `shape average` of Cisco IOS and IOS XR, `if-exceeding` of Junos, `police`,
`tbf` and `htb` of Linux tc, and `limit rate … bytes` of nftables, each in its vendor's units.
docs/reference/advise.md describes the results.
";

/// Say what a rate limit does to its users, and what to set instead.
///
/// Simulates real senders behind the limit: downloads, a video and short transfers. Then it simulates
/// what could be set instead: another bucket, a shaper, phantom queues (BC-PQP), senders that pace. It
/// prints the effects beside each other, and what to type.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"))]
pub struct Advise {
    /// The limit as a router's configuration writes it, as one argument or several; or a capture of traffic that
    /// it limited
    #[arg(value_name = "ROUTER-LINE|CAPTURE", conflicts_with_all = ["config", "rate"])]
    pub line: Vec<String>,
    /// A router's configuration, or `-` for standard input: its first limit
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    pub config: Option<PathBuf>,
    /// The limit's rate, such as 10mbit
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub rate: Option<Rate>,
    /// The depth of a policer's bucket, such as 32kB; with --queue, what a shaper lets pass at once [default: a packet]; with a
    /// router's line or a capture, where that does not say it
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub burst: Option<Bytes>,
    /// The limit is a shaper with a queue of this size, such as 300kB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub queue: Option<Bytes>,
    /// Which bytes the limit counts: 2 with Ethernet headers, 3 from the IP header on [default: 2; 3 for nftables, and
    /// for tc where packets arrive]
    #[arg(long, value_name = "LAYER", value_parser = clap::value_parser!(u8).range(2..=3))]
    pub layer: Option<u8>,
    /// Round-trip time of the users' connections, or the range of it [default: 20ms..100ms, or that of the capture]
    #[arg(long, value_name = "TIME", help_heading = "Users")]
    pub rtt: Option<String>,
    /// Connections of a user that download at the same time
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Users")]
    pub flows: usize,
    /// Users who share the limit: the first has all of --flows, each other one has one connection
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Users")]
    pub users: usize,
    /// Congestion controls of the servers, which they have in turn: cubic, bbr, bbr3, reno, vegas, dctcp, prague
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "cubic,bbr",
        help_heading = "Users"
    )]
    pub cc: Vec<String>,
    /// Bitrate of the video [default: 80 % of an equal share, at most 8mbit]
    #[arg(long, value_name = "RATE", help_heading = "Users")]
    pub video: Option<Rate>,
    /// Rate of the links between servers and limit [default: ten times the limit's rate, at least 1gbit]
    #[arg(long, value_name = "RATE", help_heading = "Users")]
    pub link: Option<Rate>,
    /// Print everything as a JSON object
    #[arg(long)]
    pub json: bool,
    /// Draw the rates over time, before and after, to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the gate.toml for BC-PQP to this file, also if something else is advised
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,
    /// The first seed of the simulations
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Simulations"
    )]
    pub seed: u64,
    /// How many seeds [default: what a few seconds allow, at most 64, and more of today's limit and the advised one where
    /// it is not known what the change improves]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000), help_heading = "Simulations")]
    pub seeds: Option<u64>,
    /// How long each simulation of downloads lasts, such as 30s [default: 30s, less at high rates]
    #[arg(long, value_name = "TIME", help_heading = "Simulations")]
    pub duration: Option<String>,
    /// Number of simulations at the same time [default: the number of cores]
    #[arg(short, long, value_name = "N", help_heading = "Simulations")]
    pub jobs: Option<usize>,
}
