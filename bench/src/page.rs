//! The page in the browser beside `tidegate detect`, on the same capture in the same run.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};

use super::capture::{self, Big};
use super::child;
use super::{Figures, core, median};

/// Drives a browser, and prints a line a figure.
const DRIVER: &str = "crates/web/page/browser/bench.mjs";

pub fn measure(big: &Big, rounds: usize, figures: &mut Figures) -> Result<()> {
    let tidegate = capture::tidegate();
    if !tidegate.exists() {
        bail!(
            "{} is not built: cargo build --release -p tidegate",
            tidegate.display()
        );
    }
    capture::warm(&big.path)?;
    let file = big
        .path
        .to_str()
        .context("the capture's path is not UTF-8")?;
    let detect = ["detect", "--format", "csv", "--jobs", "1", file];
    let mut native = Vec::new();
    let mut natively = || -> Result<()> {
        for _ in 0..rounds {
            let usage = child::measure(core(), &tidegate, &detect)?;
            native.push(usage.context("tidegate does not start")?);
        }
        Ok(())
    };
    natively()?;

    let million = capture::million()?;
    let packets = Big::existing(&million)?.packets;
    figures.add("million.packets", packets as f64, "packets");
    let many = capture::many()?;
    let drive = |browser: &str| {
        let driven = Command::new("node")
            .arg(DRIVER)
            .arg(&big.path)
            .arg(&million)
            .arg(&many)
            .arg(rounds.to_string())
            .env("TIDEGATE", &tidegate)
            .env("PAGE_BROWSER", browser)
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run node")?;
        if !driven.status.success() {
            bail!("{DRIVER} failed in {browser}: is the page built (make web)?");
        }
        Ok(String::from_utf8_lossy(&driven.stdout).into_owned())
    };
    // Natively before, between and after: what else the machine does changes.
    let mut printed = String::new();
    for browser in ["chromium", "firefox-esr"] {
        printed += &drive(browser)?;
        natively()?;
    }
    let wall = median(native.iter().map(|usage| usage.wall).collect());
    let memory = median(native.iter().map(|usage| usage.memory).collect()) / 1e6;
    figures.add("native.analyse", wall, "s");
    let cpu = median(native.iter().map(|usage| usage.cpu).collect());
    figures.add("native.analyse_cpu", cpu, "s");
    figures.add("native.peak_memory", memory, "MB");
    let mut value = |wanted: &str| {
        let mut found = None;
        for line in printed.lines() {
            if let [name, number, unit] = line.split(' ').collect::<Vec<_>>()[..]
                && name == wanted
            {
                let number: f64 = number.parse().context(line.to_owned())?;
                figures.add(name, number, unit);
                found = Some(number);
            }
        }
        found.with_context(|| format!("{DRIVER} did not print {wanted}"))
    };
    for name in [
        "page.engine.compressed",
        "page.first_paint",
        "page.analyse.first",
    ] {
        value(name)?;
    }
    let analyse = value("page.analyse")?;
    let end = value("page.after_file")?;
    let analyse_cpu = value("page.analyse_cpu")?;
    let browser_cpu = value("page.browser_cpu")?;
    let alone = value("page.file_alone")?;
    value("page.file_alone_cpu")?;
    value("page.firefox.analyse.first")?;
    let firefox = value("page.firefox.analyse")?;
    value("page.firefox.after_file")?;
    value("page.firefox.file_alone")?;
    let grown = value("page.peak_memory")?;
    for name in [
        "page.zoom.frame_p50",
        "page.zoom.frame_p95",
        "page.zoom.frame_cpu",
        "page.pan.frame_p50",
        "page.pan.frame_p95",
        "page.pan.frame_cpu",
        "page.table.transfers",
        "page.table.scroll.frame_p50",
        "page.table.scroll.frame_p95",
        "page.table.scroll.frames_without_text",
        "page.table.drag.frame_p50",
        "page.table.drag.frame_p95",
        "page.table.drag.text_after",
    ] {
        value(name)?;
    }
    figures.add("page.analyse_over_native", analyse / wall, "x");
    figures.add("page.analyse_cpu_over_native", analyse_cpu / cpu, "x");
    figures.add("page.firefox.analyse_over_native", firefox / wall, "x");
    figures.add("page.file_alone_over_native", alone / wall, "x");
    // What follows the last byte cannot begin before, and all cores together cannot do more than they do all the time.
    let cores = available_parallelism().context("how many cores are there?")?;
    let least = (alone + end).max(browser_cpu / cores.get() as f64);
    figures.add("page.least_over_native", least / wall, "x");
    let bound = 2.0 * memory + big.bytes as f64 / 1e6;
    figures.add("page.memory_over_bound", grown / bound, "x");
    fs::remove_file(&million)?;
    fs::remove_file(&many)?;
    Ok(())
}
