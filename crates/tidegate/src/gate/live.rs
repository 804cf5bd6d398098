//! A gate that runs, driven by this process or by another.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tidegate_gate::config::Config;
use tidegate_gate::gate::{Gate, GateError, Missing, Report, Setting, View};
use tidegate_gate::path::DataPath;
use tidegate_gate::state::{DIRECTIONS, Member, State};
use tidegate_gate::table::{Counters, LimiterState};

use super::commands;
use super::control::{Change, Control, Failure, Overview, Reloaded};
use super::reading::{Entry, Limit, Reading, Roster};
use super::view::Attached;

#[cfg(test)]
mod tests;

/// A gate that is up.
pub struct Live<D: DataPath> {
    source: Source<D>,
    roster: Option<Arc<Roster>>,
}

enum Source<D: DataPath> {
    /// Nobody else changes it.
    Held(Gate<D>),
    /// Others may change it, and we do not.
    Seen(View<D>),
}

impl<D: DataPath> Live<D> {
    /// A gate that this process has taken.
    pub fn held(gate: Gate<D>) -> Self {
        Self {
            source: Source::Held(gate),
            roster: None,
        }
    }

    /// A gate to be looked at, whoever drives it.
    pub fn seen(state: &Path) -> Result<Self, Failure> {
        let view = View::open(state, &commands::pins(state)?)?;
        Ok(Self {
            source: Source::Seen(view),
            roster: None,
        })
    }

    /// What it holds, as it is now.
    fn fresh(&mut self) -> Result<(&State, &D), Failure> {
        match &mut self.source {
            Source::Held(gate) => Ok((gate.state(), gate.path())),
            Source::Seen(view) => {
                if view.refresh()? {
                    self.roster = None;
                }
                Ok((view.state(), view.path()))
            }
        }
    }

    fn gate(&mut self) -> Result<&mut Gate<D>, Failure> {
        match &mut self.source {
            Source::Held(gate) => Ok(gate),
            Source::Seen(_) => Err(Failure::Other("the gate was only to be looked at".into())),
        }
    }
}

impl<D: DataPath + Send> Control for Live<D> {
    fn overview(&mut self) -> Result<Overview, Failure> {
        let unsettled = match &self.source {
            Source::Held(gate) => gate.is_unsettled(),
            Source::Seen(view) => view.is_unsettled(),
        };
        let (state, path) = self.fresh()?;
        let attached = path.attachments();
        let places = state.attachments.iter();
        Ok(Overview {
            file: state.config.display().to_string(),
            attachments: places
                .map(|place| (place.clone(), attached.contains(place)))
                .collect(),
            plans: state.templates.len() as u64,
            unsettled,
        })
    }

