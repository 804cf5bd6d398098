//! Options of `tidegate detect` that are about datasets.

use std::path::PathBuf;

use clap::Args;
use tidegate_trace::read::LEAST_SHARE;

/// Where rows of many captures are kept.
#[derive(Debug, Clone, Args)]
pub struct Into {
    /// Add the rows of segments to the dataset in this folder: Parquet files by date and hour. Captures that are in
    /// it are not analysed again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "format", "by", "summary", "all"], help_heading = "Dataset")]
    pub dataset: Option<PathBuf>,
    /// A table of networks in MaxMind's format (MMDB), for AS number, organisation, country and continent of the
    /// client; you may repeat the option, for tables that complete each other
    #[arg(
        long,
        value_name = "FILE",
        requires = "dataset",
        help_heading = "Dataset"
    )]
    pub asn: Vec<PathBuf>,
    /// The share of all flows that the captures hold, such as 1% or 0.01; reports divide by it [default: as the captures of
    /// `tidegate sample` say, and 1 for others]
    #[arg(long, value_name = "SHARE", requires = "dataset", value_parser = share, help_heading = "Dataset")]
    pub sampled: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (text, 1.0),
    };
    let share = number.parse().map(|number: f64| number / whole);
    let share = share
        .ok()
        .filter(|share| (LEAST_SHARE..=1.0).contains(share));
    share.ok_or_else(|| "a share is from 1e-9 to 1, such as 1% or 0.01".to_owned())
}
