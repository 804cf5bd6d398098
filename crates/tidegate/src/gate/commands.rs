//! The commands that change a gate: in this process, or through the daemon that has it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use tidegate_gate::binding::BindingChange;
use tidegate_gate::config::{Config, Log};
use tidegate_gate::control::{Adjustment, Control, ControlError, LocalGate, inspect, pins};
use tidegate_gate::live::MatchChange;
use tidegate_gate::table::Match;
use tidegate_gate::{DataPath, Folders, Gate, GateError, Setting, View, matches};

use super::daemon::Endpoints;
use super::events::{self, Events, user};
use super::logs;
use super::remote::Remote;
use super::told;
use super::view::{self, Attached, Reloaded, SubscriberJson};
use super::wire::{self, StandBy};
use crate::cli::gate::{Assign, Down, Release, Reload, Run, Set, Up};
use crate::exit::Exit;
use crate::output::Output;
use crate::units::plural;

#[cfg(test)]
mod tests;

/// How long other processes may hold the lock of a gate: commands take less.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Tries until no other process holds the gate's lock. If `meanwhile` returns a result, that is the
/// result.
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

fn read(file: &Path, lenient: bool) -> Result<Config, ControlError> {
    // An absolute path: a daemon may run in another folder.
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Ok(Config::read_as(&whole, lenient).map_err(GateError::from)?)
}

pub fn up<D: DataPath>(options: &Up) -> anyhow::Result<Exit> {
    let config = read(&options.file, options.imports.lenient)?;
    // Its packets pass outside of the kernel.
    if let Some(error) = wire::instead(&config.state) {
        return Err(error.into());
    }
    // Its daemon has the lock for as long as it runs.
    let already = |_| {
        if Remote::on_dpdk(&config.state) {
            let text = "a daemon on DPDK runs this gate: `tidegate gate reload` applies changes, and `tidegate gate down` ends it";
            return Some(Err(ControlError::Other(text.into())));
        }
        let (pins, state) = (config.pins.clone(), Some(config.state.clone()));
        Gate::<D>::is_up(&pins).then(|| Err(GateError::AlreadyUp { pins, state }.into()))
    };
    let (_, report) = patiently(|| Gate::<D>::up(&config), already)?;
    Events::new(config.events.as_deref()).reloaded(&user(), "up", &report);
    let mut out = Output::stdout();
    let number = report.added.len() as u64;
    let limited = plural(number, "subscriber is", "subscribers are");
    let what = match config.shadow {
        true => "counted, and not limited (shadow),",
        false => "limited",
    };
    let elsewhere = match config.state == Path::new(Config::STATE) {
        true => String::new(),
        false => format!(" --state {}", config.state.display()),
    };
    writeln!(
        out,
        "{limited} {what} until `tidegate gate down{elsewhere}`"
    )?;
    places(&mut out, &Reloaded::from(&report))?;
    for doubt in config.doubts() {
        writeln!(out, "warning: {doubt}")?;
    }
    if let Some(warning) = needs_daemon(&config) {
        writeln!(out, "warning: {warning}")?;
    }
    out.commit()?;
    Ok(Exit::Done)
}

/// What a file needs a daemon for, if it does.
pub fn needs_daemon(config: &Config) -> Option<&'static str> {
    let mut plans = config.plans.iter();
    plans.any(|(_, plan)| !plan.terms.is_empty()).then_some(
        "plans with `schedule` or `quota` only change while a daemon runs: `tidegate gate run`",
    )
}

pub fn down<D: DataPath>(options: &Down, state: &Path) -> anyhow::Result<Exit> {
    let was_wire = wire::end(state)?.is_some();
    if was_wire {
        let mut out = Output::stdout();
        writeln!(out, "the plain wire has ended: no packet passes")?;
        out.commit()?;
    }
    if Remote::on_dpdk(state) {
        return end_daemon(state);
    }
    let pins = match (&options.pins, pins(state)) {
        (Some(pins), _) => pins.clone(),
        (None, Ok(pins)) => pins,
        (None, Err(ControlError::Down(_))) => {
            let mut out = Output::stdout();
            writeln!(out, "no gate was up with its state in {}", state.display())?;
            out.commit()?;
            return Ok(Exit::Done);
        }
        // Its state cannot be read, but it must be removed all the same.
        (None, Err(_)) if state == Path::new(Config::STATE) => Config::PINS.into(),
        (None, Err(error)) => {
            return Err(anyhow::Error::from(error)
                .context("give the folder of the gate's maps and programs with --pins"));
        }
    };
    let events = View::<D>::open(Folders { pins: &pins, state });
    let events = events
        .map(|view| view.overview().events)
        .unwrap_or_default();
    let with_state = state.join("state.json").exists();
    let mut asked = false;
    let there = patiently(
        || Gate::<D>::down_at(Folders { pins: &pins, state }),
        |_| {
            // A daemon ends and leaves the gate to this process. A command ends by itself.
            if !asked && let Some(daemon) = Remote::connect(state) {
                asked = true;
                return daemon.stop().err().map(Err);
            }
            None
        },
    )?;
    clear(state);
    Events::new(events.as_deref()).add(&user(), "down", Value::Null);
    let mut out = Output::stdout();
    // A daemon with the limits in its process has removed them already.
    if there || asked {
        writeln!(out, "all limits are removed")?;
        if !with_state && !asked {
            writeln!(
                out,
                "its state was not in {}: if the key `state` of its file names another folder, `tidegate gate down --state` \
                 with that folder removes the files there",
                state.display()
            )?;
        }
    } else if !was_wire {
        writeln!(out, "no gate was up at {}", pins.display())?;
    }
    out.commit()?;
    Ok(Exit::Done)
}

