//! The commands that change a gate: in this process, or through the daemon that has it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_gate::config::{Config, Log};
use tidegate_gate::control::{Adjustment, Control, ControlError, LocalGate, pins};
use tidegate_gate::gate::{Gate, GateError};
use tidegate_gate::path::DataPath;

use super::daemon::Doors;
use super::logs;
use super::remote::Remote;
use super::view::{Attached, Reloaded};
use crate::Exit;
use crate::cli::gate::{Down, LogFormat, Reload, Run, Set, Up};
use crate::output::Output;
use crate::units::plural;

#[cfg(test)]
mod tests;

/// How long others may take to let go of a gate: a command is done in less.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Tries until nobody else is at the gate. What `meanwhile` gives is the result, if it gives any.
fn patiently<T>(
    mut attempt: impl FnMut() -> Result<T, GateError>,
    mut meanwhile: impl FnMut(Option<u32>) -> Option<Result<T, ControlError>>,
) -> Result<T, ControlError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(GateError::Busy { process, .. }) if Instant::now() < until => {
                if let Some(result) = meanwhile(process) {
                    return result;
                }
                std::thread::sleep(PAUSE);
            }
            other => return Ok(other?),
        }
    }
}

fn read(file: &Path) -> Result<Config, ControlError> {
    // As the daemon will find it, wherever it runs.
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Ok(Config::read(&whole).map_err(GateError::from)?)
}

pub fn up<D: DataPath>(options: &Up) -> anyhow::Result<Exit> {
    let config = read(&options.file)?;
    let (_, report) = patiently(|| Gate::<D>::up(&config), |_| None)?;
    let mut out = Output::stdout();
    let number = report.added.len() as u64;
    let limited = plural(number, "subscriber is", "subscribers are");
    writeln!(out, "{limited} limited until `tidegate gate down`")?;
    places(&mut out, &Reloaded::from(&report))?;
    for doubt in config.doubts() {
        writeln!(out, "warning: {doubt}")?;
    }
    out.commit()?;
    Ok(Exit::Done)
}

pub fn down<D: DataPath>(options: &Down, state: &Path) -> anyhow::Result<Exit> {
    let pins = match (&options.pins, pins(state)) {
        (Some(pins), _) => pins.clone(),
        (None, Ok(pins)) => pins,
        (None, Err(ControlError::Down(_))) => {
            let mut out = Output::stdout();
            writeln!(out, "no gate was up with its state in {}", state.display())?;
            out.commit()?;
            return Ok(Exit::Done);
        }
        // Its state cannot be read, and it has to go all the same.
        (None, Err(_)) if state == Path::new(Config::STATE) => Config::PINS.into(),
        (None, Err(error)) => {
            return Err(anyhow::Error::from(error).context("name the gate's folder by --pins"));
        }
    };
    let mut told = false;
    let there = patiently(
        || Gate::<D>::down_at(&pins, state),
        |_| {
            // A daemon ends and leaves the gate to us; a command is waited for.
            if !told && let Some(daemon) = Remote::connect(state) {
                told = true;
                return daemon.stop().err().map(Err);
            }
            None
        },
    )?;
    clear(state);
    let mut out = Output::stdout();
    if there {
        writeln!(out, "nothing is limited any more")?;
    } else {
        writeln!(out, "no gate was up at {}", pins.display())?;
    }
    out.commit()?;
    Ok(Exit::Done)
}

/// Removes sockets of daemons that were killed, and the folder if nothing else is in it.
fn clear(state: &Path) {
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && UnixStream::connect(entry.path()).is_err() {
            let _ = fs::remove_file(entry.path());
        }
    }
    // systemd's, or with others' files in it, it stays.
    let _ = fs::remove_dir(state);
}

