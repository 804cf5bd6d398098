//! Prints how often the verdicts are right: on the shared captures, or on transfers of the lab.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;
use tidegate_studies::lab;
use tidegate_studies::verdict::captures::Found;
use tidegate_studies::verdict::cost::Cost;
use tidegate_studies::verdict::kernel;
use tidegate_studies::verdict::matrix::Matrix;
use tidegate_studies::verdict::pairs::{self, Pairs};
use tidegate_studies::verdict::transfers::{Choice, Half};

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
    #[arg(long, group = "made")]
    lab: bool,
    /// Read the lab's captures from this folder instead of simulating again, and keep there those
    /// that it lacks; with --kernel, keep what the kernel sent
    #[arg(long, requires = "made")]
    captures: Option<PathBuf>,
    /// Also list each transfer of the lab that is not judged right, and each interval that does not hold the truth
    #[arg(long, requires = "lab")]
    list: bool,
    /// Also judge what the client saw of the lab's transfers
    #[arg(long, requires = "lab", conflicts_with = "pairs")]
    receiver: bool,
    /// Judge one half of the lab's transfers only: tuned or held-out
    #[arg(long, requires = "lab")]
    half: Option<Half>,
    /// Only those of the lab's simulations whose names, as --list prints them, contain this: scenario, sweep, parameters
    #[arg(
        long,
        value_name = "TEXT",
        requires = "lab",
        default_value = "",
        hide_default_value = true
    )]
    only: String,
    /// One in this number of the lab's simulations only [default: 1; with --pairs 12, since a comparison takes as long as
    /// hundreds of verdicts]
    #[arg(long, value_name = "NUMBER", requires = "lab")]
    one_in: Option<NonZeroUsize>,
    /// Draw other transfers than those of the half: with seeds that begin with this number
    #[arg(long, requires = "half")]
    seed: Option<u64>,
    /// Compare captures before and behind the lab's bottlenecks instead, as tidegate diagnose does
    #[arg(long, requires = "lab")]
    pairs: bool,
    /// Judge the kernel's own TCP behind nft, tbf, htb and the gate, in real time: ten minutes, as root
    #[arg(long, group = "made")]
    kernel: bool,
    /// The program whose gate is used [default: beside this one]
    #[arg(long, value_name = "FILE", requires = "kernel")]
    tidegate: Option<PathBuf>,
    /// Measure what the explanation of losses costs on one core
    #[arg(long)]
    cost: bool,
}

impl Args {
    /// Which simulations are wanted, where one in a number is if nothing else is said.
    fn choice(&self, usual: usize) -> Choice<'_> {
        Choice {
            only: &self.only,
            one_in: self.one_in.map_or(usual, NonZeroUsize::get),
        }
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.kernel {
        let beside = std::env::current_exe()?.with_file_name("tidegate");
        // The program is run in other folders and namespaces.
        let program = std::path::absolute(args.tidegate.as_deref().unwrap_or(&beside))?;
        return kernel::print(&program, args.captures.as_deref());
    }
    if args.cost {
        print!("{}", Cost::of(&lab::folder_or_exit(args.folder))?);
        return Ok(());
    }
    if !args.lab {
        print!("{}", Found::of(&lab::folder_or_exit(args.folder))?);
        return Ok(());
    }
    for (title, half) in [("tuned on", Half::Tuned), ("held out", Half::HeldOut)] {
        if args.half.is_some_and(|only| only != half) {
            continue;
        }
        let seed = args.seed.unwrap_or(half.seed());
        let folder = args.captures.as_deref();
        if args.pairs {
            let pairs = Pairs::of(half, seed, args.choice(pairs::STRIDE), folder)?;
            println!("== {title}\n\n{pairs}");
            if args.list {
                pairs.wrong().iter().for_each(|line| println!("{line}"));
            }
            continue;
        }
        let places = Matrix::of(half, seed, args.receiver, args.choice(1), folder)?;
        let titles = [title.to_owned(), format!("{title}, at the receiver")];
        for (title, matrix) in titles
            .iter()
            .zip(&places)
            .take(1 + usize::from(args.receiver))
        {
            println!("== {title}\n\n{matrix}");
            if args.list {
                matrix.wrong().iter().for_each(|line| println!("{line}"));
            }
        }
    }
    Ok(())
}
