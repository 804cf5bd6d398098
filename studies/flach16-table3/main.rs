//! Prints Table 3 of [Flach16 §3.1] for the shared captures.

use std::path::PathBuf;

use clap::Parser;
use tidegate_studies::lab;
use tidegate_studies::table3::Table3;

/// Prints how often each detector is right, by what the router was set to: [Flach16, Table 3].
///
/// Exit status: 0 done, 1 a capture cannot be read, 2 wrong use.
#[derive(Parser)]
struct Args {
    /// The folder with the captures, truth.csv and original-pd.csv [default: usc in the folder
    /// that TIDEGATE_TRACES names]
    folder: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let all = lab::analyse(&lab::folder_or_exit(Args::parse().folder))?;
    print!("{}", Table3::of(&all));
    Ok(())
}
