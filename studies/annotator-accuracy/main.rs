//! Prints how far the annotator's figures are from the truth, and from other tools'.

mod peers;

use std::path::PathBuf;

use clap::Parser;
use tidegate_studies::accuracy::Accuracy;
use tidegate_studies::lab;

/// Prints how far the annotator's figures are from what the router was set to.
///
/// Exit status: 0 done, 1 a capture cannot be read, 2 wrong use.
#[derive(Parser)]
struct Args {
    /// The folder with the captures, truth.csv and original-pd.csv [default: usc in the folder
    /// that TIDEGATE_TRACES names]
    folder: Option<PathBuf>,
    /// Also count retransmissions with tcptrace and tshark, where they are installed
    #[arg(long)]
    peers: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let folder = lab::folder_or_exit(args.folder);
    let all = lab::analyse(&folder)?;
    print!("{}", Accuracy::of(&all));
    if args.peers {
        peers::compare(&folder, &all)?;
    }
    Ok(())
}
