//! Addresses and tags that subscribers get and lose live, as DHCP, PPPoE and RADIUS give them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::matches;
use crate::state::Member;
use crate::table::Match;

#[cfg(test)]
mod tests;

/// A change of what belongs to a subscriber. It holds across reloads, until the address is assigned or released
/// again, or until the file gives it to a subscriber that did not have it in the file before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchChange {
    /// The subscriber gets it. Another one that has it loses it.
    Assign(Match),
    /// The subscriber loses it. It goes back to the subscriber that has it in the file, if this is another one.
    Release(Match),
    /// All that the subscriber has of this kind, by the key of the file: `addresses`, `vlan`, `qinq` or `pppoe`.
    Only(&'static str, Vec<Match>),
    /// The subscriber gets all that it has in the file, and loses the rest.
    AsDeclared,
}

impl MatchChange {
    /// The values of a key of the file, such as `addresses`, in place of those that the subscriber has.
    ///
    /// # Errors
    /// If there is no such key, or a text cannot be read.
    pub fn only(key: &str, texts: &[String]) -> Result<Self, String> {
        let (key, read) = matches::KEYS
            .into_iter()
            .find(|(known, _)| *known == key)
            .ok_or_else(|| format!("there is no key `{key}`"))?;
        let read = texts.iter().map(|text| read(text.trim()));
        let all: Vec<Vec<Match>> = read.collect::<Result<_, _>>()?;
        Ok(Self::Only(key, all.concat()))
    }

    /// These, in place of all others of their kinds.
    pub fn only_these(all: &[Match]) -> Vec<Self> {
        let of = |key| {
            let all = all.iter().filter(|what| matches::key(what) == key);
            Self::Only(key, all.copied().collect())
        };
        let changes = matches::KEYS.map(|(key, _)| of(key)).into_iter();
        changes
            .filter(|change| !matches!(change, Self::Only(_, all) if all.is_empty()))
            .collect()
    }

    /// The matches of the subscriber after the change.
    fn apply(&self, own: &mut Vec<Match>, member: &Member) {
        let add = |own: &mut Vec<Match>, new: &[Match]| {
            let mut there: HashSet<Match> = own.iter().copied().collect();
            own.extend(new.iter().filter(|what| there.insert(**what)));
        };
        match self {
            Self::Assign(what) => add(own, &[*what]),
            Self::Release(what) => own.retain(|one| one != what),
            Self::Only(key, new) => {
                own.retain(|one| matches::key(one) != *key);
                add(own, new);
            }
            Self::AsDeclared => own.clone_from(&member.declared.matches),
        }
    }
}

impl fmt::Display for MatchChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assign(what) => write!(f, "{what} assigned"),
            Self::Release(what) => write!(f, "{what} released"),
            Self::Only(key, all) => {
                let all: Vec<String> = all.iter().map(Match::to_string).collect();
                write!(f, "{key}: {}", all.join(" "))
            }
            Self::AsDeclared => f.write_str("as in the file"),
        }
    }
}

/// The matches, after changes of this subscriber's, of all subscribers whose matches differ then.
pub(crate) fn moved(
    members: &BTreeMap<String, Member>,
    name: &str,
    changes: &[MatchChange],
) -> BTreeMap<String, Vec<Match>> {
    let mut lists = BTreeMap::new();
    let Some(member) = members.get(name) else {
        return lists;
    };
    let mut own = member.matches().to_vec();
    for change in changes {
        change.apply(&mut own, member);
    }
    let before: HashSet<Match> = member.matches().iter().copied().collect();
    let after: HashSet<Match> = own.iter().copied().collect();
    if before == after {
        return lists;
    }
    let gained = |what: &Match| after.contains(what) && !before.contains(what);
    let lost = |what: &Match| before.contains(what) && !after.contains(what);
    for (other, member) in members.iter().filter(|(other, _)| *other != name) {
        let has = member.matches();
        // All that it has in the file is there, unless it was changed live.
        let lacks = |what: &&Match| member.live.is_some() && lost(what) && !has.contains(what);
        let back: Vec<Match> = member
            .declared
            .matches
            .iter()
            .filter(lacks)
            .copied()
            .collect();
        if !back.is_empty() || has.iter().any(gained) {
            let stays = has.iter().filter(|what| !gained(what)).copied();
            lists.insert(other.clone(), stays.chain(back).collect());
        }
    }
    lists.insert(name.to_owned(), own);
    lists
}

/// Keeps live changes of addresses across a reload: `old` are the subscribers before it, with the former file's
/// matches, and `new` have the new file's. Returns the subscribers whose addresses the file took back.
pub(crate) fn keep(
    old: &BTreeMap<String, Member>,
    new: &mut BTreeMap<String, Member>,
) -> Vec<String> {
    let mut robbed = Vec::new();
    let changed = |(name, member): (_, &Member)| Some((name, member.live.clone()?));
    let live: BTreeMap<&String, Vec<Match>> = old.iter().filter_map(changed).collect();
    if live.is_empty() {
        return robbed;
    }
    // What was assigned, and to whom.
    let mut holders: HashMap<Match, &str> = HashMap::new();
    for (name, list) in &live {
        let declared: HashSet<&Match> = old[*name].declared.matches.iter().collect();
        let assigned = list.iter().filter(|what| !declared.contains(what));
        holders.extend(assigned.map(|what| (*what, name.as_str())));
    }
    let was_assigned: HashSet<Match> = holders.keys().copied().collect();
    holders.retain(|_, holder| new.contains_key(*holder));
    for (name, member) in &*new {
        for what in &member.declared.matches {
            let Some(holder) = holders.get(what).copied() else {
                continue;
            };
            let before = old
                .get(name)
                .is_some_and(|old| old.declared.matches.contains(what));
            if holder == name || !before {
                holders.remove(what);
                if holder != name {
                    robbed.push(holder.to_owned());
                }
            }
        }
    }
    let mut assigned: HashMap<&str, Vec<Match>> = HashMap::new();
    for (what, holder) in &holders {
        assigned.entry(holder).or_default().push(*what);
    }
    for (name, member) in new.iter_mut() {
        let withheld: HashSet<Match> = match live.get(name) {
            Some(list) => {
                let list: HashSet<&Match> = list.iter().collect();
                let declared = old[name].declared.matches.iter();
                declared
                    .filter(|what| !list.contains(what))
                    .copied()
                    .collect()
            }
            None => HashSet::new(),
        };
        // Those that were taken away for a subscriber that no longer has them come back.
        let stays = |what: &&Match| {
            !withheld.contains(what) || was_assigned.contains(what) && !holders.contains_key(what)
        };
        let declared = member.declared.matches.iter();
        let mut list: Vec<Match> = declared.filter(stays).copied().collect();
        let mut more = assigned.remove(name.as_str()).unwrap_or_default();
        // The order of a hash map must not show.
        more.sort_by_key(Match::to_string);
        list.append(&mut more);
        member.set_matches(list);
    }
    robbed
}
