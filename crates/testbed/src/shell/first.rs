//! The first process in a shell: it starts the program, passes signals on, and ends with it. Then the kernel ends all other
//! processes of the shell.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::names;
use crate::TestbedError;

/// Blocks the signals that [`run_first`] awaits in this thread and in processes that it starts, until this is dropped. The kernel discards
/// signals for a process 1 that has no handlers yet, but blocked ones wait.
#[derive(Debug)]
pub struct Blocked(SigSet);

impl Blocked {
    /// Blocks them.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn new() -> Result<Self, TestbedError> {
        let signals = awaited();
        signals
            .thread_block()
            .map_err(|error| TestbedError::system("block signals")(error.into()))?;
        Ok(Self(signals))
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // It was possible to block them.
        let _ = self.0.thread_unblock();
    }
}

/// Signals that the first process waits for.
fn awaited() -> SigSet {
    let all = PASSED_ON.iter().chain(&OF_THE_TERMINAL).chain(&[SIGCHLD]);
    let all = all.filter_map(|&signal| Signal::try_from(signal).ok());
    all.collect()
}

/// Signals that are for the program.
const PASSED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
/// Signals that the terminal sends to the program too.
const OF_THE_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];

/// Runs a program as [`Shell::start`](super::Shell::start) has started this process: as process 1, which ends when its
/// parent ends, whose number is that outside. Returns the program's exit code: 128 and its number if a signal ended it, 126
/// or 127 if it cannot be started. `names` is the text of the shell's `/etc/resolv.conf`, if that differs from the machine's.
///
/// # Errors
/// If the system refuses anything, or if the parent has already ended.
pub fn run_first(
    parent: u32,
    names: Option<&str>,
    command: &mut Command,
) -> Result<i32, TestbedError> {
    let failed = |what| move |error: Errno| TestbedError::system(what)(error.into());
    set_pdeathsig(Signal::SIGKILL).map_err(failed("stay with the parent process"))?;
    // It may have ended before.
    if !lives(parent) {
        return Err(failed("stay with the parent process")(Errno::ESRCH));
    }
    mounts().map_err(failed("make a namespace of mounts"))?;
    devices();
    processes().map_err(failed("show the shell's processes in /proc"))?;
    hide_resolvers().map_err(failed("hide the machine's services for names"))?;
    if let Some(names) = names {
        look_up(names).map_err(TestbedError::system(
            "change /etc/resolv.conf for the shell",
        ))?;
    }
    // Handlers, because a program would inherit blocked or ignored signals. What is ignored by now, as by nohup(1), stays so.
    let kept = PASSED_ON.iter().chain(&OF_THE_TERMINAL);
    let kept = kept.copied().filter(|&signal| !is_ignored(signal));
    let signals = Signals::new(kept.chain([SIGCHLD]));
    let mut signals = signals.map_err(TestbedError::system("wait for signals"))?;
    // Those that came before are passed on now.
    awaited()
        .thread_unblock()
        .map_err(failed("unblock signals"))?;
    let child = match command.spawn() {
        Ok(child) => Pid::from_raw(child.id() as i32),
        Err(error) => {
            let name = command.get_program().to_string_lossy();
            eprintln!("tidegate: cannot start {name}: {error}");
            // As shells do, POSIX.1 §2.8.2.
            return Ok(match error.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            });
        }
    };
    for signal in signals.forever() {
        if signal == SIGCHLD {
            if let Some(code) = ended(child).map_err(failed("wait for a program"))? {
                return Ok(code);
            }
        } else if PASSED_ON.contains(&signal) {
            // It may just have ended.
            let _ = Signal::try_from(signal).and_then(|signal| kill(child, signal));
        }
    }
    Err(failed("wait for signals")(Errno::EINTR))
}

