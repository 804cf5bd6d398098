//! The command line of `tidegate serve`, `tidegate play` and `tidegate make-video`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::Way;
use tidegate_serve::player::Arrivals;
use tidegate_serve::server::Group;

use super::EXIT_CODES;

const SERVE_EXAMPLES: &str = "\
Examples:
  tidegate serve videos/                               http://127.0.0.1:8080/, paced by Trickle
  tidegate serve videos/ --listen '[::]:80' --metrics 127.0.0.1:9464
  tidegate serve videos/ --listen 0.0.0.0:443 --cert chain.pem --key key.pem
  tidegate serve videos/ --way application-64k         as servers did it before
  tidegate serve videos/ --rate 1.5mbit                for files that do not say their rate
  tidegate serve videos/ --log access.jsonl --log-format json
  tidegate serve videos/ --seed 7 --log split.jsonl --log-format json \\
    --split baseline1=application-64k,baseline2=application-64k,trickle,shrunk-block=application-16k

Videos are sent in two phases: at first so much at full speed as plays for --start-up, then at
--percent of the encoding rate, which is the file's length over the time that its headers (MP4,
WebM) say it plays. `video.mp4.rate` beside `video.mp4`, with a rate such as 1.5mbit in it, comes
before the headers. Files without a rate are sent at full speed.

It ends on Ctrl-C or SIGTERM, when all responses are done or --grace is over; at once if it is told
twice. docs/reference/serve.md tells what is paced how.
";

/// Serve a folder of videos, each connection paced.
///
/// An HTTP/1.1 and HTTP/2 server of progressive video, with range requests, that keeps every
/// transfer near the rate at which its video plays, without bursts.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES, after_long_help = format!("{SERVE_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Serve {
    /// The folder; hidden files and what links lead out of it are not served
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(
        short,
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub listen: SocketAddr,
    /// Certificate and those above it, PEM; then only TLS is spoken
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// List folders
    #[arg(long)]
    pub index: bool,

    /// How connections are paced: trickle, application-64k, application-16k, max-pacing-rate, none
    #[arg(
        long,
        value_name = "WAY",
        default_value = "trickle",
        help_heading = "Pacing"
    )]
    pub way: Way,
    /// Ways to assign connections to at random, with names if wanted: A/B experiments
    #[arg(
        long,
        value_name = "[NAME=]WAY,…",
        value_delimiter = ',',
        conflicts_with = "way",
        help_heading = "Pacing"
    )]
    pub split: Vec<Group>,
    /// Where the randomness of --split begins
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Pacing")]
    pub seed: u64,
    /// How much video is sent at full speed at first
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = humantime::parse_duration, help_heading = "Pacing")]
    pub start_up: Duration,
    /// Rate of the throttling phase, in percent of the encoding rate
    #[arg(long, value_name = "N", default_value = "125", value_parser = clap::value_parser!(u32).range(100..=10_000), help_heading = "Pacing")]
    pub percent: u32,
    /// Encoding rate of files whose headers do not say it
    #[arg(long, value_name = "RATE", help_heading = "Pacing")]
    pub rate: Option<Rate>,

    /// The access log: a file to append to, or `-` for standard output
    #[arg(
        long,
        value_name = "FILE",
        default_value = "-",
        help_heading = "Reports"
    )]
    pub log: PathBuf,
    /// Its lines: the combined format of other servers, or JSON, with a line for each connection, too
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "common",
        help_heading = "Reports"
    )]
    pub log_format: LogFormat,
    /// No access log
    #[arg(long, conflicts_with_all = ["log", "log_format"], help_heading = "Reports")]
    pub no_log: bool,
    /// Serve metrics for Prometheus here, at /metrics
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Reports")]
    pub metrics: Option<SocketAddr>,

    /// Connections at a time
    #[arg(long, value_name = "N", default_value = "8192", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub max_connections: u32,
    /// Connections at a time of one address (of IPv6: of 64 bits of it)
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub max_per_address: u32,
    /// How long a connection may be without a request
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = some_time, help_heading = "Limits")]
    pub header_timeout: Duration,
    /// How long a client may take nothing of what it is being sent
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = some_time, help_heading = "Limits")]
    pub stall_timeout: Duration,
    /// How long responses may go on after Ctrl-C or SIGTERM
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub grace: Duration,
}

