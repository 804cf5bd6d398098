//! The daemon's log: lines or JSON objects on standard error.

use std::io::{self, IsTerminal};

use tidegate_gate::config::Log;
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