    fn roster(&mut self) -> Result<Arc<Roster>, Failure> {
        self.fresh()?;
        // The same allocation for the same content: whoever compares readings need not look for names.
        if let Some(roster) = &self.roster {
            return Ok(Arc::clone(roster));
        }
        let (state, _) = self.fresh()?;
        let fresh = Arc::new(roster(state));
        self.roster = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn entry(&mut self, name: &str) -> Result<Entry, Failure> {
        let (state, _) = self.fresh()?;
        // Without the roster, which is made anew after each change.
        let member = state.members.get(name);
        member
            .map(|member| entry(state, name, member))
            .ok_or_else(|| Failure::Unknown(format!("there is no subscriber `{name}`")))
    }

    fn read(&mut self) -> Result<Reading, Failure> {
        let roster = self.roster()?;
        let (state, path) = self.fresh()?;
        let began = Instant::now();
        let all = path.counters(0..state.limiters()).map_err(failure)?;
        let of = |limit: &Option<Limit>| {
            limit
                .and_then(|limit| all.get(limit.limiter as usize).copied())
                .unwrap_or_default()
        };
        let counters: Vec<[Counters; 2]> = roster
            .entries
            .iter()
            .map(|entry| entry.limits.each_ref().map(of))
            .collect();
        let unlimited = path.unknown().map_err(failure)?;
        Ok(Reading {
            at: began,
            took: began.elapsed(),
            roster,
            counters,
            unlimited,
        })
    }

    fn limiter(&mut self, number: u32) -> Result<LimiterState, Failure> {
        // Without a look whether others changed it: this is asked for many at once, after a reading.
        let path = match &self.source {
            Source::Held(gate) => gate.path(),
            Source::Seen(view) => view.path(),
        };
        path.read(number).map_err(failure)
    }

    fn set(&mut self, name: &str, change: &Change) -> Result<(), Failure> {
        self.roster = None;
        let gate = self.gate()?;
        let member = gate.state().members.get(name);
        let before = member.and_then(|member| member.setting.clone());
        let mut setting = before.filter(|_| !change.reset).unwrap_or_default();
        let bits = |rate: tidegate_limiter::Rate| rate.bits_per_second();
        setting.plan = change.plan.clone().or(setting.plan);
        setting.down = change.down.map(bits).or(setting.down);
        setting.up = change.up.map(bits).or(setting.up);
        if change.reset && setting == Setting::default() {
            gate.reset(name)?;
        } else {
            gate.set(name, &setting)?;
        }
        Ok(())
    }

    fn reload(&mut self, file: Option<&Path>) -> Result<Reloaded, Failure> {
        self.roster = None;
        let gate = self.gate()?;
        let file = file.unwrap_or(&gate.state().config).to_owned();
        let config = Config::read(&file).map_err(GateError::from)?;
        let report = gate.reload(&config)?;
        Ok(reloaded(&report))
    }

    fn heal(&mut self) -> Vec<Missing> {
        match &mut self.source {
            Source::Held(gate) => gate.heal(),
            Source::Seen(_) => Vec::new(),
        }
    }
}

/// Who is limited, from what the gate holds.
fn roster(state: &State) -> Roster {
    // A BTreeMap's order of names is the roster's.
    let members = state.members.iter();
    Roster {
        entries: members
            .map(|(name, member)| entry(state, name, member))
            .collect(),
    }
}

fn entry(state: &State, name: &str, member: &Member) -> Entry {
    let set = member.setting.as_ref();
    let plan = set
        .and_then(|set| set.plan.as_deref())
        .or(member.plan.as_deref());
    let limits = DIRECTIONS.map(|direction| {
        let limits = state.plans.get(member.lanes[direction as usize].plan);
        Some(Limit {
            limiter: member.limiter(direction),
            rate: limits.map(|limits| limits.rate).filter(|&rate| rate > 0),
        })
    });
    Entry {
        name: name.into(),
        plan: plan.unwrap_or("-").into(),
        set: set.is_some(),
        limits,
        matches: member.matches.clone(),
    }
}

/// What a reload did, in numbers.
pub fn reloaded(report: &Report) -> Reloaded {
    let count = |names: &Vec<String>| names.len() as u64;
    let places = |list: &[tidegate_gate::table::Attachment], attached| {
        list.iter()
            .map(|place| Attached::new(place, attached))
            .collect()
    };
    Reloaded {
        added: count(&report.added),
        removed: count(&report.removed),
        limited: count(&report.limited),
        moved: count(&report.moved),
        unchanged: report.unchanged as u64,
        reset: report.reset.clone(),
        attached: places(&report.attached, true),
        detached: places(&report.detached, false),
        missing: report.missing.clone(),
        settings: report.settings,
    }
}

/// Whether the kernel or the file system did not let us.
fn is_of_rights(error: &(dyn std::error::Error + 'static)) -> bool {
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

fn failure(error: tidegate_gate::path::PathError) -> Failure {
    let text = error.to_string();
    if is_of_rights(&error) {
        Failure::Rights(text)
    } else {
        Failure::Other(text)
    }
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Self {
        let text = error.to_string();
        match &error {
            GateError::NotUp { .. } | GateError::Lost { .. } => Self::Down(text),
            GateError::Subscriber { .. } => Self::Unknown(text),
            GateError::Config(_)
            | GateError::Change(_)
            | GateError::Setting(_)
            | GateError::Fixed { .. }
            | GateError::Elsewhere { .. }
            | GateError::AlreadyUp { .. } => Self::Invalid(text),
            _ if is_of_rights(&error) => Self::Rights(text),
            _ => Self::Other(text),
        }
    }
}
