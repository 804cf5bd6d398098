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
const MOST_CLIENTS: usize = if cfg!(test) { 64 } else { 1 << 17 };

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
    /// How many of them hold flows that are over.
    with_flows: usize,
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
                let sums = self.sums.entry(client).or_default();
                self.with_flows += usize::from(sums.flows == 0);
                sums.add(flow, totals);
            }
        }
        // Those that have verdicts only are as many as flows are active, and no more.
        if self.with_flows <= MOST_CLIENTS {
            return Vec::new();
        }
        // Before a flow of a client is over, nothing is known of when it was quiet.
        let end = |sums: &ClientSums| {
            let end = sums.metrics.first_sent + sums.metrics.duration;
            (sums.flows > 0).then_some(end)
        };
        let mut ends: Vec<Nanos> = self.sums.values().filter_map(end).collect();
        let middle = ends.len() / 2;
        let middle = *ends.select_nth_unstable(middle).1;
        let all = std::mem::take(&mut self.sums).into_iter();
        let (quiet, rest): (BTreeMap<_, _>, _) =
            all.partition(|(_, sums)| end(sums).is_some_and(|end| end <= middle));
        self.sums = rest;
        self.with_flows -= quiet.len();
        rows(quiet, file, capture_start)
    }

    /// The rows of all clients that are left, when the capture is over.
    pub fn finish(&mut self, file: &Arc<str>, capture_start: Nanos) -> Vec<ClientRow> {
        self.with_flows = 0;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotate::Totals;
    use crate::detect::Cause;
    use crate::flow::Ended;
    use crate::read::Nanos;
    use crate::testing::{Made, START};

    fn client(n: usize) -> IpAddr {
        IpAddr::from([10, 0, (n >> 8) as u8, n as u8])
    }

    fn ended(n: usize) -> FlowSummary {
        let mut info = *Made::new().transfer().flow;
        info.client = std::net::SocketAddr::from((client(n), 50_000)).into();
        let mut totals = Totals::default();
        totals.metrics.first_sent = START + n as Nanos;
        FlowSummary {
            info,
            ended: Ended::Closed,
            segments: 1,
            client: None,
            server: Some(Box::new(totals)),
        }
    }

    /// A client whose first flow lasts has no times yet, which is not the same as having been quiet
    /// since 1970.
    #[test]
    fn clients_of_which_no_flow_has_ended_get_no_row_early() {
        let file: Arc<str> = "a.pcap".into();
        let mut rows = ClientRows::default();
        let made = Made::new();
        let mut transfer = TransferSummary::new(&made.transfer(), &Default::default());
        let busy = MOST_CLIENTS + 1..MOST_CLIENTS + 11;
        for n in busy.clone() {
            transfer.flow.client = ended(n).info.client;
            rows.verdict(&transfer, &Judgement::new(Cause::Sender, "for a test"));
        }
        let mut early = Vec::new();
        for n in 0..=MOST_CLIENTS {
            assert!(early.is_empty(), "there are not too many yet");
            early = rows.flow(&file, START, &ended(n));
        }
        assert!(early.iter().all(|row| row.sums.flows == 1));
        let quietest: Vec<IpAddr> = (0..=MOST_CLIENTS / 2).map(client).collect();
        let found: Vec<IpAddr> = early.iter().map(|row| row.client).collect();
        assert_eq!(found, quietest);
        for n in busy.clone() {
            rows.flow(&file, START, &ended(n));
        }
        let rest = rows.finish(&file, START);
        assert!(rest.iter().all(|row| row.sums.flows == 1));
        assert!(rest.iter().any(|row| row.client == client(busy.start)));
        assert_eq!(early.len() + rest.len(), MOST_CLIENTS + 1 + busy.len());
    }
}