/// Whether this process ignores a signal, as nohup(1) and shells without job control let it.
pub fn is_ignored(signal: i32) -> bool {
    // The mask's lowest bit is signal 1, proc(5).
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Collects processes that have ended. The exit code of the program, if it is one of them.
fn ended(program: Pid) -> nix::Result<Option<i32>> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == program => return Ok(Some(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == program => {
                return Ok(Some(128 + signal as i32));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a process outside lives. `/proc` is still that of outside.
fn lives(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state is behind the name, which may have any characters: Z and X have ended.
    let state = status
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Gives the shell mounts of its own. Those outside appear here, but not the other way round.
fn mounts() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let (none, slave) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE);
    mount(none, "/", none, slave, none)
}

/// What the kernel's own file systems need not have.
const PLAIN: MsFlags = MsFlags::MS_NOSUID
    .union(MsFlags::MS_NODEV)
    .union(MsFlags::MS_NOEXEC);

/// Lets `/sys` show the network devices of the shell, as `ip netns exec` does. Where that is not permitted, as to users in some
/// containers, it goes on showing those of the machine.
fn devices() {
    let sys = Path::new("/sys");
    // What is mounted within, such as control groups, is to be there again.
    let list = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let within = list.lines().filter_map(|line| line.split(' ').nth(4));
    let within = within.map(Path::new).filter(|path| path.starts_with(sys));
    let mut kept: Vec<(&Path, File)> = Vec::new();
    for path in within.filter(|&path| path != sys) {
        let open = File::options()
            .read(true)
            .custom_flags(OFlag::O_PATH.bits())
            .open(path);
        if let Ok(file) = open
            && !kept.iter().any(|(outer, _)| path.starts_with(outer))
        {
            kept.push((path, file));
        }
    }
    // What is read-only, as in a container, stays so.
    let is_fixed = statvfs(sys).is_ok_and(|sys| sys.flags().contains(FsFlags::ST_RDONLY));
    let fixed = if is_fixed {
        MsFlags::MS_RDONLY
    } else {
        MsFlags::empty()
    };
    let none = None::<&str>;
    if mount(Some("sysfs"), sys, Some("sysfs"), PLAIN | fixed, none).is_err() {
        return;
    }
    for (path, file) in kept {
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        let all = MsFlags::MS_BIND | MsFlags::MS_REC;
        let _ = mount(Some(from.as_str()), path, none, all, none);
    }
}

/// Lets `/proc` show the processes of the shell, for programs such as `ps`.
fn processes() -> nix::Result<()> {
    match mount(Some("proc"), "/proc", Some("proc"), PLAIN, None::<&str>) {
        // In a container whose /proc hides something, users see the processes outside instead.
        Err(Errno::EPERM) => Ok(()),
        result => result,
    }
}

/// Services of the machine that look up names for programs and do not pass the shell's elements. Named sockets do not belong to a network
/// namespace. Without them the C library goes on to `/etc/resolv.conf` (nss-resolve(8), nscd(8)).
const RESOLVERS: [&str; 2] = [
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/nscd/socket",
];

/// Hides them from the shell.
fn hide_resolvers() -> nix::Result<()> {
    for socket in RESOLVERS.map(Path::new) {
        if socket.exists() {
            let none = None::<&str>;
            mount(Some("/dev/null"), socket, none, MsFlags::MS_BIND, none)?;
        }
    }
    Ok(())
}

/// Lets programs look up names at the servers of this text. Only the shell sees the file.
fn look_up(text: &str) -> io::Result<()> {
    // A file system in memory, which only this process sees, in a place that is surely there. The mount keeps the file. So the shell
    // needs no folder of the machine, and nothing stays there if it is killed.
    let none = None::<&str>;
    let place = Path::new("/proc");
    mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), none)?;
    let path = place.join("resolv.conf");
    let write = || {
        let mut file = File::create_new(&path)?;
        // Others read it too, whatever the umask is.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        mount(Some(&path), names::FILE, none, MsFlags::MS_BIND, none)?;
        io::Result::Ok(())
    };
    let shown = write();
    umount2(place, MntFlags::MNT_DETACH)?;
    shown
}
