//! Dated runs, with the machine that they ran on.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;

use super::Figure;

/// Writes bench/runs/DATE-NAME.md, from the workspace's root.
pub fn write(name: &str, rounds: usize, figures: &[Figure]) -> Result<PathBuf> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let folder = PathBuf::from("bench/runs");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}-{name}.md", &now[..10]));
    let mut text = format!("# Benchmark of {name}, {now}\n\n");
    for (what, value) in machine() {
        writeln!(text, "- {what}: {value}")?;
    }
    writeln!(text, "- rounds: {rounds} (medians below)\n")?;
    writeln!(text, "```")?;
    for figure in figures {
        writeln!(text, "{figure}")?;
    }
    writeln!(text, "```")?;
    fs::write(&path, text)?;
    Ok(path)
}

/// The conditions that the figures depend on.
fn machine() -> Vec<(&'static str, String)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after_colon = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    vec![
        (
            "processor",
            after_colon(&read("/proc/cpuinfo"), "model name"),
        ),
        ("cores", cores.to_string()),
        ("memory", after_colon(&read("/proc/meminfo"), "MemTotal")),
        (
            "kernel",
            read("/proc/sys/kernel/osrelease").trim().to_owned(),
        ),
        // More than about 1: other programs ran too, and rates by wall time are too low.
        (
            "load average at the end",
            read("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or("unknown")
                .to_owned(),
        ),
    ]
}
