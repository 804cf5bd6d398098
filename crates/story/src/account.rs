//! What is kept of a capture to explain one transfer of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tidegate_trace::Sink;
use tidegate_trace::annotate::{
    FlowInfo, Layer, Metrics, Sent, Transfer, TransferId, TransferSummary,
};
use tidegate_trace::detect::cause::{Arrival, Findings, Group};
use tidegate_trace::detect::{Basis, Cause, Judgement};
use tidegate_trace::flow::{Ended, FlowSummary};
use tidegate_trace::read::{Clients, Nanos, Sampled};

use crate::headline;

/// Packets of the flow that are kept, at 56 bytes each. With more, the shortest transfers lose theirs: the
/// picture leaves them out.
const MOST_PACKETS: usize = 1 << 22;
/// Transfers of each side of the flow that are kept: those that took longest.
pub(crate) const MOST_TRANSFERS: usize = 10_000;
/// Packets of all flows that are kept for what connections share, at 24 bytes each.
const MOST_ARRIVALS: usize = 1 << 22;
/// Other flows that are listed, each with its longest transfer.
const MOST_OTHERS: usize = 10;

/// The capture has no such transfer; it says what there is instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Absent(String);

/// A transfer and the judgement on it.
pub struct Kept {
    /// Its measures.
    pub transfer: TransferSummary,
    /// Its packets; none where there were too many.
    pub sent: Vec<Sent>,
    /// How many data packets its sender had sent in the flow before.
    pub first_number: u64,
    /// The stream position that relative sequence number 0 stands for; see [`Transfer::origin`].
    pub origin: u64,
    /// What limited it.
    pub judgement: Judgement,
}

impl Kept {
    /// The policer's rate as payload, in bit/s.
    pub fn policed_rate(&self) -> Option<f64> {
        self.judgement
            .policed_rate(&self.transfer.tally, Layer::Payload)
    }

    /// What the detector `tidegate` measured.
    pub fn findings(&self) -> Option<&Findings> {
        self.judgement.details()
    }

    /// Time with data in flight: how long somebody waited for it.
    pub fn busy(&self) -> Nanos {
        busy(&self.transfer.metrics, self.transfer.tally.idle)
    }
}

fn busy(metrics: &Metrics, idle: Nanos) -> Nanos {
    metrics.duration.saturating_sub(idle)
}

/// A transfer of another flow.
pub struct Other {
    /// Which transfer it is.
    pub id: TransferId,
    /// Time with data in flight.
    pub busy: Nanos,
    /// Payload delivered over the duration, in bit/s.
    pub goodput_bps: Option<f64>,
    /// What limited it.
    pub cause: Cause,
    /// That in a few words.
    pub words: String,
}

/// Everything that is said and drawn of a transfer.
pub struct Account {
    /// The capture's name.
    pub capture: String,
    /// When its first packet was captured.
    pub capture_start: Nanos,
    /// The flow.
    pub info: FlowInfo,
    /// Why the flow ended.
    pub ended: Ended,
    /// The detector's name.
    pub detector: &'static str,
    /// The transfers of one side of the flow, in order.
    pub transfers: Vec<Kept>,
    /// How many more there were, which took less time.
    pub left_out: u64,
    /// Which of these is explained.
    chosen: usize,
    /// The longest transfers of the other flows that took longest.
    pub others: Vec<Other>,
    /// The packets that limiters met, of all flows.
    pub together: Together,
}

impl Account {
    /// The transfer that is explained.
    pub fn chosen(&self) -> &Kept {
        &self.transfers[self.chosen]
    }

    /// What endpoint sent the data.
    pub fn side(&self) -> &'static str {
        if self.chosen().transfer.id.from_client {
            "client"
        } else {
            "server"
        }
    }
}

/// The packets of all flows as a limiter meets them.
#[derive(Default)]
pub struct Together {
    groups: BTreeMap<Group, Members>,
    clients: Clients,
    kept: usize,
    too_many: bool,
}

/// Transfers that are judged together, and their packets.
#[derive(Default)]
struct Members {
    arrivals: Vec<Arrival>,
    transfers: Vec<TransferId>,
}

impl Together {
    fn add(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        self.kept += transfer.sent.len();
        if self.kept > MOST_ARRIVALS {
            self.too_many = true;
            self.groups.clear();
        }
        let summary = TransferSummary::new(transfer, metrics);
        let is_kept = |group: &Group| self.groups.contains_key(group);
        let group = Group::among(self.clients, &summary, Basis::Client, is_kept);
        let Some(group) = group.filter(|_| !self.too_many) else {
            return;
        };
        let members = self.groups.entry(group).or_default();
        let number = members.transfers.len() as u32;
        members.transfers.push(summary.id);
        let behind = summary.is_behind_losses();
        Arrival::add(&mut members.arrivals, transfer, number, behind);
    }

