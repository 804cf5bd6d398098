//! The detector: keeps packets until the transfers that belong together can be judged together.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;

use super::arrival::Arrival;
use super::course::Held;
use super::group::Group;
use super::limiter::{LEAST_LOSSES, Losses, Towards, explain};
use super::receiver::{Seen, Trains, slowed};
use super::repair::slow_repairs;
use super::shift::Shift;
use super::starved::{might_be_starved, starved};
use super::verdict;
use crate::annotate::{Metrics, Transfer, TransferId, TransferSummary};
use crate::detect::{Basis, Detector, Verdicts};
use crate::flow::FlowSummary;
use crate::read::{Clients, Nanos};

/// Packets kept for a group. With more its transfers are judged, and what was kept is forgotten: 24
/// bytes each.
const MOST_OF_GROUP: usize = 1 << 18;
/// Packets kept in all, a transfer counting as some. With more the quietest groups are judged.
const MOST: usize = 1 << 21;
const TRANSFER_WEIGHT: usize = 24;
/// Packets of its group on which a causal judgement looks back, beside those that came since.
const LOOKS_BACK: usize = 1 << 14;
/// The least time between causal judgements of a group: each fits all packets that are kept.
const PAUSE: Nanos = 1_000_000_000;
/// Where fewer packets than one in this many came since, the pause is longer: by this time for each packet on which the
/// judgement looks back. So judgements take no more than a few times as long as packets come in, or a small share of the
/// time, whatever a host sends.
const FEW_NEW: usize = 4;
const PAUSE_OF_PACKET: Nanos = 4_000_000;

/// Judges by everything that went to or came from the same client, or less.
#[derive(Debug)]
pub struct Tidegate {
    basis: Basis,
    causal: bool,
    clients: Clients,
    groups: HashMap<Group, Kept>,
    /// What is kept in all, as [`MOST`] counts it.
    kept: usize,
    /// Groups with transfers that wait for a causal judgement, by the time from which it is due.
    due: BTreeSet<(Nanos, Group)>,
}

/// A transfer that is not judged yet: one with losses, or one that goes on such a transfer.
#[derive(Debug)]
struct Waiting {
    /// Its number in [`Kept::towards`].
    number: u32,
    summary: TransferSummary,
    /// See [`slow_repairs`].
    held: Held,
    shift: Option<Shift>,
    seen: Seen,
}

/// What an endpoint sent in a flow without a pause, segment by segment, since it lost packets.
#[derive(Debug)]
struct Run {
    /// The last segment.
    segment: u32,
    /// What explains its latest losses, once that is known.
    losses: Option<Losses>,
}

/// What is kept of a group.
#[derive(Debug, Default)]
struct Kept {
    towards: Towards,
    waiting: Vec<Waiting>,
    /// By flow, and by whether the client sent.
    runs: HashMap<(u64, bool), Run>,
    /// The least round-trip time in seconds.
    least_rtt: Option<f64>,
    /// When its last transfer ended, and when it was last judged.
    last: Nanos,
    judged: Option<Nanos>,
    /// Packets that were kept from before then.
    looks_back: usize,
    /// From when on it is to be judged again.
    due: Option<Nanos>,
}

impl Kept {
    fn weight(&self) -> usize {
        self.towards.arrivals.len() + self.towards.flows.len() * TRANSFER_WEIGHT
    }

    /// Takes a transfer. One without losses is judged at once, unless it goes on a transfer that had some.
    fn add(
        &mut self,
        transfer: &Transfer<'_>,
        summary: &TransferSummary,
        basis: Basis,
        verdicts: &mut Verdicts,
    ) {
        let number = self.towards.flows.len() as u32;
        let metrics = &summary.metrics;
        self.last = self.last.max(metrics.first_sent + metrics.duration);
        self.towards.flows.push(summary.id.flow);
        let before = self.towards.arrivals.len();
        let behind = summary.is_behind_losses();
        let waited = Arrival::add(&mut self.towards.arrivals, transfer, number, behind);
        let shift = Shift::is_possible(metrics)
            .then(|| Shift::of(&self.towards.arrivals[before..]))
            .flatten();
        let arrived = &mut self.towards.arrivals[before..];
        let seen = match (behind, waited) {
            (false, _) => Seen::Directly,
            (true, Some(waited)) => Seen::ByStamps(waited),
            (true, None) => Seen::Behind {
                trains: Trains::of(arrived),
                slowed: slowed(arrived),
            },
        };
        if let Seen::Behind {
            trains: Some(trains),
            ..
        } = seen
        {
            trains.blur(arrived);
        }
        if let Some(rtt) = metrics.rtt {
            let least = rtt.min as f64 / 1e9;
            self.least_rtt = Some(self.least_rtt.map_or(least, |before| before.min(least)));
        }
        let is_lossy = metrics.lost_packets >= LEAST_LOSSES as u64;
        let goes_on = self.goes_on(summary, is_lossy);
        let mut held = Held::default();
        if is_lossy {
            held.repairing = slow_repairs(transfer.sent, transfer.path.away());
        } else if might_be_starved(summary) {
            held.starved = starved(transfer.sent);
        }
        if !is_lossy && !goes_on {
            verdicts.give(
                summary.id,
                verdict::judge(
                    summary,
                    self.least_rtt,
                    held,
                    None,
                    seen,
                    shift.as_ref(),
                    basis,
                ),
            );
        } else {
            self.waiting.push(Waiting {
                number,
                summary: *summary,
                held,
                shift,
                seen,
            });
        }
    }

