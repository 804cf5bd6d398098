//! `tidegate gate`: commands, daemon, HTTP API, metrics and live view over `tidegate_gate`.
//!
//! The limits are in the kernel and need no process. A command that changes them holds the gate's
//! lock while it does. A daemon keeps the lock, and the commands then ask the daemon over its control
//! socket. Commands that only read take no lock.

mod api;
mod check;
mod commands;
mod daemon;
mod dpdk;
mod events;
mod flows;
mod http;
mod keeper;
mod logs;
mod metrics;
mod notify;
mod pair;
mod radius;
mod remote;
mod rights;
mod status;
#[cfg(test)]
mod testing;
mod told;
mod top;
mod view;
mod wire;

use std::io::Write;

use tidegate_gate::control::{ControlError, LocalGate};
use tidegate_gate::{DataPath, Kernel};

use crate::cli::gate::{Command, Gate};
use crate::cli::{Common, RightsError};
use crate::exit::Exit;
use crate::output::Output;
use crate::table::Paint;

pub fn run(options: &Gate, common: &Common) -> anyhow::Result<Exit> {
    let state = &options.folder.state;
    match &options.command {
        Command::Check(options) => return check::run(options),
        Command::Openapi(_) => return openapi(),
        Command::Run(options) if !options.devices.dpdk.is_empty() => return dpdk::run(options),
        Command::Wire(options) => return wire::run(options, state),
        Command::Schema => return schema(),
        _ => rights::check()?,
    }
    drive::<Kernel>(options, common).map_err(|error| match error.downcast_ref() {
        // Exit code 3.
        Some(ControlError::Rights(text)) => RightsError(text.clone()).into(),
        Some(_) => wire::instead(state).map_or(error, Into::into),
        _ => error,
    })
}

fn drive<D: DataPath + Send + 'static>(options: &Gate, common: &Common) -> anyhow::Result<Exit> {
    let (state, quiet) = (&options.folder.state, common.quiet);
    match &options.command {
        Command::Up(options) => commands::up::<D>(options),
        Command::Run(options) => commands::run::<D>(options),
        Command::Down(options) => commands::down::<D>(options, state),
        Command::Set(options) => commands::set::<D>(options, state, quiet),
        Command::Assign(options) => commands::assign::<D>(options, state, quiet),
        Command::Release(options) => commands::release::<D>(options, state, quiet),
        Command::Reload(options) => commands::reload::<D>(options, state),
        Command::Status(options) => {
            let paint = Paint::for_stdout(common.color, false);
            match LocalGate::<D>::watched(state) {
                // The limits may be in a daemon's process, where the kernel has nothing of them.
                Err(_) if remote::Remote::connect(state).is_some() => {
                    status::ask(options, state, paint)
                }
                gate => status::run(options, &mut gate?, state, paint),
            }
        }
        Command::Flows(options) => {
            let paint = Paint::for_stdout(common.color, false);
            match LocalGate::<D>::watched(state) {
                Err(_) if remote::Remote::connect(state).is_some() => {
                    flows::ask(options, state, paint)
                }
                gate => flows::run(options, &mut gate?, paint),
            }
        }
        Command::Usage(_) => commands::usage(state),
        Command::Top(options) => match LocalGate::<D>::watched(state) {
            Err(_) if remote::Remote::connect(state).is_some() => {
                top::run(options, &mut top::Asked(state), state)
            }
            gate => top::run(options, &mut gate?, state),
        },
        Command::Check(_) | Command::Openapi(_) | Command::Schema | Command::Wire(_) => {
            Ok(Exit::Done)
        }
    }
}

/// Every key, as Markdown: `docs/reference/gate-configuration.md` holds the same.
fn schema() -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    out.write_all(tidegate_gate::config::schema().as_bytes())?;
    out.commit()?;
    Ok(Exit::Done)
}

fn openapi() -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    writeln!(out, "{}", api::openapi().to_pretty_json()?)?;
    out.commit()?;
    Ok(Exit::Done)
}
