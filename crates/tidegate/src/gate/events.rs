//! The log of events: what changed, when, and who did it, a JSON object a line.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use tidegate_gate::binding::BindingChange;
use tidegate_gate::calendar::Turn;
use tidegate_gate::change::Report;
use tidegate_gate::control::{Adjustment, SharedGate};
use tidegate_gate::live::MatchChange;
use tidegate_gate::table::{Attachment, Match};

#[cfg(test)]
mod tests;

/// Longest file. A longer one gets another name, in place of the one that had that name before.
const MOST: u64 = 64 << 20;
/// Bytes from the end of the file that are read again at most.
const TAIL: u64 = 1 << 20;

/// The log of a gate.
pub struct Events {
    file: Option<PathBuf>,
    /// Lines are written one after the other.
    writing: Mutex<()>,
}

/// The user who runs a command.
pub fn user() -> String {
    format!(
        "uid {} pid {}",
        rustix::process::getuid().as_raw(),
        std::process::id()
    )
}

/// What subscribers lose when another one gets it: their names, and the addresses and tags of each.
pub type Taken = BTreeMap<String, Vec<String>>;

/// What changes take from others than this subscriber. `holder` says who has an address or a tag before.
pub fn taken(
    subscriber: &str,
    moves: &[MatchChange],
    mut holder: impl FnMut(&Match) -> Option<String>,
) -> Taken {
    let mut taken = Taken::new();
    for change in moves {
        let given = match change {
            MatchChange::Assign(what) => std::slice::from_ref(what),
            MatchChange::Only(_, all) => all,
            MatchChange::Release(_) | MatchChange::AsDeclared => &[],
        };
        for what in given {
            if let Some(holder) = holder(what).filter(|holder| holder != subscriber) {
                taken.entry(holder).or_default().push(what.to_string());
            }
        }
    }
    taken
}

/// Interfaces as the API names them; `None` without any.
fn places(all: &[Attachment]) -> Option<Vec<Value>> {
    let place = |one: &Attachment| {
        let (hook, direction) = (one.hook.name(), one.direction.name());
        json!({ "interface": one.interface, "hook": hook, "direction": direction })
    };
    (!all.is_empty()).then(|| all.iter().map(place).collect())
}

impl Events {
    /// A log in this file; without one, nothing is kept.
    pub fn new(file: Option<&Path>) -> Self {
        Self {
            file: file.map(Path::to_owned),
            writing: Mutex::new(()),
        }
    }

    /// What a change is going to take from other subscribers. Without a log this is not looked up.
    pub fn taken(&self, gate: &SharedGate, subscriber: &str, adjustment: &Adjustment) -> Taken {
        let holder = |what: &Match| {
            gate.holder(what)
                .ok()
                .map(|one| one.subscriber.name.to_string())
        };
        match &self.file {
            Some(_) => taken(subscriber, &adjustment.moves, holder),
            None => Taken::new(),
        }
    }

    /// A live change of a subscriber, and what it took from others.
    pub fn set(&self, by: &str, subscriber: &str, adjustment: &Adjustment, taken: &Taken) {
        let Adjustment {
            reset,
            reset_rates,
            setting,
            from,
            moves,
        } = adjustment;
        let rate = |rate: Option<tidegate_limiter::Rate>| rate.map(|rate| rate.bits_per_second());
        let moves: Vec<String> = moves.iter().map(MatchChange::to_string).collect();
        let BindingChange { port, mac, tags } = from;
        let details = json!({
            "subscriber": subscriber,
            "reset": reset.then_some(true),
            "reset_rates": reset_rates.then_some(true),
            "plan": setting.plan,
            "down": rate(setting.down),
            "up": rate(setting.up),
            "suspended": setting.suspended,
            "keys": Some(&setting.keys).filter(|keys| !keys.is_empty()),
            "from_port": port,
            "from_mac": mac,
            "from_vlan": tags,
            "addresses": Some(moves).filter(|moves| !moves.is_empty()),
            "taken_from": Some(taken).filter(|taken| !taken.is_empty()),
        });
        self.add(by, "set", details);
    }

    /// Changes of plans by the time of day or by volume.
    pub fn turned(&self, turns: &[(String, Option<Turn>)]) {
        let details = turns.iter().map(|(subscriber, turn)| {
            let why = turn.as_ref().map(|turn| turn.why.name());
            let plan = turn.as_ref().map(|turn| &turn.plan);
            json!({ "subscriber": subscriber, "plan": plan, "why": why })
        });
        self.add_all("the daemon", "turn", details);
    }

    /// A start or a reload that changed something, or not.
    pub fn reloaded(&self, by: &str, event: &str, report: &Report) {
        let details = json!({
            "added": report.added.len(),
            "removed": report.removed.len(),
            "limited": report.limited.len(),
            "moved": report.moved.len(),
            "skipped_lines": report.skipped_lines,
            "attached": places(&report.attached),
            "detached": places(&report.detached),
            "no_longer_set": Some(&report.reset).filter(|reset| !reset.is_empty()),
            "settings": Some(&report.settings).filter(|settings| !settings.is_empty()),
            "needs_restart": Some(&report.restart).filter(|restart| !restart.is_empty()),
            "missing": Some(&report.missing).filter(|missing| !missing.is_empty()),
        });
        self.add(by, event, details);
    }

    /// Anything else. Values that are null are left out.
    pub fn add(&self, by: &str, event: &str, details: Value) {
        self.add_all(by, event, [details].into_iter());
    }

    fn add_all(&self, by: &str, event: &str, details: impl Iterator<Item = Value>) {
        let Some(file) = &self.file else { return };
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let mut text = String::new();
        for details in details {
            let mut line = Map::new();
            line.insert("time".into(), time.clone().into());
            line.insert("by".into(), by.into());
            line.insert("event".into(), event.into());
            if let Value::Object(details) = details {
                line.extend(details.into_iter().filter(|(_, value)| !value.is_null()));
            }
            text += &format!("{}\n", Value::Object(line));
        }
        if let Err(error) = self.append(file, &text) {
            let file = file.display().to_string();
            tracing::error!(%error, file, "an event cannot be written");
        }
    }

    fn append(&self, path: &Path, text: &str) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if fs::metadata(path).is_ok_and(|metadata| metadata.len() >= MOST) {
            let mut name = path.as_os_str().to_owned();
            name.push(".1");
            fs::rename(path, name)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    }

    /// The latest events, the oldest first; of one subscriber if it is named, or that took something from it.
    ///
    /// # Errors
    /// If there is a file that cannot be read.
    pub fn latest(&self, most: usize, subscriber: Option<&str>) -> io::Result<Vec<Value>> {
        let Some(file) = &self.file else {
            return Ok(Vec::new());
        };
        let mut file = match fs::File::open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let from = file.metadata()?.len().saturating_sub(TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        // The first line may be cut.
        let lines = text.lines().skip(usize::from(from > 0));
        let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let concerns = |event: &Value, name: &str| {
            event["subscriber"] == name || event["taken_from"].get(name).is_some()
        };
        let wanted = |event: &Value| subscriber.is_none_or(|name| concerns(event, name));
        let events: Vec<Value> = events.filter(wanted).collect();
        let first = events.len().saturating_sub(most);
        Ok(events[first..].to_vec())
    }
}