    /// The packets that are judged together with a transfer, of those transfers that are wanted, by
    /// time, each with its transfer. `None` where there were too many to keep.
    pub fn with(
        &self,
        transfer: TransferId,
        wanted: impl Fn(TransferId) -> bool,
    ) -> Option<Vec<(TransferId, Arrival)>> {
        let mut groups = self.groups.values();
        let members = groups.find(|members| members.transfers.contains(&transfer))?;
        let all = members.arrivals.iter();
        let mut arrivals: Vec<(TransferId, Arrival)> = all
            .map(|arrival| (members.transfers[arrival.transfer as usize], *arrival))
            .filter(|(id, _)| wanted(*id))
            .collect();
        arrivals.sort_by_key(|(_, arrival)| arrival.at);
        Some(arrivals)
    }
}

/// Finds the transfer that had data in flight for the longest time: the one that somebody waited for.
pub struct Longest {
    from_client: Option<bool>,
    best: Option<(Nanos, Reverse<TransferId>)>,
}

impl Longest {
    /// Among the transfers of one side, or of both.
    pub fn new(from_client: Option<bool>) -> Self {
        Self {
            from_client,
            best: None,
        }
    }

    /// The number of its flow.
    pub fn flow(&self) -> Option<u64> {
        self.best.map(|(_, Reverse(id))| id.flow)
    }
}

impl Sink for Longest {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        let id = transfer.id();
        if self.from_client.is_none_or(|side| side == id.from_client) {
            let found = (busy(metrics, transfer.tally.idle), Reverse(id));
            self.best = self.best.max(Some(found));
        }
    }
}

/// A transfer that is not judged yet.
struct Waiting {
    busy: Nanos,
    sent: Vec<Sent>,
    first_number: u64,
    origin: u64,
}

/// Transfers of one side of a flow, those that took longest.
#[derive(Default)]
struct Side {
    /// By their time with data in flight; of two with the same the first is the longer one.
    kept: BTreeMap<(Nanos, Reverse<TransferId>), Kept>,
    left_out: u64,
}

impl Side {
    /// Keeps a transfer, and returns the one that is given up for it.
    fn add(&mut self, kept: Kept) -> Option<Kept> {
        self.kept
            .insert((kept.busy(), Reverse(kept.transfer.id)), kept);
        if self.kept.len() <= MOST_TRANSFERS {
            return None;
        }
        self.left_out += 1;
        self.kept.pop_first().map(|(_, shortest)| shortest)
    }

    fn longest(&self) -> Option<(Nanos, Reverse<TransferId>)> {
        self.kept.last_key_value().map(|(key, _)| *key)
    }
}

/// Keeps one flow, and what is needed of the others.
pub struct Keeper {
    number: u64,
    segment: Option<u32>,
    start: Option<Nanos>,
    /// Transfers that are not judged yet.
    waiting: BTreeMap<TransferId, Waiting>,
    /// Those of the server, and of the client.
    sides: [Side; 2],
    /// Packets that are kept in both.
    packets: usize,
    others: Vec<Other>,
    together: Together,
    flow: Option<(FlowInfo, Ended)>,
    flows: u64,
}

impl Keeper {
    /// Keeps the flow of this number, or one of its segments.
    pub fn new(number: u64, segment: Option<u32>) -> Self {
        Self {
            number,
            segment,
            start: None,
            waiting: BTreeMap::new(),
            sides: Default::default(),
            packets: 0,
            others: Vec::new(),
            together: Together::default(),
            flow: None,
            flows: 0,
        }
    }

    fn wants(&self, id: TransferId) -> bool {
        id.flow == self.number && self.segment.is_none_or(|segment| segment == id.segment)
    }

    /// Lists a transfer if it is the longest of its flow, and among the longest of all.
    fn list(&mut self, transfer: &TransferSummary, judgement: &Judgement) {
        let busy = busy(&transfer.metrics, transfer.tally.idle);
        let known = self
            .others
            .iter()
            .position(|other| other.id.flow == transfer.id.flow);
        let displaced = match known {
            Some(place) => Some(place),
            None if self.others.len() >= MOST_OTHERS => Some(self.others.len() - 1),
            None => None,
        };
        if let Some(place) = displaced {
            if busy <= self.others[place].busy {
                return;
            }
            self.others.swap_remove(place);
        }
        self.others.push(Other {
            id: transfer.id,
            busy,
            goodput_bps: transfer.metrics.goodput_bps(),
            cause: judgement.cause,
            words: headline::in_short(transfer, judgement),
        });
        self.others
            .sort_by_key(|other| (Reverse(other.busy), other.id));
    }

