//! A gate on this machine, without a daemon between.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Adjustment, Control, ControlError, PairControl};
use crate::binding::BindingChange;
use crate::calendar::{Moment, Turn};
use crate::change::Report;
use crate::config::{AtStart, Config, PlanKeys};
use crate::flow::Flow;
use crate::gate::{self, Folders, Gate, GateError, Link, Missing, Setting, View};
use crate::line::Line;
use crate::pair::{Imported, SharedChange};
use crate::path::{DataPath, PathError};
use crate::reading::{Overview, Reading, Roster, Subscriber};
use crate::state::GateState;
use crate::table::{Direction, LimiterState, Match};
use crate::usage::SharedUsage;

#[cfg(test)]
mod tests;

/// A gate that is up, held by this process or only watched.
#[derive(Debug)]
pub struct LocalGate<D: DataPath> {
    source: Source<D>,
    roster: Option<Arc<Roster>>,
    /// Subscribers by the names that access servers have for them besides their own.
    users: Option<HashMap<String, String>>,
    /// Whether all imported files are read leniently.
    lenient: bool,
    /// What the daemon that holds it read at its start.
    at_start: Option<AtStart>,
}

#[derive(Debug)]
enum Source<D: DataPath> {
    /// No other process changes it.
    Held(Box<Gate<D>>),
    /// Other processes may change it, and this one does not.
    Watched(Box<View<D>>),
}

/// Where the gate is pinned whose state is in this folder.
///
/// # Errors
/// If the folder holds no state, unless it is the default one; if the state cannot be read.
pub fn pins(state: &Path) -> Result<PathBuf, ControlError> {
    match gate::pins(state)? {
        Some(pins) => Ok(pins),
        // There may be a gate whose state was lost. Opening it reports this.
        None if state == Path::new(Config::STATE) => Ok(Config::PINS.into()),
        None => Err(ControlError::Down(format!(
            "no gate is up with its state in {}: start one with `tidegate gate up` or `tidegate gate run`, name the folder of its key `state` with --state, or remove one whose state is lost with `tidegate gate down --pins FOLDER`",
            state.display()
        ))),
    }
}

impl<D: DataPath> LocalGate<D> {
    /// A gate that this process has taken.
    pub fn held(gate: Gate<D>) -> Self {
        Self {
            source: Source::Held(Box::new(gate)),
            roster: None,
            users: None,
            lenient: false,
            at_start: None,
        }
    }

    /// With all imported files read leniently from now on, if so.
    #[must_use]
    pub fn lenient(self, lenient: bool) -> Self {
        Self { lenient, ..self }
    }

    /// As a daemon that started with this configuration holds it: reloads report what only another start would read.
    #[must_use]
    pub fn of_daemon(self, config: &Config) -> Self {
        Self {
            at_start: Some(config.into()),
            ..self
        }
    }

    /// The gate whose state is in this folder, to be read while any process may change it.
    ///
    /// # Errors
    /// If no gate is up, or its state cannot be read.
    pub fn watched(state: &Path) -> Result<Self, ControlError> {
        let pins = &pins(state)?;
        let view = View::open(Folders { pins, state })?;
        Ok(Self {
            source: Source::Watched(Box::new(view)),
            roster: None,
            users: None,
            lenient: false,
            at_start: None,
        })
    }

    /// The state and the data path as they are now.
    fn fresh(&mut self) -> Result<(&GateState, &D), ControlError> {
        match &mut self.source {
            Source::Held(gate) => Ok((gate.state(), gate.path())),
            Source::Watched(view) => {
                if view.refresh()? {
                    (self.roster, self.users) = (None, None);
                }
                Ok((view.state(), view.path()))
            }
        }
    }

    fn gate(&mut self) -> Result<&mut Gate<D>, ControlError> {
        match &mut self.source {
            Source::Held(gate) => Ok(gate),
            Source::Watched(_) => Err(ControlError::Other(
                "this process only watches the gate and cannot change it".into(),
            )),
        }
    }
}

impl<D: DataPath + Send> Control for LocalGate<D> {
    fn overview(&mut self) -> Result<Overview, ControlError> {
        self.fresh()?;
        Ok(match &self.source {
            Source::Held(gate) => gate.overview(),
            Source::Watched(view) => view.overview(),
        })
    }

    fn roster(&mut self) -> Result<Arc<Roster>, ControlError> {
        self.fresh()?;
        // The same allocation for the same content, so that readings are compared without comparing
        // names.
        if let Some(roster) = &self.roster {
            return Ok(Arc::clone(roster));
        }
        let (state, _) = self.fresh()?;
        let roster = Arc::new(Roster::of(state));
        self.roster = Some(Arc::clone(&roster));
        Ok(roster)
    }

    fn subscriber(&mut self, name: &str) -> Result<Subscriber, ControlError> {
        let (state, _) = self.fresh()?;
        // The roster is not used, because it is rebuilt after each change.
        let member = state.members.get(name);
        member
            .map(|member| Subscriber::of(state, name, member))
            .ok_or_else(|| ControlError::nobody(name, state.members.keys().map(String::as_str)))
    }

