//! A gate as one of a pair.

use std::collections::{HashMap, HashSet};

use tidegate_limiter::Nanos;

use super::error::path_error;
use super::{Gate, GateError};
use crate::live::MatchChange;
use crate::matches;
use crate::pair::{Carried, Imported, Reader, SharedChange, Writer, digest};
use crate::path::{DataPath, Remembered};
use crate::state::Lane;
use crate::table::{Direction, Match};

/// A gate that asks for what happened within less than this has asked before, and still has what it said then. Another one may
/// have lost it.
const FOLLOWS: Nanos = 60_000_000_000;

impl<D: DataPath> Gate<D> {
    /// Live changes later than a stamp, the oldest first.
    pub fn changes_since(&self, stamp: u64) -> Vec<SharedChange> {
        let members = self.state.members.iter();
        let later = members.filter(|(_, member)| member.stamp > stamp);
        let shared = later.map(|(name, member)| SharedChange {
            name: name.clone(),
            stamp: member.stamp,
            setting: member.setting.clone(),
            matches: (member.live.as_ref()).map(|all| all.iter().map(Match::to_string).collect()),
        });
        let mut all: Vec<SharedChange> = shared.collect();
        all.sort_by(|one, other| (one.stamp, &one.name).cmp(&(other.stamp, &other.name)));
        all
    }

    /// Makes a live change of the other gate, if it is later than the one here. Returns whether it is. What a subscriber has
    /// by a change that is later still stays with it: the other gate takes it away as well when it hears of that change.
    ///
    /// # Errors
    /// If there is no such subscriber or plan, or no room: the files of the two gates differ.
    pub fn adopt(&mut self, change: &SharedChange) -> Result<bool, GateError> {
        let member = self.member(&change.name)?;
        if member.stamp >= change.stamp {
            return Ok(false);
        }
        let mut all = match &change.matches {
            None => member.declared.matches.clone(),
            Some(texts) => {
                let read: Result<Vec<Vec<Match>>, _> =
                    texts.iter().map(|text| matches::read(text)).collect();
                let read = read.map_err(|error| GateError::Setting(error.to_string()));
                read?.concat()
            }
        };
        let members = self.state.members.iter();
        let later = members.filter(|(name, member)| change.is_before(name, member.stamp));
        let taken: HashSet<&Match> = later.flat_map(|(_, member)| member.matches()).collect();
        all.retain(|what| !taken.contains(what));
        let of = |key| {
            let all = all.iter().filter(|what| matches::key(what) == key);
            MatchChange::Only(key, all.copied().collect())
        };
        let moves = matches::KEYS.map(|(key, _)| of(key));
        self.change_one(&change.name, change.setting.as_ref(), &moves, Some(change))?;
        Ok(true)
    }

    /// The secret key of the flow hash. The gates of a pair have the same, so that flows keep their queues.
    pub fn hash(&self) -> [u64; 2] {
        self.state.hash
    }

    /// Takes over the key of the other gate.
    ///
    /// # Errors
    /// If the data path refuses.
    pub fn set_hash(&mut self, hash: [u64; 2]) -> Result<(), GateError> {
        self.settle()?;
        let mut next = self.state.clone();
        next.serial += 1;
        // Counters are still those of the same gate.
        next.identity = Some(self.state.identity());
        next.hash = hash;
        self.transact(next)
    }

    /// The limiters that had packets within this time, in nanoseconds. What the other gate said itself is left out, unless it may
    /// have lost it.
    ///
    /// # Errors
    /// If the data path cannot be read.
    pub fn export(&self, within: u64) -> Result<Vec<u8>, GateError> {
        let failed = |source| path_error::<D>(&self.state.pins, source);
        let now = self.path.now();
        let since = now.saturating_sub(within);
        let read = self.path.export(0..self.state.limiters(), since);
        let mut states: HashMap<u32, Remembered> = HashMap::new();
        for one in read.map_err(failed)? {
            // No packet has passed here since.
            if within < FOLLOWS && self.taken.get(&one.limiter) == Some(&one.at) {
                continue;
            }
            states.insert(one.limiter, one);
        }
        let mut digests = HashMap::new();
        let mut writer = Writer::default();
        if states.is_empty() {
            return Ok(writer.into_bytes());
        }
        for (name, member) in &self.state.members {
            for direction in Direction::BOTH {
                let lane = member.lanes[direction];
                // A limiter without packets since its plan changed has a memory that only makes sense under the former
                // plan.
                let Some(Remembered { at, state, .. }) = states
                    .remove(&member.limiter(direction))
                    .filter(|one| one.version == lane.version)
                else {
                    continue;
                };
                let Some(limits) = self.digest(&mut digests, lane) else {
                    continue;
                };
                writer.add(&Carried {
                    name: name.clone(),
                    direction,
                    limits,
                    age: now.saturating_sub(at),
                    state,
                });
            }
        }
        Ok(writer.into_bytes())
    }

    /// Lets limiters go on where those of the other gate are, if these had packets later.
    ///
    /// # Errors
    /// If the bytes are no limiters of the same version, or the data path refuses.
    pub fn import(&mut self, bytes: &[u8]) -> Result<Imported, GateError> {
        let mut done = Imported::default();
        let mut digests = HashMap::new();
        for limiter in Reader::new(bytes).map_err(GateError::Setting)? {
            let limiter = limiter.map_err(GateError::Setting)?;
            let member = self.state.members.get(&limiter.name);
            let known = member.and_then(|member| {
                let lane = member.lanes[limiter.direction];
                let limits = self.digest(&mut digests, lane)?;
                (limits == limiter.limits).then_some((member.limiter(limiter.direction), lane))
            });
            let Some((number, lane)) = known else {
                done.unknown += 1;
                continue;
            };
            let at = self.path.now().saturating_sub(limiter.age);
            let taken = self
                .path
                .import(number, (lane.plan, lane.version), &limiter.state, at);
            let taken = taken.map_err(|source| path_error::<D>(&self.state.pins, source))?;
            if taken {
                self.taken.insert(number, at);
                done.taken += 1;
            }
        }
        Ok(done)
    }

    /// The digest of the limits in force, which many subscribers share.
    fn digest(&self, digests: &mut HashMap<u32, u64>, lane: Lane) -> Option<u64> {
        let limits = self.state.plans.get(lane.plan)?;
        Some(*digests.entry(lane.plan).or_insert_with(|| digest(limits)))
    }
}