/// A time that is not 0.
fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("0 leaves clients no time: write 1ms or more".into()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// The combined log format, with seconds, way, retransmissions and RTT at the end
    Common,
    /// An object a line, of responses and of connections
    Json,
}

const PLAY_EXAMPLES: &str = "\
Examples:
  tidegate play http://127.0.0.1:8080/video.mp4
  tidegate play http://127.0.0.1:8080/video.mp4 --viewers 100 --arrivals poisson:2/s --watch 2min
  tidegate play http://127.0.0.1:8080/video.mp4 --range 1MB     as players that fetch by pieces
  tidegate play http://127.0.0.1:8080/video.mp4 -f json | jq .groups
  tidegate play https://[::1]:8443/video.mp4 --ca cert.pem      or --insecure, for a server's own certificate
  tidegate play http://127.0.0.1:8080/video.mp4 --http 2        without TLS, for servers that know it

Join time is that from the request to the first picture, which needs --start of video. A rebuffering
event is a buffer that ran empty; its frequency is events over the flow's duration, its chance the
part of viewers that had any. Goodput is that after the first --start-up of video, when the
server throttles. Where the server splits its connections into groups, so is the summary.
";

/// Watch videos as a browser would, without looking, and report what a viewer would have seen.
///
/// Fetches a video over HTTP/1.1 or HTTP/2, reading at once what comes, and keeps account of a
/// player's buffer: when it could begin to play, and when it ran empty.
#[derive(Debug, Args)]
#[command(after_help = PLAY_EXAMPLES, after_long_help = format!("{PLAY_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Play {
    /// The video, as http://… or https://…; of several, viewers take one after the other
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Viewers
    #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub viewers: u32,
    /// When they come: `once`, `spread:TIME` (evenly), or `poisson:N/s`
    #[arg(long, value_name = "WHEN", default_value = "once")]
    pub arrivals: Arrivals,
    /// Where the randomness of arrivals begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Leave after so long [default: when the video has come]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub watch: Option<Duration>,
    /// Fetch by range requests of so many bytes, on one connection
    #[arg(long, value_name = "SIZE")]
    pub range: Option<Bytes>,
    /// Video in the buffer from which it plays
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub start: Duration,
    /// Video in the buffer from which it plays again after it ran empty [default: --start]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub restart: Option<Duration>,
    /// The server's start-up phase; goodput is that after it
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = humantime::parse_duration)]
    pub start_up: Duration,
    /// Addresses of this machine that viewers come from, one after the other
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    pub from: Vec<IpAddr>,
    /// Version of HTTP [default: what TLS agrees on, 2 if the server has it; 1.1 without TLS]
    #[arg(long, value_name = "VERSION")]
    pub http: Option<Http>,
    /// Certificates to trust instead of the system's, PEM
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Take any certificate, also a forged one
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
    /// Encoding rate, if the beginning of the file does not say it
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Give up when nothing comes for so long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// Output format: json is one object of viewers and groups; jsonl and csv are viewers
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub format: PlayFormat,
    /// Write to a file, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlayFormat {
    /// For people: viewers, if they are few, and groups
    Table,
    /// One object
    Json,
    /// An object a viewer
    Jsonl,
    /// A line a viewer
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Http {
    /// HTTP/1.1
    #[value(name = "1.1")]
    One,
    /// HTTP/2; without TLS by prior knowledge (RFC 9113, section 3.3)
    #[value(name = "2")]
    Two,
}

/// Write a video that plays nothing: true headers and zeros, for tests.
#[derive(Debug, Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  tidegate make-video v.mp4 --duration 10min --rate 1.5mbit
  tidegate make-video v.webm --layout webm --duration 1min --size 5MB
"
)]
pub struct MakeVideo {
    /// The file, which is replaced
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How long it plays
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = humantime::parse_duration)]
    pub duration: Duration,
    /// How long it is
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Or its encoding rate
    #[arg(
        long,
        value_name = "RATE",
        conflicts_with = "size",
        required_unless_present = "size"
    )]
    pub rate: Option<Rate>,
    /// Where its headers are
    #[arg(long, value_name = "LAYOUT", default_value = "mp4")]
    pub layout: Layout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// MP4, headers first
    Mp4,
    /// MP4, headers last
    Mp4HeadersLast,
    /// MP4 in fragments
    Mp4Fragmented,
    /// WebM
    Webm,
}