    fn holder(&mut self, what: &Match) -> Result<String, ControlError> {
        let (state, _) = self.fresh()?;
        let mut all = state.members.iter();
        all.find(|(_, member)| member.matches().contains(what))
            .map(|(name, _)| name.clone())
            .ok_or_else(|| ControlError::Unknown(format!("no subscriber has {what}")))
    }

    fn lent(&mut self, name: &str) -> Result<Vec<Match>, ControlError> {
        let (state, _) = self.fresh()?;
        let nobody = || ControlError::nobody(name, state.members.keys().map(String::as_str));
        let member = state.members.get(name).ok_or_else(nobody)?;
        let declared: HashSet<&Match> = member.declared.matches.iter().collect();
        let all = member.matches().iter();
        Ok(all
            .filter(|what| !declared.contains(what))
            .copied()
            .collect())
    }

    fn user(&mut self, user: &str) -> Result<String, ControlError> {
        let (state, _) = self.fresh()?;
        if state.members.contains_key(user) {
            return Ok(user.to_owned());
        }
        // Only another configuration changes them.
        if self.users.is_none() {
            let (state, _) = self.fresh()?;
            let named = state.members.iter().flat_map(|(name, member)| {
                let users = member.declared.users.iter();
                users.map(|user| (user.clone(), name.clone()))
            });
            self.users = Some(named.collect());
        }
        let found = self.users.as_ref().and_then(|users| users.get(user));
        found
            .cloned()
            .ok_or_else(|| ControlError::Unknown(format!("no subscriber has the user `{user}`")))
    }

    fn read(&mut self) -> Result<Reading, ControlError> {
        let roster = self.roster()?;
        let (state, path) = self.fresh()?;
        Ok(Reading::take(roster, state, path)?)
    }

    fn limiter(&mut self, number: u32) -> Result<LimiterState, ControlError> {
        // The state is not refreshed: many limiters are read in a row, after a reading.
        let path = match &self.source {
            Source::Held(gate) => gate.path(),
            Source::Watched(view) => view.path(),
        };
        Ok(path.read(number)?)
    }

    fn line(
        &mut self,
        subscriber: &Subscriber,
    ) -> Result<Option<(Line, Option<f64>)>, ControlError> {
        let (state, path) = self.fresh()?;
        let line = path.line(subscriber.number())?;
        Ok(line
            .zip(state.watch)
            .map(|(line, watch)| (line, watch.requirement.score(&line))))
    }

    fn flows(&mut self, name: &str) -> Result<Vec<Flow>, ControlError> {
        let number = self.subscriber(name)?.number();
        let (state, path) = self.fresh()?;
        path.flows(number)?.ok_or_else(|| {
            ControlError::Invalid(format!(
                "no flows are watched: add [watch] to {} and reload",
                state.config.display()
            ))
        })
    }

    fn set(&mut self, name: &str, adjustment: &Adjustment) -> Result<(), ControlError> {
        self.roster = None;
        let gate = self.gate()?;
        let member = gate.state().members.get(name);
        let before = member.and_then(|member| member.setting.clone());
        let mut setting = before
            .clone()
            .filter(|_| !adjustment.reset)
            .unwrap_or_default();
        if adjustment.reset_rates {
            end_rates(&mut setting);
        }
        let wanted = &adjustment.setting;
        setting.plan = wanted.plan.clone().or(setting.plan);
        setting.down = wanted.down.or(setting.down);
        setting.up = wanted.up.or(setting.up);
        setting.suspended = wanted.suspended.or(setting.suspended);
        setting.from = wanted.from.clone().or(setting.from);
        for (key, value) in &wanted.keys {
            match value.is_null() {
                true => setting.keys.remove(key),
                false => setting.keys.insert(key.clone(), value.clone()),
            };
        }
        if let (true, Some(member)) = (adjustment.reset_rates, member) {
            let state = gate.state();
            end_misfits(&mut setting, &wanted.keys, |setting| {
                let limits = state.set_limits(&member.declared, setting, None);
                limits.is_ok()
            });
        }
        if adjustment.from != BindingChange::default() {
            let declared = member.map(|member| member.declared.from.clone());
            let from = setting.from.or(declared).unwrap_or_default();
            let from = adjustment.from.apply(from, &gate.state().attachments);
            setting.from = Some(from.map_err(ControlError::Invalid)?);
        }
        let setting = Some(setting).filter(|setting| *setting != Setting::default());
        if setting.is_none() && before.is_none() && adjustment.moves.is_empty() && !adjustment.reset
        {
            return Err(ControlError::Invalid(
                "nothing is set: give a plan, a rate or a key of the plan".into(),
            ));
        }
        gate.adjust(name, setting.as_ref(), &adjustment.moves)?;
        Ok(())
    }

