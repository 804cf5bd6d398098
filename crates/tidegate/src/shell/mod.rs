//! `tidegate shell`: a command behind elements, in real time.

mod folder;
mod monitor;
mod path;
mod prompt;
mod scenario;
mod words;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tidegate_testbed::link::LinkReport;
use tidegate_testbed::shell::{
    Blocked, Foreground, Obstacle, Shell, ShellWindowRow, UserNamespaces, has_names_file,
    may_open_shells, run_first,
};
use tidegate_testbed::{Awake, TestbedError};

use crate::cli::shell::Shell as Options;
use crate::cli::{Common, RightsError, UsageError};
use crate::signals;
use crate::units::{plural, time};
use folder::Folder;
use monitor::Monitor;

/// What programs in a shell are told: the elements of all shells around them, …
const ELEMENTS: &str = "TIDEGATE_SHELL";
/// … and the address at which they reach servers outside that run on this machine.
const GATEWAY: &str = "TIDEGATE_SHELL_GATEWAY";

/// The seed if none is given.
const SEED: u64 = 1;

/// Runs the command to its end, and returns its exit code.
pub fn run(options: &Options, common: &Common) -> anyhow::Result<u8> {
    // A caller may let this process ignore the ends of its children. Then the kernel would forget how they ended (wait(2)). With a
    // handler it does not, and children have the default.
    signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
    let (program, arguments) = program(&options.command);
    if let Some(parent) = options.inside {
        let mut command = Command::new(program);
        let names = options.names.as_deref();
        let code = run_first(parent, names, command.args(arguments));
        return Ok(code.map_err(rights)? as u8);
    }
    let mut path = match &options.elements[..] {
        [file] if file.ends_with(".toml") => {
            if options.rtt.is_some() {
                let message =
                    format!("--rtt is for elements on the command line: write `rtt` in {file}");
                return Err(UsageError(message).into());
            }
            let scenario = crate::lab::read(std::path::Path::new(file), &[])?;
            scenario::path(&scenario, options.seed)?
        }
        [file, ..] if file.ends_with(".toml") => {
            let message = format!(
                "{file}: a scenario file has all elements, so write no other words; a command comes after `--`"
            );
            return Err(UsageError(message).into());
        }
        _ => words::path(options)?,
    };
    // Before any thread starts: a process with several cannot change its user's namespace.
    let mut namespaces = match may_open_shells() {
        true => None,
        false => Some(UserNamespaces::enter().map_err(rights)?),
    };
    // Files are made where they get their names: the kernel moves none from one namespace of mounts to another.
    let folder = match &options.output {
        Some(folder) => Some(Folder::new(folder)?),
        None => None,
    };
    if let Some(folder) = &folder {
        folder.tap(&mut path, options.snaplen);
    }
    let mut shell = Shell::open(&path.plan).map_err(rights)?;
    if let Some(namespaces) = &mut namespaces {
        namespaces.watch(&shell);
    }
    let (names, gateway) = match &namespaces {
        None => (shell.answer_names().map_err(rights)?, None),
        Some(namespaces) => (namespaces.names(), namespaces.machine()),
    };
    if !common.quiet {
        warn(
            &shell,
            namespaces.as_ref().and_then(UserNamespaces::obstacle),
        );
    }
    // Before the command starts: otherwise Ctrl-C could end this process first.
    let caught = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    let mut signals = Signals::new(signals::caught(&caught))?;
    let mut first = Command::new("/proc/self/exe");
    first.args(["shell", "--inside", &number()]);
    if let Some(names) = names {
        // In one word: a text may begin with a hyphen.
        first.arg(format!("--names={names}"));
    }
    first
        .arg("--")
        .arg(program)
        .args(arguments)
        .env(ELEMENTS, nested(&path.text))
        .env(GATEWAY, gateway.unwrap_or(shell.gateway()).to_string());
    if options.command.is_empty() {
        let inherited = std::env::var_os(prompt::COMMAND);
        first
            .env(prompt::COMMAND, prompt::command(inherited.as_deref()))
            .env(prompt::CHANGE, prompt::change(&path.text));
    }
    let foreground = Foreground::note();
    let blocked = Blocked::new()?;
    let running = shell.start(&mut first).map_err(rights)?;
    drop(blocked);
    let _awake = options.awake.then(Awake::new);
    let process = Pid::from_raw(running.id() as i32);
    thread::spawn(move || {
        // The terminal sends Ctrl-C and Ctrl-\ to the command, too.
        for signal in signals.forever() {
            if let Some(process) = process
                && let Some(signal) = Signal::from_named_raw(signal)
                && !matches!(signal, Signal::INT | Signal::QUIT)
            {
                // It may just have ended.
                let _ = kill_process(process, signal);
            }
        }
    });
    let title = options.status && std::io::stderr().is_terminal();
    let table = folder.is_some();
    let monitor = (title || table).then(|| Monitor::new(&path.plan, title, table));
    let (status, windows) = match monitor {
        None => (running.wait(), Vec::new()),
        Some(monitor) => thread::scope(|scope| {
            let (stop, stopped) = mpsc::channel::<()>();
            let opened = &shell;
            let windows = scope.spawn(move || monitor.run(opened, &stopped));
            let status = running.wait();
            drop(stop);
            let windows = windows.join();
            (
                status,
                windows.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        }),
    };
    if let Some(foreground) = foreground {
        foreground.take_back();
    }
    let code = code(status?);
    match finish(shell, folder, &path, &windows, common) {
        // The command's own code says more than this program's 1.
        Err(error) if code != 0 => {
            eprintln!("tidegate: {}", crate::exit::words(&error));
            Ok(code)
        }
        result => result.map(|()| code),
    }
}

/// Says what will not work in the shell.
fn warn(shell: &Shell, obstacle: Option<&Obstacle>) {
    match obstacle {
        None => {}
        Some(Obstacle::Missing) => eprintln!(
            "tidegate: nothing outside can be reached from this shell: without root, that takes the command slirp4netns. \
             Install it, or run this as root"
        ),
        Some(Obstacle::Failed(said)) => eprintln!(
            "tidegate: nothing outside can be reached from this shell: slirp4netns failed: {}",
            tidegate_notation::clean(said)
        ),
    }
    if obstacle.is_none() && !has_names_file() {
        eprintln!(
            "tidegate: no names can be looked up in this shell, because this machine has no /etc/resolv.conf: create it. It may \
             be empty"
        );
    }
    if shell.is_filtered() {
        eprintln!(
            "tidegate: this machine's firewall seems to drop what it sends to the shell, so no reply would arrive: allow output \
             to the devices of shells, as in `nft insert rule inet filter output oifname \"tg*\" accept`"
        );
    }
}

/// Ends the shell, and writes what happened in it.
fn finish(
    shell: Shell,
    folder: Option<Folder>,
    path: &path::Path,
    windows: &[ShellWindowRow],
    common: &Common,
) -> anyhow::Result<()> {
    let with_results = folder.is_some();
    let last = shell.report().ok();
    let mut failed = match (folder, &last) {
        (Some(folder), Some(report)) => folder.write(windows, &path.elements(report)),
        (Some(folder), None) => {
            folder.give_up();
            Vec::new()
        }
        (None, _) => Vec::new(),
    };
    // How late packets were is also known if a capture could not be written.
    let report = match shell.finish() {
        Ok(report) => Some(report),
        Err(error) => {
            failed.push(error.into());
            last
        }
    };
    if let Some(report) = report.filter(|_| !common.quiet) {
        if with_results {
            eprintln!("tidegate: {}", lateness(&report));
        }
        if report.strays > 0 {
            eprintln!(
                "tidegate: {} packets were lost beside the elements, because this machine was too busy",
                report.strays
            );
        }
    }
    let Some(last) = failed.pop() else {
        return Ok(());
    };
    for error in &failed {
        eprintln!("tidegate: {}", crate::exit::words(error));
    }
    Err(last)
}

/// The number of this process in `/proc`, where the first process of the shell looks for it. In a container this may differ from what it is
/// in its own namespace.
fn number() -> String {
    let own = std::fs::read_link("/proc/self").ok();
    let own = own.and_then(|path| path.to_str().map(str::to_owned));
    own.unwrap_or_else(|| std::process::id().to_string())
}

/// How late packets left in real time.
fn lateness(report: &LinkReport) -> String {
    let late = &report.lateness;
    let priority = if report.real_time {
        ""
    } else {
        ", without real-time priority"
    };
    format!(
        "{} left; half of them at most {} late, 99 % at most {}{priority}",
        plural(late.count, "packet", "packets"),
        time(late.p50),
        time(late.p99)
    )
}

/// The command, or else the user's shell.
fn program(command: &[OsString]) -> (OsString, &[OsString]) {
    match command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => {
            let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
            (shell.unwrap_or_else(|| "/bin/sh".into()), &[])
        }
    }
}

/// What is missing on this machine has an exit code of its own.
fn rights(error: TestbedError) -> anyhow::Error {
    match error {
        TestbedError::Rights { .. } | TestbedError::NoTun | TestbedError::UserNamespaces => {
            RightsError(error.to_string()).into()
        }
        error => error.into(),
    }
}

/// The exit code of a command, as shells report it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(1) as u8
}

/// The elements of all shells, those outside first.
fn nested(text: &str) -> OsString {
    let mut all = std::env::var_os(ELEMENTS).unwrap_or_default();
    if !all.is_empty() && !text.is_empty() {
        all.push(", ");
    }
    all.push(text);
    all
}