    /// Whether a transfer is a part of a run, which one with losses may begin. A short message of the other side, such as HTTP/2's
    /// WINDOW_UPDATE, begins a segment in the middle of a response.
    fn goes_on(&mut self, summary: &TransferSummary, is_lossy: bool) -> bool {
        let TransferId {
            flow,
            segment,
            from_client,
        } = summary.id;
        match self.runs.entry((flow, from_client)) {
            Entry::Occupied(mut run)
                if summary.under_way > 0 && run.get().segment.checked_add(1) == Some(segment) =>
            {
                run.get_mut().segment = segment;
                true
            }
            entry if is_lossy => {
                entry.insert_entry(Run {
                    segment,
                    losses: None,
                });
                false
            }
            _ => false,
        }
    }

    /// Judges the transfers that wait, by all that is kept.
    fn judge(&mut self, basis: Basis, verdicts: &mut Verdicts) {
        let waiting = mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        // Transfers come when they are done, each in the order of its packets.
        self.towards.arrivals.sort_by_key(|arrival| arrival.at);
        let explained = explain(&self.towards, basis);
        for waiting in waiting {
            let Waiting {
                number,
                summary,
                held,
                shift,
                seen,
            } = waiting;
            let losses = explained[number as usize].as_ref();
            let run = self
                .runs
                .get_mut(&(summary.id.flow, summary.id.from_client));
            let losses = match (losses, run) {
                (Some(losses), Some(run)) => {
                    run.losses = Some(*losses);
                    Some(losses)
                }
                (None, Some(run)) if summary.under_way > 0 => {
                    run.losses.as_ref().filter(|losses| losses.is_policed())
                }
                (losses, _) => losses,
            };
            let judgement = verdict::judge(
                &summary,
                self.least_rtt,
                held,
                losses,
                seen,
                shift.as_ref(),
                basis,
            );
            verdicts.give(summary.id, judgement);
        }
        self.towards.judged = self.towards.flows.len();
        self.judged = Some(self.last);
    }

    /// From when on transfers that wait are to be judged.
    fn due(&self) -> Nanos {
        let few = (self.towards.arrivals.len() - self.looks_back) * FEW_NEW < self.looks_back;
        let pause = match few {
            true => PAUSE.max(self.looks_back as Nanos * PAUSE_OF_PACKET),
            false => PAUSE,
        };
        self.judged
            .map_or(self.last, |judged| judged.saturating_add(pause))
    }

    /// Forgets all but the last packets, and transfers that have none of these.
    fn forget_old(&mut self) {
        let Towards {
            arrivals,
            flows,
            judged,
        } = &mut self.towards;
        arrivals.drain(..arrivals.len().saturating_sub(LOOKS_BACK));
        self.looks_back = arrivals.len();
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut left = Vec::new();
        for arrival in arrivals {
            arrival.transfer = *numbers.entry(arrival.transfer).or_insert_with(|| {
                left.push(flows[arrival.transfer as usize]);
                left.len() as u32 - 1
            });
        }
        *flows = left;
        *judged = flows.len();
        let left: HashSet<u64> = flows.iter().copied().collect();
        self.runs.retain(|(flow, _), _| left.contains(flow));
    }
}

impl Tidegate {
    /// A detector that takes together what belongs together up to a basis, in the whole capture.
    pub fn new(basis: Basis) -> Self {
        Self {
            basis,
            causal: false,
            clients: Clients::default(),
            groups: HashMap::new(),
            kept: 0,
            due: BTreeSet::new(),
        }
    }

    /// The same, by what came before a transfer's end, or within a second after it; within a minute of a host that sends
    /// little, and often loses some of it.
    #[must_use]
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// Judges a group and forgets it.
    fn close(&mut self, group: Group, verdicts: &mut Verdicts) {
        if let Some(mut kept) = self.groups.remove(&group) {
            self.kept -= kept.weight();
            kept.judge(group.basis(), verdicts);
        }
    }