/// Does something with the gate, or asks the daemon that has it.
fn drive<D: DataPath + Send, T>(
    state: &Path,
    ours: impl FnOnce(&mut LocalGate<D>) -> Result<T, ControlError>,
    daemons: impl FnOnce(Remote) -> Result<T, ControlError>,
) -> Result<T, ControlError> {
    // A daemon has the gate, and has read what is in it.
    if let Some(daemon) = Remote::connect(state) {
        return daemons(daemon);
    }
    let pins = pins(state)?;
    let mut daemon = None;
    let mut gate = None;
    patiently(
        || {
            gate = Some(Gate::<D>::take_over(&pins, state)?);
            Ok(())
        },
        |_| {
            daemon = Remote::connect(state);
            daemon.is_some().then_some(Ok(()))
        },
    )?;
    match (gate, daemon) {
        (_, Some(daemon)) => daemons(daemon),
        (Some(gate), None) => ours(&mut LocalGate::held(gate)),
        (None, None) => Err(ControlError::Other("the gate was not taken".into())),
    }
}

pub fn set<D: DataPath + Send>(options: &Set, state: &Path) -> anyhow::Result<Exit> {
    let adjustment = Adjustment {
        reset: options.reset,
        plan: options.plan.clone(),
        down: options.down,
        up: options.up,
    };
    let name = &options.name;
    drive::<D, _>(
        state,
        |gate| gate.set(name, &adjustment),
        |daemon| daemon.set(name, &adjustment),
    )?;
    Ok(Exit::Done)
}

pub fn reload<D: DataPath + Send>(options: &Reload, state: &Path) -> anyhow::Result<Exit> {
    let file = match &options.file {
        Some(file) => Some(std::path::absolute(file)?),
        None => None,
    };
    let done = drive::<D, _>(
        state,
        |gate| Ok(Reloaded::from(&gate.reload(file.as_deref())?)),
        |daemon| daemon.reload(file.as_deref()),
    )?;
    let mut out = Output::stdout();
    writeln!(
        out,
        "{} added, {} removed, {} limited otherwise, {} moved, {} untouched",
        done.added, done.removed, done.limited, done.moved, done.unchanged
    )?;
    places(&mut out, &done)?;
    out.commit()?;
    Ok(Exit::Done)
}

/// What else a reload did.
fn places(out: &mut impl Write, done: &Reloaded) -> std::io::Result<()> {
    if done.settings {
        writeln!(
            out,
            "accounting, or what becomes of unknown traffic, changed"
        )?;
    }
    let mut list = |title: &str, places: &[Attached]| {
        places.iter().try_for_each(|place| {
            let (interface, hook, way) = (&place.interface, &place.hook, &place.direction);
            writeln!(out, "{title} {interface} {hook}, {way}")
        })
    };
    list("attached to", &done.attached)?;
    list("detached from", &done.detached)?;
    for place in &done.missing {
        writeln!(
            out,
            "warning: packets are not taken at {place}: nothing is limited there"
        )?;
    }
    if !done.reset.is_empty() {
        let names = done.reset.join(", ");
        writeln!(
            out,
            "no longer as set live, since the file changed: {names}"
        )?;
    }
    Ok(())
}

pub fn run<D: DataPath + Send + 'static>(options: &Run) -> anyhow::Result<Exit> {
    let config = read(&options.file)?;
    let format = match options.log_format {
        Some(LogFormat::Text) => Log::Text,
        Some(LogFormat::Json) => Log::Json,
        None => config.log,
    };
    logs::start(format, &options.log)?;
    let doors = Doors::open(&config)?;
    let (gate, report, taken) = patiently(
        || Gate::<D>::start(&config),
        |process| {
            // Another daemon does not end of itself.
            let other = Remote::connect(&config.state).is_some();
            let who = process.map_or(String::new(), |process| format!(" (process {process})"));
            let text = format!("another daemon{who} drives this gate");
            other.then_some(Err(ControlError::Other(text)))
        },
    )?;
    let what = if taken { "took over" } else { "up" };
    logs::report(&report, what);
    doors.serve(Box::new(LocalGate::held(gate)))?;
    Ok(Exit::Done)
}
