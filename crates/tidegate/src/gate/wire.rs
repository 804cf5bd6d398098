//! A plain wire on DPDK: every packet that comes in at one device goes out at the other, and none is limited.
//!
//! The packets of a gate on DPDK pass through its daemon. So the daemon has a process stand by, which takes over the devices as a plain
//! wire if the daemon dies. It holds nothing until then but one end of a pipe, and learns of the death because the kernel closes the other
//! end, whatever the reason. Then it waits until the kernel has taken the devices from the daemon as well. The next daemon ends the wire
//! and limits again.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tidegate_gate::config::Log;
use tidegate_gate::control::ControlError;

use crate::cli::gate::{Command, Gate, OnDpdk, Wire};
use crate::cli::{self, Cli};
use crate::exit::Exit;

/// The file that a wire locks, in the state folder of its gate. It holds the number of the process.
const FILE: &str = "wire";
/// A wire ends when its ports have sent what they took in.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// How often a process that stands by tries to open the devices, and how long it waits in between.
const TRIES: u32 = 8;
#[cfg(feature = "dpdk")]
const AGAIN: Duration = Duration::from_millis(500);

/// A plain wire that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What it was started with, if the kernel tells.
    devices: Option<OnDpdk>,
}

/// The process that has the ports of the gate with this state as a plain wire, if there is one.
fn holder(state: &Path) -> Option<Pid> {
    let mut file = File::open(state.join(FILE)).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        // It was left by a wire that was killed.
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let noted = text.trim().parse().ok();
    Pid::from_raw(noted.or_else(|| who_locks(&file))?)
}

/// The devices on the command line of a wire.
fn devices_of(process: Pid) -> Option<OnDpdk> {
    let line = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).ok()?;
    let words = line.strip_suffix(b"\0")?.split(|&byte| byte == 0);
    let cli = Cli::try_parse_from(words.map(OsStr::from_bytes)).ok()?;
    match cli.command {
        cli::Command::Gate(Gate {
            command: Command::Wire(wire),
            ..
        }) => Some(wire.devices),
        _ => None,
    }
}

/// The process that locks a file, as the kernel has it: on a full disk the file is empty.
fn who_locks(file: &File) -> Option<i32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 1701 00:1a:42 0 EOF
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it =
            words.get(1) == Some(&"FLOCK") && words.get(5)?.rsplit(':').next() == Some(&*inode);
        is_it.then(|| words[4].parse().ok()).flatten()
    })
}

/// What is said of a gate with this state that is not up, if its ports are a plain wire.
pub fn instead(state: &Path) -> Option<ControlError> {
    let process = holder(state)?.as_raw_nonzero();
    let text = format!(
        "nothing is limited: all packets pass through a plain wire (process {process}). `tidegate gate run` limits again, \
         and `tidegate gate down` ends the wire"
    );
    Some(ControlError::Down(text))
}

/// Ends the plain wire of the gate with this state, and waits until its ports are free. Returns which one that was, if there was one.
///
/// # Errors
/// If it cannot be ended.
pub fn end(state: &Path) -> anyhow::Result<Option<Ended>> {
    let Some(process) = holder(state) else {
        return Ok(None);
    };
    let devices = devices_of(process);
    let number = process.as_raw_nonzero();
    kill_process(process, Signal::TERM)
        .with_context(|| format!("cannot end the plain wire of this gate (process {number})"))?;
    let until = Instant::now() + PATIENCE;
    while holder(state).is_some() {
        if Instant::now() > until {
            bail!("the plain wire of this gate (process {number}) does not end: kill it");
        }
        thread::sleep(PAUSE);
    }
    Ok(Some(Ended { devices }))
}

/// The cores that this thread may run on, and what it starts. DPDK takes all but one of them from the thread that starts it.
///
/// # Errors
/// If the kernel does not tell.
pub fn cores() -> io::Result<CpuSet> {
    Ok(sched_getaffinity(None)?)
}