    /// Judges the groups that have been quiet the longest, until half of the memory is free.
    fn make_room(&mut self, verdicts: &mut Verdicts) {
        let mut quietest: Vec<(Nanos, Group)> = self
            .groups
            .iter()
            .map(|(&group, kept)| (kept.last, group))
            .collect();
        quietest.sort_unstable();
        for (_, group) in quietest {
            if self.kept <= MOST / 2 {
                break;
            }
            self.close(group, verdicts);
        }
    }

    /// Judges by what is known so far the groups whose transfers have waited for long enough.
    fn judge_due(&mut self, now: Nanos, verdicts: &mut Verdicts) {
        while let Some(&(_, group)) = self.due.first().filter(|(due, _)| *due <= now) {
            self.due.pop_first();
            let Some(kept) = self.groups.get_mut(&group) else {
                continue;
            };
            let before = kept.weight();
            kept.due = None;
            kept.judge(group.basis(), verdicts);
            kept.forget_old();
            self.kept -= before - kept.weight();
        }
    }
}

impl Detector for Tidegate {
    fn clients(&mut self, clients: Clients, verdicts: &mut Verdicts) {
        if clients != self.clients {
            // What is kept belongs together by what was said before.
            self.finish(verdicts);
            self.clients = clients;
        }
    }

    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics, verdicts: &mut Verdicts) {
        let summary = TransferSummary::new(transfer, metrics);
        let is_kept = |group: &Group| self.groups.contains_key(group);
        let Some(group) = Group::among(self.clients, &summary, self.basis, is_kept) else {
            let basis = self.basis;
            let mut alone = Kept::default();
            alone.add(transfer, &summary, basis, verdicts);
            alone.judge(basis, verdicts);
            return;
        };
        let basis = group.basis();
        let kept = self.groups.entry(group).or_default();
        let before = kept.weight();
        kept.add(transfer, &summary, basis, verdicts);
        self.kept += kept.weight() - before;
        let now = kept.last;
        if self.causal && !kept.waiting.is_empty() {
            let due = kept.due();
            // It may be earlier than before, since more has come.
            if let Some(before) = kept.due.replace(due).filter(|&before| before != due) {
                self.due.remove(&(before, group));
            }
            self.due.insert((due, group));
        }
        if kept.towards.arrivals.len() > MOST_OF_GROUP {
            self.kept -= kept.weight();
            kept.judge(basis, verdicts);
            kept.towards = Towards::default();
            kept.looks_back = 0;
            kept.runs.clear();
        }
        if self.kept > MOST {
            self.make_room(verdicts);
        }
        self.judge_due(now, verdicts);
    }

    fn flow(&mut self, summary: &FlowSummary, verdicts: &mut Verdicts) {
        // Other groups may go on.
        self.close(Group::Connection(summary.info.number), verdicts);
    }

    fn finish(&mut self, verdicts: &mut Verdicts) {
        let mut groups: Vec<(Group, Kept)> = mem::take(&mut self.groups).into_iter().collect();
        groups.sort_unstable_by_key(|(group, _)| *group);
        for (group, mut kept) in groups {
            kept.judge(group.basis(), verdicts);
        }
        self.kept = 0;
        self.due.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A judgement fits all packets that are kept, however few are new: a host must not have it made each second.
    #[test]
    fn a_group_with_few_new_packets_waits_for_longer() {
        let mut kept = Kept {
            last: 7 * PAUSE,
            ..Kept::default()
        };
        kept.towards.flows.push(0);
        assert_eq!(kept.due(), kept.last, "the first judgement is made at once");
        let keeps = |kept: &mut Kept, packets: usize| {
            let packet = Arrival::observed(0, 1_518.0, false);
            kept.towards.arrivals.resize(packets, packet);
        };
        keeps(&mut kept, 2 * LOOKS_BACK);
        kept.judged = Some(kept.last);
        kept.forget_old();
        assert_eq!(kept.looks_back, LOOKS_BACK);
        for (new, pause) in [(20, 65), (LOOKS_BACK / 4 - 1, 65), (LOOKS_BACK / 4, 1)] {
            keeps(&mut kept, LOOKS_BACK + new);
            assert_eq!((kept.due() - kept.last) / PAUSE, pause, "{new} new packets");
        }
        // Few packets are judged soon.
        keeps(&mut kept, 60);
        kept.forget_old();
        keeps(&mut kept, 65);
        assert_eq!(kept.due() - kept.last, PAUSE);
    }
}