    /// Forgets the packets of the shortest transfers until the rest fits.
    fn make_room(&mut self) {
        while self.packets > MOST_PACKETS {
            let waiting = self.waiting.values_mut();
            let waiting = waiting.map(|waiting| (waiting.busy, &mut waiting.sent));
            let kept = self.sides.iter_mut();
            let kept = kept.flat_map(|side| side.kept.values_mut());
            let kept = kept.map(|kept| (kept.busy(), &mut kept.sent));
            let with_packets = waiting.chain(kept).filter(|(_, sent)| !sent.is_empty());
            let Some((_, shortest)) = with_packets.min_by_key(|(busy, _)| *busy) else {
                return;
            };
            self.packets -= shortest.len();
            *shortest = Vec::new();
        }
    }
}

impl Sink for Keeper {
    fn begin(&mut self, at: Nanos) {
        self.start = Some(at);
    }

    fn sampled(&mut self, _: Nanos, said: Option<&Sampled>) {
        let clients = said.map(|said| said.clients).unwrap_or_default();
        if clients != self.together.clients {
            // What was kept until now was judged in other groups.
            self.together = Together {
                clients,
                ..Together::default()
            };
        }
    }

    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        self.together.add(transfer, metrics);
        if self.wants(transfer.id()) {
            self.packets += transfer.sent.len();
            let waiting = Waiting {
                busy: busy(metrics, transfer.tally.idle),
                sent: transfer.sent.to_vec(),
                first_number: transfer.first_number,
                origin: transfer.origin,
            };
            self.waiting.insert(transfer.id(), waiting);
            self.make_room();
        }
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let Some(waiting) = self.waiting.remove(&transfer.id) else {
            if transfer.id.flow != self.number {
                self.list(transfer, &judgement);
            }
            return;
        };
        let given_up = self.sides[usize::from(transfer.id.from_client)].add(Kept {
            transfer: *transfer,
            sent: waiting.sent,
            first_number: waiting.first_number,
            origin: waiting.origin,
            judgement,
        });
        self.packets -= given_up.map_or(0, |kept| kept.sent.len());
    }

    fn flow(&mut self, summary: FlowSummary) {
        self.flows += 1;
        if summary.info.number == self.number {
            self.flow = Some((summary.info, summary.ended));
        }
    }
}

impl Keeper {
    /// What was kept, of one side or of the side with the longest transfer.
    ///
    /// # Errors
    /// If the capture has no such flow or segment, or that side sent no data in it.
    pub fn account(
        self,
        name: &str,
        detector: &'static str,
        from_client: Option<bool>,
    ) -> Result<Account, Absent> {
        let number = self.number;
        let Some((info, ended)) = self.flow else {
            let flows = match self.flows {
                0 => "the capture holds no TCP flows".to_owned(),
                1 => "the only flow is 0".to_owned(),
                n => format!("flows are numbered 0 to {}", n - 1),
            };
            return Err(Absent(format!("{name}: no flow {number}: {flows}")));
        };
        let [server, client] = self.sides;
        let side = match from_client.unwrap_or_else(|| client.longest() > server.longest()) {
            true => client,
            false => server,
        };
        let Some((_, Reverse(longest))) = side.longest() else {
            let what = match self.segment {
                Some(segment) => format!("segment {segment} of flow {number}"),
                None => format!("flow {number}"),
            };
            let message = match from_client {
                Some(_) => format!(
                    "{name}: that side sent no data in {what}; try --from with the other side"
                ),
                None => format!("{name}: {what} has no data"),
            };
            return Err(Absent(message));
        };
        let mut transfers: Vec<Kept> = side.kept.into_values().collect();
        transfers.sort_by_key(|kept| kept.transfer.id);
        let chosen = transfers.partition_point(|kept| kept.transfer.id < longest);
        Ok(Account {
            capture: name.to_owned(),
            capture_start: self.start.unwrap_or(info.started_at),
            info,
            ended,
            detector,
            transfers,
            left_out: side.left_out,
            chosen,
            others: self.others,
            together: self.together,
        })
    }
}

#[cfg(test)]
mod tests;
