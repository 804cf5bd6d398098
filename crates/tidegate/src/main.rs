//! `tidegate`: the commands. Glue only: what they do lives in the other crates.

#![cfg_attr(
    not(all(feature = "gate", feature = "serve")),
    allow(dead_code, reason = "what only commands use that are not built")
)]

mod cli;
mod detect;
mod diagnose;
mod explain;
#[cfg(feature = "gate")]
mod gate;
mod input;
mod lab;
mod manual;
mod output;
#[cfg(feature = "serve")]
mod pace;
mod pipeline;
#[cfg(feature = "serve")]
mod play;
#[cfg(feature = "serve")]
mod serve;
mod summary;
mod table;
mod units;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

/// Exit codes, the same for all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// All done.
    Done = 0,
    /// Some input was bad, or some output could not be written.
    Failed = 1,
    /// Wrong use: an option, an argument.
    Usage = 2,
    /// What needs root, without it.
    Rights = 3,
    /// Ended by Ctrl-C, with what was there until then.
    Interrupted = 130,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Detect(options) => detect::run(&options, &cli.common),
        Command::Explain(options) => explain::run(&options, &cli.common),
        Command::Diagnose(options) => diagnose::run(&options, &cli.common),
        #[cfg(feature = "gate")]
        Command::Gate(options) => gate::run(&options, &cli.common),
        Command::Lab(options) => lab::run(&options, &cli.common),
        #[cfg(feature = "serve")]
        Command::Serve(options) => serve::run(&options, &cli.common),
        #[cfg(feature = "serve")]
        Command::Pace(options) => pace::run(&options),
        #[cfg(feature = "serve")]
        Command::Play(options) => play::run(&options, &cli.common),
        #[cfg(feature = "serve")]
        Command::MakeVideo(options) => serve::make_video(&options),
        #[cfg(not(feature = "gate"))]
        Command::Gate(_) => not_built(),
        #[cfg(not(feature = "serve"))]
        Command::Serve(_) | Command::Pace(_) | Command::Play(_) | Command::MakeVideo(_) => {
            not_built()
        }
        Command::Columns(options) => manual::columns(&options),
        Command::Completions(options) => manual::completions(&options),
        Command::Man(options) => manual::man(&options),
    };
    match result {
        Ok(exit) => ExitCode::from(exit as u8),
        // Whoever reads has had enough: `tidegate detect … | head`.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            let exit = if error.is::<cli::UsageError>() {
                Exit::Usage
            } else if error.is::<cli::RightsError>() {
                Exit::Rights
            } else {
                Exit::Failed
            };
            ExitCode::from(exit as u8)
        }
    }
}

#[cfg(not(all(feature = "gate", feature = "serve")))]
fn not_built() -> anyhow::Result<Exit> {
    let text = "this program was built without this command. `cargo install --path crates/tidegate` builds all of \
                them; it needs clang and libelf (Debian and Ubuntu: apt-get install clang libelf-dev zlib1g-dev \
                pkg-config)";
    Err(cli::UsageError(text.to_owned()).into())
}
