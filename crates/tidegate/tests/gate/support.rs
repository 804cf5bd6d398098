//! What the tests share: a gate in a namespace, commands of the program, and repeated measurements.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::{Namespace, Process};

/// The program under test.
pub const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

/// The gate's interfaces: both sides of a bridge.
pub const BRIDGE: &str = r#"
[[interface]]
name = "wan"
side = "core"
[[interface]]
name = "lan"
side = "access"
"#;

/// Lateness of the link at the 99th percentile, in nanoseconds, from which a busy machine may have spoiled
/// the measurement. The comparison of the lab with the kernel uses the same.
const LATE: u64 = tidegate_testbed::compare::LATE;
/// How often a measurement is repeated when the machine was too busy.
const REPEATS: u32 = 2;

/// Lets one test run at a time: they measure in real time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports that a test is skipped. The test harness does not capture this.
pub fn skip(test: &str, why: &str) {
    let mut past = std::io::stderr();
    writeln!(past, "skipped {test}: {why}").unwrap();
}

/// The result, or `None` with a report if this test cannot run here.
pub fn permitted<T>(test: &str, result: Result<T, TestbedError>) -> Option<T> {
    match result {
        Err(TestbedError::Rights { .. } | TestbedError::NoTun) => {
            skip(test, "needs root and /dev/net/tun");
            None
        }
        result => Some(result.unwrap()),
    }
}

/// Whether iperf3 is installed. Reports if not.
pub fn has_iperf(test: &str) -> bool {
    let there = tidegate_testbed::iperf::is_installed();
    if !there {
        skip(
            test,
            "needs root and iperf3 (packaging/setup test installs it)",
        );
    }
    there
}

/// What a measurement found wrong, and how late the link was in nanoseconds.
#[derive(Debug, Default)]
pub struct Findings {
    pub wrong: Vec<String>,
    pub late: u64,
}

impl Findings {
    /// Notes a condition that does not hold.
    pub fn ensure(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// Notes a figure that is not between `least` and `most`.
    pub fn within(&mut self, what: &str, value: f64, least: f64, most: f64) {
        eprintln!("{what}: {value:.4} ({least:.4} to {most:.4})");
        self.ensure((least..=most).contains(&value), || {
            format!("{what} is {value:.4}, not from {least:.4} to {most:.4}")
        });
    }
}

/// Measures, and repeats a measurement that failed on a machine that was too busy.
pub fn measured(mut measure: impl FnMut() -> Option<Findings>) {
    let mut repeats = 0;
    while let Some(Findings { wrong, late }) = measure() {
        let (us, wrong_text) = (late / 1000, wrong.join("\n"));
        eprintln!("the link's packets were up to {us} µs late (99 %)");
        if wrong.is_empty() {
            return;
        }
        assert!(
            late >= LATE && repeats < REPEATS,
            "the link was {us} µs late (99 %):\n{wrong_text}"
        );
        repeats += 1;
        eprintln!("once more, the machine was too busy:\n{wrong_text}");
    }
}

/// A gate in a namespace with the devices that it attaches to.
pub struct Gate<'a> {
    space: &'a Namespace,
    folder: TempDir,
}

impl<'a> Gate<'a> {
    /// A gate with this configuration. It is not up yet.
    pub fn new(space: &'a Namespace, configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let this = Self { space, folder };
        this.write(configuration);
        this
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("gate.toml")
    }

    /// Replaces the configuration in one step.
    pub fn write(&self, configuration: &str) {
        let new = self.folder.path().join("gate.toml.new");
        fs::write(&new, configuration).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    /// Runs `tidegate gate` with these words. `FILE` stands for the configuration.
    pub fn try_run(&self, words: &str) -> Output {
        let file = self.file();
        let words = (words.split_whitespace()).map(|word| match word {
            "FILE" => file.as_os_str(),
            word => word.as_ref(),
        });
        let mut command = Command::new(TIDEGATE);
        self.space.output(command.arg("gate").args(words)).unwrap()
    }

    /// The same. The command must succeed; returns what it printed.
    pub fn run(&self, words: &str) -> String {
        let output = self.try_run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tidegate gate {words}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the daemon and waits until it limits. Its log goes to a file.
    pub fn daemon(&self) -> Process {
        self.daemon_with(&[])
    }

    /// The same with further words for `gate run`.
    pub fn daemon_with(&self, words: &[&str]) -> Process {
        let path = self.folder.path().join("log");
        let log = fs::File::options().create(true).append(true).open(path);
        let mut command = Command::new(TIDEGATE);
        command.args(["gate", "run"]).arg(self.file()).args(words);
        command.stdout(Stdio::null()).stderr(log.unwrap());
        let process = self.space.start(&mut command).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while !self.try_run("status").status.success() {
            assert!(Instant::now() < end, "the daemon is not up: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        process
    }

    /// Starts a daemon, which must fail. Returns what it says.
    #[cfg(feature = "dpdk")]
    pub fn fails_with(&self, words: &[&str]) -> String {
        let mut command = Command::new(TIDEGATE);
        command.args(["gate", "run"]).arg(self.file()).args(words);
        // A wire that goes on after it has the same standard error, so that does not end.
        let path = self.folder.path().join("failed");
        command.stderr(fs::File::create(&path).unwrap());
        let output = self.space.output(&mut command).unwrap();
        assert!(!output.status.success(), "it runs");
        fs::read_to_string(path).unwrap()
    }

    /// What the daemon logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The counters of all subscribers.
    pub fn status(&self) -> Counted {
        let began = Instant::now();
        let text = self.run("status --all --json");
        // The time of the reading is not known more exactly.
        let at = began + began.elapsed() / 2;
        let status = serde_json::from_str(&text).unwrap();
        Counted { at, status }
    }
}

/// Counters and when they were read.
pub struct Counted {
    pub at: Instant,
    pub status: Value,
}

impl Counted {
    /// A counter of a subscriber's traffic, `down` or `up`.
    pub fn of(&self, subscriber: &str, direction: &str, counter: &str) -> u64 {
        let list = self.status["subscribers"].as_array().unwrap();
        let found = list.iter().find(|entry| entry["name"] == subscriber);
        let found = found.unwrap_or_else(|| panic!("no {subscriber} in {}", self.status));
        let value = found[direction][counter].as_u64();
        value.unwrap_or_else(|| panic!("no {counter} in {found}"))
    }

    /// The rate at which a subscriber's bytes passed from an earlier status to this, in bit/s.
    pub fn rate_since(&self, before: &Self, subscriber: &str, direction: &str) -> f64 {
        let bytes = |status: &Self| status.of(subscriber, direction, "passed_bytes");
        let passed = bytes(self) - bytes(before);
        passed as f64 * 8.0 / (self.at - before.at).as_secs_f64()
    }
}

/// Jain's index of fairness: 1 if all values are equal, 1/n if one value is all.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// The median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
