//! The command line of `tidegate serve`, `tidegate play` and `tidegate make-video`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::Way;
use tidegate_serve::player::Arrivals;
use tidegate_serve::server::{CacheRule, Group, Listen, Origin, SessionName};

use super::EXIT_CODES;

const SERVE_EXAMPLES: &str = "\
Examples:
  tidegate serve videos/                               http://127.0.0.1:8080/, paced by Trickle
  tidegate serve videos/ --listen '[::]:80' --metrics 127.0.0.1:9464
  tidegate serve videos/ --listen 0.0.0.0:443 --cert chain.pem --key key.pem
  tidegate serve videos/ --listen '[::]:443' --listen 'http://[::]:80' --redirect --cert chain.pem --key key.pem
  tidegate serve videos/ --listen '[::]:443' --http3 --cert chain.pem --key key.pem
  tidegate serve videos/ --way application-64k         blocks of up to 64 KiB, as many servers pace
  tidegate serve site/ --cors '*' --cache '*.m4s=max-age=31536000,immutable' --cache '*.m3u8=no-cache'
  tidegate serve videos/ --rate 1.5mbit                the rate of files whose headers do not state it
  tidegate serve shows/ --session cookie:viewer        HLS and DASH to viewers whose cookie tells them apart
  tidegate serve videos/ --log access.jsonl --log-format json
  tidegate serve videos/ --seed 7 --log split.jsonl --log-format json \\
    --split baseline1=application-64k,baseline2=application-64k,trickle,shrunk-block=application-16k

A video is sent in two phases. The first --start-up of it is sent at full speed. The rest is sent at
--percent of its encoding rate. That rate is the file's length divided by the time that its headers
(MP4, WebM) say it plays. A file `video.mp4.rate` beside `video.mp4`, with a rate such as 1.5mbit in
it, takes precedence over the headers. Files without a rate are sent at full speed.

Segments of HLS and DASH have the rate that a manifest (.m3u8, .mpd) in their folder, or up to three
folders above, states. Each viewer has one start-up for all segments. After it a segment is sent at
--percent of the next better representation's rate, so that players can find out that the network
carries it.

SIGUSR1 opens the access log again, for logrotate and the like. SIGHUP also reads --cert and --key again, and opens the folder again.
Ctrl-C or SIGTERM ends the server when all responses are complete, or after --grace. A second signal
ends it at once. docs/reference/serve.md describes every way to pace.
";

/// Serve a folder of videos over HTTP, and pace each connection.
///
/// The server speaks HTTP/1.1, HTTP/2 and HTTP/3, with range requests. It sends each video a little faster than
/// it plays, and without bursts.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES, after_long_help = format!("{SERVE_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Serve {
    /// The folder to serve. Hidden files, and links to files outside of it, are not served
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Address and port to listen on; port 0 takes a free port. You may repeat the option. With --cert the
    /// server speaks TLS at each address that does not begin with `http://`
    #[arg(
        short,
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub listen: Vec<Listen>,
    /// Redirect requests without TLS to the first address with TLS
    #[arg(long, requires = "cert")]
    pub redirect: bool,
    /// PEM file with the certificate and its chain, for TLS
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Speak HTTP/3 too, with UDP at each address and port with TLS; browsers learn of it there
    #[arg(long, requires = "cert")]
    pub http3: bool,
    /// Answer requests for folders without an index.html with a list of their files
    #[arg(long)]
    pub index: bool,
    /// Let pages of other sites read the videos (CORS): `*` for all, or origins such as `https://example.org`
    #[arg(long, value_name = "ORIGIN,…", value_delimiter = ',')]
    pub cors: Vec<Origin>,
    /// Set Cache-Control for files whose path matches a pattern; you may repeat the option, and the first match holds
    #[arg(long, value_name = "PATTERN=VALUE")]
    pub cache: Vec<CacheRule>,

    #[arg(
        help = format!("Way to pace connections: {}", Way::choices()),
        long,
        value_name = "WAY",
        default_value = "trickle",
        help_heading = "Pacing"
    )]
    pub way: Way,
    /// Assign each connection to one of several ways at random, for A/B experiments. Groups may have names
    #[arg(
        long,
        value_name = "[NAME=]WAY,…",
        value_delimiter = ',',
        conflicts_with = "way",
        help_heading = "Pacing"
    )]
    pub split: Vec<Group>,
    /// Seed of the random assignment by --split
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Pacing")]
    pub seed: u64,
    /// Length of video that is sent at full speed first
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = humantime::parse_duration, help_heading = "Pacing")]
    pub start_up: Duration,
    /// Rate after that, in percent of the encoding rate
    #[arg(long, value_name = "N", default_value = "125", value_parser = clap::value_parser!(u32).range(100..=10_000), help_heading = "Pacing")]
    pub percent: u32,
    /// Encoding rate of video and audio whose headers do not give one
    #[arg(long, value_name = "RATE", help_heading = "Pacing")]
    pub rate: Option<Rate>,
    /// Where requests for HLS and DASH name their viewer's session: cookie:NAME, query:NAME or header:NAME
    #[arg(long, value_name = "PLACE:NAME", help_heading = "Pacing")]
    pub session: Option<SessionName>,

    /// File to append the access log to, or `-` for standard output
    #[arg(
        long,
        value_name = "FILE",
        default_value = "-",
        help_heading = "Reports"
    )]
    pub log: PathBuf,
    /// Format of the access log: the combined format of other servers, or JSON, which also has a line for each connection
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "common",
        help_heading = "Reports"
    )]
    pub log_format: LogFormat,
    /// Write no access log
    #[arg(long, conflicts_with_all = ["log", "log_format"], help_heading = "Reports")]
    pub no_log: bool,
    /// Address and port at which to serve metrics for Prometheus, under /metrics
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Reports")]
    pub metrics: Option<SocketAddr>,

    /// Most connections at a time
    #[arg(long, value_name = "N", default_value = "8192", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub max_connections: u32,
    /// Most connections at a time from one address (IPv6: from one network of 64 bits)
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub max_per_address: u32,
    /// Close a connection that sends no request for this time
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = some_time, help_heading = "Limits")]
    pub header_timeout: Duration,
    /// Close a connection whose client takes none of its response for this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = some_time, help_heading = "Limits")]
    pub stall_timeout: Duration,
    /// Time that responses have to complete after Ctrl-C or SIGTERM
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub grace: Duration,
}

