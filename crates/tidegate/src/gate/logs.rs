//! The daemon's log: lines or JSON objects on standard error.

use std::io::{self, IsTerminal};

use tidegate_gate::binding::BindingChange;
use tidegate_gate::change::Report;
use tidegate_gate::config::Log;
use tidegate_gate::control::{Adjustment, ControlError};
use tidegate_gate::live::MatchChange;
use tidegate_gate::{Link, Missing};
use tidegate_limiter::Rate;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::cli::UsageError;

/// Starts to log events that these rules select.
pub fn start(format: Log, rules: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(rules).map_err(|error| {
        let text = format!(
            "--log {rules}: {error}; give a level such as debug, or rules such as tidegate=debug"
        );
        UsageError(text)
    })?;
    // It would say that it cannot write, and end the program if it cannot say that.
    let log = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match format {
        Log::Json => log.json().flatten_event(true).init(),
        Log::Text => log.with_target(false).with_timer(Clock::new()).init(),
    }
    Ok(())
}

/// Logs interfaces that went missing, and those that came back.
pub fn missing(before: &[Missing], now: &[Missing]) {
    for place in now.iter().filter(|place| !before.contains(place)) {
        let (interface, why) = (&*place.interface, &*place.why);
        tracing::warn!(
            interface,
            why,
            "the gate is not attached to this interface: nothing is limited there"
        );
    }
    let mut last = None;
    for place in before {
        let interface = &*place.interface;
        let back = now.iter().all(|other| other.interface != interface);
        if back && last != Some(interface) {
            tracing::info!(interface, "the gate is attached to this interface again");
            last = Some(interface);
        }
    }
}

/// Logs devices that lost their link, have none at the start, or have one again.
pub fn links(before: &[Link], now: &[Link]) {
    for link in now.iter().filter(|link| !before.contains(link)) {
        let interface = &*link.interface;
        match link.up {
            false => tracing::warn!(
                interface,
                "the device of this interface has no link: no packet passes"
            ),
            true if !before.is_empty() => {
                tracing::info!(interface, "the device of this interface has a link again");
            }
            true => {}
        }
    }
}

/// Logs a live change of a subscriber, and who made it.
pub fn set(subscriber: &str, adjustment: &Adjustment, by: &str) {
    let Adjustment {
        reset,
        reset_rates,
        setting,
        from,
        moves,
    } = adjustment;
    let text = |rate: Option<Rate>| rate.map(|rate| rate.to_string());
    let (plan, suspended) = (setting.plan.as_deref(), setting.suspended);
    let (down, up) = (text(setting.down), text(setting.up));
    let keys = Some(&setting.keys).filter(|keys| !keys.is_empty());
    let keys = keys.map(|keys| serde_json::json!(keys).to_string());
    let from = (*from != BindingChange::default()).then(|| format!("{from:?}"));
    let moves: Vec<String> = moves.iter().map(MatchChange::to_string).collect();
    let moves = Some(moves.join(", ")).filter(|moves| !moves.is_empty());
    tracing::info!(
        subscriber,
        reset,
        reset_rates,
        plan,
        down,
        up,
        suspended,
        keys,
        from,
        moves,
        by,
        "set"
    );
}

/// Logs the result of a reload, and returns it.
pub fn reloaded(result: Result<Report, ControlError>) -> Result<Report, ControlError> {
    match &result {
        Ok(report) => self::report(report, "reloaded"),
        Err(error) => tracing::error!(%error, "the reload failed and changed nothing"),
    }
    result
}

/// What is said of a program of another version that stays in force.
pub const KEPT: &str = "a program of another version of tidegate goes on to limit packets: to replace it, run `tidegate gate down` and start the \
                        gate again";

/// Logs the changes of a start or a reload.
pub fn report(report: &Report, what: &str) {
    let count = |names: &[String]| names.len() as u64;
    let added = count(&report.added);
    let removed = count(&report.removed);
    let limited = count(&report.limited);
    let moved = count(&report.moved);
    let unchanged = report.unchanged as u64;
    tracing::info!(added, removed, limited, moved, unchanged, "{what}");
    for (places, what) in [
        (&report.attached, "attached to an interface"),
        (&report.detached, "detached from an interface"),
    ] {
        for place in places {
            let (interface, hook) = (&*place.interface, place.hook.name());
            let direction = place.direction.name();
            tracing::info!(interface, hook, direction, "{what}");
        }
    }
    for subscriber in &report.reset {
        tracing::warn!(
            subscriber,
            "a live change of this subscriber no longer applies: the file changed the subscriber"
        );
    }
    if !report.settings.is_empty() {
        let settings = report.settings.join(", ");
        tracing::info!(settings, "settings for all packets changed");
    }
    for changed in &report.restart {
        tracing::warn!(
            changed,
            "this part of the file changed, and takes effect when the daemon restarts"
        );
    }
    if !report.replaced.is_empty() {
        let programs = report.replaced.join(", ");
        tracing::info!(programs, "programs of another version were replaced");
    }
    for program in &report.kept {
        tracing::warn!(program, "{}", KEPT);
    }
    for mistake in &report.skipped {
        tracing::warn!(
            mistake,
            "a line is skipped, and its subscriber is not limited"
        );
    }
    if report.skipped_lines > 0 {
        let lines = report.skipped_lines;
        tracing::warn!(lines, "lines of imported files were skipped");
    }
    for interface in &report.missing {
        tracing::warn!(
            interface,
            "the gate is not attached to this interface: nothing is limited there"
        );
    }
}

/// The time of an event, unless the journal records it.
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
