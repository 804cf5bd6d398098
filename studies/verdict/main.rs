//! Prints how often the verdicts are right: on the shared captures, or on transfers of the lab.

use std::path::PathBuf;

use clap::Parser;
use tidegate_studies::lab;
use tidegate_studies::verdict::captures::Found;
use tidegate_studies::verdict::matrix::{Half, Matrix};

/// Prints how often the verdicts of the detector `tidegate` are right, and how often its intervals
/// hold the truth.
///
/// Exit status: 0 done, 1 a capture cannot be read, 2 wrong use.
#[derive(Parser)]
struct Args {
    /// The folder with the captures, truth.csv and original-pd.csv [default: usc in the folder
    /// that TIDEGATE_TRACES names]
    folder: Option<PathBuf>,
    /// Judge transfers of the lab instead, whose causes are known: those that the detector was
    /// tuned on, and those that were held out
    #[arg(long)]
    lab: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if !args.lab {
        print!("{}", Found::of(&lab::folder_or_exit(args.folder))?);
        return Ok(());
    }
    for (title, half) in [("tuned on", Half::Tuned), ("held out", Half::HeldOut)] {
        println!("== {title}\n\n{}", Matrix::of(half)?);
    }
    Ok(())
}
