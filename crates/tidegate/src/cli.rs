//! The command line: every option, once, for parsing, help, completions and manual pages.

pub mod advise;
pub mod dataset;
mod format;
#[cfg(feature = "gate")]
pub mod gate;
pub mod lab;
#[cfg(feature = "sample")]
pub mod sample;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(target_os = "linux")]
pub mod shell;
#[cfg(feature = "web")]
pub mod web;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tidegate_limiter::Rate;
use tidegate_trace::detect::{self, DETECTORS, Detector, Entry, Extent};
use tidegate_trace::flow::Settings;
use tidegate_trace::pair::MOST_PACKETS;

pub use format::Format;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    some input was bad (results up to that point are reported), or output failed
  2    wrong command line
  3    a right, a device or a kernel feature is missing (gate, lab kernel, pace, sample, shell)
  130  interrupted; results up to that point are reported";

/// Finds rate limits in packet captures, tries better ones, and enforces them.
///
/// Tidegate reads captures of TCP traffic and says what limited each transfer, at what rate, and why. It
/// simulates limiters with real senders, enforces rates in the Linux kernel, and serves video at its rate.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of all commands.
#[derive(Debug, Args)]
pub struct Common {
    /// When to colour output; `auto` obeys NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Show no progress bar, and no line about a live change that was made
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Detect(Detect),
    Explain(Explain),
    Diagnose(Diagnose),
    Advise(advise::Advise),
    #[cfg(feature = "gate")]
    Gate(gate::Gate),
    #[cfg(not(feature = "gate"))]
    Gate(NotBuilt),
    Lab(lab::Lab),
    #[cfg(feature = "sample")]
    Sample(sample::Sample),
    #[cfg(not(feature = "sample"))]
    Sample(NotBuilt),
    #[cfg(target_os = "linux")]
    Shell(shell::Shell),
    #[cfg(feature = "serve")]
    Serve(serve::Serve),
    #[cfg(not(feature = "serve"))]
    Serve(NotBuilt),
    #[cfg(feature = "serve")]
    Pace(Pace),
    #[cfg(not(feature = "serve"))]
    Pace(NotBuilt),
    #[cfg(feature = "serve")]
    Play(serve::Play),
    #[cfg(not(feature = "serve"))]
    Play(NotBuilt),
    #[cfg(feature = "serve")]
    MakeVideo(serve::MakeVideo),
    #[cfg(not(feature = "serve"))]
    MakeVideo(NotBuilt),
    #[cfg(feature = "web")]
    Web(web::Web),
    #[cfg(not(feature = "web"))]
    Web(NotBuilt),
    Columns(Columns),
    Completions(Completions),
    Man(Man),
}

const PACE_EXAMPLES: &str = "\
Examples:
  tidegate pace                          checks this process's cgroup
  tidegate pace --cgroup /sys/fs/cgroup/system.slice/nginx.service

`tidegate serve` paces by itself. Other servers use the library, in Rust or C: see
docs/how-to/pace-your-own-server.md. The exit code is 3 if only the fallback works, because the kernel
(Linux 6.12 with BTF) or the rights (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN) are missing.
";

/// Check whether the kernel can keep servers' sockets at a rate (Trickle).
///
/// Loads the programs that bound TCP's congestion window, attaches them to a cgroup, and removes
/// them again.
#[derive(Debug, Args)]
#[command(after_help = PACE_EXAMPLES)]
pub struct Pace {
    /// The cgroup whose sockets are to be paced [default: the one of this process]
    #[arg(long, value_name = "FOLDER")]
    pub cgroup: Option<PathBuf>,
}

const DETECT_EXAMPLES: &str = "\
Examples:
  tidegate detect transfer.pcap              a table of every transfer, and a summary
  tidegate detect /var/captures              all captures in a folder and its subfolders
  ssh server cat x.pcap.gz | tidegate detect one capture from standard input
  tcpdump -s 128 -w - tcp | tidegate detect --follow
                                             judges during the capture; Ctrl-C ends it
  tidegate detect -f csv -o rows.csv *.pcapng
  tidegate detect --join eth0-*.pcap         the files of a capture that tcpdump -G rotated
  tidegate detect -f jsonl big.pcap | jq 'select(.policed_any)'
  tidegate detect --by flow -f parquet -o flows.parquet captures/
  tidegate detect --by client captures/      what limited each client
  tidegate detect --by packet -f csv x.pcap  every data packet: lost, RTT, in flight …
  tidegate detect --summary captures/        only the summary
  tidegate detect --dataset rows/ --asn asn.mmdb captures/
                                             Parquet by date and hour; each capture is analysed once
  tidegate detect --dataset rows/ --follow captures/
                                             the same, and captures that arrive later