/// A plain wire that begins when a daemon dies.
pub struct Plan<'a> {
    /// Its devices.
    pub devices: &'a OnDpdk,
    /// The folder of the gate's state.
    pub state: &'a Path,
    /// The gate's log of events.
    pub events: Option<&'a Path>,
    /// The format and the rules of its log.
    pub log: (Log, &'a str),
}

impl Plan<'_> {
    /// The command of a process that stands by until the process with this number dies, and then tries so often to open the devices.
    fn command(&self, daemon: u32, tries: u32) -> io::Result<process::Command> {
        let mut command = process::Command::new(std::env::current_exe()?);
        command.args(["gate", "wire", "--stands-by", &daemon.to_string()]);
        command.args(["--tries", &tries.to_string(), "--state"]);
        command.arg(self.state).args(["--log", self.log.1]);
        let format = match self.log.0 {
            Log::Text => "text",
            Log::Json => "json",
        };
        command.args(["--log-format", format]);
        if let Some(events) = self.events {
            command.arg("--events").arg(events);
        }
        for device in &self.devices.dpdk {
            command.args(["--dpdk", device]);
        }
        command.arg(format!("--eal={}", self.devices.eal));
        Ok(command)
    }
}

/// A process that becomes a plain wire if this process dies.
pub struct StandBy {
    /// A byte says that the ports are closed on purpose. Otherwise the kernel closes it with this process.
    alive: ChildStdin,
    dismissed: Arc<AtomicBool>,
    /// Whether it lives.
    lives: Arc<AtomicBool>,
    /// Waits for the end of the process.
    watch: JoinHandle<()>,
}

impl StandBy {
    /// Starts it, on these [cores]. If it ends before it is dismissed, the log says so.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(plan: &Plan<'_>, cores: &CpuSet) -> io::Result<Self> {
        let mut command = plan.command(std::process::id(), TRIES)?;
        // Ctrl-C in the daemon's terminal is for the daemon.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // A process may run where the thread may that starts it.
        let spawn = || {
            sched_setaffinity(None, cores)?;
            command.spawn()
        };
        let started = thread::scope(|scope| scope.spawn(spawn).join());
        let mut child: Child = started.map_err(|_| io::Error::other("a thread failed"))??;
        let alive = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let dismissed = Arc::new(AtomicBool::new(false));
        let lives = Arc::new(AtomicBool::new(true));
        let (asked, alive_still) = (Arc::clone(&dismissed), Arc::clone(&lives));
        let watch = thread::spawn(move || {
            let ended = child.wait();
            alive_still.store(false, Ordering::Release);
            if !asked.load(Ordering::Acquire) {
                let status =
                    ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                tracing::error!(
                    status,
                    "the process that stands by has ended: if this daemon dies, no packet passes. Start the daemon again to have one"
                );
            }
        });
        Ok(Self {
            alive,
            dismissed,
            lives,
            watch,
        })
    }

    /// The same for what another wire passed before, which has ended. `otherwise` says with which devices, if that one does not.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn in_place_of(wire: &Ended, otherwise: &Plan<'_>, cores: &CpuSet) -> io::Result<Self> {
        let devices = wire.devices.as_ref().unwrap_or(otherwise.devices);
        Self::start(
            &Plan {
                devices,
                ..*otherwise
            },
            cores,
        )
    }

    /// Whether it lives, now and later.
    pub fn lives(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lives)
    }

    /// Ends it: the ports are closed on purpose, or soon will be.
    pub fn dismiss(mut self) {
        self.dismissed.store(true, Ordering::Release);
        // It may have been killed before.
        let _ = self.alive.write_all(b"\n");
        drop(self.alive);
        let _ = self.watch.join();
    }
}

/// Waits until the process that has the other end of the pipe ends. Returns whether it died without a word.
#[cfg(feature = "dpdk")]
fn died(mut alive: impl Read) -> io::Result<bool> {
    loop {
        match alive.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return Ok(read? == 0),
        }
    }
}

