//! The resources that a program uses. Another process of this benchmark runs it as its only child,
//! so the sum over children is that of the program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

/// The resources that a run used.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Wall time in seconds.
    pub wall: f64,
    /// Processor time in seconds, user and system.
    pub cpu: f64,
    /// Most memory at once, in bytes.
    pub memory: f64,
}

/// Keeps this process, and those it starts, on one core.
pub fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &cores).with_context(|| format!("core {core}"))
}

/// Runs a command on one core with its output thrown away; `None` if it is not installed.
pub fn measure(core: usize, program: &Path, args: &[&str]) -> Result<Option<Usage>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["child", &core.to_string(), "--"])
        .arg(program)
        .args(args)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.trim() == "missing" {
        return Ok(None);
    }
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [wall, cpu, memory] = numbers[..] else {
        bail!("{} failed", program.display());
    };
    Ok(Some(Usage { wall, cpu, memory }))
}

/// The other process: runs the command and prints the resources that it used.
pub fn run(core: usize, command: &[String]) -> Result<()> {
    pin(core)?;
    let (program, args) = command.split_first().context("no command")?;
    let start = Instant::now();
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let wall = start.elapsed().as_secs_f64();
    let status = match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("missing");
            return Ok(());
        }
        status => status?,
    };
    if !status.success() {
        bail!("{program}: {status}");
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    // In KiB on Linux.
    println!("{wall} {cpu} {}", usage.max_rss() * 1024);
    Ok(())
}
