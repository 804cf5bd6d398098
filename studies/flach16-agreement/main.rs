//! Compares the detector `pd` with its authors' published answers, chunk by chunk.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tidegate_studies::agreement::Agreement;
use tidegate_studies::lab;

/// Compares the detector `pd` with its authors' published answers, chunk by chunk.
///
/// Exit status: 0 both runs agree on at least 98 % of the chunks, 1 they do not, or a capture
/// cannot be read, 2 wrong use.
#[derive(Parser)]
struct Args {
    /// The folder with the captures, truth.csv and original-pd.csv [default: usc in the folder
    /// that TIDEGATE_TRACES names]
    folder: Option<PathBuf>,
    /// Take segments as the paper defines them: a request that is sent again after its response
    /// has begun does not begin another
    #[arg(long)]
    join_repeated_requests: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let all = lab::analyse(&lab::folder_or_exit(args.folder))?;
    let agreement = Agreement::of(&all, args.join_repeated_requests);
    print!("{agreement}");
    Ok(if agreement.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
