//! Segments with their verdicts to the draft of a dataset.

use std::sync::Arc;

use tidegate_dataset::{Draft, Error, Networks, Shares};
use tidegate_trace::Sink;
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::Judgement;
use tidegate_trace::read::{Nanos, Sampled};
use tidegate_trace::rows::SegmentRow;

use crate::pipeline::is_wanted;

/// Hands the segments of a capture on to its draft.
pub struct Segments<'a> {
    pub networks: &'a Networks,
    pub detector: &'static str,
    /// Only flows with one of these ports, if there are any.
    pub ports: &'a [u16],
    pub file: Arc<str>,
    /// When the capture's first packet was captured.
    pub start: Nanos,
    /// Without a draft, rows are left out.
    pub draft: Option<Draft<'a>>,
    /// The share of all flows that the capture holds.
    pub shares: Shares,
    /// Whether the capture may say its share itself.
    pub believes: bool,
    /// Whether addresses are pseudonyms. They have no networks.
    pub pseudonyms: bool,
    /// Why rows are missing.
    pub error: Option<Error>,
}

impl Sink for Segments<'_> {
    fn begin(&mut self, at: Nanos) {
        self.start = at;
    }

    fn sampled(&mut self, from: Nanos, said: Option<&Sampled>) {
        self.pseudonyms |= said.is_some_and(|said| said.pseudonyms);
        if self.believes {
            self.shares
                .change(from, said.map_or(1.0, |said| said.share));
        }
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let Some(draft) = &mut self.draft else { return };
        if self.error.is_some() || !is_wanted(&transfer.flow, self.ports) {
            return;
        }
        let metrics = &transfer.metrics;
        let end = metrics.first_sent.saturating_add(metrics.duration);
        let row = SegmentRow {
            file: Arc::clone(&self.file),
            capture_start: self.start,
            transfer: *transfer,
            detector: self.detector,
            judgement,
        };
        let sampled = self.shares.during(metrics.first_sent, end);
        let networks = match self.pseudonyms {
            true => &Networks::default(),
            false => self.networks,
        };
        self.error = draft.add([row], networks, sampled).err();
    }
}