/// A time that is not 0.
fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("0 leaves no time: write 1ms or more".into()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// The combined log format, with seconds, way to pace, retransmissions and RTT at the end
    Common,
    /// One JSON object per line, for each response and each connection
    Json,
}

const PLAY_EXAMPLES: &str = "\
Examples:
  tidegate play http://127.0.0.1:8080/video.mp4
  tidegate play http://127.0.0.1:8080/video.mp4 --viewers 100 --arrivals poisson:2/s --watch 2min
  tidegate play http://127.0.0.1:8080/video.mp4 --range 1MB     by pieces, as many players fetch
  tidegate play http://127.0.0.1:8080/video.mp4 -f json | jq .groups
  tidegate play https://[::1]:8443/video.mp4 --ca cert.pem      or --insecure, for a self-signed certificate
  tidegate play http://127.0.0.1:8080/video.mp4 --http 2        HTTP/2 without TLS
  tidegate play https://[::1]:8443/video.mp4 --http 3 --insecure
  tidegate play http://127.0.0.1:8080/show/master.m3u8          HLS or DASH (.mpd), in the best rendition that comes in time

Join time is the time from the request to the first picture, which needs --start of video in the
buffer. A rebuffering event is a buffer that ran empty. FREQ is the number of these events divided by
the duration of the connection; CHANCE is the share of viewers that had any. THROTTLED is the goodput
after the first --start-up of video, when the server throttles. The summary has a row for each group
of a server that splits its connections.
";

/// Fetch videos as a browser would, and report what a viewer would have seen.
///
/// Nothing is shown. The command fetches each video over HTTP/1.1, HTTP/2 or HTTP/3 as fast as it comes, and
/// simulates the buffer of a player: when it could begin to play, and when it ran empty.
#[derive(Debug, Args)]
#[command(after_help = PLAY_EXAMPLES, after_long_help = format!("{PLAY_EXAMPLES}\n{EXIT_CODES}"))]
pub struct Play {
    /// URL of the video (http or https), or of a manifest of HLS or DASH. With several URLs, viewers take them in turn
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Number of viewers
    #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub viewers: u32,
    /// When viewers come: all at `once`, evenly over a time (`spread:TIME`), or at random (`poisson:N/s`)
    #[arg(long, value_name = "WHEN", default_value = "once")]
    pub arrivals: Arrivals,
    /// Seed of random arrivals
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Leave after this time [default: when the whole video has arrived]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub watch: Option<Duration>,
    /// Fetch by range requests of this size, on one connection
    #[arg(long, value_name = "SIZE")]
    pub range: Option<Bytes>,
    /// Video in the buffer that a player needs to begin
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub start: Duration,
    /// Video in the buffer that a player needs to resume after it ran empty [default: --start]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub restart: Option<Duration>,
    /// Of HLS and DASH: fetch nothing while this much video is in the buffer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub buffer: Duration,
    /// Length of the server's start-up phase. Goodput is measured after it
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = humantime::parse_duration)]
    pub start_up: Duration,
    /// Addresses of this machine that viewers connect from, in turn
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    pub from: Vec<IpAddr>,
    /// Version of HTTP [default: with TLS 2 if the server offers it; otherwise 1.1]
    #[arg(long, value_name = "VERSION")]
    pub http: Option<Http>,
    /// PEM file with certificates to trust instead of the system's: those of servers, or of who signed them
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Accept any certificate, even a forged one
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
    /// Encoding rate, in place of what the server and the file say
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Give up when nothing arrives for this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = some_time)]
    pub timeout: Duration,
    /// Output format. json is one object with viewers and groups; jsonl and csv have a row for each viewer
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub format: PlayFormat,
    /// Write to a file, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlayFormat {
    /// Text for people: each viewer, if there are few, and each group
    Table,
    /// One JSON object
    Json,
    /// One JSON object per line and viewer
    Jsonl,
    /// One line per viewer
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
    /// HTTP/3, to URLs of https
    #[value(name = "3")]
    Three,
}

/// Write a test video: valid headers, and zeros in place of pictures.
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
    /// File to write; an existing one is replaced
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Playing time
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = humantime::parse_duration)]
    pub duration: Duration,
    /// Size of the file
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Encoding rate, instead of --size
    #[arg(
        long,
        value_name = "RATE",
        conflicts_with = "size",
        required_unless_present = "size"
    )]
    pub rate: Option<Rate>,
    /// Format of the file, and where its headers are
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