Captures are pcap or pcapng, plain or compressed with gzip, xz or zstd. Take them where the data
is sent (at the server), with at least 128 bytes of each packet. `tidegate columns` describes the
machine-readable formats. docs/explanation/detectors.md explains the detectors.
";

/// Find out what limited each transfer in captures.
///
/// A segment is a request and its response. A transfer is the data that one endpoint sent in a segment.
/// Tidegate annotates it packet by packet (losses, round-trip times, unnecessary retransmissions) and
/// judges it.
#[derive(Debug, Args)]
#[command(after_help = DETECT_EXAMPLES, after_long_help = format!("{DETECT_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Detect {
    /// Captures, folders of captures, or `-` for standard input (the default unless it is a terminal)
    #[arg(value_name = "CAPTURE")]
    pub captures: Vec<PathBuf>,
    #[command(flatten)]
    pub pieces: Pieces,
    /// Output format [default: what the ending of --output says, such as .csv, else table]
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Write to this file, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What a row is
    #[arg(long, value_name = "WHAT", default_value = "segment")]
    pub by: By,
    /// Print only the summary: as text, or as an object with -f json
    #[arg(long)]
    pub summary: bool,
    /// Keep reading captures that still grow, and judge every transfer when it ends by the packets so far.
    /// With --dataset, wait for captures that arrive in the folders, and analyse each one when it is closed
    #[arg(long, conflicts_with = "join")]
    pub follow: bool,
    /// Show all rows in the table, including transfers that are too short to judge
    #[arg(short, long)]
    pub all: bool,
    /// Number of captures to read at the same time [default: the number of cores]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Only connections with this TCP port on either side; you may repeat the option
    #[arg(short, long, value_name = "PORT")]
    pub port: Vec<u16>,
    #[command(flatten)]
    pub into: dataset::Into,
    #[command(flatten)]
    pub analysis: Analysis,
}

/// How captures belong together.
#[derive(Debug, Clone, Args)]
pub struct Pieces {
    /// The captures are the pieces of one, as tcpdump -G and -C write: a connection may continue in
    /// the next one. They are read in the order of their first packets
    #[arg(long)]
    pub join: bool,
}

/// Options of the analysis.
#[derive(Debug, Clone, Args)]
pub struct Analysis {
    /// The detector: `tidegate` names the cause; `pd` (published code) and `pd-paper` (text of the paper) look for policers only
    #[arg(long, value_name = "NAME", default_value = DETECTORS[0].name, value_parser = PossibleValuesParser::new(DETECTORS.map(|entry| entry.name)), help_heading = "Analysis")]
    pub detector: String,
    /// What is judged together [default: client with `tidegate`, segment with the others]
    #[arg(long, value_name = "BASIS", help_heading = "Analysis")]
    pub basis: Option<Basis>,
    /// Begin no new segment when a request is sent again after its response began
    #[arg(long, help_heading = "Analysis")]
    pub join_repeated_requests: bool,
    /// Bitrate of video that the wait time assumes, such as 2.5mbit
    #[arg(
        long,
        value_name = "RATE",
        default_value = "2.5mbit",
        help_heading = "Analysis"
    )]
    pub playback_rate: Rate,
    /// A flow ends when it had no packets for this time, such as 90s or 5min
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = humantime::parse_duration, help_heading = "Analysis")]
    pub idle_timeout: Duration,
    /// Most flows to follow at once in a capture; with more, the flows that were quiet for longest are ended
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_flows, help_heading = "Analysis")]
    pub max_flows: usize,
}

/// The most that is taken together for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Basis {
    /// Each transfer alone
    Segment,
    /// All transfers of a connection
    Connection,
    /// All connections of a client
    Client,
}

impl From<Basis> for detect::Basis {
    fn from(basis: Basis) -> Self {
        match basis {
            Basis::Segment => Self::Segment,
            Basis::Connection => Self::Connection,
            Basis::Client => Self::Client,
        }
    }
}

/// The detector that the options choose.
#[derive(Debug, Clone, Copy)]
pub struct Chosen {
    entry: Entry,
    extent: Extent,
}

