//! `tidegate`: the commands. Glue only: what they do lives in the other crates.

#![cfg_attr(
    not(all(
        feature = "gate",
        feature = "sample",
        feature = "serve",
        feature = "web"
    )),
    allow(dead_code, reason = "what only commands use that are not built")
)]

/// Prints a message to standard error. If that fails, for example because the disk of a log is full, the program goes on. The standard
/// library's macro of this name would panic.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        let text = std::format_args!($($text)*);
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), std::format_args!("{text}\n"));
    }};
}

mod advise;
mod cli;
mod dataset;
mod detect;
mod diagnose;
mod exit;
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
#[cfg(feature = "sample")]
mod sample;
#[cfg(feature = "serve")]
mod serve;
#[cfg(target_os = "linux")]
mod shell;
mod signals;
mod succession;
mod summary;
mod table;
mod transfers;
#[cfg(feature = "web")]
mod web;

use std::process::ExitCode;

use clap::Parser;
use tidegate_story::units;

use cli::{Cli, Command};
use exit::Exit;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if matches!(cli.command, Command::Detect(_)) {
        tidegate_trace::keep_memory();
    }
    let result = match cli.command {
        Command::Detect(options) if options.into.dataset.is_some() => {
            dataset::run(&options, &cli.common)
        }
        Command::Detect(options) => detect::run(&options, &cli.common),
        Command::Explain(options) => explain::run(&options, &cli.common),
        Command::Diagnose(options) => diagnose::run(&options, &cli.common),
        Command::Advise(options) => advise::run(&options, &cli.common),
        #[cfg(feature = "gate")]
        Command::Gate(options) => gate::run(&options, &cli.common),
        Command::Lab(options) => lab::run(&options, &cli.common),
        #[cfg(feature = "sample")]
        Command::Sample(options) => sample::run(&options, &cli.common),
        #[cfg(not(feature = "sample"))]
        Command::Sample(_) => not_built(),
        #[cfg(target_os = "linux")]
        Command::Shell(options) => match shell::run(&options, &cli.common) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error),
        },
        #[cfg(feature = "serve")]
        Command::Serve(options) => serve::run(&options, &cli.common),
        #[cfg(feature = "serve")]
        Command::Pace(options) => pace::run(&options),
        #[cfg(feature = "serve")]
        Command::Play(options) => play::run(&options, &cli.common),
        #[cfg(feature = "serve")]
        Command::MakeVideo(options) => serve::make_video(&options),
        #[cfg(feature = "web")]
        Command::Web(options) => web::run(&options, &cli.common),
        #[cfg(not(feature = "web"))]
        Command::Web(_) => not_built(),
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
        // The reader closed the pipe: `tidegate detect … | head`.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate: {}", exit::words(&error));
            ExitCode::from(Exit::of(&error) as u8)
        }
    }
}

#[cfg(not(all(
    feature = "gate",
    feature = "sample",
    feature = "serve",
    feature = "web"
)))]
fn not_built() -> anyhow::Result<Exit> {
    let text = "this program was built without this command. `cargo install --locked --path crates/tidegate` builds all of \
                them; it needs clang and libelf (Debian and Ubuntu: apt-get install clang libelf-dev zlib1g-dev \
                pkg-config)";
    Err(cli::UsageError(text.to_owned()).into())
}
