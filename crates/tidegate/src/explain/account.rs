//! One flow, kept whole: what the story and the picture are drawn from.

use std::collections::HashMap;

use tidegate_trace::Sink;
use tidegate_trace::annotate::{
    FlowInfo, Layer, Metrics, Sent, Transfer, TransferId, TransferSummary,
};
use tidegate_trace::detect::{Cause, Judgement};
use tidegate_trace::flow::{Ended, FlowSummary};
use tidegate_trace::read::Nanos;

use crate::cli::{Explain, Side, UsageError};
use crate::units::rate;

/// A transfer, kept with all its packets.
pub(super) struct Kept {
    pub transfer: TransferSummary,
    pub sent: Vec<Sent>,
    pub judgement: Judgement,
}

impl Kept {
    /// The policer's rate as payload, in bit/s.
    pub fn policed_rate(&self) -> Option<f64> {
        self.judgement
            .policed_rate(&self.transfer.tally, Layer::Payload)
    }

    /// The verdict in a few words.
    pub fn headline(&self) -> String {
        let Judgement { cause, reason, .. } = &self.judgement;
        match (cause, self.policed_rate()) {
            (Cause::Policer, Some(policed)) => format!("policed at {}", rate(policed)),
            (Cause::Policer, None) => format!("policed: {reason}"),
            (Cause::Unclear, _) => format!("not found to be policed: {reason}"),
            _ => format!("{cause}: {reason}"),
        }
    }
}

/// Everything that the story and the picture say about a flow.
pub(super) struct Account {
    pub capture: String,
    pub capture_start: Nanos,
    pub info: FlowInfo,
    pub ended: Ended,
    pub detector: &'static str,
    /// The transfers of the side that the story is about, in order.
    pub transfers: Vec<Kept>,
}

/// Keeps one flow.
pub(super) struct Keeper {
    number: u64,
    segment: Option<u32>,
    start: Option<Nanos>,
    /// The packets of transfers that are not judged yet.
    sent: HashMap<TransferId, Vec<Sent>>,
    kept: Vec<Kept>,
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
            sent: HashMap::new(),
            kept: Vec::new(),
            flow: None,
            flows: 0,
        }
    }
}

impl Sink for Keeper {
    fn begin(&mut self, at: Nanos) {
        self.start = Some(at);
    }

    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics) {
        let wanted = self
            .segment
            .is_none_or(|segment| segment == transfer.segment);
        if transfer.flow.number == self.number && wanted {
            self.sent.insert(transfer.id(), transfer.sent.to_vec());
        }
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if let Some(sent) = self.sent.remove(&transfer.id) {
            self.kept.push(Kept {
                transfer: *transfer,
                sent,
                judgement,
            });
        }
    }

    fn flow(&mut self, summary: FlowSummary) {
        self.flows += 1;
        if summary.info.number == self.number {
            self.flow = Some((summary.info, summary.ended));
        }
    }
}

impl Keeper {
    /// What was kept, of the side that the options ask for.
    pub fn account(
        self,
        name: &str,
        detector: &'static str,
        options: &Explain,
    ) -> anyhow::Result<Account> {
        let number = self.number;
        let Some((info, ended)) = self.flow else {
            let flows = match self.flows {
                0 => "the capture holds no TCP flows".to_owned(),
                1 => "the only flow is 0".to_owned(),
                n => format!("flows are numbered 0 to {}", n - 1),
            };
            return Err(UsageError(format!("{name}: no flow {number}: {flows}")).into());
        };
        let packets = |client: bool| -> usize {
            self.kept
                .iter()
                .filter(|kept| kept.transfer.id.from_client == client)
                .map(|kept| kept.sent.len())
                .sum()
        };
        let client = match options.from {
            Some(side) => side == Side::Client,
            None => packets(true) > packets(false),
        };
        let mut transfers = self.kept;
        transfers.retain(|kept| kept.transfer.id.from_client == client);
        transfers.sort_by_key(|kept| kept.transfer.id);
        if transfers.is_empty() {
            let what = match options.segment {
                Some(segment) => format!("segment {segment} of flow {number}"),
                None => format!("flow {number}"),
            };
            return Err(UsageError(format!(
                "{name}: that side sent no data in {what}; try --from with the other side"
            ))
            .into());
        }
        Ok(Account {
            capture: name.to_owned(),
            capture_start: self.start.unwrap_or(info.started_at),
            info,
            ended,
            detector,
            transfers,
        })
    }
}