impl Chosen {
    /// The same, judging while the capture still comes in.
    pub fn following(mut self, causal: bool) -> Self {
        self.extent.causal = causal;
        self
    }

    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    pub fn basis(&self) -> detect::Basis {
        self.extent.basis
    }

    pub fn make(&self) -> Box<dyn Detector> {
        (self.entry.make)(self.extent)
    }
}

impl Detect {
    /// The format of the output.
    pub fn format(&self) -> Format {
        match Format::of(self.format, self.output.as_deref()) {
            // A summary has no rows, so only an object may follow from the ending.
            Format::Json => Format::Json,
            _ if self.summary && self.format.is_none() => Format::Table,
            other => other,
        }
    }
}

impl Diagnose {
    /// The format of the output.
    pub fn format(&self) -> Format {
        match self.json {
            true => Format::Table,
            false => Format::of(self.format, self.output.as_deref()),
        }
    }
}

impl Analysis {
    /// The detector.
    ///
    /// # Errors
    /// There is no such detector, it does not judge by what `--basis` asks for, or a bound is 0.
    pub fn detector(&self) -> Result<Chosen, UsageError> {
        if self.idle_timeout.is_zero() {
            return Err(UsageError("--idle-timeout must be more than 0".to_owned()));
        }
        if self.max_flows == 0 {
            return Err(UsageError("--max-flows must be at least 1".to_owned()));
        }
        let name = &self.detector;
        let entry = detect::by_name(name)
            .ok_or_else(|| UsageError(format!("there is no detector {name}")))?;
        let basis = self.basis.map_or(entry.widest, detect::Basis::from);
        if basis > entry.widest {
            let message = format!(
                "the detector {name} judges every {} alone: leave out --basis, or use --detector {}",
                entry.widest.name(),
                DETECTORS[0].name
            );
            return Err(UsageError(message));
        }
        let extent = Extent {
            basis,
            causal: false,
        };
        Ok(Chosen { entry, extent })
    }

    pub fn settings(&self) -> Settings {
        Settings {
            idle_timeout: u64::try_from(self.idle_timeout.as_nanos()).unwrap_or(u64::MAX),
            max_flows: self.max_flows,
            join_repeated_requests: self.join_repeated_requests,
            playback_bits_per_second: self.playback_rate.bits_per_second(),
            ..Settings::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The data that an endpoint sent in a request and its response
    Segment,
    /// The data that an endpoint sent in a connection
    Flow,
    /// All traffic of a client's address
    Client,
    /// A data packet and its fate; not as a table
    Packet,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  tidegate explain transfer.pcap                      the transfer that took longest
  tidegate explain transfer.pcap --flow 3             flow 3 of `tidegate detect transfer.pcap`
  tidegate explain transfer.pcap --flow 3 --segment 1 --svg burst.svg
  tidegate explain --join eth0-*.pcap                 the files of a capture that tcpdump -G rotated
  tidegate explain transfer.pcap --json | jq -r .headline
  zcat transfer.pcap.gz | tidegate explain - --flow 3 what can be read only once needs a flow's number

docs/reference/explain.md describes the fields of --json.
";

/// Explain what limited a transfer, what to do about it, and why this is the verdict.
///
/// The first line is the verdict in a sentence. Advice, evidence and the causes that were ruled out
/// follow. The picture goes to an SVG file. It shows data, losses and acknowledgements over time. Below
/// are the values behind the verdict: bytes in flight, round-trip times, the fitted limiter's level.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct Explain {
    /// The capture, or `-` for standard input; with --join all pieces of it, or their folder
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<PathBuf>,
    #[command(flatten)]
    pub pieces: Pieces,
    /// The flow's number, as `tidegate detect` gives it [default: that of the transfer that took
    /// longest, time without data in flight left out]
    #[arg(long, value_name = "N")]
    pub flow: Option<u64>,
    /// Only this segment of the flow [default: the longest; the picture shows the whole flow]
    #[arg(long, value_name = "N")]
    pub segment: Option<u32>,
    /// Whose data to explain [default: the side of the longest transfer]
    #[arg(long, value_name = "SIDE")]
    pub from: Option<Side>,
    /// Print everything as a JSON object instead of text; draw a picture only with --svg
    #[arg(long)]
    pub json: bool,
    /// The picture's file, or `-` to print it instead of the text [default: CAPTURE's name with
    /// -flow-N.svg, in this folder]
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw no picture
    #[arg(long, conflicts_with = "svg")]
    pub no_svg: bool,
    #[command(flatten)]
    pub analysis: Analysis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    Client,
    Server,
}

const DIAGNOSE_EXAMPLES: &str = "\
Examples:
  tidegate diagnose server.pcap client.pcap            what happened between the two places
  tidegate diagnose server.pcap client.pcap --json     all of it for programs
  tidegate diagnose a.pcap b.pcap -f csv -o rows.csv   a row for each direction of a connection
  tidegate diagnose --join server-*.pcap --other client-*.pcap
                                                       captures that tcpdump -G rotated
  tidegate diagnose server.pcap                        what one capture alone shows

The captures are of the same traffic, taken at two places at the same time. Neither their order
nor their clocks matter. Take at least 96 bytes of each packet.
docs/how-to/diagnose-with-two-captures.md shows how.
";

/// Compare two captures of the same traffic: which packets were lost between, and what dropped them.
///
/// Matches the packets of both captures, also through address translation and segmentation, and aligns
/// their clocks. Reports which packets were lost between the places and elsewhere, how long packets took,
/// and whether a policer, a queue or chance explains that.
#[derive(Debug, Args)]
#[command(after_help = DIAGNOSE_EXAMPLES)]
pub struct Diagnose {
    /// A capture, and one of the same traffic at another place; with --join the pieces of the first one,
    /// or their folder
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<PathBuf>,
    #[command(flatten)]
    pub pieces: Pieces,
    /// The capture at the other place; with --join its pieces, or their folder
    #[arg(long, value_name = "CAPTURE", num_args = 1..)]
    pub other: Vec<PathBuf>,
    /// Print everything as one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Print rows instead of text: one for each direction of a connection (csv, json, jsonl, parquet)
    /// [default: what the ending of --output says, such as .csv, else text]
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json")]
    pub format: Option<Format>,
    /// Write to this file, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw the picture to this file: transit times and the modelled queue, data in flight, losses
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw only from this time on, such as 1.2s after the first packet
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "svg")]
    pub from: Option<Duration>,
    /// Draw only up to this time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "svg")]
    pub to: Option<Duration>,
    /// Packets to keep of each capture; later packets are left out [about 140 bytes each]
    #[arg(long, value_name = "N", default_value_t = MOST_PACKETS)]
    pub max_packets: usize,
}

