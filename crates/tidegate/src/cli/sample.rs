//! `tidegate sample`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::Analysis;
use clap::{ArgGroup, Args, ValueEnum};
use tidegate_limiter::Bytes;
use tidegate_sample::{Addresses, Fraction, Network, Place, Prefixes};

const EXAMPLES: &str = "\
Examples:
  tidegate sample eth0 --out /var/lib/samples                 1 % of all flows, until Ctrl-C
  tidegate sample eth0 --out samples --fraction 1/1000 --rotate 20MB --every 1h
  tidegate sample eth0 --out samples --by client              all flows of 1 % of the clients
  tidegate sample eth1 --out samples --by client --client-net 192.0.2.0/24 --client-net 2001:db8::/32
  (umask 077; openssl rand -hex 32 > key) && tidegate sample eth0 --out samples --key key
                                                              the same flows on all servers with this key
  tidegate sample eth0 --out samples --keep 10GB --addresses pseudonym --key key
                                                              for years, without anybody's address
  tidegate sample eth0 --rows dataset --asn networks.mmdb     only what limited them: no files of packets
  tidegate sample eth0 --out samples --to s3://samples/eu     complete files go to an S3 store
  tidegate sample eth0 --out samples --hook tc                at a lower cost, on Linux 6.6 or later
  tidegate detect --join samples/                             what limited these flows

docs/reference/sample.md says what is in the files. Root, or CAP_BPF and CAP_NET_RAW (with --hook tc, CAP_NET_ADMIN),
are needed to start; they are given up then.
";

/// Sample a fraction of flows on a server, headers only, into captures that rotate.
///
/// A filter in the kernel chooses TCP flows by a keyed hash of their addresses and ports, in both directions alike.
/// Packets of other flows cost next to nothing. Of sampled packets, everything behind the TCP header is cut off.
/// Files are pcapng, compressed with zstd, and appear when they are complete.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("target").args(["out", "rows"]).required(true))]
pub struct Sample {
    /// The interface: Ethernet, loopback or TUN
    #[arg(value_name = "INTERFACE")]
    pub interface: String,
    /// Write files to this folder, named by host, interface and the time of the first packet
    #[arg(long, value_name = "DIR", conflicts_with_all = ["asn", "Analysis"])]
    pub out: Option<PathBuf>,
    /// Write no files: analyse at once, and add the rows of segments to the dataset in this folder at each multiple of
    /// --every, as `tidegate detect --dataset` would
    #[arg(long, value_name = "DIR", conflicts_with_all = ["rotate", "to"], help_heading = "Rows")]
    pub rows: Option<PathBuf>,
    /// A table of networks in MaxMind's format (MMDB), for AS number, organisation, country and continent of the
    /// client; you may repeat the option, for tables that complete each other
    #[arg(long, value_name = "FILE", help_heading = "Rows")]
    pub asn: Vec<PathBuf>,
    #[command(flatten)]
    pub analysis: Analysis,
    /// The share of flows, or of clients, such as 1%, 0.01 or 1/100
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "1%",
        allow_hyphen_values = true
    )]
    pub fraction: Fraction,
    /// What is sampled as a whole
    #[arg(long, value_name = "WHAT", default_value = "flow")]
    pub by: SampleBy,
    /// With --by client: of two addresses, the one in this network is the client; you may repeat the option
    /// [default: the other machine is the client, or the one with the higher port in copied traffic]
    #[arg(long, value_name = "NETWORK")]
    pub client_net: Vec<Network>,
    /// With --by client: addresses with the same bits in front are one client; of IPv4 and IPv6
    #[arg(long, value_name = "BITS,BITS", default_value = "32,64")]
    pub client_prefix: Prefixes,
    /// A file with 64 hexadecimal digits, which choose the flows [default: random, another one at each start]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Begin another file when one has this size, such as 100MB. Packets are compressed in blocks, so a file
    /// may be about 130 kB larger
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "100MB",
        allow_hyphen_values = true
    )]
    pub rotate: Bytes,
    /// Begin another file at each multiple of this time, such as 5min
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = humantime::parse_duration, allow_hyphen_values = true)]
    pub every: Duration,
    /// How addresses are written: keep, prefix:24,48 (zeros behind so many bits of IPv4 and IPv6), or
    /// pseudonym (encrypted with --key, so that prefixes are preserved)
    #[arg(long, value_name = "FORM", default_value = "keep")]
    pub addresses: Addresses,
    /// Keep at most this much in the folder, and remove the oldest files for it, such as 10GB; with --rows, the oldest
    /// rows of samplers [default: until the disk is full]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub keep: Option<Bytes>,
    /// Move complete files to this folder, such as a mount, which must exist, or to s3://BUCKET/PREFIX in an S3 store (AWS_ENDPOINT_URL,
    /// AWS_ACCESS_KEY_ID … say which). Those that cannot be moved stay, and are moved later
    #[arg(long, value_name = "DIR")]
    pub to: Option<To>,
    /// Serve metrics for Prometheus at this address of this machine, such as 127.0.0.1:9105
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// Memory for packets that are not written yet, 1MiB to 1GiB. It is taken at the start
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64MiB",
        allow_hyphen_values = true
    )]
    pub ring: Bytes,
    /// Where in the kernel packets are looked at: socket (a packet socket; it sees packets that leave when the device gets
    /// them) or tc (the hooks of traffic control; they cost less and need Linux 6.6, and they see packets that leave before
    /// these wait in a queue discipline)
    #[arg(long, value_name = "PLACE", default_value = "socket")]
    pub hook: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SampleBy {
    /// Connections
    Flow,
    /// Clients with all of their connections, as limiters that these share need
    Client,
}

/// Where complete files are moved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    Folder(PathBuf),
    /// What is below a prefix in a bucket of an S3 store.
    S3 {
        bucket: String,
        prefix: String,
    },
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("s3://") else {
            return match text.contains("://") {
                true => Err("write a folder, or s3://BUCKET/PREFIX".to_owned()),
                false => Ok(Self::Folder(text.into())),
            };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(plain) {
            return Err(format!(
                "'{bucket}' is not a bucket: write s3://BUCKET/PREFIX"
            ));
        }
        Ok(Self::S3 {
            bucket: bucket.to_owned(),
            prefix: prefix.trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_folders_are_told_apart() {
        let s3 = |bucket: &str, prefix: &str| To::S3 {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!("s3://samples".parse(), Ok(s3("samples", "")));
        assert_eq!("s3://samples/web/eu/".parse(), Ok(s3("samples", "web/eu")));
        assert_eq!("s3/samples".parse(), Ok(To::Folder("s3/samples".into())));
        for wrong in [
            "s3://",
            "s3:///web",
            "s3://a b/c",
            "gs://samples",
            "http://a/b",
        ] {
            assert!(wrong.parse::<To>().is_err(), "{wrong}");
        }
    }
}