/// The process with this number, if it lives.
#[cfg(feature = "dpdk")]
fn process(number: u32) -> Option<std::os::fd::OwnedFd> {
    let number = Pid::from_raw(number.try_into().ok()?)?;
    rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).ok()
}

/// Waits until a process that dies has given back all that it had: its pipes are closed before its devices.
#[cfg(feature = "dpdk")]
fn gone(process: &std::os::fd::OwnedFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let most = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    // If the kernel does not tell in time, opening the devices will.
    let _ =
        rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&most)));
}

#[cfg(feature = "dpdk")]
pub fn run(options: &Wire, state: &Path) -> anyhow::Result<Exit> {
    use serde_json::json;
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use tidegate_gate::{DataPath, Dpdk};

    use super::events::Events;

    let devices = super::dpdk::devices(&options.devices)?;
    super::logs::start(options.log_format.into(), &options.log)?;
    if let Some(daemon) = options.stands_by {
        let process = process(daemon);
        if !died(io::stdin())? {
            return Ok(Exit::Done);
        }
        if let Some(process) = process {
            gone(&process);
        }
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let file = match lock(state) {
        // The packets must pass, also if the disk is full.
        Err(error) if options.stands_by.is_some() => {
            tracing::error!(
                error = format!("{error:#}"),
                "the wire cannot be noted: `tidegate gate down` will not find this process"
            );
            None
        }
        file => Some(file?),
    };
    devices.choose();
    let wire = match (Dpdk::wire(), options.stands_by) {
        (Ok(wire), _) => wire,
        (Err(error), Some(daemon)) if options.tries > 1 => {
            tracing::warn!(%error, "the daemon died, and its devices cannot be opened yet");
            thread::sleep(AGAIN);
            if signals.pending().next().is_some() {
                return Ok(Exit::Done);
            }
            // DPDK starts once in a process.
            let plan = Plan {
                devices: &options.devices,
                state,
                events: options.events.as_deref(),
                log: (options.log_format.into(), &*options.log),
            };
            return Err(plan.command(daemon, options.tries - 1)?.exec().into());
        }
        (Err(error), _) => {
            let _ = fs::remove_file(state.join(FILE));
            return Err(error.into());
        }
    };
    let text = "the devices are a plain wire: all packets pass, and nothing is limited";
    match options.stands_by {
        Some(daemon) => {
            tracing::error!(
                "the daemon died. {text}, until it is started again, or until `tidegate gate down`"
            );
            let why = json!({ "why": format!("the daemon (process {daemon}) died") });
            Events::new(options.events.as_deref()).add("the wire", "wire", why);
        }
        None => tracing::info!("{text}"),
    }
    signals.forever().next();
    wire.remove()?;
    let _ = fs::remove_file(state.join(FILE));
    drop(file);
    tracing::info!("the ports are closed");
    Ok(Exit::Done)
}

#[cfg(not(feature = "dpdk"))]
pub fn run(_: &Wire, _: &Path) -> anyhow::Result<Exit> {
    Err(super::dpdk::absent().into())
}

/// Locks the ports of the gate with this state for this process.
#[cfg(feature = "dpdk")]
fn lock(state: &Path) -> anyhow::Result<File> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    let path = state.join(FILE);
    let place = || format!("cannot write {}", path.display());
    let mut folder = std::fs::DirBuilder::new();
    folder
        .recursive(true)
        .mode(0o700)
        .create(state)
        .with_context(place)?;
    let mut options = File::options();
    // Others who could read it could lock it.
    options.create(true).write(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).with_context(place)?;
    // Those who only look lock it for a moment.
    let until = Instant::now() + Duration::from_secs(1);
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > until {
            bail!("this gate has a plain wire already: `tidegate gate down` ends it");
        }
        thread::sleep(PAUSE);
    }
    file.set_len(0).with_context(place)?;
    // On a full disk, the lock alone says whose it is.
    let _ = writeln!(file, "{}", std::process::id());
    Ok(file)
}