/// Describe the columns of the machine-readable formats.
#[derive(Debug, Args)]
pub struct Columns {
    /// What a row is
    #[arg(long, value_name = "WHAT", default_value = "segment")]
    pub by: Rows,
    /// As a Markdown table
    #[arg(long)]
    pub markdown: bool,
}

/// Tables whose columns can be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    /// The data that an endpoint sent in a request and its response
    Segment,
    /// The data that an endpoint sent in a connection
    Flow,
    /// All traffic of a client's address
    Client,
    /// A data packet and its fate
    Packet,
    /// With --dataset: where a row of a segment comes from; the columns of segments come before these
    Dataset,
    /// Of `diagnose`: one direction of a connection, seen at two places
    Pair,
    /// Of `lab run`: a point of the sweep, over all its seeds
    LabPoint,
    /// Of `lab run`: a flow
    LabFlow,
    /// Of `lab run`: a window of time of an aggregate or a flow
    LabWindow,
    /// Of `lab run`: counts of an element
    LabElement,
    /// Of `lab run`: the occupancy of a queue at one time
    LabSample,
    /// Of `lab run`: a transfer that was completed
    LabTransfer,
    /// Of `lab run`: the state of a connection's sender at one time
    LabConnection,
    /// Of `lab kernel`: a measure, for the kernel's TCP and for the lab's
    #[cfg(target_os = "linux")]
    LabKernel,
    /// Of `shell`: the packets of one direction in a window of time
    #[cfg(target_os = "linux")]
    ShellWindow,
    /// Of `shell`: counts of an element
    #[cfg(target_os = "linux")]
    ShellElement,
}

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish
")]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Print the manual page, or write all pages to a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate man | man -l -
  tidegate man --dir /usr/local/share/man/man1
")]
pub struct Man {
    /// Write tidegate.1, tidegate-detect.1 and so on to this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Not in this program: it was built without this command
#[cfg(not(all(
    feature = "gate",
    feature = "sample",
    feature = "serve",
    feature = "web"
)))]
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct NotBuilt {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<std::ffi::OsString>,
}

/// The command line is wrong: exit code 2.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A right, a device or a kernel feature is missing: exit code 3.
#[derive(Debug)]
pub struct RightsError(pub String);

impl std::fmt::Display for RightsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RightsError {}