    fn turn(
        &mut self,
        at: &Moment,
        usage: &SharedUsage,
    ) -> Result<Vec<(String, Option<Turn>)>, ControlError> {
        let turns = self.gate()?.turn(at, usage)?;
        if !turns.is_empty() {
            self.roster = None;
        }
        Ok(turns)
    }

    fn reload(&mut self, file: Option<&Path>, lenient: bool) -> Result<Report, ControlError> {
        (self.roster, self.users) = (None, None);
        let lenient = lenient || self.lenient;
        let gate = self.gate()?;
        let file = file.unwrap_or(&gate.state().config).to_owned();
        let config = Config::read_as(&file, lenient).map_err(GateError::from)?;
        let mut report = gate.reload(&config)?;
        let at_start = self.at_start.as_ref();
        report.restart = at_start.map_or_else(Vec::new, |start| start.changed(&config));
        Ok(report)
    }

    fn pair(&mut self, changes: bool) -> Result<&mut dyn PairControl, ControlError> {
        // Who asks several times a second changes something rarely.
        if changes {
            self.roster = None;
        }
        Ok(self.gate()?)
    }

    fn heal(&mut self) -> Vec<Missing> {
        match &mut self.source {
            Source::Held(gate) => gate.heal(),
            Source::Watched(_) => Vec::new(),
        }
    }

    fn links(&mut self) -> Vec<Link> {
        match &self.source {
            Source::Held(gate) => gate.links(),
            Source::Watched(_) => Vec::new(),
        }
    }
}

impl<D: DataPath> PairControl for Gate<D> {
    fn changes_since(&self, stamp: u64) -> Vec<SharedChange> {
        self.changes_since(stamp)
    }

    fn adopt(&mut self, change: &SharedChange) -> Result<bool, ControlError> {
        Ok(self.adopt(change)?)
    }

    fn hash(&self) -> [u64; 2] {
        self.hash()
    }

    fn set_hash(&mut self, hash: [u64; 2]) -> Result<(), ControlError> {
        Ok(self.set_hash(hash)?)
    }

    fn export(&self, within: u64) -> Result<Vec<u8>, ControlError> {
        Ok(self.export(within)?)
    }

    fn import(&mut self, bytes: &[u8]) -> Result<Imported, ControlError> {
        Ok(self.import(bytes)?)
    }
}

/// Takes back the rates of a live change.
fn end_rates(setting: &mut Setting) {
    (setting.down, setting.up) = (None, None);
    for way in Direction::BOTH {
        // As a key of the plan, a direction is a rate, or a table with a rate and other keys.
        let Some(mut value) = setting.keys.remove(way.name()) else {
            continue;
        };
        if let Some(table) = value.as_object_mut() {
            table.remove("rate");
            if !table.is_empty() {
                setting.keys.insert(way.name().to_owned(), value);
            }
        }
    }
}

/// Takes back keys of the former plan that a new one cannot have, as few as possible. Those that are `wanted` stay.
fn end_misfits(setting: &mut Setting, wanted: &PlanKeys, fits: impl Fn(&Setting) -> bool) {
    if fits(setting) {
        return;
    }
    // The keys of a quota belong together.
    let mut groups: BTreeMap<String, PlanKeys> = BTreeMap::new();
    for (key, value) in std::mem::take(&mut setting.keys) {
        if wanted.contains_key(&key) {
            setting.keys.insert(key, value);
            continue;
        }
        let group = key.split('-').next().unwrap_or_default().to_owned();
        groups.entry(group).or_default().insert(key, value);
    }
    // A key may need another one, such as `burst` a `scheme`.
    loop {
        let with = |group: &PlanKeys| {
            let mut with = setting.clone();
            with.keys.extend(group.clone());
            with
        };
        let mut all = groups.iter().map(|(name, group)| (name, with(group)));
        let Some((name, with)) = all.find(|(_, with)| fits(with)) else {
            return;
        };
        let name = name.clone();
        groups.remove(&name);
        *setting = with;
    }
}

/// Whether the kernel or the file system refused.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let denied = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref().is_some_and(denied) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl From<PathError> for ControlError {
    fn from(error: PathError) -> Self {
        let text = error.to_string();
        if is_refused(&error) {
            Self::Rights(text)
        } else {
            Self::Other(text)
        }
    }
}

impl From<GateError> for ControlError {
    fn from(error: GateError) -> Self {
        let text = error.to_string();
        match &error {
            GateError::NotUp { .. } | GateError::Lost { .. } | GateError::Begun { .. } => {
                Self::Down(text)
            }
            GateError::Subscriber { .. } => Self::Unknown(text),
            GateError::Config(_)
            | GateError::Change(_)
            | GateError::Setting(_)
            | GateError::Fixed { .. }
            | GateError::Elsewhere { .. }
            | GateError::Network { .. }
            | GateError::AlreadyUp { .. } => Self::Invalid(text),
            _ if is_refused(&error) => Self::Rights(text),
            _ => Self::Other(text),
        }
    }
}
