//! The daemon's log: lines or JSON objects on standard error.

use std::io::{self, IsTerminal};

use tidegate_gate::change::Report;
use tidegate_gate::config::Log;
use tidegate_gate::control::ControlError;
use tidegate_gate::gate::Missing;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::cli::UsageError;

/// Begins to log events of these levels.
pub fn start(format: Log, rules: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(rules).map_err(|error| {
        let text = format!("--log {rules}: {error}; write a level, such as debug, or rules");
        UsageError(text)
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match format {
        Log::Json => log.json().flatten_event(true).init(),
        Log::Text => log.with_target(false).with_timer(Clock::new()).init(),
    }
    Ok(())
}

/// Logs where packets are no longer taken, and where they are again.
pub fn missing(before: &[Missing], now: &[Missing]) {
    for place in now.iter().filter(|place| !before.contains(place)) {
        let (interface, why) = (&*place.interface, &*place.why);
        tracing::warn!(
            interface,
            why,
            "packets are not taken there: nothing is limited at it"
        );
    }
    let mut told = None;
    for place in before {
        let interface = &*place.interface;
        let back = now.iter().all(|other| other.interface != interface);
        if back && told != Some(interface) {
            tracing::info!(interface, "packets are taken there again");
            told = Some(interface);
        }
    }
}

/// Logs what a reload came to, and passes it on.
pub fn reloaded(result: Result<Report, ControlError>) -> Result<Report, ControlError> {
    match &result {
        Ok(report) => self::report(report, "reloaded"),
        Err(error) => tracing::error!(%error, "not reloaded; all is as before"),
    }
    result
}

/// Logs what a start or a reload changed.
pub fn report(report: &Report, what: &str) {
    let count = |names: &[String]| names.len() as u64;
    let added = count(&report.added);
    let removed = count(&report.removed);
    let limited = count(&report.limited);
    let moved = count(&report.moved);
    let unchanged = report.unchanged as u64;
    tracing::info!(added, removed, limited, moved, unchanged, "{what}");
    for subscriber in &report.reset {
        tracing::warn!(
            subscriber,
            "what was set live no longer holds: the file changed"
        );
    }
    for place in &report.missing {
        tracing::warn!(place, "packets are not taken there");
    }
}

/// The time of an event, unless whoever reads them notes it.
struct Clock(bool);

impl Clock {
    fn new() -> Self {
        Self(std::env::var_os("JOURNAL_STREAM").is_none())
    }
}

impl FormatTime for Clock {
    fn format_time(
        &self,
        writer: &mut tracing_subscriber::fmt::format::Writer<'_>,
    ) -> std::fmt::Result {
        if self.0 {
            SystemTime.format_time(writer)
        } else {
            Ok(())
        }
    }
}
