//! Rows of flows and clients, from the verdicts and the ends of flows that a sink sees.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::{ClientRow, ClientSums, FlowRow};
use crate::annotate::TransferSummary;
use crate::detect::{Judgement, Together};
use crate::flow::FlowSummary;
use crate::read::Nanos;

/// Clients of a capture whose sums are kept: about 1 kB each.
const MOST_CLIENTS: usize = 1 << 17;

/// Makes the rows of flows.
#[derive(Debug, Default)]
pub struct FlowRows {
    /// Verdicts on segments of flows that are not done, by flow and side, and how many are policed.
    verdicts: HashMap<(u64, bool), (Together, u64)>,
}

impl FlowRows {
    /// Takes a verdict.
    pub fn verdict(&mut self, transfer: &TransferSummary, judgement: &Judgement) {
        let id = transfer.id;
        let verdicts = self.verdicts.entry((id.flow, id.from_client)).or_default();
        verdicts.0.add(transfer, judgement);
        verdicts.1 += u64::from(judgement.is_policed());
    }

    /// The rows of a flow that is over: one for each side that sent data.
    pub fn flow(
        &mut self,
        file: &Arc<str>,
        capture_start: Nanos,
        summary: FlowSummary,
    ) -> impl Iterator<Item = FlowRow> {
        let info = summary.info;
        let mut row = |from_client, totals: Option<Box<_>>| {
            let verdicts = self.verdicts.remove(&(info.number, from_client));
            let (together, policed_segments) = verdicts.unwrap_or_default();
            let (sender, receiver) = match from_client {
                true => (info.client, info.server),
                false => (info.server, info.client),
            };
            Some(FlowRow {
                file: Arc::clone(file),
                capture_start,
                info,
                ended: summary.ended,
                sender,
                receiver,
                totals: *totals?,
                policed_segments,
                judgement: together.judgement(),
            })
        };
        let rows = [row(true, summary.client), row(false, summary.server)];
        rows.into_iter().flatten()
    }
}

/// Makes the rows of clients.
#[derive(Debug, Default)]
pub struct ClientRows {
    /// Sums by client and side.
    sums: BTreeMap<(IpAddr, bool), ClientSums>,
}

impl ClientRows {
    /// Takes a verdict.
    pub fn verdict(&mut self, transfer: &TransferSummary, judgement: &Judgement) {
        let client = (transfer.flow.client.ip(), transfer.id.from_client);
        let sums = self.sums.entry(client).or_default();
        sums.together.add(transfer, judgement);
        sums.policed += u64::from(judgement.is_policed());
    }

    /// Adds a flow to the sums of its client. Where there are too many clients, those that have been quiet the
    /// longest get their rows early.
    pub fn flow(
        &mut self,
        file: &Arc<str>,
        capture_start: Nanos,
        flow: &FlowSummary,
    ) -> Vec<ClientRow> {
        for (from_client, totals) in [(true, &flow.client), (false, &flow.server)] {
            if let Some(totals) = totals {
                let client = (flow.info.client.ip(), from_client);
                self.sums.entry(client).or_default().add(flow, totals);
            }
        }
        if self.sums.len() <= MOST_CLIENTS {
            return Vec::new();
        }
        let end = |sums: &ClientSums| sums.metrics.first_sent + sums.metrics.duration;
        let mut ends: Vec<Nanos> = self.sums.values().map(end).collect();
        let middle = ends.len() / 2;
        let middle = *ends.select_nth_unstable(middle).1;
        let all = std::mem::take(&mut self.sums).into_iter();
        let (quiet, rest) = all.partition(|(_, sums)| end(sums) <= middle);
        self.sums = rest;
        rows(quiet, file, capture_start)
    }

    /// The rows of all clients that are left, when the capture is over.
    pub fn finish(&mut self, file: &Arc<str>, capture_start: Nanos) -> Vec<ClientRow> {
        rows(std::mem::take(&mut self.sums), file, capture_start)
    }
}

fn rows(
    sums: BTreeMap<(IpAddr, bool), ClientSums>,
    file: &Arc<str>,
    capture_start: Nanos,
) -> Vec<ClientRow> {
    let row = |((client, from_client), sums): (_, ClientSums)| ClientRow {
        file: Arc::clone(file),
        capture_start,
        client,
        from_client,
        judgement: sums.together.judgement(),
        sums,
    };
    sums.into_iter().map(row).collect()
}