/// Ends a daemon whose limits are in its process, and waits until they are gone. Nothing of them is in the kernel.
fn end_daemon(state: &Path) -> anyhow::Result<Exit> {
    if let Some(daemon) = Remote::connect(state) {
        daemon.stop()?;
    }
    let until = Instant::now() + PATIENCE;
    while Remote::connect(state).is_some() || state.join("state.json").exists() {
        if Instant::now() > until {
            bail!("the daemon does not end: see its log");
        }
        std::thread::sleep(PAUSE);
    }
    let mut out = Output::stdout();
    writeln!(out, "all limits are removed")?;
    out.commit()?;
    Ok(Exit::Done)
}

/// Removes sockets of daemons that were killed, and the folder if it is empty then.
fn clear(state: &Path) {
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && UnixStream::connect(entry.path()).is_err() {
            let _ = fs::remove_file(entry.path());
        }
    }
    // It stays if systemd owns it or other files are in it.
    let _ = fs::remove_dir(state);
}

/// Does something with the gate, or asks the daemon that holds it.
fn drive<D: DataPath + Send, T>(
    state: &Path,
    ours: impl FnOnce(&mut LocalGate<D>) -> Result<T, ControlError>,
    daemons: impl FnOnce(Remote) -> Result<T, ControlError>,
) -> Result<T, ControlError> {
    if let Some(daemon) = Remote::connect(state) {
        return daemons(daemon);
    }
    let pins = pins(state)?;
    let mut daemon = None;
    let mut gate = None;
    patiently(
        || {
            gate = Some(Gate::<D>::take_over(Folders { pins: &pins, state })?);
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
        (None, None) => Err(ControlError::Other(
            "the gate could not be locked: try again".into(),
        )),
    }
}

/// Prints what holds after a live change, unless the user wants to hear nothing.
fn tell(quiet: bool, line: &str) -> anyhow::Result<()> {
    if quiet {
        return Ok(());
    }
    let mut out = Output::stdout();
    writeln!(out, "{line}")?;
    out.commit()
}

pub fn set<D: DataPath + Send>(options: &Set, state: &Path, quiet: bool) -> anyhow::Result<Exit> {
    let adjustment = Adjustment {
        reset: options.reset,
        setting: Setting {
            plan: options.plan.clone(),
            down: options.down,
            up: options.up,
            suspended: (options.suspend || options.resume).then_some(options.suspend),
            from: None,
            keys: options.keys.iter().cloned().collect(),
        },
        from: BindingChange {
            port: options.from_port.clone(),
            mac: options.from_mac.clone(),
            tags: options.from_vlan.clone(),
        },
        ..Adjustment::default()
    };
    let now = adjust::<D>(&options.name, &adjustment, state)?;
    tell(quiet, &told::limits(&now))?;
    Ok(Exit::Done)
}

/// Changes a subscriber. Returns it as it is now.
fn adjust<D: DataPath + Send>(
    name: &str,
    adjustment: &Adjustment,
    state: &Path,
) -> Result<SubscriberJson, ControlError> {
    drive::<D, _>(
        state,
        |gate| ours(gate, name, adjustment),
        |daemon| daemon.set(name, adjustment),
    )
}

/// Changes a subscriber, in this process. Returns it as it is now.
fn ours<D: DataPath + Send>(
    gate: &mut LocalGate<D>,
    name: &str,
    adjustment: &Adjustment,
) -> Result<SubscriberJson, ControlError> {
    let taken = events::taken(name, &adjustment.moves, |what| gate.holder(what).ok());
    gate.set(name, adjustment)?;
    let events = gate.overview()?.events;
    Events::new(events.as_deref()).set(&user(), name, adjustment, &taken);
    Ok(view::detail(&inspect(gate, name)?))
}

/// What these texts name.
fn all_matches(texts: &[String]) -> anyhow::Result<Vec<Match>> {
    let all = texts.iter().map(|text| matches::read(text));
    let all: Vec<Vec<Match>> = all.collect::<Result<_, _>>()?;
    Ok(all.concat())
}

pub fn assign<D: DataPath + Send>(
    options: &Assign,
    state: &Path,
    quiet: bool,
) -> anyhow::Result<Exit> {
    let all = all_matches(&options.what)?;
    let mut moves = Vec::new();
    if options.reset {
        moves.push(MatchChange::AsDeclared);
    }
    if options.only {
        moves.extend(MatchChange::only_these(&all));
    } else {
        moves.extend(all.into_iter().map(MatchChange::Assign));
    }
    let adjustment = Adjustment {
        moves,
        ..Adjustment::default()
    };
    let (name, moves) = (&options.name, &adjustment.moves);
    let taken = drive::<D, _>(
        state,
        |gate| Ok(events::taken(name, moves, |what| gate.holder(what).ok())),
        // Each question takes a connection of its own.
        |_| {
            Ok(events::taken(name, moves, |what| {
                Remote::connect(state)?.holder(what)
            }))
        },
    )?;
    let now = adjust::<D>(name, &adjustment, state)?;
    tell(quiet, &told::addresses(&now, &taken))?;
    Ok(Exit::Done)
}

/// Prints what subscribers used in their months. The daemon counts it.
pub fn usage(state: &Path) -> anyhow::Result<Exit> {
    let daemon = Remote::connect(state).ok_or_else(|| {
        let text =
            "no daemon runs, and only a daemon counts volumes: start one with `tidegate gate run`";
        ControlError::Down(text.into())
    })?;
    let mut out = Output::stdout();
    out.write_all(daemon.usage()?.as_bytes())?;
    out.commit()?;
    Ok(Exit::Done)
}

pub fn release<D: DataPath + Send>(
    options: &Release,
    state: &Path,
    quiet: bool,
) -> anyhow::Result<Exit> {
    for what in all_matches(&options.what)? {
        let (lost, holder) = drive::<D, _>(
            state,
            |gate| {
                let name = gate.holder(&what)?;
                let release = Adjustment {
                    moves: vec![MatchChange::Release(what)],
                    ..Adjustment::default()
                };
                ours(gate, &name, &release)?;
                let holder = gate.holder(&what).ok();
                Ok((name, holder))
            },
            |daemon| {
                let lost = daemon.release(&what)?;
                // It is released, also if the daemon ends now.
                let holder = Remote::connect(state).and_then(|daemon| daemon.holder(&what));
                Ok((lost, holder))
            },
        )?;
        tell(quiet, &told::released(&what, &lost, holder.as_deref()))?;
    }
    Ok(Exit::Done)
}

pub fn reload<D: DataPath + Send>(options: &Reload, state: &Path) -> anyhow::Result<Exit> {
    let file = match &options.file {
        Some(file) => Some(std::path::absolute(file)?),
        None => None,
    };
    let done = drive::<D, _>(
        state,
        |gate| {
            let report = gate.reload(file.as_deref(), options.imports.lenient)?;
            let events = gate.overview()?.events;
            Events::new(events.as_deref()).reloaded(&user(), "reload", &report);
            Ok(Reloaded::from(&report))
        },
        |daemon| daemon.reload(file.as_deref(), options.imports.lenient),
    )?;
    let mut out = Output::stdout();
    writeln!(
        out,
        "{} added, {} removed, {} with other limits, {} with other addresses or tags, {} unchanged",
        done.added, done.removed, done.limited, done.moved, done.unchanged
    )?;
    places(&mut out, &done)?;
    out.commit()?;
    Ok(Exit::Done)
}

/// Lists the lines of imported files that were skipped.
pub fn skipped(
    out: &mut impl Write,
    indent: &str,
    lines: u64,
    mistakes: &[String],
) -> std::io::Result<()> {
    if lines == 0 {
        return Ok(());
    }
    let lines = plural(lines, "line is", "lines are");
    writeln!(
        out,
        "{indent}warning: {lines} skipped because of mistakes, and the subscribers there are not limited:"
    )?;
    for mistake in mistakes {
        writeln!(out, "{indent}  {mistake}")?;
    }
    Ok(())
}

/// Keys and tables of the file, as texts have them.
fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Reports the changes of a start or reload that are not about subscribers.
fn places(out: &mut impl Write, done: &Reloaded) -> std::io::Result<()> {
    if done.settings {
        // A daemon of an earlier version does not say which.
        let names = match &done.changed_settings[..] {
            [] => String::new(),
            names => format!(": {}", quoted(names)),
        };
        writeln!(out, "the settings for all packets changed{names}")?;
    }
    if done.nodes {
        writeln!(out, "nodes of the network changed")?;
    }
    let mut list = |title: &str, places: &[Attached]| {
        places.iter().try_for_each(|place| {
            let (interface, hook, way) = (&place.interface, &place.hook, &place.direction);
            writeln!(out, "{title} {interface} {hook}, {way}")
        })
    };
    list("attached to", &done.attached)?;
    list("detached from", &done.detached)?;
    if !done.replaced.is_empty() {
        let names = done.replaced.join(", ");
        writeln!(out, "programs of another version were replaced: {names}")?;
    }
    for program in &done.kept {
        writeln!(out, "warning: {program}: {}", logs::KEPT)?;
    }
    skipped(out, "", done.skipped_lines, &done.skipped)?;
    if !done.restart.is_empty() {
        let names = quoted(&done.restart);
        writeln!(out, "warning: {names} changed: restart the daemon")?;
    }
    for place in &done.missing {
        writeln!(
            out,
            "warning: the gate is not attached to {place}: nothing is limited there"
        )?;
    }
    if !done.reset.is_empty() {
        let names = done.reset.join(", ");
        writeln!(
            out,
            "live changes that no longer apply, since the file changed these subscribers: {names}"
        )?;
    }
    Ok(())
}

pub fn run<D: DataPath + Send + 'static>(options: &Run) -> anyhow::Result<Exit> {
    let config = read(&options.file, options.imports.lenient)?;
    let format = options.log_format.map_or(config.log, Log::from);
    logs::start(format, &options.log)?;
    let endpoints = Endpoints::open(&config)?;
    let cores = wire::cores().context("cannot tell the processor cores")?;
    let plan = wire::Plan {
        devices: &options.devices,
        state: &config.state,
        events: config.events.as_deref(),
        log: (format, &options.log),
    };
    let context = "cannot start the process that stands by";
    let before = wire::end(&config.state)?;
    let before = before.map(|wire| StandBy::in_place_of(&wire, &plan, &cores));
    let before = before.transpose().context(context)?;
    let started = patiently(
        || Gate::<D>::start(&config),
        |process| {
            // Another daemon does not end by itself.
            let other = Remote::connect(&config.state).is_some();
            let who = process.map_or(String::new(), |process| format!(" (process {process})"));
            let text = format!(
                "another daemon{who} runs this gate: `tidegate gate reload` applies changes, stop that \
                 daemon to start another one"
            );
            other.then_some(Err(ControlError::Other(text)))
        },
    );
    let (gate, report, taken) = match (started, &before) {
        (Ok(started), _) => started,
        // It begins when this process has ended.
        (Err(error), Some(_)) => {
            let text = "the gate does not start, and the plain wire that was before begins again";
            return Err(anyhow::Error::from(error).context(text));
        }
        (Err(error), None) => return Err(error.into()),
    };
    let what = if taken {
        "took over the gate that was up"
    } else {
        "the gate is up"
    };
    logs::report(&report, what);
    Events::new(config.events.as_deref()).reloaded(&user(), "start", &report);
    let then = match D::OUTLIVES_PROCESS {
        true => "the limits stay in force",
        false => "packets that came in are still sent, and no more pass",
    };
    let gate = LocalGate::held(gate)
        .lenient(options.imports.lenient)
        .of_daemon(&config);
    let spare = match D::OUTLIVES_PROCESS || options.no_wire {
        true => None,
        false => Some(StandBy::start(&plan, &cores).context(context)?),
    };
    if let Some(before) = before {
        before.dismiss();
    }
    let stands_by = match D::OUTLIVES_PROCESS {
        true => None,
        false => Some(spare.as_ref().map(StandBy::lives).unwrap_or_default()),
    };
    let served = endpoints.serve(Box::new(gate), stands_by, then);
    if !D::OUTLIVES_PROCESS {
        // The end was asked for. It leaves no wire, also if a device or a core does not end and this process is killed for it.
        if let Some(spare) = spare {
            spare.dismiss();
        }
        let closed = Gate::<D>::down_at(Folders::from(&config));
        clear(&config.state);
        closed?;
        tracing::info!("the ports are closed");
    }
    served?;
    Ok(Exit::Done)
}
