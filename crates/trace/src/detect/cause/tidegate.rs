//! The detector: keeps the packets of each client until its transfers can be judged together.

use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;

use super::arrival::Arrival;

use super::limiter::{LEAST_LOSSES, Towards, explain};
use super::verdict;
use crate::annotate::{Metrics, Transfer, TransferSummary};
use crate::detect::{Basis, Detector, Verdicts};
use crate::read::Nanos;

/// Packets kept for a client. With more its transfers are judged, and what was kept is forgotten: 24
/// bytes each.
const MOST_OF_CLIENT: usize = 1 << 18;
/// Packets kept in all, a transfer counting as some. With more the quietest clients are judged.
const MOST: usize = 1 << 21;
const TRANSFER_WEIGHT: usize = 24;

/// Judges by everything that went to the same client, or less.
#[derive(Debug)]
pub struct Tidegate {
    basis: Basis,
    clients: BTreeMap<IpAddr, Client>,
    /// What is kept in all, as [`MOST`] counts it.
    kept: usize,
}

/// What went to a client.
#[derive(Debug, Default)]
struct Client {
    towards: Towards,
    /// Transfers with losses, which are not judged yet, with their numbers in `towards`.
    waiting: Vec<(u32, TransferSummary)>,
    /// The least round-trip time in seconds.
    least_rtt: Option<f64>,
    last: Nanos,
}

impl Client {
    fn weight(&self) -> usize {
        self.towards.arrivals.len() + self.towards.flows.len() * TRANSFER_WEIGHT
    }

    fn judge(&mut self, basis: Basis, verdicts: &mut Verdicts) {
        let mut towards = mem::take(&mut self.towards);
        let waiting = mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        // Transfers come when they are done, each in the order of its packets.
        towards.arrivals.sort_by_key(|arrival| arrival.at);
        let explained = explain(&towards, basis);
        for (number, summary) in waiting {
            let losses = explained[number as usize].as_ref();
            let judgement = verdict::judge(&summary, self.least_rtt, losses);
            verdicts.give(summary.id, judgement);
        }
    }
}

impl Tidegate {
    /// A detector that takes together what belongs together up to a basis.
    pub fn new(basis: Basis) -> Self {
        Self {
            basis,
            clients: BTreeMap::new(),
            kept: 0,
        }
    }

    /// Judges the clients that have been quiet the longest, until half of the memory is free.
    fn make_room(&mut self, verdicts: &mut Verdicts) {
        let mut quietest: Vec<(Nanos, IpAddr)> = self
            .clients
            .iter()
            .map(|(&address, client)| (client.last, address))
            .collect();
        quietest.sort_unstable();
        for (_, address) in quietest {
            if self.kept <= MOST / 2 {
                break;
            }
            if let Some(mut client) = self.clients.remove(&address) {
                self.kept -= client.weight();
                client.judge(self.basis, verdicts);
            }
        }
    }
}

impl Detector for Tidegate {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics, verdicts: &mut Verdicts) {
        let summary = TransferSummary::new(transfer, metrics);
        let client = self.clients.entry(transfer.receiver.ip()).or_default();
        let number = client.towards.flows.len() as u32;
        let before = client.weight();
        client.last = metrics.first_sent + metrics.duration;
        client.towards.flows.push(transfer.flow.number);
        client
            .towards
            .arrivals
            .extend(Arrival::of(transfer, number));
        if let Some(rtt) = metrics.rtt {
            let least = rtt.min as f64 / 1e9;
            client.least_rtt = Some(client.least_rtt.map_or(least, |before| before.min(least)));
        }
        if metrics.lost_packets < LEAST_LOSSES as u64 {
            verdicts.give(summary.id, verdict::judge(&summary, client.least_rtt, None));
        } else {
            client.waiting.push((number, summary));
        }
        self.kept += client.weight() - before;
        if client.towards.arrivals.len() > MOST_OF_CLIENT {
            self.kept -= client.weight();
            client.judge(self.basis, verdicts);
        }
        if self.kept > MOST {
            self.make_room(verdicts);
        }
    }

    fn finish(&mut self, verdicts: &mut Verdicts) {
        for (_, mut client) in mem::take(&mut self.clients) {
            client.judge(self.basis, verdicts);
        }
        self.kept = 0;
    }
}
