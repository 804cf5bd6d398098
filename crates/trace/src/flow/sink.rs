//! What the flow table hands on.

use crate::annotate::{FlowInfo, Metrics, Totals, Transfer};

/// Receives what the table finds out, as soon as it is certain.
pub trait FlowSink {
    /// A segment is done: what one endpoint sent in it.
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics);

    /// A flow is done; all its transfers came before.
    fn flow(&mut self, summary: FlowSummary) {
        let _ = summary;
    }
}

/// Why a flow was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Both sides finished, or one reset it.
    Closed,
    /// Nothing came for the idle time-out.
    Idle,
    /// Its ports were taken for a new connection.
    Reused,
    /// The capture ended.
    CaptureEnd,
    /// The flow table was full, and this flow had been quiet the longest.
    Evicted,
}

/// A flow that is done.
#[derive(Debug, Clone)]
pub struct FlowSummary {
    /// Its endpoints and its beginning.
    pub info: FlowInfo,
    /// Why it ended.
    pub ended: Ended,
    /// Segments in which an endpoint sent data.
    pub segments: u64,
    /// What the client sent; `None` where that is no data.
    pub client: Option<Box<Totals>>,
    /// What the server sent.
    pub server: Option<Box<Totals>>,
}

impl FlowSummary {
    /// The endpoints that sent data, the client first.
    pub fn senders(&self) -> impl Iterator<Item = &Totals> {
        [&self.client, &self.server]
            .into_iter()
            .flatten()
            .map(|totals| &**totals)
    }
}
