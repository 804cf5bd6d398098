//! A row for each transfer that was completed.

use tidegate_table::convert::seconds;
use tidegate_table::{Column, Row};

use super::{Flow, Simulation};
use crate::experiment::Finished;
use crate::outcome::Completion;

/// A transfer.
#[derive(Debug, Clone)]
pub struct LabTransferRow {
    flow: Flow,
    transfer: Completion,
    /// Of a segment of an adaptive video, in bit/s.
    quality: Option<u64>,
}

impl LabTransferRow {
    /// The transfers of a simulation.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let mut rows = Vec::new();
        for (index, outcome) in finished.outcome.flows.iter().enumerate() {
            let flow = Flow::new(of, finished, index);
            let qualities = outcome.adaptive.as_ref();
            let qualities = qualities.map_or(&[][..], |adaptive| &adaptive.qualities);
            let transfers = outcome.completions.iter().enumerate();
            rows.extend(transfers.map(|(number, &transfer)| Self {
                flow: flow.clone(),
                transfer,
                quality: qualities.get(number).copied(),
            }));
        }
        rows
    }
}

impl Row for LabTransferRow {
    const TITLE: &'static str = "a transfer that was completed: a download, a chunk or segment of video, an on period, a visit of a page";

    fn columns() -> &'static [Column<Self>] {
        TRANSFER
    }
}

const TRANSFER: &[Column<LabTransferRow>] = flow_columns! { LabTransferRow;
    start_s: Real ["s"] "When it was requested, or its first byte was written." = |r| seconds(r.transfer.start);
    duration_s: Real ["s"] "From then to its last byte at the client." = |r| seconds(r.transfer.end.saturating_sub(r.transfer.start));
    bytes: Integer ["B"] "Its payload." = |r| r.transfer.bytes;
    quality_bps: Integer ["bit/s"] "Of a segment of an adaptive video, the encoding rate." = |r| r.quality;
};
