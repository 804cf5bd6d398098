//! What every detector implements.

use super::judgement::Judgement;
use crate::annotate::{Metrics, Transfer, TransferId};
use crate::flow::FlowSummary;
use crate::read::Clients;

/// Something that judges what limited transfers.
///
/// An [`Analysis`](crate::Analysis) shows it every transfer, as soon as its packets are certain, the
/// end of every flow, and the end of the capture. Each transfer gets one judgement, through
/// [`Verdicts::give`]: at once, or later where the detector wants to see the rest of the
/// connection, the client's other connections, or the whole capture first. A transfer's packets
/// are there during [`transfer`](Self::transfer) only: a detector that judges late keeps what it
/// needs of them. It must bound what it keeps: it judges earlier where that becomes too much. A
/// transfer without a judgement at the end of the capture is `unclear`.
///
/// To add a detector: write a file in `detect/` with a type that implements this trait, and name
/// it in [`DETECTORS`](super::DETECTORS). The command line, its help, the columns and the fuzz
/// targets take it from there.
pub trait Detector: Send {
    /// Which addresses are one client, of flows that end from now on. Unless this is said, each is one.
    fn clients(&mut self, clients: Clients, verdicts: &mut Verdicts) {
        let _ = (clients, verdicts);
    }

    /// Takes a transfer that is done.
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics, verdicts: &mut Verdicts);

    /// A flow is over; all its transfers came before.
    fn flow(&mut self, summary: &FlowSummary, verdicts: &mut Verdicts) {
        let _ = (summary, verdicts);
    }

    /// The capture is over, or a part of traffic without an end: the last time to judge all transfers so far.
    fn finish(&mut self, verdicts: &mut Verdicts) {
        let _ = verdicts;
    }
}

/// Where a detector puts its judgements.
#[derive(Debug, Default)]
pub struct Verdicts {
    given: Vec<(TransferId, Judgement)>,
}

impl Verdicts {
    /// Gives the judgement on a transfer: the present one, or an earlier one. The first judgement on
    /// a transfer counts.
    pub fn give(&mut self, transfer: TransferId, judgement: Judgement) {
        self.given.push((transfer, judgement));
    }

    /// Takes out what was given, in that order.
    pub fn take(&mut self) -> impl Iterator<Item = (TransferId, Judgement)> + '_ {
        self.given.drain(..)
    }
}
